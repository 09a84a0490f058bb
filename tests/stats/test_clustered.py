"""Ratios of sums under resampled patients, against repeating the patients' rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from palpate.stats import clustered as module
from palpate.stats import percentile_interval, ratio_replicates, resample_counts, resampled_ratios
from palpate.stats.clustered import sum_by_unit, tally_replicates, units_of


def slow(above, below, over, counts):
    """Repeat the rows and divide the sums."""
    out = np.full((above.shape[1], len(counts)), np.nan)
    for r, count in enumerate(counts):
        rows = np.repeat(np.arange(len(above)), count)
        for k in range(above.shape[1]):
            if below[rows, over[k]].sum() > 0:
                out[k, r] = above[rows, k].sum() / below[rows, over[k]].sum()
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 10_000), st.sampled_from([1e-9, 1.0, 1e12]))
def test_equals_repeated_rows(n_patients, n_ratios, seed, size):
    g = np.random.default_rng(seed)
    below = g.integers(0, 3, size=(n_patients, 2)).astype(float)
    over = g.integers(0, 2, size=n_ratios)
    above = g.normal(size=(n_patients, n_ratios)) * size
    counts = resample_counts(rng=seed, n_replicates=30, patient=np.arange(n_patients))
    found = resampled_ratios(above, below, counts, over=over)
    np.testing.assert_allclose(found, slow(above, below, over, counts), rtol=0, atol=1e-12 * size)


def test_chunks_and_other_columns_change_no_bit(monkeypatch):
    g = np.random.default_rng(0)
    above, below = g.random((50, 7)), g.integers(1, 4, size=(50, 7))
    counts = resample_counts(rng=3, n_replicates=100, patient=np.arange(50))
    whole = resampled_ratios(above, below, counts)
    monkeypatch.setattr(module, "_BYTES_PER_CHUNK", 5_000)
    np.testing.assert_array_equal(whole, resampled_ratios(above, below, counts.astype(np.uint8)))
    np.testing.assert_array_equal(whole[:2], resampled_ratios(above[:, :2], below[:, :2], counts))


def test_the_order_of_the_sum_does_not_matter():
    """Whole numbers below 2**53 sum exactly: the product must be that of Python's integers, to the last bit."""
    g = np.random.default_rng(1)
    above, below = g.random((300, 1)) * 1e-5, np.ones((300, 1))
    counts = resample_counts(rng=9, n_replicates=20, patient=np.arange(300))
    found = resampled_ratios(above, below, counts)[0]
    whole, scale = module._whole(above, 300)
    exact = [sum(int(c) * int(v) for c, v in zip(count, whole[:, 0], strict=True)) for count in counts]
    assert max(map(abs, exact)) < 2**53
    np.testing.assert_array_equal(found, np.array(exact, float) / scale[0] / 300)


def test_draws_of_its_own(monkeypatch):
    g = np.random.default_rng(0)
    above, below = g.random((20, 3)), g.integers(1, 4, size=(20, 3))
    counts = resample_counts(rng=5, n_replicates=40, patient=np.arange(20))
    given = resampled_ratios(above, below, counts)
    np.testing.assert_array_equal(given, ratio_replicates(above, below, rng=5, n_replicates=40))
    monkeypatch.setattr(module, "_BYTES_PER_CHUNK", 1_000)
    np.testing.assert_array_equal(given, ratio_replicates(above, below, rng=5, n_replicates=40))
    once, again = (ratio_replicates(above, below, rng=np.random.default_rng(1), n_replicates=9) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert np.isnan(ratio_replicates(np.zeros((0, 2)), np.zeros((0, 2)), rng=0, n_replicates=5)).all()
    assert ratio_replicates(above, below, rng=0, n_replicates=0).shape == (3, 0)


def test_zero_stays_zero_and_nobody_is_undefined():
    assert (resampled_ratios(np.zeros((9, 1)), np.ones((9, 1)), np.ones((50, 9))) == 0).all()
    assert np.isnan(resampled_ratios(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((5, 0)))).all()
    assert np.isnan(resampled_ratios(np.zeros((3, 2)), np.zeros((3, 2)), np.ones((5, 3)))).all()
    assert resampled_ratios(np.zeros((4, 0)), np.zeros((4, 0)), np.ones((5, 4))).shape == (0, 5)


@pytest.mark.parametrize(
    ("above", "below", "over", "message"),
    [
        (np.ones((3, 1)), np.ones((2, 1)), None, "same patients"),
        (np.ones((3, 1)), np.full((3, 1), -1.0), None, "negative"),
        (np.ones((3, 2)), np.ones((3, 1)), None, "denominator for each"),
        (np.ones((3, 1)), np.ones((3, 1)), [1], "denominator for each"),
        (np.full((3, 1), np.nan), np.ones((3, 1)), None, "finite"),
    ],
)
def test_wrong_arguments(above, below, over, message):
    with pytest.raises(ValueError, match=message):
        resampled_ratios(above, below, np.ones((5, 3)), over=over)


def test_weights_are_resampled_as_they_are():
    rng = np.random.default_rng(3)
    values, weight, drawn = rng.normal(size=(40, 2)), rng.random((40, 1)), rng.integers(0, 3, (7, 40))
    found = resampled_ratios(values * weight, weight, drawn, over=[0, 0])
    np.testing.assert_allclose(found, ((drawn @ (values * weight)) / (drawn @ weight)).T, rtol=1e-12)


def test_wrong_counts():
    with pytest.raises(ValueError, match="replicates, patients"):
        resampled_ratios(np.ones((3, 1)), np.ones((3, 1)), np.ones((5, 4)))


@pytest.mark.slow
def test_interval_covers():
    """Means over notes whose patients share most of their value: the truth is inside 95% of the time."""
    g = np.random.default_rng(2)
    inside = []
    for _ in range(1_000):
        notes = g.integers(1, 5, size=200)
        sums = notes * (1.0 + g.normal(size=200)) + np.sqrt(notes) * g.normal(size=200)
        counts = resample_counts(rng=g, n_replicates=1_000, patient=np.arange(200))
        low, high = percentile_interval(resampled_ratios(sums[:, None], notes[:, None], counts))
        inside.append(low[0] <= 1.0 <= high[0])
    assert 0.93 <= np.mean(inside) <= 0.97


def test_tallies_equal_counting() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 3, size=(40, 6))
    drawn = tally_replicates(sparse.csr_array(table), rng=3, n_replicates=25)
    counts = resample_counts(rng=3, n_replicates=25, patient=np.arange(40))
    np.testing.assert_array_equal(drawn, (counts @ table).T)
    patient = rng.integers(0, 9, size=40)
    expected = [table[patient == u].sum(axis=0) for u in np.unique(patient)]
    np.testing.assert_array_equal(sum_by_unit(table, units_of(patient)), expected)
