"""Intervals and the p-values that they imply: bootstrap percentiles, Wilson's interval, many comparisons, largest gaps.

A metric can be undefined in a replicate (a rare label without positives). If more than 5% of the replicates are nan,
the result is nan; otherwise it is computed from the defined ones.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, ndtri

from palpate.stats.inputs import Floats

MOST_UNDEFINED = 0.05
Method = Literal["bonferroni", "holm", "benjamini-hochberg"]


class Interval(NamedTuple):
    """Ends of intervals, as arrays without the axis of the replicates; of no dimension for a single interval."""

    low: Floats
    high: Floats


def _level(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    return float(level)


def _usable(values: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Along the last axis: how many replicates are defined, and whether those are enough."""
    n = values.shape[-1]
    n_defined = n - np.isnan(values).sum(axis=-1)
    return n_defined, np.asarray((n_defined > 0) & (n - n_defined <= MOST_UNDEFINED * n))


def percentile_interval(replicates: ArrayLike, *, level: float = 0.95, axis: int = -1) -> Interval:
    """Percentile bootstrap interval along `axis`, by linear interpolation between order statistics."""
    outside = (1.0 - _level(level)) / 2.0
    values = np.sort(np.moveaxis(np.asarray(replicates, np.float64), axis, -1), axis=-1)
    n_defined, enough = _usable(values)

    def quantile(q: float) -> Floats:
        if values.shape[-1] == 0:
            return np.full(values.shape[:-1], np.nan)
        # nan sorts last, so the defined replicates are the first n_defined.
        place = q * np.maximum(n_defined - 1, 0)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(n_defined - 1, 0))
        left = np.take_along_axis(values, below[..., None], axis=-1)[..., 0]
        right = np.take_along_axis(values, above[..., None], axis=-1)[..., 0]
        return np.where(enough, left + (place - below) * (right - left), np.nan)

    return Interval(quantile(outside), quantile(1.0 - outside))


def error_interval(point: ArrayLike, replicates: ArrayLike, noise: ArrayLike, *, level: float = 0.95) -> Interval:
    """Interval of a mean of absolute gaps (calibration error), which chance can only raise; `replicates` are [..., R].

    A resample has the chance gaps of the data and its own, so its error is too large: the percentile interval of a
    calibrated model never contains 0, and often not even the estimate. The upper end is that percentile, which is on
    the safe side. The lower end asks how much smaller the gaps could be. If they were c times those of the data, the
    error would be below `high(c)` in all but (1 - level) / 2 of the samples; `high(0)` is that quantile of `noise`, the
    resamples' mean distance from the data's gaps, `high(1)` that of the error itself, and a straight line between them
    is above the truth, because an absolute value is convex. The lower end is c times the estimate, for the c at which
    `high(c)` reaches the estimate.
    """
    value = np.asarray(point, np.float64)
    chance = percentile_interval(noise, level=level).high
    high = np.maximum(percentile_interval(replicates, level=level).high, value)
    share = np.divide(value - chance, high - chance, out=np.ones_like(value), where=high > chance)
    low = np.where(value > chance, share * value, 0.0)
    return Interval(np.where(np.isnan(chance) | np.isnan(high), np.nan, low), high)


