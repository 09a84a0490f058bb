"""Taking a mention out of a note: a word, a place, an item of a list.

What is taken out can be put back in the same place, except for an item of a list. A sentence stays: without it, nothing
would tell where it was.
"""

from __future__ import annotations

import re

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.gender.words import like
from palpate.perturb.characteristics.grammar import taken_out
from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.wording.found import FoundWords, WordedMention

_ITEM_BEFORE = re.compile(r"(?P<comma>,\s+)$|(?:\b(?:of|for|with|include[sd]?|including)|:)\s+$", re.IGNORECASE)
_ITEM_AFTER = re.compile(r",\s+(?!(?:and|or)\b)|,?\s+and\s+(?:also\s+)?(?:of\s+|for\s+)?", re.IGNORECASE)
_LAST_ITEM = re.compile(r"(?:,|,?\s+and)\s+$", re.IGNORECASE)
_HISTORY = re.compile(
    r",?\s+(?:with|and\s+has|and|has|having)\s+(?:an?\s+|known\s+|past\s+|prior\s+)*(?:medical\s+)?(?:history\s+of|hx\s+of|h/o)\s+$",
    re.IGNORECASE,
)
_STOPS_HERE = re.compile(r"\s*(?:[.,;)\n]|$)")
_STOPS = re.compile(r"[ \t]*(?:[.;)\n]|$)")


def removed(found: FoundWords, place: WordedMention) -> Edit | None:
    """The edit that takes a mention out; None if the rest would not read well."""
    note = found.patient.note
    start, end, _, kind = place
    text = note.text
    if kind == "letters":
        return Edit(start, end, "")
    if kind == "brackets":
        return Edit(start - 2 if text[start - 2] == " " else start - 1, end + 1, "")
    if kind in ("sentence", "alone"):
        return _whole(text, start, end + (text[end : end + 1] == "."))
    if kind == "diagnosis":
        return _item(note, start, end)
    if kind == "dwelling":
        home = next(one for one in found.dwellings if one.start == start)
        if home.has_company:
            return Edit(start - 1, end, "")
        alone = home.verb == start - 1 and _STOPS_HERE.match(text, end)
        return Edit(start, end, like(note.text[start:end], "locally")) if alone else None
    return None if kind in ("predicate", "phrase", "header", "descent") else taken_out(note, start, end)


def _whole(text: str, start: int, end: int) -> Edit | None:
    """Remove a sentence, with the white space that parted it from the one before, or at a beginning from the next."""
    if not text[:start].strip() and not text[end:].strip():
        return None
    lead = len(text[:start]) - len(text[:start].rstrip())
    if lead == start:
        return Edit(start, end + len(text[end:]) - len(text[end:].lstrip()), "")
    return Edit(start - lead, end, "")


def _item(note: ScannedNote, start: int, end: int) -> Edit | None:
    """Remove an item of a list: "asthma, obesity, gout", "a history of obesity and of gout"."""
    text, first = note.text, note.sentence(start)[0]
    low = max(first, start - 60)
    before, after = _ITEM_BEFORE.search(text, low, start), _ITEM_AFTER.match(text, end)
    if before and after and after.group().strip() == "," and text[start].isupper() and text[after.end()].islower():
        return Edit(start, after.end() + 1, text[after.end()].upper())
    if before and after:
        if before.group("comma") and not after.group().startswith(" "):
            return Edit(before.start("comma"), end, "")
        return None if before.group("comma") else Edit(start, after.end(), "")
    if not _STOPS.match(text, end):
        return None
    last = _HISTORY.search(text, low, start) or _LAST_ITEM.search(text, low, start)
    return Edit(last.start(), end, "") if last else None
