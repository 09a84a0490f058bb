"""Intervals by template, their sums and differences, and the test that names are alike, against slow versions."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, t

from palpate.audits.capabilities.measures import (
    Rates,
    Resampling,
    Tally,
    difference,
    mean,
    measure,
    measure_mean,
    p_of_interval,
    paired_difference,
    stack,
    tally,
)
from palpate.audits.capabilities.values import equality_p, template_rates
from palpate.stats import resample_counts, wilson_interval

RNG = np.random.default_rng
Floats = NDArray[np.float64]


def how(seed: int = 1, n_replicates: int = 2_000, level: float = 0.95) -> Resampling:
    return Resampling(level, n_replicates, seed)


def counts_of(rates: list[list[float]], n: list[int]) -> Tally:
    """A column a model."""
    return Tally(np.array(rates).T * np.array(n)[:, None], np.array(n))


def test_cases_are_summed_by_template() -> None:
    passed = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.5]])
    found = tally(passed, np.array([7, 3, 7, 7]))
    assert found.n.tolist() == [1, 3]
    assert found.passed.tolist() == [[1.0, 1.0], [2.0, 1.5]]


@pytest.mark.parametrize("rates", [[[0.2, 0.9, 0.5, 0.7, 0.4]], [[1.0, 1.0, 0.2, 1.0, 1.0]]])
def test_the_interval_is_the_wider_of_resampled_templates_and_wilsons_both_with_students_t(
    rates: list[list[float]],
) -> None:
    n = [10, 20, 10, 30, 10]
    found = measure(counts_of(rates, n), how())
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
        counts = Tally(rng.integers(0, 2, (n, 1)).astype(float), np.ones(n, dtype=np.int64))
        found = measure(counts, how())
        drawn = resample_counts(rng=1, n_replicates=2_000, patient=np.arange(n))
        assert found.values[0] == pytest.approx(drawn @ counts.passed[:, 0] / n)


@pytest.mark.parametrize("rate", [0.0, 1.0, 0.98])
def test_templates_that_agree_leave_the_doubt_of_their_number(rate: float) -> None:
    found = measure(counts_of([[rate] * 6], [50] * 6), how())
    wilson = wilson_interval(rate, 6)
    assert found.rates.value[0] == pytest.approx(rate)
    assert found.rates.low[0] == pytest.approx(float(wilson.low))
    assert found.rates.high[0] == pytest.approx(float(wilson.high))


def test_few_templates_make_wide_intervals_and_one_makes_a_guess() -> None:
    two = measure(counts_of([[0.4, 0.6]], [10, 10]), how())
    assert two.rates.high[0] - two.rates.low[0] > 0.99
    one = measure(counts_of([[0.5]], [10]), how())
    assert (one.rates.low[0], one.rates.high[0]) == pytest.approx(tuple(map(float, wilson_interval(0.5, 1))))
    none = measure(Tally(np.zeros((0, 2)), np.zeros(0, dtype=np.int64)), how())
    assert np.isnan(none.rates.value).all()


def test_sums_and_differences_follow_zou_and_donner() -> None:
    a, b = (Rates(*map(np.asarray, ends)) for ends in ((0.8, 0.6, 0.9), (0.5, 0.45, 0.6)))
    gap = difference(a, b)
    assert float(gap.value) == pytest.approx(0.3)
    assert float(gap.low) == pytest.approx(0.3 - np.hypot(0.2, 0.1))
    assert float(gap.high) == pytest.approx(0.3 + np.hypot(0.1, 0.05))
    both = mean(stack([a, b]))
    assert float(both.value) == pytest.approx(0.65)
    assert float(both.low) == pytest.approx(0.65 - np.hypot(0.2, 0.05) / 2)
    assert float(both.high) == pytest.approx(0.65 + np.hypot(0.1, 0.1) / 2)


def test_pairing_by_template_narrows_a_difference() -> None:
    rng = RNG(0)
    hard = rng.random(20)
    better = np.clip(hard + 0.05 + 0.02 * rng.standard_normal(20), 0, 1)
    found = measure(counts_of([hard.tolist(), better.tolist()], [75] * 20), how())
    paired = paired_difference(found, 1, 0, level=0.95)
    apart = difference(*(Rates(*(part[k] for part in found.rates)) for k in (1, 0)))
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
    nothing = np.zeros(1)
    assert p_of_interval(Rates(nothing, nothing, nothing), level=0.95, n_replicates=999)[0] == 1.0
    sure = p_of_interval(Rates(nothing + 0.2, nothing + 0.2, nothing + 0.2), level=0.95, n_replicates=999)
    assert sure[0] == 0.002
    assert np.isnan(p_of_interval(Rates(nothing * np.nan, nothing, nothing), level=0.95, n_replicates=999)[0])


def test_means_of_movements_may_be_negative() -> None:
    found = measure_mean(Tally(np.array([[-0.3], [-0.1], [0.05]]), np.array([1, 1, 1])), how())
    assert found.rates.value[0] == pytest.approx(-0.35 / 3)
    assert found.rates.low[0] < found.rates.value[0] < found.rates.high[0]


def test_rates_of_values_by_template() -> None:
    passed = np.array([[1.0, 0.0, 1.0, 1.0, 0.0]])
    found = template_rates(passed, np.array([4, 4, 4, 9, 9]), np.array([0, 0, 1, 0, 0]), 2)
    assert found[0, 0].tolist() == [0.5, 1.0]
    assert found[0, 1, 0] == 0.5
    assert np.isnan(found[0, 1, 1])


def exact_p(rates: Floats) -> float:
    """All ways to shuffle within templates."""

    def statistic(table: Floats) -> float:
        return float((table.mean(axis=0) ** 2).sum())

    residual = rates - rates.mean(axis=1, keepdims=True)
    orders = list(permutations(range(rates.shape[1])))
    found = [
        statistic(np.stack([row[list(order)] for row, order in zip(residual, chosen, strict=True)]))
        for chosen in product(orders, repeat=len(rates))
    ]
    return float(np.mean(np.array(found) >= statistic(residual) - 1e-12))


@pytest.mark.parametrize("seed", range(4))
def test_the_test_of_equality_is_the_exact_permutation_test(seed: int) -> None:
    rates = RNG(seed).integers(0, 5, (4, 3)) / 4
    there = np.ones(rates.shape, dtype=bool)
    p = equality_p(rates[None], there, n_permutations=20_000, rng=RNG(9))
    assert p[0] == pytest.approx(exact_p(rates), abs=0.015)


def test_absent_values_are_not_shuffled_in() -> None:
    # With the fourth value only in the last template, the rest is a design of its own: same p but for chance.
    rates = RNG(1).integers(0, 5, (6, 3)) / 4
    alone = equality_p(rates[None], np.ones((6, 3), dtype=bool), n_permutations=20_000, rng=RNG(2))
    wide = np.zeros((7, 4))
    wide[:6, :3] = rates
    there = np.zeros((7, 4), dtype=bool)
    there[:6, :3] = True
    there[6, 3] = True
    found = equality_p(wide[None], there, n_permutations=20_000, rng=RNG(3))
    assert found[0] == pytest.approx(alone[0], abs=0.015)


def test_equal_values_have_p_1_and_a_plain_effect_passes_any_correction() -> None:
    there = np.ones((12, 5), dtype=bool)
    same = np.repeat(RNG(0).random((12, 1)), 5, axis=1)
    plain = same * 0.5 + np.array([0.0, 0.0, 0.0, 0.0, 0.5])
    p = equality_p(np.stack([same, plain]), there, n_permutations=500, rng=RNG(1))
    assert p[0] == 1.0
    assert p[1] == pytest.approx(5.0**-11)
    assert np.isnan(equality_p(same[None, :1], there[:1], n_permutations=500, rng=RNG(1))).all()


@pytest.mark.parametrize(
    ("n_values", "k", "n"), [(5, 6, 2000), (5, 5, 500), (15, 4, 2000), (3, 8, 2000), (2, 12, 2000)]
)
def test_agreement_with_ties_is_counted_whatever_the_seed(n_values: int, k: int, n: int) -> None:
    """One value passes everywhere and the others nowhere: n_values ways for a template, not n_values! of them."""
    rates = np.zeros((1, k, n_values))
    rates[:, :, 0] = 1
    there = np.ones((k, n_values), dtype=bool)
    found = [equality_p(rates, there, n_permutations=n, rng=RNG(seed))[0] for seed in range(4)]
    assert found == pytest.approx([n_values ** -(k - 1.0)] * 4)
    # A template that varies in no way says nothing.
    more = np.concatenate([rates, np.ones((1, 2, n_values))], axis=1)
    wide = np.ones((k + 2, n_values), dtype=bool)
    assert equality_p(more, wide, n_permutations=n, rng=RNG(0))[0] == pytest.approx(found[0])


def test_near_agreement_has_the_permutation_p() -> None:
    rates = np.zeros((1, 6, 5))
    rates[0, :5, 0] = rates[0, 5, 1] = 1
    there = np.ones((6, 5), dtype=bool)
    p = [equality_p(rates, there, n_permutations=4000, rng=RNG(seed))[0] for seed in range(3)]
    # Five of six on one value, or all six: (6 * 4 + 1) * 5 of 5**6.
    assert p == pytest.approx([25 * 5 / 5**6] * 3, abs=0.005)
    strong = RNG(0).random((1, 20, 5)) + np.arange(5)
    floor = equality_p(strong, np.ones((20, 5), dtype=bool), n_permutations=500, rng=RNG(0))
    assert floor[0] == pytest.approx(1 / 501)


def test_movements_that_are_all_alike_have_no_interval() -> None:
    counts = Tally(np.array([[0.0, 0.1], [0.0, 0.3]]), np.array([1, 1]))
    found = measure_mean(counts, Resampling(0.95, 200, 1)).rates
    assert np.isnan([found.low[0], found.high[0]]).all()
    assert found.value.tolist() == pytest.approx([0.0, 0.2])
    assert found.low[1] < 0.0 < 0.5 < found.high[1]


def simulate(k: int, truth: Floats, n_cases: int, rng: np.random.Generator) -> Tally:
    """`k` templates of a population whose pass rates are `truth`, each with some cases."""
    theta = rng.choice(truth, size=k)
    return Tally(rng.binomial(n_cases, theta)[:, None].astype(float), np.full(k, n_cases))


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
    draws = how(n_replicates=500)
    covered = []
    for _ in range(1_000):
        rates = measure(simulate(k, truth, 75, rng), draws).rates
        covered.append(rates.low[0] <= truth.mean() <= rates.high[0])
    assert np.mean(covered) >= least, np.mean(covered)


@pytest.mark.slow
def test_differences_to_a_baseline_and_between_models_cover() -> None:
    truth, rng, draws = POPULATIONS["smooth"], RNG(8), how(n_replicates=500)
    to_baseline, between, significant = [], [], []
    for _ in range(1_000):
        sentences = measure(simulate(14, truth, 75, rng), draws)
        patients = Tally(rng.binomial(1, 0.8, (200, 1)).astype(float), np.ones(200, dtype=np.int64))
        gap = difference(sentences.rates, measure(patients, draws).rates)
        to_baseline.append(gap.low[0] <= truth.mean() - 0.8 <= gap.high[0])
        theta = rng.choice(truth, size=14)
        pair = Tally(rng.binomial(75, theta[:, None], (14, 2)).astype(float), np.full(14, 75))
        found = paired_difference(measure(pair, draws), 0, 1, level=0.95)
        between.append(bool(found.low <= 0 <= found.high))
        significant.append(float(p_of_interval(found, level=0.95, n_replicates=500)) < 0.05)
    assert np.mean(to_baseline) >= 0.92
    assert np.mean(between) >= 0.92
    assert np.mean(significant) <= 0.08


@pytest.mark.slow
def test_equality_is_rejected_no_more_often_than_the_level_says() -> None:
    rng = RNG(5)
    there = np.ones((12, 5), dtype=bool)
    rejected = []
    for _ in range(1_000):
        table = rng.binomial(15, rng.random((12, 1)), (12, 5)) / 15
        rejected.append(equality_p(table[None], there, n_permutations=400, rng=rng)[0] < 0.05)
    assert np.mean(rejected) <= 0.07
