"""Notes as columns of words, and spans as the words that they cover (evidence paper, Section 6.2).

Whole notes are cut into words once, never span by span: a span that ends inside a word covers a piece of it, and a
piece is not the word. So "pneu" does not match "pneumonia", but it matches the same "pneu".

Words are made of the characters that `palpate.cases.words` says. Unlike the vocabulary audit's words, they are never
joined by hyphens or apostrophes: coders mark text by characters, and the paper compares runs of letters and digits.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.cases.words import caseless, is_word_character
from palpate.privacy import hides

Ints = NDArray[np.int64]

_NO_NUMBER = 10**15
"""Larger than any number of interest; the value of longer numbers stops here."""
_LETTER, _JOIN, _DIGIT = 1, 2, 4


@hides("texts")
class EvidenceWords(NamedTuple):
    """The words of all notes: their note and place in it; note k has the words first[k] to first[k + 1] - 1."""

    texts: tuple[str, ...]
    note: Ints
    begin: Ints
    end: Ints
    first: Ints


class Spans(NamedTuple):
    """Spans in columns: the note, where they begin and end in characters, and the number of their code."""

    note: Ints
    begin: Ints
    end: Ints
    code: Ints


class Covered(NamedTuple):
    """Which pieces of words spans cover: span i has the pieces first[i] to first[i + 1] - 1.

    A piece has a number, the same for the same characters of the same note; whole words have their own number. `begin`
    and `end` are those of the span, trimmed to its first and last word; -1 for a span without words.
    """

    first: Ints
    piece: Ints
    word: Ints
    piece_begin: Ints
    piece_end: Ints
    begin: Ints
    end: Ints


def spans(note: ArrayLike, begin: ArrayLike, end: ArrayLike, code: ArrayLike) -> Spans:
    """Columns of spans, checked to be whole numbers of the same length."""
    columns = [np.asarray(column) for column in (note, begin, end, code)]
    if any(c.ndim != 1 or c.size != columns[0].size or (c.size and c.dtype.kind not in "iu") for c in columns):
        raise ValueError("note, begin, end and code must be whole numbers, and as many of each")
    return Spans(*(column.astype(np.int64) for column in columns))


def tokenise(texts: Sequence[str], *, largest_number: int | None = 10) -> EvidenceWords:
    """The words of whole notes: runs of letters, digits, underscores and combining marks with a letter or digit.

    Numbers above `largest_number` are left out; None keeps all, as the paper does.
    """
    known: dict[int, tuple[int, int]] = {}
    parts = [_words(text, largest_number, known) for text in texts]
    n_words = np.array([0, *(len(begin) for begin, _ in parts)], np.int64)
    empty: Ints = np.zeros(0, np.int64)
    return EvidenceWords(
        tuple(texts),
        np.repeat(np.arange(len(parts)), n_words[1:]),
        np.concatenate([empty, *(begin for begin, _ in parts)]),
        np.concatenate([empty, *(end for _, end in parts)]),
        np.cumsum(n_words),
    )


def words_in(words: EvidenceWords, note: int, places: Iterable[tuple[int, int]]) -> list[int]:
    """How many words, whole or in part, each (begin, end) of a note covers."""
    table = np.array(list(places), np.int64).reshape(-1, 2)
    where = np.full(len(table), note, np.int64)
    covered = cover(words, Spans(where, table[:, 0], table[:, 1], np.zeros_like(where)))
    return [int(n) for n in np.diff(covered.first)]


def cover(words: EvidenceWords, wanted: Spans) -> Covered:
    """The pieces of words that each span covers."""
    check_spans(words, wanted)
    low, high = _words_between(words, wanted)
    counts = np.maximum(high - low, 0)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    span = np.repeat(np.arange(counts.size), counts)
    word = np.arange(first[-1]) - first[span] + low[span]
    begin = np.maximum(words.begin[word], wanted.begin[span])
    end = np.minimum(words.end[word], wanted.end[span])
    piece = word.copy()
    cut = np.flatnonzero((begin > words.begin[word]) | (end < words.end[word]))
    if cut.size:
        keys = np.stack([word[cut], begin[cut], end[cut]], axis=1)
        piece[cut] = words.begin.size + np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    has = counts > 0
    trimmed_begin, trimmed_end = np.full(counts.size, -1, np.int64), np.full(counts.size, -1, np.int64)
    trimmed_begin[has] = begin[first[:-1][has]]
    trimmed_end[has] = end[first[1:][has] - 1]
    return Covered(first, piece, word, begin, end, trimmed_begin, trimmed_end)


def check_spans(words: EvidenceWords, wanted: Spans) -> None:
    """Raise unless every span is inside an existing note."""
    lengths = np.array([len(text) for text in words.texts], np.int64)
    for what, bad in (
        ("is in a note that does not exist", (wanted.note < 0) | (wanted.note >= lengths.size)),
        ("has a negative code", wanted.code < 0),
        ("ends before it begins", wanted.end < wanted.begin),
        ("begins before its note", wanted.begin < 0),
    ):
        if bool(bad.any()):
            raise ValueError(f"span {int(bad.argmax())} {what}")
    past = wanted.end > lengths[wanted.note]
    if bool(past.any()):
        k = int(past.argmax())
        length = int(lengths[wanted.note[k]])
        raise ValueError(f"span {k} ends at {int(wanted.end[k])}, but its note has {length} characters")


def piece_strings(words: EvidenceWords, covered: Covered) -> tuple[Ints, list[str]]:
    """A number for the text of each piece, compared by `caseless`, and the texts by number."""
    _, where, inverse = np.unique(covered.piece, return_index=True, return_inverse=True)
    numbers: dict[str, int] = {}
    of_piece = np.empty(where.size, np.int64)
    for k, at in enumerate(where.tolist()):
        text = words.texts[words.note[covered.word[at]]][covered.piece_begin[at] : covered.piece_end[at]]
        of_piece[k] = numbers.setdefault(caseless(text), len(numbers))
    return of_piece[inverse.reshape(-1)], list(numbers)


def _words_between(words: EvidenceWords, wanted: Spans) -> tuple[Ints, Ints]:
    """The first word that ends after a span's begin, and the first that begins at or after its end."""
    # All notes are put on one line, so that one search serves all spans.
    start = np.concatenate([[0], np.cumsum([len(text) + 1 for text in words.texts])]).astype(np.int64)
    low = np.searchsorted(words.end + start[words.note], wanted.begin + start[wanted.note], side="right")
    high = np.searchsorted(words.begin + start[words.note], wanted.end + start[wanted.note], side="left")
    # An empty span inside a word covers nothing of it.
    return low.astype(np.int64), np.where(wanted.end > wanted.begin, high, low).astype(np.int64)


