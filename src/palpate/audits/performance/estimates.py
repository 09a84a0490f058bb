"""The performance audit's numbers as rows: levels, differences between models and cohorts, spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from palpate.audits.kit.metrics import (
    MetricReplicates,
    level_rows,
    model_differences,
    population_differences,
    spread_rows,
)
from palpate.audits.kit.resampling import Correction
from palpate.audits.kit.rows import RowWriter, corrected
from palpate.results import Estimate, Predictions


def performance_rows(
    measured: Sequence[Sequence[MetricReplicates]],
    predictions: Predictions,
    writer: RowWriter,
    correction: Correction,
    overall: str,
) -> list[Estimate]:
    """All rows; `measured` has the parts of each cohort (labels, averages), the first cohort's first."""
    models, rows = predictions.compared, list[Estimate]()
    for parts in measured:
        rows += [row for part in parts for row in level_rows(writer, part)]
        pairs = [row for part in parts for row in model_differences(writer, part, models)]
        rows += corrected(pairs, correction, writer.level, headline=overall)
    drops = [
        row
        for parts in measured[1:]
        for part, main in zip(parts, measured[0], strict=True)
        for row in population_differences(writer, part, main, models)
    ]
    rows += corrected(drops, correction, writer.level, headline=overall)
    return rows + spread_rows(writer, chain.from_iterable(measured), predictions)
