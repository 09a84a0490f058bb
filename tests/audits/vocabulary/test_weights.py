"""Sampling weights in the vocabulary audit: a note of weight 3 counts as three notes of its patient do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.audits.vocabulary.intervals import (
    PatientSums,
    change_interval,
    moments,
    rate_interval,
    signed_interval,
)
from palpate.audits.vocabulary.measures import MEASURES
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult
from palpate.testing import KeywordModel
from tests.audits.vocabulary.test_audit import WEIGHTS, audit, notes, quick

KEYS = ["metric", "group", "reference", "model"]
COMPARED = (*MEASURES, *(f"{name}_uniform" for name in MEASURES), "rank", "removal", "outside_window")


def audited(cohort: Cohort, folder: Path) -> AuditResult:
    folder.mkdir()
    model = KeywordModel({**WEIGHTS, "apple": 0.4}, window_words=20)
    vocabulary = quick(filters=("uniform",), unwanted=("tablet", "fall"), diagnostic_notes=0)
    return audit(vocabulary, cohort, folder, toy=model)


def weighted(cohort: Cohort, weight: np.ndarray) -> Cohort:
    return replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight.astype(float))))


def test_a_weight_counts_as_so_many_notes_of_the_patient(tmp_path: Path) -> None:
    cohort = notes(160)
    times = np.random.default_rng(6).integers(0, 4, len(cohort))
    times[cohort.cases["split"].to_numpy() == "train"] = 1
    rows = np.repeat(np.arange(len(cohort)), times)
    names = pl.Series("case_id", [f"r{k}" for k in range(len(rows))])
    copies = replace(cohort, cases=cohort.cases[rows].with_columns(names), y=cohort.y.tocsr()[rows].tocsc())
    ours = audited(weighted(cohort, times), tmp_path / "ours")
    theirs, plain = audited(copies, tmp_path / "theirs"), audited(cohort, tmp_path / "plain")
    both = ours.estimates.join(theirs.estimates, on=KEYS, suffix="_repeated", nulls_equal=True)
    both = both.filter(pl.col("metric").is_in(COMPARED))
    assert {*both["metric"]} == {*COMPARED}
    found, wanted = (both[name].fill_null(-9.0).to_numpy() for name in ("value", "value_repeated"))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    moved = ours.estimates.join(plain.estimates, on=KEYS, suffix="_plain", nulls_equal=True)
    for metric in ("sensitivity", "signed_change", "flip_rate", "flipped_notes", "outside_window", "removal"):
        rows_of = moved.filter(metric=metric)
        assert ((rows_of["value"] - rows_of["value_plain"]).abs() > 1e-4).any(), metric
    most = (times[cohort.rows(split="test")] > 0).sum()
    assert 0 < ours.estimates.filter(metric="sensitivity")["n"].max() <= most, "notes are counted, not weighed"  # type: ignore[operator]
    assert any("use the sampling weights" in each.sentence for each in ours.findings)


def test_equal_weights_change_nothing(tmp_path: Path) -> None:
    cohort = notes(80)
    plain = audited(cohort, tmp_path / "plain")
    same = audited(weighted(cohort, np.full(len(cohort), 5.0)), tmp_path / "same")
    assert same.estimates.equals(plain.estimates)


def test_unequal_weights_leave_less_precision_and_their_scale_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    change, one, word = rng.gamma(1.0, 0.05, 60), np.ones(60), np.zeros(60, np.int64)
    weight = np.where(np.arange(60) < 12, 8.0, 1.0)
    plain = moments(PatientSums(change, one, word, 1))
    for scale in (1.0, 1e-3):
        own = scale * weight
        found = moments(PatientSums(change * own, own, word, 1, one))
        np.testing.assert_allclose(found.value, np.average(change, weights=weight))
        np.testing.assert_allclose(found.n_effective, weight.sum() ** 2 / (weight**2).sum())
        low, high = change_interval(found, 0.95)
        before = change_interval(plain, 0.95)
        assert high - low > before.high - before.low
    same = moments(PatientSums(3 * change, 3 * one, word, 1, one))
    np.testing.assert_allclose(change_interval(same, 0.95), change_interval(plain, 0.95))


def test_a_heavy_patient_who_moved_lifts_the_end_where_few_moved() -> None:
    quiet, word = np.zeros(40), np.zeros(40, np.int64)
    quiet[0] = 1.0
    weight = np.where(np.arange(40) == 0, 20.0, 1.0)
    light = rate_interval(moments(PatientSums(quiet, np.ones(40), word, 1)), 0.95)
    heavy = rate_interval(moments(PatientSums(quiet * weight, weight, word, 1, np.ones(40))), 0.95)
    assert heavy.high[0] > light.high[0]
    change = change_interval(moments(PatientSums(quiet * weight, weight, word, 1, np.ones(40))), 0.95)
    assert change.low[0] <= 20 / 59 <= change.high[0], "the interval holds its own estimate"


@pytest.mark.parametrize("n", [20, 50])
@pytest.mark.parametrize("kind", ["strata", "a long tail"])
def test_weighted_intervals_hold_the_truth(n: int, kind: str) -> None:
    """Of 3,000 words in the notes of n patients; one patient in ten stands for eight, or weights vary at random."""
    rng, n_words = np.random.default_rng(n), 3000
    shape = (n_words, n)
    weight = np.where(rng.random(shape) < 0.1, 8.0, 1.0) if kind == "strata" else rng.gamma(0.7, size=shape)
    word, one = np.repeat(np.arange(n_words), n), np.ones(n_words * n)
    drawn = {
        (change_interval, 0.04): rng.gamma(0.8, 0.05, shape),
        (signed_interval, 0.01): rng.normal(0.01, 0.05, shape),
        (rate_interval, 0.2): (rng.random(shape) < 0.2).astype(float),
    }
    for (interval, truth), change in drawn.items():
        found = moments(PatientSums((change * weight).ravel(), weight.ravel(), word, n_words, one))
        low, high = interval(found, 0.95)
        assert np.mean((low <= truth) & (truth <= high)) > 0.925, interval.__name__
