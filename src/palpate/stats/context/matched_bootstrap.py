"""Metrics on matched pairs, with the matching redone in every bootstrap replicate (context paper, Sections 3.4 and
3.5).

A replicate is a vector of multiplicities, and the matching works on multiplicities: nothing is sorted again, no rows
are copied. A value equals the metric of `match_pairs` on the resampled rows (each row repeated in place), under the tie
rule of `palpate.stats.context.matching`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.arguments import GAPS, Rows, Unit, check_rows, value_columns
from palpate.stats.bootstrap import DATA, BootstrapOptions, check_options, gaps_of, limited_threads, metric_families
from palpate.stats.context import context_of
from palpate.stats.context.matching import fixed_point, match_order, penalty
from palpate.stats.inputs import Floats

if TYPE_CHECKING:
    from palpate.stats.kernels.matching import MatchingOrder
    from palpate.stats.kernels.walks import Ranked


class MatchedReplicates(NamedTuple):
    """Metrics on the matched pairs of the data and of its resamples; nan where a metric is undefined."""

    metrics: tuple[str, ...]
    point: Floats  # [model, metric, label]
    values: Floats  # [model, metric, label, replicate]
    n_pairs: NDArray[np.int64]  # [label]
    replicate_pairs: NDArray[np.int64]  # [label, replicate]


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
    tie_break: ArrayLike | None = None,
    n_replicates: int = 10_000,
    n_threads: int | None = None,
) -> MatchedReplicates:
    """Metrics of every model and label on rows matched by pre-test probability, on the data and on each replicate.

    `p_context`, the pre-test probability, is [n] or [n, labels] and finite where `rows` is true. `caliper` and
    `tie_break` ([n]) are those of `match_pairs`; all else is as in `bootstrap`. Calls with the same integer `rng` and
    the same units use the resamples of `bootstrap`, so matched and whole can be subtracted replicate by replicate.
    """
    options = check_options(metrics, specificity, n_bins, n_replicates, rng)
    checked = check_rows(
        y_true, y_score, options.metrics, threshold=threshold, unit=unit, patient=patient, rows=rows, weight=None
    )
    chance = context_of(p_context, checked)
    price = penalty(caliper)
    with limited_threads(n_threads):
        return _evaluate(checked, chance, tie_break, price, options)


def _evaluate(
    rows: Rows, chance: Floats, tie_break: ArrayLike | None, price: int, options: BootstrapOptions
) -> MatchedReplicates:
    from palpate.stats import layout as _layout
    from palpate.stats.kernels import matching as _matching

    n_models, _, n_labels = rows.score.shape
    ranked = _layout.ranked(rows, options.n_bins)
    ordered = _place(rows, chance, tie_break, price, ranked)

    def walk(names: Sequence[str], replicates: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
        wanted = value_columns(names, options.n_bins)
        families = metric_families(names, options, weighted=False)
        out = np.empty((n_labels * n_models, wanted.size, replicates.size))
        pairs = np.zeros((n_labels, replicates.size), np.int64)
        _matching.replicate_matched(
            options.seed, replicates, ordered, ranked, families, wanted, options.n_values, out, pairs
        )
        shape = (n_labels, n_models, wanted.size, replicates.size)
        return out.reshape(shape).transpose(1, 2, 0, 3), pairs

    if options.noisy:
        ranked.gap[:] = gaps_of(walk((GAPS,), DATA)[0])
    point, n_pairs = walk(options.metrics, DATA)
    values, replicate_pairs = walk(options.metrics, np.arange(options.n_replicates, dtype=np.int64))
    return MatchedReplicates(options.metrics, point[..., 0], values, n_pairs[:, 0], replicate_pairs)


def _place(rows: Rows, chance: Floats, tie_break: ArrayLike | None, price: int, ranked: Ranked) -> MatchingOrder:
    """The rows of each label in the order of the matching, and where each ranked row is among them."""
    from palpate.stats.kernels.matching import MatchingOrder

    key = None if tie_break is None else np.asarray(tie_break)
    if key is not None and key.shape != (len(chance),):
        raise ValueError(f"tie_break has shape {key.shape}, expected {(len(chance),)}")
    units, positives, places, positions = [], [], [], []
    for label in range(chance.shape[1]):
        used = rows.used[:, label]
        p = chance[used, label]
        order = match_order(p, rows.positive[used, label], None if key is None else key[used])
        units.append(rows.unit[used, label][order])
        positives.append(rows.positive[used, label][order])
        places.append(fixed_point(p[order]))
        found = np.empty(p.size, np.int32)
        found[order] = np.arange(p.size, dtype=np.int32)
        for score in rows.score[:, used, label]:
            # In the order of the rows in `ranked`.
            positions.append(found[np.argsort(-score, kind="stable")])
    group = np.cumsum(np.append(False, ranked.last[:-1])[: ranked.last.size])
    return MatchingOrder(
        start=np.concatenate([[0], np.cumsum([part.size for part in places])]).astype(np.int64),
        unit=np.concatenate(units),
        positive=np.concatenate(positives),
        place=np.concatenate(places),
        position=np.concatenate(positions),
        group=group.astype(np.int32),
        penalty=price,
    )
