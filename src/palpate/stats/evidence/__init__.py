"""Predicted evidence against gold evidence: precision, recall and F1 over words and spans (evidence paper, Section
6.2).

    words = tokenise(texts)                                   # whole notes, once
    counts = count_matches(words, gold, predicted, chart=chart_of_note, n_codes=n_codes,
                           strata=strata_by_length(words, gold))
    scores = span_scores(counts, rng=seed)                    # point and replicates, by chart
    scores.point[0, MATCHES.index("token"), 0]                # all evidence, micro: precision, recall, F1

token            a word of a note with a code
span             a span of words with a code, the same first and last word
token_anywhere   what a word says, with a code, anywhere in the chart (position independent)
span_anywhere    what a span says, with a code, anywhere in the chart
overlap          spans of a code that share a word; one-to-one, as many as possible
iou              the same if they share at least half of their joint words (ERASER's IoU-F1, one-to-one)

All are sets: what is marked twice counts once. In a chart without predictions all evidence is missed; in a chart or for
a code without gold evidence all predictions are false, because the counts cover all notes and not only those of both
sides. A number with a denominator of 0 is nan. Spans without a word (blanks, punctuation, large numbers) do not count
on either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.bootstrap import limited_threads, resample_counts, seed_of
from palpate.stats.evidence.tally import MATCHES, Mask, SpanTally, prepare, tally
from palpate.stats.evidence.words import Covered, EvidenceWords, Ints, Spans, cover, spans, tokenise, words_in
from palpate.stats.inputs import Floats, finite, fraction, weights

__all__ = [
    "AVERAGES",
    "MATCHES",
    "MEASURES",
    "Covered",
    "EvidenceWords",
    "MatchCounts",
    "SpanScores",
    "Spans",
    "Stratum",
    "ThresholdCurve",
    "count_matches",
    "cover",
    "evidence_threshold",
    "merged_spans",
    "span_scores",
    "spans",
    "strata_by_group",
    "strata_by_length",
    "strata_by_window",
    "token_runs",
    "tokenise",
    "words_in",
]

MEASURES = ("precision", "recall", "f1")
AVERAGES = ("micro", "macro")
_CELLS_PER_CHUNK = 8_000_000


class Stratum(NamedTuple):
    """A part of the evidence: which spans of each side are in it, None for all.

    With `recall_only`, predictions can't be assigned to the stratum, so precision and F1 are nan.
    """

    name: str
    gold: Mask | None = None
    predicted: Mask | None = None
    recall_only: bool = False


class MatchCounts(NamedTuple):
    """Found, false and missed elements by stratum, match, code and chart.

    Table t = stratum * len(MATCHES) + match has the rows first[t] to first[t + 1] - 1, sorted by code.
    """

    strata: tuple[str, ...]
    recall_only: tuple[bool, ...]
    n_charts: int
    first: Ints
    chart: Ints
    code: Ints
    tp: Ints
    fp: Ints
    fn: Ints

    def totals(self) -> Ints:
        """[stratum, match, 3]: found, false, missed."""
        return np.asarray(self.by_chart().sum(axis=0), np.int64)

    def by_chart(self) -> Floats:
        """[chart, stratum, match, 3] sums over codes: found, false, missed."""
        n_tables = self.first.size - 1
        table = np.repeat(np.arange(n_tables), np.diff(self.first))
        out = np.zeros((self.n_charts, n_tables, 3))
        for k, column in enumerate((self.tp, self.fp, self.fn)):
            np.add.at(out[:, :, k], (self.chart, table), column)
        return out.reshape(self.n_charts, len(self.strata), len(MATCHES), 3)


class SpanScores(NamedTuple):
    """Scores on the data and on resampled charts; axes are stratum, MATCHES, AVERAGES, MEASURES, replicate."""

    strata: tuple[str, ...]
    point: NDArray[np.float64]
    values: NDArray[np.float64]


class ThresholdCurve(NamedTuple):
    """Token precision, recall and F1 at each threshold; `chosen` has the highest F1, None if F1 is 0 or undefined.

    Of several such thresholds the highest is chosen, which marks the fewest words.
    """

    threshold: Floats
    precision: Floats
    recall: Floats
    f1: Floats
    chosen: float | None


def count_matches(
    words: EvidenceWords,
    gold: Spans,
    predicted: Spans,
    *,
    chart: ArrayLike,
    n_codes: int,
    n_charts: int | None = None,
    strata: Sequence[Stratum] = (),
    iou: float = 0.5,
) -> MatchCounts:
    """Compare all evidence, then that of each stratum; `chart` is the number of each note's chart.

    The first stratum of the result is "all". Code numbers are below `n_codes`, charts below `n_charts`.
    """
    fraction(iou, name="iou")
    of_note = np.asarray(chart)
    if of_note.shape != (len(words.texts),) or (of_note.size and of_note.dtype.kind not in "iu"):
        raise ValueError("chart must have a whole number for each note")
    n = n_charts if n_charts is not None else int(of_note.max(initial=-1)) + 1
    if of_note.size and not 0 <= of_note.min() <= of_note.max() < n:
        raise ValueError("chart must lie between 0 and n_charts")
    if any(side.code.size and side.code.max() >= n_codes for side in (gold, predicted)):
        raise ValueError("codes must lie below n_codes")
    both = prepare(words, gold, predicted, of_note.astype(np.int64), n_codes)
    parts = (Stratum("all"), *strata)
    tables: list[SpanTally] = []
    for part in parts:
        keep = _mask(part.gold, gold), _mask(part.predicted, predicted)
        tables += [tally(both, match, *keep, iou=iou) for match in MATCHES]
    first = np.concatenate([[0], np.cumsum([table.chart.size for table in tables])]).astype(np.int64)
    chart_column, code, tp, fp, fn = (np.concatenate(column) for column in zip(*tables, strict=True))
    names, recall_only = tuple(part.name for part in parts), tuple(part.recall_only for part in parts)
    return MatchCounts(names, recall_only, n, first, chart_column, code, tp, fp, fn)


def span_scores(
    counts: MatchCounts,
    *,
    rng: np.random.Generator | int = 0,
    n_replicates: int = 10_000,
    patient: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> SpanScores:
    """Micro and macro scores with bootstrap replicates; charts are drawn, or patients with all their charts.

    Micro sums over codes. Macro is the mean over codes for which a measure is defined. Calls with the same integer
    `rng` and the same charts use the same resamples, so that models can be compared replicate by replicate. `weight`,
    one for each chart, multiplies its counts.
    """
    unit = np.arange(counts.n_charts) if patient is None else np.asarray(patient)
    if unit.shape != (counts.n_charts,):
        raise ValueError("patient must have a value for each chart")
    mass = None if weight is None else weights(weight, shape=(counts.n_charts,))
    shape = (len(counts.strata), len(MATCHES), len(AVERAGES), len(MEASURES))
    out = np.full((*shape, 1 + n_replicates), np.nan)
    if counts.n_charts:
        seed = int(seed_of(rng))  # one for all chunks
        by_chart = counts.by_chart().reshape(counts.n_charts, -1)
        out[..., :1] = _evaluate(counts, by_chart, np.ones((1, counts.n_charts), np.int32), mass)
        step = max(1, _CELLS_PER_CHUNK // max(counts.n_charts, by_chart.shape[1]))
        for low in range(0, n_replicates, step):
            n = min(step, n_replicates - low)
            drawn = resample_counts(rng=seed, n_replicates=n, patient=unit, first=low)
            out[..., 1 + low : 1 + low + n] = _evaluate(counts, by_chart, drawn, mass)
    for k, recall_only in enumerate(counts.recall_only):
        if recall_only:
            out[k, :, :, [MEASURES.index("precision"), MEASURES.index("f1")]] = np.nan
    return SpanScores(counts.strata, out[..., 0], out[..., 1:])


def _evaluate(counts: MatchCounts, by_chart: Floats, drawn: NDArray[np.int32], mass: Floats | None) -> Floats:
    """[stratum, match, average, measure, replicate] for counts [replicate, chart], times the weight of each chart."""
    from palpate.stats.kernels import walks as _walks

    n_tables = counts.first.size - 1
    out = np.empty((n_tables, len(AVERAGES), len(MEASURES), drawn.shape[0]))
    times = drawn.astype(np.float64) if mass is None else drawn * mass
    sums = (times @ by_chart).reshape(-1, n_tables, 3).transpose(2, 1, 0)
    out[:, 0] = _measures(*sums).transpose(1, 0, 2)
    macro = np.empty((n_tables, len(MEASURES), drawn.shape[0]))
    columns = (counts.chart, counts.code, counts.tp, counts.fp, counts.fn)
    with limited_threads(None):
        each = np.ascontiguousarray(drawn, np.int64) if mass is None else np.ascontiguousarray(times)
        _walks.macro_replicates(each, counts.first, *columns, macro)
    out[:, 1] = macro
    return out.reshape(len(counts.strata), len(MATCHES), len(AVERAGES), len(MEASURES), drawn.shape[0])


def _measures(tp: Floats, fp: Floats, fn: Floats) -> Floats:
    """[measure, ...] of counts; nan if the denominator is 0."""
    out = np.full((3, *tp.shape), np.nan)
    for k, (above, below) in enumerate(((tp, tp + fp), (tp, tp + fn), (2 * tp, 2 * tp + fp + fn))):
        np.divide(above, below, out=out[k], where=below > 0)
    return out


# --- strata -----------------------------------------------------------------------------------------------------


def strata_by_group(what: str, gold: Sequence[str], predicted: Sequence[str]) -> list[Stratum]:
    """Strata by a property that both sides have, such as the category of the note or the system of the code.

    `gold` and `predicted` have the group of each span, "" for none. A group in which only one side has spans is
    kept: predictions in it are false.
    """
    ours, theirs = np.asarray(gold, dtype=np.str_), np.asarray(predicted, dtype=np.str_)
    names = [name for name in np.unique(np.concatenate([ours, theirs])).tolist() if name]
    return [Stratum(f"{what}={name}", ours == name, theirs == name) for name in names]


def strata_by_length(words: EvidenceWords, gold: Spans) -> list[Stratum]:
    """Strata by the number of words of gold evidence; recall only, since a false prediction has no gold length."""
    n = np.diff(cover(words, gold).first)
    masks = {"1 word": n == 1, "2 words": n == 2, "3+ words": n > 2}
    return [Stratum(f"length={name}", mask, None, True) for name, mask in masks.items()]


def strata_by_window(seen: ArrayLike, gold: Spans) -> list[Stratum]:
    """Gold evidence inside and beyond the model's window; `seen` is how many characters of each note it could read.

    Evidence that the window cuts is beyond it. All of it stays in the other strata, where it is missed if not found.
    """
    within = gold.end <= np.asarray(seen, np.int64)[gold.note]
    return [Stratum("window=within", within, None, True), Stratum("window=beyond", ~within, None, True)]


def _mask(mask: Mask | None, side: Spans) -> Mask:
    if mask is None:
        return np.ones(side.note.size, np.bool_)
    if mask.shape != side.note.shape or mask.dtype != np.bool_:
        raise ValueError("a stratum's mask must have a boolean for each span of its side")
    return mask


# --- from scores to spans ---------------------------------------------------------------------------------------


def evidence_threshold(
    words: EvidenceWords,
    gold: Spans,
    predicted: Spans,
    score: ArrayLike,
    *,
    step: float = 0.02,
    weight: ArrayLike | None = None,
) -> ThresholdCurve:
    """The precision-recall curve of token match over thresholds step, 2 step, ... below 1 (paper, Appendix D).

    A word with a code has the highest score of the predicted spans that cover it, and is evidence at thresholds below
    that score (Section 5.2.1). The paper's steps are 0.02 for attention and 0.05 for tagging. Use the development
    split. `weight` is that of each note.
    """
    scores = finite(score, name="score")
    if scores.shape != predicted.note.shape:
        raise ValueError("score must have a value for each predicted span")
    if not 0.0 < step < 1.0:
        raise ValueError(f"step must lie between 0 and 1, not {step}")
    # Unrounded, 6 * 0.05 is 0.30000000000000004, and 3 * 0.1 is more than 0.3.
    thresholds = np.array([round(k * step, 12) for k in range(1, int(np.ceil(1 / step)) + 1)])
    thresholds = thresholds[thresholds < 1.0]
    n_codes = int(max(gold.code.max(initial=0), predicted.code.max(initial=0))) + 1
    both = prepare(words, gold, predicted, np.zeros(len(words.texts), np.int64), n_codes)
    mass = np.ones(len(words.texts)) if weight is None else weights(weight, shape=(len(words.texts),))
    wanted, at = np.unique(both.gold.piece * n_codes + gold.code[both.gold.piece_span], return_index=True)
    marked, first, which = np.unique(
        both.predicted.piece * n_codes + predicted.code[both.predicted.piece_span],
        return_index=True,
        return_inverse=True,
    )
    asked = float(mass[gold.note[both.gold.piece_span[at]]].sum())
    own = mass[predicted.note[both.predicted.piece_span[first]]]
    best = np.full(marked.size, -np.inf)
    np.maximum.at(best, which.reshape(-1), scores[both.predicted.piece_span])
    right = np.isin(marked, wanted, assume_unique=True)
    tp, false = (_above(best[part], own[part], thresholds) for part in (right, ~right))
    precision, recall, f1 = _measures(tp, false, np.maximum(asked - tp, 0.0))
    if wanted.size == 0 or not bool(np.any(f1 > 0)):
        return ThresholdCurve(thresholds, precision, recall, f1, None)
    highest = np.flatnonzero(f1 == np.nanmax(f1))[-1]
    return ThresholdCurve(thresholds, precision, recall, f1, float(thresholds[highest]))


def _above(values: Floats, mass: Floats, thresholds: Floats) -> Floats:
    """How much mass the values that are greater than each threshold have."""
    order = np.argsort(-values, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(mass[order])])
    return np.asarray(reached[np.searchsorted(-values[order], -thresholds, side="left")])


def merged_spans(words: EvidenceWords, note: Ints, marked: Spans) -> Spans:
    """Spans of one code that overlap, or have no word between them, as one; trimmed to words at their ends.

    So a span is a run of marked words (Section 6.2), whoever marked it and however it was cut. `note` has the note of
    each word, where a text has several: a run ends with its note. Spans without a word stay as they are.
    """
    covered = cover(words, marked)
    has = np.flatnonzero(np.diff(covered.first))
    first, last = covered.word[covered.first[has]], covered.word[covered.first[has + 1] - 1]
    order = np.lexsort((covered.end[has], covered.begin[has], marked.code[has], marked.note[has]))
    rows: list[list[int]] = []
    reached = -1
    for k in order.tolist():
        span, begin, end = int(has[k]), int(covered.begin[has[k]]), int(covered.end[has[k]])
        key = [int(marked.note[span]), int(marked.code[span])]
        same = bool(rows) and rows[-1][:2] == key
        if same and (begin <= rows[-1][3] or _follows(words, note, reached, rows[-1][3], int(first[k]), begin)):
            rows[-1][3] = max(rows[-1][3], end)
            reached = max(reached, int(last[k]))
        else:
            rows.append([*key, begin, end])
            reached = int(last[k])
    without = np.flatnonzero(np.diff(covered.first) == 0)
    made = np.array(rows, np.int64).reshape(-1, 4).T
    parts = zip((made[0], made[2], made[3], made[1]), (column[without] for column in marked), strict=True)
    return Spans(*(np.concatenate(pair) for pair in parts))


def _follows(words: EvidenceWords, note: Ints, last: int, end: int, first: int, begin: int) -> bool:
    """Whether the whole word `first`, where a span begins, comes right after the whole word `last`, where one ends.

    Pieces of words are not joined, or they would pass for the words.
    """
    whole = end == words.end[last] and begin == words.begin[first]
    return bool(whole and first == last + 1 and note[first] == note[last])


def token_runs(words: EvidenceWords, word: ArrayLike, code: ArrayLike) -> Spans:
    """Spans of consecutive words marked with one code, as the paper defines a predicted span; duplicates count once."""
    number, label = np.asarray(word, np.int64), np.asarray(code, np.int64)
    if number.shape != label.shape or number.ndim != 1:
        raise ValueError("word and code must have the same length")
    if number.size and not 0 <= number.min() <= number.max() < words.begin.size:
        raise ValueError("there is no word with this number")
    pairs = np.unique(np.stack([label, number], axis=1), axis=0) if number.size else np.zeros((0, 2), np.int64)
    label, number = pairs[:, 0], pairs[:, 1]
    note = words.note[number]
    goes_on = (label[1:] == label[:-1]) & (number[1:] == number[:-1] + 1) & (note[1:] == note[:-1])
    first = np.concatenate([[True], ~goes_on])[: number.size]
    last = np.concatenate([~goes_on, [True]])[-number.size :] if number.size else first
    return Spans(note[first], words.begin[number[first]], words.end[number[last]], label[first])
