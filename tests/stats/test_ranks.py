"""Rank correlation against scipy, and against the vocabulary paper's own numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, rankdata, spearmanr

from palpate.stats import (
    average_ranks,
    pearson,
    resampled_pearson,
    resampled_ranks,
    resampled_spearman,
    spearman,
)
from tests.stats.paper_words import WORDS


@pytest.mark.parametrize(("column", "published"), [(2, 0.57547), (3, 0.12595)])
def test_the_papers_correlations(column, published):
    """Table 2 prints 0.5754 and 0.1259; the ranks of Tables 8 and 9 give them, ties averaged."""
    manual, model = [word[1] for word in WORDS], [word[column] for word in WORDS]
    assert len(WORDS) == 49
    assert sorted(model) == list(range(1, 50))
    assert round(spearman(manual, model), 5) == published


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30))
def test_equals_scipy(pairs):
    a, b = np.array(pairs, float).T
    np.testing.assert_array_equal(average_ranks(a), rankdata(a))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)
    else:
        assert math.isnan(spearman(a, b))


def test_ends_and_errors():
    assert spearman([1, 2, 3], [10, 20, 30]) == 1.0
    assert spearman([1, 2, 3], [3, 2, 1]) == -1.0
    assert math.isnan(spearman([1], [1]))
    with pytest.raises(ValueError, match="3 values but b has 2"):
        spearman([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="finite"):
        spearman([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match="one dimension"):
        average_ranks([[1, 2]])


def test_pearson_equals_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 30))
    assert pearson(a, a + b) == pytest.approx(pearsonr(a, a + b).statistic, abs=1e-12)
    assert math.isnan(pearson([0.1, 0.1, 0.1], [1, 2, 3]))
    assert math.isnan(pearson([1], [2]))
    with pytest.raises(ValueError, match="same number"):
        pearson([1, 2], [1, 2, 3])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12), st.integers(0, 99))
def test_resamples_by_counts_equal_resampled_rows(pairs, seed):
    a, b = np.array(pairs, float).T
    counts = np.random.default_rng(seed).multinomial(len(a), np.full(len(a), 1 / len(a)), size=8)
    ranks, fast = resampled_ranks(a, counts), resampled_spearman(a, b, counts)
    plain = resampled_pearson(a / 3, b / 7, counts)
    for k, count in enumerate(counts):
        rows = np.repeat(np.arange(len(a)), count)
        np.testing.assert_array_equal(ranks[k][rows], rankdata(a[rows]))
        np.testing.assert_allclose(fast[k], spearman(a[rows], b[rows]), rtol=0, atol=1e-12)
        if len(set(a[rows])) > 1 and len(set(b[rows])) > 1:
            assert plain[k] == pytest.approx(pearsonr(a[rows], b[rows]).statistic, abs=1e-12)
        else:
            assert math.isnan(plain[k])


def test_resampled_ranks_checks_its_shapes():
    with pytest.raises(ValueError, match="counts"):
        resampled_ranks([1, 2, 3], [[1, 1]])
