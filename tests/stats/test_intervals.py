"""Percentile intervals, p-values, Wilson's interval, and corrections for many comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, false_discovery_control, norm

from palpate.stats import (
    adjust,
    error_interval,
    interval_p_value,
    percentile_interval,
    widen_interval,
    wilson_interval,
)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_percentiles_equal_numpy(level, axis):
    x = np.random.default_rng(1).normal(size=(7, 101, 53))
    low, high = percentile_interval(x, level=level, axis=axis)
    np.testing.assert_allclose(low, np.quantile(x, (1 - level) / 2, axis=axis), atol=1e-12)
    np.testing.assert_allclose(high, np.quantile(x, 1 - (1 - level) / 2, axis=axis), atol=1e-12)


def test_up_to_5_percent_undefined_replicates_are_left_out():
    x = np.arange(100.0)
    x[:5] = np.nan
    low, high = percentile_interval(x, level=0.9)
    assert (float(low), float(high)) == pytest.approx(tuple(np.quantile(x[5:], [0.05, 0.95])))
    x[5] = np.nan
    assert np.isnan(percentile_interval(x)).all()
    both = np.stack([np.arange(100.0), x])
    assert np.isnan(percentile_interval(both).low).tolist() == [False, True]
    assert np.isnan(percentile_interval(np.empty((3, 0))).low).all()


def test_level_is_a_fraction():
    with pytest.raises(ValueError, match="level"):
        percentile_interval([1.0, 2.0], level=95)


def test_the_p_value_of_an_interval_by_hand():
    z = norm.ppf(0.975)
    np.testing.assert_allclose(
        interval_p_value([1.0, -1.0, 0.0], [0.0, -1.5, -1.0], [9.0, 0.0, 2.0]), [0.05, 0.05, 1.0]
    )
    assert interval_p_value(1.0, 0.5, 9.0) == pytest.approx(2 * norm.sf(2 * z))
    assert np.isnan(interval_p_value([np.nan, 1.0], [0.0, 1.0], [1.0, 1.0])).all(), "no width says nothing"


def test_a_widened_interval_is_bonferronis():
    z = norm.ppf(1 - 0.025 / 7) / norm.ppf(0.975)
    low, high = widen_interval(0.2, 0.1, 0.4, 7)
    assert (low, high) == (pytest.approx(0.2 - 0.1 * z), pytest.approx(0.2 + 0.2 * z))
    assert widen_interval(0.2, 0.1, 0.4, 1) == (pytest.approx(0.1), pytest.approx(0.4))


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (57, 200)])
def test_wilson_equals_scipy(k, n):
    expected = binomtest(k, n).proportion_ci(0.95, method="wilson")
    low, high = wilson_interval(k / n, n)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_without_rows_is_nan():
    assert np.isnan(wilson_interval(0.5, 0)).all()
    with pytest.raises(ValueError, match="proportion"):
        wilson_interval(1.5, 10)


P = [0.01, 0.04, 0.03, math.nan, 0.005]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("bonferroni", [0.04, 0.16, 0.12, math.nan, 0.02]),
        ("holm", [0.03, 0.06, 0.06, math.nan, 0.02]),
        ("benjamini-hochberg", [0.02, 0.04, 0.04, math.nan, 0.02]),
    ],
)
def test_corrections_by_hand(method, expected):
    """Four p-values count, the undefined one does not."""
    np.testing.assert_allclose(adjust(P, method=method), expected, atol=1e-15)


def test_corrections_keep_shape_and_stop_at_1():
    p = np.random.default_rng(0).random((3, 4))
    np.testing.assert_allclose(
        adjust(p, method="benjamini-hochberg"), false_discovery_control(p.ravel()).reshape(3, 4), atol=1e-15
    )
    assert adjust([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert adjust([]).size == 0
    with pytest.raises(ValueError, match="method"):
        adjust([0.1], method="sidak")
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        adjust([1.1])


def test_error_interval_by_hand():
    """98% of the noise lies below 0.02, of the resampled errors below 0.06: 0.04 is half of the way."""
    noise, errors = np.linspace(0.0, 0.02, 1001), np.linspace(0.0, 0.06, 1001)
    low, high = error_interval(0.04, errors * (1 / 0.975), noise * (1 / 0.975), level=0.95)
    assert (low, high) == (pytest.approx(0.5 * 0.04), pytest.approx(0.06))
    assert error_interval(0.01, errors, noise, level=0.95).low == 0.0
    assert error_interval(0.07, errors, noise, level=0.95).high == 0.07, "holds its estimate"
    assert np.isnan(error_interval(0.04, errors * np.nan, noise * np.nan)).all()
    assert error_interval([0.0], np.zeros((1, 10)), np.zeros((1, 10))).low == [0.0]
