"""The performance audit's numbers as rows: levels, differences between models and cohorts, spread over seeds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import chain

from palpate.audits.kit.differences import drop_differences, model_differences, population_differences
from palpate.audits.kit.metrics import MetricReplicates, level_rows, spread_rows
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import RowWriter, corrected, one_family
from palpate.results import MACRO, Estimate, Predictions


def performance_rows(
    measured: Sequence[Sequence[MetricReplicates]],
    predictions: Predictions,
    writer: RowWriter,
    correction: Correction,
    family: Family,
    overall: str,
) -> list[Estimate]:
    """All rows; `measured` has the parts of each cohort (labels, averages), the first cohort's first."""
    models = predictions.compared
    parts = list(chain.from_iterable(measured))
    moved = [pair for each in measured[1:] for pair in zip(each, measured[0], strict=True)]
    differences = [
        *(row for part in parts for row in model_differences(writer, part, models)),
        *(row for part, main in moved for row in population_differences(writer, part, main, models)),
        *(row for part, main in moved for row in drop_differences(writer, part, main, models, "auroc")),
    ]

    def question(row: Estimate) -> Hashable:
        """The pairs of models in one cohort, or all changes between cohorts; the headline label on its own."""
        within = row.reference in models and not row.metric.endswith("_drop")
        return row.group if within else "travel", row.metric, row.label == overall

    return [
        *(row for part in parts for row in level_rows(writer, part)),
        *corrected(differences, correction, writer.level, family_of=one_family(family) or question),
        *spread_rows(writer, parts, predictions),
    ]


def mean_of_one(rows: list[Estimate], averaged: Sequence[str]) -> list[Estimate]:
    """The rows with a mean over a single label as that label's own rows: one number, one interval, one test."""
    others = [row for row in rows if row.label != MACRO]
    if len(averaged) != 1 or len(others) == len(rows):
        return rows
    return [*others, *(replace(row, label=MACRO) for row in rows if row.label == averaged[0])]
