"""Does a prediction depend on the evidence that is said to support it? Drops of a probability when words are removed.

Comprehensiveness is how much the probability drops without the evidence, sufficiency how much it drops with the
evidence alone (DeYoung et al. 2020, Section 4.2); both over growing fractions of the words, and against random words. A
prediction that rests on its evidence has a large comprehensiveness and a sufficiency near 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.clustered import ratio_replicates, sum_by_unit, units_of
from palpate.stats.inputs import Floats, finite
from palpate.stats.intervals import sign_flip_p_value


class MeanDrops(NamedTuple):
    """Means over pairs of a chart and a label, by column: on the data and on resampled charts (or patients)."""

    point: Floats
    values: NDArray[np.float64]
    """[column, replicate]"""
    p_value: Floats
    """Of "no drop", two-sided: signs are flipped by chart."""
    n_charts: int


def drop(p_before: ArrayLike, p_after: ArrayLike) -> Floats:
    """How much lower the probability is: [pair] before minus [pair, ...] after."""
    before, after = finite(p_before, name="p_before"), finite(p_after, name="p_after")
    return np.asarray(before.reshape(before.shape + (1,) * (after.ndim - before.ndim)) - after)


def aopc(drops: ArrayLike) -> Floats:
    """The mean over fractions, the last axis: the area over the perturbation curve."""
    values = np.asarray(drops, np.float64)
    return np.asarray(values.mean(axis=-1)) if values.shape[-1] else np.full(values.shape[:-1], np.nan)


def mean_drops(
    drops: ArrayLike, chart: ArrayLike, *, part: ArrayLike | None = None, rng: int, n_replicates: int = 10_000
) -> MeanDrops:
    """The mean of each column of [pair, column], with replicates by chart; equal `rng` give equal resamples.

    With `part`, a number from 0 on for each pair, it is the mean over the parts of each part's mean, whatever their
    numbers of pairs: for a model's checkpoints, which share the resampled charts.
    """
    table = finite(drops, name="drops")
    if table.ndim != 2 or table.shape[0] != np.asarray(chart).shape[0]:
        raise ValueError("drops must be [pair, column], with a chart for each pair")
    n_pairs, n_columns = table.shape
    if not n_pairs:
        nothing = np.full(n_columns, np.nan)
        return MeanDrops(nothing, np.full((n_columns, n_replicates), np.nan), nothing, 0)
    member = _members(part, n_pairs)
    n_parts = member.shape[1]
    units = units_of(chart)
    total = sum_by_unit((member[:, :, None] * table[:, None, :]).reshape(n_pairs, -1), units)
    size = sum_by_unit(member, units)
    over = np.repeat(np.arange(n_parts), n_columns)
    values = ratio_replicates(total, size, over=over, rng=rng, n_replicates=n_replicates)
    of_part = size.sum(axis=0)
    point = (total.sum(axis=0) / of_part[over]).reshape(n_parts, n_columns).mean(axis=0)
    # What each chart adds to the mean of means, up to a factor that does not matter for the signs.
    added = (total * (of_part[0] / of_part)[over]).reshape(-1, n_parts, n_columns).sum(axis=1)
    p_value = sign_flip_p_value(added, rng=rng, n_replicates=n_replicates)
    return MeanDrops(point, values.reshape(n_parts, n_columns, -1).mean(axis=0), p_value, len(units.size))


def _members(part: ArrayLike | None, n_pairs: int) -> Floats:
    """[pair, part]: 1 where the pair belongs to the part."""
    of = np.zeros(n_pairs, np.int64) if part is None else np.asarray(part)
    if of.shape != (n_pairs,) or of.dtype.kind not in "iu" or np.unique(of).tolist() != list(range(int(of.max()) + 1)):
        raise ValueError("part must have a number for each pair, from 0 on without gaps")
    return np.asarray(of[:, None] == np.arange(int(of.max()) + 1), np.float64)