def _classify(code: int) -> tuple[int, int]:
    """A character's role in a word, and its value as a digit."""
    character = chr(code)
    if character.isdecimal():
        return _LETTER | _DIGIT, unicodedata.decimal(character)
    if character.isalnum():
        return _LETTER, 0
    return (_JOIN if is_word_character(character) else 0), 0


_ASCII = np.array([_classify(code) for code in range(128)], np.uint8)


def _kinds(text: str, known: dict[int, tuple[int, int]]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The class and the digit of each character; those beyond ASCII are looked up once and kept in `known`."""
    if text.isascii():
        table = _ASCII[np.frombuffer(text.encode("ascii"), np.uint8)]
        return table[:, 0], table[:, 1]
    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)
    distinct, inverse = np.unique(codes, return_inverse=True)
    for code in distinct.tolist():
        if code not in known:
            known[code] = _classify(code)
    table = np.array([known[code] for code in distinct.tolist()], np.uint8)[inverse.reshape(-1)]
    return table[:, 0], table[:, 1]


def _words(text: str, largest_number: int | None, known: dict[int, tuple[int, int]]) -> tuple[Ints, Ints]:
    if not text:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kind, digit = _kinds(text, known)
    inside = np.concatenate([[False], kind > 0, [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    begin, end = edges[::2].astype(np.int64), edges[1::2].astype(np.int64)
    if begin.size == 0:
        return begin, end
    letters = np.add.reduceat((kind & _LETTER) > 0, begin, dtype=np.int64)
    keep = letters > 0
    if largest_number is not None:
        # There are no digits between words, so the sum up to the next word is that of the word.
        digits = np.add.reduceat((kind & _DIGIT) > 0, begin, dtype=np.int64)
        number = np.flatnonzero(digits == end - begin)
        keep[number] = _values(digit, begin[number], end[number]) <= largest_number
    return begin[keep], end[keep]


def _values(digit: NDArray[np.uint8], begin: Ints, end: Ints) -> Ints:
    """The values of runs of digits."""
    value = np.zeros(begin.size, np.int64)
    todo = np.arange(begin.size)
    k = 0
    while todo.size:
        value[todo] = np.minimum(value[todo] * 10 + digit[begin[todo] + k], _NO_NUMBER)
        k += 1
        todo = todo[begin[todo] + k < end[todo]]
    return value
