"""Percentile intervals, p-values, Wilson's interval, and corrections for many comparisons."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, false_discovery_control, permutation_test

from palpate.stats import adjust, bootstrap_p_value, error_interval, percentile_interval, wilson_interval
from palpate.stats.intervals import sign_flip_p_value


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
    assert float(bootstrap_p_value(x)) == pytest.approx(2 / 96)
    x[5] = np.nan
    assert np.isnan(percentile_interval(x)).all()
    assert math.isnan(float(bootstrap_p_value(x)))
    both = np.stack([np.arange(100.0), x])
    assert np.isnan(percentile_interval(both).low).tolist() == [False, True]
    assert np.isnan(percentile_interval(np.empty((3, 0))).low).all()
    assert np.isnan(bootstrap_p_value(np.empty((3, 0)))).all()


def test_level_is_a_fraction():
    with pytest.raises(ValueError, match="level"):
        percentile_interval([1.0, 2.0], level=95)


def test_p_value_by_hand():
    assert bootstrap_p_value(np.ones(99)) == pytest.approx(2 * 1 / 100)
    assert bootstrap_p_value(np.zeros(99)) == 1.0
    assert bootstrap_p_value([-1.0, 1, 1, 1, 1, 1, 1, 1, 1]) == pytest.approx(0.4)
    assert bootstrap_p_value([1.0, -1, -1, -1, -1, -1, -1, -1, -1]) == pytest.approx(0.4)
    table = np.stack([np.ones(99), np.zeros(99)])
    np.testing.assert_allclose(bootstrap_p_value(table), [0.02, 1.0])
    np.testing.assert_allclose(bootstrap_p_value(table.T, axis=0), [0.02, 1.0])


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


def test_random_signs_equal_all_signs() -> None:
    """Against every one of the 2**10 assignments, by counting and by scipy."""
    rng = np.random.default_rng(3)
    table = rng.normal(0.4, 1, size=(10, 4))
    table[:, 3] = 0.0
    found = sign_flip_p_value(table, rng=1, n_replicates=40_000)
    signs = np.array(list(product((-1, 1), repeat=10)))
    exact = (np.abs(signs @ table) >= np.abs(table.sum(axis=0)) - 1e-12).mean(axis=0)
    np.testing.assert_allclose(found, exact, atol=0.01)
    assert found[3] == 1.0
    for k in range(3):
        scipys = permutation_test(
            (table[:, k],), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
        )
        assert scipys.pvalue == pytest.approx(exact[k], abs=1e-12)


def test_a_difference_in_every_patient_has_the_normal_tail() -> None:
    found = sign_flip_p_value(np.full((100, 1), 1e-3), rng=1, n_replicates=500)
    assert found[0] == pytest.approx(1.5e-23, rel=0.1), "two sides of 10 standard deviations"
    with pytest.raises(ValueError, match=r"\[unit, column\]"):
        sign_flip_p_value(np.zeros(3), rng=1)
