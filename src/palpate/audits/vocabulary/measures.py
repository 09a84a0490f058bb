"""How much each word moves a model: the token sensitivity score (vocabulary paper, Section 2.3).

A note's score for a word is the plain mean over its substitutes of |f(x) - f(g(x))|, whichever filter they come from,
as in the paper; so a filter with more substitutes weighs more. A word's score is the mean over the notes that contain
it. The same means are taken of the signed change, f(g(x)) - f(x), which is positive where the risk rises once the word
is replaced, and of whether the decision flips; and all of them within one filter.

A swap outside the model's window changes nothing, and its 0 stays in the mean: the model can't react to what it can't
read. Intervals are about other patients; the substitutes are held fixed. With sampling weights, a note counts by its
weight in the mean over the notes that contain a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from palpate.audits.kit.metrics import append_ensembles
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.vocabulary.intervals import (
    FEWEST_PATIENTS,
    Floats,
    PatientSums,
    change_interval,
    moments,
    one_sided,
    rank_interval,
    rate_interval,
    signed_interval,
)
from palpate.audits.vocabulary.plan import REMOVED, PlannedSwaps, Swaps
from palpate.cases import scratch
from palpate.cases.edits import Ints
from palpate.results import MACRO, Plan, Predictions

MEASURES = ("sensitivity", "signed_change", "flip_rate", "flipped_notes")
_DECIMALS = 12
"""Scores nearer than this share a rank: their difference is rounding."""
_INTERVALS = {
    "sensitivity": change_interval,
    "signed_change": signed_interval,
    "flip_rate": rate_interval,
    "flipped_notes": rate_interval,
}


class _Pool(NamedTuple):
    """The swaps of all filters, or of one: which they are, the (word, note) cell of each, and the size of each cell."""

    rows: Ints
    cell: Ints
    size: Floats
    slot: Ints
    """Of each cell: its word and patient."""
    weight: Floats
    """Of each cell: that of its note."""


@dataclass(frozen=True, eq=False)
class SwapLayout:
    """The swaps of one scheme by word, note and patient; the same for all models.

    A slot is a pair of word and patient, sorted by word. The pools are all filters together, then each filter.
    """

    pools: tuple[_Pool, ...]
    variant: Ints
    original: Ints
    swap_word: Ints
    slot_word: Ints
    slot_patient: Ints
    n_words: int
    n_patients: int
    notes: Floats
    """[pool, slot] how many notes stand behind each sum, or their sampling weights."""
    counted: Floats | None = None
    """With sampling weights, [pool, slot] how many notes there are."""
    swap_weight: Floats | None = None
    """With sampling weights, the weight of each swap's note."""

    @cached_property
    def n_notes(self) -> Ints:
        """[pool, word] notes that each score rests on."""
        every = self.notes if self.counted is None else self.counted
        counts = [np.bincount(self.slot_word, weights=notes, minlength=self.n_words) for notes in every]
        return np.rint(counts).astype(np.int64)

    @cached_property
    def n_patients_of(self) -> Ints:
        """[words] patients that each word's score rests on."""
        return np.bincount(self.slot_word, minlength=self.n_words)

    @cached_property
    def n_swaps(self) -> Ints:
        """[words] swaps that were made."""
        return np.bincount(self.swap_word, minlength=self.n_words)

    @property
    def swap_mass(self) -> Floats | Ints:
        """[words] swaps that were made, or their weights."""
        if self.swap_weight is None:
            return self.n_swaps
        return np.bincount(self.swap_word, weights=self.swap_weight, minlength=self.n_words)

    def sums(self, values: Floats, *, of_any: bool = False) -> Floats:
        """[pool, slot] sums over a patient's notes of the mean over a note's swaps, or of whether any is above 0."""
        out = np.zeros(self.notes.shape)
        for k, pool in enumerate(self.pools):
            total = np.bincount(pool.cell, weights=scratch.taken(values, pool.rows), minlength=len(pool.size))
            note = (total > 0).astype(np.float64) if of_any else total / pool.size
            out[k] = np.bincount(pool.slot, weights=note * pool.weight, minlength=len(self.slot_word))
        return out

    def patient_sums(self, total: Floats, pool: int) -> PatientSums:
        """What intervals are made from, for sums [slot] of one pool."""
        counted = None if self.counted is None else self.counted[pool]
        return PatientSums(total, self.notes[pool], self.slot_word, self.n_words, counted)

    def means(self, sums: Floats) -> Floats:
        """[..., pool, word] from [..., pool, slot]; NaN where a word has no note."""
        starts = np.searchsorted(self.slot_word, np.arange(self.n_words))
        empty = self.n_patients_of == 0

        def by_word(values: Floats) -> Floats:
            padded = np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
            total = np.add.reduceat(padded, starts, axis=-1)
            return np.asarray(np.where(empty, 0.0, total))

        notes = np.broadcast_to(by_word(self.notes[: sums.shape[-2]]), (*sums.shape[:-1], self.n_words))
        out = np.full(notes.shape, np.nan)
        np.divide(by_word(sums), notes, out=out, where=notes > 0)
        return out


