"""Mean drops of a probability: points against numpy, replicates against the obvious bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.stats import resample_counts
from palpate.stats.evidence.faithfulness import aopc, drop, mean_drops


def test_drops_broadcast_over_what_was_taken_out() -> None:
    after = np.array([[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]])
    assert drop(np.array([0.9, 0.8]), after).tolist() == (np.array([0.9, 0.8])[:, None, None] - after).tolist()
    with pytest.raises(ValueError, match="finite"):
        drop(np.array([np.nan]), np.array([[0.1]]))


def test_the_area_is_the_mean_over_fractions() -> None:
    assert aopc(np.array([[0.1, 0.3], [0.0, 1.0]])).tolist() == [0.2, 0.5]
    assert np.isnan(aopc(np.zeros((2, 0)))).all()


def test_means_and_replicates_are_those_of_resampled_charts() -> None:
    rng = np.random.default_rng(0)
    table, chart = rng.normal(0.1, 0.2, (60, 3)), rng.integers(0, 17, 60)
    found = mean_drops(table, chart, rng=5, n_replicates=50)
    assert found.point == pytest.approx(table.mean(axis=0), abs=1e-12)
    names = np.unique(chart)
    counts = resample_counts(rng=5, n_replicates=50, patient=np.arange(len(names)))
    for r in range(50):
        weight = counts[r][np.searchsorted(names, chart)]
        assert found.values[:, r] == pytest.approx((weight[:, None] * table).sum(axis=0) / weight.sum(), abs=1e-12)
    assert found.n_charts == len(names)


def test_of_parts_the_mean_of_their_means_on_the_same_charts() -> None:
    rng = np.random.default_rng(2)
    table, chart, part = rng.normal(0.1, 0.2, (90, 2)), rng.integers(0, 17, 90), np.repeat([0, 1, 2], [50, 30, 10])
    found = mean_drops(table, chart, part=part, rng=5, n_replicates=50)
    parts = [part == k for k in range(3)]
    assert found.point == pytest.approx(np.mean([table[mine].mean(axis=0) for mine in parts], axis=0), abs=1e-12)
    names = np.unique(chart)
    counts = resample_counts(rng=5, n_replicates=50, patient=np.arange(len(names)))
    for r in range(50):
        weight = counts[r][np.searchsorted(names, chart)]
        with np.errstate(invalid="ignore"):
            means = [(weight[mine, None] * table[mine]).sum(axis=0) / weight[mine].sum() for mine in parts]
        assert found.values[:, r] == pytest.approx(np.mean(means, axis=0), abs=1e-12, nan_ok=True)
    whole = mean_drops(table, chart, rng=5, n_replicates=50)
    one = mean_drops(table, chart, part=np.zeros(90, np.int64), rng=5, n_replicates=50)
    assert [a.tolist() for a in whole[:3]] == [a.tolist() for a in one[:3]]
    for wrong in (np.repeat([0, 2], 45), np.zeros(3, np.int64), np.zeros(90)):
        with pytest.raises(ValueError, match="part"):
            mean_drops(table, chart, part=wrong, rng=5)


def test_a_drop_of_one_part_that_another_undoes_is_not_significant() -> None:
    chart = np.tile(np.arange(40), 2)
    table = np.concatenate([np.full(40, 0.3), np.full(40, -0.3)])[:, None] + 0.01 * np.sin(np.arange(80))[:, None]
    part = np.repeat([0, 1], 40)
    assert mean_drops(table, chart, part=part, rng=3, n_replicates=500).p_value[0] > 0.05
    assert mean_drops(np.abs(table), chart, part=part, rng=3, n_replicates=500).p_value[0] < 0.001


def test_no_drop_is_not_significant_and_a_sure_one_is() -> None:
    rng = np.random.default_rng(1)
    chart = np.repeat(np.arange(40), 3)
    table = np.column_stack([np.zeros(120), rng.normal(0.3, 0.1, 120), rng.normal(0, 0.1, 120)])
    none, sure, noise = mean_drops(table, chart, rng=3, n_replicates=500).p_value
    assert none == 1.0
    assert sure < 0.001
    assert noise > 0.01


def test_without_pairs_all_is_undefined() -> None:
    found = mean_drops(np.zeros((0, 2)), np.zeros(0, np.int64), rng=0, n_replicates=10)
    assert np.isnan(found.point).all()
    assert found.values.shape == (2, 10)
    with pytest.raises(ValueError, match="pair"):
        mean_drops(np.zeros((3, 2)), np.zeros(2, np.int64), rng=0)
