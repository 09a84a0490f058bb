"""Faithfulness: the strongest words are taken out of a chart, or all others, and as many random words.

Comprehensiveness and sufficiency over fractions of the words (DeYoung et al. 2020), for the labels that the model
predicts. Words beyond the model's window are never among them: taking out what nobody reads proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.asking import (
    Additions,
    Asking,
    Memory,
    Pairs,
    cut_of,
    visible_words,
    why_no_removal,
)
from palpate.audits.evidence.marking import Found
from palpate.cases.edits import Ints
from palpate.perturb.occlusion import joined_gaps, only_words, without_words
from palpate.results import ModelPredictions, Plan
from palpate.stats.evidence import cover
from palpate.stats.evidence.faithfulness import MeanDrops, aopc, drop, mean_drops

Floats = NDArray[np.float64]
MARKED = "marked words"
ARMS = ("comprehensiveness", "sufficiency")
_MOST_EDITS = 6_000_000
"""Spans that are taken out for one model, in all: a bound on memory for charts of many thousand words."""


class Removal(NamedTuple):
    """What one model was asked: `variant` is [pair, arm, evidence or random, fraction]."""

    pairs: Pairs
    fractions: tuple[str, ...]
    variant: NDArray[np.int64]
    reason: str = ""


class Faithful(NamedTuple):
    """What came of it. Columns of the tables: for each arm and fraction, evidence, random, and evidence less random."""

    fractions: tuple[str, ...]
    evidence: Mapping[str, MeanDrops]
    random: Mapping[str, MeanDrops]
    less_random: Mapping[str, MeanDrops]
    aopc_evidence: Mapping[str, MeanDrops]
    aopc_random: Mapping[str, MeanDrops]
    aopc_less_random: Mapping[str, MeanDrops]
    n_pairs: int
    """Of all checkpoints, where it is their mean."""


class _Chart(NamedTuple):
    """The words of one chart that a model reads."""

    first: int
    begin: Ints
    end: Ints
    joined: NDArray[np.bool_]
    length: int
    shuffled: Ints
    """Random ranks: they break ties, and their reverse is the random evidence."""


def ask_removals(
    plan: Plan,
    predictions: Mapping[str, ModelPredictions],
    found: Mapping[str, Found],
    how: Asking,
    *,
    fractions: Sequence[float],
    n_pairs: int,
) -> Plan | None:
    """Ask for charts without their strongest words, and with nothing else; None where no model can be asked."""
    memory: Memory = plan.memory
    more = Additions(plan, how.replace_with)
    removal: dict[str, Removal] = {}
    for model, evidence in found.items():
        answers = predictions[model]
        if (nothing := not_removed(memory, answers, evidence, how)) is not None:
            removal[model] = nothing
            continue
        pairs = _predicted(memory, answers, how)
        rng = np.random.default_rng([memory.seed, len(pairs.chart)])
        charts = _charts(memory, answers, np.unique(pairs.chart), rng)
        graded = tuple(fractions) if evidence.graded is not None else ()
        some = _sample(pairs, charts, n_pairs, graded, rng)
        variant = _ask(more, model, memory, answers, evidence, some, charts, graded)
        names = (*(f"{share:g}" for share in graded), MARKED)
        removal[model] = Removal(some, names, variant)
    if not any(len(each.pairs.chart) for each in removal.values()):
        return None
    return more.plan(replace(memory, removal=removal, stage="removal"), list(predictions), "removal")


def not_removed(memory: Memory, answers: ModelPredictions, evidence: Found, how: Asking) -> Removal | None:
    """Why nothing can be taken out for a model; None if something can."""
    reason = why_no_removal(answers)
    if not reason and not len(_predicted(memory, answers, how).chart):
        reason = f"it predicts no label in the audited charts (p of {how.threshold_for(answers):g} or more)"
    if not reason and evidence.graded is None and not len(evidence.spans.note):
        reason = "it points at nothing"
    if not reason:
        return None
    none = np.zeros(0, np.int64)
    return Removal(Pairs(none, none), (MARKED,), np.zeros((0, 2, 2, 1), np.int64), reason)


def _predicted(memory: Memory, answers: ModelPredictions, how: Asking) -> Pairs:
    positive = answers.p[: memory.n_audited] >= how.threshold_for(answers)
    return Pairs(*(column.astype(np.int64) for column in np.nonzero(positive)))


def _charts(memory: Memory, answers: ModelPredictions, charts: Ints, rng: np.random.Generator) -> dict[int, _Chart]:
    words, stop = memory.charts.words, visible_words(memory, answers)
    found = {}
    for chart in charts.tolist():
        low, high = int(words.first[chart]), int(stop[chart])
        if high > low:
            begin, end, text = words.begin[low:high], words.end[low:high], words.texts[chart]
            gaps = joined_gaps(text, begin, end)
            found[chart] = _Chart(low, begin, end, gaps, len(text), rng.permutation(high - low))
    return found


def _sample(
    pairs: Pairs, charts: Mapping[int, _Chart], n_pairs: int, fractions: Sequence[float], rng: np.random.Generator
) -> Pairs:
    """Whole charts at random, until there are enough pairs or their edits would fill the memory."""
    kept: list[int] = []
    n_edits = 0.0
    share = 4 * sum(min(f, 1 - f) for f in (*fractions, 0.05))
    for chart in rng.permutation(np.unique(pairs.chart)).tolist():
        mine = np.flatnonzero(pairs.chart == chart).tolist() if chart in charts else []
        n_edits += share * len(mine) * (len(charts[chart].begin) if mine else 0)
        if kept and (len(kept) + len(mine) > n_pairs or n_edits > _MOST_EDITS):
            break
        kept += mine
    chosen = np.sort(np.asarray(kept, np.int64))[:n_pairs]
    return Pairs(pairs.chart[chosen], pairs.label[chosen])


def _ask(
    more: Additions,
    model: str,
    memory: Memory,
    answers: ModelPredictions,
    evidence: Found,
    pairs: Pairs,
    charts: Mapping[int, _Chart],
    fractions: Sequence[float],
) -> NDArray[np.int64]:
    """Variants of every pair, [pair, arm, evidence or random, fraction]; random words are drawn once a chart."""
    scores, marked = _strength(memory, evidence, pairs), _marked(memory, evidence)
    out = np.zeros((len(pairs.chart), 2, 2, len(fractions) + 1), np.int64)
    drawn: dict[tuple[int, int], tuple[int, int]] = {}
    for k, (chart, label) in enumerate(zip(pairs.chart.tolist(), pairs.label.tolist(), strict=True)):
        here, parent = charts[chart], int(memory.charts.rows[chart])
        cut = cut_of(answers, parent, here.length)
        n = len(here.begin)
        strength = np.zeros(n)
        word, score = scores[k]
        strength[word[word < here.first + n] - here.first] = score[word < here.first + n]
        order = np.lexsort((here.shuffled, -strength))
        sets = [order[: max(1, int(np.ceil(share * n)))] for share in fractions]
        own = np.asarray(marked.get((chart, label), ()), np.int64) - here.first
        for j, taken in enumerate([*sets, own[(own >= 0) & (own < n)]]):
            out[k, :, 0, j] = _both(more, parent, here, taken, cut, chart)
            if (chart, len(taken)) not in drawn:
                random = np.argsort(-here.shuffled)[: len(taken)]
                drawn[chart, len(taken)] = _both(more, parent, here, random, cut, chart)
            out[k, :, 1, j] = drawn[chart, len(taken)]
    more.ask(model, np.unique(out[out >= len(memory.charts.rows)]))
    return out


def _both(more: Additions, parent: int, here: _Chart, taken: Ints, cut: int | None, chart: int) -> tuple[int, int]:
    """The chart without some words, and with nothing else."""
    words = np.sort(taken)
    out = without_words(here.begin, here.end, here.joined, words)
    only = only_words(here.begin, here.end, here.joined, words, here.length)
    without = more.add(parent, out.start, out.end, cut=cut) if len(words) else chart
    return without, more.add(parent, only.start, only.end)


def _strength(memory: Memory, evidence: Found, pairs: Pairs) -> list[tuple[Ints, Floats]]:
    """Words and scores of each pair, in columns: every word that a model reads may have one."""
    if evidence.graded is None:
        return [(np.zeros(0, np.int64), np.zeros(0))] * len(pairs.chart)
    key = memory.charts.words.note[evidence.graded.word] * memory.n_codes + evidence.graded.label
    order = np.argsort(key, kind="stable")
    wanted = pairs.chart * memory.n_codes + pairs.label
    low, high = (np.searchsorted(key[order], wanted, side=side) for side in ("left", "right"))
    rows = [order[i:j] for i, j in zip(low.tolist(), high.tolist(), strict=True)]
    return [(evidence.graded.word[some], evidence.graded.score[some]) for some in rows]


def _marked(memory: Memory, evidence: Found) -> dict[tuple[int, int], list[int]]:
    """Words of each chart and label that count as evidence."""
    covered = cover(memory.charts.words, evidence.spans)
    of = np.repeat(np.arange(len(evidence.spans.note)), np.diff(covered.first))
    found: dict[tuple[int, int], set[int]] = {}
    for chart, label, word in zip(
        evidence.spans.note[of].tolist(), evidence.spans.code[of].tolist(), covered.word.tolist(), strict=True
    ):
        found.setdefault((chart, label), set()).add(word)
    return {key: sorted(words) for key, words in found.items()}


def faithfulness(
    parts: Sequence[tuple[Removal, ModelPredictions]], unit: Ints, *, rng: int, n_replicates: int
) -> Faithful | str:
    """Mean drops over pairs, with replicates by the unit of each audited chart; a string says why there are none.

    Of several checkpoints of a model, the mean over the checkpoints.
    """
    for removal, _ in parts:
        if not len(removal.pairs.chart):
            return removal.reason or "nothing was taken out"
    if len({removal.fractions for removal, _ in parts}) > 1:
        return "the evidence of some checkpoints has scores, and that of others has none"
    tables = [_drops(removal, answers) for removal, answers in parts]
    table, part = np.concatenate(tables), np.repeat(np.arange(len(parts)), [len(each) for each in tables])
    chart = unit[np.concatenate([removal.pairs.chart for removal, _ in parts])]
    graded = len(parts[0][0].fractions) - 1
    means = partial(mean_drops, chart=chart, part=part, rng=rng, n_replicates=n_replicates)
    rows: dict[str, dict[str, MeanDrops]] = {}
    for name, some in (
        ("evidence", table[:, :, 0]),
        ("random", table[:, :, 1]),
        ("less", table[:, :, 0] - table[:, :, 1]),
    ):
        for a, arm in enumerate(ARMS):
            # Evidence without scores has no fractions: its one set of words stands for the curve.
            area = aopc(some[:, a, :graded] if graded else some[:, a])
            rows.setdefault(name, {})[arm] = means(some[:, a])
            rows.setdefault(f"aopc_{name}", {})[arm] = means(area.reshape(-1, 1))
    return Faithful(
        parts[0][0].fractions,
        rows["evidence"],
        rows["random"],
        rows["less"],
        rows["aopc_evidence"],
        rows["aopc_random"],
        rows["aopc_less"],
        len(chart),
    )


def _drops(removal: Removal, answers: ModelPredictions) -> Floats:
    """How far the probability falls, [pair, arm, evidence or random, fraction]."""
    chart, label = removal.pairs
    return drop(answers.p[chart, label], answers.p[removal.variant, label[:, None, None, None]])
