"""Evidence against gold evidence: counts, scores and their intervals, for all of it and by strata.

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
from palpate.stats.clustered import sum_by_unit, units_of
from palpate.stats.clustered_rates import ClusteredRatios, Rates, clustered_ratios
from palpate.stats.evidence import (
    AVERAGES,
    MEASURES,
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
SHARES = ("charts_missed", "codes_missed", "codes_false", "evidence_beyond_window", "spans_touched")
_FREQUENCIES = ((0, "no training chart"), (1, "1 to 9"), (10, "10 to 99"), (100, "100 or more training charts"))


@dataclass(frozen=True, eq=False)
class AuditedCharts:
    """What every model's evidence is compared with, and how charts are resampled."""

    memory: EvidenceMemory
    patients: Ints
    """The patient of each audited chart."""
    resampling: Resampling
    iou: float
    n_training: Ints | None = None
    """How many training charts have each label; None where there is no training split."""
    categories: tuple[str, ...] = ()
    """Note categories that are also reported together."""
    all_codes: bool = True
    """Whether codes without gold evidence are compared too."""

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
    def frequencies(self) -> list[str] | None:
        """How frequent each label is in training, in words; None where that is not known."""
        if self.n_training is None:
            return None
        known = [*self.n_training.tolist(), *([0] * (self.memory.inputs.n_codes - len(self.n_training)))]
        return [next(name for least, name in reversed(_FREQUENCIES) if n >= least) for n in known]

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
    """One model's scores; axes are stratum, MATCHES, AVERAGES, MEASURES. Averages over codes have no interval."""

    strata: tuple[str, ...]
    point: Floats
    low: Floats
    high: Floats
    n_clusters: Ints
    """[stratum, match, measure] charts (or patients) that have something to score."""
    overall: ClusteredRatios
    """Of all evidence, summed over codes: one column per match and measure, for differences between models."""
    n_gold: Ints
    """[stratum, match]"""
    n_predicted: Ints


class Shares(NamedTuple):
    """Shares of charts, codes and gold spans, in the order of SHARES."""

    rates: Rates
    n_clusters: Ints
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
            means[ensemble] = _mean_measures(parts)
            measured |= dict(zip(members, parts, strict=True))
    for name in marked:
        if name not in measured:
            measured[name] = _measure(charts, marked[name], predictions[name])
    return {**{name: measured[name] for name in marked}, **means}


def _measure(charts: AuditedCharts, evidence: MarkedEvidence, answers: ModelPredictions) -> EvidenceMeasures:
    """One model's evidence against the gold evidence."""
    gold, found = evidence.gold, evidence.spans
    scores = _scores(charts, gold, found, _strata(charts, gold, found, answers))
    drawn, chance = random_evidence(charts.memory, gold, found)
    return EvidenceMeasures(
        scores, _scores(charts, gold, drawn, random=True), chance, _shares(charts, gold, found, answers)
    )


def _strata(charts: AuditedCharts, gold: Spans, predicted: Spans, answers: ModelPredictions) -> list[Stratum]:
    """The parts of the evidence that are reported separately; a part that is all of it is left out."""
    memory = charts.memory
    rows, notes = memory.charts.rows, memory.inputs.notes
    strata: list[Stratum] = []
    if notes.start.size:
        ours, theirs = (notes.categories(rows[side.note], side.begin) for side in (gold, predicted))
        strata += strata_by_group("category", ours, theirs)
        if charts.categories:
            name = f"categories={', '.join(charts.categories)}"
            strata.append(Stratum(name, np.isin(ours, charts.categories), np.isin(theirs, charts.categories)))
    systems = charts.systems
    if len({systems[k] for k in gold.code.tolist()}) > 1:
        strata += strata_by_group("code system", [systems[k] for k in gold.code], [systems[k] for k in predicted.code])
    if (often := charts.frequencies) is not None:
        strata += strata_by_group("frequency", [often[k] for k in gold.code], [often[k] for k in predicted.code])
    strata += strata_by_length(memory.charts.words, gold)
    kinds = charts.completeness
    if len({kinds[k] for k in gold.note.tolist()} - {""}) > 1:
        strata += strata_by_group("annotation", [kinds[k] for k in gold.note], [kinds[k] for k in predicted.note])
    if answers.visible is not None and answers.facts.window is not None:
        strata += strata_by_window(answers.visible[rows], gold)
    return strata


