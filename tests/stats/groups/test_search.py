"""The search for slices: planted ones are told once, in their own words; equal patients give few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palpate.stats.groups.search import HarmBound, Rules, bound_all, worse_slices
from palpate.stats.groups.slices import SliceCases, SliceMeasure, SliceTable, all_slices, combinations_of, slice_mask

SIZES = [2, 3, 4, 2]


def draw(
    n: int, planted: dict[int, int], *, seed: int, worse: float = 0.2, **more: Any
) -> tuple[SliceCases, list[Any]]:
    """Scores tell positives apart by 2, in the planted slice by `worse`."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, n) for size in SIZES]
    y = rng.random(n) < 0.3
    inside = slice_mask(planted.items(), codes) if planted else np.zeros(n, bool)
    return SliceCases(y, rng.normal(size=n) + np.where(inside, worse, 2.0) * y, np.arange(n), **more), codes


def search(data: SliceCases, codes: list[Any], harm: int = -1, most: int = 10) -> list[Any]:
    measure = SliceMeasure(data)
    rules = Rules(harm, 30, 10, most)
    table = tabled(measure, codes)
    return worse_slices(measure, codes, table, rules)


def tabled(measure: SliceMeasure, codes: list[Any]) -> SliceTable:
    return all_slices(measure, codes, SIZES, combinations_of(4, 0, 3), fewest_patients=30, fewest_of_class=10)


@pytest.mark.parametrize("planted", [{1: 2}, {0: 1, 2: 3}, {0: 0, 1: 1, 3: 1}], ids=["one", "two", "three"])
def test_a_planted_slice_comes_first_and_its_relatives_are_merged(planted: dict[int, int]) -> None:
    first, related = 0, 0
    for seed in range(5):
        data, codes = draw(6000, planted, seed=seed)
        found = search(data, codes)
        first += found[0].pairs == tuple(planted.items())
        whole = set(planted.items())
        related += sum(set(each.pairs) <= whole or set(each.pairs) >= whole for each in found[1:])
    assert first == 5
    assert related <= 1  # parts of it, or slices that contain it


def test_two_planted_slices_are_both_found() -> None:
    data, codes = draw(8000, {0: 1, 1: 2}, seed=3)
    other = slice_mask({2: 0, 3: 0}.items(), codes)
    score = np.where(other, np.random.default_rng(4).normal(size=8000), data.y_score)
    found = [each.pairs for each in search(data._replace(y_score=score), codes)]
    assert {((0, 1), (1, 2)), ((2, 0), (3, 0))} <= set(found[:3])


def test_equal_patients_give_no_large_slice() -> None:
    for seed in range(3):
        data, codes = draw(3000, {}, seed=seed)
        assert all(each.n < 1200 for each in search(data, codes))


@pytest.mark.parametrize(("harm", "shift"), [(1, 0.3), (0, 0.3), (0, -0.3)])
def test_means_in_either_direction(harm: int, shift: float) -> None:
    data, codes = draw(3000, {}, seed=1)
    rng = np.random.default_rng(2)
    value = rng.normal(size=3000) + shift * slice_mask({0: 1, 2: 2}.items(), codes) * 2
    found = search(data._replace(value=value), codes, harm)
    assert found[0].pairs == ((0, 1), (2, 2))
    assert np.sign(found[0].value - found[0].whole) == np.sign(shift)


def test_at_most_so_many() -> None:
    data, codes = draw(3000, {1: 2}, seed=1)
    assert len(search(data, codes, most=2)) <= 2


def test_harm_is_excluded_for_all_slices_only_where_it_is() -> None:
    data, codes = draw(60_000, {}, seed=1)
    rng = np.random.default_rng(5)
    measure = SliceMeasure(data._replace(value=rng.random(60_000)))
    table = tabled(measure, codes)
    assert bound_all(measure, codes, table, 1, 0.01, 0.95) is None
    bound = bound_all(measure, codes, table, 1, 0.2, 0.95)
    assert isinstance(bound, HarmBound)
    assert bound.harm < bound.high < 0.2
    # By hand, for that slice.
    mask = table.mask(bound.row, codes)
    values = measure.cases.value[np.argsort(measure.order)]  # type: ignore[index]
    assert bound.harm == pytest.approx(values[mask].mean() - values[~mask].mean())
