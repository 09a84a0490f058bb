"""Metrics of all rows of many labels pooled, by one walk over sorted scores; rows that are not resampled need no order.

The scores of rows with the label and of rows without it are sorted apart, which needs no copy of an order: billions of
rows cost their scores, and little more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from palpate.compiled import njit
from palpate.stats.kernels.walks import _over


@njit(cache=True, nogil=True)
def _taken(scores: Any, first: Any, last: Any, score: Any) -> Any:
    """How many scores at the end of a sorted part are this one."""
    at = last
    while at > first and scores[at - 1] == score:
        at -= 1
    return last - at


@njit(cache=True, nogil=True)
def walk_pooled(positive: Any, negative: Any, edges: Any, least: Any, n_bins: Any, values: Any) -> None:
    """Fill `values` with AUROC, AUPRC, sensitivity at a specificity and adaptive calibration error, as `walks` does.

    `positive` is sorted from low to high, and so is each part of `negative` between two of the `edges`.
    """
    n_positive, n_negative = positive.size, negative.size
    total = n_positive + n_negative
    heads = edges[1:].copy()
    up = n_positive
    twice, tp, fp, area, best, reaching = 0, 0, 0, 0.0, 0, True
    error, difference, room, bins = 0.0, 0.0, total, 1
    while tp + fp < total:
        score = -np.inf
        if up > 0:
            score = positive[up - 1]
        for part in range(heads.size):
            if heads[part] > edges[part]:
                score = max(score, negative[heads[part] - 1])
        group_tp, group_fp = _taken(positive, 0, up, score), 0
        up -= group_tp
        for part in range(heads.size):
            same = _taken(negative, edges[part], heads[part], score)
            heads[part] -= same
            group_fp += same
        twice += group_fp * (2 * tp + group_tp)
        tp += group_tp
        fp += group_fp
        if group_tp > 0:
            area += group_tp * (tp / (tp + fp))
        reaching = reaching and n_negative > 0 and (n_negative - fp) / n_negative >= least
        if reaching:
            best = tp
        gap = group_tp / (group_tp + group_fp) - score
        left = (group_tp + group_fp) * n_bins
        while left > room and bins < n_bins:
            difference += room * gap
            error += abs(difference)
            left -= room
            difference, room = 0.0, total
            bins += 1
        difference += left * gap
        room -= left
    values[0] = _over(twice, 2 * n_positive * n_negative)
    values[1] = _over(area, n_positive)
    values[2] = best / n_positive if n_positive > 0 and n_negative > 0 else np.nan
    values[3] = _over(error + abs(difference), total * n_bins)
