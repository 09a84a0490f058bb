"""Evidence against gold evidence: counts, scores and their replicates, for all of it and by strata.

Evidence paper, Section 6.2 (four ways to match, micro and by code), plus overlap and IoU; by note category, code
system, length of the gold evidence, kind of annotation and the model's window. As many random words show what chance
gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.inputs import NOT_KNOWN
from palpate.audits.evidence.marking import MarkedEvidence, runs
from palpate.audits.evidence.plan import EvidenceMemory
from palpate.audits.kit.resampling import Resampling
from palpate.cases.edits import Ints
from palpate.cases.evidence import SUFFICIENT
from palpate.results import ModelPredictions, Predictions
from palpate.stats import percentile_interval, ratio_replicates
from palpate.stats.clustered import sum_by_unit, units_of
from palpate.stats.evidence import (
    EvidenceWords,
    Spans,
    Stratum,
    count_matches,
    cover,
    span_scores,
    strata_by_group,
    strata_by_length,
    strata_by_window,
)

Floats = NDArray[np.float64]
ALL, RANDOM = "all", "random evidence"
SHARES = ("charts_missed", "codes_missed", "codes_false", "evidence_beyond_window")


@dataclass(frozen=True, eq=False)
class AuditedCharts:
    """What every model's evidence is compared with, and how charts are resampled."""

    memory: EvidenceMemory
    patients: Ints
    """The patient of each audited chart."""
    resampling: Resampling
    iou: float

    @property
    def n(self) -> int:
        """How many charts there are."""
        return self.memory.n_audited

    @property
    def unit(self) -> str:
        """What is resampled, in words."""
        return "patient" if self.resampling.unit == "patient" else "chart"

    @cached_property
    def units(self) -> Ints:
        """The number that each chart is resampled by."""
        return self.patients if self.resampling.unit == "patient" else np.arange(self.n)

    @cached_property
    def n_units(self) -> int:
        """Charts, or patients, that are resampled."""
        return len(np.unique(self.units))

    @cached_property
    def words(self) -> EvidenceWords:
        """The words of the audited charts."""
        words, stop = self.memory.charts.words, int(self.memory.charts.words.first[self.n])
        columns = (words.note[:stop], words.begin[:stop], words.end[:stop])
        return EvidenceWords(words.texts[: self.n], *columns, words.first[: self.n + 1])

    @cached_property
    def systems(self) -> list[str]:
        """The code system of each label, from the first row that names it."""
        systems = [""] * self.memory.inputs.n_codes
        for placed in (self.memory.inputs.gold, *self.memory.inputs.predicted.values()):
            for label, system in zip(placed.label.tolist(), placed.code_system, strict=True):
                systems[label] = systems[label] or system
        return [system or NOT_KNOWN for system in systems]

    @cached_property
    def completeness(self) -> tuple[str, ...]:
        """Whether each chart's annotation is sufficient, complete, both, or not known ("")."""
        found: list[set[str]] = [set() for _ in range(self.n)]
        gold = self.memory.inputs.gold
        for chart, kind in zip(self.memory.charts.number[gold.row].tolist(), gold.completeness, strict=True):
            if kind and 0 <= chart < self.n:
                found[chart].add(kind)
        return tuple(" and ".join(sorted(kinds)) for kinds in found)

    @cached_property
    def sufficient(self) -> bool:
        """Whether some annotation marks what suffices and not everything, so that precision is a lower bound."""
        return any(SUFFICIENT in kind for kind in self.completeness)


class MatchScores(NamedTuple):
    """One model's scores; axes are stratum, MATCHES, AVERAGES, MEASURES."""

    strata: tuple[str, ...]
    point: Floats
    low: Floats
    high: Floats
    values: NDArray[np.float64]
    """Replicates, along a last axis: of all strata until an ensemble's mean is made, then of the first only."""
    n_gold: Ints
    """[stratum, match]"""
    n_predicted: Ints


class Shares(NamedTuple):
    """Shares of charts, codes and gold spans, in the order of SHARES."""

    point: Floats
    low: Floats
    high: Floats
    values: Floats
    """[share, replicate]"""
    n: Ints


class EvidenceMeasures(NamedTuple):
    """Everything about one model's evidence."""

    scores: MatchScores
    random: MatchScores
    chance: tuple[float, ...]
    """Expected token precision, recall and F1 of as many random words."""
    shares: Shares


