"""Statistics of groups of cases. This module: how differently two sets of cases are made up.

Standardised differences do not grow with the number of cases, as tests do, so they compare a small evaluation with a
large development set. The convention is that of Table 1 in clinical papers: missing values are left out, variances are
those of samples, and categories use the distance of two multinomials (Yang and Dalton, "A unified approach to measuring
the effect size between two groups", 2012). All are without a sign.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

Floats = NDArray[np.float64]


def number_difference(first: ArrayLike, second: ArrayLike) -> float:
    """Of a number: the difference of the means over the root of the mean variance; NaN where it is undefined.

    It is infinite where both are constant and differ.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if len(a) < 2 or len(b) < 2:
        return math.nan
    apart = abs(float(a.mean() - b.mean()))
    spread = math.sqrt((float(a.var(ddof=1)) + float(b.var(ddof=1))) / 2)
    return _over(apart, spread)


def _over(apart: float, spread: float) -> float:
    if spread > 0:
        return apart / spread
    return 0.0 if apart == 0 else math.inf


def category_difference(first: ArrayLike, second: ArrayLike) -> float:
    """Of a category, from how often each value occurs in the two sets; NaN where one is empty.

    With T and C the shares of all values but one, and S the mean of the two covariances diag(p) - pp', it is the root
    of (T - C)' S^-1 (T - C). It is infinite where each set has one value only, and not the same.
    """
    n, m = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if n.sum() == 0 or m.sum() == 0:
        return math.nan
    seen = (n + m) > 0
    p, q = n[seen] / n.sum(), m[seen] / m.sum()
    if len(p) < 2:
        return 0.0
    apart, spread = (p - q)[1:], (_covariance(p) + _covariance(q))[1:, 1:] / 2
    solution, *_ = np.linalg.lstsq(spread, apart, rcond=1e-10)
    if not np.allclose(spread @ solution, apart, rtol=1e-6, atol=1e-9):
        return math.inf  # the sets differ where neither varies
    return math.sqrt(max(0.0, float(apart @ solution)))


def _covariance(share: Floats) -> Floats:
    return np.diag(share) - np.outer(share, share)


def chance_difference(n_values: int, n_first: int, n_second: int, level: float = 0.95) -> float:
    """How large a standardised difference of equal sets becomes by chance; `n_values` is 2 for a number."""
    if n_first == 0 or n_second == 0 or n_values < 2:
        return math.inf
    return math.sqrt(float(chi2.ppf(level, n_values - 1)) * (1 / n_first + 1 / n_second))
