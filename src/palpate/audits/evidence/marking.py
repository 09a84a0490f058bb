"""What a model points at: from scored pieces of text to words, and from words above a threshold to spans.

A word has the highest score of the pieces that cover it, so the word pieces of a tokenizer become words. The threshold
is the one with the highest token F1 on the validation split (evidence paper, Section 6.2 and Appendix D); consecutive
words with a greater score are a predicted span. Only codes in question count (`Asking.in_question`), on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.asking import Asking, EvidenceSource, occlusion_attributions, sources_of
from palpate.audits.evidence.inputs import Charts
from palpate.audits.evidence.plan import EvidenceMemory, chart_weights
from palpate.cases.edits import Ints
from palpate.results import SAMPLED, Attributions, ModelPredictions, Plan, Predictions
from palpate.stats.evidence import Spans, ThresholdCurve, cover, evidence_threshold, spans, token_runs

Floats = NDArray[np.float64]
Scale = Literal["auto", "raw", "relative"]
TABLE, OCCLUSION = "a table", "occlusion"
_WITHOUT_SCALE = (
    *(OCCLUSION, "integrated_gradients", "gradient_x_input", "deeplift"),
    *("attingrad", "attention_rollout", *SAMPLED),
)


class ScoredWords(NamedTuple):
    """Words (numbers over all charts) with a label and how much they speak for it; each pair is there once."""

    word: Ints
    label: Ints
    score: Floats

    def where(self, chosen: NDArray[np.bool_]) -> ScoredWords:
        """Some of the rows."""
        return ScoredWords(self.word[chosen], self.label[chosen], self.score[chosen])


@dataclass(frozen=True)
class Marking:
    """How scores become evidence."""

    threshold: float | None
    step: float | Literal["auto"]
    scale: Scale

    def step_for(self, origin: str) -> float:
        """The paper's: 0.05 for tagging, 0.02 for everything else."""
        if self.step != "auto":
            return self.step
        return 0.05 if "tag" in origin else 0.02


@dataclass(frozen=True, eq=False)
class MarkedEvidence:
    """What a model points at in the audited charts, for the codes in question, and the gold evidence of these codes."""

    origin: str
    spans: Spans
    gold: Spans
    scored: ScoredWords | None = None
    """None where the evidence has no scores."""
    threshold: float | None = None
    threshold_origin: str = "the evidence has no scores"
    curve: ThresholdCurve | None = None
    curve_on: str = ""
    scale: str = "raw"
    n_other: int = 0
    """Rows of the model's table in the audited charts that are about other codes, and do not count."""


def mark_evidence(
    plan: Plan[EvidenceMemory], predictions: Predictions, asking: Asking, marking: Marking
) -> dict[str, MarkedEvidence | str]:
    """What each model points at; a string says why that is not known."""
    weight = chart_weights(plan)
    return {
        name: source.reason or _mark(plan.memory, name, source, predictions[name], asking, marking, weight)
        for name, source in sources_of(plan, predictions, asking).items()
    }


def known_evidence(marked: dict[str, MarkedEvidence | str]) -> dict[str, MarkedEvidence]:
    """The models whose evidence is known."""
    return {name: evidence for name, evidence in marked.items() if isinstance(evidence, MarkedEvidence)}


def _mark(
    memory: EvidenceMemory,
    model: str,
    source: EvidenceSource,
    answers: ModelPredictions,
    asking: Asking,
    marking: Marking,
    weight: Floats | None,
) -> MarkedEvidence | str:
    table = memory.table_of(model, answers)
    asked = asking.in_question(memory, answers)
    n_other = 0
    if table is not None:
        chart, left_out = memory.charts.number[table.row], memory.charts.number[table.left_out]
        ours = (chart >= 0) & (chart < memory.n_audited)
        n_other = int((~asked[chart[ours], table.label[ours]]).sum())
        n_other += int(((left_out >= 0) & (left_out < memory.n_audited)).sum())
        if table.score is None:
            gold = some_spans(memory.audited_gold, asked)
            found = memory.spans_in(memory.charts.spans(table), audited=True)
            return MarkedEvidence(TABLE, some_spans(found, asked), gold, n_other=n_other)
        pieces, origin = Attributions(table.row, table.label, table.start, table.end, table.score), TABLE
    elif source.kind == "explain":
        if answers.attributions is None:
            return "it was not asked to explain"
        pieces, origin = answers.attributions, source.way
    else:
        pieces, origin = occlusion_attributions(memory, model, answers, asking), OCCLUSION
    return replace(_mark_scored(memory, pieces, origin, marking, asked, weight), n_other=n_other)


