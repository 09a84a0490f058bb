"""Evidence against gold evidence: counts, scores and their replicates, for all of it and by strata.

Evidence paper, Section 6.2 (four ways to match, micro and by code), with overlap and IoU besides; by note category,
code system, length of the gold evidence, kind of annotation and the model's window. As many random words show what
chance gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.asking import Memory
from palpate.audits.evidence.inputs import UNKNOWN
from palpate.audits.evidence.marking import Found, head, runs
from palpate.cases.edits import Ints
from palpate.results import ModelPredictions
from palpate.stats import percentile_interval, ratio_replicates
from palpate.stats.evidence import (
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
LOWER_BOUND = "a lower bound: the annotators marked what suffices, and other evidence counts as false"


@dataclass(frozen=True)
class Resampling:
    """How intervals are made; `unit` is the number that each audited chart is drawn by."""

    seed: int
    n_replicates: int
    level: float
    unit: Ints


class Scores(NamedTuple):
    """One model's scores; axes are stratum, MATCHES, AVERAGES, MEASURES."""

    strata: tuple[str, ...]
    point: Floats
    low: Floats
    high: Floats
    values: NDArray[np.float64]
    """Replicates, along a last axis: of all strata until the mean over checkpoints is made, then of the first only."""
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


class Measured(NamedTuple):
    """Everything about one model's evidence."""

    scores: Scores
    random: Scores
    chance: tuple[float, float, float]
    """Expected token precision, recall and F1 of as many random words."""
    shares: Shares


def audited_gold(memory: Memory) -> Spans:
    """The gold evidence of the audited charts."""
    return Spans(*(column[memory.gold.note < memory.n_audited] for column in memory.gold))


def wordless_gold(memory: Memory) -> int:
    """Gold spans of the audited charts without a word, such as a number above 10: nothing that could be found."""
    return int((np.diff(cover(memory.charts.words, audited_gold(memory)).first) == 0).sum())


def measure_all(
    memory: Memory,
    found: Mapping[str, Found],
    predictions: Mapping[str, ModelPredictions],
    families: Mapping[str, Sequence[str]],
    how: Resampling,
    *,
    iou: float,
) -> dict[str, Measured]:
    """Every model's evidence against the gold evidence; the mean over a model's checkpoints is a further model.

    Where a checkpoint gives no evidence, its model has no mean.
    """
    systems = systems_of(memory)
    measured: dict[str, Measured] = {}
    means: dict[str, Measured] = {}
    whole = {family: members for family, members in families.items() if all(name in found for name in members)}
    for family, members in whole.items():
        parts = [measure(memory, found[name], predictions[name], systems, how, iou=iou) for name in members]
        means[family] = _slim(mean_measured(parts, how))
        # 10,000 replicates of twenty strata are 60 MB a checkpoint: they are kept for one model at a time.
        measured |= {name: _slim(part) for name, part in zip(members, parts, strict=True)}
    for name in found:
        if name not in measured:
            measured[name] = _slim(measure(memory, found[name], predictions[name], systems, how, iou=iou))
    return {**{name: measured[name] for name in found}, **means}


def measure(
    memory: Memory, found: Found, answers: ModelPredictions, systems: Sequence[str], how: Resampling, *, iou: float
) -> Measured:
    """One model's evidence against the gold evidence."""
    gold = audited_gold(memory)
    strata = strata_of(memory, gold, found.spans, answers, systems)
    scores = _scores(memory, gold, found.spans, strata, len(systems), how, iou)
    drawn, chance = random_evidence(memory, gold, found.spans, len(systems))
    random = _scores(memory, gold, drawn, (), len(systems), how, iou)
    return Measured(scores, random, chance, _shares(memory, gold, found.spans, answers, len(systems), how))


def strata_of(
    memory: Memory, gold: Spans, predicted: Spans, answers: ModelPredictions, systems: Sequence[str]
) -> tuple[Stratum, ...]:
    """The parts of the evidence that are told apart; of a part that is all of it, nothing is said."""
    rows = memory.charts.rows
    strata: list[Stratum] = []
    if memory.places.start.size:
        ours, theirs = (memory.places.categories(rows[side.note], side.begin) for side in (gold, predicted))
        strata += strata_by_group("category", ours, theirs)
    known = [system or UNKNOWN for system in systems]
    if len({known[k] for k in gold.code.tolist()}) > 1:
        strata += strata_by_group("code system", [known[k] for k in gold.code], [known[k] for k in predicted.code])
    strata += strata_by_length(memory.charts.words, gold)
    kinds = completeness(memory)
    if len({kinds[k] for k in gold.note.tolist()} - {""}) > 1:
        strata += strata_by_group("annotation", [kinds[k] for k in gold.note], [kinds[k] for k in predicted.note])
    if answers.visible is not None and answers.facts.window is not None:
        strata += strata_by_window(answers.visible[rows], gold)
    return tuple(strata)


def systems_of(memory: Memory) -> list[str]:
    """The code system of each label, from the first row that names it; empty if none does."""
    systems = [""] * memory.n_codes
    for placed in (memory.placed_gold, *memory.tables.values()):
        for label, system in zip(placed.label.tolist(), placed.code_system, strict=True):
            systems[label] = systems[label] or system
    return systems


def completeness(memory: Memory) -> tuple[str, ...]:
    """Whether each audited chart's annotation is sufficient, complete, both, or not known ("")."""
    found: list[set[str]] = [set() for _ in range(memory.n_audited)]
    number = memory.charts.number(memory.n_cases)[memory.placed_gold.row]
    for chart, kind in zip(number.tolist(), memory.placed_gold.completeness, strict=True):
        if kind and 0 <= chart < memory.n_audited:
            found[chart].add(kind)
    return tuple(" and ".join(sorted(kinds)) for kinds in found)


