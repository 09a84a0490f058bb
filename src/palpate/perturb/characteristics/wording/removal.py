"""Taking a word out of a sentence so that nothing is left of it: no comma, no "and", no small letter at the start."""

from __future__ import annotations

import re

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.articles import article_before
from palpate.perturb.characteristics.scan import Note

_AND_AFTER = re.compile(r"\s+and\s+(?=[A-Za-z])")
_AND_BEFORE = re.compile(r"(?P<comma>,)?\s+and\s+$")
_COMMA_BEFORE = re.compile(r",\s+$")
_STOPS = re.compile(r"[ \t]*(?:[.;:)\n]|$)")
_AFTER_AGE = re.compile(r"\d[\s-]?(?:[MF]\b|y)[^,.;]*$", re.IGNORECASE)
"""In "63 yo thin, cachectic man" the comma goes with the word; in "by her daughter, obese man" it stays."""


def taken_out(note: Note, start: int, end: int) -> Edit | None:
    """The edit that takes out an adjective; None where the rest would not read well."""
    text = note.text
    joined = _AND_AFTER.match(text, end)
    if joined:
        return _from_start(note, start, joined.end())
    joined = _AND_BEFORE.search(text, max(0, start - 8), start)
    if joined:
        return None if joined.group("comma") else Edit(joined.start(), end, "")
    comma = _COMMA_BEFORE.search(text, max(0, start - 4), start)
    if comma and text[end : end + 1] != ",":
        first, _ = note.sentence(start)
        if _STOPS.match(text, end) or _AFTER_AGE.search(text, first, comma.start()):
            return Edit(comma.start(), end, "")
    end += text[end : end + 1] == ","
    after = len(text[end : end + 5]) - len(text[end : end + 5].lstrip())
    line_ends = "\n" in text[end : end + after] and text[start - 1 : start] == " "
    if after and not (line_ends and article_before(text, start) is None):
        return _from_start(note, start, end + after)
    before = len(text[max(0, start - 3) : start]) - len(text[max(0, start - 3) : start].rstrip())
    return Edit(start - before, end, "")


def _from_start(note: Note, start: int, end: int) -> Edit:
    """What follows a word that opened its sentence opens it now."""
    text = note.text
    if text[start].isupper() and text[end : end + 1].islower() and start == note.opening(start):
        return Edit(start, end + 1, text[end].upper())
    return Edit(start, end, "")
