"""Keeps the sentence around an edit grammatical: articles, what a removed word would leave behind, numbers in words.

An article agrees with what follows it ("an 85-year-old", "a 63-year-old", "an Asian man", "a White man"). A word that
is removed leaves no comma, no "and" and no lower-case letter at the start of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from palpate.cases.edits import Edit

if TYPE_CHECKING:
    from palpate.perturb.characteristics.reading import ScannedNote

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

# How the number and the unit of an age are written, as parts of regular expressions: "63", "___"; "year old", "y/o".
_MASKED_AGE = r"\[\*\*\s?Age over 90\s*\*\*\]|(?<!_)_{3}(?!_)"
AGE_NUMBER = rf"(?P<number>{_MASKED_AGE}|\d{{1,3}}\+?)"
_WHAT_KIND = (
    r"(?:(?-i:[A-Z][a-z]+(?:-[a-z]+)?)|obese|overweight|underweight|normal[\s-]weight|homeless|stably|housed|(?:un)?insured|privately|"
    r"transgender|trans|non-binary|white|black|elderly|young|pleasant|healthy|married|single|retired|(?:right|left)-handed)"
)
"""What may stand between an age and its noun where the age lacks "old": "54 yr Hispanic man"."""
AGE_UNIT = (
    r"(?:[\s-]*(?:(?:years?|yrs?\.?)[\s-]*old\b|(?:years?|yrs?)[\s-]+of[\s-]+age\b|y(?:rs?|ears?)?\s?[/.-]\s?o\b\.?|y\s?o\b"
    r"|y\s?/?\s?o(?=(?-i:[RL]H(?:AA|[WBHC])?[MF])\b)|yo(?=[MF]?\b)|y(?=[\s-]+old\b|\s*[MF]\b(?!/)|\s+(?:[a-z-]+\s+){1,2}[MF]\b(?!/))"
    r"|(?:yo|yrs?|y)(?=\s?/\s?(?-i:[MF])(?![\w'’/])|\s?\((?-i:[MF])\)|(?-i:[MF])\b)"
    r"|(?:years?|yrs?|y)(?=[\s,]+(?:old|male|female|man|woman|gentleman|lady|boy|girl|[MF](?!/))\b|\s+(?-i:G\d))"
    rf"|(?:years?|yrs?)(?=(?:\s+{_WHAT_KIND}){{1,3}}\s+(?:male|female|man|woman|gentleman|lady|person|(?-i:[MF])(?!/))\b)))"
)


_ARTICLE = re.compile(r"\b([Aa]n?|AN?)(\s+)$")
_NUMBER = re.compile(r"(\d+)")
_LETTER_NAME = re.compile(r"[AEFHILMNORSX](?:[A-Z]|\b)")
_IN_CAPITALS = re.compile(r"(?:MAN|MALE|LADY|SON|[A-Z][AEIOU][A-Z]{3,})\b")
"""Words in capitals, unlike abbreviations, which are spelled out: "A MALE", "AN MRI"."""
_SPOKEN_CONSONANT = re.compile(r"(?:eu|one\b|uni(?!n|m)|us[eu]|ur[aeio]|ut[ei]|(?-i:U(?=[A-Z])))", re.IGNORECASE)
_SILENT_H = re.compile(r"(?:hour|honest|heir)", re.IGNORECASE)
_AND_AFTER = re.compile(r"\s+and\s+(?=[A-Za-z])")
_AND_BEFORE = re.compile(r"(?P<comma>,)?\s+and\s+$")
_COMMA_BEFORE = re.compile(r",\s+$")
_STOPS = re.compile(r"[ \t]*(?:[.;:)\n]|$)")
_AFTER_AGE = re.compile(r"\d[\s-]?(?:[MF]\b|y)[^,.;]*$", re.IGNORECASE)
"""In "63 yo thin, cachectic man" the comma goes with the word; in "by her daughter, obese man" it stays."""


@cache
def in_words(n: int) -> str:
    """A number from 0 to 99 in words: 63 is "sixty-three"."""
    if n < 20:
        return ONES[n]
    return TENS[n // 10 - 2] + (f"-{ONES[n % 10]}" if n % 10 else "")


def takes_an(word: str) -> bool:
    """Whether the article of a word, a number or an abbreviation is "an"."""
    number = _NUMBER.match(word)
    if number:
        return number.group(1).startswith("8") or number.group(1) in ("11", "18")
    if (
        not _IN_CAPITALS.match(word)
        and _LETTER_NAME.match(word)
        and (len(word) == 1 or not word[1:2].isalpha() or word[:2].isupper())
    ):
        return True
    if _SPOKEN_CONSONANT.match(word):
        return False
    return (word[:1].lower() in "aeiou" and word != "") or bool(_SILENT_H.match(word))


def article_before(text: str, position: int) -> tuple[int, int] | None:
    """The span of an article right before a position."""
    # Nearly all words have none, and a look at two letters tells so.
    if not text[position - 1 : position].isspace() or not (
        text[position - 2].isspace() or text[position - 2] in "aAnN"
    ):
        return None
    match = _ARTICLE.search(text, max(0, position - 8), position)
    return match.span(1) if match else None


def with_articles(text: str, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits, sorted, with corrections of the articles before them."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    fixes: list[Edit] = []
    for k, edit in enumerate(ordered):
        if k and ordered[k - 1].end == edit.start:
            continue  # what follows the article is an earlier edit
        span = article_before(text, edit.start)
        if span is None:
            continue
        old = text[span[0] : span[1]]
        new = agreeing_article(old, _next_word(text, ordered, k))
        if new != old:
            fixes.append(Edit(span[0], span[1], new))
    return tuple(sorted(ordered + fixes, key=lambda edit: (edit.start, edit.end))) if fixes else tuple(ordered)


def _next_word(text: str, ordered: list[Edit], k: int) -> str:
    """What will be written where edit k starts."""
    position = ordered[k].start
    for edit in ordered[k:]:
        if edit.start > position or edit.text:
            break
        position = edit.end
    else:
        return text[position : position + 20]
    return edit.text if edit.start == position and edit.text else text[position : position + 20]


@lru_cache(maxsize=1024)
def agreeing_article(article: str, following: str) -> str:
    """An article in the form that what follows asks for, in its own letters."""
    an, loud = takes_an(following), following[:5].isupper() and following[:5].isalpha()
    word = "an" if an else "a"
    if article[0] == "A":
        # "A" alone may be capitalised or all capitals; "AN" is all capitals.
        return word.upper() if an and (article == "AN" or loud) else word.capitalize()
    return word


def taken_out(note: ScannedNote, start: int, end: int) -> Edit | None:
    """The edit that removes an adjective; None if the rest would not read well."""
    text = note.text
    joined = _AND_AFTER.match(text, end)
    if joined:
        return _from_start(note, start, joined.end())
    joined = _AND_BEFORE.search(text, max(0, start - 8), start)
    if joined:
        return None if joined.group("comma") else Edit(joined.start(), end, "")
    comma = _COMMA_BEFORE.search(text, max(0, start - 4), start)
    if comma and text[end : end + 1] != ",":
        first, _ = note.sentence(start)
        if _STOPS.match(text, end) or _AFTER_AGE.search(text, first, comma.start()):
            return Edit(comma.start(), end, "")
    end += text[end : end + 1] == ","
    after = len(text[end : end + 5]) - len(text[end : end + 5].lstrip())
    line_ends = "\n" in text[end : end + after] and text[start - 1 : start] == " "
    if after and not (line_ends and article_before(text, start) is None):
        return _from_start(note, start, end + after)
    before = len(text[max(0, start - 3) : start]) - len(text[max(0, start - 3) : start].rstrip())
    return Edit(start - before, end, "")


def _from_start(note: ScannedNote, start: int, end: int) -> Edit:
    """An edit that removes text; if it opened its sentence, what follows gets the capital."""
    text = note.text
    if text[start].isupper() and text[end : end + 1].islower() and start == note.opening(start):
        return Edit(start, end + 1, text[end].upper())
    return Edit(start, end, "")
