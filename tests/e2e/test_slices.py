"""The slices audit through the command line: the report and scorecard, and bad input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine

CONFIG = """\
cohort: {file: notes.csv, labels: [ill], attributes: [ward, sex]}
models:
  good: python:hospital_model:predict
  weak: python:hospital_model:other
audits:
  slices: {n_replicates: 200, threshold: 0.3, words: true}
"""


@pytest.fixture
def sliced(project: Path) -> Path:
    frame = notes_frame(1200)
    n = frame.height
    frame.with_columns(
        pl.Series("sex", ["f" if k % 3 else "m" for k in range(n)]),
        pl.Series("ward", [["north", "south", ""][k % 7 % 3] for k in range(n)]),
        pl.Series("bed", [f"bed {k}" for k in range(n)]),
    ).drop("split").write_csv(project / "notes.csv")
    (project / "audit.yaml").write_text(CONFIG)
    return project


def test_report_and_scorecard(sliced: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", sliced / "audit.yaml", "--out", sliced / "run")
    assert ran.code == 0, ran.err
    (asked,) = [row for row in json.loads((sliced / "run/scorecard.json").read_text()) if row["audit"] == "slices"]
    assert asked["asks"] == "Is there a group of patients for whom it is worse than for the rest?"
    assert set(asked["models"]) == {"good", "weak"}
    page = (sliced / "run/report.html").read_text()
    for words in ("a group of patients that nobody named", "Slices that were tested"):
        assert words in page


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("words: true", "by: [gender]", ["no attribute 'gender'", "`attributes:`"]),
        ("[ward, sex]", "[ward, sex, bed]", ["'bed' has 1,200 different values", "fewer categories"]),
        ("words: true", "depth: 4", ["depth"]),
        ("words: true", "metric: accuracy", ["metric"]),
        ("words: true", "by: ['note:hair']", ["'note:hair' is not read from notes"]),
    ],
    ids=["attribute", "1,200 values", "depth", "metric", "note"],
)
def test_bad_input_is_one_sentence(sliced: Path, palpate: CommandLine, old: str, new: str, parts: list[str]) -> None:
    (sliced / "audit.yaml").write_text(CONFIG.replace(old, new))
    ran = palpate("audit", sliced / "audit.yaml", "--out", sliced / "run")
    assert ran.code == 2, ran.err
    said = [line for line in ran.err.splitlines() if not line.endswith("…")]  # all but the progress
    assert len(said) == 1, ran.err
    for part in parts:
        assert part in said[0], ran.err
    assert not (sliced / "run").exists()
