"""Faithfulness: the strongest words are taken out of a chart, or all others; and as many random words.

Comprehensiveness and sufficiency over fractions of the words (DeYoung et al. 2020), for the labels in question that the
model predicts, also where evidence is compared for all gold codes: a probability of 0.05 can fall by 0.05 at most, so
codes that are not predicted would make every model look unfaithful, the more so the more codes it misses. How many were
left out is told. Words beyond the model's window are never taken out: removing what is not read proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.asking import Asking, EditedCopies, cut_of, visible_words, why_no_removal
from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.plan import ChartLabelPairs, EvidenceMemory, RandomSets, Removal
from palpate.audits.evidence.strata import AuditedCharts, pair_strata
from palpate.cases.edits import Ints
from palpate.perturb.occlusion import joined_gaps, only_words, without_words
from palpate.results import ModelPredictions, Plan, Predictions
from palpate.stats.evidence import cover
from palpate.stats.evidence.faithfulness import MeanDrops, aopc, drop, mean_drops

Floats = NDArray[np.float64]
MARKED = "marked words"
ARMS = ("comprehensiveness", "sufficiency")
_TENTH = 0.1
_MOST_EDITS = 6_000_000
"""How many spans may be taken out for one model in all: this bounds the memory for charts of many thousand words."""


class ArmDrops(NamedTuple):
    """Mean drops of the probability without the evidence, without random words, and their difference."""

    evidence: MeanDrops
    random: MeanDrops
    difference: MeanDrops


class StratumDrops(NamedTuple):
    """The pairs of a stratum: how many they are, and by arm the mean over the fractions."""

    n_pairs: int
    areas: Mapping[str, ArmDrops]


class Faithfulness(NamedTuple):
    """What taking words out did to one model's predictions."""

    fractions: tuple[str, ...]
    drops: Mapping[str, ArmDrops]
    """By arm; one column per fraction."""
    areas: Mapping[str, ArmDrops]
    """By arm; the mean over the fractions."""
    n_pairs: int
    """For an ensemble, of all members together."""
    n_predicted: int
    """Pairs in question that the model predicts; of more than `faithfulness_pairs`, some charts were drawn."""
    n_asked: int
    """Pairs in question, predicted or not."""
    strata: Mapping[str, StratumDrops]


class ReadWords(NamedTuple):
    """The words of one chart that a model reads."""

    first: int
    begin: Ints
    end: Ints
    joined: NDArray[np.bool_]
    length: int
    shuffled: Ints
    """Random ranks: they break ties, and their reverse is the random evidence."""


def ask_removals(
    plan: Plan[EvidenceMemory],
    predictions: Predictions,
    marked: Mapping[str, MarkedEvidence],
    asking: Asking,
    *,
    fractions: Sequence[float],
    n_pairs: int,
    n_draws: int = 0,
) -> Plan[EvidenceMemory] | None:
    """Ask for charts without their strongest words, and with nothing else; None where no model can be asked."""
    memory = plan.memory
    more = EditedCopies(plan, asking.replace_with)
    removal: dict[str, Removal] = {}
    for model, evidence in marked.items():
        answers = predictions[model]
        if (nothing := no_removal(memory, answers, evidence, asking)) is not None:
            removal[model] = nothing
            continue
        pairs = _predicted(memory, answers, asking)
        rng = np.random.default_rng([memory.seed, len(pairs.chart)])
        charts = _read_words(memory, answers, np.unique(pairs.chart), rng)
        shares = tuple(fractions) if evidence.scored is not None else ()
        some = _sample(pairs, charts, n_pairs, shares, rng)
        variant = _ask(more, model, memory, answers, evidence, some, charts, shares)
        draws = n_draws if evidence.scored is not None else 0
        drawn = np.unique(some.chart).tolist() if draws else []
        random = {chart: draw_sets(more, model, memory, answers, charts[chart], chart, draws, rng) for chart in drawn}
        removal[model] = Removal(some, (*(f"{share:g}" for share in shares), MARKED), variant, random=random)
    if not any(len(each.pairs.chart) for each in removal.values()):
        return None
    return more.plan(replace(memory, removal=removal, stage="removal"), list(predictions.scored), "removal")


def draw_sets(
    more: EditedCopies,
    model: str,
    memory: EvidenceMemory,
    answers: ModelPredictions,
    here: ReadWords,
    chart: int,
    n_draws: int,
    rng: np.random.Generator,
) -> RandomSets:
    """Copies of a chart without a random tenth of the words that the model reads; all labels share them."""
    parent, n = int(memory.charts.rows[chart]), len(here.begin)
    size, sets, variant = max(1, round(_TENTH * n)), [], []
    for _ in range(n_draws):
        taken = np.sort(rng.choice(n, size=size, replace=False))
        out = without_words(here.begin, here.end, here.joined, taken)
        variant.append(more.add(parent, out.start, out.end, cut=cut_of(answers, parent, here.length)))
        sets.append(here.first + taken)
    more.ask(model, variant)
    return RandomSets(np.asarray(variant, np.int64), tuple(sets))


