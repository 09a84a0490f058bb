"""What is wrong with a configuration is said before models' code runs, with the line; nothing is scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.commands.audit import audit
from palpate.errors import PalpateError

BASE = """cohort: {file: notes.csv, labels: [readmitted]}
models: {m: "python:loaded:f"}
"""


class Stages:
    """Keeps the stages of a run."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def note(self, text: str) -> None: ...

    def begin(self, model: str, total: int) -> None: ...

    def advance(self, n: int) -> None: ...


def refused(folder: Path, rest: str) -> tuple[str, list[str]]:
    rows = "\n".join(f"c{k},{'test' if k % 2 else 'train'},note {k} of the ward,{k // 2 % 2}" for k in range(40))
    (folder / "notes.csv").write_text(f"case_id,split,text,readmitted\n{rows}\n")
    (folder / "loaded.py").write_text("raise SystemError('the model was loaded')\n")
    (folder / "audit.yaml").write_text(BASE + rest)
    told = Stages()
    with pytest.raises(PalpateError) as caught:
        audit(folder / "audit.yaml", out=folder / "run", progress=told)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(folder), "."), told.stages


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        (
            "audits:\n  characteristics:\n    alter: [gendr]\n",
            "./audit.yaml: line 5: audit 'characteristics', option 'alter': unknown characteristic 'gendr'; use one of",
        ),
        (
            "audits:\n  capabilities:\n    suite: nosuite\n",
            "./audit.yaml: line 5: audit 'capabilities', option 'suite': unknown suite 'nosuite'; give one of",
        ),
        (
            "audits:\n  vocabulary:\n    words: nofile.csv\n",
            "./audit.yaml: line 5: audit 'vocabulary', option 'words': ./nofile.csv: file not found",
        ),
        (
            "audits: {performance: }\ngate: ['performance.auroc[reference=xx] > 0.5']\n",
            "./audit.yaml: line 4: gate condition 'performance.auroc[reference=xx] > 0.5': unknown reference 'xx'; ",
        ),
        (
            "audits: {performance: }\ngate: ['performance.travel is acceptable']\n",
            "./audit.yaml: line 4: gate condition 'performance.travel is acceptable': 'travel' of performance needs "
            "two cohorts, and this run has one",
        ),
        (
            "audits: {performance: }\ngate: ['performance.comparison is acceptable']\n",
            "./audit.yaml: line 4: gate condition 'performance.comparison is acceptable': 'comparison' of performance "
            "needs two models, and this run has one",
        ),
    ],
)
def test_what_the_file_alone_shows_is_refused_before_anything_is_read(tmp_path: Path, rest: str, sentence: str) -> None:
    said, stages = refused(tmp_path, rest)
    assert said.startswith(sentence)
    assert stages == []


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        (
            "audits:\n  performance:\n    labels: [nope]\n",
            "./audit.yaml: line 5: audit 'performance': the cohort has no label 'nope'; its labels are: readmitted.",
        ),
        (
            "audits:\n  performance:\n    split: tset\n",
            "./audit.yaml: line 5: audit 'performance': the cohort has no case in split 'tset'; did you mean `test`?",
        ),
    ],
)
def test_what_the_cohort_shows_is_refused_before_a_model_is_loaded(tmp_path: Path, rest: str, sentence: str) -> None:
    said, stages = refused(tmp_path, rest)
    assert said == sentence
    assert stages == ["reading the cohort"]


def test_a_sentence_ends_once(tmp_path: Path) -> None:
    said, _ = refused(tmp_path, "audits: {performance: }\nmargins: {auroq: 0.1}\n")
    assert said.endswith("did you mean `auroc`?")
