"""What a reviewer broke: ages, ethnicities, YAML characteristics and sections, as data in attacks.tsv."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from palpate.perturb.characteristics import Alterer, alter


class Attack(NamedTuple):
    """A note, the group it is altered to, and what is to come of it; see the head of the file."""

    characteristic: str
    group: str
    text: str
    expected: str


def _read() -> list[Attack]:
    lines = (Path(__file__).parent / "attacks.tsv").read_text("utf-8").splitlines()
    rows = [line.replace("\\n", "\n").split("\t") for line in lines if not line.startswith("#")]
    return [Attack(*row) for row in rows]


_ATTACKS = _read()


def _present(text: str, name: str) -> str | None:
    alterer = Alterer([name])
    return alterer.detection(alterer.plan(text)).present[name]


def test_they_differ() -> None:
    assert len(set(_ATTACKS)) == len(_ATTACKS) > 100


@pytest.mark.parametrize("attack", _ATTACKS, ids=lambda a: f"{a.characteristic}-{a.group}-{a.text[:40]}")
def test_attack(attack: Attack) -> None:
    name, group, text, expected = attack
    if group == "?":
        assert _present(text, name) == (None if expected == "-" else expected)
        return
    altered = alter(text, name, group)
    if expected.startswith("!"):
        assert altered.action == "skipped", altered.text
        assert (altered.reason or "").startswith(expected[1:].strip())
        assert altered.text == text
    elif expected == "=":
        assert (altered.text, altered.action) == (text, "kept")
    else:
        assert altered.text == expected, altered.reason
        assert altered.action in ("changed", "added")


@pytest.mark.parametrize("attack", _ATTACKS, ids=lambda a: f"{a.characteristic}-{a.group}-{a.text[:40]}")
def test_what_was_written_is_read(attack: Attack) -> None:
    """An altered text is in the group that it was altered to; a blank or a decade tells no single age."""
    name, group, text, expected = attack
    if group == "?" or expected[0] in "!=" or "0s" in text:
        return
    assert _present(expected, name) == group
    assert alter(expected, name, group).action == "kept"
