"""A test for paired differences: would they be as large if it were chance which of the two is which?

Where a model does not care about what was changed in a note, the two answers of a patient can be exchanged. So the null
distribution is that of the sum of differences with random signs, a sign for each patient (Fisher 1935). It is exact for
any number of patients and any spread of the differences, where a bootstrap of a hundred patients, of whom a few carry
most of the risk, rejects too often.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc

from palpate.stats.inputs import Floats, finite

_SIGNS_PER_CHUNK = 6_000_000
_EXACT = 2.0**52


def sign_flip_p_value(differences: ArrayLike, *, rng: int, n_replicates: int = 10_000) -> Floats:
    """Two-sided p-value of "no difference" for each column of [unit, column] differences, summed by unit.

    p = (1 + #{|sum with random signs| >= |sum|}) / (1 + n_replicates). Corrected for thousands of comparisons, that
    floor alone would hide every difference: where no replicate reaches the sum, p is the normal tail of
    |sum| / sqrt(sum of squares), if it is smaller. A column of zeros has p = 1. Equal `rng` give equal p-values.
    """
    table = finite(differences, name="differences")
    if table.ndim != 2:
        raise ValueError("differences must be [unit, column]")
    _n_units, n_columns = table.shape
    out = np.ones(n_columns)
    used = np.flatnonzero(table.any(axis=0))
    if not used.size:
        return out
    whole = _whole(table[:, used])
    total = np.abs(whole.sum(axis=0))
    reached = _reached(whole, total, rng, n_replicates)
    p = (1.0 + reached) / (1.0 + n_replicates)
    z = total / np.sqrt((whole**2).sum(axis=0))
    out[used] = np.where(reached == 0, np.minimum(p, erfc(z / np.sqrt(2.0))), p)
    return out


def _reached(whole: Floats, total: Floats, rng: int, n_replicates: int) -> NDArray[np.int64]:
    """How many replicates have a sum at least as far from 0."""
    n_units = len(whole)
    draws = np.random.default_rng(rng)
    step = max(1, _SIGNS_PER_CHUNK // n_units)
    reached = np.zeros(whole.shape[1], dtype=np.int64)
    for first in range(0, n_replicates, step):
        n = min(step, n_replicates - first)
        signs = 2.0 * draws.integers(0, 2, size=(n, n_units), dtype=np.int8) - 1.0
        reached += (np.abs(signs @ whole) >= total).sum(axis=0)
    return reached


def _whole(values: Floats) -> Floats:
    """Columns in whole multiples of a power of two, so that every sum is exact and equal sums compare as equal."""
    largest = np.abs(values).max(axis=0) * len(values)
    return np.asarray(np.rint(values * np.exp2(np.minimum(np.floor(np.log2(_EXACT / largest)), 1000.0))))
