"""The parts of a pre-test model, each against scikit-learn or a slow, obvious version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, xlogy
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.isotonic import IsotonicRegression

from palpate.stats.context.pretest_model import (
    calibrator,
    category_columns,
    frequent_words,
    number_columns,
    rows_with,
    standardised,
)


def test_a_number_is_the_mean_of_the_rows_to_learn_from_where_it_is_missing() -> None:
    values = np.array([1.0, np.nan, 3.0, 100.0, np.nan])
    found = number_columns(values, np.array([0, 1, 2]))
    assert found.tolist() == [[1, 0], [2, 1], [3, 0], [100, 0], [2, 1]]
    assert number_columns(np.full(2, np.nan), np.arange(2)).tolist() == [[0, 1], [0, 1]]
    skewed = np.array([1.0, 2.0, 9.0, np.nan])
    assert number_columns(skewed, np.arange(4), centre=np.median)[3].tolist() == [2, 1]


def test_a_value_needs_ten_rows_and_missing_is_a_value() -> None:
    values = ["b"] * 10 + ["a"] * 12 + ["c"] * 9 + [""] * 11 + ["d"] * 50
    learn = np.arange(42)
    kept, columns = category_columns(values, learn)
    assert kept == ("", "a", "b")
    assert columns.sum(axis=0).tolist() == [11, 12, 10]
    assert columns[10].tolist() == [0, 1, 0]
    assert category_columns(values, learn, most=2)[0] == ("", "a")
    assert category_columns(["x"] * 3, np.arange(3))[1].shape == (3, 0)


def test_columns_are_standardised_on_the_rows_to_learn_from() -> None:
    columns = np.random.default_rng(0).normal(3, 2, (50, 3))
    columns[:, 2] = 7
    found = standardised(columns, np.arange(30))
    np.testing.assert_allclose(found[:30, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found[:30, :2].std(axis=0), 1)
    assert not found[:, 2].any()


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), min_size=2, max_size=15),
    st.integers(1, 3),
    st.floats(0.2, 1.0),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_frequent_words_are_scikit_learns(rows: list[list[str]], low: int, high: float, most: int | None) -> None:
    counter = CountVectorizer(token_pattern=r"\w", vocabulary=list("abcdef"))
    counts = sparse.csr_matrix(counter.fit_transform([" ".join(row) for row in rows]))
    found = frequent_words(counts, min_rows=low, max_share=high, most=most)
    n_rows = {word: sum(word in row for row in rows) for word in "abcdef"}
    kept = [word for word in "abcdef" if low <= n_rows[word] <= high * len(rows)]
    often = {word: sum(row.count(word) for row in rows) for word in kept}
    kept = sorted(sorted(kept, key=lambda word: -often[word])[:most])
    assert ["abcdef"[k] for k in found] == kept
    allowed = np.arange(6) % 2 == 0
    assert set(frequent_words(counts, min_rows=1, max_share=1.0, most=None, allowed=allowed)) <= {0, 2, 4}


@given(st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 3))), min_size=1, max_size=20))
def test_a_word_is_counted_once_per_patient(rows: list[tuple[int, set[int]]]) -> None:
    counts = sparse.csr_matrix(np.array([[3 * (k in words) for k in range(4)] for _, words in rows]))
    patients = np.array([patient for patient, _ in rows])
    assert rows_with(counts).tolist() == [sum(k in words for _, words in rows) for k in range(4)]
    expected = [len({patient for patient, words in rows if k in words}) for k in range(4)]
    assert rows_with(counts, patients).tolist() == expected


def scored(n: int, scale: float, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n)
    y = (rng.random(n) < expit(1.5 * score - 1)).astype(np.uint8)
    return scale * score, y, scale * np.linspace(-4, 4, 41)


@pytest.mark.parametrize(("n", "scale"), [(60, 1.0), (500, 100.0), (5000, 1e-3)])
def test_platts_sigmoid_has_platts_targets(n: int, scale: float) -> None:
    """Against the likelihood of Platt (1999), maximised by hand."""
    score, y, new = scored(n, scale)
    n_positive = int(y.sum())
    target = np.where(y == 1, (n_positive + 1) / (n_positive + 2), 1 / (n - n_positive + 2))

    def loss(line: Any) -> float:
        p = expit(line[0] * score / scale + line[1])
        return -float((xlogy(target, p) + xlogy(1 - target, 1 - p)).sum())

    slope, level = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-5}).x
    np.testing.assert_allclose(calibrator(score, y)(new), expit(slope * new / scale + level), atol=1e-4)


def test_isotonic_regression_is_scikit_learns() -> None:
    score, y, new = scored(300, 1.0)
    theirs = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(score, y).predict(new)
    np.testing.assert_array_equal(calibrator(score, y, "isotonic")(new), theirs)


def test_separable_scores_do_not_run_away_and_constant_ones_give_the_prevalence() -> None:
    y = np.repeat([0, 1], 20).astype(np.uint8)
    p = calibrator(np.repeat([-1.0, 1.0], 20), y)(np.array([-1.0, 1.0]))
    np.testing.assert_allclose(p, [1 / 22, 21 / 22], atol=1e-4)
    assert calibrator(np.ones(40), y)(np.ones(1))[0] == pytest.approx(0.5, abs=1e-4)
