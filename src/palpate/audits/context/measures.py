"""Every metric of every model and label: on all cases, in strata, by prior mention, matched, and re-weighted.

All groups share the resamples of patients, so groups are compared replicate by replicate. Matching is redone and
weights are computed anew in each resample (context paper, Sections 3.4 and 3.5). The pre-test probability is measured
as a model of its own: on matched and re-weighted cases, its AUROC shows what is left of the context.

A pre-test model that was fitted to few patients holds the history equal only in part. So it is fitted again, to
resamples of its training patients, and every number that depends on it is measured again. How far these numbers lie
from the first, squared and averaged, is added to the variance over resamples of cases: that allows for both the
variance and the bias of the fit. It is added to the replicates themselves, as a deviation with either sign, so all that
is made from them allows for it. The one threshold for all groups, which is chosen on the audited cases, is allowed for
in the same way: sensitivity is measured again at the thresholds whose specificity is a standard error lower and higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.balance import BalanceRow, balance_rows
from palpate.audits.context.cases import AuditedCases, ContextMeasuring, global_thresholds, matched_mass
from palpate.audits.context.groups import (
    CONSTANT,
    MATCHED,
    PRETEST,
    REWEIGHTED,
    WHOLE,
    CaseGroup,
    Mask,
    constant_labels,
)
from palpate.audits.context.incremental import IncrementalValue, gain_points, incremental_value, spread_refits
from palpate.audits.kit.metrics import MetricReplicates, class_units, cluster_sizes, weighing
from palpate.cases.edits import Ints
from palpate.results import MACRO, Predictions
from palpate.stats import (
    NOISE,
    bootstrap,
    context_weights,
    effective_size,
    macro_average,
    matched_bootstrap,
    reweighted_bootstrap,
    standard_error,
)
from palpate.stats.score_intervals import Weighing, student_quantile

Floats = NDArray[np.float64]
_STATISTICS = {
    "auroc": "auroc",
    "auprc": "auprc",
    "sensitivity_at_local_specificity": "sensitivity_at_specificity",
    "sensitivity_at_global_specificity": "sensitivity",
    "specificity_at_global_threshold": "specificity",
    "adaptive_calibration_error": "adaptive_calibration_error",
    "brier_skill_score": "brier_skill_score",
}
"""The metrics, and the names that `stats` has for them: here there is a local and a global threshold."""
METRICS = tuple(_STATISTICS)
FEWEST_TESTED = 30
"""Patients with, and without, a label that a test needs. At a level corrected for 13 labels and three strata, bootstrap
tests of AUROC raise false alarms 13 times too often with 10 positive patients, 3 times with 20, and hardly with 30."""
_AT_ONE_THRESHOLD = ("specificity_at_global_threshold", "sensitivity_at_global_specificity")
NO_PAIRS = "no pair of a positive and a negative within the caliper"
NO_THRESHOLD = "undefined: no global threshold"


class ContextMeasures(NamedTuple):
    """Everything that was measured."""

    parts: Mapping[str, MetricReplicates]
    """By group, with ensembles."""
    averages: Mapping[str, MetricReplicates]
    """Means over labels, by group; empty where there are too few labels."""
    history: Sequence[MetricReplicates]
    """The pre-test probability as a model of its own, and its means over labels."""
    incremental: IncrementalValue
    balance: Sequence[BalanceRow]
    reasons: Mapping[str, tuple[str | None, ...]]
    """By group, for each label: why there is nothing to measure."""


class Refit(NamedTuple):
    """The cases with the pre-test probabilities of a model that was fitted again, and their strata."""

    cases: AuditedCases
    strata: Sequence[CaseGroup]


def measure_context(
    cases: AuditedCases,
    groups: Sequence[CaseGroup],
    predictions: Predictions,
    measuring: ContextMeasuring,
    decision_thresholds: Sequence[float],
    refits: Iterable[Refit] = (),
) -> ContextMeasures:
    """Every model in every group, the history alone, what models add to it, and whether it is held equal."""
    reasons = missing_reasons(cases, groups)
    measured = _measure(cases, groups, measuring)
    found, gains = _measure_again(refits, measuring)
    parts = {
        name: (_allow_for(part, found[name]) if name in found else part).with_ensembles(predictions)
        for name, part in measured.items()
    }
    history = _measure_pretest(cases, measuring)
    return ContextMeasures(
        parts=parts,
        averages=_averages(parts),
        history=(*history.values(), *_averages(history).values()),
        incremental=incremental_value(cases, predictions, measuring, decision_thresholds, gains),
        balance=balance_rows(cases, measuring.clip, reasons[WHOLE]),
        reasons=reasons,
    )


def _measure(
    cases: AuditedCases, groups: Sequence[CaseGroup], measuring: ContextMeasuring
) -> dict[str, MetricReplicates]:
    """The metrics of every group, and those of the matched and the re-weighted cases."""
    options = {**measuring.options(cases), "metrics": (*_STATISTICS.values(), NOISE)}
    parts = {}
    for group in groups:
        found = bootstrap(cases.y_true, cases.y_score, rows=group.rows, **options)
        parts[group.name] = _part(cases, group.name, group.rows, found, measuring)
    matched, weighted = _held_equal(cases, measuring, options)
    return _with_thresholds(cases, groups, {**parts, MATCHED: matched, REWEIGHTED: weighted}, measuring)


def _with_thresholds(
    cases: AuditedCases, groups: Sequence[CaseGroup], parts: Mapping[str, MetricReplicates], measuring: ContextMeasuring
) -> dict[str, MetricReplicates]:
    """The parts, with replicates of sensitivity that allow for a threshold chosen on the audited cases."""
    at, sensitivity = (METRICS.index(name) for name in _AT_ONE_THRESHOLD)
    error = np.nan_to_num(standard_error(parts[WHOLE].values[:, at]))
    again: dict[str, list[Floats]] = {name: [] for name in parts}
    for sign in (-1.0, 1.0):
        specificity = np.clip(measuring.specificity + sign * error, 0.01, 0.999)
        threshold = global_thresholds(cases.y_true, cases.y_score, cases.known, specificity, cases.weight)
        moved = replace(cases, threshold=threshold)
        options = {**measuring.options(moved), "metrics": ("sensitivity",), "n_replicates": 0}
        values, more = (cases.y_true, cases.y_score), {**options, "rows": cases.usable}
        for group in groups:
            again[group.name].append(bootstrap(*values, rows=group.rows, **options).point)
        again[MATCHED].append(matched_bootstrap(*values, cases.p, caliper=measuring.caliper, **more).point)
        again[REWEIGHTED].append(reweighted_bootstrap(*values, cases.p, clip=measuring.clip, **more).point)
    out = {}
    for name, part in parts.items():
        resampled, own = part.values.copy(), slice(sensitivity, sensitivity + 1)
        resampled[:, own] = spread_refits(part.point[:, own], part.values[:, own], again[name]).clip(0.0, 1.0)
        out[name] = replace(part, values=resampled)
    return out


def _measure_again(
    refits: Iterable[Refit], measuring: ContextMeasuring
) -> tuple[dict[str, list[Floats]], list[Floats]]:
    """What every refit of the pre-test model makes of each group that depends on it, and of the gains."""
    found: dict[str, list[Floats]] = {}
    gains = []
    for cases, strata in refits:
        options = {**measuring.options(cases), "metrics": (*_STATISTICS.values(), NOISE), "n_replicates": 0}
        values, more = (cases.y_true, cases.y_score), {**options, "rows": cases.usable}
        points = {group.name: bootstrap(*values, rows=group.rows, **options).point for group in strata}
        points[MATCHED] = matched_bootstrap(*values, cases.p, caliper=measuring.caliper, **more).point
        points[REWEIGHTED] = reweighted_bootstrap(*values, cases.p, clip=measuring.clip, **more).point
        for name, point in points.items():
            found.setdefault(name, []).append(point)
        gains.append(gain_points(cases, measuring))
    return found, gains


def _allow_for(part: MetricReplicates, again: Sequence[Floats]) -> MetricReplicates:
    """The replicates with the deviations of the refits; metrics that are shares stay shares."""
    values = spread_refits(part.point, part.values, again)
    shares = [k for k, name in enumerate(METRICS) if name != "brier_skill_score"]
    values[:, shares] = values[:, shares].clip(0.0, 1.0)
    values[:, len(METRICS) :] = part.values[:, len(METRICS) :]
    return replace(part, values=values)


def _measure_pretest(cases: AuditedCases, measuring: ContextMeasuring) -> dict[str, MetricReplicates]:
    """The pre-test probability as a model of its own: on all cases, and its AUROC matched and re-weighted."""
    score = cases.p[None]
    alone = replace(
        cases,
        y_score=score,
        models=(PRETEST,),
        threshold=global_thresholds(cases.y_true, score, cases.known, measuring.specificity, cases.weight),
    )
    options = measuring.options(alone)
    found = bootstrap(alone.y_true, score, rows=alone.known, metrics=(*_STATISTICS.values(), NOISE), **options)
    parts = _held_equal(alone, measuring, {**options, "metrics": ("auroc",), "threshold": None})
    matched, weighted = (replace(part, metrics=("auroc",)) for part in parts)
    whole = _part(alone, WHOLE, alone.known, found, measuring)
    return {WHOLE: whole, MATCHED: matched, REWEIGHTED: weighted}


def _held_equal(
    cases: AuditedCases, measuring: ContextMeasuring, options: Mapping[str, Any]
) -> tuple[MetricReplicates, MetricReplicates]:
    """The matched and the re-weighted cases."""
    values = cases.y_true, cases.y_score, cases.p
    more = {**options, "rows": cases.usable}
    matched = matched_bootstrap(*values, caliper=measuring.caliper, **more)
    weighted = reweighted_bootstrap(*values, clip=measuring.clip, **more)
    return (
        _weighted_part(cases, MATCHED, matched_mass(cases), matched, measuring),
        _weighted_part(cases, REWEIGHTED, _weights(cases, measuring.clip), weighted, measuring),
    )


def _part(cases: AuditedCases, name: str, rows: Mask, found: Any, measuring: ContextMeasuring) -> MetricReplicates:
    return MetricReplicates(
        population=name,
        models=cases.models,
        metrics=(*METRICS, NOISE),
        labels=cases.labels,
        point=found.point,
        values=found.values,
        n=rows.sum(axis=0, dtype=np.int64),
        n_positive=(rows & (cases.y_true > 0)).sum(axis=0, dtype=np.int64),
        n_units=class_units(cases.y_true, cases.patient, measuring.resampling.unit, rows),
        sizes=cluster_sizes(cases.y_true, cases.patient, measuring.resampling.unit, rows, cases.weight),
        weighing=weighing(cases.y_true, cases.weight, rows),
        why_undefined=NO_THRESHOLD if np.isnan(cases.threshold).any() else "",
    )


def _weighted_part(
    cases: AuditedCases, name: str, weight: Floats, found: Any, measuring: ContextMeasuring
) -> MetricReplicates:
    """Units are at most the effective numbers of positives and negatives: two of a hundred may hold all the weight.

    What sampling weights leave of them is told apart from what pairs or the history leave.
    """
    part = _part(cases, name, weight > 0, found, measuring)
    sides = (cases.y_true > 0, cases.y_true == 0)
    drawn = np.ones(len(weight)) if cases.weight is None else cases.weight
    alone = cases.share if name == MATCHED else weight / drawn[:, None]
    effective = _effective(alone, sides)
    part = replace(part, n_units=np.minimum(part.n_units, effective.round().astype(np.int64)))
    if part.weighing is not None:
        every = (*sides, np.ones_like(sides[0]))
        kept = _effective(weight, every) / np.maximum(_effective(alone, every), 1e-300)
        kept = np.where(kept > 0, np.minimum(kept, 1.0), 1.0)
        prevalence = np.full(kept.shape[1], 0.5) if name == MATCHED else part.weighing.prevalence
        part = replace(part, weighing=Weighing(kept, prevalence))
    if name != MATCHED:
        return replace(part, values=_one_more(part, weight, sides, measuring.resampling.level))
    return replace(
        part,
        n=cases.share.sum(axis=0).round().astype(np.int64),
        n_positive=np.where(sides[0], cases.share, 0.0).sum(axis=0).round().astype(np.int64),
    )


def _effective(weight: Floats, groups: Sequence[Mask]) -> Floats:
    """[group, label] how many equally weighted cases of each group would say as much."""
    sizes = [[effective_size(each[rows]) for each, rows in zip(weight.T, group.T, strict=True)] for group in groups]
    return np.asarray(np.nan_to_num(np.asarray(sizes, np.float64)))


def _one_more(part: MetricReplicates, weight: Floats, sides: tuple[Mask, Mask], level: float) -> Floats:
    """Replicates that allow for one more case as heavy as the heaviest of its class, and a complete miss.

    Resamples of the cases at hand know nothing of it, and under weights it may move a number further than they do.
    """
    classes = [np.where(side, weight, 0.0) for side in sides]
    heaviest = np.max([each.max(axis=0) / np.maximum(each.sum(axis=0), 1e-300) for each in classes], axis=0)
    moved = part.point * (1.0 - heaviest / student_quantile(np.inf, level))
    values = spread_refits(part.point, part.values, [moved])
    values[:, len(METRICS) :] = part.values[:, len(METRICS) :]
    return values


def _weights(cases: AuditedCases, clip: tuple[float, float]) -> Floats:
    """[case, label] sampling weights times those that make label and history independent; 0 where there are none."""
    out: Floats = np.zeros(cases.p.shape)
    for j in range(out.shape[1]):
        rows = cases.usable[:, j]
        drawn = None if cases.weight is None else cases.weight[rows]
        out[rows, j] = context_weights(cases.p[rows, j], cases.y_true[rows, j], clip=clip, weight=drawn).weight
    return out


def missing_reasons(cases: AuditedCases, groups: Sequence[CaseGroup]) -> dict[str, tuple[str | None, ...]]:
    """By group, for each label: why there is nothing to measure, where more is known than that no case is in it."""
    same = constant_labels(cases.p, cases.known)
    why = tuple(CONSTANT if same[j] else reason for j, reason in enumerate(groups[0].reason))
    one_class = [_one_class(cases.y_true[cases.known[:, j], j]) for j in range(len(cases.labels))]
    paired = tuple(reason or missing or NO_PAIRS for reason, missing in zip(why, one_class, strict=True))
    return {group.name: group.reason for group in groups} | {MATCHED: paired, REWEIGHTED: why}


def _one_class(y_true: NDArray[np.uint8]) -> str | None:
    if not y_true.any():
        return "no positive case"
    return "no negative case" if y_true.all() else None


def _averages(parts: Mapping[str, MetricReplicates]) -> dict[str, MetricReplicates]:
    """The mean over labels on all, matched and re-weighted cases, over labels with enough patients in all three."""
    chosen = [parts[name] for name in (WHOLE, MATCHED, REWEIGHTED)]
    if len(chosen[0].labels) == 1:
        return {}
    enough = np.all([part.counts.units.min(axis=0) >= FEWEST_TESTED for part in chosen], axis=0)
    defined = np.all([~np.isnan(part.point).any(axis=(0, 1)) for part in chosen], axis=0)
    kept = np.flatnonzero(enough & defined)
    return {part.population: _macro(part, kept) for part in chosen} if len(kept) >= 2 else {}


def _macro(part: MetricReplicates, kept: Ints) -> MetricReplicates:
    return MetricReplicates(
        population=part.population,
        models=part.models,
        metrics=part.metrics,
        labels=(MACRO,),
        point=macro_average(part.point[:, :, kept], axis=2)[:, :, None],
        values=macro_average(part.values[:, :, kept], axis=2)[:, :, None, :],
        # Case–label pairs are counted, not cases.
        n=part.n[kept].sum(keepdims=True),
        n_positive=part.n_positive[kept].sum(keepdims=True),
        n_units=np.floor(part.counts.units[:, kept]).astype(np.int64).min(axis=1, keepdims=True),
        averaged=tuple(part.labels[int(j)] for j in kept),
    )
