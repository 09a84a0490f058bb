"""A note read once: its trigger words, sentences and family sections.

One pattern walks over the words of the note; a dictionary says which of them matter to which characteristic. All later
steps look only at those positions, so the cost of a note does not grow with the number of groups, and hardly with the
number of words that the characteristics know. Trigger words are English, so a word is a run of ASCII letters here.

people     who is mentioned, and whom a description is about
ages       the ages in a note, and whose they are
past_ages  past ages, and ages that can't be rewritten
patient    the phrases that introduce the patient
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from palpate.perturb.characteristics.reading import people

_WORD = re.compile(r"[A-Za-z]+")
_WORD_OR_MASK = re.compile(r"[A-Za-z]+|\[\*\*[^\]]*\]")
"""The masks of de-identification ("[**Doctor Last Name 12**]") contain no words of the note."""
_BREAK = re.compile(
    r"[.!?]+[\"')\]]*(?=\s)|;|\n[ \t]*\n"
    r"|\n(?=[ \t]*(?:[-*•#]|\d{1,2}[.)][ \t]|[A-Z][A-Za-z/&() -]{1,40}:|[A-Z][A-Z /&-]{3,45}[ \t]*\n))"
)
_NO_END = frozenset(
    ["mr", "mrs", "ms", "dr", "vs", "pt", "st", "y", "o", "yr", "yrs", "hx", "approx", "jr", "prof", "no", "fl", "wk"]
)
"""A full stop after these does not end a sentence."""
_NEXT = re.compile(
    r"(?:He|She|His|Her|They|The|This|Has|Had|Lives|Pt|Patient|Mother|Father|Wife|Husband|Son|Daughter)\b"
)
"""What may follow an age that ends a sentence: "63 y/o. Her son lives nearby."."""
_FAMILY = re.compile(r"family\s+(?:medical\s+|health\s+)?(?:history|hx)\b|fam\s?hx\b|fhx?\b", re.IGNORECASE)
_COLON_OR_LINE = re.compile(r"[ \t]*(?::|\n|$)")
_HEADING = re.compile(
    r"\n[ \t#*]*(?P<line>[A-Z][A-Za-z'/&() -]{1,45})(?::|[ \t]*(?=\n\s*\n))"
    r"|\n[ \t#*]*(?P<caps>[A-Z][A-Z'/&() -]{3,45})[ \t]*(?=\n|$)"
    r"|(?:Social|Surgical|Past|Physical|Medical|Review|Family)\s+(?:Medical\s+|of\s+)?[A-Z][a-z]+\s*:"
)


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
        return self._hits.get(tag, [])

    @cached_property
    def _breaks(self) -> list[int]:
        text, breaks = self.text, [0]
        for match in _BREAK.finditer(text):
            if text[match.start()] == "." and not _ends(text, match.start(), match.end()):
                continue
            breaks.append(match.end())
        return breaks

    def sentence_number(self, position: int) -> int:
        """The number of the sentence (or list item, or line after a heading) around a position."""
        return bisect_right(self._breaks, position) - 1

    def sentence(self, position: int) -> tuple[int, int]:
        """Where the sentence around a position starts and ends."""
        k = bisect_right(self._breaks, position)
        return self._breaks[k - 1], self._breaks[k] if k < len(self._breaks) else len(self.text)

    def opening(self, position: int) -> int:
        """Where the first word of the sentence around a position starts."""
        start, end = self.sentence(position)
        while start < end and not (self.text[start].isalnum() or self.text[start] in "_["):
            start += 1
        return start

    @cached_property
    def _families(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for hit in self.hits("family"):
            match = _FAMILY.match(self.text, hit.start)
            if match is None or (found and hit.start < found[-1][1]):
                continue
            if _COLON_OR_LINE.match(self.text, match.end()):
                found.append((match.end(), section_end(self.text, match.end(), of_family=True)))
            else:
                found.append(self.sentence(hit.start))
        return found

    def in_family(self, position: int) -> bool:
        """Whether a position is in a family history: its section, or a sentence that starts with one."""
        return any(start <= position < end for start, end in self._families)


def _ends(text: str, dot: int, after: int) -> bool:
    start = dot
    while start > 0 and text[start - 1].isalpha():
        start -= 1
    word = text[start:dot].lower()
    while after < len(text) and text[after].isspace():
        after += 1
    if word in _NO_END:
        return word in ("o", "yr", "yrs") and _NEXT.match(text, after) is not None
    return after >= len(text) or not text[after].islower()


def section_end(text: str, start: int, *, of_family: bool = False) -> int:
    """Where the section that starts here ends; in a family history "Mother:" is a line, not a heading."""
    for match in _HEADING.finditer(text, start):
        title = match.group("line") or match.group("caps") or ""
        if not of_family or _FAMILY.search(title):
            return match.start()
        words = _WORD.findall(title.lower())
        if not any(word in people.RELATIVES or word in people.SIDES for word in words):
            return match.start()
    return len(text)


class TriggerWords:
    """The trigger words of all characteristics, by tag."""

    def __init__(self, words_of: Mapping[str, Iterable[str]]) -> None:
        tags: dict[str, list[str]] = {}
        for tag, words in words_of.items():
            for word in words:
                tags.setdefault(word.lower(), []).append(tag)
        self._tags = {word: tuple(dict.fromkeys(names)) for word, names in tags.items()}

    def scan(self, text: str) -> ScannedNote:
        """Scan a text once."""
        hits: dict[str, list[Hit]] = {}
        find = self._tags.get
        for match in _WORD_OR_MASK.finditer(text):
            word = match.group().lower()
            names = find(word)
            if names is not None:
                hit = Hit(match.start(), match.end(), word)
                for name in names:
                    hits.setdefault(name, []).append(hit)
        return ScannedNote(text, hits)
