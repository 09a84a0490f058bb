"""The sections of a note in another order, and tags of de-identification in another form."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from palpate.cases.edits import Edit
from palpate.perturb.robustness.reading import TAG, Rng, WrittenNote, lexicon, without_overlaps

_HEADING = re.compile(r"(?m)^[ \t]*([A-Za-z][A-Za-z /&,()-]{1,58}?)[ \t]*(?::|$)")


class MovableSection(NamedTuple):
    """A section from its heading to its last line, without the blank lines that follow."""

    start: int
    end: int
    heading: str


@cache
def _headings() -> dict[str, bool]:
    """Headings, and whether the order of their section is free."""
    own = lexicon("sections")
    return {**dict.fromkeys(own["other"], False), **dict.fromkeys(own["free"], True)}


def movable_sections(text: str) -> list[MovableSection]:
    """The sections whose order is free, each on lines of its own."""
    known = _headings()
    found = [
        (match.start(), name)
        for match in _HEADING.finditer(text)
        if (name := _name(match.group(1))) in known or (match.group(1).isupper() and len(name) > 3)
    ]
    starts = [start for start, _ in found]
    sections = []
    for (start, name), stop in zip(found, [*starts[1:], len(text)], strict=False):
        end = start + len(text[start:stop].rstrip())
        # A last section may go on with what belongs to none of them: a signature, a closing remark.
        if known.get(name) and stop < len(text):
            sections.append(MovableSection(start, end, name))
    return sections


def _name(heading: str) -> str:
    return re.sub(r"[^a-z]+", " ", heading.lower().replace("&", " and ")).strip()


@cache
def _pointing() -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in lexicon("sections")["pointing"])
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)


def section_order(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Sections such as allergies and family history in another order: each takes the place of the one before."""
    sections = movable_sections(note.text)
    texts = [note.text[section.start : section.end] for section in sections]
    if len(sections) < 2 or len({section.heading for section in sections}) < 2:
        return "fewer than two sections whose order is free"
    if any(_pointing().search(each) for each in texts):
        return "a section points at another"
    turned = [*texts[1:], texts[0]]
    edits = [Edit(s.start, s.end, new) for s, old, new in zip(sections, texts, turned, strict=True) if new != old]
    return edits or "fewer than two sections whose order is free"


_TITLED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof)(?:\.[ ]?|[ ])((?!Patient)[A-Z][a-z]{2,}(?:-[A-Z][a-z]+)?(?:[ ][A-Z][a-z]{2,})?)"
    r"(?=['’]s\b|[\s,.;)]|\Z)"
)
_NAMED = re.compile(r"(?<=\bName: )[A-Z][a-z]+(?:[ ,]+[A-Z][a-z]+){1,2}(?=\s*(?:\n|\Z))")
_BLANK = "___"
_WORDS_FOR_TAGS = "[REMOVED]"


def tags(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Tags in another form, and names after a title removed as de-identification removes them."""
    marks = [mark for mark in TAG.finditer(note.text) if mark.group().strip("_") or mark.group() == _BLANK]
    edits = [Edit(*mark.span(), _WORDS_FOR_TAGS if mark.group().startswith("_") else _BLANK) for mark in marks]
    blank = _WORDS_FOR_TAGS if marks and marks[0].group().startswith("_") else _BLANK
    for pattern, part in ((_TITLED, 1), (_NAMED, 0)):
        for match in pattern.finditer(note.text):
            if not note.touches(*match.span(part)):
                edits.append(Edit(*match.span(part), blank))
    return without_overlaps(edits) or "no tag and no name after a title"
