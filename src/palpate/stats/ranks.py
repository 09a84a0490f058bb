"""Ranks and their correlation (vocabulary paper, Appendix E.3); ties get the mean of their ranks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from palpate.stats.inputs import Floats, finite
from palpate.stats.intervals import Interval, standard_error


def average_ranks(values: ArrayLike) -> Floats:
    """Ranks from 1, smallest first; equal values share the mean of their ranks."""
    numbers = finite(values, name="values")
    if numbers.ndim != 1:
        raise ValueError("values must have one dimension")
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2.0
    return ranks[inverse]


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation, correct under ties; nan if either side is constant or there is one value."""
    first, second = average_ranks(a), average_ranks(b)
    if first.shape != second.shape:
        raise ValueError(f"a has {first.size} values but b has {second.size}")
    if first.size < 2:
        return float("nan")
    first, second = first - first.mean(), second - second.mean()
    spread = float(first @ first) * float(second @ second)
    if spread <= 0:
        return float("nan")
    return max(-1.0, min(1.0, float(first @ second) / math.sqrt(spread)))


def pearson(a: ArrayLike, b: ArrayLike) -> float:
    """Pearson's correlation; nan if either side is constant or there is one value."""
    first, second = finite(a, name="a"), finite(b, name="b")
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError("a and b must have one dimension and the same number of values")
    return float(resampled_pearson(first, second, np.ones((1, first.size)))[0]) if first.size > 1 else float("nan")


def resampled_ranks(values: ArrayLike, counts: ArrayLike) -> Floats:
    """The average rank of every value in every resample, [replicate, value].

    `counts` is [replicate, value], how often each value is drawn. The values are sorted once: in a resample, a value's
    rank is the number of draws below it plus half of those equal to it. A value that is not drawn gets a rank between
    its neighbours' ranks, which counts in no later sum.
    """
    numbers, drawn = finite(values, name="values"), np.asarray(counts, np.float64)
    if numbers.ndim != 1 or drawn.ndim != 2 or drawn.shape[1] != numbers.size:
        raise ValueError("values must be [n] and counts [replicates, n]")
    _, place, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    order = np.argsort(place, kind="stable")
    equal = np.add.reduceat(drawn[:, order], np.cumsum(sizes) - sizes, axis=1)
    upto = np.cumsum(equal, axis=1)
    ranks: Floats = (upto - equal / 2.0 + 0.5)[:, place]
    return ranks


def resampled_pearson(a: ArrayLike, b: ArrayLike, counts: ArrayLike) -> Floats:
    """Pearson's correlation in every resample, [replicate]; nan if either side is constant.

    `a` and `b` are [n] or [replicate, n]; `counts` is [replicate, n].
    """
    drawn = np.asarray(counts, np.float64)
    first, second = np.atleast_2d(np.asarray(a, np.float64)), np.atleast_2d(np.asarray(b, np.float64))
    total = np.maximum(drawn.sum(axis=1, keepdims=True), 1.0)
    first = first - (drawn * first).sum(axis=1, keepdims=True) / total
    second = second - (drawn * second).sum(axis=1, keepdims=True) / total
    spread_a, spread_b = (drawn * first**2).sum(axis=1), (drawn * second**2).sum(axis=1)
    # The spread of a constant side is not 0, but rounding errors.
    size = total[:, 0] * np.finfo(np.float64).eps ** 2 * 64
    varies = (spread_a > size * _largest(a, drawn)) & (spread_b > size * _largest(b, drawn))
    out = np.full(drawn.shape[0], np.nan)
    np.divide((drawn * first * second).sum(axis=1), np.sqrt(spread_a * spread_b), out=out, where=varies)
    return np.asarray(np.clip(out, -1.0, 1.0))


def resampled_spearman(a: ArrayLike, b: ArrayLike, counts: ArrayLike) -> Floats:
    """Spearman's correlation in every resample, [replicate], correct under ties; nan if either side is constant."""
    return resampled_pearson(resampled_ranks(a, counts), resampled_ranks(b, counts), counts)


def correlation_interval(value: float, replicates: ArrayLike, n: int, *, level: float = 0.95) -> Interval:
    """Interval of a correlation over `n` items from its bootstrap replicates; nan if over 5% of them are undefined.

    Student's interval on Fisher's z scale with the replicates' standard deviation. Resamples of ranks have ties that
    the data do not have, so their percentiles are not centred on the estimate. A correlation of 1 is taken as the
    nearest one below it, and its error as at least Bonett and Wright's (2000), because its replicates do not vary.
    """
    nearest = 1.0 - 12.0 / max(n * (n * n - 1.0), 24.0)
    error = _error(np.arctanh(np.clip(np.asarray(replicates, np.float64), -nearest, nearest)), n)
    if abs(value) >= nearest:
        error = np.maximum(error, math.sqrt(1.5 / max(n - 3, 1)))
    reach = stdtrit(max(n - 2, 1), 0.5 + level / 2.0) * error
    middle = math.atanh(min(max(value, -nearest), nearest))
    low, high = np.tanh(middle - reach), np.tanh(middle + reach)
    return Interval(np.minimum(low, value), np.maximum(high, value))


def correlation_difference_interval(value: float, replicates: ArrayLike, n: int, *, level: float = 0.95) -> Interval:
    """Interval of a difference of two correlations over the same `n` items, from replicates of the difference."""
    reach = stdtrit(max(n - 2, 1), 0.5 + level / 2.0) * _error(np.asarray(replicates, np.float64), n)
    return Interval(np.maximum(value - reach, -2.0), np.minimum(value + reach, 2.0))


def _error(replicates: Floats, n: int) -> Floats:
    """The standard deviation of replicates; a bootstrap of n items is too narrow by sqrt((n - 1) / n)."""
    return standard_error(replicates) * math.sqrt(n / max(n - 1, 1))


def _largest(values: ArrayLike, drawn: Floats) -> Floats:
    """The square of the largest drawn value, [replicate]."""
    squares = np.atleast_2d(np.asarray(values, np.float64)) ** 2
    return np.asarray(np.where(drawn > 0, squares, 0.0).max(axis=1))
