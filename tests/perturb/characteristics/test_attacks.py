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
_DETECTED = [attack for attack in _ATTACKS if attack.group == "?"]
_ALTERED = [attack for attack in _ATTACKS if attack.group != "?"]
# What is skipped or kept writes nothing, and a decade tells no single age.
_WRITTEN = [attack for attack in _ALTERED if attack.expected[0] not in "!=" and "0s" not in attack.text]


def _name(attack: Attack) -> str:
    return f"{attack.characteristic}-{attack.group}-{attack.text[:40]}"


def _present(text: str, name: str) -> str | None:
    alterer = Alterer([name])
    return alterer.detection(alterer.plan(text)).present[name]


def test_they_differ() -> None:
    assert len(set(_ATTACKS)) == len(_ATTACKS) > 500
    assert len(_DETECTED) > 10
    assert len(_WRITTEN) > 300


@pytest.mark.parametrize("attack", _DETECTED, ids=_name)
def test_detected(attack: Attack) -> None:
    assert _present(attack.text, attack.characteristic) == (None if attack.expected == "-" else attack.expected)


@pytest.mark.parametrize("attack", _ALTERED, ids=_name)
def test_altered(attack: Attack) -> None:
    name, group, text, expected = attack
    altered = alter(text, name, group, sure="normal")
    if expected.startswith("!"):
        assert altered.action == "skipped", altered.text
        assert (altered.reason or "").startswith(expected[1:].strip())
        assert altered.text == text
    elif expected == "=":
        assert (altered.text, altered.action) == (text, "kept")
    else:
        assert altered.text == expected, altered.reason
        assert altered.action in ("changed", "added")


@pytest.mark.parametrize("attack", _WRITTEN, ids=_name)
def test_what_was_written_is_read(attack: Attack) -> None:
    """An altered text is in the group that it was altered to."""
    name, group, _, expected = attack
    assert _present(expected, name) == group
    assert alter(expected, name, group, sure="normal").action == "kept"
