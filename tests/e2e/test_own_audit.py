"""An audit in a file beside audit.yaml, without packaging."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.e2e.command_line import CommandLine

AUDIT = '''
from dataclasses import dataclass
from typing import ClassVar

from palpate import kit


@dataclass(frozen=True)
class Typos:
    """Does the prediction change when the first n letters are doubled?"""

    name: ClassVar[str] = "typos"
    n: kit.Count = 1
    split: str = "test"

    def plan(self, cohort, rng):
        rows = kit.audited_rows(self.name, cohort, cohort.names[0], self.split)
        builder = kit.VariantsBuilder(n_cases=len(cohort))
        for row in rows.tolist():
            builder.add(row, "original")
            builder.add(row, "typo", [kit.Edit(0, 0, cohort.texts[row][: self.n])])
        return kit.Plan(cohort, builder.build(), cohort.labels, cases=rows)

    def analyse(self, plan, predictions, rng):
        before, after = (plan.variants.rows_of(group) for group in ("original", "typo"))
        writer = kit.RowWriter(self.name)
        rows = [
            writer.mean(model, "mean_change", label, f"{self.n} letters",
                        answers.p[after, k] - answers.p[before, k], plan.cohort.patients[plan.cases],
                        rng=int(rng.integers(2**63)), n_replicates=100)
            for model, answers in predictions.items()
            for k, label in enumerate(plan.labels)
        ]
        return kit.AuditResult(self.name, kit.estimates_frame(rows))


class NotOne:
    name = "not_one"


@dataclass(frozen=True)
class Clash(Typos):
    name: ClassVar[str] = "performance"
'''
MODEL = "def score(texts):\n    return [min(1.0, len(text) / 100) for text in texts]\n"
CONFIG = """
cohort: {{file: notes.csv, labels: [ill]}}
models: {{length: "python:own_model_17:score"}}
audits:
  {audit}
{more}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    (tmp_path / "own_audit_17.py").write_text(AUDIT)
    (tmp_path / "own_model_17.py").write_text(MODEL)
    (tmp_path / "notes.csv").write_text("text,ill\nfever and chills,1\nwell,0\nsome fever,1\nno complaints,0\n")
    return tmp_path


def write(folder: Path, audit: str, more: str = "") -> Path:
    (folder / "audit.yaml").write_text(CONFIG.format(audit=audit, more=more))
    return folder / "audit.yaml"


def test_an_audit_without_packaging(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    config = write(folder, '"python:own_audit_17:Typos": {n: 3}', 'gate: ["typos.mean_change <= 0.05"]')
    ran = palpate("audit", config, "--out", folder / "run")
    assert ran.code == 0, ran.err
    found = pl.read_parquet(folder / "run" / "results" / "typos.parquet").row(0, named=True)
    assert (found["metric"], found["group"]) == ("mean_change", "3 letters")
    assert found["value"] == pytest.approx(0.03)
    ran = palpate(
        "audit", config, "--out", folder / "five", "--set", "python:own_audit_17:Typos.n=5", "--only", "typos"
    )
    assert ran.code == 0, ran.err
    assert pl.read_parquet(folder / "five" / "results" / "typos.parquet")["value"][0] == pytest.approx(0.0475)


@pytest.mark.parametrize(
    ("audit", "told"),
    [
        ("python:own_audit_17:Typo: {}", "own_audit_17.py: the module has no 'Typo'; did you mean `Typos`?"),
        ("python:own_audit_17:NotOne: {}", "is not an audit: it has no `plan`"),
        ("python:own_audit_17:Clash: {}", "has the name of palpate's own audit 'performance'"),
        ("python:own_audit_17:AUDIT: {}", "the module has no 'AUDIT'"),
        ("python:own_audit_17: {}", "'own_audit_17' is not of the form module:Class"),
        ("python:no_such_17:Typos: {}", "Python module 'no_such_17' not found"),
        ("python:own_audit_17:Typos: {m: 3}", "line 5: audit 'python:own_audit_17:Typos', option 'm': unknown option"),
        ("python:own_audit_17:Typos: {n: -3}", "line 5: audit 'python:own_audit_17:Typos', option 'n'"),
        ("python:own_audit_17:Typos: {split: tests}", "audit.yaml: line 5: audit 'typos': the cohort has no case"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    folder: Path, audit: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "notes.csv").write_text("text,ill,split\nfever,1,test\nwell,0,test\n")
    ran = CommandLine(capsys, monkeypatch)("audit", write(folder, audit), "--out", folder / "run")
    assert ran.code == 2
    assert told in ran.err
