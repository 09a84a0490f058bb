"""Where a sentence can be put into a note so that it reads as part of it.

In the running text of the section that tells what the patient has (history of present illness, hospital course,
assessment, impression, findings), behind its first sentence, near the beginning rather than the end, because models
read only so much of a note; where the section is a list, on a line before it. Never into family history, medicines,
allergies or laboratory values. A note without headings takes it behind its first sentence. A sentence that brings a
heading of its own is put behind the note, on lines of its own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palpate.cases.edits import Edit

_HEADING = re.compile(
    r"(?:^|\n)[ \t#*]*(?P<line>[A-Z][A-Za-z'/&() -]{1,45}?)[ \t]*(?::|(?=\n))"
    r"|(?<=[.\s,])(?P<caps>[A-Z][A-Z'/&() -]{3,45}):"
)
"""A heading on a line of its own or before a colon, or in capitals before a colon within a line."""
_WELCOME = re.compile(
    r"history of (?:the )?present illness|\bhpi\b|hospital course|brief (?:history|course)|course in|interval history"
    r"|assessment|impression|\bfindings\b|discussion|summary|\bsubjective\b",
    re.IGNORECASE,
)
_LAST = re.compile(r"complaint|narrative|presentation|clinical (?:history|course)|^history$", re.IGNORECASE)
_SENTENCE = re.compile(r"[A-Z(\"'\[][^\n]*?[a-z0-9)\]%\"'*][.!?](?=\s|$)")
_ABBREVIATED = re.compile(
    r"(?:\b(?:Dr|Mr|Mrs|Ms|St|vs|approx|No|Pt|pt|y\.o|q\.d|b\.i\.d|t\.i\.d|p\.o|e\.g|i\.e)|\b[A-Z])\.$"
)
_ITEM = re.compile(r"\s*(?:[-*•#]|\d{1,2}[.)])\s")
_RELATIVE = re.compile(
    r"\b(?:mother|father|sister|brother|aunt|uncle|grand\w+|daughter|son|parents?|siblings?|famil\w+|cousin|maternal|paternal)s?\b",
    re.IGNORECASE,
)
"""What follows a sentence about a relative may be read as the relative's."""
_OWN_HEADING = re.compile(r"[A-Z][A-Z ]{3,40}:")
FEWEST_WORDS = 5
"""A shorter sentence ("Stable.") may be a line of a list or a heading."""


class Place(NamedTuple):
    """An offset in a note, and what separates a sentence there from what is before it."""

    at: int
    glue: str


def find_place(note: str) -> Place | None:
    """Where a sentence fits into the note's running text; None if the note has none."""
    headings = list(_HEADING.finditer(note))
    ends = [*(match.start() for match in headings[1:]), len(note)][: len(headings)]
    sections = [(m["line"] or m["caps"], m.end(), end) for m, end in zip(headings, ends, strict=True)]
    named = [part for part in sections if _WELCOME.search(part[0])]
    for _, start, end in named:
        at = _behind_first_sentence(note, start, end)
        if at is not None:
            return Place(at, " ")
    for _, start, end in named:
        if note[start:end].strip():
            return Place(start, " " if note[start - 1] == ":" else "\n\n")
    opening = ("", 0, headings[0].start() if headings else len(note))
    for _, start, end in (opening, *(part for part in sections if _LAST.search(part[0]))):
        at = _behind_first_sentence(note, start, end)
        if at is not None:
            return Place(at, " ")
    return None


def place_sentence(note: str, sentence: str) -> Edit | None:
    """The edit that puts a sentence into a note; None if the note has no place for it."""
    if _OWN_HEADING.match(sentence):
        end = len(note.rstrip())
        return Edit(end, end, f"\n\n{sentence}") if end else None
    place = find_place(note)
    return None if place is None else Edit(place.at, place.at, place.glue + sentence)


def _behind_first_sentence(note: str, start: int, end: int) -> int | None:
    """The end of the first whole sentence of running text in a part of the note."""
    at = start
    while True:
        match = _SENTENCE.search(note, at, end)
        if match is None:
            return None
        stop = match.end()
        while _ABBREVIATED.search(note[match.start() : stop]) or _decimal(note, stop):
            further = re.compile(r"[^\n]*?[.!?](?=\s|$)").match(note, stop, end)
            if further is None:
                break
            stop = further.end()
        line = note.rfind("\n", 0, match.start()) + 1
        said, listed = note[match.start() : stop], _ITEM.match(note, line) is not None
        if len(said.split()) >= FEWEST_WORDS and not listed and not _RELATIVE.search(said):
            return stop
        at = stop


def _decimal(note: str, stop: int) -> bool:
    """Whether the full stop before `stop` is the point of a number ("98. 6")."""
    return re.search(r"\d\.$", note[:stop][-4:]) is not None and note[stop : stop + 2].strip()[:1].isdigit()
