"""The subgroups audit's numbers as rows: levels, differences to the rest, between models, and the largest gaps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from palpate.audits.kit.differences import drop_differences, model_differences, population_differences
from palpate.audits.kit.metrics import level_rows
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import RowWriter, corrected, one_family
from palpate.audits.subgroups.gaps import gap_rows
from palpate.audits.subgroups.measures import METRICS, REST, WHOLE, Contrast, GroupMeasures
from palpate.audits.subgroups.plan import Partition
from palpate.audits.subgroups.risks import (
    RISK_METRICS,
    risk_differences,
    risk_levels,
    risk_model_differences,
)
from palpate.results import Estimate

COMPARED = tuple(name for name in METRICS if name not in ("adaptive_calibration_error", "prevalence", "mean_score"))
"""Metrics whose differences are reported: by chance alone, a calibration error is larger in the smaller group."""
MODEL_GAP = "auroc_difference"
"""How much more the AUROC of one model differs between a group and its reference than that of another."""
PATIENTS = "patients"
JUDGED = ("auroc", "sensitivity")
"""Metrics whose differences between groups answer a question of the scorecard."""
AS_QUESTIONS = 2
"""How many questions share the level: whether it is worse, whether it misses more, whether risks are right.

The first two look one way only, so that each can be wrong in half of what an interval leaves out: as one together.
"""


def level_estimates(writer: RowWriter, found: GroupMeasures) -> Iterator[Estimate]:
    """Every metric of all cases and of each group; a group without enough cases has its counts and the reason."""
    for name, column in {WHOLE: 0, **found.columns.groups}.items():
        part = found.called(column, name)
        n, n_positive = int(part.n[0]), int(part.n_positive[0])
        for model in part.models:
            yield writer.row(
                model, PATIENTS, found.label, name, int(found.n_patients[column]), n=n, n_positive=n_positive
            )
        lacking = found.lacking(column)
        if lacking is None:
            yield from level_rows(writer, part)
            yield from risk_levels(writer, found, column, name)
        else:
            wanted = (*METRICS, *(RISK_METRICS if found.risks else ()))
            yield from _nothing(writer, found, column, name, wanted, None, lacking, part.models)


def _nothing(
    writer: RowWriter,
    found: GroupMeasures,
    column: int,
    group: str,
    metrics: Sequence[str],
    reference: str | None,
    reason: str,
    models: Sequence[str],
) -> Iterator[Estimate]:
    part = found.parts[column]
    for model in models:
        for metric in metrics:
            yield writer.row(
                model,
                metric,
                found.label,
                group,
                None,
                n=int(part.n[0]),
                n_positive=int(part.n_positive[0]),
                reference=reference,
                reason=reason,
            )


def difference_estimates(writer: RowWriter, found: GroupMeasures, models: Sequence[str]) -> Iterator[Estimate]:
    """Each group less its reference or the rest, and models within a group; not corrected yet."""
    for name, column in {WHOLE: 0, **found.columns.groups}.items():
        if found.lacking(column) is None:
            part = found.called(column, name)
            yield from (row for row in model_differences(writer, part, models) if row.metric in COMPARED)
            yield from risk_model_differences(writer, found, column, name, models)
    twins = mirrored(found.columns.contrasts)
    for contrast in found.columns.contrasts:
        reason = _lacking(found, contrast)
        if reason is not None:
            yield from _nothing(
                writer, found, contrast.column, contrast.group, COMPARED, contrast.reference, reason, models
            )
            continue
        part = found.called(contrast.column, contrast.group)
        other = found.called(contrast.against, contrast.reference)
        rows = population_differences(writer, part, other, models)
        yield from (row for row in rows if row.metric in COMPARED)
        yield from risk_differences(writer, found, contrast, models)
        if contrast.group not in twins:
            drops = drop_differences(writer, part, other, models, "auroc")
            yield from (replace(row, metric=MODEL_GAP) for row in drops)


def _lacking(found: GroupMeasures, contrast: Contrast) -> str | None:
    own, other = found.lacking(contrast.column), found.lacking(contrast.against)
    return own or (other and f"{other}, in {contrast.reference}")


def mirrored(contrasts: Sequence[Contrast]) -> dict[str, str]:
    """Of two groups, the second one's difference is the first one's with the other sign: one comparison, not two."""
    twins = {}
    for partition in {contrast.partition.name: contrast.partition for contrast in contrasts}.values():
        if len(partition.groups) == 2 and partition.reference is None:
            twins[partition.groups[1]] = partition.groups[0]
    return twins


class SubgroupRows(NamedTuple):
    """All rows, and what else is known about the groups."""

    rows: list[Estimate]
    n_patients: dict[str, int]
    few: dict[tuple[str, str], str]
    """(label, group): why nothing can be said."""


def subgroup_rows(
    writer: RowWriter,
    measured: Iterable[GroupMeasures],
    partitions: Sequence[Partition],
    models: Sequence[str],
    correction: Correction,
    family: Family,
) -> SubgroupRows:
    """Label by label. The differences of a metric are one family between groups, and another between models.

    Those that answer a question share the level with the other questions, so that an audit of groups without
    differences raises an alarm about any of them in at most 5 of 100 cases.
    """
    levels: list[Estimate] = []
    differences: list[Estimate] = []
    n_patients: dict[str, int] = {}
    few: dict[tuple[str, str], str] = {}
    twins: dict[str, str] = {}
    for found in measured:
        twins = mirrored(found.columns.contrasts)
        levels += level_estimates(writer, found)
        levels += (row for each in partitions for model in models for row in gap_rows(writer, found, each, model))
        differences += difference_estimates(writer, found, models)
        for name, column in {WHOLE: 0, **found.columns.groups}.items():
            n_patients[name] = int(found.n_patients[column])
            reason = found.lacking(column)
            if reason is not None and name != WHOLE:
                few[found.label, name] = reason

    def question(row: Estimate) -> Hashable:
        return row.reference in models, row.metric

    def is_judged(row: Estimate) -> bool:
        return row.metric in JUDGED and row.reference not in models and family == "question"

    rows = [row for row in differences if not _is_twin(row, twins)]
    judged = [row for row in rows if is_judged(row)]
    others = [row for row in rows if not is_judged(row)]
    chosen = one_family(family) or question
    tested = [
        *corrected(judged, correction, writer.level, family_of=chosen, n_questions=AS_QUESTIONS),
        *corrected(others, correction, writer.level, family_of=chosen),
    ]
    return SubgroupRows([*levels, *tested, *_turned(differences, tested, twins)], n_patients, few)


def _is_twin(row: Estimate, twins: dict[str, str]) -> bool:
    return row.group in twins and row.reference == REST


def _turned(differences: Sequence[Estimate], tested: Sequence[Estimate], twins: dict[str, str]) -> Iterator[Estimate]:
    """The second of two groups: the first one's corrected row, the other way round."""
    known = {(row.metric, row.model, row.label, row.group, row.reference): row for row in tested}
    for row in differences:
        if _is_twin(row, twins):
            own = known[row.metric, row.model, row.label, twins[row.group], REST].negated()
            yield replace(own, group=row.group, n=row.n, n_positive=row.n_positive, reason=row.reason)