def measure_evidence(
    charts: AuditedCharts, marked: Mapping[str, MarkedEvidence], predictions: Predictions
) -> dict[str, EvidenceMeasures]:
    """Every model's evidence against the gold evidence; the mean over an ensemble's members is a further model.

    An ensemble with a member whose evidence is not known has no mean.
    """
    measured: dict[str, EvidenceMeasures] = {}
    means: dict[str, EvidenceMeasures] = {}
    for ensemble, members in predictions.ensembles.items():
        if all(name in marked for name in members):
            parts = [_measure(charts, marked[name], predictions[name]) for name in members]
            means[ensemble] = _without_replicates(_mean_measures(parts, charts.resampling.level))
            # 10,000 replicates of twenty strata are 60 MB per member: they are kept for one ensemble at a time.
            measured |= {name: _without_replicates(part) for name, part in zip(members, parts, strict=True)}
    for name in marked:
        if name not in measured:
            measured[name] = _without_replicates(_measure(charts, marked[name], predictions[name]))
    return {**{name: measured[name] for name in marked}, **means}


def _measure(charts: AuditedCharts, evidence: MarkedEvidence, answers: ModelPredictions) -> EvidenceMeasures:
    """One model's evidence against the gold evidence."""
    scores = _scores(charts, evidence.spans, _strata(charts, evidence.spans, answers))
    drawn, chance = random_evidence(charts.memory, evidence.spans)
    return EvidenceMeasures(scores, _scores(charts, drawn), chance, _shares(charts, evidence.spans, answers))


def _strata(charts: AuditedCharts, predicted: Spans, answers: ModelPredictions) -> list[Stratum]:
    """The parts of the evidence that are reported separately; a part that is all of it is left out."""
    memory, gold = charts.memory, charts.memory.audited_gold
    rows, notes = memory.charts.rows, memory.inputs.notes
    strata: list[Stratum] = []
    if notes.start.size:
        ours, theirs = (notes.categories(rows[side.note], side.begin) for side in (gold, predicted))
        strata += strata_by_group("category", ours, theirs)
    systems = charts.systems
    if len({systems[k] for k in gold.code.tolist()}) > 1:
        strata += strata_by_group("code system", [systems[k] for k in gold.code], [systems[k] for k in predicted.code])
    strata += strata_by_length(memory.charts.words, gold)
    kinds = charts.completeness
    if len({kinds[k] for k in gold.note.tolist()} - {""}) > 1:
        strata += strata_by_group("annotation", [kinds[k] for k in gold.note], [kinds[k] for k in predicted.note])
    if answers.visible is not None and answers.facts.window is not None:
        strata += strata_by_window(answers.visible[rows], gold)
    return strata


def _scores(charts: AuditedCharts, predicted: Spans, strata: Sequence[Stratum] = ()) -> MatchScores:
    counts = count_matches(
        charts.words,
        charts.memory.audited_gold,
        predicted,
        chart=np.arange(charts.n),
        n_codes=charts.memory.inputs.n_codes,
        n_charts=charts.n,
        strata=strata,
        iou=charts.iou,
    )
    how = charts.resampling
    found = span_scores(counts, rng=how.seed, n_replicates=how.n_replicates, patient=charts.units)
    n_found, n_false, n_missed = np.moveaxis(counts.totals(), -1, 0)
    interval = percentile_interval(found.values, level=how.level)
    return MatchScores(found.strata, found.point, *interval, found.values, n_found + n_missed, n_found + n_false)


