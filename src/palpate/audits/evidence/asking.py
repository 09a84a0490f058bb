"""How the audit comes by a model's evidence, turn by turn: it explains itself, or words are taken out of the text.

    cases      the unedited charts: which labels does the model predict?
    evidence   models that explain are asked to; from the others' charts pieces are taken out (occlusion)
    words      occlusion goes on, word by word, in the pieces that matter for the labels that are asked
    removal    the strongest words are taken out, or all others (`evidence_removal`)

Asked are the labels with gold evidence in a chart and those that the model predicts there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.inputs import Charts, Placed, Places
from palpate.cases.edits import Ints, Variants
from palpate.errors import ConfigError
from palpate.perturb.occlusion import Pieces, coarse_pieces, pieces_that_matter, single_words
from palpate.results import Explain, ModelPredictions, Plan
from palpate.results.attributions import Attributions
from palpate.stats.evidence import Spans

Stage = Literal["cases", "evidence", "words", "removal"]
AUTO, OCCLUDE, NONE = "auto", "occlusion", "none"
BY_CASE = "its answers are looked up by case, so no word can be taken out"
NO_TEXT = "it does not read text"
NOT_ASKED = "no evidence is given, and `explain: none` asks for none"
_SHARE = 0.1
"""A piece matters for a label if losing it costs at least this share of what losing the strongest costs."""
_WORDS_AT_ONCE = 2_000
"""A model that scores edits as differences is asked word by word at once, up to so many words in a chart."""


class Occluded(NamedTuple):
    """Pieces that were taken out, one a variant; `of` has each model's rows of them."""

    pieces: Pieces
    variant: Ints
    of: Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class Memory:
    """What the audit remembers between turns; charts are numbered, the audited ones first."""

    charts: Charts
    n_audited: int
    gold: Spans
    placed_gold: Placed
    places: Places
    tables: Mapping[str, Placed]
    n_codes: int
    """The audited labels, and behind them those that only models point at."""
    seed: int
    stage: Stage = "cases"
    occluded: Occluded | None = None
    removal: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_cases(self) -> int:
        """How many rows the cohort has."""
        return len(self.places.base) - 1

    def table_of(self, model: str, answers: ModelPredictions) -> Placed | None:
        """The model's own table, or that of the model that it is a checkpoint of."""
        return self.tables.get(model, self.tables.get(answers.family or model))


class Source(NamedTuple):
    """Where a model's evidence comes from; without one, why."""

    kind: Literal["table", "explain", "occlusion", "none"]
    way: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Asking:
    """The audit's options about asking."""

    explain: str | Mapping[str, str]
    code_threshold: float | Literal["auto"]
    n_segments: int
    words_per_label: int
    replace_with: str

    def way_for(self, model: str, answers: ModelPredictions) -> str:
        """What the options say for a model."""
        if isinstance(self.explain, str):
            return self.explain
        return self.explain.get(model, self.explain.get(answers.family or model, AUTO))

    def threshold_for(self, answers: ModelPredictions) -> float:
        """Where a probability becomes a predicted code."""
        if self.code_threshold != "auto":
            return self.code_threshold
        return 0.5 if answers.threshold is None else answers.threshold


class Pairs(NamedTuple):
    """Charts and labels, in columns."""

    chart: Ints
    label: Ints


