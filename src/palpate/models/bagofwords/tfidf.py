"""tf-idf weights of edited texts from their parents' weights, equal to those of scikit-learn's TfidfTransformer.

A row's sums run over its columns in ascending order, as scikit-learn's do, so a norm is bit-equal to that of the whole
text. Only the part from the first changed column on is summed again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

from palpate.compiled import njit

Floats = NDArray[np.float64]
_NORMS = {None: 0, "l1": 1, "l2": 2}


class Weights(NamedTuple):
    """How counts become weights."""

    idf: Floats
    norm: int
    """0: none, 1: the sum, 2: the root of the sum of squares."""
    sublinear: bool
    binary: bool

    def term_frequencies(self, largest: int) -> Floats:
        """The term frequency for a count of 0, 1, 2, ..."""
        counts = np.arange(largest + 1, dtype=np.float64)
        if self.binary:
            counts[1:] = 1
        if self.sublinear:
            counts[1:] = np.log(counts[1:]) + 1.0
        return counts


def weights_of(vectorizer: Any, later: list[Any], n_columns: int) -> tuple[Weights, list[Any]] | None:
    """The weights of a vectorizer and perhaps a TfidfTransformer, and the steps after them; None: not supported."""
    transformer, rest = None, later
    if type(vectorizer) is TfidfVectorizer:
        transformer = vectorizer._tfidf
    elif type(vectorizer) is CountVectorizer and later and type(later[0]) is TfidfTransformer:
        transformer, rest = later[0], later[1:]
    if np.dtype(vectorizer.dtype) not in (np.dtype(np.float64), np.dtype(np.int64)):
        return None
    ones, binary = np.ones(n_columns), bool(vectorizer.binary)
    if transformer is None:
        return Weights(ones, 0, False, binary), rest
    if type(transformer) is not TfidfTransformer or transformer.norm not in _NORMS:
        return None
    idf = np.ascontiguousarray(getattr(transformer, "idf_", ones), dtype=np.float64)
    if idf.shape != (n_columns,) or not np.all(np.isfinite(idf) & (idf > 0)):
        return None
    return Weights(idf, _NORMS[transformer.norm], bool(transformer.sublinear_tf), binary), rest


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def size_of(weight: Any, norm: Any) -> Any:
    """What a weight contributes to the sum under the norm."""
    return weight * weight if norm == 2 else abs(weight)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def norm_of(total: Any, norm: Any) -> Any:
    """What weights are divided by; 1 for a text without words."""
    if norm == 0 or total == 0:
        return 1.0
    return np.sqrt(total) if norm == 2 else total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def weigh_parent(counted: Any, parent: Any, frequency: Any, idf: Any) -> Any:
    """The weights of a parent's columns, before normalisation."""
    begin, n = counted.parent_start[parent], counted.parent_n[parent]
    weight = np.empty(n, dtype=np.float64)
    for k in range(n):
        weight[k] = frequency[counted.parent_count[begin + k]] * idf[counted.parent_column[begin + k]]
    return weight


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def running_sums(terms: Any) -> Any:
    """The sum of the first k terms, added from left to right, for every k."""
    sums = np.zeros(len(terms) + 1, dtype=np.float64)
    for k in range(len(terms)):
        sums[k + 1] = sums[k] + terms[k]
    return sums


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def weigh_changes(
    counted: Any, parent: Any, row: Any, frequency: Any, idf: Any, place: Any, known: Any, weight: Any
) -> None:
    """For each change of a row: its index in the parent's columns, whether it is one of them (1 or 0), its new weight.

    A weight of 0 marks a word that is gone: weights of words are positive.
    """
    begin = counted.parent_start[parent]
    n = counted.parent_n[parent]
    low = 0
    for k in range(counted.row_n[row]):
        column, count = counted.row_column[counted.row_start[row] + k], counted.row_change[counted.row_start[row] + k]
        high = n
        while low < high:
            middle = (low + high) // 2
            if counted.parent_column[begin + middle] < column:
                low = middle + 1
            else:
                high = middle
        place[k] = low
        known[k] = 1 if low < n and counted.parent_column[begin + low] == column else 0
        if known[k]:
            count += counted.parent_count[begin + low]
        weight[k] = frequency[count] * idf[column]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def changed_sum(terms: Any, sums: Any, n: Any, place: Any, known: Any, new: Any) -> Any:
    """The sum of the terms, `n` of which are changed: the one at place[k] (if known) becomes new[k]."""
    if n == 0:
        return sums[len(terms)]
    total = sums[place[0]]
    for k in range(n):
        total += new[k]
        stop = place[k + 1] if k + 1 < n else len(terms)
        for i in range(place[k] + known[k], stop):
            total += terms[i]
    return total
