"""What words are made of, and when two of them are the same: the one definition that all audits share.

A word consists of letters, digits, underscores and combining marks, of any script; anything else is outside. Words are
compared by `caseless`. Two audits cut notes into words, and they have to differ in what joins such runs of characters:

- The vocabulary audit (`palpate.perturb.words.tokens`) replaces words that a clinician would name, so "non-smoker",
  "don't" and "98.6" are one word each: the reader of "non-smoker" must not find "smoker" replaced in it. Compounds such
  as "right-sided" are two.
- The evidence audit (`palpate.stats.evidence.words`) compares spans that coders marked, word by word. As in its paper,
  every run is a word of its own, so that "non-smoker" and "smoker" share one, and numbers above 10 don't count.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache


def caseless(text: str) -> str:
    """The form in which words are compared: Unicode's canonical caseless match.

    Case folding alone would distinguish "\u00c9" from "E" followed by a combining accent.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def is_word_character(character: str) -> bool:
    """Whether a character can be part of a word."""
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


@lru_cache(maxsize=1)
def word_characters() -> str:
    """The same as a character class of a regular expression; Python's `\\w` lacks the combining marks."""
    marks = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    ranges: list[list[int]] = []
    for code in marks:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    marked = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    return rf"[\w{marked}]"
