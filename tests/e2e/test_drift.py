"""The drift audit through the command line: report, gate conditions per period, and bad input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.audits.drift.planted import drifting
from tests.e2e.command_line import CommandLine

CONFIG = """\
cohort: {file: stays.csv, labels: [ill], time: admitted}
models: {vendor: "predictions:risks.csv"}
audits:
  drift: {every: quarter, threshold: 0.3, n_replicates: 200}
gate:
  - drift.auroc.low[group=2023-Q1] >= 0.6
  - drift.auroc[group=2024-Q4] >= 0.95
  - drift.sensitivity[group=latest, reference=first] > -0.9
  - drift.auroc_change.p_value >= 0.05
  - drift.auroc[group=2031-Q1] >= 0.5
"""


@pytest.fixture
def years(tmp_path: Path) -> Path:
    cohort, risk = drifting(2000, lost=1.2)
    table = cohort.cases.drop("cohort").rename({"time": "admitted"})
    table = table.with_columns(pl.Series("ill", cohort.y.toarray()[:, 0]))
    table.write_csv(tmp_path / "stays.csv", datetime_format="%Y-%m-%d %H:%M:%S")
    table.select("case_id").with_columns(pl.Series("ill", risk)).write_csv(tmp_path / "risks.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path


def test_report_gate_and_scorecard(years: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", years / "audit.yaml", "--out", years / "run")
    assert ran.code == 1, ran.err
    judged = [each["passed"] for each in json.loads((years / "run/gate.json").read_text())]
    assert judged == [True, False, True, False, False]
    details = [each["detail"] for each in json.loads((years / "run/gate.json").read_text())]
    assert "2024-Q4: value is" in details[1]
    assert details[4].startswith("unknown group '2031-Q1'; the results have: 2023-Q1")
    asked = {row["question"]: row["models"]["vendor"] for row in json.loads((years / "run/scorecard.json").read_text())}
    assert asked["worse"]["verdict"] == "concern"
    page = (years / "run/report.html").read_text()
    for words in ("Has it changed over time?", "AUROC over time", "Changes at a date, and trends", "2024-Q2"):
        assert words in page


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (", time: admitted", "", ["audit 'drift' needs to know when each case was", "`time:`"]),
        ("every: quarter", "every: week", ["option 'every'", "'month', 'quarter' or 'year'"]),
        ("every: quarter", "most_periods: 3, every: month", ["months, more than 3"]),
        ("drift.auroc_change.p_value", "drift.auroc_chnge.p_value", ["drift has no metric 'auroc_chnge'"]),
    ],
    ids=["no time", "week", "months", "gate"],
)
def test_bad_input_is_one_sentence(years: Path, palpate: CommandLine, old: str, new: str, parts: list[str]) -> None:
    (years / "audit.yaml").write_text(CONFIG.replace(old, new))
    ran = palpate("audit", years / "audit.yaml", "--out", years / "run")
    assert ran.code == 2, ran.err
    said = [line for line in ran.err.splitlines() if not line.endswith("…")]
    assert len(said) == 1, ran.err
    for part in parts:
        assert part in said[0], ran.err
    assert not (years / "run").exists()


def test_dates_that_cannot_be_told_are_one_sentence(years: Path, palpate: CommandLine) -> None:
    table = pl.read_csv(years / "stays.csv")
    table.with_columns(pl.lit("03/04/2024").alias("admitted")).write_csv(years / "stays.csv")
    ran = palpate("audit", years / "audit.yaml", "--out", years / "run")
    assert ran.code == 2
    assert "row 1, column 'admitted': the cell is '03/04/2024', which is not a time" in ran.err