def in_both_schemes(swaps: Swaps) -> Swaps:
    """The swaps of notes and words that were swapped both ways, so that the two ways are compared on the same notes."""
    place = swaps.word * len(swaps.original) + swaps.note
    kept = np.isin(place, place[swaps.scheme == 1])
    columns = ("word", "note", "filter", "scheme", "variant")
    return replace(swaps, **{name: getattr(swaps, name)[kept] for name in columns})


def note_weights(plan: Plan[PlannedSwaps]) -> Floats | None:
    """[row of the cohort] sampling weights, with a mean of 1 among the swapped notes; None where they are equal."""
    rows = np.unique(plan.memory.swaps.note)
    weight = plan.cohort.weights_of(rows)
    if weight is None:
        return None
    every = np.zeros(len(plan.cohort))
    every[rows] = weight
    return every


def lay_out(swaps: Swaps, patients: Ints, *, scheme: int = 0, weight: Floats | None = None) -> SwapLayout:
    """Sort the swaps of one scheme; `patients` and `weight` are of each row of the cohort."""
    rows = scratch.rows_where(np.arange(REMOVED + 1) == scheme, swaps.scheme)
    word, note, number = (scratch.taken(column, rows) for column in (swaps.word, swaps.note, swaps.filter))
    original = scratch.taken(swaps.original, note)
    if np.any(original < 0):
        raise ValueError("a swapped note must be scored unedited too")
    patient_of, n_patients = _numbered_patients(note, patients)
    step = max(n_patients, 1)
    first = _begins(word, note)
    slots = np.unique(word[first] * step + patient_of[note[first]])
    pools = []
    of_filter = np.eye(len(swaps.filters), len(swaps.filters) + 1, dtype=bool)  # the last column is filter -1
    for mask in (np.ones(len(swaps.filters) + 1, dtype=bool), *of_filter):
        chosen = scratch.rows_where(mask, number)
        cells = _cells(scratch.taken(word, chosen), scratch.taken(note, chosen), len(patients))
        of_cell = note[chosen[cells.first]]
        slot = np.searchsorted(slots, word[chosen[cells.first]] * step + patient_of[of_cell])
        own = np.ones(len(of_cell)) if weight is None else weight[of_cell]
        pools.append(_Pool(chosen, cells.code, cells.size, slot, own))
    counted = np.stack([np.bincount(pool.slot, minlength=len(slots)).astype(np.float64) for pool in pools])
    mass = [np.bincount(pool.slot, weights=pool.weight, minlength=len(slots)) for pool in pools]
    return SwapLayout(
        pools=tuple(pools),
        variant=scratch.taken(swaps.variant, rows),
        original=original,
        swap_word=word,
        slot_word=slots // step,
        slot_patient=slots % step,
        n_words=len(swaps.words),
        n_patients=n_patients,
        notes=counted if weight is None else np.stack(mass),
        counted=None if weight is None else counted,
        swap_weight=None if weight is None else weight[note],
    )


def _numbered_patients(note: Ints, patients: Ints) -> tuple[Ints, int]:
    """The patients of the notes, numbered from 0 for each row of the cohort, and how many they are."""
    is_used = np.zeros(len(patients), dtype=bool)
    is_used[note] = True
    known, number = np.unique(patients[is_used], return_inverse=True)
    found = np.zeros(len(patients), dtype=np.int64)
    found[is_used] = number
    return found, len(known)


