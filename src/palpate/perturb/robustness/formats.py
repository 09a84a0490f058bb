"""Dates and numbers as others write them: the date and the number stay what they are.

    03/14/2020   March 14, 2020      a date whose order is not certain (03/04/2020) stays, unless the note settles it
    March 14, 2020, 14 March 2020 or 2020-03-14   2020-03-14 and back
    5mg          5 mg                1,200        1200
    3 days       three days          .5           0.5

A decimal point and the zeros around it are left as they are, apart from a zero put before a bare point.
"""

from __future__ import annotations

import datetime
import re
from functools import cache

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.grammar import ONES
from palpate.perturb.robustness.reading import Rng, WrittenNote, lexicon, like, without_overlaps

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTH = "|".join([*MONTHS, *(month[:3] + r"\.?" for month in MONTHS if month != "May"), r"Sept\.?"])
_YEAR = re.compile(r"\d{4}")
_SLASHED = re.compile(r"(?<![\w/.-])(\d{1,2})([/-])(\d{1,2})\2(\d{4})(?![\w/-]|\.\d)")
_ISO = re.compile(r"(?<![\w/.-])(\d{4})-(\d{2})-(\d{2})(?![\w/-]|[.:]\d)")
_MONTH_FIRST = re.compile(rf"(?<![\w/.-])({_MONTH})[ ]+(\d{{1,2}})(?:st|nd|rd|th)?,?[ ]+(\d{{4}})(?![\w/-])")
_DAY_FIRST = re.compile(rf"(?<![\w/.-])(\d{{1,2}})(?:st|nd|rd|th)?[ ]+({_MONTH})[ ,]+(\d{{4}})(?![\w/-])")


def dates(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Every date in another format."""
    dated = _YEAR.search(note.text) is not None
    found = [each for each in (read_dates(note.text) if dated else ()) if not note.touches(*each[0])]
    edits = [Edit(*span, date.isoformat() if spelt else _spelt(date)) for span, date, spelt in found]
    return without_overlaps(edits) or "no date whose order is certain"


def read_dates(text: str) -> list[tuple[tuple[int, int], datetime.date, bool]]:
    """The dates with day, month and year whose order is certain: span, date, and whether the month is a word."""
    found = []
    slashed = list(_SLASHED.finditer(text))
    day_first = _order(slashed)
    for match in slashed:
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        if first == second:
            day, month = first, second
        elif first > 12 or second > 12:
            day, month = (first, second) if first > 12 else (second, first)
        elif day_first is None:
            continue
        else:
            day, month = (first, second) if day_first else (second, first)
        found.append((match.span(), _date(year, month, day), False))
    for match in _ISO.finditer(text):
        found.append((match.span(), _date(int(match[1]), int(match[2]), int(match[3])), False))
    for match in _MONTH_FIRST.finditer(text):
        found.append((match.span(), _date(int(match[3]), _month(match[1]), int(match[2])), True))
    for match in _DAY_FIRST.finditer(text):
        found.append((match.span(), _date(int(match[3]), _month(match[2]), int(match[1])), True))
    return [(span, date, spelt) for span, date, spelt in found if date is not None]


def _order(slashed: list[re.Match[str]]) -> bool | None:
    """Whether the day comes first, by the dates in which that is certain; None if there are none or they disagree."""
    votes = {int(match[1]) > 12 for match in slashed if (int(match[1]) > 12) != (int(match[3]) > 12)}
    return votes.pop() if len(votes) == 1 else None


def _date(year: int, month: int, day: int) -> datetime.date | None:
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None


def _month(word: str) -> int:
    return next(k for k, month in enumerate(MONTHS, start=1) if word.lower().startswith(month[:3].lower()))


def _spelt(date: datetime.date) -> str:
    return f"{MONTHS[date.month - 1]} {date.day}, {date.year:04d}"


@cache
def _numbers() -> tuple[re.Pattern[str], ...]:
    units = "|".join(sorted(lexicon("units")["spaced"], key=len, reverse=True))
    counted = "|".join(sorted(lexicon("units")["counted"], key=len, reverse=True))
    words = "|".join(ONES[2:11])
    compound = r"[/-]|,? (?:and )?(?:\d|a half)"  # "6 years 5 months", "two and a half"
    return (
        # What stands before the first digit comes after it: patterns that begin with a digit are searched much faster.
        re.compile(rf"\d(?<![\w.,/-].)\d*(?:\.\d+)?([ ]?)({units})(?![\w/])"),
        re.compile(r"\d(?<![\w.,/$-].)\d{0,2}(,)\d{3}(?![\w/-]|[.,]\d)"),
        re.compile(r"\.(?<![\w.,/)-].)(?=\d)"),
        re.compile(rf"(?:[2-9]|1(?=0))(?<![\w.,/:#-].)0?(?<!\b[2-9]0)(?= (?:{counted})\b(?!{compound}))"),
        re.compile(rf"\b({words})(?= (?:{counted})\b(?!{compound}))", re.IGNORECASE),
    )


_LISTED = re.compile(r"(?:\d[ ]?(?:-|to|or|x|/)[ ]?|[x#][ ]?|\bone (?:to|or) |(?:and|a) )\Z|-\Z", re.IGNORECASE)
"""Before a number: a range, a factor ("2 to 3 days", "x 3 days"), whose parts are written alike."""
_RANGE = re.compile(r"(?:\w+)[ ](?:to|or|-)[ ]\Z")


def numbers(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Small counts in words or in digits, a space before a unit or none, thousands with a comma or without."""
    text = note.text
    measured, thousands, bare, digits, spelt = _numbers()
    edits = [Edit(*m.span(1), "" if m.group(1) else " ") for m in measured.finditer(text)]
    edits += [Edit(*m.span(1), "") for m in thousands.finditer(text)]
    edits += [Edit(m.start(), m.start(), "0") for m in bare.finditer(text)]
    edits += [Edit(*m.span(), ONES[int(m.group())]) for m in digits.finditer(text) if _single(text, m)]
    edits += [
        Edit(*m.span(), str(ONES.index(m.group().lower())))
        for m in spelt.finditer(text)
        if _single(text, m) and not note.opens(m.start())
    ]
    edits = [
        edit._replace(text=like(edit.text, "X")) if edit.text[:1].isalpha() and note.opens(edit.start) else edit
        for edit in edits
    ]
    kept = without_overlaps(edit for edit in edits if not note.touches(edit.start, edit.end))
    return kept or "no number that could be written otherwise"


def _single(text: str, match: re.Match[str]) -> bool:
    """Whether a number is no part of a range, a list or a factor."""
    before = text[max(0, match.start() - 12) : match.start()]
    return not _LISTED.search(before) and not _RANGE.search(before)
