"""Micro averages on the data alone: all pairs of a case and a label pooled, as many as there are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.stats.inputs import Floats, divide

_AT_ONCE = 4_000_000
"""Pairs whose decisions are counted at a time."""


class PooledMetrics(NamedTuple):
    """As the bootstrap has them; nan where one is undefined."""

    auroc: float
    auprc: float
    sensitivity_at_specificity: float
    brier: float
    brier_skill_score: float
    adaptive_calibration_error: float


def pooled_metrics(
    y_true: NDArray[np.uint8], y_score: Floats, *, specificity: float = 0.95, n_bins: int = 10, n_threads: int = 2
) -> PooledMetrics:
    """Of all pairs of a case and a label: `y_true` and `y_score` are [case, label] of 0 and 1, and of probabilities.

    >>> pooled_metrics(np.array([[1, 0], [0, 1]], np.uint8), np.array([[0.9, 0.2], [0.1, 0.6]])).auroc
    1.0
    """
    positive = y_score[y_true != 0]
    negative = y_score[y_true == 0]
    edges = np.linspace(0, negative.size, n_threads + 1).astype(np.int64)
    parts = [positive, *(negative[a:b] for a, b in pairwise(edges))]
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(np.ndarray.sort, parts))
    return sorted_metrics(positive, negative, edges, specificity=specificity, n_bins=n_bins)


def sorted_metrics(
    positive: Floats, negative: Floats, edges: NDArray[np.int64], *, specificity: float, n_bins: int
) -> PooledMetrics:
    """Of the scores of each class: `positive` is sorted from low to high, and so is each part of `negative` between two
    of the `edges`."""
    from palpate.stats.kernels.pooled import walk_pooled

    values = np.empty(4)
    walk_pooled(positive, negative, edges, specificity, n_bins, values)
    total = positive.size + negative.size
    # Not `np.dot`, whose threads cost more than they save where there is a label after the other.
    squares = float(np.einsum("i,i->", negative, negative)) + float(np.sum((1.0 - positive) ** 2))
    brier, share = divide(squares, total), divide(positive.size, total)
    skill = 1.0 - brier / (share * (1.0 - share)) if 0 < positive.size < total else float("nan")
    auroc, auprc, sensitivity, error = values.tolist()
    return PooledMetrics(auroc, auprc, sensitivity, brier, skill, error)


def pooled_decisions(y_true: NDArray[np.uint8], y_score: Floats, threshold: Floats) -> dict[str, float]:
    """What decisions at each label's threshold, [label], are worth over all pairs; a threshold of nan flags none."""
    step = max(1, _AT_ONCE // max(y_true.shape[1], 1))
    hits = flagged = 0
    for low in range(0, len(y_true), step):
        part = slice(low, low + step)
        called = y_score[part] >= threshold
        hits += int(np.count_nonzero(called & (y_true[part] != 0)))
        flagged += int(np.count_nonzero(called))
    return decisions(hits, flagged, int(np.count_nonzero(y_true)), y_true.size)


def decisions(hits: int, flagged: int, n_positive: int, n: int) -> dict[str, float]:
    """What decisions are worth, from how many of `n` rows are flagged and how many of these rightly so."""
    false, missed = flagged - hits, n_positive - hits
    passed = n - n_positive - false
    sensitivity, specificity = divide(hits, n_positive), divide(passed, passed + false)
    ppv, npv = divide(hits, flagged), divide(passed, passed + missed)
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "ppv": ppv,
        "npv": npv,
        "precision_0": npv,
        "recall_0": specificity,
        "f1_0": divide(2 * passed, 2 * passed + false + missed),
        "precision_1": ppv,
        "recall_1": sensitivity,
        "f1_1": divide(2 * hits, 2 * hits + false + missed),
    }
