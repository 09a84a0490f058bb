"""How well a model's scores rank the words of a chart, without a threshold, for the codes with gold evidence.

Means over pairs of a chart and a code: the area under the precision-recall curve (average precision), and precision and
recall of the k strongest words. An ensemble has the means of its members. For a part of the evidence, pairs with gold
evidence in it are taken: in a note category, the words of its notes are ranked; gold evidence of the code that is not
of the part (of another length, say) is left out of the ranking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.measures import ALL
from palpate.audits.evidence.strata import AuditedCharts, evidence_strata, words_within
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.tables import columns, interval_cell, table
from palpate.results import ALL_LABELS, Column, Estimate, ModelPredictions, Predictions, Table
from palpate.results.blocks import Cell
from palpate.stats.evidence import Spans
from palpate.stats.evidence.ranking import rank_words

AT = (1, 5, 10)
AUPRC = "word_auprc"
RANKED = (AUPRC, *(f"precision_at_{k}" for k in AT), *(f"recall_at_{k}" for k in AT))
_NAMES = ("AUPRC", *(f"P@{k}" for k in AT), *(f"R@{k}" for k in AT))
_N_REPLICATES = 10_000
"""Of a mean; a tenth of them for strata, of which there are many."""
NO_SCORES = "the evidence has no scores"


class WordRanking(NamedTuple):
    """One model's measures, [pair, RANKED], and the chart and code of each pair."""

    chart: NDArray[np.int64]
    code: NDArray[np.int64]
    values: NDArray[np.float64]


def measure_ranking(
    charts: AuditedCharts, marked: Mapping[str, MarkedEvidence], predictions: Predictions
) -> dict[str, dict[str, WordRanking]]:
    """By model and stratum: every model whose evidence has scores, and ensembles of such models on the same pairs."""
    found = {
        name: _by_stratum(charts, evidence, predictions[name])
        for name, evidence in marked.items()
        if evidence.scored is not None
    }
    for ensemble, members in predictions.ensembles.items():
        parts = [found[name] for name in members if name in found]
        if len(parts) < len(members):
            continue
        shared = {group: [part[group] for part in parts if group in part] for group in parts[0]}
        alike = {
            group: each
            for group, each in shared.items()
            if len(each) == len(parts) and all(_same_pairs(one, each[0]) for one in each)
        }
        if ALL in alike:
            found[ensemble] = {
                group: each[0]._replace(values=np.mean([one.values for one in each], axis=0))
                for group, each in alike.items()
            }
    return found


def _by_stratum(charts: AuditedCharts, evidence: MarkedEvidence, answers: ModelPredictions) -> dict[str, WordRanking]:
    gold = evidence.gold
    found = {ALL: _ranked(charts, evidence, gold)}
    for each in evidence_strata(charts, gold, gold, answers):
        if each.gold is None or not each.gold.any():
            continue
        ours, others = (Spans(*(column[kept] for column in gold)) for kept in (each.gold, ~each.gold))
        found[each.name] = _ranked(charts, evidence, ours, words_within(charts, each), others)
    return found


def ranking_rows(
    writer: RowWriter,
    charts: AuditedCharts,
    predictions: Predictions,
    ranked: Mapping[str, Mapping[str, WordRanking]],
) -> Iterator[Estimate]:
    """Means with intervals, by stratum, and paired differences of the models that are compared."""
    for name in predictions:
        for group, part in ranked.get(name, {ALL: None}).items():
            yield from _rows(writer, charts, name, part, group=group)
    compared = [name for name in predictions.compared if name in ranked]
    for reference, model in combinations(compared, 2):
        ours, theirs = ranked[model][ALL], ranked[reference][ALL]
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


def ranking_by_group(
    estimates: EstimateIndex,
    models: Sequence[str],
    groups: Sequence[str],
    more: Mapping[str, tuple[str, str]],
    note: str,
) -> list[Table]:
    """By stratum, first all evidence; `more` are further columns: a metric, and the group of all evidence there."""
    shown = {"AUPRC": (AUPRC, ALL), "P@1": ("precision_at_1", ALL), "R@10": ("recall_at_10", ALL), **more}
    rows: list[tuple[Cell, ...]] = []
    for group, model in product(groups, models):
        what, _, name = group.partition("=")
        found = [
            estimates.find(metric, model, group=whole if group == ALL else group) for metric, whole in shown.values()
        ]
        if any(row is not None and row.value is not None for row in found):
            rows.append((what.capitalize(), name, model, *map(interval_cell, found)))
    if not rows:
        return []
    return [
        table(
            "Ranking and faithfulness by group",
            "Means over codes of charts: those with gold evidence in the group (AUPRC, P@1, R@10), or those of the "
            "group that are predicted (the rest, over all fractions). In a note category its own words are ranked; "
            "gold evidence of another length, or on the other side of the window, is left out of the ranking. " + note,
            columns("By", "Group", "Model", *(Column(name=name, kind="interval") for name in shown)),
            rows,
            collapsed=True,
        )
    ]


def _ranked(
    charts: AuditedCharts,
    evidence: MarkedEvidence,
    gold: Spans,
    within: NDArray[np.bool_] | None = None,
    besides: Spans | None = None,
) -> WordRanking:
    scored = evidence.scored
    if scored is None:
        raise ValueError(NO_SCORES)
    columns = (scored.word, scored.label, scored.score)
    found = rank_words(charts.words, gold, *columns, at=AT, within=within, besides=besides)
    return WordRanking(
        found.note, found.code, np.column_stack([found.average_precision, found.precision, found.recall])
    )


def _same_pairs(one: WordRanking, other: WordRanking) -> bool:
    return np.array_equal(one.chart, other.chart) and np.array_equal(one.code, other.code)


def _rows(
    writer: RowWriter,
    charts: AuditedCharts,
    model: str,
    ranked: WordRanking | None,
    *,
    group: str = ALL,
    reference: str | None = None,
) -> Iterator[Estimate]:
    for k, name in enumerate(RANKED):
        if ranked is None or not len(ranked.chart):
            reason = NO_SCORES if ranked is None else "no gold evidence"
            yield writer.row(model, name, ALL_LABELS, group, None, n=0, reason=reason)
            continue
        row = mean_row(writer, charts, (model, name, group), ranked.values[:, k], ranked.chart, reference=reference)
        least = 0.0 if reference is None else -1.0
        ends = [None if end is None else min(max(end, least), 1.0) for end in (row.low, row.high)]
        yield replace(row, low=ends[0], high=ends[1])


def mean_row(
    writer: RowWriter,
    charts: AuditedCharts,
    which: tuple[str, str, str],
    values: NDArray[np.float64],
    chart: NDArray[np.int64],
    *,
    reference: str | None = None,
) -> Estimate:
    """The mean over pairs of (model, metric, group), by weight of the chart, with its interval by chart or patient."""
    model, metric, group = which
    n_replicates = _N_REPLICATES if group == ALL else _N_REPLICATES // 10
    row = writer.mean(
        model,
        metric,
        ALL_LABELS,
        group,
        values,
        charts.units[chart],
        rng=charts.memory.seed,
        n_replicates=n_replicates,
        reference=reference,
        weight=charts.weights_of(chart),
    )
    return replace(row, reason=row.reason and row.reason.replace("patients", f"{charts.unit}s"))