class Additions:
    """Edited copies of charts, on top of what a plan has."""

    def __init__(self, plan: Plan, text: str) -> None:
        self._plan, self._text = plan, text
        self._parent: list[int] = []
        self._start: list[Ints] = []
        self._end: list[Ints] = []
        self._text_of: list[Ints] = []
        self._asked: dict[str, list[int]] = {}

    def add(self, parent: int, start: Ints, end: Ints, *, cut: int | None = None) -> int:
        """A case without some spans and, with `cut`, without what follows that character; returns its row.

        Nothing stands where the rest was: a mask there would be one that the model reads in the place of no word.
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
        """Ask one model for some of the copies."""
        self._asked.setdefault(model, []).extend(int(row) for row in rows)

    def plan(self, memory: Memory, models: Sequence[str], group: str) -> Plan:
        """The plan with the copies, each model asked for its own."""
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
        only = {}
        for model in models:
            mask = np.zeros(len(variants), np.bool_)
            mask[: len(old)] = self._plan.only.get(model, True)
            mask[self._asked.get(model, [])] = True
            only[model] = mask
        return replace(self._plan, variants=variants, only=only, memory=memory)


def sources_of(plan: Plan, predictions: Mapping[str, ModelPredictions], how: Asking) -> dict[str, Source]:
    """Where each model's evidence comes from; a way that a model does not know is refused."""
    sources = {}
    for model, answers in predictions.items():
        way, facts = how.way_for(model, answers), answers.facts
        if plan.memory.table_of(model, answers) is not None:
            sources[model] = Source("table")
        elif way == NONE:
            sources[model] = Source("none", reason=NOT_ASKED)
        elif way not in (AUTO, OCCLUDE) and way not in facts.explains:
            there = ", ".join((*facts.explains, OCCLUDE))
            raise ConfigError(
                f"audit 'evidence': model '{model}' does not explain by '{way}'", hint=f"it can by {there}"
            )
        elif way != OCCLUDE and facts.explains:
            sources[model] = Source("explain", facts.explains[0] if way == AUTO else way)
        elif facts.reads != "text":
            sources[model] = Source("none", reason=f"{why_no_removal(answers)}; give its evidence as `predicted:`")
        else:
            sources[model] = Source("occlusion")
    return sources


def why_no_removal(answers: ModelPredictions) -> str:
    """Why no word can be taken out of what a model reads; empty if one can."""
    return {"text": "", "case": BY_CASE}.get(answers.facts.reads, NO_TEXT)


def asked_pairs(memory: Memory, answers: ModelPredictions, how: Asking) -> Pairs:
    """Labels with gold evidence in a chart, and those that the model predicts there."""
    n = len(memory.charts.rows)
    wanted = answers.p[:n] >= how.threshold_for(answers)
    wanted[memory.gold.note, memory.gold.code] = True
    return Pairs(*(column.astype(np.int64) for column in np.nonzero(wanted)))


def visible_words(memory: Memory, answers: ModelPredictions) -> Ints:
    """For each chart, the first word that the model does not read."""
    words, charts = memory.charts.words, memory.charts
    if answers.visible is None:
        return words.first[1:]
    read = words.begin < answers.visible[charts.rows][words.note]
    total = np.concatenate([[0], np.cumsum(read)])
    return np.asarray(words.first[:-1] + total[words.first[1:]] - total[words.first[:-1]])


def ask_evidence(plan: Plan, predictions: Mapping[str, ModelPredictions], how: Asking) -> Plan | None:
    """Ask models to explain, and for charts without a piece of them; None if no model needs either."""
    memory: Memory = plan.memory
    explain, coarse = {}, {}
    for model, source in sources_of(plan, predictions, how).items():
        answers = predictions[model]
        pairs = asked_pairs(memory, answers, how)
        if source.kind == "explain":
            explain[model] = Explain(source.way, memory.charts.rows[pairs.chart], pairs.label)
        elif source.kind == "occlusion":
            charts = np.unique(pairs.chart)
            stop = visible_words(memory, answers)[charts]
            at_once = _WORDS_AT_ONCE if answers.facts.uses_edits else 0
            coarse[model] = coarse_pieces(
                charts, memory.charts.words.first[:-1][charts], stop, n_segments=how.n_segments, at_once=at_once
            )
    if not explain and not coarse:
        return None
    larger = _take_out(replace(plan, explain=explain), predictions, coarse, how)
    return replace(larger, memory=replace(larger.memory, stage="evidence"))


def ask_words(plan: Plan, predictions: Mapping[str, ModelPredictions], how: Asking) -> Plan | None:
    """Ask for the words of the pieces that matter; None if all pieces are words."""
    memory: Memory = plan.memory
    if memory.occluded is None:
        return None
    fine = {}
    for model, rows in memory.occluded.of.items():
        pieces = Pieces(*(column[rows] for column in memory.occluded.pieces))
        chosen = np.zeros(len(rows), np.bool_)
        size = pieces.stop - pieces.first
        for _, _, mine, drop in _drops(memory, model, predictions[model], how):
            chosen[mine] |= pieces_that_matter(drop, size[mine], share=_SHARE, most_words=how.words_per_label)
        fine[model] = single_words(pieces, chosen)
    if not any(len(pieces.chart) for pieces in fine.values()):
        return None
    larger = _take_out(plan, predictions, fine, how)
    return replace(larger, memory=replace(larger.memory, stage="words"))


