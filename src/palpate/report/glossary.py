"""The words of the report, each in one plain sentence; only those that a report uses are printed.

The sentences are data, in `glossary.yaml` beside this file.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import yaml


class Term(NamedTuple):
    """A word, how it is found in a report's text, and what it means."""

    name: str
    pattern: str
    meaning: str


@cache
def terms() -> tuple[Term, ...]:
    """All terms, in alphabetical order."""
    text = files("palpate.report").joinpath("glossary.yaml").read_text(encoding="utf-8")
    return tuple(Term(**entry) for entry in yaml.safe_load(text))


def used_in(text: str) -> list[Term]:
    """The terms that a report's text uses."""
    lowered = text.lower()
    return [term for term in terms() if re.search(term.pattern, lowered)]
