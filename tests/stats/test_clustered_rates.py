"""Intervals by template, their means and differences, against slow versions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, t

from palpate.stats import resample_counts, wilson_interval
from palpate.stats.clustered_rates import (
    ClusterBootstrap,
    ClusterCounts,
    Rates,
    count_by,
    difference,
    mean,
    mean_movements,
    p_of_interval,
    pass_rates,
)

RNG = np.random.default_rng
Floats = NDArray[np.float64]


def draws(n_replicates: int = 2_000) -> ClusterBootstrap:
    return ClusterBootstrap(n_replicates=n_replicates, seed=1)


def counts_of(rates: list[list[float]], n: list[int]) -> ClusterCounts:
    """One column per model."""
    return ClusterCounts(np.array(rates).T * np.array(n)[:, None], np.array(n))


def test_cases_are_summed_by_template() -> None:
    passed = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.5]])
    found = count_by(np.array([7, 3, 7, 7]), passed.T)
    assert found.n.tolist() == [1, 3]
    assert found.passed.tolist() == [[1.0, 1.0], [2.0, 1.5]]


@pytest.mark.parametrize("rates", [[[0.2, 0.9, 0.5, 0.7, 0.4]], [[1.0, 1.0, 0.2, 1.0, 1.0]]])
def test_the_interval_is_the_wider_of_resampled_templates_and_wilsons_both_with_students_t(
    rates: list[list[float]],
) -> None:
    n = [10, 20, 10, 30, 10]
    found = pass_rates(counts_of(rates, n), draws())
    drawn = resample_counts(rng=1, n_replicates=2_000, patient=np.arange(5))
    slow = [np.average(np.repeat(rates[0], c), weights=np.repeat(n, c)) for c in drawn]
    low, high = np.quantile(slow, [0.025, 0.975])
    point = np.average(rates[0], weights=n)
    student = t.ppf(0.975, 4) / norm.ppf(0.975)
    wider = np.sqrt(5 / 4) * student
    variance = np.sum((np.array(n) * (np.array(rates[0]) - point)) ** 2) * 5 / 4 / 80**2
    wilson = wilson_interval(point, point * (1 - point) / variance / student**2)
    assert found.rates.value[0] == pytest.approx(point)
    assert found.rates.low[0] == pytest.approx(max(0, min(point - wider * (point - low), wilson.low)))
    assert found.rates.high[0] == pytest.approx(min(1, max(point + wider * (high - point), wilson.high)))
    assert (found.n_units, found.n) == (5, 80)


def test_more_units_than_are_kept_give_the_same_as_those_that_are() -> None:
    rng = RNG(0)
    for n in (149, 151):
        counts = ClusterCounts(rng.integers(0, 2, (n, 1)).astype(float), np.ones(n, dtype=np.int64))
        found = pass_rates(counts, draws())
        drawn = resample_counts(rng=1, n_replicates=2_000, patient=np.arange(n))
        assert found.values[0] == pytest.approx(drawn @ counts.passed[:, 0] / n)


@pytest.mark.parametrize("rate", [0.0, 1.0, 0.98])
def test_templates_that_agree_leave_the_doubt_of_their_number(rate: float) -> None:
    found = pass_rates(counts_of([[rate] * 6], [50] * 6), draws())
    wilson = wilson_interval(rate, 6)
    assert found.rates.value[0] == pytest.approx(rate)
    assert found.rates.low[0] == pytest.approx(float(wilson.low))
    assert found.rates.high[0] == pytest.approx(float(wilson.high))


def test_few_templates_make_wide_intervals_and_one_makes_a_guess() -> None:
    two = pass_rates(counts_of([[0.4, 0.6]], [10, 10]), draws())
    assert two.rates.high[0] - two.rates.low[0] > 0.99
    one = pass_rates(counts_of([[0.5]], [10]), draws())
    assert (one.rates.low[0], one.rates.high[0]) == pytest.approx(tuple(map(float, wilson_interval(0.5, 1))))
    none = pass_rates(ClusterCounts(np.zeros((0, 2)), np.zeros(0, dtype=np.int64)), draws())
    assert np.isnan(none.rates.value).all()


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
    found = pass_rates(counts_of([hard.tolist(), better.tolist()], [75] * 20), draws())
    paired = found.paired_difference(1, 0, level=0.95)
    apart = difference(found.rates.column(1), found.rates.column(0))
    assert float(paired.value) == pytest.approx(float(apart.value))
    assert paired.low > 0 > apart.low
    assert paired.high - paired.low < (apart.high - apart.low) / 4


def test_p_is_below_the_level_just_where_the_interval_leaves_0_out() -> None:
    rng = RNG(0)
    value = rng.normal(0, 0.2, 500)
    rates = Rates(value, value - rng.random(500), value + rng.random(500))
    for level in (0.9, 0.95):
        p = p_of_interval(rates, level=level, n_replicates=999)
        outside = (rates.low > 0) | (rates.high < 0)
        assert outside.any()
        assert np.array_equal(p < 1 - level, outside)
    nothing, how = np.zeros(1), {"level": 0.95, "n_replicates": 999}
    assert p_of_interval(Rates(nothing, nothing, nothing), **how)[0] == 1.0
    sure = p_of_interval(Rates(nothing + 0.2, nothing + 0.2, nothing + 0.2), **how)
    assert sure[0] == 0.002
    assert np.isnan(p_of_interval(Rates(nothing * np.nan, nothing, nothing), **how)[0])


def test_means_of_movements_may_be_negative() -> None:
    found = mean_movements(ClusterCounts(np.array([[-0.3], [-0.1], [0.05]]), np.array([1, 1, 1])), draws())
    assert found.rates.value[0] == pytest.approx(-0.35 / 3)
    assert found.rates.low[0] < found.rates.value[0] < found.rates.high[0]


def test_movements_that_are_all_alike_have_no_interval() -> None:
    counts = ClusterCounts(np.array([[0.0, 0.1], [0.0, 0.3]]), np.array([1, 1]))
    found = mean_movements(counts, draws(200)).rates
    assert np.isnan([found.low[0], found.high[0]]).all()
    assert found.value.tolist() == pytest.approx([0.0, 0.2])
    assert found.low[1] < 0.0 < 0.5 < found.high[1]


def simulate(k: int, truth: Floats, n_cases: int, rng: np.random.Generator) -> ClusterCounts:
    """`k` templates of a population whose pass rates are `truth`, each with some cases."""
    theta = rng.choice(truth, size=k)
    return ClusterCounts(rng.binomial(n_cases, theta)[:, None].astype(float), np.full(k, n_cases))


POPULATIONS = {
    "smooth": 1 / (1 + np.exp(-RNG(0).normal(0.5, 1.5, 20_000))),
    "two heaps": np.where(RNG(1).random(20_000) < 0.7, 0.98, 0.05),
    "nearly all pass": np.where(RNG(2).random(20_000) < 0.9, 0.99, 0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize(("k", "least"), [(2, 0.90), (3, 0.93), (6, 0.93), (14, 0.93), (36, 0.93)])
def test_intervals_cover_the_pass_rate_of_other_wordings(name: str, k: int, least: float) -> None:
    truth, rng = POPULATIONS[name], RNG(7)
    bootstrap = draws(500)
    covered = []
    for _ in range(1_000):
        rates = pass_rates(simulate(k, truth, 75, rng), bootstrap).rates
        covered.append(rates.low[0] <= truth.mean() <= rates.high[0])
    assert np.mean(covered) >= least, np.mean(covered)


@pytest.mark.slow
def test_differences_to_a_baseline_and_between_models_cover() -> None:
    truth, rng, bootstrap = POPULATIONS["smooth"], RNG(8), draws(500)
    to_baseline, between, significant = [], [], []
    for _ in range(1_000):
        sentences = pass_rates(simulate(14, truth, 75, rng), bootstrap)
        patients = ClusterCounts(rng.binomial(1, 0.8, (200, 1)).astype(float), np.ones(200, dtype=np.int64))
        gap = difference(sentences.rates, pass_rates(patients, bootstrap).rates)
        to_baseline.append(gap.low[0] <= truth.mean() - 0.8 <= gap.high[0])
        theta = rng.choice(truth, size=14)
        pair = ClusterCounts(rng.binomial(75, theta[:, None], (14, 2)).astype(float), np.full(14, 75))
        found = pass_rates(pair, bootstrap).paired_difference(0, 1, level=0.95)
        between.append(bool(found.low <= 0 <= found.high))
        significant.append(
            float(p_of_interval(found, level=bootstrap.level, n_replicates=bootstrap.n_replicates)) < 0.05
        )
    assert np.mean(to_baseline) >= 0.92
    assert np.mean(between) >= 0.92
    assert np.mean(significant) <= 0.08
