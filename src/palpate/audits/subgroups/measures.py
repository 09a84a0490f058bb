"""Every metric of every model in every group, for one label, on the data and on the same resamples of patients.

All groups, and what each is compared with, are columns of one bootstrap: a resample is drawn once, and differences of
groups are taken replicate by replicate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    with_derived,
)
from palpate.audits.kit.missing import Gaps
from palpate.audits.kit.scope import Unit
from palpate.audits.kit.wording import counted
from palpate.audits.subgroups.plan import Partition
from palpate.results import Plan, Predictions
from palpate.stats import NOISE, CalibrationCurve, bootstrap
from palpate.stats.bootstrap import Replicates
from palpate.stats.precision import Weighing, n_distinct

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
RANKING = ("auroc", "auprc")
DECISIONS = ("sensitivity", "specificity", "ppv", "npv", "flag_rate")
RISKS = ("brier", "oe_ratio", "calibration_in_the_large", "adaptive_calibration_error", "prevalence", "mean_score")
METRICS = (*RANKING, *DECISIONS, *RISKS)
_DERIVED = ("flag_rate", "oe_ratio", "calibration_in_the_large")
_RESAMPLED = (*(name for name in METRICS if name not in _DERIVED), NOISE)
_NOT_COMPARED = ("adaptive_calibration_error", NOISE)
WHOLE, REST = "all", "all others"
FEWEST_PATIENTS, FEWEST_EVENTS = 10, 5
_MOST_LINES, _MOST_MODELS, _BINS = 6, 2, 5
"""Of calibration charts: groups in one, models, and bins of a group."""


class Resampled(NamedTuple):
    """How metrics are computed and resampled."""

    unit: Unit
    n_bins: int
    n_replicates: int
    seed: int
    """One for all groups, so that they share their resamples."""


class Cases(NamedTuple):
    """The audited cases and every scored model's predictions."""

    y_true: NDArray[np.uint8]
    """[case, label]"""
    y_score: Floats
    """[model, case, label]"""
    threshold: Floats
    """[model, label]; NaN where none could be found."""
    patient: NDArray[np.int64]
    how: Resampled
    weight: Floats | None = None
    """Sampling weights with a mean of 1; None where all cases count alike."""
    gaps: Gaps | None = None
    """Which cases count for which label, where scores are missing; None where all do."""

    @property
    def known(self) -> Mask | None:
        """Which cases count for which label, [case, label]; None where all do."""
        return None if self.gaps is None else self.gaps.known

    @classmethod
    def of(
        cls,
        plan: Plan[Any],
        predictions: Predictions,
        part: slice,
        threshold: Floats,
        how: Resampled,
        gaps: Gaps | None = None,
    ) -> Cases:
        """The audited cases of a plan."""
        rows = plan.variants.parent[part]
        y_score = np.stack([answers.p[part] for answers in predictions.scored.values()])
        cohort = plan.cohort
        return cls(
            cohort.y_true(rows, plan.labels),
            y_score,
            threshold,
            cohort.patients[rows],
            how,
            cohort.weights_of(rows),
            None if gaps is None else gaps.at(part),
        )


class Contrast(NamedTuple):
    """A group, and what it is compared with."""

    partition: Partition
    group: str
    reference: str
    """Another group's name, or `REST`."""
    against: int
    """The column of what it is compared with."""
    column: int


class Columns(NamedTuple):
    """The groups of cases that are measured: all cases first, then each group, then what it is compared with."""

    masks: Mask
    """[case, column]"""
    groups: Mapping[str, int]
    """The column of each group."""
    contrasts: tuple[Contrast, ...]

    @classmethod
    def of(cls, partitions: Sequence[Partition], n: int) -> Columns:
        """Cases that are the same are measured once: of two groups, each is the rest of the other."""
        masks: list[Mask] = []
        known: dict[bytes, int] = {}

        def place(mask: Mask) -> int:
            key = np.packbits(mask).tobytes()
            if key not in known:
                known[key] = len(masks)
                masks.append(mask)
            return known[key]

        place(np.ones(n, bool))
        groups = {name: place(partition.rows(k)) for partition in partitions for k, name in enumerate(partition.groups)}
        contrasts = []
        for partition in partitions:
            for k, name in enumerate(partition.groups):
                if name == partition.reference or len(partition.groups) == 1:
                    continue
                reference = partition.reference or REST
                against = groups.get(reference)
                against = place(~partition.rows(k)) if against is None else against
                contrasts.append(Contrast(partition, name, reference, against, groups[name]))
        return cls(np.stack(masks, axis=1), groups, tuple(contrasts))


