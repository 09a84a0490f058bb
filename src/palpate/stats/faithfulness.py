"""Does the answer depend on what is said to support it? Drops of a probability when words are taken out.

Comprehensiveness is how much the probability drops without the evidence, sufficiency how much with nothing else
(DeYoung et al. 2020, Section 4.2); both over growing fractions of the words, and against random words. An answer that
rests on its evidence has a large comprehensiveness and a sufficiency near 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats._inputs import Floats, finite
from palpate.stats.clustered import ratio_replicates
from palpate.stats.signflips import sign_flip_p_value
from palpate.stats.tallies import sum_by_unit, units_of


class MeanDrops(NamedTuple):
    """Means over pairs of a chart and a label, by column: on the data and on resampled charts."""

    point: Floats
    values: NDArray[np.float64]
    """[column, replicate]"""
    p_value: Floats
    """Of "no drop", two-sided: signs are flipped by chart."""
    n_charts: int


def drop(p_before: ArrayLike, p_after: ArrayLike) -> Floats:
    """How much lower the probability is; [pair, ...] less of [pair]."""
    before, after = finite(p_before, name="p_before"), finite(p_after, name="p_after")
    return np.asarray(before.reshape(before.shape + (1,) * (after.ndim - before.ndim)) - after)


def aopc(drops: ArrayLike) -> Floats:
    """The mean over fractions, the last axis: the area over the perturbation curve."""
    values = np.asarray(drops, np.float64)
    return np.asarray(values.mean(axis=-1)) if values.shape[-1] else np.full(values.shape[:-1], np.nan)


def mean_drops(drops: ArrayLike, chart: ArrayLike, *, rng: int, n_replicates: int = 10_000) -> MeanDrops:
    """The mean of each column of [pair, column], with replicates by chart; equal `rng` see equal resamples."""
    table = finite(drops, name="drops")
    if table.ndim != 2 or table.shape[0] != np.asarray(chart).shape[0]:
        raise ValueError("drops must be [pair, column], with a chart for each pair")
    n_columns = table.shape[1]
    if not table.shape[0]:
        nothing = np.full(n_columns, np.nan)
        return MeanDrops(nothing, np.full((n_columns, n_replicates), np.nan), nothing, 0)
    units = units_of(chart)
    total = sum_by_unit(table, units)
    size = units.size.reshape(-1, 1).astype(np.float64)
    over = np.zeros(n_columns, np.int64)
    values = ratio_replicates(total, size, over=over, rng=rng, n_replicates=n_replicates)
    p_value = sign_flip_p_value(total, rng=rng, n_replicates=n_replicates)
    return MeanDrops(total.sum(axis=0) / size.sum(), values, p_value, len(units.size))
