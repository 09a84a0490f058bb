"""Metrics on matched pairs, with the matching redone in every bootstrap replicate (context paper, Sections 3.4 and
3.5).

A replicate is a vector of multiplicities, and the matching works on multiplicities: nothing is sorted again, no rows
are copied. A value equals the metric of the resampled rows, weighted with `matched_share` and their sampling weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.arguments import GAPS, Rows, Unit, check_rows, value_columns
from palpate.stats.bootstrap import (
    DATA,
    BootstrapOptions,
    Replicates,
    check_options,
    gaps_of,
    limited_threads,
    metric_families,
)
from palpate.stats.context import context_of
from palpate.stats.context.matching import cells_of, penalty
from palpate.stats.inputs import Floats

if TYPE_CHECKING:
    from palpate.stats.kernels.matching import MatchingOrder
    from palpate.stats.kernels.walks import Ranked


def matched_bootstrap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    p_context: ArrayLike,
    *,
    rng: np.random.Generator | int,
    metrics: Sequence[str] = ("auroc",),
    threshold: ArrayLike | None = None,
    specificity: float = 0.95,
    n_bins: int = 10,
    unit: Unit = "patient",
    patient: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    caliper: float | None = None,
    weight: ArrayLike | None = None,
    n_replicates: int = 10_000,
    n_threads: int | None = None,
) -> Replicates:
    """Metrics of every model and label on rows matched by pre-test probability, on the data and on each replicate.

    `p_context`, the pre-test probability, is [n] or [n, labels] and finite where `rows` is true. `caliper` is that of
    `matched_share`; `weight` are sampling weights, [n] or [n, labels], which do not choose the pairs; all else is as in
    `bootstrap`. Calls with the same integer `rng` and the same units use the resamples of `bootstrap`, so matched and
    whole can be subtracted replicate by replicate.
    """
    options = check_options(metrics, specificity, n_bins, n_replicates, rng)
    checked = check_rows(
        y_true, y_score, options.metrics, threshold=threshold, unit=unit, patient=patient, rows=rows, weight=weight
    )
    chance = context_of(p_context, checked)
    price = penalty(caliper)
    with limited_threads(n_threads):
        return _evaluate(checked, chance, price, options)


def _evaluate(rows: Rows, chance: Floats, price: int, options: BootstrapOptions) -> Replicates:
    from palpate.stats import layout as _layout
    from palpate.stats.kernels import matching as _matching

    n_models, _, n_labels = rows.score.shape
    ranked = _layout.ranked(rows._replace(weight=None), options.n_bins)
    ordered = _order(rows, chance, price, ranked)

    def walk(names: Sequence[str], replicates: NDArray[np.int64]) -> Floats:
        wanted = value_columns(names, options.n_bins)
        families = metric_families(names, options, weighted=True)
        out = np.empty((n_labels * n_models, wanted.size, replicates.size))
        _matching.replicate_matched(options.seed, replicates, ordered, ranked, families, wanted, options.n_values, out)
        shape = (n_labels, n_models, wanted.size, replicates.size)
        return out.reshape(shape).transpose(1, 2, 0, 3)

    if options.noisy:
        ranked.gap[:] = gaps_of(walk((GAPS,), DATA))
    point = walk(options.metrics, DATA)[..., 0]
    return Replicates(options.metrics, point, walk(options.metrics, np.arange(options.n_replicates, dtype=np.int64)))


def _order(rows: Rows, chance: Floats, price: int, ranked: Ranked) -> MatchingOrder:
    """The cells and rows of each label in the order of the matching, and where each ranked row is among them."""
    from palpate.stats.kernels.matching import MatchingOrder

    found, units, cell, positions, weights = [], [], [], [], [np.empty(0)]
    for label in range(chance.shape[1]):
        used = rows.used[:, label]
        cells = cells_of(chance[used, label], rows.positive[used, label])
        order = np.argsort(cells.cell, kind="stable")
        found.append(cells)
        units.append(rows.unit[used, label][order])
        cell.append(cells.cell[order])
        if rows.weight is not None:
            weights.append(rows.weight[used, label][order])
        place = np.empty(order.size, np.int32)
        place[order] = np.arange(order.size, dtype=np.int32)
        # In the order of the rows in `ranked`.
        positions += [place[np.argsort(-score, kind="stable")] for score in rows.score[:, used, label]]
    group = np.cumsum(np.append(False, ranked.last[:-1])[: ranked.last.size])
    return MatchingOrder(
        start=np.cumsum([0, *(cells.place.size for cells in found)], dtype=np.int64),
        positive=np.concatenate([cells.positive for cells in found]),
        place=np.concatenate([cells.place for cells in found]),
        first=np.cumsum([0, *(part.size for part in cell)], dtype=np.int64),
        unit=np.concatenate(units),
        cell=np.concatenate(cell),
        position=np.concatenate(positions),
        group=group.astype(np.int32),
        weight=np.concatenate(weights),
        penalty=price,
    )