def _scores(
    memory: Memory,
    gold: Spans,
    predicted: Spans,
    strata: Sequence[Stratum],
    n_codes: int,
    how: Resampling,
    iou: float,
) -> Scores:
    n = memory.n_audited
    counts = count_matches(
        head(memory.charts.words, n),
        gold,
        predicted,
        chart=np.arange(n),
        n_codes=n_codes,
        n_charts=n,
        strata=strata,
        iou=iou,
    )
    found = span_scores(counts, rng=how.seed, n_replicates=how.n_replicates, patient=how.unit)
    low, high = percentile_interval(found.values, level=how.level)
    few = len(np.unique(how.unit)) < 2
    totals = counts.totals()
    return Scores(
        found.strata,
        found.point,
        np.where(few, np.nan, low),
        np.where(few, np.nan, high),
        found.values,
        totals[..., 0] + totals[..., 2],
        totals[..., 0] + totals[..., 1],
    )


def random_evidence(
    memory: Memory, gold: Spans, predicted: Spans, n_codes: int
) -> tuple[Spans, tuple[float, float, float]]:
    """As many words at random, for each chart and code; and the token scores that this has on average.

    Drawn without replacement from the chart's words, so a draw hits k g / W gold words on average, of W words with g
    gold ones.
    """
    words, n = memory.charts.words, memory.n_audited
    marked, k = _cells(memory, predicted, n_codes)
    ours, g = _cells(memory, gold, n_codes, whole=True)
    n_words = np.diff(words.first)[:n]
    place = np.searchsorted(ours, marked)
    hit = np.isin(marked, ours)
    expected = float((k[hit] * g[place[hit]] / n_words[marked[hit] // n_codes]).sum())
    n_gold = int(_cells(memory, gold, n_codes)[1].sum())
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
    label = np.repeat(marked % n_codes, k)
    precision, recall, f1 = chance
    return runs(memory.charts, np.concatenate(drawn).astype(np.int64), label), (precision, recall, f1)


def _cells(memory: Memory, side: Spans, n_codes: int, *, whole: bool = False) -> tuple[Ints, Ints]:
    """Charts and codes with marked words (chart * n_codes + code), sorted, and how many distinct words each has.

    With `whole`, only words that are marked from end to end; otherwise pieces of one word count as they do in a match,
    each for itself, but never more than the chart has words.
    """
    words = memory.charts.words
    covered = cover(words, side)
    of = np.repeat(np.arange(side.note.size), np.diff(covered.first))
    kept = covered.piece == covered.word if whole else np.ones(of.size, np.bool_)
    cell = side.note[of] * n_codes + side.code[of]
    pairs = np.unique(np.stack([cell[kept], covered.piece[kept]], axis=1), axis=0)
    cells, size = np.unique(pairs[:, 0], return_counts=True)
    return cells, np.minimum(size, np.diff(words.first)[cells // n_codes] if cells.size else size)


def _shares(
    memory: Memory, gold: Spans, predicted: Spans, answers: ModelPredictions, n_codes: int, how: Resampling
) -> Shares:
    """Charts and codes that are missed whole, codes that are false whole, gold spans that the model can't read."""
    n = memory.n_audited
    ours, theirs = _cells(memory, gold, n_codes)[0], _cells(memory, predicted, n_codes)[0]
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
    _, unit = np.unique(how.unit, return_inverse=True)
    summed = [np.zeros((int(unit.max(initial=0)) + 1, len(SHARES))) for _ in range(2)]
    for total, part in zip(summed, (above, below), strict=True):
        np.add.at(total, unit.reshape(-1), part)
    values = ratio_replicates(*summed, rng=how.seed, n_replicates=how.n_replicates)
    low, high = percentile_interval(values, level=how.level)
    total = below.sum(axis=0)
    point = np.divide(above.sum(axis=0), total, out=np.full(len(SHARES), np.nan), where=total > 0)
    return Shares(point, low, high, values, total.astype(np.int64))


def mean_measured(parts: Sequence[Measured], how: Resampling) -> Measured:
    """The mean over the checkpoints of a model, on the same resampled charts."""
    precision, recall, f1 = np.mean([part.chance for part in parts], axis=0).tolist()
    return Measured(
        _mean_scores([part.scores for part in parts], how.level),
        _mean_scores([part.random for part in parts], how.level),
        (precision, recall, f1),
        _mean_shares([part.shares for part in parts], how.level),
    )


def _mean_scores(parts: Sequence[Scores], level: float) -> Scores:
    """Of the strata that all have, with the same gold evidence in them: windows may differ."""
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
    few = np.isnan(first.low[index[0]])
    return Scores(
        tuple(shared),
        np.mean([part.point[rows] for part, rows in zip(parts, index, strict=True)], axis=0),
        np.where(few, np.nan, low),
        np.where(few, np.nan, high),
        values,
        first.n_gold[index[0]],
        np.sum([part.n_predicted[rows] for part, rows in zip(parts, index, strict=True)], axis=0),
    )


def _mean_shares(parts: Sequence[Shares], level: float) -> Shares:
    """Checkpoints share their gold evidence; codes that they point at are counted over all of them."""
    values = np.mean([part.values for part in parts], axis=0)
    low, high = percentile_interval(values, level=level)
    n, false = parts[0].n.copy(), SHARES.index("codes_false")
    n[false] = sum(int(part.n[false]) for part in parts)
    return Shares(np.mean([part.point for part in parts], axis=0), low, high, values, n)


def _slim(measured: Measured) -> Measured:
    """Without the replicates of strata, which are not compared between models."""
    scores = measured.scores
    return measured._replace(scores=scores._replace(values=scores.values[:1].copy()))
