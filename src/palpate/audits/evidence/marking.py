"""What a model points at: from scored pieces of text to words, from words at a threshold to spans.

A word has the highest score of the pieces that cover it, so word pieces of a tokenizer become words. The threshold is
the one with the highest token F1 on the validation split (evidence paper, Section 6.2 and Appendix D); consecutive
words at or above it are a predicted span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.evidence.inputs import Charts, Placed, spans_in
from palpate.cases.edits import Ints
from palpate.results.attributions import Attributions
from palpate.stats.evidence import NoteWords, Spans, ThresholdCurve, cover, evidence_threshold, spans, token_runs

Floats = NDArray[np.float64]
Scale = Literal["auto", "raw", "relative"]
TABLE, OCCLUSION = "a table", "occlusion"


class Graded(NamedTuple):
    """Words (numbers over all charts) with a label and how much they speak for it; no pair comes twice."""

    word: Ints
    label: Ints
    score: Floats

    def only(self, rows: NDArray[np.bool_]) -> Graded:
        """Some of the rows."""
        return Graded(self.word[rows], self.label[rows], self.score[rows])


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
class Found:
    """What a model points at in the audited charts."""

    origin: str
    spans: Spans
    graded: Graded | None = None
    """None where the evidence has no scores."""
    threshold: float | None = None
    threshold_origin: str = "the evidence has no scores"
    curve: ThresholdCurve | None = None
    curve_on: str = ""
    scale: str = "raw"


def head(words: NoteWords, n: int) -> NoteWords:
    """The words of the first n charts."""
    stop = int(words.first[n])
    return NoteWords(words.texts[:n], words.note[:stop], words.begin[:stop], words.end[:stop], words.first[: n + 1])


def hard_evidence(charts: Charts, n_audited: int, placed: Placed, n_cases: int) -> Found:
    """Spans as they were given."""
    return Found(TABLE, _below(spans_in(charts, placed, n_cases), n_audited))


def scored_pieces(placed: Placed) -> Attributions:
    """A table with scores as attributions."""
    score = np.zeros(len(placed.row)) if placed.score is None else placed.score
    return Attributions(placed.row, placed.label, placed.start, placed.end, score)


def graded_evidence(
    charts: Charts, n_audited: int, gold: Spans, pieces: Attributions, origin: str, how: Marking, n_cases: int
) -> Found:
    """Scored pieces as words, and the spans of those that reach the threshold."""
    graded, scale = graded_words(charts, pieces, origin, how.scale, n_cases)
    last = int(charts.words.first[n_audited])
    ours = graded.word < last
    audited = graded.only(ours)
    validation = _above(gold, n_audited)
    chooses = how.threshold is None and validation.note.size > 0
    looked_at = graded.only(~ours) if chooses else audited
    judged = validation if chooses else _below(gold, n_audited)
    step = how.step_for(origin)
    curve = evidence_threshold(charts.words, judged, _single(charts.words, looked_at), looked_at.score, step=step)
    threshold, why = _threshold(how, curve, chooses)
    kept = audited.score >= threshold
    return Found(
        origin,
        runs(charts, audited.word[kept], audited.label[kept]),
        audited,
        threshold,
        why,
        curve,
        "the validation split" if chooses else "the audited charts",
        scale,
    )


def _threshold(how: Marking, curve: ThresholdCurve, chooses: bool) -> tuple[float, str]:
    if how.threshold is not None:
        return how.threshold, "given"
    if curve.chosen is not None and chooses:
        return curve.chosen, "highest token F1 on the validation split"
    return float(curve.threshold[0]), "the lowest: none finds gold evidence on the validation split"


def graded_words(
    charts: Charts, pieces: Attributions, origin: str, scale: Scale, n_cases: int
) -> tuple[Graded, Literal["raw", "relative"]]:
    """Each word's highest score for each label, and whether scores are relative to the case's strongest."""
    number = charts.number(n_cases)[pieces.row]
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
    return Graded(word, label, score), "relative" if relative else "raw"


def _needs_scaling(origin: str, score: Floats) -> bool:
    """Occlusion and gradients have no scale of their own; attention and tagging lie between 0 and 1."""
    return origin == OCCLUSION or bool(score.size and (score.min() < 0.0 or score.max() > 1.0))


def runs(charts: Charts, word: Ints, label: Ints) -> Spans:
    """Consecutive words of one label as a span; a span ends with its note."""
    words = charts.words
    border = np.concatenate([[0], np.cumsum((np.diff(words.note) != 0) | (np.diff(charts.note) != 0))])
    found = token_runs(words._replace(note=border[: words.note.size]), word, label)
    chart = words.note[np.searchsorted(border, found.note, side="left")] if found.note.size else found.note
    return Spans(chart, found.begin, found.end, found.code)


def _single(words: NoteWords, graded: Graded) -> Spans:
    return Spans(words.note[graded.word], words.begin[graded.word], words.end[graded.word], graded.label)


def _below(found: Spans, n: int) -> Spans:
    return Spans(*(column[found.note < n] for column in found))


def _above(found: Spans, n: int) -> Spans:
    return Spans(*(column[found.note >= n] for column in found))
