"""The subgroups audit through the command line: the report and scorecard, and bad input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine

CONFIG = """\
cohort: {file: notes.csv, labels: [ill], attributes: [ward, sex, bed]}
models:
  good: python:hospital_model:predict
  weak: python:hospital_model:other
audits:
  subgroups: {n_replicates: 200, threshold: 0.3, by: [sex, [sex, ward]]}
"""


@pytest.fixture
def grouped(project: Path) -> Path:
    frame = notes_frame(5200)
    n = frame.height
    frame.with_columns(
        pl.Series("sex", ["f" if k % 3 else "m" for k in range(n)]),
        pl.Series("ward", [["north", "south", ""][k % 7 % 3] for k in range(n)]),
        pl.Series("bed", [f"bed {k}" for k in range(n)]),
    ).drop("split").write_csv(project / "notes.csv")
    (project / "audit.yaml").write_text(CONFIG)
    return project


def test_report_and_scorecard(grouped: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", grouped / "audit.yaml", "--out", grouped / "run")
    assert ran.code == 0, ran.err
    asked = {row["question"]: row["asks"] for row in json.loads((grouped / "run/scorecard.json").read_text())}
    assert asked["worse"] == "Is it worse for some patients?"
    assert {"missed", "risks"} <= set(asked)
    page = (grouped / "run/report.html").read_text()
    for words in ("For whom is it worse", "The largest gap", "Fairness summaries", "sex=f, ward=missing"):
        assert words in page
    rows = pl.read_parquet(grouped / "run/results/subgroups.parquet")
    assert rows.filter(metric="auroc", group="sex=f, ward=missing", model="good").height >= 1


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("by: [sex, [sex, ward]]", "by: [gender]", ["no attribute 'gender'", "`attributes:`"]),
        ("by: [sex, [sex, ward]]", "by: [bed]", ["'bed' has 5,200 different values", "fewer categories"]),
        ("by: [sex,", "reference: [sex=man], by: [sex,", ["there is no group 'sex=man'"]),
        ("threshold: 0.3", "threshold: 1.3", ["threshold"]),
        ("by: [sex,", "cuts: {sex: [1]}, by: [sex,", ["'sex' is not a number"]),
        ("attributes: [ward, sex, bed]", "attributes: [ward, sex, room]", ["column 'room'"]),
    ],
    ids=["attribute", "5,200 values", "reference", "threshold", "cuts", "column"],
)
def test_bad_input_is_one_sentence(grouped: Path, palpate: CommandLine, old: str, new: str, parts: list[str]) -> None:
    (grouped / "audit.yaml").write_text(CONFIG.replace(old, new))
    ran = palpate("audit", grouped / "audit.yaml", "--out", grouped / "run")
    assert ran.code == 2, ran.err
    said = [line for line in ran.err.splitlines() if not line.endswith("…")]  # all but the progress
    assert len(said) == 1, ran.err
    assert said[0].startswith("palpate: ")
    for part in parts:
        assert part in said[0], ran.err
    assert not (grouped / "run").exists()


@pytest.mark.parametrize(
    "by", ["gender", "note:hair", "cohort"], ids=["no attribute", "not read from notes", "one cohort"]
)
def test_groups_that_cannot_be_made_are_told_before_a_model_is_loaded(
    grouped: Path, palpate: CommandLine, by: str
) -> None:
    text = CONFIG.replace("by: [sex, [sex, ward]]", f"by: ['{by}']").replace("hospital_model:predict", "missing:model")
    (grouped / "audit.yaml").write_text(text)
    ran = palpate("audit", grouped / "audit.yaml", "--out", grouped / "run")
    assert ran.code == 2, ran.err
    assert "loading models" not in ran.err
    assert "missing" not in ran.err


def test_a_group_with_one_outcome_is_a_row_with_its_reason(grouped: Path, palpate: CommandLine) -> None:
    frame = pl.read_csv(grouped / "notes.csv")
    ward = pl.when((pl.col("ill") == 1) & (pl.int_range(pl.len()) < 600)).then(pl.lit("all ill")).otherwise("ward")
    frame.with_columns(ward=ward).write_csv(grouped / "notes.csv")
    (grouped / "audit.yaml").write_text(CONFIG.replace("by: [sex, [sex, ward]]", "by: [ward, 'note:gender']"))
    ran = palpate("audit", grouped / "audit.yaml", "--out", grouped / "run")
    assert ran.code == 0, ran.err
    rows = pl.read_parquet(grouped / "run/results/subgroups.parquet").filter(group="ward=all ill", metric="auroc")
    assert rows.height > 0
    assert rows["value"].is_null().all()
    assert set(rows["reason"]) == {"not enough: 0 cases without 'ill', at least 5 are needed"}
    assert "Nothing can be said about 1 group" in ran.out
    assert "note:gender=" in (grouped / "run/report.html").read_text()
