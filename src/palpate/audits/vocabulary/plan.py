"""From words, notes and substitutes to the swaps that are scored, in columns (vocabulary paper, Sections 2.3 and 4).

Without a budget, every substitute is swapped in for every word in every note. With one, each word gets some notes and
each note some substitutes, and more in later turns. The order in which a word's notes are taken is drawn once, so a
later turn contains the earlier ones. A word that no clinician would use is also taken out of the same notes, once each
and wherever it stands: what that does is due to the word alone, and not to a substitute. A blank takes its place, so
that a model with a window reads no further than before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.scope import validation_rows
from palpate.audits.vocabulary.words import AuditedNotes
from palpate.cases import scratch
from palpate.cases.edits import Ints, Variants
from palpate.perturb.words import Hits
from palpate.perturb.words.substitutes import Substitutes, match_case
from palpate.results import Plan, VariantNames

FIRST: Final = "first"
ALL: Final = "all"
SCHEMES = {FIRST: "first occurrence", ALL: "all occurrences"}
REMOVED: Final = 2
"""In the column `scheme`: all occurrences are taken out, and a blank is put in their place."""
BLANK: Final = "_"
"""A token of its own for most models, and a word for none."""
_CASINGS = ("ab", "Ab", "AB")
"""An example of each way to write a word: lower, Capitalised, CAPITALS."""


class NoteWords(NamedTuple):
    """One row per note and word that it contains; the hits of row k are `first_hit[k]` to `first_hit[k + 1]`."""

    note: Ints
    word: Ints
    first_hit: Ints
    hits: Hits

    @property
    def n_hits(self) -> Ints:
        """How often the word occurs in the note."""
        return np.diff(self.first_hit)

    @property
    def first_hits(self) -> Hits:
        """Where the word occurs first."""
        return self.hits.take(self.first_hit[:-1])

    @classmethod
    def of(cls, hits: Hits) -> NoteWords:
        """From hits that are sorted by text, word and place."""
        new = np.ones(len(hits.text), dtype=bool)
        new[1:] = (hits.text[1:] != hits.text[:-1]) | (hits.word[1:] != hits.word[:-1])
        first = np.flatnonzero(new)
        return cls(hits.text[first], hits.word[first], np.append(first, len(new)).astype(np.int64), hits)


class Substitutions(NamedTuple):
    """One row per note, word and substitute for it, sorted by `pair`, which is a row of `NoteWords`."""

    pair: Ints
    filter: Ints
    substitute: Ints

    @classmethod
    def of(
        cls, pairs: NoteWords, offered: Mapping[str, tuple[Substitutes, bool]]
    ) -> tuple[Substitutions, tuple[str, ...]]:
        """All substitutions, and the texts that `substitute` points at.

        `offered` has each filter's substitutes, and whether their rows are pairs (otherwise they are words).
        """
        texts: list[str] = []
        offers: list[tuple[Ints, bool, int]] = []
        n = 0
        for substitutes, by_pair in offered.values():
            choice = substitutes.choice
            counts = np.count_nonzero(choice >= 0, axis=1)
            n += int(counts.sum() if by_pair else counts[pairs.word].sum())
            offers.append((choice, by_pair, len(texts)))
            texts += substitutes.pool
        found, at = cls(*(scratch.empty(n, np.int64) for _ in range(3))), 0
        width = sum(choice.shape[1] for choice, _, _ in offers)
        for some in scratch.parts(len(pairs.word), max(1, scratch.AT_ONCE // max(width, 1))):
            made = _offered(pairs.word[some], offers, some)
            for column, own in zip(found, made, strict=True):
                column[at : at + len(own)] = own
            at += len(made.pair)
        return found, tuple(texts)

    def sample(self, n: int, rng: np.random.Generator) -> Substitutions:
        """At most `n` substitutes of each pair, drawn."""
        kept = _first_of_each(self.pair, rng.random(len(self.pair)), np.full(len(self.pair), n))
        return Substitutions(*(column[kept] for column in self))


def _offered(word: Ints, offers: Sequence[tuple[Ints, bool, int]], some: slice) -> Substitutions:
    """Those of some pairs, from each filter's choices, whether their rows are pairs, and their first text."""
    columns: list[tuple[Ints, Ints, Ints]] = []
    for k, (choice, by_pair, first) in enumerate(offers):
        own = choice[some] if by_pair else choice[word]
        pair, place = np.nonzero(own >= 0)
        columns.append((pair + some.start, np.full(len(pair), k), own[pair, place] + first))
    pair, number, substitute = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(pair, kind="stable")
    return Substitutions(pair[order], number[order], substitute[order])


