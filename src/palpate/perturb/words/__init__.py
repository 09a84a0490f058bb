"""Target words and where they are in the notes (vocabulary-sensitivity, sections 2.3.1 and 2.3.5).

`find_words` tokenises each note once and looks its words up, so the time does not grow with the number of target
words. What counts as a word, and the role of hyphens, apostrophes and numbers: see `palpate.perturb.words.tokens`.

`choose_words` picks target words if the user has none, and `Ratings` are clinicians' scores of words (section 3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints
from palpate.errors import InputError
from palpate.perturb.words.choice import STOP_WORDS, Choice, ChosenWords, WordCount, choose_words, count_words
from palpate.perturb.words.tokens import Token, normalise_word, pieces, plain_marks, tokens

__all__ = [
    "STOP_WORDS",
    "USUAL_SCALE",
    "Choice",
    "ChosenWords",
    "Hits",
    "RatingScale",
    "Ratings",
    "Token",
    "WordCount",
    "check_words",
    "choose_words",
    "count_words",
    "find_words",
    "normalise_word",
    "read_scale",
    "tokens",
]

Floats = NDArray[np.float64]
Occurrences = Literal["all", "first"]

_BLANKS = re.compile(r"\s+")
_SCALE = re.compile(r"\s*(-?\d+(?:[.,]\d+)?)\s*(?:-|–|\.\.+|to)\s*(-?\d+(?:[.,]\d+)?)\s*", re.IGNORECASE)


class RatingScale(NamedTuple):
    """The lowest and the highest score that a sheet asks for.

    >>> read_scale("0-10"), read_scale("1 to 7").middle, str(RatingScale())
    (RatingScale(low=0.0, high=10.0), 4.0, '1 to 5')
    """

    low: float = 1.0
    high: float = 5.0

    @property
    def middle(self) -> float:
        """Half-way: below it, a word matters little."""
        return (self.low + self.high) / 2

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


USUAL_SCALE = RatingScale()


def read_scale(text: str) -> RatingScale | None:
    """A scale as a sheet states it, "1 to 7" or "0-10"; None where that is none."""
    found = _SCALE.fullmatch(text)
    scale = RatingScale(*(float(part.replace(",", ".")) for part in found.groups())) if found else None
    return scale if scale is not None and scale.low < scale.high else None


class Ratings(NamedTuple):
    """What clinicians say about words: `scores[word, rater]`, NaN if a rater gave none."""

    words: tuple[str, ...]
    raters: tuple[str, ...]
    scores: NDArray[np.float64]
    scale: RatingScale = USUAL_SCALE


class Hits(NamedTuple):
    """Where target words are: `texts[text][start:end]` is the target `word`; sorted by text, word and start."""

    text: Ints
    word: Ints
    start: Ints
    end: Ints

    def take(self, rows: NDArray[Any]) -> Hits:
        """Some of the hits, by index or by mask."""
        return Hits(*(column[rows] for column in self))

    def by_text(self) -> list[tuple[int, Ints]]:
        """Each text that has hits, with the indices of its hits, in order."""
        order = np.argsort(self.text, kind="stable")
        used, begin = np.unique(self.text[order], return_index=True)
        parts = np.split(order, begin[1:])[: len(used)]
        return list(zip(used.tolist(), parts, strict=True))


def check_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words as written, with single blanks; refuses words without a letter or digit, and duplicates."""
    seen: dict[str, str] = {}
    for word in words:
        shown = " ".join(word.split())
        if len(pieces(shown)) < 3:
            problem = f"the target word '{shown}' has neither letters nor digits"
            raise InputError(problem, hint="remove it from the list")
        same = normalise_word(shown)
        if same in seen:
            twin = "" if seen[same] == shown else f", once as '{seen[same]}'"
            raise InputError(
                f"the target word '{shown}' is given twice{twin}",
                hint="words that differ only in case or blanks are the same, so keep one of them",
            )
        seen[same] = shown
    return tuple(seen.values())


# --- finding ------------------------------------------------------------------------------------------------


class _Target(NamedTuple):
    """A target word or phrase: its words, what is between them, and what comes before and after ("CD4+")."""

    word: int
    tokens: tuple[str, ...]
    gaps: tuple[str, ...]
    prefix: str
    suffix: str

    @property
    def is_plain(self) -> bool:
        return len(self.tokens) == 1 and not self.prefix and not self.suffix


