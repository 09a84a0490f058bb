"""Standardised differences against slow formulas, their limits, and how large they are by chance."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.stats.groups import category_difference, chance_difference, number_difference

counts = st.lists(st.integers(1, 60), min_size=2, max_size=5)


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=30),
    st.lists(st.floats(-100, 100), min_size=2, max_size=30),
)
def test_numbers_as_in_plain_python(first: list[float], second: list[float]) -> None:
    pooled = math.sqrt((statistics.variance(first) + statistics.variance(second)) / 2)
    if pooled < 1e-3:
        return
    wanted = abs(statistics.mean(first) - statistics.mean(second)) / pooled
    assert number_difference(first, second) == pytest.approx(wanted, abs=1e-9)


def by_hand(n: list[int], m: list[int]) -> float:
    """The multinomial formula with an explicit inverse, the last value left out instead of the first."""
    p, q = [[each / sum(of) for each in of] for of in (n, m)]
    k = len(p) - 1
    spread = np.zeros((k, k))
    for i in range(k):
        for j in range(k):
            own = (p[i] * (1 - p[i]) + q[i] * (1 - q[i])) / 2
            spread[i, j] = own if i == j else -(p[i] * p[j] + q[i] * q[j]) / 2
    apart = np.asarray([p[i] - q[i] for i in range(k)])
    return float(np.sqrt(apart @ np.linalg.inv(spread) @ apart))


@given(counts, counts)
def test_categories_as_by_hand(first: list[int], second: list[int]) -> None:
    size = min(len(first), len(second))
    n, m = first[:size], second[:size]
    assert category_difference(n, m) == pytest.approx(by_hand(n, m), rel=1e-6, abs=1e-7)
    assert category_difference(m, n) == pytest.approx(category_difference(n, m), rel=1e-6, abs=1e-7)


def test_two_values_are_the_difference_of_shares_over_their_spread() -> None:
    p, q = 0.3, 0.5
    wanted = (q - p) / math.sqrt((p * (1 - p) + q * (1 - q)) / 2)
    assert category_difference([30, 70], [50, 50]) == pytest.approx(wanted)
    # A yes or no as a number differs only by the variance of a sample.
    yes, no = np.repeat([1.0, 0.0], [3000, 7000]), np.repeat([1.0, 0.0], [5000, 5000])
    assert number_difference(yes, no) == pytest.approx(wanted, rel=1e-3)


def test_values_that_occur_in_neither_change_nothing() -> None:
    assert category_difference([30, 0, 70], [50, 0, 50]) == pytest.approx(category_difference([30, 70], [50, 50]))


def test_limits() -> None:
    assert category_difference([10, 0], [20, 0]) == 0
    assert category_difference([10, 0], [0, 20]) == math.inf
    assert category_difference([10, 5, 0, 0], [0, 0, 3, 9]) > 3  # no value in both
    assert category_difference([10, 10, 0], [5, 5, 10]) == pytest.approx(by_hand([10, 10, 0], [5, 5, 10]))
    assert math.isnan(category_difference([0, 0], [1, 2]))
    assert math.isnan(number_difference([1.0], [1.0, 2.0]))
    assert number_difference([1.0, 1.0], [1.0, 1.0]) == 0
    assert number_difference([1.0, 1.0], [2.0, 2.0]) == math.inf


@pytest.mark.parametrize("n_values", [2, 4])
def test_equal_sets_exceed_chance_one_time_in_twenty(n_values: int) -> None:
    rng, above = np.random.default_rng(3), 0
    for _ in range(600):
        n, m = (np.bincount(rng.integers(0, n_values, size), minlength=n_values) for size in (300, 200))
        above += category_difference(n, m) > chance_difference(n_values, 300, 200)
    assert 0.02 < above / 600 < 0.08
    assert chance_difference(2, 0, 5) == math.inf