def _first_of_each(key: Ints, draw: NDArray[np.float64], most: Ints) -> NDArray[np.bool_]:
    """Which rows are among the first `most` of their key, in the order of `draw`."""
    order = np.lexsort((draw, key))
    ordered = key[order]
    place = np.arange(len(order)) - np.searchsorted(ordered, ordered, side="left")
    taken = np.zeros(len(order), dtype=bool)
    taken[order] = place < most[order]
    return taken


@dataclass(frozen=True, eq=False)
class CandidateSwaps:
    """Everything that could be swapped: what a budget draws from."""

    words: tuple[str, ...]
    filters: tuple[str, ...]
    origin: Mapping[str, str]
    """Where each filter's substitutes come from, in words."""
    notes: AuditedNotes
    labels: tuple[str, ...]
    pairs: NoteWords
    substitutions: Substitutions
    substitutes: tuple[str, ...]
    draw: NDArray[np.float64]
    """A random number for each pair: a word's notes are taken by it, smallest first."""
    schemes: tuple[str, str]
    """Which occurrences are swapped: `FIRST` or `ALL`, and the other one for the frequency diagnostic."""
    keep_case: bool
    diagnostic_notes: int
    """How many notes of each word are swapped the other way too."""
    finds_threshold: bool
    """Whether a threshold must be found, which takes all audited notes where there is no validation split."""
    removed: NDArray[np.bool_]
    """[words] Which words are taken out of their notes too."""

    def choose(self, n_notes: Ints) -> Ints:
        """The substitutions that are taken when word k may have `n_notes[k]` notes."""
        taken = _first_of_each(self.pairs.word, self.draw, n_notes[self.pairs.word])
        rows: Ints = scratch.rows_where(taken, self.substitutions.pair)
        return rows

    def pairs_of(self, chosen: Ints) -> Ints:
        """The pairs that the chosen substitutions belong to, each once."""
        seen = np.zeros(len(self.pairs.word), dtype=bool)
        for part in scratch.parts(len(chosen)):
            seen[self.substitutions.pair[chosen[part]]] = True
        return np.flatnonzero(seen)

    def variants(self, chosen: Ints, pair: Ints, scheme: Ints, *, unedited: Ints) -> Variants:
        """`unedited` cases of the cohort first, then one row per chosen substitution, then one per removal.

        `pair` and `scheme` are those of the chosen substitutions and then of the removals.
        """
        n_plain, n_rows = len(unedited), len(pair)
        first_edit = self._first_edits(pair, scheme, n_plain)
        start, end, form = (scratch.empty(int(first_edit[-1]), np.int64) for _ in range(3))
        texts, blank = (*self.substitutes, BLANK), len(self.substitutes)
        is_used = np.zeros(len(texts) * len(_CASINGS), dtype=bool)
        for part in scratch.parts(n_rows):
            first = first_edit[n_plain + part.start : n_plain + part.stop + 1]
            edits, n_edits = slice(first[0], first[-1]), np.diff(first)
            hit = np.repeat(self.pairs.first_hit[pair[part]] - first[:-1], n_edits) + np.arange(first[0], first[-1])
            start[edits], end[edits] = self.pairs.hits.start[hit], self.pairs.hits.end[hit]
            swapped = self.substitutions.substitute[chosen[part]]  # fewer where removals begin
            substitute = np.concatenate([swapped, np.full(len(n_edits) - len(swapped), blank)])
            form[edits] = np.repeat(substitute * len(_CASINGS), n_edits)
            form[edits] += self._casings[hit] if self.keep_case else 0
            is_used[form[edits]] = True
        number = np.cumsum(is_used) - 1
        for part in scratch.parts(len(form)):
            form[part] = number[form[part]]
        written = (divmod(k, len(_CASINGS)) for k in np.flatnonzero(is_used).tolist())
        parent, group = (scratch.empty(n_plain + n_rows, np.int64) for _ in range(2))
        parent[:n_plain], group[:n_plain] = unedited, 0
        np.take(self.notes.rows[self.pairs.note], pair, out=parent[n_plain:], mode="clip")
        np.add(scheme, 1, out=group[n_plain:])
        return Variants(
            parent=parent,
            first_edit=first_edit,
            start=start,
            end=end,
            replacement=form,
            replacements=tuple(match_case(texts[k], _CASINGS[case]) for k, case in written),
            group=group,
            group_names=("original", *(f"{name} swapped" for name in self.schemes), "all removed"),
        )

    def _first_edits(self, pair: Ints, scheme: Ints, n_plain: int) -> Ints:
        """Where the edits of each row begin, after `n_plain` rows without any."""
        takes_all = np.asarray([*(name == ALL for name in self.schemes), True])
        n_hits = self.pairs.n_hits
        first: Ints = scratch.empty(n_plain + len(pair) + 1, np.int64)
        first[: n_plain + 1] = 0
        for part in scratch.parts(len(pair)):
            n_edits = np.where(takes_all[scheme[part]], n_hits[pair[part]], 1)
            n_edits[0] += first[n_plain + part.start]
            np.cumsum(n_edits, out=first[n_plain + part.start + 1 : n_plain + part.stop + 1])
        return first

    @cached_property
    def _casings(self) -> Ints:
        """How each hit is written, as an index into `_CASINGS`."""
        hits = self.pairs.hits
        spans = zip(hits.text.tolist(), hits.start.tolist(), hits.end.tolist(), strict=True)
        written = (match_case(_CASINGS[0], self.notes.texts[text][start:end]) for text, start, end in spans)
        return np.fromiter(map(_CASINGS.index, written), np.int64, count=len(hits.text))