def _scores(
    charts: AuditedCharts, gold: Spans, predicted: Spans, strata: Sequence[Stratum] = (), *, random: bool = False
) -> MatchScores:
    """Scores of some evidence; `random`: its words were drawn independently of each other."""
    counts = count_matches(
        charts.words,
        gold,
        predicted,
        chart=np.arange(charts.n),
        n_codes=charts.memory.inputs.n_codes,
        n_charts=charts.n,
        strata=strata,
        iou=charts.iou,
    )
    point = span_scores(counts, n_replicates=0).point
    tp, fp, fn = np.moveaxis(sum_by_unit(counts.by_chart(), units_of(charts.units)), -1, 0)
    n_units, shape = len(tp), (*tp.shape[1:], len(MEASURES))
    flat = (each.reshape(n_units, -1) for each in (tp, fp, fn))
    found = match_ratios(*flat, level=charts.resampling.level, random=random)
    low, high = np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    for ends, known in ((low, found.rates.low), (high, found.rates.high)):
        ends[:, :, AVERAGES.index("micro")] = known.reshape(shape)
        ends[np.isnan(point)] = np.nan
    totals = counts.totals()
    n_columns = int(np.prod(shape[1:]))
    return MatchScores(
        counts.strata,
        point,
        low,
        high,
        found.n_clusters.reshape(shape),
        found.columns(slice(n_columns)),
        totals[..., 0] + totals[..., 2],
        totals[..., 0] + totals[..., 1],
    )


def match_ratios(tp: Floats, fp: Floats, fn: Floats, *, level: float = 0.95, random: bool = False) -> ClusteredRatios:
    """Precision, recall and F1 of [chart, match] counts, three columns per match.

    All three are shares: of what is predicted, of the gold evidence, and of both.
    """
    above, below = np.stack([tp, tp, 2 * tp], axis=-1), np.stack([tp + fp, tp + fn, 2 * tp + fp + fn], axis=-1)
    table = (each.reshape(len(tp), -1) for each in (above, below))
    return clustered_ratios(*table, level=level, added=1.0 if random else None)


