"""What a word is in a note, and notes as columns of word codes (vocabulary-sensitivity, section 2.3.1).

A word is a longest run of the characters of words (`palpate.cases.words`): letters, digits, underscores and combining
marks. This audit replaces words that a clinician would name, so unlike the evidence audit it also joins such runs:

- A hyphen separates, as in most tokenizers: "right-sided", "open-heart" and "240-mg" contain their parts. It joins
  where the parts mean something else: after a prefix and before an ending of `joined.yaml` ("non-smoker" does not
  contain "smoker", nor "pain-free" "pain", because a clinician reads the opposite), after a single letter ("x-ray",
  "T-cell"), and before a number that belongs to what it follows ("COVID-19", "IL-6", "2020-01-05", not "grade-2").
  Dashes and slashes join nothing: "fever/chills" is two.
- An apostrophe joins too ("don't", "O'Brien"), except that a possessive 's is a token of its own: "patient" is found
  in "patient's", and it is still possible to search for "Crohn's".
- A full stop, comma, colon or slash between two digits joins, and so does a full stop before a number, so "98.6",
  "1,000", "120/80", "10:30" and ".5" are one word each. A unit that touches its number belongs to it ("5mg").

Words are compared by `normalise_word`, but always cut from the original text, so that characters whose lower case is
longer ("İ", "ß") shift no offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from palpate.cases.edits import Ints
from palpate.cases.parallel import each_part
from palpate.cases.words import caseless, word_characters
from palpate.files import read_resource
from palpate.privacy import hides

Codes = NDArray[np.int32]
FEWEST_FOR_PROCESSES, TEXTS_PER_PART = 20_000, 2_000
"""Texts from which several processes pay, and how many one gets at a time."""

_HYPHEN = r"[-\u2010\u2011]"
_MARKS_OF_ONE_KIND = str.maketrans({"\u2019": "'", "\u2010": "-", "\u2011": "-"})


@hides("text")
class Token(NamedTuple):
    """A word as it is written in a text, and its position."""

    text: str
    start: int
    end: int


def _token_pattern(character: str) -> re.Pattern[str]:
    possessive = rf"['\u2019][sS](?!{character})"
    hyphen = rf"{_HYPHEN}(?={character})(?:{_joining(character)})"
    joint = rf"(?<=\d)[.,:/](?=\d)|{hyphen}|(?!{possessive})['\u2019](?={character})"
    before_number = rf"(?:(?<!{character})(?<!\.)\.(?=\d))?"
    return re.compile(rf"({before_number}{character}+(?:(?:{joint}){character}+)*|(?<={character}){possessive})")


def _joining(character: str) -> str:
    """What must hold right behind a hyphen for it to join the runs on both sides."""
    listed = read_resource("palpate.perturb.words", "joined.yaml")
    starts = [rf"(?<=(?<!{character})(?i:{re.escape(prefix)}){_HYPHEN})" for prefix in listed["prefixes"]]
    endings = "|".join(map(re.escape, listed["endings"]))
    letter = rf"(?<=(?<!{character})[^\W\d_]{_HYPHEN})"
    names = [rf"(?<=(?<!{character})(?i:{re.escape(name)}){_HYPHEN})" for name in listed["numbered"]]
    number = "|".join([rf"(?<=\d{_HYPHEN})", rf"(?<=(?<!{character})[^\W\d_]{{2}}{_HYPHEN})", *names])
    return "|".join([rf"(?:{number})(?=\d)", letter, rf"(?=(?i:{endings})(?!{character}))", *starts])


@lru_cache(maxsize=1)
def _ascii_token() -> re.Pattern[str]:
    return _token_pattern(r"\w")


@lru_cache(maxsize=1)
def _any_token() -> re.Pattern[str]:
    """The same with combining marks, which Python's `\\w` leaves out."""
    return _token_pattern(word_characters())


def _pattern_for(text: str) -> re.Pattern[str]:
    return _ascii_token() if text.isascii() else _any_token()


def tokens(text: str) -> Iterator[Token]:
    """The words of a text, in order; a possessive 's is a token of its own."""
    for match in _pattern_for(text).finditer(text):
        yield Token(match.group(), match.start(), match.end())


def pieces(text: str) -> list[str]:
    """The text in pieces: what precedes the first word, the first word, what is between, ..., what follows the last
    word.

    This is a faster `tokens`: `pieces(text)[1::2]` are the words, and the lengths add up to the offsets.
    """
    return _pattern_for(text).split(text)


