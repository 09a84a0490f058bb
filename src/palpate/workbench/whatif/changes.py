"""Changes of a note that somebody asks about: a word, the patient's characteristic, a sentence; and what they did."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

from palpate.cases.edits import Edit, splice
from palpate.errors import InputError
from palpate.perturb.characteristics import Alterer
from palpate.perturb.characteristics.alterer import NAMES
from palpate.privacy import hides
from palpate.report.review import NotePart, note_parts

LONGEST_NOTE = 100_000
_SENTENCE = re.compile(r"[^.!?\n]*(?:\.(?=\d)[^.!?\n]*)*(?:[.!?]+|\n|$)")
_PIECE = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_PIECES = 8_000
"""Above this many pieces, what differs is shown by lines."""


@hides("word", "replacement", "sentence")
class WantedChange(NamedTuple):
    """What is to change; empty fields change nothing."""

    word: str = ""
    replacement: str = ""
    characteristic: str = ""
    group: str = ""
    sentence: str = ""
    """The sentence that is left out: its number, from 1, or some of its words."""


@hides("text")
class ChangedNote(NamedTuple):
    """The note after the changes, and what each change did, in a key of the texts and its numbers."""

    text: str
    told: tuple[tuple[str, dict[str, object]], ...]


def change_note(note: str, wanted: WantedChange) -> ChangedNote:
    """Make the changes one after the other: the word, the characteristic, the sentence."""
    told: list[tuple[str, dict[str, object]]] = []
    text = note
    if wanted.word.strip():
        text, n = replace_word(text, wanted.word, wanted.replacement)
        told.append(("replaced", {"n": n}))
    if wanted.characteristic:
        alterer = Alterer([wanted.characteristic], sure="normal")
        alterer.check(wanted.characteristic, wanted.group)
        outcome = alterer.edits(alterer.plan(text), (wanted.characteristic, wanted.group))
        text = splice(text, outcome.edits)
        told.append((outcome.action, {"n": len(outcome.edits), "reason": outcome.reason or ""}))
    if wanted.sentence.strip():
        found = sentences(text)
        at = _which(text, found, wanted.sentence)
        start, end = found[at]
        text = text[:start] + text[end:]
        told.append(("left_out", {"n": at + 1}))
    return ChangedNote(text, tuple(told))


def _which(text: str, found: Sequence[tuple[int, int]], wanted: str) -> int:
    """The index of a sentence by its number, or by some of its words."""
    if wanted.strip().isdecimal():
        number = int(wanted)
        if not 1 <= number <= len(found):
            raise InputError(f"the note has {len(found)} sentences")
        return number - 1
    words = " ".join(wanted.lower().split())
    for at, (start, end) in enumerate(found):
        if words in " ".join(text[start:end].lower().split()):
            return at
    raise InputError("no sentence of the note has these words")


def replace_word(text: str, word: str, replacement: str) -> tuple[str, int]:
    """Every occurrence of a word or phrase, in any case, as whole words; a capital stays a capital."""
    parts = r"\s+".join(re.escape(part) for part in word.split())
    new = " ".join(replacement.split())

    def written(found: re.Match[str]) -> str:
        capital = found[0][:1].isupper() and new[:1].islower()
        return new[:1].upper() + new[1:] if capital else new

    return re.subn(rf"(?<!\w){parts}(?!\w)", written, text, flags=re.IGNORECASE)


def sentences(text: str) -> list[tuple[int, int]]:
    """Where sentences begin and end; "98.6" does not end one, and a line end does."""
    return [
        (found.start(), found.end()) for found in _SENTENCE.finditer(text) if any(c.isalnum() for c in found.group())
    ]


def differences(note: str, changed: str) -> list[NotePart]:
    """The note with what was removed and added, long unchanged stretches folded."""
    edits = difference_edits(note, changed)
    return note_parts(note, edits)


def difference_edits(note: str, changed: str) -> Sequence[Edit]:
    """What turns one text into the other, word by word."""
    split = _PIECE.findall if len(note) + len(changed) < 6 * _MOST_PIECES else str.splitlines
    before = split(note) if split is not str.splitlines else note.splitlines(keepends=True)
    after = split(changed) if split is not str.splitlines else changed.splitlines(keepends=True)
    places = [0]
    for piece in before:
        places.append(places[-1] + len(piece))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        Edit(places[i1], places[i2], "".join(after[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def characteristics() -> dict[str, tuple[str, ...]]:
    """What can be changed, and to what."""
    alterer = Alterer(NAMES)
    return {name: alterer.groups(name) for name in NAMES}
