"""Matching on a line against `linear_sum_assignment`, and its tie rule against every choice there is."""

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

from palpate.stats import balance, match_pairs


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


def check_pairs(p, y, pairs):
    assert pairs.positives.shape == pairs.negatives.shape
    assert y[pairs.positives].all()
    assert not y[pairs.negatives].any()
    for side in pairs:
        assert len(set(side.tolist())) == side.size
        assert (np.diff(p[side]) >= 0).all()


@settings(max_examples=600, deadline=None)
@given(rows_of)
def test_cost_is_that_of_linear_sum_assignment(rows):
    p, y = arrays(rows)
    pairs = match_pairs(p, y)
    check_pairs(p, y, pairs)
    assert pairs.positives.size == min(y.sum(), (~y).sum())
    assert np.abs(p[pairs.positives] - p[pairs.negatives]).sum() == pytest.approx(least_cost(p, y), abs=1e-9)


@settings(max_examples=600, deadline=None)
@given(rows_of, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.05, 0.1, 0.25, 1.0])))
def test_caliper_leaves_out_what_costs_more_than_it(rows, caliper):
    p, y = arrays(rows)
    pairs = match_pairs(p, y, caliper=caliper)
    check_pairs(p, y, pairs)
    apart = np.abs(p[pairs.positives] - p[pairs.negatives])
    assert (apart <= caliper + 1e-15).all()
    left_out = min(y.sum(), (~y).sum()) - apart.size
    assert apart.sum() + caliper * left_out == pytest.approx(least_cost(p, y, caliper), abs=1e-9)


def test_larger_sets_cost_the_same_too():
    g = np.random.default_rng(3)
    for n, share, decimals in [(900, 0.2, 17), (900, 0.5, 2), (900, 0.8, 3), (700, 0.02, 17)]:
        p = g.beta(1, 3, n).round(decimals)
        y = g.random(n) < np.clip(2 * share * p / p.mean() / 2, 0, 1)
        pairs = match_pairs(p, y)
        assert np.abs(p[pairs.positives] - p[pairs.negatives]).sum() == pytest.approx(least_cost(p, y), abs=1e-9)


def best_by_rule(p, y, caliper):
    """Every choice of rows, the cheapest, and among these by the tie rule: the rows used."""
    order = np.lexsort((y, p))
    smaller = y.sum() <= (~y).sum()
    found = []
    for chosen in itertools.product([False, True], repeat=p.size):
        used = np.array(chosen, bool)
        a, b = np.sort(p[used & y]), np.sort(p[used & ~y])
        if a.size != b.size:
            continue
        left_out = min(y.sum(), (~y).sum()) - a.size
        if caliper is None and left_out:
            continue
        cost = np.abs(a - b).sum() + (caliper or 0.0) * left_out
        # From the last row to the first: the larger class rather left out, the smaller rather used.
        wish = tuple(bool(used[i]) != bool(y[i] == smaller) for i in order[::-1])
        found.append((round(cost, 12), left_out, wish, chosen))
    return np.array(min(found)[3], bool)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=9),
    st.sampled_from([None, 0.0, 0.125, 0.25, 0.5]),
)
def test_ties_are_broken_by_the_rule(rows, caliper):
    p, y = np.array([k / 8 for k, _ in rows]), np.array([label for _, label in rows])
    pairs = match_pairs(p, y, caliper=caliper)
    used = np.zeros(p.size, bool)
    used[np.concatenate(pairs)] = True
    assert used.tolist() == best_by_rule(p, y, caliper).tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40),
    st.sampled_from([None, 0.0, 0.2]),
    st.randoms(use_true_random=False),
)
def test_row_order_decides_only_among_equals(rows, caliper, random):
    p, y = np.array([k / 6 for k, _ in rows]), np.array([label for _, label in rows])
    key = np.array(random.sample(range(1000), p.size))
    moved = np.array(random.sample(range(p.size), p.size))

    def kinds(pairs, p, y):
        return sorted((float(p[i]), bool(y[i])) for i in np.concatenate(pairs))

    assert kinds(match_pairs(p, y, caliper=caliper), p, y) == kinds(
        match_pairs(p[moved], y[moved], caliper=caliper), p[moved], y[moved]
    )
    before = match_pairs(p, y, caliper=caliper, tie_break=key)
    after = match_pairs(p[moved], y[moved], caliper=caliper, tie_break=key[moved])
    assert sorted(key[np.concatenate(before)]) == sorted(key[moved][np.concatenate(after)])


def test_first_rows_and_lower_probabilities_win():
    assert match_pairs([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 0]).negatives.tolist() == [0]
    assert match_pairs([0.5, 0.5, 0.5], [0, 0, 1], tie_break=[2, 1, 0]).negatives.tolist() == [1]
    assert match_pairs([0.75, 0.5, 0.25], [0, 1, 0]).negatives.tolist() == [2]


def test_a_pair_as_far_apart_as_the_caliper_is_made():
    assert match_pairs([0.25, 0.5], [0, 1], caliper=0.25).positives.tolist() == [1]
    assert match_pairs([0.25, 0.5], [0, 1], caliper=0.2499).positives.size == 0
    assert match_pairs([0.3, 0.3, 0.3], [0, 1, 0], caliper=0.0).negatives.tolist() == [0]


def test_a_row_without_a_partner_does_not_spoil_other_pairs():
    """Without the caliper 0.0 takes 0.5 and 0.5 takes 0.6; dropping far pairs afterwards would leave nothing."""
    p, y = np.array([0.0, 0.5, 0.5, 0.6]), np.array([1, 1, 0, 0])
    assert match_pairs(p, y, caliper=0.05) == (np.array([1]), np.array([2]))


@pytest.mark.parametrize("y", [[], [1], [0, 0], [1, 1, 1]])
def test_one_class_has_no_pairs(y):
    pairs = match_pairs(np.full(len(y), 0.5), y)
    assert pairs.positives.size == pairs.negatives.size == 0


@pytest.mark.parametrize(
    ("p", "y", "more", "words"),
    [
        ([0.5, math.nan], [0, 1], {}, "finite"),
        ([0.5, 1.5], [0, 1], {}, r"\[0, 1\]"),
        ([0.5], [0, 1], {}, "same number of rows"),
        ([0.5, 0.5], [0, 2], {}, "0 and 1"),
        ([0.5, 0.5], [0, 1], {"caliper": -0.1}, "caliper"),
        ([0.5, 0.5], [0, 1], {"caliper": math.nan}, "caliper"),
        ([0.5, 0.5], [0, 1], {"tie_break": [1]}, "tie_break"),
    ],
)
def test_wrong_input_is_a_value_error(p, y, more, words):
    with pytest.raises(ValueError, match=words):
        match_pairs(p, y, **more)


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
    used = np.zeros(4000)
    used[np.concatenate(match_pairs(p, y))] = 1
    before, after = balance(p, y), balance(p, y, weight=used)
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
