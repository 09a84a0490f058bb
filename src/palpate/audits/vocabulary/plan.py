"""From words, notes and substitutes to the swaps that are scored, in columns (vocabulary paper, Sections 2.3 and 4).

A *pair* is a note and a word that it contains. An *offer* is a pair with one substitute. Without a budget all offers
are taken; with one, each word gets some notes and each note some substitutes, and more in later turns. The order in
which notes are taken is drawn once, so a later turn holds the earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints, Variants
from palpate.perturb.words import Hits
from palpate.perturb.words.substitutes import Substitutes, match_case

FIRST: Final = "first"
ALL: Final = "all"
_SHAPES = ("ab", "Ab", "AB")
"""A word of each way of writing: lower, Capitalised, CAPITALS."""


class Pairs(NamedTuple):
    """One row a (note, word) pair; the hits of pair k are `first_hit[k]` to `first_hit[k + 1]`."""

    note: Ints
    word: Ints
    first_hit: Ints

    @property
    def n_hits(self) -> Ints:
        """How often the word stands in the note."""
        return np.diff(self.first_hit)

    @classmethod
    def of(cls, hits: Hits) -> Pairs:
        """The pairs of hits that are sorted by text, word and place."""
        new = np.ones(len(hits.text), dtype=bool)
        new[1:] = (hits.text[1:] != hits.text[:-1]) | (hits.word[1:] != hits.word[:-1])
        first = np.flatnonzero(new)
        return cls(hits.text[first], hits.word[first], np.append(first, len(new)).astype(np.int64))


class Offers(NamedTuple):
    """One row a (pair, substitute), sorted by pair."""

    pair: Ints
    family: Ints
    substitute: Ints


@dataclass(frozen=True, eq=False)
class Universe:
    """Everything that could be swapped: what a budget draws from."""

    words: tuple[str, ...]
    families: tuple[str, ...]
    texts: Sequence[str]
    rows: Ints
    """The cohort's row of each text."""
    hits: Hits
    pairs: Pairs
    offers: Offers
    substitutes: tuple[str, ...]
    draw: NDArray[np.float64]
    """A random number for each pair: a word's notes are taken by it, smallest first."""
    keep_case: bool = True

    def take_notes(self, n_notes: Ints) -> NDArray[np.bool_]:
        """Which pairs are taken when word k may have `n_notes[k]` notes."""
        order = np.lexsort((self.draw, self.pairs.word))
        word = self.pairs.word[order]
        place = np.arange(len(order)) - np.searchsorted(word, word, side="left")
        taken = np.zeros(len(order), dtype=bool)
        taken[order] = place < n_notes[word]
        return taken

    def edits(self, offers: Ints, scheme: str) -> tuple[Ints, Ints, Ints, list[str], Ints]:
        """The edits of some offers: start, end, replacement, the replacements, and how many edits each offer has."""
        pair = self.offers.pair[offers]
        n = self.pairs.n_hits[pair] if scheme == ALL else np.ones(len(offers), dtype=np.int64)
        owner = np.repeat(np.arange(len(offers)), n)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(n) - n, n)
        hit = self.pairs.first_hit[pair][owner] + within
        substitute = self.offers.substitute[offers][owner]
        surface = self._surfaces[hit] if self.keep_case else np.zeros(len(hit), dtype=np.int64)
        used, replacement = np.unique(substitute * len(_SHAPES) + surface, return_inverse=True)
        cased = (divmod(k, len(_SHAPES)) for k in used.tolist())
        texts = [match_case(self.substitutes[word], _SHAPES[shape]) for word, shape in cased]
        return self.hits.start[hit], self.hits.end[hit], replacement.astype(np.int64), texts, n

    @cached_property
    def _surfaces(self) -> Ints:
        """How each hit is written, as an index into `_SHAPES`."""
        spans = zip(self.hits.text.tolist(), self.hits.start.tolist(), self.hits.end.tolist(), strict=True)
        shapes = (match_case(_SHAPES[0], self.texts[t][s:e]) for t, s, e in spans)
        return np.fromiter(map(_SHAPES.index, shapes), np.int64, count=len(self.hits.text))


class Chosen(NamedTuple):
    """Offers that are scored, and under which scheme."""

    offer: Ints
    scheme: Ints


def chosen_variants(
    universe: Universe, chosen: Chosen, schemes: Sequence[str], *, unedited: Ints
) -> tuple[Variants, Ints]:
    """The variants: `unedited` cases of the cohort first, then one row a chosen offer; and the rows of the latter."""
    parts = []
    for number, scheme in enumerate(schemes):
        offers = chosen.offer[chosen.scheme == number]
        parts.append((offers, *universe.edits(offers, scheme)))
    words: list[str] = []
    shifted = []
    for _, _, _, replacement, texts, _ in parts:
        shifted.append(replacement + len(words))
        words += texts
    n_edits = np.concatenate([np.zeros(len(unedited), np.int64), *(part[5] for part in parts)])
    parent = [universe.rows[universe.pairs.note[universe.offers.pair[part[0]]]] for part in parts]
    group = np.repeat([0, *range(1, len(parts) + 1)], [len(unedited), *(len(part[0]) for part in parts)])
    variants = Variants(
        parent=np.concatenate([unedited, *parent]).astype(np.int64),
        first_edit=np.concatenate([[0], np.cumsum(n_edits)]).astype(np.int64),
        start=np.concatenate([part[1] for part in parts]),
        end=np.concatenate([part[2] for part in parts]),
        replacement=np.concatenate(shifted),
        replacements=tuple(words),
        group=group.astype(np.int64),
        group_names=("original", *(f"{scheme} swapped" for scheme in schemes)),
    )
    row = np.zeros(len(chosen.offer), dtype=np.int64)
    begin = len(unedited)
    for number in range(len(schemes)):
        mine = np.flatnonzero(chosen.scheme == number)
        row[mine] = begin + np.arange(len(mine))
        begin += len(mine)
    return variants, row


def offers_of(pairs: Pairs, substitutes: Mapping[str, tuple[Substitutes, bool]]) -> tuple[Offers, tuple[str, ...]]:
    """All offers, sorted by pair, and the substitutes that they name.

    `substitutes` holds for each family its substitutes, and whether their rows are pairs (else they are words).
    """
    pool: list[str] = []
    columns: list[tuple[Ints, Ints, Ints]] = []
    for family, (offered, by_pair) in enumerate(substitutes.values()):
        choice = offered.choice if by_pair else offered.choice[pairs.word]
        pair, place = np.nonzero(choice >= 0)
        columns.append((pair, np.full(len(pair), family), choice[pair, place] + len(pool)))
        pool += offered.pool
    pair, family_of, substitute = (np.concatenate(parts).astype(np.int64) for parts in zip(*columns, strict=True))
    order = np.argsort(pair, kind="stable")
    return Offers(pair[order], family_of[order], substitute[order]), tuple(pool)


def some_offers(offers: Offers, n: int, rng: np.random.Generator) -> Offers:
    """At most `n` offers of each pair, drawn."""
    order = np.lexsort((rng.random(len(offers.pair)), offers.pair))
    pair = offers.pair[order]
    place = np.arange(len(order)) - np.searchsorted(pair, pair, side="left")
    kept = np.sort(order[place < n])
    return Offers(*(column[kept] for column in offers))
