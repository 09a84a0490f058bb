"""The core set for predicted risks in every period, and of the latest periods against the first.

Observed less predicted says whether risks are right on average; a model whose high risks became too high and whose low
risks too low keeps that and loses its slope. Each period is measured by itself (`kit.risks`), so that patients who are
seen in both ends make the interval of a change a little too wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from palpate.audits.drift.measures import PeriodMeasures, PeriodSampling, TimedCases, period_masks
from palpate.audits.drift.plan import FIRST, LATEST, Periods
from palpate.audits.kit.differences import population_differences
from palpate.audits.kit.metrics import MetricReplicates, level_rows
from palpate.audits.kit.risks import risks_of_part
from palpate.audits.kit.rows import RowWriter
from palpate.results import Estimate, Predictions

RISKS_COMPARED = ("calibration_slope", "calibration_intercept", "net_benefit")
RISKS = (*RISKS_COMPARED, "ici")
"""ICI is not compared: by chance alone, the distance from a smooth curve is larger in the smaller period."""


class RiskRows(NamedTuple):
    """Levels, and differences that are not corrected yet."""

    levels: list[Estimate]
    tested: list[Estimate]


def risk_rows(
    writer: RowWriter,
    cases: TimedCases,
    periods: Periods,
    found: PeriodMeasures,
    label: int,
    predictions: Predictions,
    how: PeriodSampling,
) -> RiskRows:
    """The core set of one label in the periods that have enough cases."""
    parts = dict(_measured(cases, periods, found, label, predictions, how))
    levels = [row for part in parts.values() for row in _chosen(level_rows(writer, part), RISKS)]
    if LATEST not in parts or FIRST not in parts:
        return RiskRows(levels, [])
    apart = population_differences(writer, parts[LATEST], parts[FIRST], predictions.compared)
    return RiskRows(levels, list(_chosen(apart, RISKS_COMPARED)))


def _measured(
    cases: TimedCases,
    periods: Periods,
    found: PeriodMeasures,
    label: int,
    predictions: Predictions,
    how: PeriodSampling,
) -> Iterator[tuple[str, MetricReplicates]]:
    for k, (name, mask) in enumerate(period_masks(periods).items()):
        if found.lacking(name) is not None:
            continue
        yield (
            name,
            risks_of_part(
                cases,
                np.flatnonzero(mask),
                (label, found.label),
                predictions,
                name=name,
                unit=how.unit,
                seed=how.seed + k,  # one stream for each: other patients must not move together
                n_replicates=how.n_replicates,
            ),
        )


def _chosen(rows: Iterable[Estimate], metrics: Sequence[str]) -> Iterator[Estimate]:
    return (row for row in rows if row.metric in metrics)
