"""A note read once: its trigger words, sentences and family sections.

One pattern walks over the words of the note; a dictionary says which of them matter to which characteristic. All later
steps look only at those positions, so the cost of a note does not grow with the number of groups, and hardly with the
number of words that the characteristics know. Trigger words are English, so a word is a run of ASCII letters here.

headings   where sentences and sections begin and end
people     who is mentioned, and whom a description is about
ages       the ages in a note, and whose they are
past_ages  past ages, and ages that can't be rewritten
patient    the phrases that introduce the patient
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from palpate.perturb.characteristics.reading import people
from palpate.perturb.characteristics.reading.headings import (
    FAMILY,
    opens_family_section,
    section_end,
    sentence_starts,
)
from palpate.privacy import hides

__all__ = ["Hit", "ScannedNote", "TriggerWords", "lazy", "section_end"]

T = TypeVar("T")

_MASK = re.compile(r"\[\*\*[^\]]*\]")
"""The masks of de-identification ("[**Doctor Last Name 12**]") contain no words of the note."""
_SMALL = bytes(ord(chr(k).lower()) if chr(k).isascii() and chr(k).isalpha() else ord(" ") for k in range(256))
"""Letters in lower case, and a blank for everything else."""
_HYPHENS = dict.fromkeys((0x2010, 0x2011, 0x2012), "-")
"""Hyphens of word processors, which are read as plain ones: "72‑yo". The text keeps its length."""
_new = tuple.__new__
_FE_MALE = re.compile(r"\bfe[ -]$", re.IGNORECASE)


_WRAPPED = 48
"""A line with as many characters may go on in the next one."""
_WORDS_BEFORE = re.compile(r"(?:[\w/'’-]+[ \t]+){0,2}$")
_PATIENT_BEFORE = re.compile(r"\b(?:years?|yr|y/?o|patient|pt|he|she|Mr|Mrs|Ms)\b", re.IGNORECASE)
_PATIENT_AFTER = re.compile(
    r"\bwho\s+(?:presents?|presented|comes?|came|was|is|has|developed)\b|\bpresented\b|\bpresents\b"
)


class lazy(Generic[T]):  # noqa: N801 - named as it is written above a method
    """`functools.cached_property` without its lock, which Python has until 3.12.

    A note is read in one thread, and has some twenty such properties in each of a dozen readings.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, one: Any, owner: type | None = None) -> T:
        value = self._make(one)
        one.__dict__[self._name] = value
        return value


@hides("word")
class Hit(NamedTuple):
    """A trigger word in the note; `word` is in lower case."""

    start: int
    end: int
    word: str


