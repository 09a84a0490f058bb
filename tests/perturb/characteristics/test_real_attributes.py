"""Real notes that were altered and read one by one give what was found right then, also on one line."""

from __future__ import annotations

import re

import pytest

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer

from .real_attributes import GROUPS, is_here, outcomes, read_expected, read_notes

pytestmark = pytest.mark.skipif(not is_here(), reason="../shared/data is not here")

_ALTERER = Alterer(tuple(GROUPS), sure="normal")


def test_real_attributes_are_altered_as_they_were_read() -> None:
    notes, expected = read_notes(), read_expected()
    changed = [
        line[:3] for line in expected if outcomes(_ALTERER, notes[line.file, line.note], line.characteristic) != line[3]
    ]
    assert len({line[:2] for line in expected}) >= 150
    assert changed == [], "read them with `python -m tests.perturb.characteristics.real_attributes`"


@pytest.mark.parametrize("breaks", [" ", ","])
def test_line_breaks_do_not_matter(breaks: str) -> None:
    """A note on one line, or with commas for its line breaks, is altered in the same places."""
    compared = differ = 0
    for text in read_notes().values():
        if "\n" not in text:
            continue
        found, flat = _ALTERER.plan(text), _ALTERER.plan(text.replace("\n", breaks))
        for name in ("age", "ethnicity", "weight"):
            for group in GROUPS[name]:
                compared += 1
                differ += _ALTERER.edits(found, (name, group)).edits != _ALTERER.edits(flat, (name, group)).edits
    assert compared > 400
    assert differ <= 0.01 * compared


def test_what_is_altered_is_read_again() -> None:
    """The altered note says the group, and nothing else of it."""
    for text in read_notes().values():
        found = _ALTERER.plan(text)
        for name, groups in GROUPS.items():
            for group in groups:
                outcome = _ALTERER.edits(found, (name, group))
                if outcome.edits:
                    again = _ALTERER.detection(_ALTERER.plan(splice(text, outcome.edits)))
                    assert again.present[name] == group, (name, group, re.sub(r"\s+", " ", text)[:60])
