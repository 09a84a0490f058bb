"""Intervals of means and shares by patient: against slow versions, and test and interval agree at every level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from palpate.audits.kit.paired import MeanArrays, ShareArrays
from palpate.stats.clustered import Units, sum_by_unit, units_of


def clustered(n: int, seed: int, *, skewed: bool = True) -> tuple[np.ndarray, Units]:
    rng = np.random.default_rng(seed)
    units = units_of(np.repeat(np.arange(n), rng.integers(1, 5, n)))
    shift = np.exp(rng.normal(-4, 1.5 if skewed else 0.1, n))[units.code] + rng.normal(0, 1e-3, len(units.code))
    return sum_by_unit(shift[:, None], units), units


def test_the_interval_of_a_mean_is_the_union_of_students_and_halls() -> None:
    sums, units = clustered(40, 3)
    found = MeanArrays.of(sums, units)
    n_notes, k = units.size.sum(), 40
    mean = sums[:, 0].sum() / n_notes
    rest = np.asarray([mean - np.delete(sums[:, 0], i).sum() / np.delete(units.size, i).sum() for i in range(k)])
    error = np.sqrt((rest**2).sum() * (k - 1) / k)
    n = n_notes**2 / (units.size**2).sum()
    q, skew = stats.t.ppf(0.975, n - 1), (rest**3).mean() / (rest**2).mean() ** 1.5
    hall = [
        mean - error * np.sqrt(n) * 3 / skew * (np.cbrt(1 + skew * (side * q / np.sqrt(n) - skew / (6 * n))) - 1)
        for side in (1, -1)
    ]
    low, high = found.ends(0.05)
    assert found.value[0] == pytest.approx(mean)
    assert low[0] == pytest.approx(min(hall[0], mean - q * error))
    assert high[0] == pytest.approx(max(hall[1], mean + q * error))
    assert high[0] - mean > 1.2 * (mean - low[0]), "a few patients carry the risk: the upper arm is longer"


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shift=st.floats(-0.05, 0.05),
    outside=st.sampled_from([0.2, 0.05, 0.01, 1e-3, 1e-5]),
    skewed=st.booleans(),
)
def test_an_interval_excludes_0_exactly_where_its_test_rejects(
    seed: int, shift: float, outside: float, skewed: bool
) -> None:
    """ "+0.028 to +0.497, p = 1.0" can't be: corrected or not, p and interval are the same statement."""
    sums, units = clustered(30, seed, skewed=skewed)
    found = MeanArrays.of(sums + shift * units.size[:, None], units)
    low, high = found.ends(outside)
    rejected = found.p_value() < outside
    assert rejected[0] == (low[0] > 0 or high[0] < 0)


def test_no_change_in_any_patient_has_a_width_that_shrinks_with_their_number() -> None:
    widths = []
    for n in (20, 100, 1000):
        units = units_of(np.arange(n))
        found = MeanArrays.of(np.zeros((n, 1)), units, 0.2)
        low, high = found.ends(0.05)
        assert found.p_value()[0] == 1.0
        assert low[0] == -high[0]
        widths.append(high[0])
    assert widths[0] > widths[1] > widths[2] > 0
    assert widths[2] < 0.01
    same = MeanArrays.of(np.full((50, 1), 0.1), units_of(np.arange(50)), 0.2)
    low, high = same.ends(0.05)
    assert 0 < low[0] < 0.1 < high[0]
    assert same.p_value()[0] < 0.05


def test_a_share_of_0_or_1_has_a_real_width_and_one_note_per_patient_is_the_exact_interval() -> None:
    units = units_of(np.arange(60))
    for count in (0, 1, 7, 60):
        found = ShareArrays.of(np.repeat([1.0, 0.0], [count, 60 - count])[:, None], units)
        low, high = found.ends(0.05)
        n = found.n[0] * (stats.norm.ppf(0.025) / stats.t.ppf(0.025, 59)) ** 2
        x = n * count / 60
        assert low[0] == pytest.approx(0.0 if count == 0 else stats.beta.ppf(0.025, x, n - x + 1))
        assert high[0] == pytest.approx(1.0 if count == 60 else stats.beta.ppf(0.975, x + 1, n - x))
        assert high[0] - low[0] > 0.05


def test_notes_that_flip_together_are_worth_their_patients() -> None:
    rng = np.random.default_rng(0)
    units = units_of(np.repeat(np.arange(300), 3))
    together = ShareArrays.of(sum_by_unit((rng.random(300) < 0.2)[units.code][:, None], units), units)
    apart = ShareArrays.of(sum_by_unit((rng.random(900) < 0.2)[:, None], units), units)
    assert together.n[0] == pytest.approx(300, rel=0.05)
    assert apart.n[0] > 700
