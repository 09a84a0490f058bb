"""Sensitivity-n (Ancona et al., 2018): do scores add up to what taking the words out does?

Random tenths of a chart's words are taken out. For each label that the model predicts, the correlation over these sets
between the sum of their scores and the drop of the probability is 1 where scores say exactly what each word
contributes, and 0 where they say nothing. It is undefined where all sums, or all drops, are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.faithfulness import strengths
from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.measures import ALL
from palpate.audits.evidence.plan import EvidenceMemory, Removal
from palpate.audits.evidence.ranking import mean_row
from palpate.audits.evidence.strata import AuditedCharts, pair_strata
from palpate.audits.kit.rows import RowWriter
from palpate.results import ALL_LABELS, Estimate, ModelPredictions, Predictions

SENSITIVITY = "sensitivity_n"
_LEAST_SPREAD = 1e-9
Floats = NDArray[np.float64]


def correlations(
    memory: EvidenceMemory, removal: Removal, evidence: MarkedEvidence, answers: ModelPredictions
) -> Floats:
    """One for each pair of a chart and a label; nan where it is undefined."""
    found = np.full(len(removal.pairs.chart), np.nan)
    scores = strengths(memory, evidence, removal.pairs)
    for k, (chart, label) in enumerate(zip(*(column.tolist() for column in removal.pairs), strict=True)):
        sets = removal.random[chart]
        word, score = scores[k]
        sums = np.array([score[np.isin(word, taken)].sum() for taken in sets.words])
        drops = answers.p[chart, label] - answers.p[sets.variant, label]
        if len(sums) > 1 and min(np.ptp(sums), np.ptp(drops)) > _LEAST_SPREAD:
            found[k] = np.corrcoef(sums, drops)[0, 1]
    return found


def sensitivity_rows(
    writer: RowWriter, charts: AuditedCharts, marked: Mapping[str, MarkedEvidence], predictions: Predictions
) -> Iterator[Estimate]:
    """The mean correlation of each model whose evidence has scores, by stratum of the pairs.

    An ensemble has that of all its members' pairs.
    """
    memory = charts.memory
    for name in predictions:
        members = [each for each in predictions.members(name) if each in marked and memory.removal.get(each)]
        known = [(memory.removal[each], marked[each], predictions[each]) for each in members]
        known = [each for each in known if each[0].random and each[1].scored is not None]
        if not known or len(known) < len(predictions.members(name)):
            continue
        values = np.concatenate([correlations(memory, *each) for each in known])
        chart = np.concatenate([each[0].pairs.chart for each in known])
        yield _row(writer, charts, name, ALL, values, chart)
        for group, mask in _strata(charts, known).items():
            yield _row(writer, charts, name, group, values[mask], chart[mask])


def _strata(
    charts: AuditedCharts, known: Sequence[tuple[Removal, MarkedEvidence, ModelPredictions]]
) -> dict[str, NDArray[np.bool_]]:
    """Which pairs, over all members, are in each stratum."""
    parts = [pair_strata(charts, evidence.gold, *removal.pairs, answers) for removal, evidence, answers in known]
    sizes = [len(removal.pairs.chart) for removal, _, _ in known]
    none = [np.zeros(size, np.bool_) for size in sizes]
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: np.concatenate([part.get(name, empty) for part, empty in zip(parts, none, strict=True)]) for name in names
    }


def _row(
    writer: RowWriter, charts: AuditedCharts, model: str, group: str, values: Floats, chart: NDArray[np.int64]
) -> Estimate:
    if np.isnan(values).all():
        why = "all sums of scores, or all drops, are alike"
        return writer.row(model, SENSITIVITY, ALL_LABELS, group, None, n=len(values), reason=why)
    return mean_row(writer, charts, (model, SENSITIVITY, group), values, chart)