def no_removal(
    memory: EvidenceMemory, answers: ModelPredictions, evidence: MarkedEvidence, asking: Asking
) -> Removal | None:
    """Why nothing can be taken out for a model; None if something can."""
    reason = why_no_removal(answers)
    if not reason and not len(_predicted(memory, answers, asking).chart):
        among = "" if asking.codes == "all" else " that is in question"
        reason = f"it predicts no label{among} in the audited charts (p of {asking.threshold_for(answers):g} or more)"
    if not reason and evidence.scored is None and not len(evidence.spans.note):
        reason = "it points at nothing"
    if not reason:
        return None
    none = np.zeros(0, np.int64)
    return Removal(ChartLabelPairs(none, none), (MARKED,), np.zeros((0, 2, 2, 1), np.int64), reason)


def _predicted(memory: EvidenceMemory, answers: ModelPredictions, asking: Asking) -> ChartLabelPairs:
    """The codes in question that the model predicts: it has pointed at evidence for no others."""
    predicted = asking.predicted(answers, memory.n_audited)
    asked = asking.in_question(memory, answers)[: memory.n_audited, : predicted.shape[1]]
    return ChartLabelPairs(*np.nonzero(predicted & asked))


def _read_words(
    memory: EvidenceMemory, answers: ModelPredictions, charts: Ints, rng: np.random.Generator
) -> dict[int, ReadWords]:
    words, stop = memory.charts.words, visible_words(memory, answers)
    found = {}
    for chart in charts.tolist():
        low, high = int(words.first[chart]), int(stop[chart])
        if high > low:
            begin, end, text = words.begin[low:high], words.end[low:high], words.texts[chart]
            gaps = joined_gaps(text, begin, end)
            found[chart] = ReadWords(low, begin, end, gaps, len(text), rng.permutation(high - low))
    return found


def _sample(
    pairs: ChartLabelPairs,
    charts: Mapping[int, ReadWords],
    n_pairs: int,
    fractions: Sequence[float],
    rng: np.random.Generator,
) -> ChartLabelPairs:
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
    return ChartLabelPairs(pairs.chart[chosen], pairs.label[chosen])


def _ask(
    more: EditedCopies,
    model: str,
    memory: EvidenceMemory,
    answers: ModelPredictions,
    evidence: MarkedEvidence,
    pairs: ChartLabelPairs,
    charts: Mapping[int, ReadWords],
    fractions: Sequence[float],
) -> NDArray[np.int64]:
    """Variants of every pair, [pair, arm, evidence or random, fraction]; random words are drawn once per chart."""
    scores, marked = strengths(memory, evidence, pairs), _marked(memory, evidence)
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


def _both(
    more: EditedCopies, parent: int, here: ReadWords, taken: Ints, cut: int | None, chart: int
) -> tuple[int, int]:
    """The chart without some words, and with nothing else."""
    words = np.sort(taken)
    out = without_words(here.begin, here.end, here.joined, words)
    only = only_words(here.begin, here.end, here.joined, words, here.length)
    without = more.add(parent, out.start, out.end, cut=cut) if len(words) else chart
    return without, more.add(parent, only.start, only.end)


def strengths(memory: EvidenceMemory, evidence: MarkedEvidence, pairs: ChartLabelPairs) -> list[tuple[Ints, Floats]]:
    """Words and scores of each pair, in columns: every word that a model reads may have one."""
    if evidence.scored is None:
        return [(np.zeros(0, np.int64), np.zeros(0))] * len(pairs.chart)
    key = memory.charts.words.note[evidence.scored.word] * memory.inputs.n_codes + evidence.scored.label
    order = np.argsort(key, kind="stable")
    wanted = pairs.chart * memory.inputs.n_codes + pairs.label
    low, high = (np.searchsorted(key[order], wanted, side=side) for side in ("left", "right"))
    rows = [order[i:j] for i, j in zip(low.tolist(), high.tolist(), strict=True)]
    return [(evidence.scored.word[some], evidence.scored.score[some]) for some in rows]


def _marked(memory: EvidenceMemory, evidence: MarkedEvidence) -> dict[tuple[int, int], list[int]]:
    """Words of each chart and label that count as evidence."""
    covered = cover(memory.charts.words, evidence.spans)
    of = np.repeat(np.arange(len(evidence.spans.note)), np.diff(covered.first))
    found: dict[tuple[int, int], set[int]] = {}
    for chart, label, word in zip(
        evidence.spans.note[of].tolist(), evidence.spans.code[of].tolist(), covered.word.tolist(), strict=True
    ):
        found.setdefault((chart, label), set()).add(word)
    return {key: sorted(words) for key, words in found.items()}