class _Cells(NamedTuple):
    """The distinct pairs of a word and a note, sorted: where each is first, how often it is, and which each row has."""

    first: Ints
    size: Floats
    code: Ints


def _cells(word: Ints, note: Ints, n_notes: int) -> _Cells:
    """As `np.unique` finds them, which sorts one row of each run of equal rows: the swaps of a pair stand together."""
    begin = _begins(word, note)
    lengths = np.diff(begin, append=len(word))
    _, first, code = np.unique(word[begin] * n_notes + note[begin], return_index=True, return_inverse=True)
    size = np.bincount(code, weights=lengths, minlength=len(first)).astype(np.float64)
    return _Cells(begin[first], size, scratch.stored(np.repeat(code.astype(np.int64), lengths)))


def _begins(word: Ints, note: Ints) -> Ints:
    """The rows at which another word or another note begins."""
    new = np.ones(len(word), dtype=bool)
    np.not_equal(word[1:], word[:-1], out=new[1:])
    new[1:] |= note[1:] != note[:-1]
    return np.flatnonzero(new)


@dataclass(frozen=True, eq=False)
class SwapEffects:
    """What the swaps did to the models' predictions; the first axis of every result is `predictions.names`."""

    layout: SwapLayout
    predictions: Predictions
    thresholds: Thresholds
    labels: Sequence[str]

    @cached_property
    def compared(self) -> list[int]:
        """Where the models that are compared stand among all models."""
        return [self.predictions.names.index(name) for name in self.predictions.compared]

    def by_compared(self, values: Floats) -> dict[str, Floats]:
        """The rows of [model, ...] of the models that are compared."""
        return dict(zip(self.predictions.compared, values[self.compared], strict=True))

    @cached_property
    def has_score(self) -> NDArray[np.bool_]:
        """[words] Which words were swapped in some note."""
        return self.layout.n_patients_of > 0

    def sums(self, label: int) -> Floats:
        """[model, measure, pool, slot] for one label; an ensemble has the mean of its members' sums."""
        layout, scored = self.layout, self.predictions.scored
        out = np.zeros((len(scored), len(MEASURES), *layout.notes.shape))
        for m, answers in enumerate(scored.values()):
            p = answers.p[:, label]
            before, after = scratch.taken(p, layout.original), scratch.taken(p, layout.variant)
            cut = self.thresholds.values[m, label]
            change = np.subtract(after, before, out=scratch.empty(len(before), np.float64))
            out[m, 1] = layout.sums(change)
            out[m, 0] = layout.sums(np.abs(change, out=change))
            flips = np.not_equal(after >= cut, before >= cut, out=change, casting="unsafe")
            out[m, 2] = np.nan if np.isnan(cut) else layout.sums(flips)
            out[m, 3] = np.nan if np.isnan(cut) else layout.sums(flips, of_any=True)
        return append_ensembles(out, self.predictions)

    def by_label(self, shown: Sequence[str]) -> Iterator[tuple[str, Floats]]:
        """(label, [model, measure, pool, slot]) of the labels to show, and the mean over all labels if several.

        A label without a threshold has no flips; the mean of flips is over the labels that have one.
        """
        total: Floats | None = None
        known: Ints = np.zeros(1, dtype=np.int64)
        for k, label in enumerate(self.labels):
            sums = self.sums(k)
            if label in shown:
                yield label, sums
            if len(self.labels) > 1:
                defined = ~np.isnan(sums)
                filled = np.where(defined, sums, 0.0)
                total, known = (
                    (filled, defined.astype(np.int64)) if total is None else (total + filled, known + defined)
                )
        if total is not None:
            mean = np.full(total.shape, np.nan)
            np.divide(total, known, out=mean, where=known > 0)
            yield MACRO, mean

    @property
    def overall_label(self) -> str:
        """The only label, or the mean over all labels."""
        return self.labels[0] if len(self.labels) == 1 else MACRO

    def overall(self) -> Floats:
        """[model, measure, pool, slot] for the overall label."""
        _, sums = next(self.by_label((self.overall_label,)))
        return sums

    def outside(self) -> Floats:
        """[model, word] share of the swaps that lie outside the model's window; NaN where a word has no swap."""
        layout, scored = self.layout, self.predictions.scored
        n, weight = layout.swap_mass, layout.swap_weight
        shares = np.full((len(scored), layout.n_words), np.nan)
        for m, answers in enumerate(scored.values()):
            out = ~answers.seen[layout.variant]
            own = None if weight is None else weight[out]
            unseen = np.bincount(layout.swap_word[out], weights=own, minlength=layout.n_words)
            np.divide(unseen, n, out=shares[m], where=n > 0)
        return append_ensembles(shares, self.predictions)

    def outside_overall(self) -> dict[str, float]:
        """The share of all swaps that each compared model can't see; nothing where there is no swap."""
        n = self.layout.swap_mass
        if not n.sum():
            return {}
        shares = np.nan_to_num(self.outside()) @ n / n.sum()
        return {name: float(share) for name, share in self.by_compared(shares).items()}