def some_spans(found: Spans, asked: NDArray[np.bool_]) -> Spans:
    """The spans of the codes in question."""
    kept = asked[found.note, found.code]
    return Spans(*(column[kept] for column in found))


def _mark_scored(
    memory: EvidenceMemory,
    pieces: Attributions,
    origin: str,
    marking: Marking,
    asked: NDArray[np.bool_],
    weight: Floats | None,
) -> MarkedEvidence:
    """Scored pieces as words, and the spans of those above the threshold."""
    charts = memory.charts
    scored, scale = score_words(charts, pieces, origin, marking.scale)
    scored = scored.where(asked[charts.words.note[scored.word], scored.label])
    audited = scored.word < int(charts.words.first[memory.n_audited])
    ours = scored.where(audited)
    validation, target = (some_spans(memory.spans_in(memory.gold, audited=of), asked) for of in (False, True))
    chooses = marking.threshold is None and validation.note.size > 0
    gold, words = (validation, scored.where(~audited)) if chooses else (target, ours)
    where = charts.words.note[words.word], charts.words.begin[words.word], charts.words.end[words.word]
    said, step = Spans(*where, words.label), marking.step_for(origin)
    curve = evidence_threshold(charts.words, gold, said, words.score, step=step, weight=weight)
    threshold, why = _threshold(marking, curve, chooses)
    kept = ours.where(ours.score > threshold)
    return MarkedEvidence(
        origin,
        runs(charts, kept.word, kept.label),
        target,
        ours,
        threshold,
        why,
        curve,
        "the validation split" if chooses else "the audited charts",
        scale,
    )


def _threshold(marking: Marking, curve: ThresholdCurve, chooses: bool) -> tuple[float, str]:
    if marking.threshold is not None:
        return marking.threshold, "given"
    if curve.chosen is not None and chooses:
        return curve.chosen, "highest token F1 on the validation split"
    return float(curve.threshold[0]), "the lowest: no threshold finds gold evidence on the validation split"


def score_words(
    charts: Charts, pieces: Attributions, origin: str, scale: Scale
) -> tuple[ScoredWords, Literal["raw", "relative"]]:
    """Each word's highest score for each label, and whether scores are relative to the strongest word of the case."""
    number = charts.number[pieces.row]
    here = np.flatnonzero(number >= 0)
    covered = cover(charts.words, spans(number[here], pieces.start[here], pieces.end[here], pieces.label[here]))
    of = np.repeat(here, np.diff(covered.first))
    n_labels = int(pieces.label.max(initial=0)) + 1
    key, where = np.unique(covered.word * n_labels + pieces.label[of], return_inverse=True)
    score = np.full(key.size, -np.inf)
    np.maximum.at(score, where.reshape(-1), pieces.score[of])
    word, label = key // n_labels, key % n_labels
    relative = scale == "relative" or (scale == "auto" and _needs_scaling(origin, score))
    if relative:
        pair = np.unique(charts.words.note[word] * n_labels + label, return_inverse=True)[1].reshape(-1)
        largest = np.zeros(int(pair.max(initial=-1)) + 1)
        np.maximum.at(largest, pair, score)
        score = np.divide(score, largest[pair], out=np.zeros_like(score), where=largest[pair] > 0)
    return ScoredWords(word, label, score), "relative" if relative else "raw"


def _needs_scaling(origin: str, score: Floats) -> bool:
    """Occlusion, gradients and sampling have no scale of their own; attention and tagging lie between 0 and 1."""
    return origin in _WITHOUT_SCALE or bool(score.size and (score.min() < 0.0 or score.max() > 1.0))


def runs(charts: Charts, word: Ints, label: Ints) -> Spans:
    """Consecutive words of one label as a span; a span ends where its note ends."""
    words = charts.words
    border = np.concatenate([[0], np.cumsum((np.diff(words.note) != 0) | (np.diff(charts.note) != 0))])
    found = token_runs(words._replace(note=border[: words.note.size]), word, label)
    chart = words.note[np.searchsorted(border, found.note, side="left")] if found.note.size else found.note
    return Spans(chart, found.begin, found.end, found.code)
