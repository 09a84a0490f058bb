"""The second reader: what it is not sure of, as data in doubts.tsv; and it only ever skips."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.cases.edits import splice
from palpate.perturb.characteristics import NAMES, Alterer, alter

from .sentences import read_sentences


class Doubt(NamedTuple):
    """A note, the group it is altered to, and what the second reader makes of it."""

    characteristic: str
    group: str
    text: str
    expected: str


def _read() -> list[Doubt]:
    lines = (Path(__file__).parent / "doubts.tsv").read_text("utf-8").splitlines()
    return [Doubt(*line.replace("\\n", "\n").split("\t")) for line in lines if not line.startswith("#")]


_STRICT, _NORMAL = Alterer(NAMES), Alterer(NAMES, sure="normal")
_GROUPS = {
    "gender": ("female", "male", "trans woman", "trans man", "non-binary"),
    "age": ("18", "41", "77", "90+"),
    **{name: _STRICT.groups(name) for name in NAMES if name not in ("gender", "age")},
}


@pytest.mark.parametrize("row", _read(), ids=lambda row: f"{row.characteristic}-{row.group}-{row.text[:40]}")
def test_what_it_is_not_sure_of(row: Doubt) -> None:
    first = alter(row.text, row.characteristic, row.group, sure="normal")
    assert first.action in ("changed", "added"), first.reason
    both = alter(row.text, row.characteristic, row.group)
    if row.expected == "sure":
        assert both == first
    else:
        assert (both.text, both.action) == (row.text, "skipped")
        assert (both.reason or "").startswith(f"not sure: {row.expected}")


def _only_skips(text: str) -> int:
    """How many of the alterations of a note the second reader turns into skips."""
    strict, normal = _STRICT.plan(text), _NORMAL.plan(text)
    skipped = 0
    for name, groups in _GROUPS.items():
        for group in groups:
            both, first = _STRICT.edits(strict, (name, group)), _NORMAL.edits(normal, (name, group))
            if both != first:
                assert (both.edits, both.action) == ((), "skipped")
                assert (both.reason or "").startswith("not sure: ")
                skipped += 1
    return skipped


@pytest.mark.slow
def test_it_only_skips() -> None:
    written = [sentence.write(**sentence.start) for sentence in read_sentences()]
    texts = dict.fromkeys([*(row.text for row in _read()), *written])
    assert sum(map(_only_skips, texts)) > len(texts) // 4


@given(st.text(max_size=120))
@settings(max_examples=60, deadline=None)
def test_it_only_skips_whatever_the_text(text: str) -> None:
    _only_skips(text)
    _only_skips("63 yo man with cough. " + text)


def test_by_choice_contradictions_are_altered() -> None:
    """What may contradict the group is altered by choice; what would be left of the old one is a skip all the same."""
    note = "22 yo male, roommate called 911. MSE: thin. He has a cough."
    for name, group in (("age", "77"), ("weight", "obese"), ("housing", "homeless")):
        assert alter(note, name, group).action == "skipped"
        assert alter(note, name, group, contradictory="alter").action in ("changed", "added")
    told = "90 yo F, well. Daughter asks re: timeline, I told her days."
    assert (alter(told, "gender", "male", contradictory="alter").reason or "").startswith("not sure")


def test_two_at_once() -> None:
    """A combination is skipped if nobody is sure of one of its parts."""
    note = "22 yo male with a cough, roommate called 911."
    assert alter(note, {"gender": "female", "age": "77"}).reason == "age: not sure: 'roommate' at this age"
    altered = alter(note, {"gender": "female", "age": "30"})
    assert altered.text == splice(note, altered.edits) == "30 yo female with a cough, roommate called 911."
