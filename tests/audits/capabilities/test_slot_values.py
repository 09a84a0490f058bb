"""The test that the values of a slot are alike, against the exact permutation test."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from palpate.audits.capabilities.slot_values import equality_p, template_rates

RNG = np.random.default_rng
Floats = NDArray[np.float64]


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


@pytest.mark.slow
def test_equality_is_rejected_no_more_often_than_the_level_says() -> None:
    rng = RNG(5)
    there = np.ones((12, 5), dtype=bool)
    rejected = []
    for _ in range(1_000):
        table = rng.binomial(15, rng.random((12, 1)), (12, 5)) / 15
        rejected.append(equality_p(table[None], there, n_permutations=400, rng=rng)[0] < 0.05)
    assert np.mean(rejected) <= 0.07
