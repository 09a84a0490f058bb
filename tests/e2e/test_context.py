"""The context audit from the command line: files in, report out, bad input by its reason or by one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.e2e.command_line import CommandLine

CONFIG = """\
cohort: {file: films.csv, labels: [effusion, rare, flat, unknown], attributes: [%(attributes)s]}
models: {film: "predictions:film.csv"}
audits:
  context: {n_replicates: 100, %(options)s}
"""
PRETEST = "pretest_effusion, pretest_rare, pretest_flat"


def write_films(folder: Path, n: int = 400) -> None:
    """One good label, one with a single class, one with a constant probability, one without a probability."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.8, n)
    ill = (rng.random(n) < p).astype(int)
    before = [None if k < 10 else float(value) for k, value in enumerate(p)]
    pl.DataFrame(
        {
            "case_id": [f"film{k}" for k in range(n)],
            "patient_id": [f"patient{k // 2}" for k in range(n)],
            "effusion": ill,
            "rare": np.zeros(n, int),
            "flat": ill,
            "unknown": ill,
            "pretest_effusion": before,
            "pretest_rare": before,
            "pretest_flat": [None if k < 10 else 0.3 for k in range(n)],
        }
    ).write_csv(folder / "films.csv")
    score = 1 / (1 + np.exp(-(2 * ill + rng.normal(size=n) - 1)))
    labels = dict.fromkeys(("effusion", "rare", "flat", "unknown"), score)
    pl.DataFrame({"case_id": [f"film{k}" for k in range(n)], **labels}).write_csv(folder / "film.csv")


def test_bad_labels_are_rows_with_a_reason_and_the_run_goes_on(tmp_path: Path, palpate: CommandLine) -> None:
    write_films(tmp_path)
    (tmp_path / "audit.yaml").write_text(CONFIG % {"attributes": PRETEST, "options": "caliper: 0.05"})
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "10 of 400 cases are left out: no pre-test probability" in ran.out
    estimates = pl.read_parquet(tmp_path / "run/results/context.parquet")
    levels = estimates.filter(pl.col("reference").is_null(), metric="auroc", model="film")
    found = {(row["label"], row["group"]): row for row in levels.iter_rows(named=True)}
    assert found["effusion", "matched"]["value"] > 0.8
    assert found["rare", "all"]["reason"] == "no positive case"
    assert found["flat", "all"]["value"] > 0.8
    assert "the same for all cases" in found["flat", "matched"]["reason"]
    assert found["unknown", "all"]["reason"] == "no column holds a pre-test probability of this label"
    assert estimates.filter(pl.col("value").is_null() & pl.col("reason").is_null()).height == 0
    before = (tmp_path / "run/report.html").read_bytes()
    assert palpate("report", tmp_path / "run").code == 0
    assert (tmp_path / "run/report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("context: [notes]", "is to use notes, and the cohort has no `prior:`"),
        ("context: [tea]", "option 'context"),
        ("pretest: {effusion: guess}", "the cohort has no column 'guess'; name it under the cohort's `attributes:`"),
        ("attributes: [age]", "the cohort has no attribute 'age'"),
        ("caliper: 2", "option 'caliper'"),
        ("calliper: 0.1", "option 'calliper': there is no such option"),
        ("quantiles: [0.8, 0.2]", "they must rise"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path: Path, palpate: CommandLine, options: str, sentence: str) -> None:
    write_films(tmp_path, 40)
    (tmp_path / "audit.yaml").write_text(CONFIG % {"attributes": PRETEST, "options": options})
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 2
    assert sentence in ran.err
    assert "Traceback" not in ran.err