def measure_faithfulness(
    charts: AuditedCharts, marked: Mapping[str, MarkedEvidence], predictions: Predictions, asking: Asking
) -> dict[str, Faithfulness | str]:
    """What taking words out did, for models and ensembles; a string says why nothing is known."""
    removal = dict(charts.memory.removal)
    for name, evidence in marked.items():
        if name not in removal and (nothing := no_removal(charts.memory, predictions[name], evidence, asking)):
            removal[name] = nothing
    names = [
        *removal,
        *(name for name in predictions.ensembles if all(k in removal for k in predictions.members(name))),
    ]
    return {
        name: _faithfulness(
            charts,
            [(removal[each], predictions[each], marked[each]) for each in predictions.members(name)],
            asking,
        )
        for name in names
    }


def _faithfulness(
    charts: AuditedCharts, parts: Sequence[tuple[Removal, ModelPredictions, MarkedEvidence]], asking: Asking
) -> Faithfulness | str:
    """Mean drops over pairs, with intervals by chart or patient; for an ensemble, the mean over its members."""
    for removal, _, _ in parts:
        if not len(removal.pairs.chart):
            return removal.reason or "nothing was taken out"
    fractions = parts[0][0].fractions
    if any(removal.fractions != fractions for removal, _, _ in parts):
        return "the evidence of some seeds has scores, and that of others has none"
    tables = [_drops(removal, answers) for removal, answers, _ in parts]
    table, part = np.concatenate(tables), np.repeat(np.arange(len(parts)), [len(each) for each in tables])
    chart = np.concatenate([removal.pairs.chart for removal, _, _ in parts])
    means = _means_by_chart(charts, chart, part)
    drops = {arm: ArmDrops(*(means(kind) for kind in _kinds(table, a))) for a, arm in enumerate(ARMS)}
    asked = [asking.in_question(charts.memory, answers)[: charts.n, : answers.p.shape[1]] for _, answers, _ in parts]
    predicted = [asking.predicted(answers, charts.n) & each for each, (_, answers, _) in zip(asked, parts, strict=True)]
    if asking.codes == "all":
        asked = [_with_gold(charts.memory, each) for each in predicted]
    return Faithfulness(
        fractions,
        drops,
        _areas(charts, table, chart, part),
        len(chart),
        sum(int(each.sum()) for each in predicted),
        sum(int(each.sum()) for each in asked),
        _strata_of(charts, parts, table, chart, part),
    )


def _with_gold(memory: EvidenceMemory, predicted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[chart, label] the labels that are predicted, and those with gold evidence."""
    asked = predicted.copy()
    asked[memory.audited_gold.note, memory.audited_gold.code] = True
    return asked


def _kinds(table: Floats, arm: int) -> tuple[Floats, Floats, Floats]:
    """[pair, fraction] drops without the evidence, without random words, and their difference."""
    return table[:, arm, 0], table[:, arm, 1], table[:, arm, 0] - table[:, arm, 1]


def _means_by_chart(charts: AuditedCharts, chart: Ints, part: Ints) -> Callable[[Floats], MeanDrops]:
    """Takes means over pairs, by the weight of their chart."""
    level, weight = charts.resampling.level, charts.weights_of(chart)
    return partial(mean_drops, chart=charts.units[chart], part=part, weight=weight, level=level)


def _areas(charts: AuditedCharts, table: Floats, chart: Ints, part: Ints) -> dict[str, ArmDrops]:
    """The mean over the fractions, by arm; evidence without scores has none: its one set of words stands for them."""
    means = _means_by_chart(charts, chart, part)
    n = max(table.shape[-1] - 1, 1)
    return {
        arm: ArmDrops(*(means(aopc(kind[:, :n]).reshape(-1, 1)) for kind in _kinds(table, a)))
        for a, arm in enumerate(ARMS)
    }


def _strata_of(
    charts: AuditedCharts,
    parts: Sequence[tuple[Removal, ModelPredictions, MarkedEvidence]],
    table: Floats,
    chart: Ints,
    part: Ints,
) -> dict[str, StratumDrops]:
    """The areas by stratum of the pairs; for an ensemble, the strata in which all members have pairs."""
    masks = [pair_strata(charts, evidence.gold, *removal.pairs, answers) for removal, answers, evidence in parts]
    shared = [name for name in masks[0] if all(name in each for each in masks)]
    found = {}
    for name in shared:
        mine = np.concatenate([each[name] for each in masks])
        found[name] = StratumDrops(int(mine.sum()), _areas(charts, table[mine], chart[mine], part[mine]))
    return found


def _drops(removal: Removal, answers: ModelPredictions) -> Floats:
    """How far the probability falls, [pair, arm, evidence or random, fraction]."""
    chart, label = removal.pairs
    return drop(answers.p[chart, label], answers.p[removal.variant, label[:, None, None, None]])
