"""Does a prediction depend on the evidence that is said to support it? Drops of a probability when words are removed.

Comprehensiveness is how much the probability drops without the evidence, sufficiency how much it drops with the
evidence alone (DeYoung et al. 2020, Section 4.2); both over growing fractions of the words, and against random words. A
prediction that rests on its evidence has a large comprehensiveness and a sufficiency near 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.clustered import sum_by_unit, units_of
from palpate.stats.clustered_rates import Rates, clustered_means
from palpate.stats.inputs import Floats, finite


class MeanDrops(NamedTuple):
    """Means over pairs of a chart and a label, by column, with intervals by chart (or patient)."""

    rates: Rates
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
    drops: ArrayLike,
    chart: ArrayLike,
    *,
    part: ArrayLike | None = None,
    weight: Floats | None = None,
    level: float = 0.95,
) -> MeanDrops:
    """The mean of each column of [pair, column], with an interval by chart.

    With `part`, a number from 0 on for each pair, it is the mean over the parts of each part's mean, whatever their
    numbers of pairs: for a model's seeds. They share their charts, so the interval's ends are the means of theirs.
    `weight` is that of each pair.
    """
    table, charts = finite(drops, name="drops"), np.asarray(chart)
    if table.ndim != 2 or table.shape[0] != charts.shape[0]:
        raise ValueError("drops must be [pair, column], with a chart for each pair")
    if not len(table):
        nothing = np.full(table.shape[1], np.nan)
        return MeanDrops(Rates(nothing, nothing, nothing), 0)
    found = []
    for mine in _parts(part, len(table)):
        units = units_of(charts[mine], None if weight is None else weight[mine])
        found.append(clustered_means(sum_by_unit(table[mine], units), units.mass[:, None], level=level).rates)
    rates = Rates(*(np.mean([each[k] for each in found], axis=0) for k in range(3)))
    return MeanDrops(rates, len(np.unique(charts)))


def _parts(part: ArrayLike | None, n_pairs: int) -> list[NDArray[np.int64]]:
    """The pairs of each part."""
    of = np.zeros(n_pairs, np.int64) if part is None else np.asarray(part)
    if of.shape != (n_pairs,) or of.dtype.kind not in "iu" or np.unique(of).tolist() != list(range(int(of.max()) + 1)):
        raise ValueError("part must have a number for each pair, from 0 on without gaps")
    return [np.flatnonzero(of == k) for k in range(int(of.max()) + 1)]
