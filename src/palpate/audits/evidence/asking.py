"""How the audit comes by a model's evidence, turn by turn: the model explains itself, or words are taken out.

    cases      the unedited charts: which labels does the model predict?
    evidence   models that explain themselves are asked to; for the others, pieces of charts are taken out (occlusion)
    words      occlusion continues word by word, in the pieces that matter for the labels in question
    removal    the strongest words are taken out, or all others (see `faithfulness`)

The labels in question are those of the protocol (`codes`): with gold evidence in a chart, as in the paper; predicted by
the model there; both; or either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.plan import ChartLabelPairs, CutSearches, EvidenceMemory, Occluded, OcclusionBudget
from palpate.cases.edits import Ints, Variants
from palpate.errors import ConfigError
from palpate.perturb.occlusion import Pieces, coarse_pieces, pieces_that_matter, single_words
from palpate.results import SAMPLED, Attributions, Explain, ModelPredictions, Plan, Predictions

AUTO, OCCLUDE, NONE = "auto", "occlusion", "none"
Codes = Literal["gold", "predicted", "correct", "all"]
PROTOCOLS: Mapping[Codes, str] = {
    "gold": "codes with gold evidence in the chart, predicted or not, as in the paper",
    "predicted": "codes that the model predicts in the chart",
    "correct": "codes that have gold evidence in the chart and that the model predicts there",
    "all": "all codes: those with gold evidence in the chart, and those that the model predicts or points at",
}
BY_CASE = "its predictions are looked up by case, so no word can be taken out"
NO_TEXT = "it does not read text"
NOT_ASKED = "no table of its evidence is given, and with `explain: none` it was not asked"
_SHARE = 0.1
"""A piece matters for a label if losing it costs at least this share of what losing the strongest costs."""


class EvidenceSource(NamedTuple):
    """Where a model's evidence comes from; without one, why."""

    kind: Literal["table", "explain", "occlusion", "none"]
    way: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Asking:
    """The audit's options about asking models."""

    explain: str | Mapping[str, str]
    code_threshold: float | Literal["auto"]
    budget: OcclusionBudget
    replace_with: str
    codes: Codes = "gold"

    def way_for(self, model: str, answers: ModelPredictions) -> str:
        """What the options say for a model."""
        if isinstance(self.explain, str):
            return self.explain
        return self.explain.get(model, self.explain.get(answers.ensemble or model, AUTO))

    def threshold_for(self, answers: ModelPredictions) -> float:
        """Where a probability becomes a predicted code."""
        if self.code_threshold != "auto":
            return self.code_threshold
        return 0.5 if answers.threshold is None else answers.threshold

    def predicted(self, answers: ModelPredictions, n_charts: int) -> NDArray[np.bool_]:
        """[chart, label]: which labels the model predicts in the first charts."""
        return answers.p[:n_charts] >= self.threshold_for(answers)

    def in_question(self, memory: EvidenceMemory, answers: ModelPredictions) -> NDArray[np.bool_]:
        """[chart, code]: the codes whose evidence is compared; the charts of the validation split come last.

        Codes that only models point at come after the labels; they are in question where all codes are.
        """
        shape = (len(memory.charts.rows), memory.inputs.n_codes)
        if self.codes == "all":
            return np.ones(shape, np.bool_)
        gold, predicted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        gold[memory.gold.note, memory.gold.code] = True
        if self.codes != "gold":
            predicted[:, : answers.p.shape[1]] = self.predicted(answers, shape[0])
        return {"gold": gold, "predicted": predicted, "correct": gold & predicted}[self.codes]


class EditedCopies:
    """Edited copies of charts, added to what a plan has."""

    def __init__(self, plan: Plan[EvidenceMemory], text: str) -> None:
        self._plan, self._text = plan, text
        self._parent: list[int] = []
        self._start: list[Ints] = []
        self._end: list[Ints] = []
        self._text_of: list[Ints] = []
        self._asked: dict[str, list[int]] = {}

    def add(self, parent: int, start: Ints, end: Ints, *, cut: int | None = None) -> int:
        """A case without some spans and, with `cut`, without the text from that character on; returns its row.

        Nothing replaces the text that is cut off: a mask there would stand for words that the model never read.
        """
        if cut is not None:
            inside = start < cut
            length = len(self._plan.cohort.texts[parent])
            start, end = np.append(start[inside], cut), np.append(np.minimum(end[inside], cut), length)
        text = np.zeros(len(start), np.int64)
        text[len(start) - (cut is not None) :] = 1
        self._text_of.append(text)
        self._parent.append(parent)
        self._start.append(start)
        self._end.append(end)
        return len(self._plan.variants) + len(self._parent) - 1

    def ask(self, model: str, rows: Sequence[int] | Ints) -> None:
        """Let one model score some of the copies."""
        self._asked.setdefault(model, []).extend(int(row) for row in rows)

    def plan(self, memory: EvidenceMemory, models: Sequence[str], group: str) -> Plan[EvidenceMemory]:
        """The plan with the copies; each model scores its own."""
        old, n_new = self._plan.variants, len(self._parent)
        counts = [len(part) for part in self._start]
        none = np.zeros(0, np.int64)
        columns = (self._start, self._end, self._text_of)
        start, end, text = (np.concatenate([none, *parts]).astype(np.int64) for parts in columns)
        variants = Variants(
            parent=np.concatenate([old.parent, np.asarray(self._parent, np.int64)]),
            first_edit=np.concatenate([old.first_edit, old.first_edit[-1] + np.cumsum(counts)]).astype(np.int64),
            start=np.concatenate([old.start, start]),
            end=np.concatenate([old.end, end]),
            replacement=np.concatenate([old.replacement, text]),
            replacements=(self._text, ""),
            group=np.concatenate([old.group, np.full(n_new, len(old.group_names), np.int64)]),
            group_names=(*old.group_names, group),
        )
        requests, only = self._plan.requests, {}
        for model in models:
            mask = np.zeros(len(variants), np.bool_)
            mask[: len(old)] = requests.only.get(model, True)
            mask[self._asked.get(model, [])] = True
            only[model] = mask
        return replace(self._plan, variants=variants, requests=replace(requests, only=only), memory=memory)


