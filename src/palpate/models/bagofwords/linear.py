"""Logistic regression on tf-idf weights, scored from a parent's weights and the changes of each row.

A score is the sum of coefficient times weight over the columns, plus the intercept. Weights are divided by the norm
and added in ascending order of the columns, as scikit-learn does: the score is bit-equal to that of the whole text, and
equal texts have equal scores, whatever their parents. Probabilities come from the classifier's own `predict_proba`,
which gets the scores as its features, with coefficients of 1.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

from palpate.compiled import njit
from palpate.models.bagofwords.counts import Counted
from palpate.models.bagofwords.tfidf import (
    Floats,
    Weights,
    changed_sum,
    norm_of,
    running_sums,
    size_of,
    weigh_changes,
    weigh_parent,
)


class Linear(NamedTuple):
    """Scores of a linear classifier, and the classifier as a function of its scores."""

    coefficient: Floats
    """One row per score."""
    intercept: Floats
    link: Any

    def scores(self, counted: Counted, weights: Weights) -> Floats:
        """One row per text, one column per score."""
        out = np.empty((len(counted.owner), len(self.intercept)))
        frequency = weights.term_frequencies(counted.largest)
        _score(counted, frequency, weights.idf, weights.norm, self.coefficient, self.intercept, out)
        return out


def linear_of(classifier: Any, n_columns: int) -> Linear | None:
    """A logistic regression, or one per label; None for any other classifier."""
    if type(classifier) is LogisticRegression:
        parts = [classifier]
    elif type(classifier) in (OneVsRestClassifier, MultiOutputClassifier):
        parts = list(classifier.estimators_)
        if any(type(part) is not LogisticRegression or part.coef_.shape[0] != 1 for part in parts):
            return None
    else:
        return None
    if not all(_plain(part, n_columns) for part in parts):
        return None
    coefficient = np.concatenate([part.coef_ for part in parts])
    link = copy.copy(classifier)
    if type(classifier) is LogisticRegression:
        _pass_scores(link, np.eye(len(coefficient)))
    else:
        link.estimators_ = [copy.copy(part) for part in parts]
        for k, part in enumerate(link.estimators_):
            _pass_scores(part, np.eye(len(coefficient))[[k]])
    intercept = np.concatenate([np.broadcast_to(part.intercept_, len(part.coef_)) for part in parts])
    return Linear(np.ascontiguousarray(coefficient), np.ascontiguousarray(intercept), link)


def _plain(part: Any, n_columns: int) -> bool:
    """Whether the coefficients are an ordinary dense matrix of the expected width."""
    given = part.coef_
    return isinstance(given, np.ndarray) and given.dtype == np.float64 and given.shape[1] == n_columns


def _pass_scores(part: Any, coefficient: Floats) -> None:
    part.coef_, part.intercept_ = coefficient, np.zeros(len(coefficient))
    part.n_features_in_ = coefficient.shape[1]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _product(scaled: Any, coefficient: Any, n: Any, place: Any, known: Any, now: Any, new: Any) -> Any:
    """The sum of weight times coefficient over the columns in order; for the `n` changed ones it is now * new."""
    total, begin = 0.0, 0
    for k in range(n + 1):
        stop = place[k] if k < n else len(scaled)
        for i in range(begin, stop):
            total += scaled[i] * coefficient[i]
        if k < n:
            if now[k] > 0:
                total += now[k] * new[k]
            begin = place[k] + known[k]
    return total


@njit(cache=True, nogil=True, parallel=True)  # type: ignore[untyped-decorator, unused-ignore]
def _score(counted: Any, frequency: Any, idf: Any, norm: Any, coefficient: Any, intercept: Any, out: Any) -> None:
    n_scores = len(intercept)
    for parent in prange(len(counted.parent_n)):
        weight = weigh_parent(counted, parent, frequency, idf)
        n, begin = len(weight), counted.parent_start[parent]
        terms, scaled, here = np.empty(n), np.empty(n), np.empty((n_scores, n))
        for k in range(n):
            terms[k] = size_of(weight[k], norm)
            for j in range(n_scores):
                here[j, k] = coefficient[j, counted.parent_column[begin + k]]
        sums = running_sums(terms)
        first, last = counted.first_row[parent], counted.first_row[parent + 1]
        room = counted.row_n[first:last].max()
        place, known = np.empty(room, np.int64), np.empty(room, np.int64)
        now, then, new = np.empty(room), np.empty(room), np.empty(room)
        for row in range(first, last):
            changes = counted.row_n[row]
            weigh_changes(counted, parent, row, frequency, idf, place, known, now)
            for k in range(changes):
                then[k] = size_of(now[k], norm)
            size = norm_of(changed_sum(terms, sums, changes, place, known, then), norm)
            for k in range(n):
                scaled[k] = weight[k] / size
            for j in range(n_scores):
                for k in range(changes):
                    then[k] = now[k] / size
                    new[k] = coefficient[j, counted.row_column[counted.row_start[row] + k]]
                out[row, j] = _product(scaled, here[j], changes, place, known, then, new) + intercept[j]
