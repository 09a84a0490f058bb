"""Every metric of every model and label on every cohort, and the macro and micro averages over labels.

The macro average is over the labels that can be averaged everywhere: at least ten patients with the label and ten
without in each cohort, and the metric defined for each model. So two cohorts, or two models, are never compared on
different labels, and a resample rarely lacks a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from palpate.audits.kit.scope import Unit
from palpate.audits.performance.plan import HeldOut
from palpate.cases.edits import Ints
from palpate.results import MACRO, MICRO, Plan, Predictions
from palpate.stats import NOISE, THRESHOLD_METRICS, CalibrationCurve, bootstrap, macro_average
from palpate.stats.bootstrap import Method
from palpate.stats.precision import n_distinct

RANKING = ("auroc", "auprc", "sensitivity_at_specificity")
PROBABILITY = ("brier", "brier_skill_score", "adaptive_calibration_error")
METRICS = (*RANKING, *PROBABILITY, *THRESHOLD_METRICS)
_MEASURED = (*METRICS, NOISE)
_MOST_WORK = 5e9
"""Resamples x cases x labels x models that averages over thousands of labels may cost: about a minute."""
_FEWEST_REPLICATES = 200
MOST_CURVES = 4
"""Labels whose curves are drawn."""


class Population(NamedTuple):
    """The cases of one cohort, and every scored model's predictions."""

    name: str
    y_true: NDArray[np.uint8]
    y_score: NDArray[np.float64]
    """[model, case, label]"""
    threshold: NDArray[np.float64]
    """[model, label]; NaN where none could be found."""
    patient: NDArray[np.int64]
    seed: int
    weight: NDArray[np.float64] | None = None
    """Sampling weights with a mean of 1; None where all cases count alike."""


def populations_of(
    plan: Plan[HeldOut], predictions: Predictions, threshold: NDArray[np.float64], rng: np.random.Generator
) -> list[Population]:
    """The held-out cases of every cohort, each with a seed for its resamples."""
    populations = []
    for name, part in plan.memory.cohorts.items():
        rows = plan.variants.parent[part]
        populations.append(
            Population(
                name=name,
                y_true=plan.cohort.y_true(rows, plan.labels),
                y_score=np.stack([answers.p[part] for answers in predictions.scored.values()]),
                threshold=threshold,
                patient=plan.cohort.patients[rows],
                seed=int(rng.integers(2**63)),
                weight=plan.cohort.weights_of(rows),
            )
        )
    return populations


@dataclass(frozen=True)
class Measuring:
    """How metrics are computed and resampled."""

    specificity: float
    n_bins: int
    unit: Unit
    n_replicates: int
    method: Method = "auto"

    def options(self, population: Population) -> dict[str, Any]:
        """What every call of `bootstrap` for a population gets, so that all share its resamples."""
        return {
            "specificity": self.specificity,
            "n_bins": self.n_bins,
            "unit": self.unit,
            "patient": population.patient,
            "rng": population.seed,
            "weight": population.weight,
            "method": self.method,
        }

    def n_replicates_of_averages(self, populations: Sequence[Population]) -> int:
        """How many resamples macro and micro averages get: all, or what thousands of labels leave time for."""
        most = int(_MOST_WORK // max(population.y_score.size for population in populations))
        affordable = min(self.n_replicates, most)
        return affordable if affordable >= _FEWEST_REPLICATES or affordable == self.n_replicates else 0


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
        [class_units(each.y_true, each.patient, measuring.unit).min(axis=0) >= FEWEST_FOR_TEST for each in populations],
        axis=0,
    )
    points = np.stack([np.concatenate([part.point for part in each], axis=2) for each in parts])
    averaged = common[order] & ~np.isnan(points).any(axis=(0, 1))
    for population, each, point in zip(populations, parts, points, strict=True):
        macro = _macro_replicates(population, each, common, averaged, measuring, n_average)
        each.append(_macro(population, models, point, averaged, macro, each, measuring.unit))
        each.append(_micro(population, models, measuring, n_average))
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
    threshold = population.threshold[:, columns]
    result = bootstrap(
        population.y_true[:, columns],
        population.y_score[:, :, columns],
        metrics=_MEASURED,
        threshold=threshold,
        n_replicates=n_replicates,
        **measuring.options(population),
    )
    return MetricReplicates(
        population=population.name,
        models=models,
        metrics=_MEASURED,
        labels=tuple(names[int(j)] for j in columns),
        point=result.point,
        values=result.values,
        n=np.full(len(columns), len(population.y_true)),
        n_positive=population.y_true[:, columns].sum(axis=0, dtype=np.int64),
        n_units=class_units(population.y_true[:, columns], population.patient, measuring.unit),
        sizes=cluster_sizes(population.y_true[:, columns], population.patient, measuring.unit, weight=population.weight)
        if n_replicates
        else None,
        weighing=weighing(population.y_true[:, columns], population.weight),
        why_no_interval=why_no_interval,
        why_undefined="no threshold or no predicted case: a denominator is 0" if np.isnan(threshold).any() else "",
    )


