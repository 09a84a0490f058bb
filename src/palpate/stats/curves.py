"""Curves over equally spaced points (ages): how much of them is noise between neighbours.

The characteristics paper (Section 5.2) sees a higher risk at 73 than at 74 and calls it a lack of number understanding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats.inputs import Floats

FEWEST_POINTS = 10


class CurveVariance(NamedTuple):
    """A curve's variance over its points, and the part of it that is noise between neighbours."""

    noise: Floats
    total: Floats


def curve_variance(curve: ArrayLike, *, axis: int = -1) -> CurveVariance:
    """Variance of a curve and of its noise, along `axis`.

    The noise is estimated from second differences (Gasser, Sroka and Jennen-Steinmetz 1986): the mean of
    (x[i-1] - 2 x[i] + x[i+1])^2, over 6. A straight line has none, whatever its slope; white noise has its own
    variance. So noise / total is 0 for a line, near 0 for a smooth curve, 1 in expectation for white noise, and above 1
    (at most 8/3) where neighbours alternate. One step in a curve of K points counts for about 4 / (3 K).
    """
    values = np.moveaxis(np.asarray(curve, np.float64), axis, -1)
    if values.shape[-1] < 3:
        raise ValueError("a curve needs at least 3 points")
    bend = values[..., :-2] - 2.0 * values[..., 1:-1] + values[..., 2:]
    return CurveVariance(np.asarray((bend**2).mean(axis=-1) / 6.0), np.asarray(values.var(axis=-1, ddof=1)))
