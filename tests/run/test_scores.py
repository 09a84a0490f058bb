"""A model that gives every case the same score, or only 0 and 1, is named whatever audits run."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.commands.audit import audit
from palpate.results import AuditResult

ODD = {"flat": "0.3", "decided": "1.0 * ('day day day' in text)", "fine": "0.2 + 0.001 * (len(text) % 50)"}


def ran(folder: Path, model: str, audits: str) -> list[AuditResult]:
    said = ["He has pain in the chest", "She feels well today", "The patient has a cough", "A woman with fever"]
    rows = "\n".join(f"c{k},p{k},test,{said[k % 4]} since {'day ' * (k % 7)},{k // 4 % 2}" for k in range(80))
    (folder / "notes.csv").write_text(f"case_id,patient_id,split,text,ill\n{rows}\n")
    (folder / f"odd_{model}.py").write_text(f"def f(texts):\n    return [{ODD[model]} for text in texts]\n")
    (folder / "audit.yaml").write_text(
        "cohort: {file: notes.csv, labels: [ill]}\n"
        f'models: {{{model}: "python:odd_{model}:f"}}\ncache: cache.sqlite\naudits: {audits}\n'
    )
    return audit(folder / "audit.yaml", out=folder / "run").results


def first_rank(results: list[AuditResult], start: str) -> list[str]:
    found = [f.sentence for r in results for f in r.findings if f.kind == "concern" and f.question is None]
    return [sentence for sentence in found if sentence.startswith(start)]


GENDER = "{characteristics: {alter: [gender], n_replicates: 100}}"


@pytest.mark.parametrize(
    "audits", [GENDER, "{performance: {n_replicates: 200}}", "{data: false, characteristics: {alter: [gender]}}"]
)
def test_a_constant_model_is_named_once_whatever_audits_run(tmp_path: Path, audits: str) -> None:
    results = ran(tmp_path, "flat", audits)
    assert len(first_rank(results, "flat gives every case the same score")) == 1


def test_nothing_reassures_about_a_constant_model_and_no_number_of_patients_settles_it(tmp_path: Path) -> None:
    (result,) = (each for each in ran(tmp_path, "flat", GENDER) if each.audit == "characteristics")
    assert {(each.verdict, each.needed, each.reason) for each in result.answers} == {
        ("unsettled", None, "flat gives every case the same score")
    }
    assert not any("would settle" in finding.sentence for finding in result.findings)


def test_decisions_instead_of_probabilities_are_named_and_other_models_are_not(tmp_path: Path) -> None:
    assert len(first_rank(ran(tmp_path, "decided", GENDER), "decided gives only 0 and 1")) == 1
    (tmp_path / "fine").mkdir()
    assert first_rank(ran(tmp_path / "fine", "fine", GENDER), "fine gives") == []