@dataclass(frozen=True, eq=False)
class GroupMeasures:
    """What was measured for one label."""

    label: str
    columns: Columns
    parts: Sequence[MetricReplicates]
    """One for each column."""
    n_patients: NDArray[np.int64]
    """In each column."""
    risks: Sequence[MetricReplicates | None] = ()
    """The core set for predicted risks of each column, where it was measured."""

    def lacking(self, column: int) -> str | None:
        """Why nothing can be said about some cases; None if there are enough."""
        part = self.parts[column]
        n, positive = int(part.n[0]), int(part.n_positive[0])
        patients = int(self.n_patients[column])
        if patients < FEWEST_PATIENTS:
            return f"not enough: {counted(patients, 'patient')}, at least {FEWEST_PATIENTS} are needed"
        for count, which in ((positive, "with"), (n - positive, "without")):
            if count < FEWEST_EVENTS:
                return (
                    f"not enough: {counted(count, 'case')} {which} '{self.label}', at least {FEWEST_EVENTS} are needed"
                )
        return None

    def called(self, column: int, name: str) -> MetricReplicates:
        """The metrics of a column by a group's name; several groups may hold the same cases."""
        part = self.parts[column]
        return part if part.population == name else replace(part, population=name)

    def part(self, group: str) -> MetricReplicates:
        """The metrics of a group."""
        return self.parts[self.columns.groups[group]]

    def enough(self, partition: Partition) -> list[str]:
        """The groups about which something can be said."""
        return [name for name in partition.groups if self.lacking(self.columns.groups[name]) is None]


def measure_groups(
    cases: Cases, columns: Columns, labels: Sequence[str], predictions: Predictions
) -> Iterator[GroupMeasures]:
    """Label by label, so that the replicates of one label only are in memory."""
    every, n_patients = columns, _patients(cases, columns.masks)
    names: dict[int, str] = {column: name for name, column in reversed(list(columns.groups.items()))}
    for j, label in enumerate(labels):
        if cases.gaps is not None:
            columns = every._replace(masks=every.masks & cases.gaps.known[:, j, None])
            n_patients = _patients(cases, columns.masks)
        found = _measure(cases, columns, j)
        parts = [
            MetricReplicates(
                population=WHOLE if k == 0 else names.get(k, REST),
                models=tuple(predictions.scored),
                metrics=(*METRICS, NOISE),
                labels=(label,),
                point=found.point[:, :, k : k + 1],
                values=found.values[:, :, k : k + 1],
                n=found.n[k : k + 1],
                n_positive=found.n_positive[k : k + 1],
                n_units=found.n_units[:, k : k + 1],
                sizes=found.sizes[:, k : k + 1],
                weighing=None if found.weighing is None else found.weighing.column(k),
                why_undefined="no threshold or no predicted case: a denominator is 0",
                unscored=None if cases.gaps is None else cases.gaps.unscored[:, [j]],
            ).with_ensembles(predictions)
            for k in range(columns.masks.shape[1])
        ]
        yield GroupMeasures(label, columns, parts, n_patients)


class _Measured(NamedTuple):
    point: Floats
    values: Floats
    n: NDArray[np.int64]
    n_positive: NDArray[np.int64]
    n_units: NDArray[np.int64]
    sizes: Floats
    weighing: Weighing | None


