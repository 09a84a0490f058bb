"""Metrics of one replicate by a walk down the ranks, for every metric of the bootstrap; and macro averages over codes.

Rows are sorted once, from the highest score to the lowest. A replicate then gives each row a mass: its count, or its
count times its weight. Without weights the masses are integers until the last division, so a value equals the metric of
the resampled rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from palpate.compiled import njit
from palpate.stats.kernels import draw_counts

_CHUNK = 8


class Ranked(NamedTuple):
    """The rows of all problems (one model, one label), concatenated, each problem from high score to low.

    Problem j = label * n_models + model has the rows start[j] to start[j + 1] - 1; the first `above[j]` of them are
    predicted positive, -1 if there is no threshold. `last` marks the last row of a group of equal scores;
    `gap`, [problem, bin], is observed minus predicted rate on the data, the reference of the noise; `sizes` are the
    sizes of a label's strata, `draws` how often each is drawn from.
    """

    start: NDArray[np.int64]
    unit: NDArray[np.uint32]
    positive: NDArray[np.bool_]
    score: NDArray[np.float64]
    last: NDArray[np.bool_]
    weight: NDArray[Any]
    above: NDArray[np.int64]
    gap: NDArray[np.float64]
    sizes: NDArray[np.int64]
    draws: NDArray[np.int64]
    n_models: int
    shared: bool


class Families(NamedTuple):
    """Which families of metrics are wanted, and their settings."""

    auroc: bool
    auprc: bool
    operating: bool
    calibration: bool
    adaptive: bool
    threshold: bool
    specificity: float
    tolerance: float


@njit(cache=True, nogil=True, inline="always")
def _over(numerator: Any, denominator: Any) -> Any:
    return numerator / denominator if denominator > 0 else np.nan


@njit(cache=True, nogil=True)
def walk_auroc(mass: Any, positive: Any, last: Any) -> Any:
    """Twice the Mann-Whitney count over twice the pairs, a tie counting half."""
    twice, tp, fp, group_tp, group_fp = 0 * mass[0], 0 * mass[0], 0 * mass[0], 0 * mass[0], 0 * mass[0]
    for i in range(mass.size):
        group_tp += mass[i] * positive[i]
        group_fp += mass[i] * (not positive[i])
        if last[i]:
            twice += group_fp * (2 * tp + group_tp)
            tp += group_tp
            fp += group_fp
            group_tp *= 0
            group_fp *= 0
    return _over(twice, 2 * tp * fp)


@njit(cache=True, nogil=True)
def walk_auprc(mass: Any, positive: Any, last: Any, n_positive: Any) -> Any:
    """Average precision: precision at each distinct score, weighted by the recall gained there."""
    area, tp, seen, group_tp = 0.0, 0 * mass[0], 0 * mass[0], 0 * mass[0]
    for i in range(mass.size):
        seen += mass[i]
        group_tp += mass[i] * positive[i]
        if last[i]:
            if group_tp > 0:
                tp += group_tp
                area += group_tp * (tp / seen)
            group_tp *= 0
    return _over(area, n_positive)


@njit(cache=True, nogil=True)
def walk_operating(mass: Any, positive: Any, last: Any, n_positive: Any, n_negative: Any, least: Any) -> Any:
    """The highest sensitivity among thresholds whose specificity is at least `least`."""
    if n_positive <= 0 or n_negative <= 0:
        return np.nan
    best, tp, fp = 0 * mass[0], 0 * mass[0], 0 * mass[0]
    for i in range(mass.size):
        tp += mass[i] * positive[i]
        fp += mass[i] * (not positive[i])
        if last[i]:
            if (n_negative - fp) / n_negative < least:
                break
            best = tp
    return best / n_positive


@njit(cache=True, nogil=True)
def walk_adaptive(mass: Any, positive: Any, score: Any, last: Any, total: Any, found: Any) -> Any:
    """Adaptive calibration error: bins of equal mass, a group at an edge divided in proportion; fills their gaps."""
    found[:] = 0.0
    if total <= 0:
        return np.nan
    n_bins = found.size
    # In units of 1 / n_bins of a row a bin holds `total`, so that whole counts stay whole.
    error, difference, room, bins = 0.0, 0.0, total, 1
    group, group_tp = 0 * mass[0], 0 * mass[0]
    for i in range(mass.size):
        group += mass[i]
        group_tp += mass[i] * positive[i]
        if not last[i]:
            continue
        if group > 0:
            gap = group_tp / group - score[i]
            left = group * n_bins
            while left > room and bins < n_bins:
                difference += room * gap
                error += abs(difference)
                found[bins - 1] = difference / total
                left -= room
                difference, room = 0.0, total
                bins += 1
            difference += left * gap
            room -= left
        group *= 0
        group_tp *= 0
    found[bins - 1] = difference / total
    return (error + abs(difference)) / (total * n_bins)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _squares(mass: Any, positive: Any, score: Any) -> Any:
    """Sums of squared errors and of scores; the compiler may reorder them, so that it can use vector instructions."""
    squares, scores = 0.0, 0.0
    for i in range(mass.size):
        miss = positive[i] - score[i]
        squares += mass[i] * miss * miss
        scores += mass[i] * score[i]
    return squares, scores


@njit(cache=True, nogil=True)
def _calibration(mass: Any, positive: Any, score: Any, n_positive: Any, total: Any, values: Any) -> None:
    squares, scores = _squares(mass, positive, score)
    values[2] = _over(squares, total)
    prevalence = _over(n_positive, total)
    values[3] = np.nan
    if 0 < n_positive < total:
        values[3] = 1.0 - values[2] / (prevalence * (1.0 - prevalence))
    values[16] = prevalence
    values[17] = _over(scores, total)


@njit(cache=True, nogil=True)
def _threshold(mass: Any, positive: Any, above: Any, n_positive: Any, n_negative: Any, values: Any) -> None:
    tp, fp = 0 * n_positive, 0 * n_positive
    for i in range(above):
        tp += mass[i] * positive[i]
        fp += mass[i] * (not positive[i])
    fn, tn = n_positive - tp, n_negative - fp
    values[6] = values[14] = _over(tp, n_positive)
    values[7] = values[11] = _over(tn, n_negative)
    values[8] = values[13] = _over(tp, tp + fp)
    values[9] = values[10] = _over(tn, tn + fn)
    values[12] = _over(2 * tn, 2 * tn + fp + fn)
    values[15] = _over(2 * tp, 2 * tp + fp + fn)


@njit(cache=True, nogil=True)
def evaluate(mass: Any, positive: Any, score: Any, last: Any, above: Any, gap: Any, families: Any, values: Any) -> None:
    """Fill `values`, in the order of `METRICS`, with the wanted metrics of one problem in one replicate."""
    values[:] = np.nan
    if mass.size == 0:
        return
    n_positive, n_negative = 0 * mass[0], 0 * mass[0]
    for i in range(mass.size):
        n_positive += mass[i] * positive[i]
        n_negative += mass[i] * (not positive[i])
    total = n_positive + n_negative
    if families.auroc:
        values[0] = walk_auroc(mass, positive, last)
    if families.auprc:
        values[1] = walk_auprc(mass, positive, last, n_positive)
    if families.calibration:
        _calibration(mass, positive, score, n_positive, total, values)
    if families.adaptive:
        found = values[values.size - gap.size :]
        values[4] = walk_adaptive(mass, positive, score, last, total, found)
        values[18] = np.mean(np.abs(found - gap)) if total > 0 else np.nan
    if families.operating:
        least = families.specificity - families.tolerance
        values[5] = walk_operating(mass, positive, last, n_positive, n_negative, least)
    if families.threshold and above >= 0:
        _threshold(mass, positive, above, n_positive, n_negative, values)


@njit(cache=True, nogil=True, parallel=True)
def replicate_metrics(
    seed: Any, replicates: Any, ranked: Any, families: Any, wanted: Any, n_values: Any, out: Any
) -> None:
    """Fill out[problem, metric, i] for the i-th of the numbered replicates."""
    n_chunks = (replicates.size + _CHUNK - 1) // _CHUNK
    n_units = ranked.sizes[0].sum()
    longest = 0
    for j in range(ranked.start.size - 1):
        longest = max(longest, ranked.start[j + 1] - ranked.start[j])
    for chunk in prange(n_chunks):
        counts = np.empty(n_units, np.int32)
        space = np.empty(longest, ranked.weight.dtype)
        values = np.empty(n_values, np.float64)
        for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, replicates.size)):
            for j in range(ranked.start.size - 1):
                label = j // ranked.n_models
                if j == 0 or (not ranked.shared and j % ranked.n_models == 0):
                    draw_counts(counts, ranked.sizes[label], ranked.draws[label], seed, replicates[i])
                low, high = ranked.start[j], ranked.start[j + 1]
                mass = space[: high - low]
                for k in range(low, high):
                    mass[k - low] = counts[ranked.unit[k]] * ranked.weight[k]
                rows = slice(low, high)
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


@njit(cache=True, nogil=True)
def _macro_means(weight: Any, low: Any, high: Any, chart: Any, code: Any, tp: Any, fp: Any, fn: Any, out: Any) -> None:
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
            _macro_means(weights[r], first[t], first[t + 1], chart, code, tp, fp, fn, values)
            for m in range(3):
                out[t, m, r] = values[m]