def _macro_replicates(
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
    if not common.any():
        return np.zeros((len(population.y_score), len(_MEASURED), 0))
    values = bootstrap(
        population.y_true[:, common],
        population.y_score[:, :, common],
        metrics=_MEASURED,
        threshold=population.threshold[:, common],
        average="macro",
        n_replicates=n_replicates,
        **measuring.options(population),
    ).values[:, :, 0]
    # A metric that some model lacks for some label would be resampled over more labels than it is averaged over.
    values[:, averaged.sum(axis=1) < common.sum()] = np.nan
    return values


def _macro(
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
        metrics=_MEASURED,
        labels=(MACRO,),
        point=macro_average(np.where(averaged, point, np.nan), axis=2)[:, :, None],
        values=values[:, :, None, :],
        n=np.asarray([len(population.y_true)]),
        n_positive=population.y_true.any(axis=1).sum(keepdims=True, dtype=np.int64),
        n_units=np.full((2, 1), FEWEST_FOR_TEST if n_labels else 0),
        sizes=np.tile(sizes[:1], (2, 1)),
        weighing=weighing(everyone, population.weight),
        why_no_interval="no interval: too many labels to resample, or a label for which a model has no answer",
        why_undefined=f"no label has {FEWEST_FOR_TEST} patients with and {FEWEST_FOR_TEST} without it in every cohort",
        over=parts[0] if resampled else None,
        kept=averaged if resampled else None,
    )


def _micro(
    population: Population, models: tuple[str, ...], measuring: Measuring, n_replicates: int
) -> MetricReplicates:
    """Micro average: all case–label pairs pooled; the pairs of a case stay together when it is resampled."""
    n, n_labels = population.y_true.shape
    weight = None if population.weight is None else np.repeat(population.weight, n_labels)
    unit = population.patient if measuring.unit == "patient" else np.arange(n)
    options = {
        **measuring.options(population),
        "unit": "patient",
        "patient": np.repeat(unit, n_labels),
        "n_replicates": n_replicates,
        "weight": weight,
    }
    y_true = population.y_true.reshape(-1, 1)
    threshold = np.nan_to_num(population.threshold, nan=np.inf)[:, None, :]
    scores = population.y_score.reshape(len(models), -1, 1)
    decisions = (population.y_score >= threshold).astype(np.float64).reshape(len(models), -1, 1)
    ranked = bootstrap(y_true, scores, metrics=(*RANKING, *PROBABILITY, NOISE), **options)
    decided = bootstrap(y_true, decisions, metrics=THRESHOLD_METRICS, threshold=0.5, **options)
    any_positive, all_positive = (end(axis=1, keepdims=True) for end in (population.y_true.max, population.y_true.min))
    return MetricReplicates(
        population=population.name,
        models=models,
        metrics=_MEASURED,
        labels=(MICRO,),
        point=_with_noise_last(ranked.point, decided.point),
        values=_with_noise_last(ranked.values, decided.values),
        n=np.asarray([y_true.size]),
        n_positive=y_true.sum(axis=0, dtype=np.int64),
        sizes=cluster_sizes(y_true, np.repeat(unit, n_labels), "patient", weight=weight),
        weighing=weighing(y_true, weight),
        n_units=np.stack(
            [class_units(any_positive, unit, "patient")[0], class_units(all_positive, unit, "patient")[1]]
        ),
        why_no_interval="no interval: too many labels and cases to resample",
    )


def _with_noise_last(ranked: NDArray[np.float64], decided: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([ranked[:, :-1], decided, ranked[:, -1:]], axis=1)


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
        constant = (population.y_score == population.y_score[:, :1]).all(axis=1)
        decided = ((population.y_score == 0) | (population.y_score == 1)).all(axis=1) & ~constant
        for m, j in np.argwhere((constant | decided) & (population.y_score.shape[1] >= FEWEST_FOR_TEST)):
            found[OddScores(models[m], labels[j], bool(constant[m, j]))] = None
    return list(found)


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
        per_unit = 1.0 if measuring.unit == "case" else len(population.patient) / n_distinct(population.patient)
        for model in predictions.compared:
            for j in frequent:
                members = places.get(model) or [scored.index(model)]
                y_true, y_score = population.y_true[:, j], population.y_score[:, :, j]
                curve = curve_of_members(
                    y_true,
                    y_score,
                    members,
                    n_bins=measuring.n_bins,
                    per_unit=per_unit,
                    weight=population.weight,
                )
                found.append(DrawnCurve(population.name, model, labels[int(j)], curve))
    return found