def _measure(cases: Cases, columns: Columns, label: int) -> _Measured:
    """All groups with every metric, and what they are compared with without the costly ones that are not compared."""
    masks = columns.masks
    groups = np.isin(np.arange(masks.shape[1]), [0, *columns.groups.values()])
    shape = (len(cases.y_score), len(_RESAMPLED), masks.shape[1])
    point, values = np.full(shape, np.nan), np.full((*shape, cases.how.n_replicates), np.nan)
    compared = tuple(name for name in _RESAMPLED if name not in _NOT_COMPARED)
    for chosen, metrics in ((groups, _RESAMPLED), (~groups, compared)):
        if chosen.any():
            found = resample_groups(cases, masks[:, chosen], label, metrics)
            for k, name in enumerate(metrics):
                point[:, _RESAMPLED.index(name), chosen] = found.point[:, k]
                values[:, _RESAMPLED.index(name), chosen] = found.values[:, k]
    if cases.gaps is not None:
        gone = cases.gaps.unscored[:, label]
        point[gone], values[gone] = np.nan, np.nan
    y_true = np.broadcast_to(cases.y_true[:, label, None], masks.shape)
    return _Measured(
        with_derived(point, _RESAMPLED, (*METRICS, NOISE)),
        with_derived(values, _RESAMPLED, (*METRICS, NOISE)),
        masks.sum(axis=0, dtype=np.int64),
        (masks & (y_true > 0)).sum(axis=0, dtype=np.int64),
        class_units(y_true, cases.patient, cases.how.unit, masks),
        cluster_sizes(y_true, cases.patient, cases.how.unit, masks, cases.weight),
        weighing(y_true, cases.weight, masks),
    )


def resample_groups(cases: Cases, masks: Mask, label: int, metrics: Sequence[str]) -> Replicates:
    """One bootstrap in which groups of cases, [case, group], take the place of labels."""
    models, shape = len(cases.y_score), masks.shape
    return bootstrap(
        np.broadcast_to(cases.y_true[:, label, None], shape),
        np.broadcast_to(cases.y_score[:, :, label, None], (models, *shape)),
        metrics=metrics,
        threshold=np.broadcast_to(cases.threshold[:, label, None], (models, shape[1])),
        unit=cases.how.unit,
        patient=cases.patient,
        rows=masks,
        weight=cases.weight,
        n_bins=cases.how.n_bins,
        n_replicates=cases.how.n_replicates,
        rng=cases.how.seed,
        method="auto",
    )


def _patients(cases: Cases, masks: Mask) -> NDArray[np.int64]:
    return np.asarray([n_distinct(cases.patient[mask]) for mask in masks.T], np.int64)


def unscored_labels(cases: Cases, predictions: Predictions, labels: Sequence[str]) -> dict[tuple[str, str], str]:
    """(model, label) where a model has no score, and how that is said."""
    if cases.gaps is None:
        return {}
    places, scored = member_places(predictions), list(predictions.scored)
    return {
        (model, label): f"{model} has no score for '{label}'"
        for model in predictions.compared
        for j, label in enumerate(labels)
        if cases.gaps.unscored[places.get(model) or [scored.index(model)], j].any()
    }


class GroupCurve(NamedTuple):
    """The calibration of one model in one group."""

    partition: str
    group: str
    model: str
    curve: CalibrationCurve


def group_curves(
    cases: Cases, partitions: Sequence[Partition], predictions: Predictions, few: Collection[str]
) -> list[GroupCurve]:
    """For the first label, of partitions whose groups can be told apart in one chart; `few` are left out."""
    places, scored = member_places(predictions), list(predictions.scored)
    found = []
    for partition in partitions:
        drawn = [group for group in partition.groups if group not in few]
        for group in drawn if len(drawn) <= _MOST_LINES else []:
            rows = partition.rows(partition.groups.index(group))
            rows = rows if cases.gaps is None else rows & cases.gaps.known[:, 0]
            patients = n_distinct(cases.patient[rows])
            per_unit = 1.0 if cases.how.unit == "case" else float(rows.sum()) / patients
            for model in predictions.compared[:_MOST_MODELS]:
                members = places.get(model) or [scored.index(model)]
                if cases.gaps is not None and cases.gaps.unscored[members, 0].any():
                    continue
                y_true, y_score = cases.y_true[rows, 0], cases.y_score[:, rows, 0]
                weight = None if cases.weight is None else cases.weight[rows]
                curve = curve_of_members(y_true, y_score, members, n_bins=_BINS, per_unit=per_unit, weight=weight)
                found.append(GroupCurve(partition.name, group, model, curve))
    return found
