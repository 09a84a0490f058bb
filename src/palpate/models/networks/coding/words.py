"""The words that coding models read: a vocabulary learned from the training notes, and the first words of a text.

A word is the same as in the evidence metrics (`tokenise`; numbers above 10 are not words), so that what a model points
at and what a coder marked are counted in the same units. Case is folded word by word, and offsets are those of the
original text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.errors import ConfigError, parse_json
from palpate.stats.evidence import tokenise

Ints = NDArray[np.int64]

PADDING, UNKNOWN, N_SPECIAL = 0, 1, 2
WORDS_FILE = "vocabulary.json"


class WordSequence(NamedTuple):
    """What is read of one text: the id of each word, and where the word is in the text.

    A text without words becomes one unknown word without a position, so `begin` and `end` are then empty.
    """

    ids: Ints
    begin: Ints
    end: Ints


@dataclass(frozen=True)
class WordWindow:
    """A vocabulary, and how many words of a text are read."""

    words: tuple[str, ...]
    max_tokens: int

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: k for k, word in enumerate(self.words, start=N_SPECIAL)}

    @property
    def padding(self) -> int:
        """The id that fills up a row."""
        return PADDING

    @property
    def reads(self) -> str:
        """How much of a text is read."""
        return f"the first {self.max_tokens:,} words"

    def blank(self, ids: Sequence[int]) -> list[int]:
        """The same number of words without text."""
        return [PADDING] * len(ids)

    @property
    def n_ids(self) -> int:
        """How many different ids there are, including those of padding and of unknown words."""
        return len(self.words) + N_SPECIAL

    def read(self, texts: Sequence[str]) -> list[WordSequence]:
        """The first words of each text, as ids."""
        found = tokenise(texts)
        out = []
        for k, text in enumerate(texts):
            place = slice(found.first[k], min(found.first[k + 1], found.first[k] + self.max_tokens))
            begin, end = found.begin[place], found.end[place]
            numbers = (self._number.get(word, UNKNOWN) for word in folded(text, begin, end))
            ids = np.fromiter(numbers, dtype=np.int64, count=len(begin))
            out.append(WordSequence(ids if len(ids) else np.array([UNKNOWN], dtype=np.int64), begin, end))
        return out

    def visible_ends(self, texts: Sequence[str]) -> Ints:
        """The character from which on an edit changes nothing: one after the last word read, or past the end.

        The character in between belongs to no word and keeps later text from joining the last word.
        """
        found = tokenise(texts)
        ends = np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))
        full = np.flatnonzero(np.diff(found.first) >= self.max_tokens)
        ends[full] = found.end[found.first[full] + self.max_tokens - 1] + 1
        return ends

    def write(self, folder: Path) -> None:
        """Write the vocabulary as JSON."""
        content = {"max_tokens": self.max_tokens, "words": self.words}
        (folder / WORDS_FILE).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def read_window(folder: Path) -> WordWindow:
    """The vocabulary in a folder."""
    file = folder / WORDS_FILE
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
        return WordWindow(tuple(str(word) for word in content["words"]), int(content["max_tokens"]))
    except FileNotFoundError:
        raise ConfigError("file not found", file=file, hint="copy the whole folder of the model") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError("not the vocabulary of a coding model", file=file, hint="train the model again") from None


def folded(text: str, begin: Ints, end: Ints) -> Iterable[str]:
    """Some words of a text with their case folded, word by word where folding may change lengths."""
    places = zip(begin.tolist(), end.tolist(), strict=True)
    if text.isascii():
        lowered = text.lower()
        return (lowered[i:j] for i, j in places)
    return (text[i:j].casefold() for i, j in places)


def learn_words(
    texts: Sequence[str], patients: NDArray[np.int64], *, min_patients: int, max_words: int | None
) -> tuple[str, ...]:
    """The words in the notes of enough patients, the most frequent first, at most `max_words`."""
    used: Counter[str] = Counter()
    n_patients: Counter[str] = Counter()
    order = np.argsort(patients, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(patients[order])) + 1):
        own: Counter[str] = Counter()
        for row in rows.tolist():
            found = tokenise([texts[row]])
            own.update(folded(texts[row], found.begin, found.end))
        used.update(own)
        n_patients.update(own.keys())
    kept = [word for word, n in n_patients.items() if n >= min_patients]
    return tuple(sorted(kept, key=lambda word: (-used[word], word))[:max_words])
