"""Means over labels: macro, one mean of all labels, and micro, all pairs of a case and a label pooled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import MetricReplicates, class_units, cluster_sizes, weighing
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.scope import Unit
from palpate.audits.performance.populations import MEASURED, PROBABILITY, RANKING, Floats, Measuring, Population
from palpate.cases.edits import Ints
from palpate.results import MACRO, MICRO
from palpate.stats import NOISE, THRESHOLD_METRICS, bootstrap, macro_average
from palpate.stats.precision import Weighing
from palpate.stats.precision.pooled import pooled_decisions, pooled_metrics


def macro_replicates(
    population: Population,
    parts: Sequence[MetricReplicates],
    common: NDArray[np.bool_],
    averaged: NDArray[np.bool_],
    measuring: Measuring,
    n_replicates: int,
) -> NDArray[np.float64]:
    """Replicates of the macro average, [model, metric, replicate]."""
    if len(parts) == 1:
        return macro_average(np.where(averaged[..., None], parts[0].values, np.nan), axis=2)
    if not common.any() or not n_replicates:
        return np.zeros((len(population.y_score.by_model), len(MEASURED), 0))
    values = bootstrap(
        population.y_true[:, common],
        population.y_score.of(np.flatnonzero(common)),
        metrics=MEASURED,
        threshold=population.threshold[:, common],
        rows=population.rows(np.flatnonzero(common)),
        average="macro",
        n_replicates=n_replicates,
        **measuring.options(population),
    ).values[:, :, 0]
    # A metric that some model lacks for some label would be resampled over more labels than it is averaged over.
    values[:, averaged.sum(axis=1) < common.sum()] = np.nan
    return values


def macro_of(
    population: Population,
    models: tuple[str, ...],
    point: NDArray[np.float64],
    averaged: NDArray[np.bool_],
    values: NDArray[np.float64],
    parts: Sequence[MetricReplicates],
    unit: Unit,
) -> MetricReplicates:
    """The mean over labels as a label of its own; a case counts as positive if any label is."""
    n_labels = int(averaged.any(axis=0).sum())
    resampled = len(parts) == 1
    everyone = np.ones((len(population.y_true), 1), np.uint8)
    sizes = cluster_sizes(everyone, population.patient, unit, weight=population.weight)
    return MetricReplicates(
        population=population.name,
        models=models,
        metrics=MEASURED,
        labels=(MACRO,),
        point=macro_average(np.where(averaged, point, np.nan), axis=2)[:, :, None],
        values=values[:, :, None, :],
        n=np.asarray([len(population.y_true)]),
        n_positive=population.any_positive.sum(keepdims=True, dtype=np.int64),
        n_units=np.full((2, 1), FEWEST_FOR_TEST if n_labels else 0),
        sizes=np.tile(sizes[:1], (2, 1)),
        weighing=weighing(everyone, population.weight),
        why_no_interval="no interval: too many labels to resample, or a label for which a model has no answer",
        why_undefined=f"no label has {FEWEST_FOR_TEST} patients with and {FEWEST_FOR_TEST} without it in every cohort",
        over=parts[0] if resampled else None,
        kept=averaged if resampled else None,
    )


def micro_of(
    population: Population, models: tuple[str, ...], measuring: Measuring, n_replicates: int
) -> MetricReplicates:
    """Micro average: all case–label pairs pooled; the pairs of a case stay together when it is resampled."""
    n, n_labels = population.y_true.shape
    unit = population.patient if measuring.unit == "patient" else np.arange(n)
    rows = population.rows()
    simple = n_replicates == 0 and population.weight is None and rows is None
    pairs = _pairs_on_the_data if simple else _resampled_pairs
    point, values = pairs(population, measuring, unit, n_replicates)
    y_true = population.y_true if rows is None else population.y_true * rows
    n_known = np.full(n, n_labels) if rows is None else rows.sum(axis=1)
    n_positive = y_true.sum(axis=1, dtype=np.int64)
    any_positive, no_negative = (each.astype(np.uint8)[:, None] for each in (n_positive > 0, n_positive == n_known))
    return MetricReplicates(
        population=population.name,
        models=models,
        metrics=MEASURED,
        labels=(MICRO,),
        point=point,
        values=values,
        n=n_known.sum(keepdims=True),
        n_positive=n_positive.sum(keepdims=True),
        sizes=pair_sizes(n_positive, n_known, unit, population.weight),
        weighing=_weighing_of_pairs(population),
        n_units=np.stack([class_units(any_positive, unit, "patient")[0], class_units(no_negative, unit, "patient")[1]]),
        why_no_interval="no interval: too many labels and cases to resample",
    )


def _resampled_pairs(
    population: Population, measuring: Measuring, unit: Ints, n_replicates: int
) -> tuple[Floats, Floats]:
    """Values of `MEASURED` on the data and on resamples."""
    n_labels, rows = population.y_true.shape[1], population.rows()
    y_score = population.y_score.every()
    options = {
        **measuring.options(population),
        "unit": "patient",
        "patient": np.repeat(unit, n_labels),
        "rows": None if rows is None else rows.ravel(),
        "n_replicates": n_replicates,
        "weight": None if population.weight is None else np.repeat(population.weight, n_labels),
    }
    y_true = population.y_true.reshape(-1, 1)
    threshold = np.nan_to_num(population.threshold, nan=np.inf)[:, None, :]
    scores = y_score.reshape(len(y_score), -1, 1)
    decisions = (y_score >= threshold).astype(np.float64).reshape(scores.shape)
    ranked = bootstrap(y_true, scores, metrics=(*RANKING, *PROBABILITY, NOISE), **options)
    decided = bootstrap(y_true, decisions, metrics=THRESHOLD_METRICS, threshold=0.5, **options)
    point, values = (
        _with_noise_last(*each) for each in ((ranked.point, decided.point), (ranked.values, decided.values))
    )
    if population.gaps is not None:  # a model without scores for a label has no pooled number over all labels
        gone = population.gaps.unscored.any(axis=1)
        point[gone], values[gone] = np.nan, np.nan
    return point, values


def _pairs_on_the_data(
    population: Population,
    measuring: Measuring,
    unit: Ints,  # noqa: ARG001  (nothing is resampled)
    n_replicates: int,
) -> tuple[Floats, Floats]:
    """Values of `MEASURED` on the data, without copies of tens of millions of pairs."""
    point = np.empty((len(population.y_score.by_model), len(MEASURED), 1))
    for m, (p, threshold) in enumerate(zip(population.y_score.by_model, population.threshold, strict=True)):
        found = pooled_metrics(population.y_true, p, specificity=measuring.specificity, n_bins=measuring.n_bins)
        values = found._asdict() | pooled_decisions(population.y_true, p, threshold) | {NOISE: 0.0}
        point[m, :, 0] = [values[name] for name in MEASURED]
    return point, np.empty((*point.shape, n_replicates))


def pair_sizes(n_positive: Ints, n_labels: int | Ints, unit: Ints, weight: Floats | None) -> Floats:
    """How many pairs of its class the patient of a pair has (`cluster_sizes`), from how many labels each case has.

    `n_labels` is how many count, for all cases or for each.
    """
    known, code = np.unique(unit, return_inverse=True)
    sizes = np.zeros((2, 1))
    for k, count in enumerate((n_positive, n_labels - n_positive)):
        mass = count if weight is None else count * weight
        each = np.bincount(code, weights=mass, minlength=len(known))
        squares = float(count.sum()) if weight is None else float((count * weight**2).sum())
        sizes[k] = (each**2).sum() / squares if squares > 0 else 0.0
    return sizes


def _weighing_of_pairs(population: Population) -> Weighing | None:
    if population.weight is None:
        return None
    n_labels, rows = population.y_true.shape[1], population.rows()
    used = None if rows is None else rows.reshape(-1, 1)
    return weighing(population.y_true.reshape(-1, 1), np.repeat(population.weight, n_labels), used)


def _with_noise_last(ranked: NDArray[np.float64], decided: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([ranked[:, :-1], decided, ranked[:, -1:]], axis=1)
