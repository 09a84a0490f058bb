"""Strata of the pre-test probability: disjoint, ordered, ties kept together, emptiness told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate import stats
from palpate.stats import bootstrap, quantile_strata, resample_counts


def test_quarters_of_distinct_values():
    p = np.random.default_rng(1).permutation(100) / 100
    found = quantile_strata(p)
    assert found.size.tolist() == [25, 50, 25]
    assert found.empty == ()
    assert p[found.stratum == 0].max() < p[found.stratum == 1].min()
    assert p[found.stratum == 1].max() < p[found.stratum == 2].min()
    assert found.edges.tolist() == [0.24, 0.74]


def test_a_decision_tree_leaves_the_middle_empty():
    found = quantile_strata([0.1] * 80 + [0.7] * 20)
    assert found.size.tolist() == [80, 0, 20]
    assert found.empty == (1,)
    constant = quantile_strata(np.full(10, 0.3))
    assert constant.size.tolist() == [10, 0, 0]
    assert constant.empty == (1, 2)


def test_rows_without_a_probability_are_in_no_stratum():
    found = quantile_strata([math.nan, 0.1, 0.2, 0.3, 0.4])
    assert found.stratum.tolist() == [-1, 0, 1, 1, 2]
    nothing = quantile_strata([math.nan, math.nan])
    assert nothing.size.tolist() == [0, 0, 0]
    assert np.isnan(nothing.edges).all()
    assert quantile_strata([]).empty == (0, 1, 2)


@given(
    st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.1, 0.2, 0.5])), min_size=1, max_size=60),
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5, unique=True).map(sorted),
)
def test_strata_are_ordered_and_ties_stay_together(values, quantiles):
    p = np.array(values)
    found = quantile_strata(p, quantiles=quantiles)
    assert found.size.sum() == p.size
    order = np.argsort(p, kind="stable")
    assert (np.diff(found.stratum[order]) >= 0).all()
    for value in np.unique(p):
        assert np.unique(found.stratum[p == value]).size == 1
    # At least the share that was asked for lies at or below each edge, and not without the edge's own rows.
    for edge, share in zip(found.edges, quantiles, strict=True):
        assert (p <= edge).sum() >= share * p.size - 1e-9
        assert (p < edge).sum() <= share * p.size + 1e-9


@pytest.mark.parametrize("quantiles", [(), (0.0, 0.5), (0.5, 0.5), (0.7, 0.3), (0.5, 1.0)])
def test_wrong_quantiles(quantiles):
    with pytest.raises(ValueError, match="quantiles"):
        quantile_strata([0.1, 0.2], quantiles=quantiles)


def test_a_stratum_under_the_global_threshold():
    """The threshold comes from all rows; strata share the resamples, so their difference is paired."""
    g = np.random.default_rng(2)
    p = g.random(400)
    y = g.random(400) < p
    s = np.clip(0.5 * p + 0.3 * y + g.normal(0, 0.2, 400), 0, 1)
    patient = g.integers(0, 150, 400)
    threshold = stats.threshold_at_specificity(y, s, specificity=0.95)
    strata = quantile_strata(p)
    names = ("sensitivity", "specificity")
    counts = resample_counts(rng=3, patient=patient, n_replicates=5)
    for k in range(3):
        rows = strata.stratum == k
        found = bootstrap(y, s, metrics=names, threshold=threshold, rows=rows, patient=patient, n_replicates=5, rng=3)
        for i, count in enumerate(counts):
            drawn = np.repeat(np.arange(400), count * rows)
            want = stats.sensitivity_at_threshold(y[drawn], s[drawn], threshold=threshold)
            assert found.values[0, 0, 0, i] == pytest.approx(want, abs=1e-12)
