"""Recalibration through the command line: the audit, the card as Markdown and JSON, and bad input in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tests.audits.recalibration.test_audit import planted
from tests.e2e.command_line import CommandLine

CONFIG = """
title: Two vendors
cohort: {file: cases.csv, labels: [died]}
models:
  stretched: predictions:stretched.csv
audits:
  recalibration: {n_replicates: 200, threshold: 0.3}
"""


@pytest.fixture
def ward(tmp_path: Path, palpate: CommandLine) -> Path:
    cohort, _, wrong = planted(1_600)
    table = cohort.cases.drop("cohort").with_columns(pl.Series("died", cohort.y.toarray()[:, 0]))
    table.write_csv(tmp_path / "cases.csv")
    pl.DataFrame({"case_id": cohort.cases["case_id"], "died": wrong[:, 0]}).write_csv(tmp_path / "stretched.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "shown to help" in ran.out
    return tmp_path


def test_the_card_has_formula_fit_numbers_and_limits(ward: Path, palpate: CommandLine) -> None:
    ran = palpate("recalibration", ward / "run", "--out", ward / "card.md")
    assert ran.code == 0, ran.err
    card = (ward / "card.md").read_text(encoding="utf-8")
    assert "# Recalibration card: Two vendors" in card
    assert "ln(p / (1 − p))" in card
    assert "Fitted on 800 cases of 400 patients (split validation)" in card
    assert re.search(r"with the outcome; tested on [\d,]+ cases, [\d,]+ with it\.", card)
    assert "change" in card
    assert "## Limits" in card
    for case in ("c900", "p450"):  # no case and no patient
        assert case not in card
    # Counts below the limit of Table 1 are withheld, as in other cards.
    manifest = ward / "run" / "manifest.json"
    made = json.loads(manifest.read_text(encoding="utf-8"))
    made["audits"]["data"] = {"smallest_cell": 700}
    manifest.write_text(json.dumps(made), encoding="utf-8")
    assert palpate("recalibration", ward / "run", "--out", ward / "few.md").code == 0
    few = (ward / "few.md").read_text(encoding="utf-8")
    assert re.search(r"fewer than 700 with the outcome; tested on [\d,]+ cases, fewer than 700 with it\.", few)


def test_the_card_as_json_can_be_applied(ward: Path, palpate: CommandLine) -> None:
    assert palpate("recalibration", ward / "run", "--model", "stretched", "--out", ward / "card.json").code == 0
    card = json.loads((ward / "card.json").read_text(encoding="utf-8"))
    (entry,) = card["recalibrations"]
    assert entry["best_in_validation"] in ("slope", "isotonic")
    slope = next(each for each in entry["methods"] if each["method"] == "slope")
    assert slope["slope"] == pytest.approx(1 / 1.8, abs=0.15)
    assert slope["change"]["brier"]["high"] < 0
    steps = next(each for each in entry["methods"] if each["method"] == "isotonic")["steps"]
    assert [step["recalibrated"] for step in steps] == sorted(step["recalibrated"] for step in steps)


def test_bad_input_is_one_sentence(ward: Path, palpate: CommandLine) -> None:
    other = CONFIG.replace("recalibration: {n_replicates: 200, threshold: 0.3}", "performance: {n_replicates: 100}")
    (ward / "other.yaml").write_text(other)
    assert palpate("audit", ward / "other.yaml", "--out", ward / "other").code == 0
    wrong = {
        "there is no such model": ("run", "--model", "x", "--out", "a.md"),
        "a .md or a .json file": ("run", "--out", "a.pdf"),
        "this directory holds no run": ("nowhere", "--out", "a.md"),
        "the run has no audit 'recalibration'": ("other", "--out", "a.md"),
    }
    for words, (run, *rest) in wrong.items():
        ran = palpate("recalibration", ward / run, *rest)
        assert ran.code == 2
        assert words in ran.err
        assert len(ran.err.strip().splitlines()) == 1
    table = pl.read_csv(ward / "cases.csv").drop("split")
    table.write_csv(ward / "cases.csv")
    ran = palpate("audit", ward / "audit.yaml", "--out", ward / "again")
    assert ran.code == 2
    assert "has no validation split to fit a recalibration on" in ran.err
