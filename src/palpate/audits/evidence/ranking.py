"""How well a model's scores rank the words of a chart, without a threshold, for the codes with gold evidence.

Means over pairs of a chart and a code: the area under the precision-recall curve (average precision), and precision and
recall of the k strongest words. An ensemble has the means of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.measures import ALL, AuditedCharts
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.tables import columns, interval_cell, table
from palpate.results import ALL_LABELS, Column, Estimate, Predictions, Table
from palpate.results.blocks import Cell
from palpate.stats.evidence.ranking import rank_words

AT = (1, 5, 10)
AUPRC = "word_auprc"
RANKED = (AUPRC, *(f"precision_at_{k}" for k in AT), *(f"recall_at_{k}" for k in AT))
_NAMES = ("AUPRC", *(f"P@{k}" for k in AT), *(f"R@{k}" for k in AT))
NO_SCORES = "the evidence has no scores"


class WordRanking(NamedTuple):
    """One model's measures, [pair, RANKED], and the chart and code of each pair."""

    chart: NDArray[np.int64]
    code: NDArray[np.int64]
    values: NDArray[np.float64]


def measure_ranking(
    charts: AuditedCharts, marked: Mapping[str, MarkedEvidence], predictions: Predictions
) -> dict[str, WordRanking]:
    """Every model whose evidence has scores, and ensembles of such models on the same pairs."""
    found = {name: _ranked(charts, evidence) for name, evidence in marked.items() if evidence.scored is not None}
    for ensemble, members in predictions.ensembles.items():
        parts = [found[name] for name in members if name in found]
        if len(parts) == len(members) and all(_same_pairs(part, parts[0]) for part in parts):
            found[ensemble] = parts[0]._replace(values=np.mean([part.values for part in parts], axis=0))
    return found


def ranking_rows(
    writer: RowWriter, charts: AuditedCharts, predictions: Predictions, ranked: Mapping[str, WordRanking]
) -> Iterator[Estimate]:
    """Means with intervals, and paired differences of the models that are compared."""
    for name in predictions:
        yield from _rows(writer, charts, name, ranked.get(name))
    compared = [name for name in predictions.compared if name in ranked]
    for reference, model in combinations(compared, 2):
        ours, theirs = ranked[model], ranked[reference]
        if _same_pairs(ours, theirs):
            difference = ours._replace(values=ours.values - theirs.values)
            yield from _rows(writer, charts, model, difference, reference=reference)


def ranking_table(estimates: EstimateIndex, models: Sequence[str], note: str) -> Table:
    """The measures of all models."""
    rows: list[tuple[Cell, ...]] = []
    for model in models:
        rows.append((model, *(interval_cell(estimates.find(name, model)) for name in RANKED)))
    return table(
        "Ranking of words, without a threshold",
        "Means over codes of charts with gold evidence, all words of a chart ranked by their score for the code. AUPRC "
        "is the area under the precision-recall curve; P@k and R@k: precision and recall of the k strongest "
        f"words. {note}",
        columns("Model", *(Column(name=name, kind="interval") for name in _NAMES)),
        rows,
        collapsed=True,
    )


def _ranked(charts: AuditedCharts, evidence: MarkedEvidence) -> WordRanking:
    scored = evidence.scored
    if scored is None:
        raise ValueError(NO_SCORES)
    found = rank_words(charts.words, evidence.gold, scored.word, scored.label, scored.score, at=AT)
    return WordRanking(
        found.note, found.code, np.column_stack([found.average_precision, found.precision, found.recall])
    )


def _same_pairs(one: WordRanking, other: WordRanking) -> bool:
    return np.array_equal(one.chart, other.chart) and np.array_equal(one.code, other.code)


def _rows(
    writer: RowWriter, charts: AuditedCharts, model: str, ranked: WordRanking | None, *, reference: str | None = None
) -> Iterator[Estimate]:
    for k, name in enumerate(RANKED):
        if ranked is None:
            yield writer.row(model, name, ALL_LABELS, ALL, None, n=0, reason=NO_SCORES)
            continue
        unit, seed = charts.units[ranked.chart], charts.memory.seed
        row = writer.mean(model, name, ALL_LABELS, ALL, ranked.values[:, k], unit, rng=seed, reference=reference)
        least = 0.0 if reference is None else -1.0
        ends = [None if end is None else min(max(end, least), 1.0) for end in (row.low, row.high)]
        reason = row.reason and row.reason.replace("patients", f"{charts.unit}s")
        yield replace(row, low=ends[0], high=ends[1], reason=reason)