def occlusion_attributions(memory: Memory, model: str, answers: ModelPredictions, how: Asking) -> Attributions:
    """How much the probability drops without each word, where it drops, for the labels that are asked."""
    words = memory.charts.words
    parts: list[tuple[Any, ...]] = []
    if memory.occluded is not None and model in memory.occluded.of:
        pieces = Pieces(*(column[memory.occluded.of[model]] for column in memory.occluded.pieces))
        single = pieces.stop - pieces.first == 1
        for chart, label, mine, drop in _drops(memory, model, answers, how):
            kept = single[mine] & (drop > 0)
            word = pieces.first[mine[kept]]
            row = np.full(word.size, memory.charts.rows[chart], np.int64)
            parts.append((row, np.full(word.size, label, np.int64), words.begin[word], words.end[word], drop[kept]))
    none = np.zeros(0, np.int64)
    columns = zip((none, none, none, none, np.zeros(0)), *parts, strict=True)
    return Attributions(*(np.concatenate(column) for column in columns))


def _drops(
    memory: Memory, model: str, answers: ModelPredictions, how: Asking
) -> list[tuple[int, int, Ints, NDArray[np.float64]]]:
    """For each asked chart and label: the model's pieces of the chart, and how much p drops without each."""
    if memory.occluded is None:
        return []
    rows = memory.occluded.of[model]
    chart, variant = memory.occluded.pieces.chart[rows], memory.occluded.variant[rows]
    order = np.argsort(chart, kind="stable")
    pairs = asked_pairs(memory, answers, how)
    low, high = (np.searchsorted(chart[order], pairs.chart, side=side) for side in ("left", "right"))
    found = []
    for k, (c, label) in enumerate(zip(pairs.chart.tolist(), pairs.label.tolist(), strict=True)):
        mine = order[int(low[k]) : int(high[k])]
        found.append((c, label, mine, answers.p[c, label] - answers.p[variant[mine], label]))
    return found


def _take_out(
    plan: Plan, predictions: Mapping[str, ModelPredictions], wanted: Mapping[str, Pieces], how: Asking
) -> Plan:
    """The plan with one more copy for each piece; a piece that two models are asked for is one copy."""
    memory: Memory = plan.memory
    words, cohort = memory.charts.words, plan.cohort
    old = memory.occluded
    more = Additions(plan, how.replace_with)
    columns: list[tuple[int, int, int]] = []
    variant: list[int] = []
    known: dict[tuple[int, int, int | None], int] = {}
    n_old = 0 if old is None else len(old.variant)
    of = {} if old is None else dict(old.of)
    for model, pieces in wanted.items():
        mine = []
        for chart, first, stop in zip(*(column.tolist() for column in pieces), strict=True):
            parent = int(memory.charts.rows[chart])
            cut = cut_of(predictions[model], parent, len(cohort.texts[parent]))
            key = (first, stop, cut)
            if key not in known:
                known[key] = len(columns)
                columns.append((chart, first, stop))
                variant.append(more.add(parent, words.begin[first : first + 1], words.end[stop - 1 : stop], cut=cut))
            mine.append(known[key])
        rows = np.asarray(mine, np.int64)
        more.ask(model, [variant[k] for k in mine])
        of[model] = np.concatenate([of.get(model, np.zeros(0, np.int64)), n_old + rows])
    table = np.asarray(columns, np.int64).reshape(-1, 3)
    new = Pieces(table[:, 0], table[:, 1], table[:, 2]), np.asarray(variant, np.int64)
    if old is not None:
        joined = Pieces(*(np.concatenate(pair) for pair in zip(old.pieces, new[0], strict=True)))
        new = joined, np.concatenate([old.variant, new[1]])
    return more.plan(replace(memory, occluded=Occluded(*new, of)), list(predictions), "occlusion")


def cut_of(answers: ModelPredictions, row: int, length: int) -> int | None:
    """Where the text ends for the model: without it, taking words out would let it read further. None: it reads all."""
    if answers.visible is None or answers.visible[row] >= length:
        return None
    return int(answers.visible[row])
