"""Metrics of many labels on the data alone: without resamples, the scores of the two classes can be sorted apart.

That needs no order of the rows, which is what takes longest and most memory where there are thousands of labels. Sums
aside, which are taken in another order, the values are those of `kernels.walks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from palpate.stats.arguments import NOISE, Rows
from palpate.stats.inputs import Floats, divide
from palpate.stats.precision.moves import Settings
from palpate.stats.precision.pooled import decisions, sorted_metrics

_FEW = 100_000
"""Rows of all models and labels together up to which threads do not pay."""


def needs_no_order(rows: Rows) -> bool:
    """Whether all rows count, and count alike."""
    return rows.weight is None and rows.orders is None and bool(rows.used.all())


def point_metrics(rows: Rows, metrics: Sequence[str], settings: Settings) -> Floats:
    """[model, metric, label] of rows for which `needs_no_order` holds."""
    from numba import get_num_threads

    n_models, n, n_labels = rows.score.shape
    out = np.empty((n_models, len(metrics), n_labels))

    def fill(label: int) -> None:
        positive = rows.positive[:, label]
        for m in range(n_models):
            found = _of_one(rows.score[m, :, label], positive, float(rows.threshold[m, label]), settings)
            out[m, :, label] = [found[name] for name in metrics]

    if n * n_models * n_labels < _FEW:
        for label in range(n_labels):
            fill(label)
    else:
        with ThreadPoolExecutor(get_num_threads()) as pool:  # sorting lets other threads run
            list(pool.map(fill, range(n_labels)))
    return out


def _of_one(score: Floats, positive: NDArray[np.bool_], threshold: float, settings: Settings) -> dict[str, float]:
    """Every metric of one model and label."""
    up, down = np.sort(score[positive]), np.sort(score[~positive])
    edges = np.asarray([0, down.size], np.int64)
    found = sorted_metrics(up, down, edges, specificity=settings.specificity, n_bins=settings.n_bins)._asdict()
    known = threshold == threshold
    hits, alarms = (
        each.size - int(np.searchsorted(each, threshold, side="left")) if known else 0 for each in (up, down)
    )
    decided = decisions(hits, hits + alarms, up.size, score.size)
    found |= decided if known else dict.fromkeys(decided, float("nan"))
    found["prevalence"] = divide(up.size, score.size)
    found["mean_score"] = divide(float(up.sum()) + float(down.sum()), score.size)
    return found | {NOISE: 0.0}
