"""Intervals for few patients: against their defining equations, and what must hold for any data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.stats import METRICS, NOISE, bootstrap, wilson_interval
from palpate.stats.intervals import Interval
from palpate.stats.score_intervals import (
    Counts,
    auroc_interval,
    class_units,
    contrast_interval,
    f1_interval,
    metric_intervals,
    rate_interval,
    squared_error_interval,
)

Z = 1.959964


def hanley_mcneil(t: float, m: float, n: float) -> float:
    q1, q2 = t / (2 - t), 2 * t * t / (1 + t)
    return (t * (1 - t) + ((m + n) / 2 - 1) * (q1 - t * t + q2 - t * t)) / (m * n)


def test_the_ends_of_an_auroc_interval_are_z_standard_errors_away() -> None:
    """With many patients and the variance of independent ones, the design effect is that of the data alone."""
    t, m, n = 0.8, 4000, 6000
    error = np.sqrt(hanley_mcneil(t, m, n))
    for end in auroc_interval(t, error, m, n, (m, n)):
        assert abs(t - end) == pytest.approx(Z * np.sqrt(hanley_mcneil(float(end), m, n)), rel=0.01)


def test_three_positives_that_rank_first_prove_little() -> None:
    low, high = auroc_interval(1.0, 0.0, 3, 57, (3, 57))
    assert high == 1.0
    assert 0.4 < low < 0.75
    assert auroc_interval(0.0, 0.0, 3, 57, (3, 57)).high == pytest.approx(1 - low)


def test_rates_are_never_narrower_than_wilsons() -> None:
    p, n = np.array([0.0, 0.02, 0.5, 0.97, 1.0]), 40
    low, high = rate_interval(p, np.sqrt(p * (1 - p) / n), n, 1.0)
    wilson = wilson_interval(p, n)
    assert (low <= wilson.low + 1e-9).all()
    assert (high >= wilson.high - 1e-9).all()
    assert low[-1] < 0.93 < 1.0 == high[-1]


def test_notes_of_the_same_patients_count_for_less() -> None:
    alone, copies = rate_interval(0.9, 0.0474, 40, 1.0), rate_interval(0.9, 0.0474, 120, 3.0)
    assert copies.high - copies.low == pytest.approx(alone.high - alone.low, rel=0.05)
    different = rate_interval(0.9, 0.0474 / np.sqrt(3), 120, 3.0)
    assert different.high - different.low < 0.85 * (alone.high - alone.low)


@given(st.integers(0, 10_000))
def test_every_interval_holds_its_estimate_and_stays_in_range(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 60))
    y = (rng.random((n, 2)) < rng.uniform(0.05, 0.6)).astype(np.uint8)
    p = np.clip(rng.random((n, 2)).round(int(rng.integers(0, 3))), 0, 1)
    patient = rng.integers(0, max(n // int(rng.integers(1, 4)), 2), n)
    names = (*METRICS[:16], NOISE)
    found = bootstrap(y, p, metrics=names, threshold=0.5, patient=patient, rng=seed, n_replicates=60)
    counts = Counts(np.full(2, n), y.sum(axis=0), class_units(y, patient, "patient"))
    low, high, _ = metric_intervals(names, found.point, found.values, counts)
    for k, name in enumerate(names[:-1]):
        known = ~np.isnan(low[:, k])
        value, below, above = (each[:, k][known] for each in (found.point, low, high))
        assert ((below <= value + 1e-9) & (value <= above + 1e-9)).all(), name
        assert (above <= 1 + 1e-9).all(), name
        assert (below >= -1e-9).all() or name == "brier_skill_score", name


def test_f1_is_a_share_of_hits() -> None:
    hits, misses = 30, 20
    f1 = 2 * hits / (2 * hits + misses)
    low, high = f1_interval(f1, 0.05, hits + misses, 1.0)
    assert low < f1 < high


def test_a_brier_score_of_0_has_an_upper_end() -> None:
    assert 0.02 < squared_error_interval(0.0, 0.0, 60, 20).high < 0.1


def test_a_difference_of_independent_numbers_is_that_of_zou_and_donner() -> None:
    ends = [Interval(np.array(0.7), np.array(0.85)), Interval(np.array(0.5), np.array(0.75))]
    errors = [0.04, 0.06]
    low, high = contrast_interval([0.8, 0.65], ends, errors, [1.0, -1.0], np.hypot(*errors))
    assert float(low) == pytest.approx(0.15 - np.hypot(0.1, 0.1))
    assert float(high) == pytest.approx(0.15 + np.hypot(0.05, 0.15))


def test_the_mean_of_equal_numbers_has_their_interval() -> None:
    ends = [Interval(np.array(0.7), np.array(0.85))] * 3
    low, high = contrast_interval([0.8] * 3, ends, [0.04] * 3, [1 / 3] * 3, 0.04)
    assert (float(low), float(high)) == pytest.approx((0.7, 0.85))