def sources_of(plan: Plan[EvidenceMemory], predictions: Predictions, asking: Asking) -> dict[str, EvidenceSource]:
    """Where each model's evidence comes from; a way of explaining that a model does not offer is refused."""
    return {name: _source_of(plan.memory, name, answers, asking) for name, answers in predictions.scored.items()}


def _source_of(memory: EvidenceMemory, model: str, answers: ModelPredictions, asking: Asking) -> EvidenceSource:
    way, facts = asking.way_for(model, answers), answers.facts
    if memory.table_of(model, answers) is not None:
        return EvidenceSource("table")
    if way == NONE:
        return EvidenceSource("none", reason=NOT_ASKED)
    sampled = SAMPLED if facts.reads == "text" else ()
    if way not in (AUTO, OCCLUDE, *facts.explains, *sampled):
        ways = ", ".join((*facts.explains, OCCLUDE, *sampled))
        raise ConfigError(f"audit 'evidence': model '{model}' cannot explain by '{way}'", hint=f"it can by: {ways}")
    if way != OCCLUDE and (facts.explains or way in sampled):
        return EvidenceSource("explain", facts.explains[0] if way == AUTO else way)
    if facts.reads != "text":
        return EvidenceSource("none", reason=f"{why_no_removal(answers)}; give its evidence as `predicted:`")
    return EvidenceSource("occlusion")


def why_no_removal(answers: ModelPredictions) -> str:
    """Why no word can be taken out of what a model reads; empty if one can."""
    return {"text": "", "case": BY_CASE}.get(answers.facts.reads, NO_TEXT)


def asked_pairs(memory: EvidenceMemory, answers: ModelPredictions, asking: Asking) -> ChartLabelPairs:
    """The labels in question; of all codes, those with gold evidence in a chart and those that the model predicts."""
    if asking.codes != "all":
        return ChartLabelPairs(*np.nonzero(asking.in_question(memory, answers)[:, : answers.p.shape[1]]))
    wanted = asking.predicted(answers, len(memory.charts.rows))
    wanted[memory.gold.note, memory.gold.code] = True
    return ChartLabelPairs(*np.nonzero(wanted))


def visible_words(memory: EvidenceMemory, answers: ModelPredictions) -> Ints:
    """For each chart, the first word that the model does not read."""
    words, charts = memory.charts.words, memory.charts
    if answers.visible is None:
        return words.first[1:]
    read = words.begin < answers.visible[charts.rows][words.note]
    total = np.concatenate([[0], np.cumsum(read)])
    return np.asarray(words.first[:-1] + total[words.first[1:]] - total[words.first[:-1]])


def ask_evidence(plan: Plan[EvidenceMemory], predictions: Predictions, asking: Asking) -> Plan[EvidenceMemory] | None:
    """Ask models to explain, and for charts without one of their pieces; None if no model needs either."""
    memory = plan.memory
    explain, coarse = {}, {}
    for model, source in sources_of(plan, predictions, asking).items():
        answers = predictions[model]
        pairs = asked_pairs(memory, answers, asking)
        if source.kind == "explain":
            explain[model] = Explain(source.way, memory.charts.rows[pairs.chart], pairs.label)
        elif source.kind == "occlusion":
            charts = np.unique(pairs.chart)
            stop = visible_words(memory, answers)[charts]
            first, n_segments = memory.charts.words.first[:-1][charts], asking.budget.segments
            # Word by word where that costs no more than pieces and then words.
            coarse[model] = coarse_pieces(charts, first, stop, n_segments=n_segments, at_once=sum(asking.budget))
    if not explain and not coarse:
        return None
    plan = replace(plan, requests=replace(plan.requests, explain=explain), memory=replace(memory, stage="evidence"))
    return _take_out(plan, predictions, coarse, asking)