class ScannedNote:
    """A note with its trigger words, sentences and family sections."""

    def __init__(self, text: str, hits: dict[str, list[Hit]]) -> None:
        self.text = text
        self._hits = hits

    def hits(self, tag: str) -> list[Hit]:
        """The trigger words with a tag, in order."""
        return self._hits.get(tag) or []

    @lazy
    def _starts(self) -> list[int]:
        return sentence_starts(self.text)

    def sentence_number(self, position: int) -> int:
        """The number of the sentence (or list item, or line after a heading) around a position."""
        return bisect_right(self._starts, position) - 1

    def sentence(self, position: int) -> tuple[int, int]:
        """Where the sentence around a position starts and ends."""
        starts = self._starts
        k = bisect_right(starts, position)
        return starts[k - 1], starts[k] if k < len(starts) else len(self.text)

    def opening(self, position: int) -> int:
        """Where the first word of the sentence around a position starts."""
        start, end = self.sentence(position)
        while start < end and not (self.text[start].isalnum() or self.text[start] in "_["):
            start += 1
        return start

    @lazy
    def _families(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for hit in self.hits("family"):
            match = FAMILY.match(self.text, hit.start)
            if match is None or (found and hit.start < found[-1][1]):
                continue
            if opens_family_section(self.text, hit.start, match.end()):
                found.append((match.end(), section_end(self.text, match.end(), of_family=True)))
            else:
                found.append(_family_clause(self.text, hit.start, *self.sentence(hit.start)))
        return found

    def family_start(self, position: int) -> int:
        """Where the family history around a position starts; the position itself outside of one."""
        return next((start for start, end in self._families if start <= position < end), position)

    def is_in_capitals(self, position: int) -> bool:
        """Whether the sentence around a position is all in capitals."""
        start, end = self.sentence(position)
        return end - start > 12 and self.text[start:end].isupper()

    def in_family(self, position: int) -> bool:
        """Whether a position is in a family history: its section, or a sentence that starts with one."""
        for start, end in self._families:  # noqa: SIM110 - asked for every word
            if start <= position < end:
                return True
        return False


def _family_clause(text: str, start: int, first: int, last: int) -> tuple[int, int]:
    """What is about the family in "a 63-year-old man with a family history of gout who presents with pain"."""
    line = text.rfind("\n", first, start) + 1
    if line > first and (text[line].isdigit() or text[line].isupper()) and text[line - 2] != ",":
        first = line  # lines of keywords, not a wrapped sentence
    end = text.find("\n", start, last)
    if 0 <= end < start + _WRAPPED and (text[end + 1 : end + 2].isupper() or text[end + 1 : end + 2].isdigit()):
        last = end
    if text[start : start + 2].lower() == "fh":
        near = _WORDS_BEFORE.search(text, first, start)  # "fair skin, sun exposure, breast ca FHx"
        return near.start() if near else first, last
    if not _PATIENT_BEFORE.search(text, first, start):
        return first, last
    again = _PATIENT_AFTER.search(text, start, last)
    return start, again.start() if again else last


class TriggerWords:
    """The trigger words of all characteristics, by tag."""

    def __init__(self, words_of: Mapping[str, Iterable[str]]) -> None:
        tags: dict[str, list[str]] = {}
        for tag, words in words_of.items():
            for word in words:
                tags.setdefault(word.lower(), []).append(tag)
        self._tags = {word: tuple(dict.fromkeys(names)) for word, names in tags.items()}
        self._tags_of = {word.encode(): (word, names) for word, names in self._tags.items() if word.isascii()}

    def scan(self, text: str) -> ScannedNote:
        """Scan a text once."""
        text = text if text.isascii() else text.translate(_HYPHENS)
        hits: dict[str, list[Hit]] = {}
        for start, end, (word, names) in self._known(text):
            if word in ("pt", "patient") and not people.means_patient(text, start, end):
                continue
            if word == "male" and _FE_MALE.search(text, max(0, start - 4), start):
                hit = Hit(start - 3, end, "female")  # mistyped: "a 44 year old fe male"
            else:
                hit = _new(Hit, (start, end, word))  # as Hit(...), in half the time
            for name in names:
                if name in hits:
                    hits[name].append(hit)
                else:
                    hits[name] = [hit]
        return ScannedNote(text, hits)

    def _known(self, text: str) -> Iterator[tuple[int, int, tuple[str, tuple[str, ...]]]]:
        """The trigger words of a text: where each starts and ends, the word and its tags.

        Most words of a note are none, so they are split at once, and only the places of the others are looked up.
        """
        plain = _MASK.sub(_blanks, text) if "[**" in text else text
        letters = plain.encode("ascii", "replace").translate(_SMALL)
        words, tags = letters.split(), self._tags_of
        known = [k for k, word in enumerate(words) if word in tags]
        if not known:
            return
        is_letter = np.frombuffer(b" " + letters + b" ", np.uint8) != ord(" ")
        spans = np.flatnonzero(is_letter[1:] != is_letter[:-1]).reshape(-1, 2)[known].tolist()
        for k, (start, end) in zip(known, spans, strict=True):
            yield start, end, tags[words[k]]


def _blanks(match: re.Match[str]) -> str:
    return " " * (match.end() - match.start())
