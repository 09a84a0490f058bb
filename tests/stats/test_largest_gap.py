"""The largest gap among groups: against a slow version, under equality, and with a planted gap."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from palpate.stats import percentile_interval
from palpate.stats.intervals import LargestGap, largest_gap


def of_normals(x: np.ndarray, error: np.ndarray) -> LargestGap:
    """The gap of [group, sample] numbers with known standard errors [group]."""
    pairs = list(combinations(range(len(x)), 2))
    values = np.stack([x[a] - x[b] for a, b in pairs])
    reach = norm.ppf(0.975) * np.asarray([np.hypot(error[a], error[b]) for a, b in pairs])[:, None]
    return largest_gap(values, values - reach, values + reach)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.floats(0.01, 0.5))
def test_the_ends_are_those_of_a_slow_version(numbers: list[float], error: float) -> None:
    n = len(numbers)
    found = of_normals(np.asarray(numbers)[:, None], np.full(n, error))
    differences = [a - b for a, b in permutations(numbers, 2)]
    both = np.sqrt(2) * error
    assert found.seen[0] == pytest.approx(max(numbers) - min(numbers))
    lower = max(d - norm.ppf(1 - 0.025 / (n * (n - 1))) * both for d in differences)
    assert found.low[0] == pytest.approx(max(lower, 0))
    assert found.high[0] == pytest.approx(max(differences) + norm.ppf(0.975) * both)
    assert found.low[0] - 1e-12 <= found.value[0] <= found.seen[0] + 1e-12


@pytest.mark.parametrize("n_groups", [2, 5, 20])
@pytest.mark.parametrize("planted", [0.0, 0.5, 3.0])
def test_it_covers_where_the_percentile_interval_does_not(n_groups: int, planted: float) -> None:
    rng = np.random.default_rng(n_groups)
    error = rng.uniform(0.3, 1.0, n_groups)
    truth = np.zeros(n_groups)
    truth[0] = planted
    x = truth[:, None] + error[:, None] * rng.normal(size=(n_groups, 4000))
    found = of_normals(x, error)
    covered = (found.low <= planted + 1e-12) & (planted <= found.high)
    assert covered.mean() >= 0.94
    assert (found.value > planted + 1e-12).mean() <= 0.53
    if planted == 0.0:
        assert (found.low > 0).mean() <= 0.035
        resampled = x[:, :200, None] + error[:, None, None] * rng.normal(size=(n_groups, 200, 500))
        naive = percentile_interval(np.ptp(resampled, axis=0))
        assert (naive.low <= 0).mean() == 0


def test_a_clear_gap_of_two_groups_is_the_difference() -> None:
    found = largest_gap([-0.3], [-0.4], [-0.2])
    assert found.seen == found.value == pytest.approx(0.3)
    assert found.low == pytest.approx(0.3 - 0.1 * norm.ppf(1 - 0.0125) / norm.ppf(0.975))
    assert found.high == pytest.approx(0.4)


def test_unknown_pairs_do_not_count() -> None:
    with_unknown = largest_gap([0.3, np.nan], [0.2, np.nan], [0.4, np.nan])
    assert with_unknown == largest_gap([0.3], [0.2], [0.4])
    assert all(np.isnan(part) for part in largest_gap([np.nan], [np.nan], [np.nan]))
    assert all(np.isnan(part) for part in largest_gap([], [], []))