@dataclass(frozen=True, eq=False)
class Swaps:
    """One row per swap: a word in a note replaced with one substitute, or with a blank."""

    words: tuple[str, ...]
    filters: tuple[str, ...]
    """Names of the filters, e.g. ("uniform", "unigram", "context")."""
    word: Ints
    note: Ints
    """The row of the cohort."""
    filter: Ints
    """-1 where the word is taken out."""
    schemes: tuple[str, str]
    """What is swapped in a note: the audit's own way, and the other one, planned for the frequency diagnostic."""
    scheme: Ints
    """0 or 1, as in `schemes`, or `REMOVED`."""
    variant: Ints
    """The row of the plan's variants that holds the swapped text."""
    original: Ints
    """[cohort] the row of the plan's variants with the unedited note, -1 where there is none."""
    n_occurrences: Ints
    """[words] in the audited notes."""
    n_notes: Ints
    """[words] notes that contain the word, whether or not they were sampled."""
    reasons: tuple[str | None, ...]
    """[words] why a word has no swap."""

    @property
    def originals(self) -> Ints:
        """The rows of the plan's variants that hold unedited notes."""
        return self.original[self.original >= 0]


class PlannedSwaps(NamedTuple):
    """What the audit remembers of one turn's plan."""

    candidates: CandidateSwaps
    swaps: Swaps
    n_notes: Ints
    """How many notes each word may have so far."""
    turn: int
    """Counted from 1."""
    validation: slice
    """Rows of the plan's variants that hold the validation split."""

    def variant_names(self) -> dict[str, VariantNames]:
        """The word that is swapped, and the filter that proposed its substitute."""
        row = self.swaps.variant
        return {
            "word": VariantNames(row, self.swaps.word, self.swaps.words),
            "filter": VariantNames(row, self.swaps.filter, self.swaps.filters),
        }

    @property
    def all_scored(self) -> NDArray[np.bool_]:
        """[words] Whether every note that contains the word is in the plan."""
        return self.n_notes >= self.swaps.n_notes


