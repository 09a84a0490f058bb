"""Real notes, altered and read one by one: the error rate and the coverage of gender, and notes on one line."""

from __future__ import annotations

from collections import Counter

import pytest

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer, EditOutcome

from .real_notes import ReadNote, digest, is_there, on_one_line, read_notes, texts

pytestmark = pytest.mark.skipif(not is_there(), reason="../shared/data is not here")
_ALTERER = Alterer(["gender"], sure="normal")
_NOTES = read_notes()
_MOST_WRONG = 0.02
_MOST_SKIPPED = 0.20


def _alter(text: str, group: str) -> EditOutcome:
    return _ALTERER.edits(_ALTERER.plan(text), ("gender", group))


def _is_right(note: ReadNote) -> bool:
    text = texts(note.source)[note.id]
    edits, action, reason = _alter(text, note.group)
    if note.expected.startswith("skipped"):
        return action == "skipped" and (reason or "").split(":")[0] == note.expected.removeprefix("skipped ")
    return digest(splice(text, edits)) == note.expected


@pytest.mark.parametrize("group", ["female", "male"])
def test_at_most_two_in_a_hundred_are_wrong(group: str) -> None:
    rows = [note for note in _NOTES if note.group == group]
    wrong = [f"{note.source} {note.id}" for note in rows if not _is_right(note)]
    assert len(rows) > 150
    assert len(wrong) <= _MOST_WRONG * len(rows), wrong


def test_at_most_a_fifth_is_skipped() -> None:
    kinds = Counter(note.expected if note.expected.startswith("skipped") else "altered" for note in _NOTES)
    assert len({(note.source, note.id) for note in _NOTES}) > 500
    assert kinds["altered"] >= (1 - _MOST_SKIPPED) * sum(kinds.values()), kinds


@pytest.mark.parametrize("comma", [False, True])
def test_line_breaks_do_not_matter(comma: bool) -> None:
    """A note on one line is altered as with its lines."""
    differs, n = [], 0
    for note in (note for note in _NOTES if note.source.startswith("aci")):
        text = texts(note.source)[note.id]
        plain = _alter(text, note.group)
        flat = on_one_line(text, comma=comma)
        outcome = _alter(flat, note.group)
        n += 1
        if splice(flat, outcome.edits) != on_one_line(splice(text, plain.edits), comma=comma):
            differs.append(note.id)
    assert n > 80
    assert len(differs) <= _MOST_WRONG * n, differs