def plain_marks(text: str) -> str:
    """The text with plain ' and -."""
    return text.translate(_MARKS_OF_ONE_KIND)


def normalise_word(word: str) -> str:
    """The form in which words are compared: `caseless`, with single blanks and plain ' and -."""
    plain = " ".join(word.split())
    if plain.isascii():
        return plain.lower()
    return caseless(plain_marks(plain))


def is_plain_word(word: str) -> bool:
    """Whether a normalised token is a word to count or propose: it starts with a letter and has no underscore.

    This leaves out numbers, doses ("5mg"), ordinals, the blanks of de-identified notes ("___") and a possessive 's.
    """
    return word[:1].isalpha() and "_" not in word


class WordCodes(dict[str, int]):
    """Maps words as written in texts to the code of their normalised form; new words get the next code."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._code: dict[str, int] = {}

    def __missing__(self, token: str) -> int:
        word = normalise_word(token)
        code = self._code.setdefault(word, len(self.words))
        if code == len(self.words):
            self.words.append(word)
        self[token] = code
        return code


class Tokenised(NamedTuple):
    """Texts as columns: the code of each word, where each text's words begin, and the words by code, sorted."""

    codes: Codes
    first: Ints
    words: tuple[str, ...]

    @property
    def text(self) -> Ints:
        """The text of each word in `codes`."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def counts(self) -> tuple[Ints, Ints]:
        """For each word, how often it occurs, and in how many texts."""
        n = len(self.words)
        pairs = np.unique(self.text * n + self.codes) if n else np.zeros(0, dtype=np.int64)
        occurrences = np.bincount(self.codes, minlength=n).astype(np.int64)
        return occurrences, np.bincount(pairs % max(n, 1), minlength=n).astype(np.int64)


def tokenise(texts: Sequence[str]) -> Tokenised:
    """All texts as columns of word codes; codes follow the alphabet, so that ties can be broken by code.

    Many texts are read in several processes, to the same columns.
    """
    return _one_after_the_other(each_part(_tokenised, text_parts(texts)))


def text_parts(texts: Iterable[str]) -> list[tuple[list[str]]]:
    """The texts in parts for several processes; few of them are one part, which this process reads."""
    texts = list(texts)
    size = len(texts) if len(texts) < FEWEST_FOR_PROCESSES else TEXTS_PER_PART
    return [(texts[first : first + size],) for first in range(0, len(texts), max(size, 1))]


def _tokenised(texts: Sequence[str]) -> Tokenised:
    known = WordCodes()
    parts = [np.zeros(0, dtype=np.int32)]
    for text in texts:
        found = _pattern_for(text).findall(text)
        parts.append(np.fromiter(map(known.__getitem__, found), dtype=np.int32, count=len(found)))
    first = np.cumsum([len(part) for part in parts], dtype=np.int64)
    order = sorted(range(len(known.words)), key=known.words.__getitem__)
    return Tokenised(_places(order)[np.concatenate(parts)], first, tuple(known.words[code] for code in order))


def _places(order: Sequence[int]) -> Codes:
    """Of each code, its place in an order of all codes."""
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def _one_after_the_other(parts: Iterable[Tokenised]) -> Tokenised:
    """The texts of all parts; words get new codes."""
    known: dict[str, int] = {}
    codes, counts = [np.zeros(0, dtype=np.int32)], [np.zeros(1, dtype=np.int64)]
    for part in parts:
        code = np.asarray([known.setdefault(word, len(known)) for word in part.words], dtype=np.int32)
        codes.append(code[part.codes])
        counts.append(np.diff(part.first))
    words = list(known)
    order = sorted(range(len(words)), key=words.__getitem__)
    first = np.cumsum(np.concatenate(counts), dtype=np.int64)
    return Tokenised(_places(order)[np.concatenate(codes)], first, tuple(words[code] for code in order))


def occurrence_counts(tokenised: Tokenised) -> Any:
    """How often each word occurs in each text, as a sparse matrix [text, word]."""
    shape = (len(tokenised.first) - 1, len(tokenised.words))
    ones = np.ones(len(tokenised.codes), dtype=np.int64)
    counted = sparse.csr_array((ones, tokenised.codes, tokenised.first), shape=shape)
    counted.sum_duplicates()
    return counted


def presence(tokenised: Tokenised) -> Any:
    """Whether each word occurs in each text, as a sparse matrix [text, word] of 0 and 1."""
    counted = occurrence_counts(tokenised)
    counted.data[:] = 1
    return counted
