"""Macro averages by code under resampled charts; numba is imported with this module, so it is imported late."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange


@njit(cache=True, nogil=True)
def _one(weight: Any, low: Any, high: Any, chart: Any, code: Any, tp: Any, fp: Any, fn: Any, out: Any) -> None:
    """Mean precision, recall and F1 over codes where they are defined, of the entries low to high (by code)."""
    total = np.zeros(3)
    n = np.zeros(3)
    k = low
    while k < high:
        here = code[k]
        right, false, missed = 0, 0, 0
        while k < high and code[k] == here:
            w = weight[chart[k]]
            right += w * tp[k]
            false += w * fp[k]
            missed += w * fn[k]
            k += 1
        if right + false > 0:
            total[0] += right / (right + false)
            n[0] += 1
        if right + missed > 0:
            total[1] += right / (right + missed)
            n[1] += 1
        if right + false + missed > 0:
            total[2] += 2 * right / (2 * right + false + missed)
            n[2] += 1
    for m in range(3):
        out[m] = total[m] / n[m] if n[m] > 0 else np.nan


@njit(cache=True, nogil=True, parallel=True)
def macro_replicates(weights: Any, first: Any, chart: Any, code: Any, tp: Any, fp: Any, fn: Any, out: Any) -> None:
    """Fill out[table, measure, replicate] for weights [replicate, chart]; table t has the entries from first[t] on."""
    n_tables = first.size - 1
    for r in prange(weights.shape[0]):
        values = np.empty(3)
        for t in range(n_tables):
            _one(weights[r], first[t], first[t + 1], chart, code, tp, fp, fn, values)
            for m in range(3):
                out[t, m, r] = values[m]
