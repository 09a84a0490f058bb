"""The words that the coding models read: a vocabulary of the training notes, and the first so many words of a text.

A word is what the evidence metrics call one (`stats.spans.tokenise`: numbers above 10 are none), so that what a model
points at and what a coder marked are counted in the same pieces. Case is folded word by word, and offsets stay those
of the text as it was given.
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

from palpate.errors import ConfigError
from palpate.stats.evidence import tokenise

Ints = NDArray[np.int64]

PADDING, UNKNOWN, N_SPECIAL = 0, 1, 2
FILE = "vocabulary.json"


class Read(NamedTuple):
    """What is read of one text: the number of each word, and where it stands in the text.

    A text without words is one unknown word that stands nowhere, so `begin` and `end` are then empty.
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
    def n_ids(self) -> int:
        """How many different numbers there are, padding and the unknown word among them."""
        return len(self.words) + N_SPECIAL

    def read(self, texts: Sequence[str]) -> list[Read]:
        """The first words of each text, as numbers."""
        found = tokenise(texts)
        out = []
        for k, text in enumerate(texts):
            place = slice(found.first[k], min(found.first[k + 1], found.first[k] + self.max_tokens))
            begin, end = found.begin[place], found.end[place]
            numbers = (self._number.get(word, UNKNOWN) for word in folded(text, begin, end))
            ids = np.fromiter(numbers, dtype=np.int64, count=len(begin))
            out.append(Read(ids if len(ids) else np.array([UNKNOWN], dtype=np.int64), begin, end))
        return out

    def visible_ends(self, texts: Sequence[str]) -> Ints:
        """From which character on an edit changes nothing: one behind the last word read, past the end if none does.

        The character between belongs to no word and keeps what comes later from growing into the last word.
        """
        found = tokenise(texts)
        ends = np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))
        full = np.flatnonzero(np.diff(found.first) >= self.max_tokens)
        ends[full] = found.end[found.first[full] + self.max_tokens - 1] + 1
        return ends

    def write(self, folder: Path) -> None:
        """Write the vocabulary as JSON."""
        content = {"max_tokens": self.max_tokens, "words": self.words}
        (folder / FILE).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def read_window(folder: Path) -> WordWindow:
    """The vocabulary in a folder."""
    file = folder / FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return WordWindow(tuple(str(word) for word in content["words"]), int(content["max_tokens"]))
    except FileNotFoundError:
        raise ConfigError("there is no vocabulary", file=file, hint="copy the whole folder of the model") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError("is no vocabulary of a coding model", file=file, hint="train the model again") from None


def folded(text: str, begin: Ints, end: Ints) -> Iterable[str]:
    """Some words of a text without their case; folded each by itself where that may change lengths."""
    places = zip(begin.tolist(), end.tolist(), strict=True)
    if text.isascii():
        lowered = text.lower()
        return (lowered[i:j] for i, j in places)
    return (text[i:j].casefold() for i, j in places)


def learn_words(
    texts: Sequence[str], patients: NDArray[np.int64], *, min_patients: int, max_words: int | None
) -> tuple[str, ...]:
    """The words that the notes of enough patients have, the most frequent first, at most so many."""
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
