"""Patterns made of the words of `cues.yaml`."""

from __future__ import annotations

import re
from collections.abc import Sequence

GIVEN = re.compile(
    r"(?:^|[\s(])(?:the|his|her|their|this|these|those|its|patient's|pt's)\s+"
    r"(?:(?!of\b|for\b|in\b|on\b|with\b|to\b|at\b|by\b|from\b|as\b|is\b|was\b|or\b|and\b|following\b|"
    r"could\b|can\b|may\b|might\b|would\b|will\b|be\b|been\b|has\b|had\b|have\b|are\b|were\b)[\w'/-]+\s+){0,4}\Z"
)
"""A finding with an article is known: "no treatment of the effusion"."""


def either(words: Sequence[str], *, star: str = "") -> str:
    """A pattern of any of these words, the longest first; "#" stands for one to three words."""
    longest_first = sorted(words, key=len, reverse=True)
    return "(?:" + "|".join(_escaped(word).replace(r"\ \*\ ", star) for word in longest_first) + ")"


def _escaped(word: str) -> str:
    return re.escape(word).replace(r"\ \#\ ", r"(?: [\w-]+){1,3} ")


def whole_words(pattern: str, sign: str | None = None) -> re.Pattern[str]:
    """A pattern that matches whole words only; a comma may begin it. `sign` matches anywhere."""
    return re.compile(rf"(?:(?<![\w-])|(?=,))(?:{pattern})(?![\w-])" + (f"|{sign}" if sign else ""))
