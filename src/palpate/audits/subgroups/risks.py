"""The core set for predicted risks in every group: calibration intercept and slope, distances, and net benefit.

O:E and observed less predicted are among the other metrics, which are resampled. Here each group is measured by itself
(`kit.risks`): models are paired on the same patients, and groups are independent, which makes the interval of a
difference a little too wide where patients have cases in both. A group is compared with its reference or with all
others; to fit these again for every group costs as much as all groups together, many times over, so beyond `_MOST_WORK`
it is left out, and O:E and observed less predicted say the same of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from palpate.audits.kit.differences import model_differences, population_differences
from palpate.audits.kit.metrics import MetricReplicates, level_rows
from palpate.audits.kit.risks import risks_of_part
from palpate.audits.kit.rows import RowWriter
from palpate.audits.subgroups.measures import WHOLE, Cases, Contrast, GroupMeasures, Mask
from palpate.results import Estimate, Predictions

RISKS_COMPARED = ("calibration_intercept", "calibration_slope", "net_benefit")
RISK_METRICS = (*RISKS_COMPARED, "ici", "e50", "e90", "emax")
"""The distances are not compared: by chance alone, those from a smooth curve are larger in the smaller group."""
NO_WEIGHT = "no case has a weight above 0"
_MOST_WORK = 4_000_000
"""Cases x comparisons, up to which the others of each group are fitted as well."""


def with_risks(measured: Iterable[GroupMeasures], cases: Cases, predictions: Predictions) -> Iterator[GroupMeasures]:
    """What was measured, with the core set of all cases and of the groups that have enough of them."""
    for j, found in enumerate(measured):
        parts: list[MetricReplicates | None] = [None] * found.columns.masks.shape[1]
        contrasts = found.columns.contrasts
        rest = {f"not {each.group}": each.against for each in contrasts} if _affordable(cases, contrasts) else {}
        for name, k in {**rest, **found.columns.groups, WHOLE: 0}.items():
            if found.lacking(k) is None and _weighs(cases, found.columns.masks[:, k]):
                parts[k] = column_risks(cases, found, j, k, name, predictions)
        yield replace(found, risks=parts)


def _affordable(cases: Cases, contrasts: Sequence[Contrast]) -> bool:
    return len(cases.patient) * len(contrasts) <= _MOST_WORK


def _weighs(cases: Cases, mask: Mask) -> bool:
    return cases.weight is None or bool((cases.weight[mask] > 0).any())


def column_risks(
    cases: Cases, found: GroupMeasures, label: int, column: int, name: str, predictions: Predictions
) -> MetricReplicates:
    """The core set of one column of cases."""
    return risks_of_part(
        cases,
        np.flatnonzero(found.columns.masks[:, column]),
        (label, found.label),
        predictions,
        name=name,
        unit=cases.how.unit,
        seed=cases.how.seed + column,  # one stream for each: other patients must not move together
        n_replicates=cases.how.n_replicates,
    )


def risk_levels(writer: RowWriter, found: GroupMeasures, column: int, name: str) -> Iterator[Estimate]:
    """The core set of one group; nothing where it was not measured."""
    part = found.risks[column] if found.risks else None
    if part is not None:
        yield from _chosen(level_rows(writer, replace(part, population=name)), RISK_METRICS)
    elif found.risks:
        n, positive = int(found.parts[column].n[0]), int(found.parts[column].n_positive[0])
        for model in found.parts[column].models:
            for metric in RISK_METRICS:
                yield writer.row(model, metric, found.label, name, None, n=n, n_positive=positive, reason=NO_WEIGHT)


def risk_differences(
    writer: RowWriter, found: GroupMeasures, contrast: Contrast, models: Sequence[str]
) -> Iterator[Estimate]:
    """A group less what it is compared with, for each model; not corrected yet."""
    if found.risks:
        part, other = found.risks[contrast.column], found.risks[contrast.against]
        if part is not None and other is not None:
            own, rest = replace(part, population=contrast.group), replace(other, population=contrast.reference)
            yield from _chosen(population_differences(writer, own, rest, models), RISKS_COMPARED)


def risk_model_differences(
    writer: RowWriter, found: GroupMeasures, column: int, name: str, models: Sequence[str]
) -> Iterator[Estimate]:
    """Models within a group, paired."""
    part = found.risks[column] if found.risks else None
    if part is not None:
        yield from _chosen(model_differences(writer, replace(part, population=name), models), RISKS_COMPARED)


def _chosen(rows: Iterable[Estimate], metrics: Sequence[str]) -> Iterator[Estimate]:
    return (row for row in rows if row.metric in metrics)
