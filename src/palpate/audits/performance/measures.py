"""Every metric of every model and label on every cohort, and the macro and micro averages over labels.

The macro average is over the labels that can be averaged everywhere: at least ten patients with the label and ten
without in each cohort, and the metric defined for each model. So two cohorts, or two models, are never compared on
different labels, and a resample rarely lacks a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import (
    MetricReplicates,
    class_units,
    cluster_sizes,
    curve_of_members,
    member_places,
    weighing,
)
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.performance.averages import macro_of, macro_replicates, micro_of
from palpate.audits.performance.populations import MEASURED, METRICS, Measuring, Population
from palpate.cases.edits import Ints
from palpate.results import Predictions
from palpate.stats import CalibrationCurve, bootstrap
from palpate.stats.bootstrap import Replicates
from palpate.stats.precision import n_distinct

MOST_CURVES = 4
"""Labels whose curves are drawn."""


class Labels(NamedTuple):
    """The labels, those that get intervals first."""

    names: tuple[str, ...]
    frequent: Ints
    rest: Ints

    @classmethod
    def choose(cls, names: Sequence[str], y_true: NDArray[np.uint8], n: int) -> Labels:
        """The n most frequent labels, in their order, and the rest."""
        frequent = np.sort(most_frequent(y_true, n))
        return cls(tuple(names), frequent, np.setdiff1d(np.arange(len(names)), frequent))


def most_frequent(y_true: NDArray[np.uint8], n: int) -> Ints:
    """The n labels with most positive cases, ties by position."""
    return np.argsort(-y_true.sum(axis=0, dtype=np.int64), kind="stable")[:n]


class MeasuredAll(NamedTuple):
    """What was measured: for each population its parts (labels, averages)."""

    parts: list[list[MetricReplicates]]
    averaged: tuple[str, ...]
    """The labels that the macro AUROC is over."""
    n_replicates_of_averages: int


def measure(
    populations: Sequence[Population], labels: Labels, models: tuple[str, ...], measuring: Measuring
) -> MeasuredAll:
    """All metrics on all populations; every population has the same parts in the same order."""
    parts = [_labels(population, labels, models, measuring) for population in populations]
    n_average = measuring.n_replicates_of_averages(populations)
    if len(labels.names) == 1:
        return MeasuredAll(parts, labels.names, n_average)
    order = np.concatenate([labels.frequent, labels.rest])
    common = np.all(
        [
            class_units(each.y_true, each.patient, measuring.unit, each.rows()).min(axis=0) >= FEWEST_FOR_TEST
            for each in populations
        ],
        axis=0,
    )
    points = np.stack([np.concatenate([part.point for part in each], axis=2) for each in parts])
    averaged = common[order] & ~np.isnan(points).any(axis=(0, 1))
    for population, each, point in zip(populations, parts, points, strict=True):
        macro = macro_replicates(population, each, common, averaged, measuring, n_average)
        each.append(macro_of(population, models, point, averaged, macro, each, measuring.unit))
        each.append(micro_of(population, models, measuring, n_average))
    kept = order[averaged[METRICS.index("auroc")]]
    return MeasuredAll(parts, tuple(labels.names[int(j)] for j in kept), n_average)


def _labels(
    population: Population, labels: Labels, models: tuple[str, ...], measuring: Measuring
) -> list[MetricReplicates]:
    """The labels with intervals, and those without."""
    parts = [measure_labels(population, labels.names, labels.frequent, models, measuring, measuring.n_replicates)]
    if len(labels.rest):
        why = f"no interval: not among the {len(labels.frequent)} most frequent labels"
        parts.append(measure_labels(population, labels.names, labels.rest, models, measuring, 0, why))
    return parts


def measure_labels(
    population: Population,
    names: Sequence[str],
    columns: Ints,
    models: tuple[str, ...],
    measuring: Measuring,
    n_replicates: int,
    why_no_interval: str = "",
) -> MetricReplicates:
    """The metrics of some labels of one population, with as many resamples; 0 for none."""
    threshold, rows = population.threshold[:, columns], population.rows(columns)
    result = _replicates(population, columns, measuring, n_replicates)
    y_true = population.y_true[:, columns]
    return MetricReplicates(
        population=population.name,
        models=models,
        metrics=MEASURED,
        labels=tuple(names[int(j)] for j in columns),
        point=population.undefined(result.point, columns),
        values=population.undefined(result.values, columns),
        n=np.full(len(columns), len(y_true)) if rows is None else rows.sum(axis=0),
        n_positive=(y_true if rows is None else y_true * rows).sum(axis=0, dtype=np.int64),
        n_units=class_units(y_true, population.patient, measuring.unit, rows),
        sizes=cluster_sizes(y_true, population.patient, measuring.unit, rows, population.weight)
        if n_replicates
        else None,
        weighing=weighing(y_true, population.weight, rows),
        unscored=None if population.gaps is None else population.gaps.unscored[:, columns],
        why_no_interval=why_no_interval,
        why_undefined="no threshold or no predicted case: a denominator is 0" if np.isnan(threshold).any() else "",
    )


def _replicates(population: Population, columns: Ints, measuring: Measuring, n_replicates: int) -> Replicates:
    """Those of some labels; a few at a time where there are none to share."""
    parts = [
        bootstrap(
            population.y_true[:, some],
            population.y_score.of(some),
            metrics=MEASURED,
            threshold=population.threshold[:, some],
            rows=population.rows(some),
            n_replicates=n_replicates,
            **measuring.options(population),
        )
        for some in ([columns] if n_replicates else population.y_score.blocks(columns))
    ]
    if len(parts) == 1:
        return parts[0]
    point, values = (np.concatenate([part[k] for part in parts], axis=2) for k in (1, 2))
    return Replicates(MEASURED, point, values)


class OddScores(NamedTuple):
    """Scores of one model and label that cannot be what they are taken for."""

    model: str
    label: str
    constant: bool
    """All the same; otherwise only 0 and 1."""


def odd_scores(populations: Sequence[Population], models: Sequence[str], labels: Sequence[str]) -> list[OddScores]:
    """Where a model gives one score to every case of a population, or decisions instead of probabilities."""
    found: dict[OddScores, None] = {}
    for population in populations:
        if len(population.y_true) < FEWEST_FOR_TEST:
            continue
        for m, p in enumerate(population.y_score.by_model):
            constant, decided = _odd_columns(p, population.rows())
            odd = constant | decided
            for j in np.flatnonzero(odd if population.gaps is None else odd & ~population.gaps.unscored[m]):
                found[OddScores(models[m], labels[int(j)], bool(constant[j]))] = None
    return list(found)


def _odd_columns(p: NDArray[np.float64], rows: NDArray[np.bool_] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """For which labels all scores that count are the same, and for which they are only 0 and 1."""
    if rows is None:
        constant = (p == p[:1]).all(axis=0)
        return constant, ((p == 0) | (p == 1)).all(axis=0) & ~constant
    lowest, highest = np.where(rows, p, np.inf).min(axis=0), np.where(rows, p, -np.inf).max(axis=0)
    enough = rows.sum(axis=0) >= FEWEST_FOR_TEST
    constant = (lowest == highest) & enough
    return constant, (~rows | (p == 0) | (p == 1)).all(axis=0) & ~constant & enough


class DrawnCurve(NamedTuple):
    """The calibration of one model; that of an ensemble is the mean of its members' curves, in the widest of bands."""

    population: str
    model: str
    label: str
    curve: CalibrationCurve


def calibration_curves(
    populations: Sequence[Population], predictions: Predictions, labels: Sequence[str], measuring: Measuring
) -> list[DrawnCurve]:
    """Calibration of the most frequent labels, for every model that is compared."""
    frequent, places = most_frequent(populations[0].y_true, MOST_CURVES), member_places(predictions)
    scored = list(predictions.scored)
    found = []
    for population in populations:
        for model, j in product(predictions.compared, frequent):
            members, own = places.get(model) or [scored.index(model)], population.label(int(j))
            if not population.scored(members, int(j)):
                continue
            curve = curve_of_members(
                own.y_true[:, j],
                own.y_score.label(int(j)),
                members,
                n_bins=measuring.n_bins,
                per_unit=1.0 if measuring.unit == "case" else len(own.patient) / n_distinct(own.patient),
                weight=own.weight,
            )
            found.append(DrawnCurve(population.name, model, labels[int(j)], curve))
    return found