class _Lookup(dict[str, int]):
    """Maps words as written in texts to the code of a target's word, or -1."""

    def __init__(self, targets: Sequence[_Target]) -> None:
        super().__init__()
        names = dict.fromkeys(token for target in targets for token in target.tokens)
        self.codes = {token: code for code, token in enumerate(names)}
        # Code -1 points at the last entry: no target.
        self.plain = np.full(len(self.codes) + 1, -1, dtype=np.int64)
        self.is_head = np.zeros(len(self.codes) + 1, dtype=bool)
        self.others: dict[tuple[int, ...], list[_Target]] = {}
        for target in targets:
            head = tuple(self.codes[token] for token in target.tokens[:2])
            if target.is_plain:
                self.plain[head[0]] = target.word
            else:
                self.is_head[head[0]] |= len(head) == 1
                self.others.setdefault(head, []).append(target)
        self.pairs = np.asarray(sorted(self._pair(*head) for head in self.others if len(head) == 2), dtype=np.int64)

    def _pair(self, left: Any, right: Any) -> Any:
        return left * len(self.codes) + right

    def heads(self, codes: Ints) -> Ints:
        """Where a phrase, or a word with signs, may begin: at its first two words, or its only one."""
        may = self.is_head[codes]
        if len(self.pairs):
            seen = np.where(codes[:-1] < 0, -1, self._pair(codes[:-1], codes[1:]))
            at = np.minimum(np.searchsorted(self.pairs, seen), len(self.pairs) - 1)
            may[:-1] |= (self.pairs[at] == seen) & (codes[1:] >= 0)
        return np.flatnonzero(may)

    def __missing__(self, token: str) -> int:
        code = self[token] = self.codes.get(normalise_word(token), -1)
        return code


def find_words(texts: Sequence[str], words: Sequence[str], *, occurrences: Occurrences = "all") -> Hits:
    """Where the words are in the texts: whole words and phrases, whatever their case.

    Any run of blanks or line ends may separate the words of a phrase. The words of the list are searched for
    independently, so "heart" is also found in "heart failure"; hits of one word never overlap. `first` keeps the
    first hit of each word in each text.
    """
    words = check_words(words)
    lookup = _Lookup([_target(k, word) for k, word in enumerate(words)])
    columns: list[Ints] = []
    for row, text in enumerate(texts):
        cut = pieces(text)
        codes = np.fromiter(map(lookup.__getitem__, cut[1::2]), dtype=np.int64, count=len(cut) // 2)
        if (codes >= 0).any():
            found = _hits_in(cut, codes, lookup)
            columns.append(np.column_stack([np.full(len(found), row), found]))
    table = np.concatenate(columns) if columns else np.zeros((0, 4), dtype=np.int64)
    if occurrences == "first" and len(table):
        is_new = np.any(table[1:, :2] != table[:-1, :2], axis=1)
        table = table[np.concatenate([[True], is_new])]
    return Hits(*(np.ascontiguousarray(column) for column in table.T))


def _target(word: int, written: str) -> _Target:
    cut = pieces(written)
    names = tuple(normalise_word(token) for token in cut[1::2])
    return _Target(word, names, tuple(map(_plain_gap, cut[2:-1:2])), _blanks(cut[0]), _blanks(cut[-1]))


def _plain_gap(gap: str) -> str:
    return _blanks(gap if gap.isascii() else plain_marks(gap))


def _blanks(gap: str) -> str:
    return _BLANKS.sub(" ", gap)


def _hits_in(cut: list[str], codes: Ints, lookup: _Lookup) -> Ints:
    """The hits in one text as rows (word, start, end), sorted."""
    ends = np.cumsum(np.fromiter(map(len, cut), dtype=np.int64, count=len(cut)))
    start, end = ends[:-1:2], ends[1::2]
    word = lookup.plain[codes]
    at = np.flatnonzero(word >= 0)
    rows = np.column_stack([word[at], start[at], end[at]])
    heads = lookup.heads(codes)
    if len(heads):
        others = list(_other_hits(cut, codes, heads, lookup, start, end))
        rows = np.concatenate([rows, np.asarray(others, dtype=np.int64).reshape(-1, 3)])
    return np.asarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))])


def _other_hits(
    cut: list[str], codes: Ints, heads: Ints, lookup: _Lookup, start: Ints, end: Ints
) -> Iterator[tuple[int, int, int]]:
    """Hits of phrases, and of words with signs before or after them."""
    reached: dict[int, int] = {}
    for k in heads.tolist():
        for head in {tuple(codes[k : k + n].tolist()) for n in (1, 2)}:
            for target in lookup.others.get(head, ()):
                last = k + len(target.tokens) - 1
                if not _fits(cut, codes, k, target, lookup):
                    continue
                span = int(start[k]) - len(target.prefix), int(end[last]) + len(target.suffix)
                if span[0] >= reached.get(target.word, 0):
                    reached[target.word] = span[1]
                    yield target.word, *span


def _fits(cut: list[str], codes: Ints, k: int, target: _Target, lookup: _Lookup) -> bool:
    """Whether the target is at the k-th word of the text."""
    n = len(target.tokens)
    if k + n > len(codes) or codes[k : k + n].tolist() != [lookup.codes[token] for token in target.tokens]:
        return False
    gaps = cut[2 * k : 2 * (k + n) + 1 : 2]
    if any(_plain_gap(gap) != asked for gap, asked in zip(gaps[1:-1], target.gaps, strict=True)):
        return False
    before, behind = gaps[0], gaps[-1]
    # A sign that touches another word is not at the edge of this one: "a." is not found in "a.b".
    touches_before = target.prefix == before and k > 0
    touches_behind = target.suffix == behind and k + n < len(codes)
    return (
        before.endswith(target.prefix)
        and behind.startswith(target.suffix)
        and not (target.prefix and touches_before)
        and not (target.suffix and touches_behind)
    )