def random_evidence(memory: EvidenceMemory, gold: Spans, predicted: Spans) -> tuple[Spans, tuple[float, ...]]:
    """As many words at random, for each chart and code; and the token scores that this has on average.

    Drawn without replacement from the chart's words, so a draw hits k g / W gold words on average, of W words with g
    gold ones.
    """
    words, n, n_codes = memory.charts.words, memory.n_audited, memory.inputs.n_codes
    marked, k = _cells(memory, predicted)
    ours, g = _cells(memory, gold, whole=True)
    n_words = np.diff(words.first)[:n]
    place = np.searchsorted(ours, marked)
    hit = np.isin(marked, ours)
    expected = float((k[hit] * g[place[hit]] / n_words[marked[hit] // n_codes]).sum())
    n_gold = int(_cells(memory, gold)[1].sum())
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


def _shares(charts: AuditedCharts, gold: Spans, predicted: Spans, answers: ModelPredictions) -> Shares:
    """Charts and codes that are missed entirely, codes that are all false, gold spans that the model cannot read."""
    memory, n, n_codes = charts.memory, charts.n, charts.memory.inputs.n_codes
    ours, theirs = _cells(memory, gold)[0], _cells(memory, predicted)[0]
    above, below = np.zeros((n, len(SHARES))), np.zeros((n, len(SHARES)))
    both = theirs[np.isin(theirs, ours)]
    has_gold, has_any = (np.bincount(cells // n_codes, minlength=n) > 0 for cells in (ours, both))
    below[:, 0], above[:, 0] = has_gold, has_gold & ~has_any
    np.add.at(below[:, 1], ours // n_codes, 1)
    np.add.at(above[:, 1], ours[~np.isin(ours, theirs)] // n_codes, 1)
    if charts.all_codes:  # otherwise no code without gold evidence is compared
        np.add.at(below[:, 2], theirs // n_codes, 1)
        np.add.at(above[:, 2], theirs[~np.isin(theirs, ours)] // n_codes, 1)
    np.add.at(below[:, 3], gold.note, 1)
    if answers.visible is not None:
        np.add.at(above[:, 3], gold.note[gold.end > answers.visible[memory.charts.rows][gold.note]], 1)
    np.add.at(below[:, 4], gold.note, 1)
    np.add.at(above[:, 4], gold.note[_touched(memory, gold, predicted)], 1)
    units = units_of(charts.units)
    found = clustered_ratios(*(sum_by_unit(each, units) for each in (above, below)), level=charts.resampling.level)
    return Shares(found.rates, found.n_clusters, below.sum(axis=0).astype(np.int64))


def _touched(memory: EvidenceMemory, gold: Spans, predicted: Spans) -> NDArray[np.bool_]:
    """Which gold spans share a word with a predicted span of their code."""
    n_codes, keys = memory.inputs.n_codes, []
    for side in (gold, predicted):
        covered = cover(memory.charts.words, side)
        of = np.repeat(np.arange(side.note.size), np.diff(covered.first))
        keys.append((covered.word * n_codes + side.code[of], of))
    touched = np.zeros(gold.note.size, np.bool_)
    touched[keys[0][1][np.isin(keys[0][0], keys[1][0])]] = True
    return touched


def _mean_measures(parts: Sequence[EvidenceMeasures]) -> EvidenceMeasures:
    """The mean over the members of an ensemble; they share their charts, so ends of intervals are means of theirs."""
    return EvidenceMeasures(
        _mean_scores([part.scores for part in parts]),
        _mean_scores([part.random for part in parts]),
        tuple(np.mean([part.chance for part in parts], axis=0).tolist()),
        _mean_shares([part.shares for part in parts]),
    )


def _mean_scores(parts: Sequence[MatchScores]) -> MatchScores:
    """All evidence, and the strata that all members have, with the same gold evidence in them: windows may differ."""
    first = parts[0]
    of = [{name: k for k, name in enumerate(part.strata)} for part in parts]
    shared = [
        name
        for name, k in of[0].items()
        if name == ALL
        or all(
            name in here and np.array_equal(part.n_gold[here[name]], first.n_gold[k])
            for part, here in zip(parts, of, strict=True)
        )
    ]
    index = [[here[name] for name in shared] for here in of]

    def mean(columns: Sequence[Floats]) -> Floats:
        return np.asarray(np.mean([each[rows] for each, rows in zip(columns, index, strict=True)], axis=0))

    return MatchScores(
        tuple(shared),
        mean([part.point for part in parts]),
        mean([part.low for part in parts]),
        mean([part.high for part in parts]),
        np.min([part.n_clusters[rows] for part, rows in zip(parts, index, strict=True)], axis=0),
        _mean_ratios([part.overall for part in parts]),
        np.rint(mean([part.n_gold.astype(np.float64) for part in parts])).astype(np.int64),
        np.sum([part.n_predicted[rows] for part, rows in zip(parts, index, strict=True)], axis=0),
    )


def _mean_ratios(parts: Sequence[ClusteredRatios]) -> ClusteredRatios:
    return ClusteredRatios(
        _mean_rates([part.rates for part in parts]),
        np.mean([part.residual for part in parts], axis=0),
        np.min([part.n_clusters for part in parts], axis=0),
        np.mean([part.n_equal for part in parts], axis=0),
    )


def _mean_rates(parts: Sequence[Rates]) -> Rates:
    return Rates(*(np.mean([each[k] for each in parts], axis=0) for k in range(3)))


def _mean_shares(parts: Sequence[Shares]) -> Shares:
    """Members share their gold evidence; codes that they point at are counted over all of them."""
    n, false = parts[0].n.copy(), SHARES.index("codes_false")
    n[false] = sum(int(part.n[false]) for part in parts)
    rates = _mean_rates([part.rates for part in parts])
    return Shares(rates, np.min([part.n_clusters for part in parts], axis=0), n)
