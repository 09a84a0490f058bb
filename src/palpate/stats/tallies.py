"""Rows by patient: sums over a patient's rows, and replicates of counts that most patients do not add to.

`ratio_replicates` multiplies dense columns. Where each patient is in one of many groups (one age of 73), nearly all of
such a matrix is 0, and a sparse product costs what is not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from palpate.stats.bootstrap import resample_counts
from palpate.stats.inputs import Floats

_COUNTS_PER_CHUNK = 8_000_000


class Units(NamedTuple):
    """The resampling unit (patient) of each row, numbered from 0, and how many rows each unit has."""

    code: NDArray[np.int64]
    size: NDArray[np.int64]


def units_of(patient: ArrayLike) -> Units:
    """Units, numbered in the order of their names."""
    _, code, size = np.unique(np.asarray(patient), return_inverse=True, return_counts=True)
    return Units(code.astype(np.int64), size.astype(np.int64))


def sum_by_unit(values: ArrayLike, units: Units) -> Floats:
    """[row, ...] values summed over the rows of each unit: [unit, ...]."""
    table = np.asarray(values, np.float64)[np.argsort(units.code, kind="stable")]
    if len(units.size) == len(table):
        return table
    starts = np.concatenate([[0], np.cumsum(units.size)[:-1]]).astype(np.int64)
    return np.asarray(np.add.reduceat(table, starts, axis=0))


def tally_replicates(counts: sparse.csr_array, *, rng: int, n_replicates: int) -> NDArray[np.int64]:
    """Bootstrap replicates of each column's sum, [column, replicate], from [unit, column] whole numbers.

    The resamples are those of `bootstrap` and of `ratio_replicates` for the same integer `rng` and number of units.
    """
    n_units, n_columns = counts.shape
    out = np.zeros((n_columns, n_replicates), dtype=np.int64)
    if n_units == 0:
        return out
    columns = sparse.csr_array(counts.T).astype(np.int64)
    everyone = np.arange(n_units)
    step = max(1, _COUNTS_PER_CHUNK // n_units)
    for first in range(0, n_replicates, step):
        n = min(step, n_replicates - first)
        drawn = resample_counts(rng=rng, n_replicates=n, patient=everyone, first=first)
        out[:, first : first + n] = columns @ np.ascontiguousarray(drawn.T).astype(np.int64)
    return out
