"""Every metric of every model in every period, for one label, on the data and on the same resamples of patients.

Periods, and the pooled ones at both ends, are columns of one bootstrap: a resample is drawn once, so that patients who
are seen in several periods count in their differences. The change-point test and the trends have their own arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.drift.plan import FIRST, LATEST, WHOLE, DriftPlan, Periods
from palpate.audits.kit.metrics import (
    MetricReplicates,
    class_units,
    cluster_sizes,
    member_places,
    weighing,
    with_derived,
)
from palpate.audits.kit.scope import Unit
from palpate.audits.kit.wording import counted
from palpate.cases.edits import Ints
from palpate.results import Plan, Predictions
from palpate.stats import bootstrap
from palpate.stats.changes import Excesses, auroc_excesses, ratio_excesses

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
PERFORMANCE = ("auroc", "sensitivity", "specificity", "ppv", "calibration_in_the_large", "oe_ratio", "brier")
POPULATION = ("flag_rate", "prevalence", "mean_score")
METRICS = (*PERFORMANCE, *POPULATION)
TESTED = ("auroc", "sensitivity", "ppv", "calibration_in_the_large", *POPULATION)
"""Metrics whose changes and trends are tested; the others follow from them."""
_RESAMPLED = ("auroc", "sensitivity", "specificity", "ppv", "brier", "prevalence", "mean_score")
FEWEST_PATIENTS, FEWEST_EVENTS = 10, 5


class TimedCases(NamedTuple):
    """The audited cases, and every scored model's predictions."""

    y_true: NDArray[np.uint8]
    """[case, label]"""
    y_score: Floats
    """[model, case, label]"""
    threshold: Floats
    """[model, label]; nan where none could be found."""
    patient: NDArray[np.int64]
    weight: Floats | None = None

    @classmethod
    def of(cls, plan: Plan[DriftPlan], predictions: Predictions, threshold: Floats) -> TimedCases:
        """The audited cases of a plan."""
        main = plan.memory.main
        rows = plan.variants.parent[main]
        y_score = np.stack([answers.p[main] for answers in predictions.scored.values()])
        weight = plan.cohort.weights_of(rows)
        return cls(plan.cohort.y_true(rows, plan.labels), y_score, threshold, plan.cohort.patients[rows], weight)


class PeriodSampling(NamedTuple):
    """How metrics are resampled."""

    unit: Unit
    n_replicates: int
    seed: int


@dataclass(frozen=True, eq=False)
class PeriodMeasures:
    """What was measured for one label."""

    label: str
    parts: Mapping[str, MetricReplicates]
    """By period; and of all cases, of the first periods together and of the latest."""
    n_patients: Mapping[str, int]

    def lacking(self, name: str) -> str | None:
        """Why nothing can be said about a period; None if there are enough cases."""
        part, patients = self.parts[name], self.n_patients[name]
        n, positive = int(part.n[0]), int(part.n_positive[0])
        if patients < FEWEST_PATIENTS:
            return f"not enough: {counted(patients, 'patient')}, at least {FEWEST_PATIENTS} are needed"
        for count, which in ((positive, "with"), (n - positive, "without")):
            if count < FEWEST_EVENTS:
                return (
                    f"not enough: {counted(count, 'case')} {which} '{self.label}', at least {FEWEST_EVENTS} are needed"
                )
        return None


def period_masks(periods: Periods) -> dict[str, Mask]:
    """The cases of all periods, of those at both ends, and of each."""
    n = len(periods.names)
    return {
        WHOLE: np.ones(len(periods.code), bool),
        FIRST: periods.code < periods.n_compared,
        LATEST: periods.code >= n - periods.n_compared,
        **{name: periods.code == k for k, name in enumerate(periods.names)},
    }


def measure_periods(
    cases: TimedCases, periods: Periods, labels: Sequence[str], predictions: Predictions, how: PeriodSampling
) -> Iterator[PeriodMeasures]:
    """Label by label, so that the replicates of one label only are in memory."""
    named = period_masks(periods)
    masks = np.stack(list(named.values()), axis=1)
    n_patients = {name: len(np.unique(cases.patient[mask])) for name, mask in named.items()}
    filled = np.asarray(masks.any(axis=0))
    for j, label in enumerate(labels):
        y_true = np.broadcast_to(cases.y_true[:, j, None], masks.shape)
        point, values = _resampled(cases, masks, filled, j, how)
        n_units = class_units(y_true, cases.patient, how.unit, masks)
        sizes = cluster_sizes(y_true, cases.patient, how.unit, masks, cases.weight)
        weighed = weighing(y_true, cases.weight, masks)
        n_positive = (masks & (y_true > 0)).sum(axis=0, dtype=np.int64)
        parts = {
            name: MetricReplicates(
                population=name,
                models=tuple(predictions.scored),
                metrics=METRICS,
                labels=(label,),
                point=point[:, :, k : k + 1],
                values=values[:, :, k : k + 1],
                n=masks[:, k : k + 1].sum(axis=0, dtype=np.int64),
                n_positive=n_positive[k : k + 1],
                n_units=n_units[:, k : k + 1],
                sizes=sizes[:, k : k + 1],
                weighing=None if weighed is None else weighed.column(k),
                why_undefined="no threshold, or nobody on one side of it: a denominator is 0",
            ).with_ensembles(predictions)
            for k, name in enumerate(named)
        }
        yield PeriodMeasures(label, parts, n_patients)