class WordScores(NamedTuple):
    """What one label's swaps say about every word; NaN is undefined."""

    label: str
    value: Floats
    """[model, measure, pool, word]"""
    low: Floats
    high: Floats
    rank: Floats
    """[model, word]; 1 moves the model most."""
    rank_low: Floats
    rank_high: Floats


def score_words(label: str, sums: Floats, layout: SwapLayout, level: Floats | float) -> WordScores:
    """Scores and ranks with their intervals; `level` is one for all words, or one for each.

    A word of too few patients has none, but its score counts where others are ranked, with what is known of it.
    """
    value = layout.means(sums)
    ends = np.full((2, *value.shape), np.nan)
    ranks = np.full((3, len(value), layout.n_words), np.nan)
    for m, k, j in np.ndindex(value.shape[:3]):
        found = moments(layout.patient_sums(np.nan_to_num(sums[m, k, j]), j))
        enough = (found.n_patients >= FEWEST_PATIENTS) & ~np.isnan(value[m, k, j])
        ends[:, m, k, j] = np.where(enough, _INTERVALS[MEASURES[k]](found, level), np.nan)
        if (k, j) == (0, 0):
            possible = rank_interval(value[m, 0, 0], change_interval(found, one_sided(level)))
            ranks[0, m] = rank_words(value[m, 0, 0])
            ranks[1:, m] = np.where(enough, possible, np.nan)
    return WordScores(label, value, *ends, *ranks)


def rank_words(sensitivity: Floats) -> Floats:
    """Ranks of [words]; the highest score is 1, equal scores share the mean, and NaN has none."""
    out = np.full(sensitivity.shape, np.nan)
    known = ~np.isnan(sensitivity)
    if known.any():
        out[known] = rankdata(-np.round(sensitivity[known], _DECIMALS))
    return out


def unsettled_words(
    plan: Plan[PlannedSwaps],
    predictions: Predictions,
    *,
    width: float | None,
    top: int | None,
    level: Floats | float,
) -> NDArray[np.bool_]:
    """[words] Which words more notes should be scored for.

    A word is settled if, for every model, the interval of its score is narrower than `width`, or if, for every model,
    the interval of its rank lies wholly within the first `top` or wholly behind them. A word without swaps is settled:
    more notes can't help. A word whose interval can't be computed is not.
    """
    layout = lay_out(plan.memory.swaps, plan.cohort.patients, weight=note_weights(plan))
    no_thresholds = Thresholds(np.full((len(predictions.scored), len(plan.labels)), np.nan), {})
    effects = SwapEffects(layout, predictions, no_thresholds, plan.labels)
    scores = score_words(effects.overall_label, effects.overall()[effects.compared, :1, :1], layout, level)
    settled = layout.n_notes[0] == 0
    if width is not None:
        settled |= np.all(scores.high[:, 0, 0] - scores.low[:, 0, 0] < width, axis=0)
    if top is not None:
        settled |= np.all((scores.rank_high <= top) | (scores.rank_low > top), axis=0)
    return np.asarray(~settled)
