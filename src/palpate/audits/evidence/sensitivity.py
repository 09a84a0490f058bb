"""Sensitivity-n (Ancona et al., 2018): do scores add up to what taking the words out does?

Random tenths of a chart's words are taken out. For each label that the model predicts, the correlation over these sets
between the sum of their scores and the drop of the probability is 1 where scores say exactly what each word
contributes, and 0 where they say nothing. It is undefined where all sums, or all drops, are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.faithfulness import strengths
from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.measures import ALL, AuditedCharts
from palpate.audits.evidence.plan import EvidenceMemory, Removal
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
    """The mean correlation of each model whose evidence has scores; an ensemble has that of all its members' pairs."""
    memory = charts.memory
    for name in predictions:
        members = [each for each in predictions.members(name) if each in marked and memory.removal.get(each)]
        known = [(memory.removal[each], marked[each], predictions[each]) for each in members]
        known = [each for each in known if each[0].random and each[1].scored is not None]
        if not known or len(known) < len(predictions.members(name)):
            continue
        values = np.concatenate([correlations(memory, *each) for each in known])
        unit = charts.units[np.concatenate([each[0].pairs.chart for each in known])]
        if np.isnan(values).all():
            why = "all sums of scores, or all drops, are alike"
            yield writer.row(name, SENSITIVITY, ALL_LABELS, ALL, None, n=len(values), reason=why)
            continue
        yield writer.mean(name, SENSITIVITY, ALL_LABELS, ALL, values, unit, rng=memory.seed)
