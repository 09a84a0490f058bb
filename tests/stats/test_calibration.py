"""Calibration against scikit-learn and against rows that are really divided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from palpate.stats import (
    NOISE,
    adaptive_calibration_error,
    bootstrap,
    brier,
    brier_skill_score,
    calibration_curve,
    error_interval,
    percentile_interval,
)


def slow_error(y, s, n_bins, w=None):
    """Spread every row over its group's stretch of [0, total], row by row; then cut into equal stretches."""
    w = np.ones(len(y)) if w is None else np.asarray(w)
    gaps = np.zeros(n_bins)
    size = w.sum() / n_bins
    start = 0.0
    for value in sorted(set(s)):
        group = s == value
        mass = w[group].sum()
        if mass == 0:
            continue
        rate = w[group & (y == 1)].sum() / mass
        for k in range(n_bins):
            shared = max(0.0, min(start + mass, (k + 1) * size) - max(start, k * size))
            gaps[k] += shared * (rate - value)
        start += mass
    return float(np.mean(np.abs(gaps / size)))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_scores_equal_sklearn_and_the_slow_version(data):
    n = data.draw(st.integers(1, 40))
    g = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    y, s = g.integers(0, 2, n), g.random(n).round(data.draw(st.sampled_from([1, 2, 12])))
    w = g.integers(0, 4, n) * g.random(n) if data.draw(st.booleans()) else None
    if w is not None:
        w[0] = 0.5
    n_bins = data.draw(st.sampled_from([1, 2, 3, 10, 15]))
    expected = brier_score_loss(y, s, sample_weight=w, pos_label=1)
    assert brier(y, s, weight=w) == pytest.approx(expected, abs=1e-12)
    error = adaptive_calibration_error(y, s, n_bins=n_bins, weight=w)
    assert error == pytest.approx(slow_error(y, s, n_bins, w), abs=1e-12)
    order = g.permutation(n)
    shuffled = adaptive_calibration_error(y[order], s[order], n_bins=n_bins, weight=None if w is None else w[order])
    assert shuffled == pytest.approx(error, abs=1e-12)


def test_adaptive_error_without_ties_is_the_papers():
    g = np.random.default_rng(3)
    s = np.sort(g.random(200))
    y = (g.random(200) < s**2).astype(int)
    bins = np.split(np.arange(200), 10)
    paper = np.mean([abs(y[b].mean() - s[b].mean()) for b in bins])
    assert adaptive_calibration_error(y, s) == pytest.approx(paper, abs=1e-12)


def test_weights_are_copies():
    g = np.random.default_rng(4)
    y, s, copies = g.integers(0, 2, 50), g.random(50).round(1), g.integers(0, 4, 50)
    again = np.repeat(np.arange(50), copies)
    for metric in (brier, brier_skill_score, adaptive_calibration_error):
        assert metric(y, s, weight=copies) == pytest.approx(metric(y[again], s[again]), abs=1e-12)


def test_skill_score():
    y = np.array([0, 0, 0, 1])
    assert brier_skill_score(y, y) == 1.0
    assert brier_skill_score(y, np.full(4, 0.25)) == pytest.approx(0.0, abs=1e-12)
    assert brier_skill_score(y, 1 - y) < 0
    w = np.array([1.0, 1.0, 1.0, 5.0])
    assert brier_skill_score(y, np.full(4, 5 / 8), weight=w) == pytest.approx(0.0, abs=1e-12)


def test_curve():
    g = np.random.default_rng(5)
    s = np.sort(g.random(100))
    y = (g.random(100) < s).astype(int)
    curve = calibration_curve(y, s, n_bins=5)
    bins = np.split(np.arange(100), 5)
    np.testing.assert_allclose(curve.mean_score, [s[b].mean() for b in bins], atol=1e-12)
    np.testing.assert_allclose(curve.observed, [y[b].mean() for b in bins], atol=1e-12)
    np.testing.assert_allclose(curve.weight, 20.0)
    assert np.all(curve.low <= curve.observed)
    assert np.all(curve.observed <= curve.high)
    # The same rows with weight 3 say no more about the rate: the effective number of rows stays.
    heavy = calibration_curve(y, s, n_bins=5, weight=np.full(100, 3.0))
    np.testing.assert_allclose(heavy.low, curve.low, atol=1e-12)
    np.testing.assert_allclose(heavy.weight, 60.0)


def test_undefined_and_wrong():
    assert math.isnan(brier([], []))
    assert math.isnan(brier_skill_score([0, 0], [0.1, 0.2]))
    assert math.isnan(adaptive_calibration_error([0, 1], [0.1, 0.2], weight=[0, 0]))
    assert calibration_curve([], []).observed.size == 0
    for metric in (brier, brier_skill_score, adaptive_calibration_error, calibration_curve):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            metric([0, 1], [0.1, 1.2])
    with pytest.raises(ValueError, match="n_bins"):
        adaptive_calibration_error([0, 1], [0.1, 0.2], n_bins=0)


NOISY = ("adaptive_calibration_error", NOISE)


def draw(g: np.random.Generator, n: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and a model that is calibrated but for a shift of its log-odds."""
    logit = g.normal(-1.2, 1.2, n)
    y = g.random(n) < 1 / (1 + np.exp(-logit))
    return y, 1 / (1 + np.exp(-logit - shift))


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("n", [300, 2000])
def test_the_interval_of_the_calibration_error_holds_it(n: int, shift: float) -> None:
    truth = 0.0 if shift == 0 else adaptive_calibration_error(*draw(np.random.default_rng(1), 1_000_000, shift))
    g, n_sets, inside, by_percentiles = np.random.default_rng(2), 100, 0, 0
    for _ in range(n_sets):
        y, p = draw(g, n, shift)
        found = bootstrap(y, p, metrics=NOISY, patient=np.arange(n), rng=g, n_replicates=300)
        point, (error, noise) = found.point[0, 0, 0], found.values[0, :, 0]
        low, high = error_interval(point, error, noise)
        inside += low <= truth <= high
        assert low <= point <= high
        low, high = percentile_interval(error)
        by_percentiles += low <= truth <= high
    assert inside >= 92
    assert inside >= by_percentiles
    if shift == 0:
        assert by_percentiles == 0, "what this is for"
