"""The core set for predicted risks on every cohort, and the curves that are drawn of it.

Calibration intercept and slope, O:E, distances from a smooth calibration curve, net benefit (Van Calster and colleagues
2025). Only labels with intervals have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import MetricReplicates, class_units, member_places
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.risks import (
    BenefitRange,
    CaseRisks,
    RiskReplicates,
    joined_labels,
    measure_risks,
    risk_average,
)
from palpate.audits.performance.measures import MOST_CURVES, Labels, MeasuredAll, most_frequent
from palpate.audits.performance.populations import Measuring, Population
from palpate.cases.edits import Ints
from palpate.results import Predictions
from palpate.stats.risks import rarer_units, unit_codes
from palpate.stats.risks.net_benefit import Band, BenefitCurves, benefit_curves
from palpate.stats.risks.smooth import RiskDistribution, curve_band, curve_influences, fit_curve, risk_distribution
from palpate.stats.score_intervals import student_quantile

_POINTS, _BINS = 50, 20
_DRAWN = (0.01, 0.99)
"""Which quantiles of the risks a smooth curve is drawn between: beyond, a handful of cases make it."""


def measure_core(
    populations: Sequence[Population],
    labels: Labels,
    predictions: Predictions,
    measuring: Measuring,
    benefit: BenefitRange,
) -> list[list[RiskReplicates]]:
    """For each population its labels and, of several, their mean; in the same order for all."""
    names, models = [labels.names[int(j)] for j in labels.frequent], tuple(predictions.scored)
    parts = [_core_of(population, labels.frequent, names, models, measuring, benefit) for population in populations]
    if len(labels.names) == 1:
        return [[part] for part in parts]
    common = np.all(
        [
            class_units(each.y_true[:, labels.frequent], each.patient, measuring.unit, each.rows(labels.frequent)).min(
                axis=0
            )
            >= FEWEST_FOR_TEST
            for each in populations
        ],
        axis=0,
    )
    kept = common & ~np.isnan(np.stack([part.point for part in parts])).any(axis=(0, 1))
    why = "not averaged: over labels, errors would cancel out, or a model has no answer for one of them"
    if len(labels.rest):
        kept[:] = False
        why = f"not averaged: only the {len(labels.frequent)} most frequent labels have it"
    return [
        [part, risk_average(part, kept, why, int(each.any_positive.sum()))]
        for part, each in zip(parts, populations, strict=True)
    ]


def with_core(
    found: MeasuredAll,
    populations: Sequence[Population],
    labels: Labels,
    predictions: Predictions,
    measuring: Measuring,
    benefit: BenefitRange,
) -> list[list[MetricReplicates]]:
    """For each population what was found, then its core set; with ensembles as further models."""
    both = zip(found.parts, measure_core(populations, labels, predictions, measuring, benefit), strict=True)
    return [[part.with_ensembles(predictions) for part in (*parts, *risks)] for parts, risks in both]


def _core_of(
    population: Population,
    columns: Ints,
    names: Sequence[str],
    models: tuple[str, ...],
    measuring: Measuring,
    benefit: BenefitRange,
) -> RiskReplicates:
    """The core set of some labels; where scores are missing, label by label, each of its own cases.

    A case that does not count for a label weighs nothing there, so that patients move all labels together.
    """
    n_replicates = measuring.n_replicates
    if population.gaps is None:
        return measure_risks(_cases(population, columns, measuring), models, names, benefit, n_replicates)
    parts = []
    for j, name in zip(columns, names, strict=True):
        one, known = np.asarray([j]), population.gaps.known[:, j]
        weight = known.astype(np.float64) if population.weight is None else population.weight * known
        nobody = not (weight > 0).any()
        cases = _cases(population._replace(weight=None if nobody else weight), one, measuring)
        part = measure_risks(cases, models, (name,), benefit, n_replicates)
        point, values = (
            np.full(each.shape, np.nan) if nobody else population.undefined(each, one)
            for each in (part.point, part.values)
        )
        counts = _cases(population.label(int(j)), one, measuring).counts
        parts.append(replace(part, point=point, values=values, unscored=population.gaps.unscored[:, one], **counts))
    return joined_labels(parts)


def _cases(population: Population, columns: Ints, measuring: Measuring) -> CaseRisks:
    return CaseRisks(
        population.name,
        population.y_true[:, columns],
        population.y_score.of(columns),
        population.threshold[:, columns],
        population.patient,
        population.seed,
        measuring.unit,
        population.weight,
    )


class SmoothLine(NamedTuple):
    """A smooth calibration curve with its band; nan where there is none."""

    risk: NDArray[np.float64]
    observed: Band


class DrawnRisks(NamedTuple):
    """The risks of one model for one label: where they come true, and who has which."""

    population: str
    model: str
    label: str
    line: SmoothLine
    distribution: RiskDistribution


class DrawnBenefit(NamedTuple):
    """Net benefit of all models for one label; acting on all is the last curve."""

    population: str
    label: str
    curves: BenefitCurves


class CoreCurves(NamedTuple):
    """What is drawn, for the most frequent labels."""

    risks: Sequence[DrawnRisks] = ()
    benefit: Sequence[DrawnBenefit] = ()


def core_curves(
    populations: Sequence[Population],
    predictions: Predictions,
    labels: Sequence[str],
    measuring: Measuring,
    benefit: BenefitRange,
    level: float,
) -> CoreCurves:
    """Smooth calibration, distribution of risks and net benefit of every model that is compared."""
    places, scored = member_places(predictions), list(predictions.scored)
    members = [places.get(model) or [scored.index(model)] for model in predictions.compared]
    risks, worth = [], []
    for population in populations:
        for j in (int(j) for j in most_frequent(populations[0].y_true, MOST_CURVES)):
            used = population.label(j)
            y_true, y_score = used.y_true[:, j], used.y_score.label(j)
            if not population.scored(range(len(scored)), j):  # curves of some models alone would be misread
                continue
            for model, own in zip(predictions.compared, members, strict=True):
                line = _line(used, y_true, y_score[own], measuring, level)
                spread = risk_distribution(y_true, y_score[own].mean(axis=0), n_bins=_BINS, weight=used.weight)
                risks.append(DrawnRisks(population.name, model, labels[j], line, spread))
            curves = benefit_curves(
                y_true,
                y_score,
                thresholds=np.linspace(*benefit, _POINTS),
                patient=used.patient,
                members=members,
                unit=measuring.unit,
                weight=used.weight,
                level=level,
            )
            worth.append(DrawnBenefit(population.name, labels[j], curves))
    return CoreCurves(risks, worth)


def _line(
    population: Population,
    y_true: NDArray[np.uint8],
    y_score: NDArray[np.float64],
    measuring: Measuring,
    level: float,
) -> SmoothLine:
    """The mean curve of a model's members, [member, case], in the widest of their bands."""
    y, patient = y_true.astype(np.float64), population.patient
    weight = np.ones(len(y)) if population.weight is None else population.weight
    unit, n_units = unit_codes(patient, measuring.unit, len(y), np.random.default_rng(0))
    rarer = int(rarer_units(y_true[:, None] > 0, patient, measuring.unit, weight)[0])
    low, high = (float(end) for end in np.quantile(y_score, _DRAWN))
    grid = np.linspace(low, high, _POINTS)
    found = []
    for risk in y_score:
        curve = fit_curve(y, risk, weight, rarer)
        if not curve.fit.known:
            return SmoothLine(grid, Band(*[np.full(_POINTS, np.nan)] * 3))
        influence = curve_influences(curve, y, weight, unit, n_units)
        band = curve_band(curve, influence, grid, float(student_quantile(max(rarer - 1, 1), level)))
        found.append(Band(curve.at(grid), *band))
    value, below, above = (np.stack(each) for each in zip(*found, strict=True))
    return SmoothLine(grid, Band(value.mean(axis=0), below.min(axis=0), above.max(axis=0)))


def useful_range(drawn: DrawnBenefit, model: int) -> tuple[float, float] | None:
    """The longest range of thresholds at which acting on a model is shown to be worth more than on all and on none."""
    curves = drawn.curves
    better = (curves.benefit.low[model] > 0) & (curves.over_all.low[model] > 0)
    best: tuple[int, int] | None = None
    start = None
    for k, shown in enumerate([*better.tolist(), False]):
        if shown and start is None:
            start = k
        elif not shown and start is not None:
            if best is None or k - 1 - start > best[1] - best[0]:
                best = (start, k - 1)
            start = None
    return None if best is None else (float(curves.thresholds[best[0]]), float(curves.thresholds[best[1]]))
