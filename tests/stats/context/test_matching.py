"""Matching on a line against `linear_sum_assignment`, and its shares against every choice of rows there is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score

from palpate.stats import auroc, balance, matched_share


def distances(p, y):
    """|p - p'|, [smaller class, larger class]."""
    matrix = np.abs(p[y][:, None] - p[~y][None, :])
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T


def least_cost(p, y, caliper=None):
    """By scipy; a row left out goes to one of as many places that cost the caliper."""
    matrix = distances(p, y)
    if caliper is not None:
        matrix = np.hstack([matrix, np.full((len(matrix), len(matrix)), caliper)])
    rows, columns = linear_sum_assignment(matrix)
    return matrix[rows, columns].sum()


probabilities = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0]),  # ties, and equal distances
    st.floats(0, 1e-9),
)
rows_of = st.lists(st.tuples(probabilities, st.booleans()), max_size=25)


def arrays(rows):
    return np.array([p for p, _ in rows], float), np.array([y for _, y in rows], bool)


def cost_of(p, y, share):
    """What the average matching costs: pairs in the order of p, so the distance that the shares have to move."""
    order = np.argsort(p, kind="stable")
    ahead = np.cumsum(np.where(y, share, -share)[order])
    return float(np.sum(np.abs(ahead[:-1]) * np.diff(p[order]))) if p.size else 0.0


@settings(max_examples=600, deadline=None)
@given(rows_of)
def test_cost_is_that_of_linear_sum_assignment(rows):
    p, y = arrays(rows)
    share = matched_share(p, y)
    fewest = min(y.sum(), (~y).sum())
    assert ((share >= 0) & (share <= 1 + 1e-12)).all()
    assert share[y].sum() == pytest.approx(fewest)
    assert share[~y].sum() == pytest.approx(fewest)
    assert cost_of(p, y, share) == pytest.approx(least_cost(p, y), abs=1e-9)


@settings(max_examples=600, deadline=None)
@given(rows_of, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.05, 0.1, 0.25, 1.0])))
def test_caliper_leaves_out_what_costs_more_than_it(rows, caliper):
    p, y = arrays(rows)
    share = matched_share(p, y, caliper=caliper)
    assert share[y].sum() == pytest.approx(share[~y].sum())
    left_out = min(y.sum(), (~y).sum()) - share[y].sum()
    assert cost_of(p, y, share) + caliper * left_out == pytest.approx(least_cost(p, y, caliper), abs=1e-9)


def test_larger_sets_cost_the_same_too():
    g = np.random.default_rng(3)
    for n, share, decimals in [(900, 0.2, 17), (900, 0.5, 2), (900, 0.8, 3), (700, 0.02, 17)]:
        p = g.beta(1, 3, n).round(decimals)
        y = g.random(n) < np.clip(2 * share * p / p.mean() / 2, 0, 1)
        assert cost_of(p, y, matched_share(p, y)) == pytest.approx(least_cost(p, y), abs=1e-9)


def best_choices(p, y, caliper):
    """Every choice of rows, and among them all that cost least: whether each row is used, [choice, row]."""
    found = []
    for chosen in itertools.product([False, True], repeat=p.size):
        used = np.array(chosen, bool)
        a, b = np.sort(p[used & y]), np.sort(p[used & ~y])
        left_out = min(y.sum(), (~y).sum()) - a.size
        if a.size == b.size and (caliper is not None or not left_out):
            # Of two choices that cost the same, the one with more pairs is the better.
            found.append((round(np.abs(a - b).sum() + (caliper or 0.0) * left_out, 12), left_out, chosen))
    least = min(found)[:2]
    return np.array([chosen for cost, left_out, chosen in found if (cost, left_out) == least], bool)


places = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 0.9])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(places, st.booleans()), min_size=1, max_size=10),
    st.sampled_from([None, 0.0, 0.05, 0.1, 0.2, 0.5]),
)
def test_a_share_is_the_share_of_all_best_choices(rows, caliper):
    p, y = arrays(rows)
    best = best_choices(p, y, caliper)
    np.testing.assert_allclose(matched_share(p, y, caliper=caliper), best.mean(axis=0), atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(places, st.booleans(), st.integers(0, 4)), min_size=2, max_size=10).filter(
        lambda rows: 0 < sum(y for _, y, _ in rows) < len(rows)
    )
)
def test_the_auroc_is_the_mean_over_all_best_choices(rows):
    (p, y), score = arrays([row[:2] for row in rows]), np.array([row[2] / 4 for row in rows])
    best = best_choices(p, y, None)
    mean = np.mean([roc_auc_score(y[used], score[used]) for used in best])
    assert auroc(y, score, weight=matched_share(p, y)) == pytest.approx(mean, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(places, st.booleans()), min_size=1, max_size=40),
    st.sampled_from([None, 0.0, 0.2]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_rows_changes_nothing(rows, caliper, random):
    p, y = arrays(rows)
    moved = np.array(random.sample(range(p.size), p.size))
    before, after = matched_share(p, y, caliper=caliper), matched_share(p[moved], y[moved], caliper=caliper)
    np.testing.assert_array_equal(before[moved], after)


def test_many_equal_probabilities_are_counted_without_overflow():
    """Each side of the positives has as good negatives: all of them have the same share."""
    p = np.repeat([0.3, 0.4, 0.5], [9_000, 6_000, 1_000])
    y = p == 0.4
    np.testing.assert_allclose(matched_share(p, y), np.where(y, 1.0, 0.6), atol=1e-9)


def test_a_grid_of_probabilities_has_ties_that_binary_numbers_hide():
    assert matched_share([0.1, 0.2, 0.3], [0, 1, 0]).tolist() == pytest.approx([0.5, 1, 0.5])


def test_a_pair_as_far_apart_as_the_caliper_is_made():
    assert matched_share([0.25, 0.5], [0, 1], caliper=0.25).tolist() == [1, 1]
    assert matched_share([0.25, 0.5], [0, 1], caliper=0.2499).tolist() == [0, 0]
    assert matched_share([0.3, 0.3, 0.3], [0, 1, 0], caliper=0.0).tolist() == [0.5, 1, 0.5]


def test_a_row_without_a_partner_does_not_spoil_other_pairs():
    """Without the caliper 0.0 takes 0.5 and 0.5 takes 0.6; dropping far pairs afterwards would leave nothing."""
    p, y = np.array([0.0, 0.5, 0.5, 0.6]), np.array([1, 1, 0, 0])
    assert matched_share(p, y, caliper=0.05).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("y", [[], [1], [0, 0], [1, 1, 1]])
def test_one_class_has_no_pairs(y):
    assert matched_share(np.full(len(y), 0.5), y).tolist() == [0] * len(y)


@pytest.mark.parametrize(
    ("p", "y", "more", "words"),
    [
        ([0.5, math.nan], [0, 1], {}, "finite"),
        ([0.5, 1.5], [0, 1], {}, r"\[0, 1\]"),
        ([0.5], [0, 1], {}, "same number of rows"),
        ([0.5, 0.5], [0, 2], {}, "0 and 1"),
        ([0.5, 0.5], [0, 1], {"caliper": -0.1}, "caliper"),
        ([0.5, 0.5], [0, 1], {"caliper": math.nan}, "caliper"),
    ],
)
def test_wrong_input_is_a_value_error(p, y, more, words):
    with pytest.raises(ValueError, match=words):
        matched_share(p, y, **more)


@pytest.mark.parametrize("decimals", [1, 17])
def test_balance_is_what_scipy_and_sklearn_say(decimals):
    g = np.random.default_rng(5)
    p = g.random(300).round(decimals)
    y = g.random(300) < p
    found = balance(p, y)
    assert found.ks == pytest.approx(ks_2samp(p[y], p[~y]).statistic, abs=1e-12)
    assert found.auroc == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    spread = math.sqrt((np.var(p[y]) + np.var(p[~y])) / 2)
    assert found.smd == pytest.approx((p[y].mean() - p[~y].mean()) / spread, abs=1e-12)

    copies = g.integers(0, 4, 300)
    many = np.repeat(np.arange(300), copies)
    weighted = balance(p, y, weight=copies)
    assert weighted.ks == pytest.approx(ks_2samp(p[many][y[many]], p[many][~y[many]]).statistic, abs=1e-12)
    assert weighted.auroc == pytest.approx(roc_auc_score(y[many], p[many]), abs=1e-12)
    assert weighted.mean_positive == pytest.approx(p[many][y[many]].mean(), abs=1e-12)
    assert weighted.smd == pytest.approx((weighted.mean_positive - weighted.mean_negative) / spread, abs=1e-12)


def test_balance_after_matching_is_better():
    g = np.random.default_rng(6)
    p = g.beta(1, 6, 4000)
    y = g.random(4000) < p
    before, after = balance(p, y), balance(p, y, weight=matched_share(p, y))
    assert before.smd > 0.5
    assert before.ks > 0.2
    assert before.auroc > 0.65
    assert abs(after.smd) < 0.1
    assert after.ks < 0.1
    assert abs(after.auroc - 0.5) < 0.02


def test_balance_is_nan_without_a_class():
    assert all(math.isnan(value) for value in balance([0.1, 0.2], [0, 0]))
    assert all(math.isnan(value) for value in balance([0.1, 0.2], [0, 1], weight=[1, 0]))
    assert math.isnan(balance([0.3, 0.3, 0.3], [0, 1, 1]).smd)


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7])
def test_equal_probabilities_have_no_standardised_difference(value):
    found = balance(np.full(400, value), np.arange(400) % 7 == 0)
    assert np.isnan(found.smd)
    assert (found.ks, found.auroc) == (pytest.approx(0), 0.5)