def random_evidence(memory: EvidenceMemory, predicted: Spans) -> tuple[Spans, tuple[float, ...]]:
    """As many words at random, for each chart and code; and the token scores that this has on average.

    Drawn without replacement from the chart's words, so a draw hits k g / W gold words on average, of W words with g
    gold ones.
    """
    words, n, n_codes = memory.charts.words, memory.n_audited, memory.inputs.n_codes
    marked, k = _cells(memory, predicted)
    ours, g = _cells(memory, memory.audited_gold, whole=True)
    n_words = np.diff(words.first)[:n]
    place = np.searchsorted(ours, marked)
    hit = np.isin(marked, ours)
    expected = float((k[hit] * g[place[hit]] / n_words[marked[hit] // n_codes]).sum())
    n_gold = int(_cells(memory, memory.audited_gold)[1].sum())
    total = int(k.sum())
    chance = tuple(
        float(expected * times / below) if below else float("nan")
        for times, below in ((1, total), (1, n_gold), (2, total + n_gold))
    )
    rng = np.random.default_rng([memory.seed, 1])
    drawn = [np.zeros(0, np.int64)]
    for cell, size in zip(marked.tolist(), k.tolist(), strict=True):
        chart = cell // n_codes
        drawn.append(words.first[chart] + rng.choice(int(n_words[chart]), size=size, replace=False))
    return runs(memory.charts, np.concatenate(drawn).astype(np.int64), np.repeat(marked % n_codes, k)), chance


def _cells(memory: EvidenceMemory, side: Spans, *, whole: bool = False) -> tuple[Ints, Ints]:
    """Charts and codes with marked words (chart * n_codes + code), sorted, and how many distinct words each has.

    With `whole`, only words that are marked from end to end; otherwise pieces of one word count as they do in a match,
    each for itself, but never more than the chart has words.
    """
    words = memory.charts.words
    covered = cover(words, side)
    of = np.repeat(np.arange(side.note.size), np.diff(covered.first))
    kept = covered.piece == covered.word if whole else np.ones(of.size, np.bool_)
    cell = side.note[of] * memory.inputs.n_codes + side.code[of]
    pairs = np.unique(np.stack([cell[kept], covered.piece[kept]], axis=1), axis=0)
    cells, size = np.unique(pairs[:, 0], return_counts=True)
    return cells, np.minimum(size, np.diff(words.first)[cells // memory.inputs.n_codes] if cells.size else size)


def _shares(charts: AuditedCharts, predicted: Spans, answers: ModelPredictions) -> Shares:
    """Charts and codes that are missed entirely, codes that are all false, gold spans that the model cannot read."""
    memory, gold, n, n_codes = charts.memory, charts.memory.audited_gold, charts.n, charts.memory.inputs.n_codes
    ours, theirs = _cells(memory, gold)[0], _cells(memory, predicted)[0]
    above, below = np.zeros((n, len(SHARES))), np.zeros((n, len(SHARES)))
    has_gold, has_any = (np.bincount(cells // n_codes, minlength=n) > 0 for cells in (ours, theirs))
    below[:, 0], above[:, 0] = has_gold, has_gold & ~has_any
    np.add.at(below[:, 1], ours // n_codes, 1)
    np.add.at(above[:, 1], ours[~np.isin(ours, theirs)] // n_codes, 1)
    np.add.at(below[:, 2], theirs // n_codes, 1)
    np.add.at(above[:, 2], theirs[~np.isin(theirs, ours)] // n_codes, 1)
    np.add.at(below[:, 3], gold.note, 1)
    if answers.visible is not None:
        np.add.at(above[:, 3], gold.note[gold.end > answers.visible[memory.charts.rows][gold.note]], 1)
    units, how = units_of(charts.units), charts.resampling
    summed = (sum_by_unit(above, units), sum_by_unit(below, units))
    values = ratio_replicates(*summed, rng=how.seed, n_replicates=how.n_replicates)
    low, high = percentile_interval(values, level=how.level)
    total = below.sum(axis=0)
    point = np.divide(above.sum(axis=0), total, out=np.full(len(SHARES), np.nan), where=total > 0)
    return Shares(point, low, high, values, total.astype(np.int64))


def _mean_measures(parts: Sequence[EvidenceMeasures], level: float) -> EvidenceMeasures:
    """The mean over the members of an ensemble, on the same resampled charts."""
    return EvidenceMeasures(
        _mean_scores([part.scores for part in parts], level),
        _mean_scores([part.random for part in parts], level),
        tuple(np.mean([part.chance for part in parts], axis=0).tolist()),
        _mean_shares([part.shares for part in parts], level),
    )


def _mean_scores(parts: Sequence[MatchScores], level: float) -> MatchScores:
    """Over the strata that all members have, with the same gold evidence in them: windows may differ."""
    first = parts[0]
    of = [{name: k for k, name in enumerate(part.strata)} for part in parts]
    shared = [
        name
        for name, k in of[0].items()
        if all(
            name in here and np.array_equal(part.n_gold[here[name]], first.n_gold[k])
            for part, here in zip(parts, of, strict=True)
        )
    ]
    index = [[here[name] for name in shared] for here in of]
    values = np.zeros((len(shared), *first.values.shape[1:]))
    for part, rows in zip(parts, index, strict=True):
        values += part.values[rows]
    values /= len(parts)
    low, high = percentile_interval(values, level=level)
    return MatchScores(
        tuple(shared),
        np.mean([part.point[rows] for part, rows in zip(parts, index, strict=True)], axis=0),
        low,
        high,
        values,
        first.n_gold[index[0]],
        np.sum([part.n_predicted[rows] for part, rows in zip(parts, index, strict=True)], axis=0),
    )


def _mean_shares(parts: Sequence[Shares], level: float) -> Shares:
    """Members share their gold evidence; codes that they point at are counted over all of them."""
    values = np.mean([part.values for part in parts], axis=0)
    low, high = percentile_interval(values, level=level)
    n, false = parts[0].n.copy(), SHARES.index("codes_false")
    n[false] = sum(int(part.n[false]) for part in parts)
    return Shares(np.mean([part.point for part in parts], axis=0), low, high, values, n)


def _without_replicates(measured: EvidenceMeasures) -> EvidenceMeasures:
    """Without the replicates of strata, which are not compared between models."""
    scores = measured.scores
    return measured._replace(scores=scores._replace(values=scores.values[:1].copy()))
