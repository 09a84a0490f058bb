"""The performance audit's numbers as rows: levels, differences between models and cohorts, spread over seeds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from palpate.audits.kit.differences import drop_differences, model_differences, population_differences
from palpate.audits.kit.metrics import MetricReplicates, level_rows, spread_rows
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import RowWriter, corrected, one_family
from palpate.audits.kit.thresholds import Thresholds
from palpate.results import MACRO, Estimate, Predictions


class SameThreshold(NamedTuple):
    """Which models act at the same threshold: another one sets another price of a false alarm, so that the net benefits
    of two are in two currencies."""

    labels: Sequence[str]
    thresholds: Thresholds
    predictions: Predictions

    def kept(self, row: Estimate) -> Estimate:
        """A difference between two models, unless it is one of net benefits at different thresholds."""
        if row.metric != "net_benefit" or row.reference not in self.predictions.compared:
            return row
        scored, ensembles = list(self.predictions.scored), self.predictions.ensembles
        own = [scored.index(each) for name in (row.model, row.reference) for each in ensembles.get(name, [name])]
        columns = [self.labels.index(row.label)] if row.label in self.labels else list(range(len(self.labels)))
        values = self.thresholds.values[np.ix_(own, columns)]
        if bool((values == values[:1]).all()):
            return row
        reason = "the models act at different thresholds, at which a false alarm has different prices"
        return replace(row, value=None, low=None, high=None, p_value=None, reason=reason)


def performance_rows(
    measured: Sequence[Sequence[MetricReplicates]],
    predictions: Predictions,
    writer: RowWriter,
    correction: Correction,
    family: Family,
    overall: str,
    alike: SameThreshold,
) -> list[Estimate]:
    """All rows; `measured` has the parts of each cohort (labels, averages), the first cohort's first."""
    models = predictions.compared
    parts = list(chain.from_iterable(measured))
    moved = [pair for each in measured[1:] for pair in zip(each, measured[0], strict=True)]
    differences = [
        *(alike.kept(row) for part in parts for row in model_differences(writer, part, models)),
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