def ask_words(plan: Plan[EvidenceMemory], predictions: Predictions, asking: Asking) -> Plan[EvidenceMemory] | None:
    """Ask for the words of the pieces that matter; None if all pieces are words."""
    memory, fine, cut = plan.memory, {}, {}
    for model, rows in memory.occluded.of.items():
        pieces = Pieces(*(column[rows] for column in memory.occluded.pieces))
        chosen = np.zeros(len(rows), np.bool_)
        size = pieces.stop - pieces.first
        n_cut = n_pairs = 0
        for chart, _, mine, drop in _drops(memory, model, predictions[model], asking):
            found = pieces_that_matter(drop, size[mine], share=_SHARE, most_words=asking.budget.words_per_label)
            chosen[mine] |= found.chosen
            n_cut, n_pairs = n_cut + (found.is_cut and chart < memory.n_audited), n_pairs + (chart < memory.n_audited)
        fine[model] = single_words(pieces, chosen)
        cut[model] = CutSearches(n_cut, n_pairs)
    if not any(len(pieces.chart) for pieces in fine.values()):
        return None
    memory = replace(memory, stage="words", cut=cut)
    return _take_out(replace(plan, memory=memory), predictions, fine, asking)


def occlusion_attributions(
    memory: EvidenceMemory, model: str, answers: ModelPredictions, asking: Asking
) -> Attributions:
    """How far the probability drops without each word, where it drops, for the labels in question."""
    words = memory.charts.words
    none = np.zeros(0, np.int64)
    parts: list[tuple[NDArray[Any], ...]] = [(none, none, none, none, np.zeros(0))]
    if model in memory.occluded.of:
        pieces = Pieces(*(column[memory.occluded.of[model]] for column in memory.occluded.pieces))
        single = pieces.stop - pieces.first == 1
        for chart, label, mine, drop in _drops(memory, model, answers, asking):
            kept = single[mine] & (drop > 0)
            word = pieces.first[mine[kept]]
            row = np.full(word.size, memory.charts.rows[chart], np.int64)
            parts.append((row, np.full(word.size, label, np.int64), words.begin[word], words.end[word], drop[kept]))
    return Attributions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _drops(
    memory: EvidenceMemory, model: str, answers: ModelPredictions, asking: Asking
) -> list[tuple[int, int, Ints, NDArray[np.float64]]]:
    """For each chart and label in question: the model's pieces of the chart, and how far p drops without each."""
    rows = memory.occluded.of[model]
    chart, variant = memory.occluded.pieces.chart[rows], memory.occluded.variant[rows]
    order = np.argsort(chart, kind="stable")
    pairs = asked_pairs(memory, answers, asking)
    low, high = (np.searchsorted(chart[order], pairs.chart, side=side) for side in ("left", "right"))
    found = []
    for k, (c, label) in enumerate(zip(pairs.chart.tolist(), pairs.label.tolist(), strict=True)):
        mine = order[int(low[k]) : int(high[k])]
        found.append((c, label, mine, answers.p[c, label] - answers.p[variant[mine], label]))
    return found


def _take_out(
    plan: Plan[EvidenceMemory], predictions: Predictions, wanted: Mapping[str, Pieces], asking: Asking
) -> Plan[EvidenceMemory]:
    """The plan with one more copy for each piece; a piece that two models need is one copy."""
    memory, old = plan.memory, plan.memory.occluded
    words, more = memory.charts.words, EditedCopies(plan, asking.replace_with)
    columns: list[tuple[int, int, int]] = []
    variant: list[int] = []
    known: dict[tuple[int, int, int | None], int] = {}
    of = dict(old.of)
    for model, pieces in wanted.items():
        mine = []
        for chart, first, stop in zip(*(column.tolist() for column in pieces), strict=True):
            parent = int(memory.charts.rows[chart])
            cut = cut_of(predictions[model], parent, len(plan.cohort.texts[parent]))
            key = (first, stop, cut)
            if key not in known:
                known[key] = len(columns)
                columns.append((chart, first, stop))
                variant.append(more.add(parent, words.begin[first : first + 1], words.end[stop - 1 : stop], cut=cut))
            mine.append(known[key])
        more.ask(model, [variant[k] for k in mine])
        rows = len(old.variant) + np.asarray(mine, np.int64)
        of[model] = np.concatenate([of.get(model, np.zeros(0, np.int64)), rows])
    new = np.asarray(columns, np.int64).reshape(-1, 3).T
    joined = Pieces(*(np.concatenate(pair) for pair in zip(old.pieces, new, strict=True)))
    occluded = Occluded(joined, np.concatenate([old.variant, np.asarray(variant, np.int64)]), of)
    return more.plan(replace(memory, occluded=occluded), list(predictions.scored), "occlusion")


def cut_of(answers: ModelPredictions, row: int, length: int) -> int | None:
    """Where the text ends for the model, so that it reads no further when words are taken out; None if it reads all."""
    if answers.visible is None or answers.visible[row] >= length:
        return None
    return int(answers.visible[row])
