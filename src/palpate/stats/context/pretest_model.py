"""The parts of a pre-test model: its features as numbers, and its calibration (context paper, Section 3.2, Appendix A).

The context audit fits a small model where a cohort brings no pre-test probabilities; `palpate train pretest` chooses
among hundreds. What both do alike is here: attributes become columns, words are chosen by how many rows have them, and
scores become probabilities. What is learned (means, values, words) comes from the rows `learn`, without their labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from palpate.stats.inputs import Floats

Ints = NDArray[np.int64]
Calibration = Literal["platt", "isotonic"]
FEWEST_WITH_VALUE = 10
"""A value of an attribute gets a column if at least this many of the rows to learn from have it."""


def number_columns(values: Floats, learn: Ints, *, centre: Callable[[Floats], Any] = np.mean) -> Floats:
    """[n, 2]: a number, with the mean (or another `centre`) where it is missing (nan), and whether it is missing."""
    missing = np.isnan(values)
    known = values[learn][~missing[learn]]
    return np.column_stack([np.where(missing, float(centre(known)) if len(known) else 0.0, values), missing])


def category_columns(values: Sequence[str], learn: Ints, *, most: int | None = None) -> tuple[tuple[str, ...], Floats]:
    """The values that are frequent enough, at most `most`, and whether each row has them, [n, values].

    An empty text is a value like any other.
    """
    every = np.asarray(values, dtype=object)
    found, counts = np.unique(every[learn].astype(str), return_counts=True)
    often = np.sort(np.argsort(-counts, kind="stable")[:most])
    kept = tuple(str(found[k]) for k in often if counts[k] >= FEWEST_WITH_VALUE)
    return kept, np.column_stack([np.zeros((len(every), 0)), *(every == value for value in kept)])


def standardised(columns: Floats, learn: Ints) -> Floats:
    """Columns with mean 0 and standard deviation 1 in the rows to learn from; a constant column becomes 0 there."""
    spread = columns[learn].std(axis=0)
    return np.asarray((columns - columns[learn].mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def frequent_words(
    counts: Any, *, min_rows: int, max_share: float, most: int | None, allowed: NDArray[np.bool_] | None = None
) -> Ints:
    """Columns of sparse counts, [row, word], that at least `min_rows` rows and at most a share of them have.

    If they are more than `most`, the words with the largest counts are kept. The result is in ascending order.
    """
    n_rows = rows_with(counts)
    keep = (n_rows >= min_rows) & (n_rows <= max_share * counts.shape[0])
    kept = np.flatnonzero(keep if allowed is None else keep & allowed)
    often = np.asarray(counts.sum(axis=0, dtype=np.float64)).ravel()[kept]
    return np.sort(kept[np.argsort(-often, kind="stable")[:most]])


def rows_with(counts: Any, group: Ints | None = None) -> Ints:
    """How many rows of sparse counts, or how many groups of rows (patients), have each word."""
    if group is not None:
        codes = np.unique(group, return_inverse=True)[1]
        n = len(codes)
        belongs = sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(int(codes.max(initial=-1)) + 1, n))
        counts = belongs @ sparse.csr_array(counts)
    return np.bincount(counts.indices, minlength=counts.shape[1]).astype(np.int64)


def calibrator(
    score: Floats, y_true: NDArray[np.uint8], method: Calibration = "platt", weight: Floats | None = None
) -> Callable[[Floats], Floats]:
    """A map from scores to probabilities, learned from scores of rows that the model has not seen.

    scikit-learn's calibration: Platt's sigmoid, with his targets in place of 0 and 1, which keep it from growing
    without end, or isotonic regression; `weight` counts the rows.
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    identity = LogisticRegression()  # a classifier whose decision function is its only feature, the score
    identity.classes_, identity.coef_, identity.intercept_ = np.array([0, 1]), np.ones((1, 1)), np.zeros(1)
    rows = np.arange(len(score))
    name = "sigmoid" if method == "platt" else method
    fitted = CalibratedClassifierCV(FrozenEstimator(identity), method=name, cv=[(rows, rows)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*sample_weight.*")  # the scores are given: only this fit is weighed
        fitted.fit(score[:, None], y_true, sample_weight=weight)
    return lambda new: np.asarray(fitted.predict_proba(new[:, None])[:, 1], dtype=np.float64)
