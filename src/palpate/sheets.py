"""Cells of sheets that people open: what a spreadsheet would compute is shown instead, and read back as it was."""

from __future__ import annotations

import re

_COMPUTED = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_SIGNED = re.compile(r"[+-]\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?%?")


def as_cell(value: object) -> object:
    """A cell that a spreadsheet shows instead of computing it: a text that would be a formula gets an apostrophe.

    >>> as_cell("=cmd|' /C calc'!A0"), as_cell("-4.5"), as_cell("- cough"), as_cell(0.5)
    ("'=cmd|' /C calc'!A0", '-4.5', "'- cough", 0.5)
    """
    return f"'{value}" if isinstance(value, str) and _formula(value) else value


def from_cell(text: str) -> str:
    """What `as_cell` was given."""
    return text[1:] if text.startswith("'") and _formula(text) else text


def _formula(text: str) -> bool:
    """Whether a spreadsheet would compute a text, apostrophes before it aside; a number may start with a sign."""
    return _COMPUTED.match(text) is not None and _SIGNED.fullmatch(text.lstrip("'")) is None