def wilson_interval(proportion: ArrayLike, n: ArrayLike, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion of n, which may be an effective number; nan if n is 0."""
    p, size = np.broadcast_arrays(np.asarray(proportion, np.float64), np.asarray(n, np.float64))
    if bool(np.any((p < 0) | (p > 1) | (size < 0))):
        raise ValueError("proportion must lie in [0, 1] and n must not be negative")
    z = NormalDist().inv_cdf(0.5 + _level(level) / 2.0)
    known = size > 0
    share = z * z / np.where(known, size, 1.0)
    middle = (p + share / 2.0) / (1.0 + share)
    half = np.sqrt(share * (p * (1.0 - p) + share / 4.0)) / (1.0 + share)
    low = np.where(p == 0.0, 0.0, np.maximum(middle - half, 0.0))
    high = np.where(p == 1.0, 1.0, np.minimum(middle + half, 1.0))
    return Interval(np.where(known, low, np.nan), np.where(known, high, np.nan))


def adjust(p_values: ArrayLike, *, method: Method = "bonferroni") -> Floats:
    """Adjusted p-values, in the same shape; all of them form one family. nan stays nan and does not count."""
    values = np.asarray(p_values, np.float64)
    known = ~np.isnan(values)
    p = values[known]
    if bool(np.any((p < 0) | (p > 1))):
        raise ValueError("p_values must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    rank = np.arange(1, p.size + 1)
    if method == "bonferroni":
        ordered = p[order] * p.size
    elif method == "holm":
        ordered = np.maximum.accumulate(p[order] * (p.size - rank + 1))
    elif method == "benjamini-hochberg":
        ordered = np.minimum.accumulate((p[order] * p.size / rank)[::-1])[::-1]
    else:
        raise ValueError(f"unknown method {method!r}; the methods are bonferroni, holm, benjamini-hochberg")
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(ordered, 1.0)
    out = np.full(values.shape, np.nan)
    out[known] = adjusted
    return out


def interval_p_value(value: ArrayLike, low: ArrayLike, high: ArrayLike, *, level: float = 0.95) -> Floats:
    """The two-sided p-value of "no effect" that an interval implies: it is below 1 - level where 0 lies outside.

    The interval's arm towards 0 is read as that of a normal distribution, so the p-value is exact where the interval is
    and at `level`, and an approximation far from it. An interval without width says nothing about chance: nan.
    """
    point, below, above = (np.asarray(each, np.float64) for each in (value, low, high))
    arm = np.where(point > 0, point - below, above - point)
    z = np.divide(np.abs(point), arm, out=np.zeros(np.broadcast(point, arm).shape), where=arm > 0)
    p = erfc(z * NormalDist().inv_cdf(0.5 + _level(level) / 2.0) / np.sqrt(2.0))
    return np.asarray(np.where(np.isnan(point) | ~(arm > 0), np.nan, p))


def widen_interval(
    value: ArrayLike, low: ArrayLike, high: ArrayLike, n_family: ArrayLike, *, level: float = 0.95
) -> Interval:
    """The interval that holds for `n_family` effects at once (Bonferroni): each arm is scaled by the ratio of the
    normal quantiles, so that it excludes 0 exactly where `interval_p_value` times `n_family` is below 1 - level."""
    point, below, above = (np.asarray(each, np.float64) for each in (value, low, high))
    outside = (1.0 - _level(level)) / 2.0
    wider = ndtri(1.0 - outside / np.maximum(np.asarray(n_family, np.float64), 1.0)) / ndtri(1.0 - outside)
    return Interval(point - wider * (point - below), point + wider * (above - point))


def standard_error(values: Floats) -> Floats:
    """The standard deviation of the replicates; NaN where more than 5% are undefined."""
    defined = ~np.isnan(values)
    n = defined.sum(axis=-1)
    mean = np.where(defined, values, 0.0).sum(axis=-1) / np.maximum(n, 1)
    square = (np.where(defined, values - mean[..., None], 0.0) ** 2).sum(axis=-1) / np.maximum(n - 1, 1)
    enough = (n > 1) & (n >= (1.0 - MOST_UNDEFINED) * values.shape[-1])
    return np.where(enough, np.sqrt(square), np.nan)


class LargestGap(NamedTuple):
    """One number per column; nan where no pair of groups is known."""

    seen: Floats
    """The highest less the lowest, which chance makes too large."""
    value: Floats
    """Allowing for that."""
    low: Floats
    high: Floats


def largest_gap(values: ArrayLike, low: ArrayLike, high: ArrayLike, *, level: float = 0.95) -> LargestGap:
    """The largest difference among several groups, with an interval that is not inflated by chance.

    The arguments are the differences of all pairs, [pair] or [pair, ...], each pair once, with intervals of `level` for
    each alone. A pair that is nan is unknown and does not count.

    The highest of several noisy numbers less the lowest is too large: chance alone spreads equal groups apart, and
    every resample spreads them once more, so that a percentile interval of that difference never holds 0. But the
    largest true difference is at least every pair's lower end, where these hold for all pairs at once (Bonferroni), and
    at most the highest of their upper ends; for that end it is enough that the one of the truly largest pair holds, so
    it needs no correction. What is given as the estimate is at most as likely too high as too low (after Chernozhukov,
    Lee and Rosen 2013): pairs that may be the largest are each taken at the lower end that holds for all of them in
    half of the samples.
    """
    given = [np.asarray(each, np.float64) for each in (values, low, high)]
    known = ~np.isnan(np.sum(given, axis=0))
    n = 2 * known.sum(axis=0)  # each pair both ways round
    point, below, above = (
        np.where(np.concatenate([known, known]), np.concatenate([one, -other]), -np.inf)
        for one, other in ((given[0], given[0]), (given[1], given[2]), (given[2], given[1]))
    )
    counted = np.isfinite(point)
    down = np.where(counted, np.subtract(point, below, out=np.zeros_like(point), where=counted), 0.0)
    up = np.where(counted, np.subtract(above, point, out=np.zeros_like(point), where=counted), 0.0)
    pointwise, outside = ndtri(0.5 + level / 2.0), (1.0 - level) / 2.0
    wider = ndtri(1.0 - outside / np.maximum(n, 1)) / pointwise
    least = (point - wider * down).max(axis=0, initial=-np.inf)
    possible = counted & (point + wider * up >= least)
    half = ndtri(1.0 - 0.5 / np.maximum(possible.sum(axis=0), 1)) / pointwise
    middle = np.where(possible, point - half * down, -np.inf).max(axis=0, initial=-np.inf)
    most = np.where(counted, point + up, -np.inf).max(axis=0, initial=-np.inf)
    found = (point.max(axis=0, initial=-np.inf), middle, least, most)
    return LargestGap(*(np.where(n > 0, np.maximum(each, 0.0), np.nan) for each in found))
