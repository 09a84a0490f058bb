"""Rows clustered by patient: sums over a patient's rows, and their ratios and counts under resampled patients.

A mean over notes is a ratio: what the notes of a patient sum to, over how many there are, both summed over the drawn
patients. With the counts of `resample_counts` as a matrix, all replicates of all ratios are counts times sums. That
product is dense. Where each patient is in one of many groups (one age of 73), nearly all of the matrix is 0, and
`tally_replicates` uses a sparse product, whose cost depends on the other entries only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from palpate.stats.bootstrap import resample_counts, seed_of
from palpate.stats.inputs import Floats, finite

_BYTES_PER_CHUNK = 48_000_000
_COUNTS_PER_CHUNK = 8_000_000
_EXACT = 2.0**52


class Units(NamedTuple):
    """The resampling unit (patient) of each row, numbered from 0, and how many rows each unit has."""

    code: NDArray[np.int64]
    size: NDArray[np.int64]
    weight: Floats | None = None
    """[row]; None where all rows count alike."""

    @property
    def mass(self) -> Floats:
        """What the rows of each unit weigh together: how many there are, where they count alike."""
        return self.size.astype(np.float64) if self.weight is None else sum_by_unit(np.ones(len(self.code)), self)

    @property
    def n_counted(self) -> int:
        """How many units have a row that counts."""
        return int((self.mass > 0).sum())


def units_of(patient: ArrayLike, weight: Floats | None = None) -> Units:
    """Units, numbered in the order of their names; `weight` is that of each row."""
    _, code, size = np.unique(np.asarray(patient), return_inverse=True, return_counts=True)
    return Units(code.astype(np.int64), size.astype(np.int64), weight)


def sum_by_unit(values: ArrayLike, units: Units) -> Floats:
    """[row, ...] values, times the rows' weights, summed over the rows of each unit: [unit, ...]."""
    order = np.argsort(units.code, kind="stable")
    table = np.asarray(values, np.float64)[order]
    if units.weight is not None:
        table = table * units.weight[order].reshape(-1, *[1] * (table.ndim - 1))
    if len(units.size) == len(table):
        return table
    starts = np.concatenate([[0], np.cumsum(units.size)[:-1]]).astype(np.int64)
    return np.asarray(np.add.reduceat(table, starts, axis=0))


def ratio_replicates(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    over: ArrayLike | None = None,
    rng: np.random.Generator | int,
    n_replicates: int = 10_000,
) -> Floats:
    """Bootstrap replicates of sum(numerator) / sum(denominator), [ratio, replicate]; nan where the denominator is 0.

    `numerator` is [patients, ratios], one row per patient. `denominator` is [patients, denominators], never below 0,
    and `over` says which denominator each ratio has; by default ratio k has denominator k. Calls with the same integer
    `rng` and the same number of patients use the same resamples, which are those of `bootstrap` for one row per
    patient.
    """
    above, below = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    n_patients = above.shape[0] if above.ndim else 0
    if n_patients == 0:
        return resampled_ratios(above, below, np.zeros((n_replicates, 0)), over=over)
    seed = int(seed_of(rng))  # one for all chunks
    step = max(1, _BYTES_PER_CHUNK // (8 * n_patients))
    parts = [resampled_ratios(above, below, np.zeros((0, n_patients)), over=over)]
    for first in range(0, n_replicates, step):
        n = min(step, n_replicates - first)
        counts = resample_counts(rng=seed, n_replicates=n, patient=np.arange(n_patients), first=first)
        parts.append(resampled_ratios(above, below, counts, over=over))
    return np.concatenate(parts, axis=1)


def resampled_ratios(
    numerator: ArrayLike, denominator: ArrayLike, counts: ArrayLike, *, over: ArrayLike | None = None
) -> Floats:
    """The same as `ratio_replicates` for given `counts`, [replicates, patients]: how often each patient is drawn.

    For many ratios that are computed in parts, so that patients are drawn only once. Counts may have any integer type;
    a replicate draws as many patients as there are.

    The result does not depend on the number of threads: numbers are rounded to 52 bits of the largest sum that can
    occur, so that every sum is exact whatever its order.
    """
    above, below = finite(numerator, name="numerator"), finite(denominator, name="denominator")
    drawn = np.asarray(counts)
    if above.ndim != 2 or below.ndim != 2 or above.shape[0] != below.shape[0]:
        raise ValueError("numerator and denominator must be [patients, ratios] with the same patients")
    if drawn.ndim != 2 or drawn.shape[1] != above.shape[0]:
        raise ValueError("counts must be [replicates, patients]")
    if bool(np.any(below < 0)):
        raise ValueError("denominator must not be negative")
    index = np.arange(above.shape[1]) if over is None else np.asarray(over, np.int64)
    if index.shape != (above.shape[1],) or (index.size and not 0 <= index.min() <= index.max() < below.shape[1]):
        raise ValueError("`over` must name a denominator for each ratio")
    out = np.full((above.shape[1], len(drawn)), np.nan)
    # Patients who add nothing are left out of the product: for rare words that is nearly everyone.
    active = np.flatnonzero((above != 0).any(axis=1) | (below != 0).any(axis=1))
    if active.size == 0:
        return out
    above, below = above[active], below[active]
    whole, scale = _whole(above, float(drawn.shape[1]))
    if bool(np.any(below != np.rint(below))):  # weights
        whole_below, scale_below = _whole(below, float(drawn.shape[1]))
    else:
        whole_below, scale_below = below, np.ones(below.shape[1])
    step = max(1, _BYTES_PER_CHUNK // (8 * max(active.size, above.shape[1])))
    for first in range(0, len(drawn), step):
        rows = drawn[first : first + step]
        some = (rows if active.size == drawn.shape[1] else rows[:, active]).astype(np.float64)
        share = ((some @ whole_below) / scale_below)[:, index]
        total = (some @ whole) / scale
        np.divide(total.T, share.T, out=out[:, first : first + step], where=share.T > 0)
    return out


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


def _whole(values: Floats, n_drawn: float) -> tuple[Floats, Floats]:
    """Columns as whole numbers whose sums over `n_drawn` rows stay below 2**52, and the powers of two to divide by."""
    largest = np.abs(values).max(axis=0) * n_drawn
    exponent = np.zeros(largest.size)
    known = largest > 0
    exponent[known] = np.floor(np.log2(_EXACT / largest[known]))
    scale = np.exp2(np.minimum(exponent, 1000.0))
    return np.rint(values * scale), scale
