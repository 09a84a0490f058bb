"""Metrics of every replicate under weights that make label and context independent.

`Ranked.weight` is 1 / P(Y = y | C = c), times the sampling weight where rows have one. A replicate multiplies it by its
count and by the share of the row's class in that replicate. All metrics are ratios, so the weights need not be
normalised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from palpate.compiled import njit
from palpate.stats.kernels import draw_counts
from palpate.stats.kernels.walks import evaluate

_CHUNK = 8


@njit(cache=True, nogil=True)
def _shares(counts: Any, unit: Any, positive: Any, sampling: Any, given: Any) -> Any:
    """P(Y = 0) and P(Y = 1): given, or those of the replicate, by sampling weight if any; nan without rows."""
    if given == given:
        return 1.0 - given, given
    n_positive, n = 0.0, 0.0
    for k in range(unit.size):
        mass = counts[unit[k]] * sampling[k] if sampling.size else float(counts[unit[k]])
        n += mass
        n_positive += mass * positive[k]
    if n == 0:
        return np.nan, np.nan
    return (n - n_positive) / n, n_positive / n


@njit(cache=True, nogil=True, parallel=True)
def replicate_reweighted(
    seed: Any,
    replicates: Any,
    prevalence: Any,
    ranked: Any,
    sampling: Any,
    families: Any,
    wanted: Any,
    n_values: Any,
    out: Any,
) -> None:
    """Fill out[problem, metric, i] for the i-th numbered replicate, with its own prevalence if `prevalence` is nan.

    `sampling` are the sampling weights of the rows of `ranked`; empty without any.
    """
    n_chunks = (replicates.size + _CHUNK - 1) // _CHUNK
    n_units = ranked.sizes[0].sum()
    longest = 0
    for j in range(ranked.start.size - 1):
        longest = max(longest, ranked.start[j + 1] - ranked.start[j])
    for chunk in prange(n_chunks):
        counts = np.empty(n_units, np.int32)
        space = np.empty(longest, np.float64)
        values = np.empty(n_values, np.float64)
        for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, replicates.size)):
            for j in range(ranked.start.size - 1):
                label = j // ranked.n_models
                if j == 0 or (not ranked.shared and j % ranked.n_models == 0):
                    draw_counts(counts, ranked.sizes[label], ranked.draws[label], seed, replicates[i])
                low, high = ranked.start[j], ranked.start[j + 1]
                rows = slice(low, high)
                own = sampling[rows] if sampling.size else sampling
                share = _shares(counts, ranked.unit[rows], ranked.positive[rows], own, prevalence[label])
                mass = space[: high - low]
                for k in range(low, high):
                    factor = share[1] if ranked.positive[k] else share[0]
                    mass[k - low] = counts[ranked.unit[k]] * ranked.weight[k] * factor
                evaluate(
                    mass,
                    ranked.positive[rows],
                    ranked.score[rows],
                    ranked.last[rows],
                    ranked.above[j],
                    ranked.gap[j],
                    families,
                    values,
                )
                for k in range(wanted.size):
                    out[j, k, i] = values[wanted[k]]
