"""Intervals of clustered rates, their means and differences, against slow versions; `validity/` has their coverage."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, t

from palpate.stats import interval_p_value
from palpate.stats.clustered_rates import (
    AveragedRates,
    PassRates,
    Rates,
    clustered_means,
    clustered_ratios,
    difference,
    mean,
    paired_difference,
    pass_rates,
)

RNG = np.random.default_rng
Floats = NDArray[np.float64]


def rates_of(rates: list[list[float]], n: list[int]) -> PassRates:
    """[column, template] pass rates of templates with so many cases."""
    template = np.repeat(np.arange(len(n)), n)
    return pass_rates(template, np.repeat(np.array(rates), n, axis=1))


def slow_interval(passed: list[float], n: list[int]) -> tuple[float, float]:
    """One column, written out: two clusters of average size join for the variance."""
    k, total = len(n), sum(n)
    a, b = [*passed, total / k, 0.0], [*n, total / k, total / k]
    p = sum(a) / sum(b)
    terms = [(x - p * m) / ((1 - m / sum(b)) if i < k else 1.0) for i, (x, m) in enumerate(zip(a, b, strict=True))]
    variance = sum(term**2 for term in terms) / sum(b) ** 2
    equal = total**2 / sum(m**2 for m in n)
    wider = t.ppf(0.975, max(equal - 1, 1)) / norm.ppf(0.975)
    n_independent = p * (1 - p) / variance / wider**2
    # The ends solve (rate - x)^2 = z^2 x (1 - x) / n.
    rate, z2 = sum(passed) / total, norm.ppf(0.975) ** 2 / n_independent
    ends = np.roots([1 + z2, -(2 * rate + z2), rate**2])
    return float(ends.min()), float(ends.max())


@pytest.mark.parametrize("rates", [[0.2, 0.9, 0.5, 0.7, 0.4], [1.0, 1.0, 0.2, 1.0, 1.0], [1.0] * 5])
def test_the_interval_is_wilsons_for_as_many_independent_cases_as_vary_as_much(rates: list[float]) -> None:
    n = [10, 20, 10, 30, 10]
    found = rates_of([rates], n)
    passed = [rate * size for rate, size in zip(rates, n, strict=True)]
    assert found.rates.value[0] == pytest.approx(sum(passed) / 80)
    assert (found.rates.low[0], found.rates.high[0]) == pytest.approx(slow_interval(passed, n))
    assert (found.n_units, found.n) == (5, 80)


@pytest.mark.parametrize("rate", [0.0, 0.98, 1.0])
@pytest.mark.parametrize("k", [2, 6, 14])
def test_templates_that_agree_leave_the_doubt_of_their_number(rate: float, k: int) -> None:
    found = rates_of([[rate] * k], [50] * k).rates
    assert 2.5 / (k + 2) < found.high[0] - found.low[0] < 5.5 / k


def test_seeds_that_pass_two_thirds_of_every_template_have_an_interval() -> None:
    """The defect: templates that are all alike, and not near 0 or 1, had an interval without width."""
    found = rates_of([[2 / 3] * 6], [30] * 6).rates
    assert found.low[0] < 0.5 < 0.8 < found.high[0]


def test_few_templates_make_wide_intervals_and_none_has_no_rate() -> None:
    two = rates_of([[0.4, 0.6]], [10, 10])
    assert two.rates.high[0] - two.rates.low[0] > 0.9
    one = rates_of([[0.5]], [10])
    assert one.rates.high[0] - one.rates.low[0] > 0.95
    none = clustered_ratios(np.zeros((3, 2)), np.zeros((3, 2)))
    assert np.isnan(none.rates.value).all()
    assert none.n_clusters.tolist() == [0, 0]


def test_a_large_cluster_counts_for_as_many_equal_ones_as_weigh_as_much() -> None:
    found = clustered_ratios(np.array([[60.0], [5.0], [5.0], [0.0]]), np.array([[90], [10], [10], [0]]))
    assert found.n_clusters.tolist() == [3]
    assert found.n_equal[0] == pytest.approx(110**2 / (90**2 + 200))
    equal = clustered_ratios(np.array([[24.0], [18.0], [28.0]]), np.array([[37], [37], [36]]))
    assert np.ptp([found.rates.low[0], found.rates.high[0]]) > np.ptp([equal.rates.low[0], equal.rates.high[0]])


def test_means_between_minus_1_and_1_are_shares_of_the_way() -> None:
    totals, n = np.array([[-0.3], [0.5], [0.1]]), np.array([[1], [2], [1]])
    found = clustered_means(totals, n)
    assert found.rates.value[0] == pytest.approx(0.3 / 4)
    share = clustered_ratios((totals + n) / 2, n, added=4 / 3 * 2 / 3).rates
    assert found.rates.low[0] == pytest.approx(2 * share.low[0] - 1)
    assert found.residual.sum() == pytest.approx(0.0)


def test_cases_that_are_independent_by_design_leave_less_doubt_than_whole_clusters() -> None:
    passed, n = np.zeros((17, 1)), np.full((17, 1), 30)
    whole, alone = (clustered_ratios(passed, n, added=added).rates.high[0] for added in (None, 1.0))
    assert whole > 0.15
    assert alone < 0.02


def test_sums_and_differences_follow_zou_and_donner() -> None:
    a, b = (Rates(*map(np.asarray, ends)) for ends in ((0.8, 0.6, 0.9), (0.5, 0.45, 0.6)))
    gap = difference(a, b)
    assert float(gap.value) == pytest.approx(0.3)
    assert float(gap.low) == pytest.approx(0.3 - np.hypot(0.2, 0.1))
    assert float(gap.high) == pytest.approx(0.3 + np.hypot(0.1, 0.05))
    both = mean([a, b])
    assert float(both.value) == pytest.approx(0.65)
    assert float(both.low) == pytest.approx(0.65 - np.hypot(0.2, 0.05) / 2)
    assert float(both.high) == pytest.approx(0.65 + np.hypot(0.1, 0.1) / 2)


def test_pairing_by_template_narrows_a_difference() -> None:
    rng = RNG(0)
    hard = rng.random(20)
    better = np.clip(hard + 0.05 + 0.02 * rng.standard_normal(20), 0, 1)
    found = rates_of([hard.tolist(), better.tolist()], [75] * 20)
    paired = found.paired_difference(1, 0)
    apart = difference(found.rates.column(1), found.rates.column(0))
    assert float(paired.value) == pytest.approx(float(apart.value))
    assert paired.high - paired.low < (apart.high - apart.low) / 2
    # A model less itself is 0, and 20 templates do not prove that another would be answered alike.
    same = found.paired_difference(0, 0)
    assert float(same.value) == 0.0
    assert -0.2 < same.low < -0.02 < 0.02 < same.high < 0.2


def test_ratios_with_denominators_of_their_own_are_paired_by_cluster() -> None:
    rng = RNG(1)
    first = clustered_ratios(rng.integers(0, 5, (30, 2)), np.full((30, 2), 5))
    second = clustered_ratios(rng.integers(0, 5, (30, 2)), rng.integers(5, 9, (30, 2)))
    gap = paired_difference(first, second)
    assert gap.value == pytest.approx(first.rates.value - second.rates.value)
    one = paired_difference(first.columns([1]), second.columns([1]))
    assert [float(end[0]) for end in one] == pytest.approx([float(end[1]) for end in gap])


def test_averages_and_p_values_agree_with_their_intervals() -> None:
    rng = RNG(2)
    parts = [rates_of([rng.random(14).tolist(), rng.random(14).tolist()], [20] * 14) for _ in range(2)]
    both = AveragedRates(parts)
    assert (both.n_units, both.n) == (28, 560)
    found = both.paired_difference(0, 1)
    p = float(interval_p_value(found.value, found.low, found.high))
    assert (p < 0.05) == bool(found.low > 0 or found.high < 0)
