"""The chapter of a code: circulatory system, neoplasms, procedures on the eye; by the code's system, or by its form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from palpate.files import read_resource

_HEADS = {"ICD-10-CM": 3, "ICD-9-CM": 3, "ICD-10-PCS": 1, "ICD-9-PCS": 2, "CPT": 5}
_FORMS = {
    "ICD-9-CM": re.compile(r"\d{3}(\.\d{1,2})?|E\d{3}(\.\d)?|V\d\d(\.\d{1,2})?"),
    "ICD-9-PCS": re.compile(r"\d\d\.\d{1,2}"),
    "ICD-10-CM": re.compile(r"[A-Z]\d[0-9AB](\.[0-9A-Z]{1,4})?"),
    "ICD-10-PCS": re.compile(r"[0-9BCDFGHX][0-9A-HJ-NP-Z]{6}"),
}
"""Of codes whose system is not told, with their dots; the first that fits is taken."""


class Chapter(NamedTuple):
    """A chapter's name, and the first and the last head of its codes."""

    name: str
    first: str
    last: str


def chapter_of(code: str, system: str = "") -> str:
    """The name of a code's chapter; empty for what is no code."""
    written = code.strip().upper()
    known = system if system in _HEADS else _system_of(written)
    if not known:
        return ""
    plain = written.replace(".", "")
    head = plain[: _HEADS[known] + (known == "ICD-9-CM" and plain.startswith("E"))]
    found = (chapter.name for chapter in _chapters()[known] if chapter.first <= head <= chapter.last)
    return next(found, "") if len(head) >= _HEADS[known] else ""


def _system_of(written: str) -> str:
    return next((system for system, form in _FORMS.items() if form.fullmatch(written)), "")


@cache
def _chapters() -> Mapping[str, tuple[Chapter, ...]]:
    table = read_resource("palpate.audits.evidence", "chapters.yaml")
    return {system: tuple(Chapter(*row) for row in rows) for system, rows in table.items()}
