"""The context audit from the command line: files in, report out, bad input by its reason or by one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.e2e.command_line import CommandLine
from tests.train.pretest.pretest_cohort import frame

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
    assert found["unknown", "all"]["reason"] == "no column holds a pre-test probability for this label"
    assert estimates.filter(pl.col("value").is_null() & pl.col("reason").is_null()).height == 0
    before = (tmp_path / "run/report.html").read_bytes()
    assert palpate("report", tmp_path / "run").code == 0
    assert (tmp_path / "run/report.html").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("context: [notes]", "option 'context': 'notes' needs the cohort's `prior:`"),
        ("context: [tea]", "option 'context"),
        ("pretest: {effusion: guess}", "the cohort has no column 'guess'; list it under the cohort's `attributes:`"),
        ("attributes: [age]", "the cohort has no attribute 'age'"),
        ("caliper: 2", "option 'caliper'"),
        ("calliper: 0.1", "option 'calliper': unknown option"),
        ("quantiles: [0.8, 0.2]", "they must increase"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path: Path, palpate: CommandLine, options: str, sentence: str) -> None:
    write_films(tmp_path, 40)
    (tmp_path / "audit.yaml").write_text(CONFIG % {"attributes": PRETEST, "options": options})
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 2
    assert sentence in ran.err
    assert "Traceback" not in ran.err


def card_of(family: str = "bow") -> dict[str, Any]:
    """What is read of the pretest.json of `palpate train pretest`."""
    chosen = {"family": family, "features": "words", "classifier": "LinearSVC"}
    told = {"performance": {"out_of_fold": {"auroc": 0.7123}}, "words": [["clavicle", 0.4], ["stairs", -0.1]]}
    refused = {"label": "rare", "chosen": None, "reason": "one class only"}
    return {"kind": "pretest", "labels": [{"label": "effusion", "chosen": chosen, **told}, refused]}


@pytest.mark.parametrize(
    ("family", "text", "shown"), [("bow", False, False), ("bow", True, True), ("tables", False, True)]
)
def test_the_models_of_a_card_stand_in_the_report(
    tmp_path: Path, palpate: CommandLine, family: str, text: bool, shown: bool
) -> None:
    """Single words of notes are note text, names of attributes are not."""
    write_films(tmp_path)
    (tmp_path / "pretest.json").write_text(json.dumps(card_of(family)))
    config = CONFIG % {"attributes": PRETEST, "options": "labels: [effusion], card: pretest.json"}
    (tmp_path / "audit.yaml").write_text(f"include_text: {str(text).lower()}\n{config}")
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    page = (tmp_path / "run/report.html").read_text()
    assert "LinearSVC on words" in page
    assert "0.712" in page
    assert ("clavicle" in page) is shown
    assert ("clavicle" in (tmp_path / "run/manifest.json").read_text()) is shown


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "pretest.json: file not found"),
        ("{", "pretest.json: the file is not JSON"),
        ("[1]", "the file is not a card of pre-test models"),
        ('{"kind": "pretest", "labels": [{"label": "effusion"}]}', "the card lacks a field of a label"),
    ],
)
def test_a_wrong_card_is_one_sentence(tmp_path: Path, palpate: CommandLine, content: str | None, sentence: str) -> None:
    write_films(tmp_path, 40)
    if content is not None:
        (tmp_path / "pretest.json").write_text(content)
    (tmp_path / "audit.yaml").write_text(CONFIG % {"attributes": PRETEST, "options": "card: pretest.json"})
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 2
    assert sentence in ran.err


def test_a_card_without_its_probabilities_is_refused(tmp_path: Path, palpate: CommandLine) -> None:
    write_films(tmp_path, 40)
    (tmp_path / "pretest.json").write_text(json.dumps(card_of()))
    options = "context: [attributes], attributes: [pretest_rare], card: pretest.json"
    (tmp_path / "audit.yaml").write_text(CONFIG % {"attributes": PRETEST, "options": options})
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 2
    assert "option 'card': the cohort has no ready pre-test probabilities" in ran.err


def test_a_card_of_other_labels_is_refused(tmp_path: Path, palpate: CommandLine) -> None:
    write_films(tmp_path, 40)
    (tmp_path / "pretest.json").write_text(json.dumps(card_of()))
    (tmp_path / "audit.yaml").write_text(
        CONFIG % {"attributes": PRETEST, "options": "labels: [flat], card: pretest.json"}
    )
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 2
    assert "option 'card': the card describes no model of an audited label" in ran.err


def test_a_card_of_another_training_is_refused(tmp_path: Path, palpate: CommandLine) -> None:
    """Two trainings of the same cases: each cohort goes with its own card, and with all or some of its rows."""
    quick = ["--set=families=bow", "--set=classifiers=LinearSVC", "--set=n_replicates=0", "--set=threads=1"]
    frame().drop("old", "never").rename({"ill": "label:ill"}).write_parquet(tmp_path / "notes.parquet")
    for seed in (1, 2):
        out = tmp_path / f"made-{seed}"
        ran = palpate(
            "train", "pretest", "--cohort", tmp_path / "notes.parquet", "--out", out, f"--set=seed={seed}", *quick
        )
        assert ran.code == 0, ran.err
    table = pl.read_parquet(tmp_path / "made-1" / "cohort.parquet")
    table.sample(fraction=0.9, seed=0).write_parquet(tmp_path / "some.parquet")
    table.drop("attribute:pretest job").write_parquet(tmp_path / "unnamed.parquet")
    table.select("case_id", pl.col("attribute:pretest_ill").alias("ill")).write_csv(tmp_path / "model.csv")
    told = {}
    for cohort, seed in (("made-1/cohort", 1), ("some", 1), ("unnamed", 1), ("made-1/cohort", 2)):
        (tmp_path / "audit.yaml").write_text(
            f"cohort: {cohort}.parquet\nmodels: {{m: predictions:model.csv}}\n"
            f"audits: {{context: {{card: made-{seed}/pretest.json, n_replicates: 100, mentions: none}}}}\n"
        )
        run = tmp_path / f"run-{len(told)}"
        ran = palpate("audit", tmp_path / "audit.yaml", "--out", run)
        told[cohort, seed] = ran.err if ran.code else (run / "report.html").read_text()
        assert ran.code == (2 if seed == 2 else 0), ran.err
    assert "pre-test probabilities come from another training run" in told["made-1/cohort", 2]
    unsure = "does not say whether the models of the card made them"
    assert [unsure in page for page in told.values()] == [False, False, True, False]