def _resampled(cases: TimedCases, masks: Mask, filled: Mask, label: int, how: PeriodSampling) -> tuple[Floats, Floats]:
    """Point [model, metric, period] and values with the replicates last; nan in a period without a case."""
    chosen, models = masks[:, filled], len(cases.y_score)
    found = bootstrap(
        np.broadcast_to(cases.y_true[:, label, None], chosen.shape),
        np.broadcast_to(cases.y_score[:, :, label, None], (models, *chosen.shape)),
        metrics=_RESAMPLED,
        threshold=np.broadcast_to(cases.threshold[:, label, None], (models, chosen.shape[1])),
        unit=how.unit,
        patient=cases.patient,
        rows=chosen,
        weight=cases.weight,
        n_replicates=how.n_replicates,
        rng=how.seed,
        method="auto",
    )
    shape = (models, len(METRICS), masks.shape[1])
    point, values = np.full(shape, np.nan), np.full((*shape, how.n_replicates), np.nan)
    point[:, :, filled], values[:, :, filled] = (
        with_derived(each, _RESAMPLED, METRICS) for each in (found.point, found.values)
    )
    return point, values


class Series(NamedTuple):
    """A metric of one model and label over time."""

    model: str
    label: str
    metric: str
    excesses: Excesses
    n: int
    """How many cases it is about."""


def all_series(cases: TimedCases, periods: Periods, labels: Sequence[str], predictions: Predictions) -> list[Series]:
    """Everything that is tested: of every model that is compared; an ensemble's is the mean of its members'."""
    places, scored = member_places(predictions), list(predictions.scored)
    found = []
    for j, label in enumerate(labels):
        for model in predictions.compared:
            members = places.get(model) or [scored.index(model)]
            each = [_excesses(cases, periods, m, j) for m in members]
            for metric in TESTED:
                found.append(Series(model, label, metric, _mean([one[metric] for one in each]), len(cases.patient)))
    return found


def placed_series(series: Sequence[Series], at: Ints, n: int) -> list[Series]:
    """Series of some cases as series of `n` cases, of which the others do not count; `at` is where they are."""
    if len(at) == n:
        return list(series)

    def placed(values: NDArray[Any]) -> NDArray[Any]:
        out = np.zeros(n, values.dtype)
        out[at] = values
        return out

    return [
        each._replace(
            excesses=each.excesses._replace(
                excess=placed(each.excesses.excess),
                size=placed(each.excesses.size),
                counted=tuple(placed(rows) for rows in each.excesses.counted),
            ),
            n=len(at),
        )
        for each in series
    ]


def _excesses(cases: TimedCases, periods: Periods, model: int, label: int) -> dict[str, Excesses]:
    y, p, weight = cases.y_true[:, label], cases.y_score[model, :, label], cases.weight
    positive, everyone = y.astype(np.float64), np.ones(len(y))
    threshold = float(cases.threshold[model, label])
    flagged = (p >= threshold).astype(np.float64) if threshold == threshold else np.full(len(p), np.nan)
    return {
        "auroc": auroc_excesses(y, p, periods.code, weight),
        "sensitivity": ratio_excesses(positive * flagged, positive, weight),
        "ppv": ratio_excesses(positive * flagged, flagged, weight),
        "calibration_in_the_large": ratio_excesses(positive - p, everyone, weight),
        "flag_rate": ratio_excesses(flagged, everyone, weight),
        "prevalence": ratio_excesses(positive, everyone, weight),
        "mean_score": ratio_excesses(p, everyone, weight),
    }


def _mean(members: Sequence[Excesses]) -> Excesses:
    """Of several seeds: the mean of their excesses, each over its own size."""
    if len(members) == 1:
        return members[0]
    first = members[0]
    scales = [first.size.sum() / each.size.sum() if each.size.sum() else np.nan for each in members]
    excess = np.mean([scale * each.excess for scale, each in zip(scales, members, strict=True)], axis=0)
    size = np.mean([scale * each.size for scale, each in zip(scales, members, strict=True)], axis=0)
    together = tuple(np.logical_or.reduce(sets) for sets in zip(*(each.counted for each in members), strict=True))
    return first._replace(excess=excess, size=size, counted=together)
