"""Ages that real notes showed to be altered wrongly, or skipped without need, as data in age_cases.tsv."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.perturb.characteristics import alter


def _rows() -> list[tuple[str, str, str]]:
    lines = (Path(__file__).parent / "age_cases.tsv").read_text("utf-8").splitlines()
    rows = [line.replace("\\n", "\n").split("\t") for line in lines if not line.startswith("#")]
    return [(age, note, expected) for age, note, expected in rows]


@pytest.mark.parametrize(("age", "note", "expected"), _rows())
def test_what_becomes_of_a_note(age: str, note: str, expected: str) -> None:
    altered = alter(note, "age", age)
    if altered.action == "skipped":
        assert (altered.reason or "").startswith(expected), altered.reason
    else:
        assert altered.text == expected