def plan_swaps(candidates: CandidateSwaps, n_notes: Ints, *, turn: int) -> Plan[PlannedSwaps]:
    """The plan in which word k has at most `n_notes[k]` notes."""
    cohort, rows = candidates.notes.cohort, candidates.notes.rows
    pairs, substitutions, n_words = candidates.pairs, candidates.substitutions, len(candidates.words)
    main, other = candidates.choose(n_notes), candidates.choose(np.minimum(n_notes, candidates.diagnostic_notes))
    swapped = candidates.pairs_of(main)
    removals = swapped[candidates.removed[pairs.word[swapped]]]
    chosen, scheme = _joined([main, other]), _schemes(len(main), len(other), len(removals))
    validation = validation_rows(cohort)
    notes = np.unique(pairs.note[swapped])
    if candidates.finds_threshold and not len(validation):
        notes = np.arange(len(rows))
    unedited = np.concatenate([rows[notes], validation])
    original = np.full(len(cohort), -1, dtype=np.int64)
    original[rows[notes]] = np.arange(len(notes))
    pair = _joined([scratch.taken(substitutions.pair, chosen), removals])
    n_with_word = np.bincount(pairs.word, minlength=n_words)
    n_of_pair = np.bincount(substitutions.pair, minlength=len(pairs.word))
    n_offered = np.bincount(pairs.word, weights=n_of_pair, minlength=n_words).astype(np.int64)
    swaps = Swaps(
        words=candidates.words,
        filters=candidates.filters,
        word=scratch.taken(pairs.word, pair),
        note=scratch.taken(rows[pairs.note], pair),
        filter=_joined([scratch.taken(substitutions.filter, chosen), np.full(len(removals), -1)]),
        schemes=(SCHEMES[candidates.schemes[0]], SCHEMES[candidates.schemes[1]]),
        scheme=scheme,
        variant=_numbered(len(unedited), len(pair)),
        original=original,
        n_occurrences=np.bincount(pairs.hits.word, minlength=n_words),
        n_notes=n_with_word,
        reasons=tuple(map(_why_no_swap, n_with_word.tolist(), n_offered.tolist())),
    )
    variants = candidates.variants(chosen, pair, scheme, unedited=unedited)
    memory = PlannedSwaps(candidates, swaps, n_notes, turn, slice(len(notes), len(unedited)))
    return Plan(cohort, variants, candidates.labels, cases=rows, memory=memory)


def _joined(parts: Sequence[Ints]) -> Ints:
    """Columns one after the other."""
    column: Ints = scratch.empty(sum(map(len, parts)), np.int64)
    return np.concatenate(parts, out=column)


def _schemes(*counts: int) -> Ints:
    """0, 1 and `REMOVED`, each as often as it is planned."""
    column: Ints = scratch.empty(sum(counts), np.int64)
    at = 0
    for scheme, n in enumerate(counts):
        column[at : at + n] = scheme
        at += n
    return column


def _numbered(first: int, n: int) -> Ints:
    """`n` numbers from `first` on."""
    column: Ints = scratch.empty(n, np.int64)
    for part in scratch.parts(n):
        column[part] = np.arange(first + part.start, first + part.stop)
    return column


def _why_no_swap(n_notes: int, n_offered: int) -> str | None:
    if not n_notes:
        return "in no note"
    return None if n_offered else "no substitute"
