"""The sentences of attributes.tsv, and what holds for age and the YAML characteristics on any of them (hypothesis)."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from palpate.cases.edits import splice
from palpate.perturb.characteristics import NAMES, Alterer, alter
from palpate.perturb.characteristics.definitions import built_in


class Row(NamedTuple):
    """A note, the group that it is altered to, and what is to come of it."""

    characteristic: str
    group: str
    text: str
    expected: str


def _read() -> list[Row]:
    lines = (Path(__file__).parent / "attributes.tsv").read_text("utf-8").splitlines()
    return [Row(*line.replace("\\n", "\n").split("\t")) for line in lines if not line.startswith("#")]


_ROWS = _read()
_OTHERS = tuple(name for name in NAMES if name != "gender")
_ALTERER = Alterer(_OTHERS, sure="normal")
_BY_CHOICE = Alterer(_OTHERS, contradictory="alter", sure="normal")
_AGES = ("18", "25", "47", "80", "85", "90+")


def _groups(name: str) -> tuple[str, ...]:
    return _AGES if name == "age" else _ALTERER.groups(name)


def _name(row: Row) -> str:
    return f"{row.characteristic}-{row.group}-{row.text[:50]}"


def test_there_are_many() -> None:
    assert len(_ROWS) == len(set(_ROWS)) > 110
    assert {row.characteristic for row in _ROWS} == set(_OTHERS)


@pytest.mark.parametrize("row", _ROWS, ids=_name)
def test_altered(row: Row) -> None:
    name, group, text, expected = row
    altered = alter(text, name, group, sure="normal")
    if expected.startswith("!"):
        assert (altered.action, altered.text) == ("skipped", text)
        assert (altered.reason or "").startswith(expected[1:].strip())
    elif expected == "=":
        assert (altered.action, altered.text) == ("kept", text)
    else:
        assert (altered.text, altered.reason) == (expected, None)


@pytest.mark.parametrize("row", [row for row in _ROWS if row.expected.startswith("! contra")], ids=_name)
def test_contradictions_are_altered_by_choice(row: Row) -> None:
    altered = alter(row.text, row.characteristic, row.group, contradictory="alter", sure="normal")
    assert altered.action in ("changed", "added") or altered.reason == "the mention can't be taken out of its sentence"


_TEXTS = sorted({row.text for row in _ROWS})
_WITHOUT_AGE = [text for text in _TEXTS if not re.search(r"\d|yo\b|patient|Pt\b", text)]
_NOTES = st.tuples(st.sampled_from(_TEXTS), st.lists(st.sampled_from(_WITHOUT_AGE), max_size=2)).map(
    lambda parts: "\n".join([parts[0], *parts[1]])
)
"""A note about one patient: a text, and others that introduce nobody."""


@given(_NOTES, st.sampled_from(_OTHERS), st.data())
@settings(max_examples=300, deadline=None)
def test_an_altered_note_says_the_group_and_nothing_else_changes(text: str, name: str, data: st.DataObject) -> None:
    """What was written is read again; outside the edits the text is the same; a second time nothing is to be done."""
    group = data.draw(st.sampled_from(_groups(name)))
    edits, action, _ = _ALTERER.edits(_ALTERER.plan(text), (name, group))
    assume(action in ("changed", "added"))
    assert all(first.end <= second.start for first, second in pairwise(edits))
    altered, shift = splice(text, edits), 0
    end = 0
    for edit in edits:
        assert altered[end + shift : edit.start + shift] == text[end : edit.start]
        shift += len(edit.text) - (edit.end - edit.start)
        end = edit.end
    assert altered[end + shift :] == text[end:]
    again = _ALTERER.plan(altered)
    assert _ALTERER.detection(again).present[name] == group
    assert _ALTERER.edits(again, (name, group)).action == "kept"


@given(_NOTES, st.sampled_from(_OTHERS), st.data())
@settings(max_examples=300, deadline=None)
def test_a_then_b_is_b(text: str, name: str, data: st.DataObject) -> None:
    """For groups other than the note's own, whose spelling is lost on the way; what contradicts is altered too.

    With the word, `none` takes away where it stood: "a thin 55-year-old man" comes back as "a 55-year-old thin man".
    """
    first, second = data.draw(st.permutations(_groups(name)))[:2]
    found = _BY_CHOICE.plan(text)
    present = _BY_CHOICE.detection(found).present[name]
    one, two = (_BY_CHOICE.edits(found, (name, group)) for group in (first, second))
    assume(second != present and one.action in ("changed", "added") and two.action in ("changed", "added"))
    between = _BY_CHOICE.plan(splice(text, one.edits))
    after = splice(between.text, _BY_CHOICE.edits(between, (name, second)).edits)
    expected = splice(text, two.edits)
    if first == "none":
        assert _words(after) == _words(expected)
    else:
        assert after.split() == expected.split()


def _words(text: str) -> list[str]:
    """In no order, and without the article that goes with the word behind it."""
    return sorted(word.lower() for word in text.split() if word.lower() not in ("a", "an"))


def test_none_loses_where_the_word_stood() -> None:
    text = "A thin 55-year-old man with cough."
    without = alter(text, "weight", "none").text
    assert without == "A 55-year-old man with cough."
    assert alter(text, "weight", "underweight").text == "An underweight 55-year-old man with cough."
    assert alter(without, "weight", "underweight").text == "A 55-year-old underweight man with cough."


def test_every_wording_has_its_source() -> None:
    definition = built_in("wording")
    assert len(definition.cited) == len(definition.wording)
    assert all(definition.cited)
    assert {source for row in definition.cited for source in row} == set(definition.sources)
