"""The largest difference among several groups, with an interval that is not inflated by chance.

The highest of several noisy numbers less the lowest is too large: chance alone spreads equal groups apart, and every
resample spreads them once more, so that a percentile interval of that difference never holds 0. Here it is bounded
from the differences of all pairs of groups instead. The largest true difference is at least every pair's lower end,
where these hold for all pairs at once (Bonferroni), and at most the highest of their upper ends; for that end it is
enough that the one of the truly largest pair holds, so it needs no correction. What is given as the estimate is at
most as likely too high as too low (after Chernozhukov, Lee and Rosen 2013): pairs that may be the largest are each
taken at the lower end that holds for all of them in half of the samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from palpate.stats.inputs import Floats


class LargestGap(NamedTuple):
    """One number per column; nan where no pair of groups is known."""

    seen: Floats
    """The highest less the lowest, which chance makes too large."""
    value: Floats
    """Allowing for that."""
    low: Floats
    high: Floats


def largest_gap(values: ArrayLike, low: ArrayLike, high: ArrayLike, *, level: float = 0.95) -> LargestGap:
    """From the differences of all pairs, [pair] or [pair, ...], each pair once, with intervals of `level` for each.

    A pair that is nan is unknown and does not count.
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
