"""Evidence against gold evidence: counts, scores and their intervals, for all of it and by strata.

Evidence paper, Section 6.2 (four ways to match, micro and by code), plus overlap and IoU; by note category, code
system, length of the gold evidence, kind of annotation and the model's window. As many random words show what chance
gives. With sampling weights, what is found, false and missed in a chart counts by the chart's weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.marking import MarkedEvidence, runs
from palpate.audits.evidence.plan import EvidenceMemory
from palpate.audits.evidence.strata import AuditedCharts, evidence_strata
from palpate.cases.edits import Ints
from palpate.results import ModelPredictions, Predictions
from palpate.stats.clustered import sum_by_unit
from palpate.stats.clustered_rates import ClusteredRatios, Rates, clustered_ratios
from palpate.stats.evidence import (
    AVERAGES,
    MATCHES,
    MEASURES,
    MatchCounts,
    Spans,
    Stratum,
    count_matches,
    cover,
    span_scores,
)

Floats = NDArray[np.float64]
ALL, RANDOM = "all", "random evidence"
_N_DRAWS = 10
SPANS_TOUCHED = "spans_touched"
SHARES = ("charts_missed", "codes_missed", "codes_false", "evidence_beyond_window", SPANS_TOUCHED)


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
    """Expected token precision, recall and F1 of as many random words: those of `random`."""
    shares: Shares
    touched: Mapping[str, Shares]
    """By stratum: the share of gold spans of which at least a word is marked."""


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
    strata = evidence_strata(charts, gold, found, answers)
    counts = _counts(charts, gold, found, strata)
    point = span_scores(counts, n_replicates=0, weight=charts.weight).point
    scores = _scores(charts, counts.by_chart(), point, counts.strata)
    random, chance = _random_scores(charts, gold, found)
    touched = _touched_shares(charts, gold, found, strata)
    return EvidenceMeasures(scores, random, chance, _shares(charts, gold, found, answers), touched)


def _counts(charts: AuditedCharts, gold: Spans, predicted: Spans, strata: Sequence[Stratum] = ()) -> MatchCounts:
    return count_matches(
        charts.words,
        gold,
        predicted,
        chart=np.arange(charts.n),
        n_codes=charts.memory.inputs.n_codes,
        n_charts=charts.n,
        strata=strata,
        iou=charts.iou,
    )


def _scores(
    charts: AuditedCharts, by_chart: Floats, point: Floats, strata: tuple[str, ...] = (ALL,), *, random: bool = False
) -> MatchScores:
    """Scores of [chart, stratum, match, 3] counts; `random`: words were drawn independently of each other."""
    tp, fp, fn = np.moveaxis(sum_by_unit(by_chart, charts.weighed), -1, 0)
    n_units, shape = len(tp), (*tp.shape[1:], len(MEASURES))
    flat = (each.reshape(n_units, -1) for each in (tp, fp, fn))
    weighted = charts.weight is not None
    found = match_ratios(*flat, level=charts.resampling.level, random=random, weighted=weighted)
    low, high = np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    for ends, known in ((low, found.rates.low), (high, found.rates.high)):
        ends[:, :, AVERAGES.index("micro")] = known.reshape(shape)
        ends[np.isnan(point)] = np.nan
    totals = np.rint(by_chart.sum(axis=0)).astype(np.int64)
    n_columns = int(np.prod(shape[1:]))
    return MatchScores(
        strata,
        point,
        low,
        high,
        found.n_clusters.reshape(shape),
        found.columns(slice(n_columns)),
        totals[..., 0] + totals[..., 2],
        totals[..., 0] + totals[..., 1],
    )


def _random_scores(charts: AuditedCharts, gold: Spans, found: Spans) -> tuple[MatchScores, tuple[float, ...]]:
    """What as many random words reach: for tokens exactly what is expected, otherwise the mean of some draws."""
    expected = expected_hits(charts.memory, gold, found)
    drawn = [_counts(charts, gold, each) for each in random_evidence(charts.memory, found)]
    by_chart = np.mean([counts.by_chart() for counts in drawn], axis=0)
    token = by_chart[:, :, MATCHES.index("token")]
    token[..., 1:] += (token[..., 0] - expected[:, None])[..., None]  # how many are drawn, and are gold, is fixed
    token[..., 0] = expected[:, None]
    points = np.array([span_scores(counts, n_replicates=0, weight=charts.weight).point for counts in drawn])
    known = (~np.isnan(points)).sum(axis=0)
    point = np.divide(np.nansum(points, axis=0), known, out=np.full(points.shape[1:], np.nan), where=known > 0)
    tp, fp, fn = np.moveaxis(sum_by_unit(by_chart, charts.weighed).sum(axis=0), -1, 0)
    micro = point[:, :, AVERAGES.index("micro")]
    for k, (above, below) in enumerate(((tp, tp + fp), (tp, tp + fn), (2 * tp, 2 * tp + fp + fn))):
        micro[..., k] = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    chance = tuple(float(value) for value in micro[0, MATCHES.index("token")])
    return _scores(charts, by_chart, point, random=True), chance


def match_ratios(
    tp: Floats, fp: Floats, fn: Floats, *, level: float = 0.95, random: bool = False, weighted: bool = False
) -> ClusteredRatios:
    """Precision, recall and F1 of [chart, match] counts, three columns per match.

    All three are shares: of what is predicted, of the gold evidence, and of both. `weighted`: the counts are those of
    charts that stand for unequal numbers.
    """
    above, below = np.stack([tp, tp, 2 * tp], axis=-1), np.stack([tp + fp, tp + fn, 2 * tp + fp + fn], axis=-1)
    shares = (each.reshape(len(tp), -1) for each in (above, below))
    return weighted_ratios(*shares, level=level, weighted=weighted, added=1.0 if random else None)


def weighted_ratios(
    above: Floats, below: Floats, *, level: float, weighted: bool, added: float | None = None
) -> ClusteredRatios:
    """Shares of clusters that may have sampling weights.

    The next chart that is found or missed as a whole may be a heavy one: the clusters that are added to the variance
    have the size of the cluster of a case drawn at random, where that makes an interval longer.
    """
    usual = clustered_ratios(above, below, level=level, added=added)
    if not weighted or added is not None:
        return usual
    total = below.sum(axis=0)
    size = np.divide((below**2).sum(axis=0), total, out=np.ones_like(total), where=total > 0)
    heavy = clustered_ratios(above, below, level=level, added=size).rates
    low, high = np.minimum(usual.rates.low, heavy.low), np.maximum(usual.rates.high, heavy.high)
    return usual._replace(rates=Rates(usual.rates.value, low, high))


def expected_hits(memory: EvidenceMemory, gold: Spans, predicted: Spans) -> Floats:
    """[chart] how many gold words as many random words hit on average, code by code.

    They are drawn without replacement from the chart's words, so k of them hit k g / W of g gold words among W.
    """
    n, n_codes = memory.n_audited, memory.inputs.n_codes
    marked, k = _cells(memory, predicted)
    ours, g = _cells(memory, gold, whole=True)
    hit = np.isin(marked, ours)
    chart = marked[hit] // n_codes
    hits = k[hit] * g[np.searchsorted(ours, marked[hit])] / np.diff(memory.charts.words.first)[chart]
    return np.bincount(chart, weights=hits, minlength=n).astype(np.float64)


def random_evidence(memory: EvidenceMemory, predicted: Spans) -> Iterator[Spans]:
    """As many words at random, for each chart and code; some draws."""
    words, n_codes = memory.charts.words, memory.inputs.n_codes
    marked, k = _cells(memory, predicted)
    n_words = np.diff(words.first)
    rng = np.random.default_rng([memory.seed, 1])
    for _ in range(_N_DRAWS):
        drawn = [np.zeros(0, np.int64)]
        for cell, size in zip(marked.tolist(), k.tolist(), strict=True):
            chart = cell // n_codes
            drawn.append(words.first[chart] + rng.choice(int(n_words[chart]), size=size, replace=False))
        yield runs(memory.charts, np.concatenate(drawn).astype(np.int64), np.repeat(marked % n_codes, k))


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
    units = charts.weighed
    shares = (sum_by_unit(each, units) for each in (above, below))
    found = weighted_ratios(*shares, level=charts.resampling.level, weighted=charts.weight is not None)
    return Shares(found.rates, found.n_clusters, below.sum(axis=0).astype(np.int64))


def _touched_shares(
    charts: AuditedCharts, gold: Spans, predicted: Spans, strata: Sequence[Stratum]
) -> dict[str, Shares]:
    """The share of each stratum's gold spans that are touched, whatever touches them."""
    if not strata:
        return {}
    touched = _touched(charts.memory, gold, predicted)
    above, below = np.zeros((charts.n, len(strata))), np.zeros((charts.n, len(strata)))
    for k, stratum in enumerate(strata):
        mine = np.ones(gold.note.size, np.bool_) if stratum.gold is None else stratum.gold
        np.add.at(below[:, k], gold.note[mine], 1)
        np.add.at(above[:, k], gold.note[mine & touched], 1)
    units = charts.weighed
    shares = (sum_by_unit(each, units) for each in (above, below))
    found = weighted_ratios(*shares, level=charts.resampling.level, weighted=charts.weight is not None)
    n = below.sum(axis=0).astype(np.int64)
    return {
        stratum.name: Shares(Rates(*(part[[k]] for part in found.rates)), found.n_clusters[[k]], n[[k]])
        for k, stratum in enumerate(strata)
    }


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
        {
            name: _mean_touched([part.touched[name] for part in parts])
            for name, first in parts[0].touched.items()
            if all(name in part.touched and np.array_equal(part.touched[name].n, first.n) for part in parts)
        },
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


def _mean_touched(parts: Sequence[Shares]) -> Shares:
    rates = _mean_rates([part.rates for part in parts])
    return Shares(rates, np.min([part.n_clusters for part in parts], axis=0), parts[0].n)


def _mean_shares(parts: Sequence[Shares]) -> Shares:
    """Members share their gold evidence; codes that they point at are counted over all of them."""
    n, false = parts[0].n.copy(), SHARES.index("codes_false")
    n[false] = sum(int(part.n[false]) for part in parts)
    rates = _mean_rates([part.rates for part in parts])
    return Shares(rates, np.min([part.n_clusters for part in parts], axis=0), n)
