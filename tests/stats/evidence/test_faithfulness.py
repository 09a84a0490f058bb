"""Mean drops of a probability: points against numpy, replicates against the obvious bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.stats.clustered_rates import clustered_means
from palpate.stats.evidence.faithfulness import aopc, drop, mean_drops


def test_drops_broadcast_over_what_was_taken_out() -> None:
    after = np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]])
    assert drop(np.array([0.9, 0.8]), after).tolist() == (np.array([0.9, 0.8])[:, None, None] - after).tolist()
    with pytest.raises(ValueError, match="finite"):
        drop(np.array([np.nan]), np.array([[0.1]]))


def test_the_area_is_the_mean_over_fractions() -> None:
    assert aopc(np.array([[0.1, 0.3], [0.0, 1.0]])).tolist() == [0.2, 0.5]
    assert np.isnan(aopc(np.zeros((2, 0)))).all()


def test_means_have_the_interval_of_their_charts() -> None:
    rng = np.random.default_rng(0)
    table, chart = rng.normal(0.1, 0.2, (60, 3)), rng.integers(0, 17, 60)
    found = mean_drops(table, chart)
    assert found.rates.value == pytest.approx(table.mean(axis=0), abs=1e-12)
    names, size = np.unique(chart, return_counts=True)
    sums = np.stack([table[chart == name].sum(axis=0) for name in names])
    slow = clustered_means(sums, size[:, None]).rates
    assert found.rates.low == pytest.approx(slow.low)
    assert found.rates.high == pytest.approx(slow.high)
    assert found.n_charts == len(names)


def test_of_parts_the_mean_of_their_means_and_of_their_intervals() -> None:
    rng = np.random.default_rng(2)
    table, chart, part = rng.normal(0.1, 0.2, (90, 2)), rng.integers(0, 17, 90), np.repeat([0, 1, 2], [50, 30, 10])
    found = mean_drops(table, chart, part=part).rates
    parts = [mean_drops(table[part == k], chart[part == k]).rates for k in range(3)]
    for k in range(3):
        assert found[k] == pytest.approx(np.mean([each[k] for each in parts], axis=0))
    whole, one = (mean_drops(table, chart, part=given).rates for given in (None, np.zeros(90, np.int64)))
    assert [a.tolist() for a in whole] == [a.tolist() for a in one]
    for wrong in (np.repeat([0, 2], 45), np.zeros(3, np.int64), np.zeros(90)):
        with pytest.raises(ValueError, match="part"):
            mean_drops(table, chart, part=wrong)


def test_a_drop_of_one_part_that_another_undoes_is_not_shown() -> None:
    chart = np.tile(np.arange(40), 2)
    table = np.concatenate([np.full(40, 0.3), np.full(40, -0.3)])[:, None] + 0.01 * np.sin(np.arange(80))[:, None]
    part = np.repeat([0, 1], 40)
    undone, both = (mean_drops(each, chart, part=part).rates for each in (table, np.abs(table)))
    assert undone.low[0] < 0 < undone.high[0]
    assert both.low[0] > 0.1


def test_a_sure_drop_is_shown_and_no_drop_in_any_chart_leaves_the_doubt_of_their_number() -> None:
    rng = np.random.default_rng(1)
    chart = np.repeat(np.arange(40), 3)
    table = np.column_stack([np.zeros(120), rng.normal(0.3, 0.1, 120), rng.normal(0, 0.1, 120)])
    found = mean_drops(table, chart).rates
    assert found.low[1] > 0.15
    for column in (0, 2):
        assert -0.08 < found.low[column] < 0 < found.high[column] < 0.08


def test_without_pairs_all_is_undefined() -> None:
    found = mean_drops(np.zeros((0, 2)), np.zeros(0, np.int64))
    assert np.isnan(found.rates.value).all()
    assert found.n_charts == 0
    with pytest.raises(ValueError, match="pair"):
        mean_drops(np.zeros((3, 2)), np.zeros(2, np.int64))
