"""Agreement against published worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from palpate.stats import fleiss_kappa, hooper_consistency, kendall_w, krippendorff_alpha

_ = math.nan
# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", example C: 4 observers, 12 units.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
# The table in Wikipedia's "Fleiss' kappa": 10 subjects, 14 raters, 5 categories.
RATED = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_example(level, alpha):
    assert round(krippendorff_alpha(OBSERVERS, level=level), 3) == alpha


def test_alpha_of_two_observers_and_binary_data():
    """Krippendorff (2011), example A: alpha = 0.095."""
    a, b = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert round(krippendorff_alpha([a, b]), 3) == 0.095


def test_alpha_ends():
    assert krippendorff_alpha([[1, 2, 3], [1, 2, 3]]) == 1.0
    assert math.isnan(krippendorff_alpha([[1, 1], [1, 1]]))
    assert math.isnan(krippendorff_alpha([[1, _], [_, 2]]))
    assert math.isnan(krippendorff_alpha([[_], [_]]))
    with pytest.raises(ValueError, match="level"):
        krippendorff_alpha(OBSERVERS, level="ratio")
    with pytest.raises(ValueError, match="raters, units"):
        krippendorff_alpha([1, 2])


def test_kappa():
    assert round(fleiss_kappa(RATED), 3) == 0.210
    assert fleiss_kappa([[3, 0], [0, 3]]) == 1.0
    assert math.isnan(fleiss_kappa([[3, 0], [3, 0]]))
    with pytest.raises(ValueError, match="same number"):
        fleiss_kappa([[3, 0], [2, 0]])


def test_hooper():
    assert hooper_consistency([{"a", "b", "c"}, {"b", "c", "d"}]) == 0.5
    assert hooper_consistency([["a", "a"], ("a",)]) == 1.0
    three = hooper_consistency([{1, 2}, {1}, {2}])
    assert three == pytest.approx((0.5 + 0.5 + 0.0) / 3)
    assert hooper_consistency([{1}, set(), set()]) == 0.0
    assert math.isnan(hooper_consistency([set(), set()]))
    with pytest.raises(ValueError, match="two annotators"):
        hooper_consistency([{1}])


def test_kendall_w_is_friedmans_statistic_scaled():
    """W = chi2 / (raters (items - 1)), ties corrected on both sides."""
    g = np.random.default_rng(0)
    for ratings in (g.random((4, 7)), g.integers(0, 3, (5, 6)).astype(float)):
        chi2 = friedmanchisquare(*ratings.T).statistic
        raters, items = ratings.shape
        assert kendall_w(ratings) == pytest.approx(chi2 / (raters * (items - 1)), abs=1e-12)


def test_kendall_w_ends():
    assert kendall_w([[1, 2, 3], [10, 20, 30]]) == 1.0
    assert kendall_w([[1, 2, 3], [3, 2, 1]]) == 0.0
    assert math.isnan(kendall_w([[1, 1], [2, 2]]))
    assert math.isnan(kendall_w([[1], [2]]))
    with pytest.raises(ValueError, match="finite"):
        kendall_w([[1, _], [1, 2]])


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_a_weight_is_how_many_units_there_are(level):
    times = np.array([1, 3, 0, 2, 1, 1, 4, 1, 1, 2, 5, 1])
    repeated = np.repeat(np.array(OBSERVERS), times, axis=1)
    found = krippendorff_alpha(OBSERVERS, level=level, weight=times)
    assert found == pytest.approx(krippendorff_alpha(repeated, level=level), abs=1e-12)
    assert found != pytest.approx(krippendorff_alpha(OBSERVERS, level=level), abs=1e-3)
    assert math.isnan(krippendorff_alpha(OBSERVERS, level=level, weight=np.zeros(12)))


def test_kappa_with_weights():
    times = np.array([1, 3, 0, 2, 1, 1, 4, 1, 1, 2])
    found = fleiss_kappa(RATED, weight=times)
    assert found == pytest.approx(fleiss_kappa(np.repeat(RATED, times, axis=0)), abs=1e-12)
    assert math.isnan(fleiss_kappa(RATED, weight=np.zeros(10)))
    for wrong in (times[:-1], -times, times * np.nan):
        with pytest.raises(ValueError, match="weight"):
            fleiss_kappa(RATED, weight=wrong)
