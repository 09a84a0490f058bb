"""A note as perturbations see it: its words, where a sentence begins, and the places that no edit may touch.

Words are read once per note and looked up in dictionaries, so that a lexicon costs the same whatever its size.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import Any

import numpy as np

from palpate.cases.edits import Edit
from palpate.files import read_resource

Rng = np.random.Generator
TAG = re.compile(r"\[\*\*[^\n]*?\*\*\]|_{2,}|<[A-Z][A-Z_ ]{2,30}>|\[[A-Z][A-Z_ ]{2,30}\]|\{\{[^{}\n]{1,40}\}\}")
"""What stands for a removed name, date or number in notes without identifiers."""
_ADDRESS = re.compile(r"https?://\S+|www\.\S+|\S+@\S+\.\w+")
_WORD = re.compile(r"[A-Za-z]+(?:[/.'’][A-Za-z0-9]+)*")
_LONG = re.compile(r"[A-Za-z](?<![\w'’.@/\\#&+-].)[A-Za-z]{3,}(?![\w'’@/\\&+-]|\.\w)")
_OPENING = re.compile(r"(?:\A|\n|[.!?•]|(?:\A|\n)[ \t]*(?:[-*]|\d{1,2}[.)]))[ \t\"'(]*\Z")

_DOTTED = re.compile(r"[A-Za-z]\.[A-Za-z]\.[ \t]*\Z")
"""The end of "b.i.d." or "a.m.", which mostly ends no sentence."""


@cache
def lexicon(name: str) -> dict[str, Any]:
    """One of the lexicons of this folder."""
    found: dict[str, Any] = read_resource("palpate.perturb.robustness.lexicons", f"{name}.yaml")
    return found


@cache
def _measures() -> re.Pattern[str]:
    units = sorted({*lexicon("units")["spaced"], *lexicon("units")["cased"]}, key=len, reverse=True)
    unit = "|".join(re.escape(each) for each in units)
    return re.compile(rf"\d[\d.,/]*(?:[ \t-]?(?:{unit})(?![A-Za-z0-9])|\w*)")


class WrittenNote:
    """A note with its words; a word holds slashes, apostrophes and full stops that letters follow ("h/o", "don't")."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def words(self) -> list[tuple[int, int, str]]:
        """Start, end and text of each word."""
        return [(*match.span(), match.group()) for match in _WORD.finditer(self.text)]

    @cached_property
    def known(self) -> frozenset[str]:
        """The words of the note, in small letters."""
        return frozenset(word.lower() for _, _, word in self.words)

    @cached_property
    def n_words(self) -> int:
        """How many words a reader would count."""
        return len(self.text.split())

    @cached_property
    def untouchable(self) -> list[tuple[int, int]]:
        """Tags and addresses, in order."""
        text = self.text
        spans = [match.span() for match in TAG.finditer(text)]
        if "@" in text or "www." in text or "://" in text:
            spans += [match.span() for match in _ADDRESS.finditer(text)]
        return merged(spans)

    @cached_property
    def long_words(self) -> list[tuple[int, int]]:
        """The spans of plain words of at least four letters, joined to nothing else."""
        spans = [match.span() for match in _LONG.finditer(self.text)]
        return [span for span in spans if not self.touches(*span)] if self.untouchable else spans

    @cached_property
    def measures(self) -> list[tuple[int, int]]:
        """Numbers with their units, and words with digits in them."""
        text, spans = self.text, []
        for match in _measures().finditer(text):
            start = match.start()
            while start and text[start - 1].isalpha():
                start -= 1
            spans.append((start, match.end()))
        return spans

    @cached_property
    def lower(self) -> str:
        """The text in small letters; its places may differ from the text's."""
        return self.text.lower()

    @cached_property
    def checksum(self) -> int:
        """Of the text."""
        return zlib.crc32(self.text.encode("utf-8", "surrogatepass"))

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.untouchable]

    def touches(self, start: int, end: int) -> bool:
        """Whether a span reaches into a tag or an address."""
        k = bisect_right(self._starts, start) - 1
        if k >= 0 and self.untouchable[k][1] > start:
            return True
        return k + 1 < len(self._starts) and self._starts[k + 1] < end

    def opens(self, start: int) -> bool:
        """Whether a sentence, a line or an item of a list begins here."""
        before = max(0, start - 12)
        return bool(_OPENING.search(self.text, before, start)) and not _DOTTED.search(self.text, before, start)

    def line(self, position: int) -> str:
        """The line around a position."""
        end = self.text.find("\n", position)
        return self.text[self.text.rfind("\n", 0, position) + 1 : len(self.text) if end < 0 else end]

    def shouts(self, position: int) -> bool:
        """Whether the line is in capitals, several words of it."""
        letters = [letter for letter in self.line(position) if letter.isalpha()]
        return len(letters) >= 8 and all(letter.isupper() for letter in letters)


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, overlapping ones joined."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def without_overlaps(edits: Iterable[Edit]) -> list[Edit]:
    """The edits in order; of two that overlap, the first."""
    out: list[Edit] = []
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        if not out or edit.start > out[-1].end or (edit.start == out[-1].end and edit.end > edit.start):
            out.append(edit)
    return out


def between(spans: list[tuple[int, int]], length: int) -> Iterator[tuple[int, int]]:
    """The parts of a text of that length that lie outside the spans."""
    position = 0
    for start, end in spans:
        if start > position:
            yield position, start
        position = max(position, end)
    if position < length:
        yield position, length


def like(word: str, model: str) -> str:
    """A word with the capitals of another: all, the first, or none."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    if model[:1].isupper():
        return word[:1].upper() + word[1:]
    return word
