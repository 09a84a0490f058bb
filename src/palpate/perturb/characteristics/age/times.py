"""Times in a note that set a limit to the patient's age: durations, years, and the date of birth.

"A 30-year history of neck pain" does not fit a patient of 25, nor does "quit smoking in 1985" if the note is of 2010. The
year of a note is the latest one in it. A date of birth is moved with the age if it agrees with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.age.life import AgeLimit
from palpate.perturb.characteristics.grammar import ONES, TENS
from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import belongs_to_patient

_VALUES = {**{word: n for n, word in enumerate(ONES)}, **{word: 10 * n for n, word in enumerate(TENS, 2)}}
_NUMBER = (
    rf"(?P<number>\d{{1,2}}|(?:{'|'.join(TENS)})(?:[\s-](?:{'|'.join(ONES[1:10])}))?|{'|'.join(ONES[:9:-1])})"
)
_BEFORE_YEARS = re.compile(
    rf"(?P<lead>\b(?:for|x|over|past|last|previous|about|approximately|approx|nearly|almost|around|than|roughly|some|of|"
    rf"~|least|within|after)?)[\s~]*(?<![\d./-]){_NUMBER}(?:\s?\+|\s?plus|\s+or\s+so)?[\s-]*$",
    re.IGNORECASE,
)
_AFTER_YEARS = re.compile(
    r"[\s-]*(?P<ago>ago|earlier|prior|back)\b|[\s-]*(?P<span>history|hx|h/o|smok\w+|tobacco|marriage|duration|of\s+(?:pain|"
    r"smoking|marriage|tobacco|use|drinking|service|sobriety))\b|\s+(?P<state>sober|married|post)\b",
    re.IGNORECASE,
)
_NO_DURATION = re.compile(
    r"[\s-]*(?:old|of\s+age|risk|survival|follow|from\s+now|later|time|check|plan|mortality|recurrence|y\b)", re.IGNORECASE
)
_PACK_YEARS = re.compile(r"(?<![\d./-])(?P<packs>\d{1,3})\+?[\s-]*(?:packs?|pks?|p)\.?[\s-]*(?:per[\s-]*)?$", re.IGNORECASE)
_GROWN = re.compile(
    r"\b(?:smok\w+|tobacco|cigar\w*|packs?|ppd|drink\w*|drank|alcohol\w*|etoh|beers?|married|marriage|husband|wife|"
    r"widow\w*|divorc\w+|work\w*|employ\w+|career|sober|heroin|cocaine|methadone|drugs?|teach\w+|served?|military|"
    r"army|navy|graduat\w+|college|degree|hysterectomy|prostat\w+|vasectomy|CABG|stents?|infarction|MI|bypass)\b",
    re.IGNORECASE,
)
_BIRTHS = re.compile(r"\b(?:childbirth|C-?section|cesarean|delivered|delivery|gave\s+birth|pregnan\w+|miscarr\w+)\b", re.IGNORECASE)
_MENOPAUSE = re.compile(r"\b(?:menstrual|menses|LMP|menopaus\w*|period)\b", re.IGNORECASE)
_FROM_BIRTH = re.compile(r"\b(?:congenital|birth|born|lifelong|childhood|infan\w+|since\s+(?:he|she)\s+was)\b", re.IGNORECASE)
_SMOKED = re.compile(r"\b(?:smok\w+|tobacco|cigar\w*|packs?|ppd)\b", re.IGNORECASE)
_YEAR = re.compile(
    r"(?:(?P<date>(?<![\d.])\d{1,2}[/-](?:\d{1,2}[/-])?|\[\*\*)|\b(?:in|since|until|till|from|during|circa|before|after|of|early|"
    r"late|mid|and|quit|to|(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?|approximately)\s*(?:the\s+)?|"
    r",\s*|\(|(?=\d{4}-\d{1,2}-\d))"
    r"(?P<year>(?:19|2[01])\d\d)(?!\d|\.\d|%)(?!-?\s?(?:mg|ml|mcg|units?|cc|k?cal|g\b|hours?|hrs?|calor|iu\b|steps|feet))"
    r"|(?<![\d./-])(?:0?[1-9]|1[0-2])/(?:[0-3]?\d/|(?<=\b(?:in|of|on|by) [1-9]/)|(?<=\b(?:in|of|on|by) 1[0-2]/))(?P<short>[7-9]\d|[0-2]\d)"
    r"(?![\d/%])|\bquit\s+(?:in\s+)?['’](?P<quit>[5-9]\d)\b",
    re.IGNORECASE,
)
_MONTH = re.compile(r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s*(?:\d{1,2}(?:st|nd|rd|th)?)?,?\s*$", re.IGNORECASE)
_FIRST_DIGITAL = 2010
"""A note without a date is read as if it were of this year or later."""
_BORN = re.compile(
    r"(?:\s*(?:date)?\s*[:=]?\s*|\s+(?:on|in)\s+(?:the\s+year\s+)?)\(?(?:\[\*\*)?"
    r"(?:\d{1,2}[/-]\d{1,2}[/-](?P<short>\d\d)(?!\d)|(?:\d{1,2}[/-]\d{1,2}[/-]|(?:[a-z]{3,9}\.?\s+)?(?:\d{1,2}(?:st|nd|rd|th)?,?\s+)?"
    r"(?:of\s+)?)(?P<year>(?:1[89]|2[01])\d\d)\b)",
    re.IGNORECASE,
)
_DATE_OF = re.compile(r"\bdate\s+of\s+$", re.IGNORECASE)


@dataclass(frozen=True)
class BirthYear:
    """The year of a date of birth, and its place in the note."""

    start: int
    end: int
    year: int

    def moved(self, by: int) -> Edit:
        """The edit that makes the patient older by some years."""
        width = self.end - self.start
        return Edit(self.start, self.end, f"{(self.year - by) % 10**width:0{width}d}")


def time_words() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {"years": ("year", "years", "yr", "yrs"), "born": ("dob", "birth", "birthdate", "born")}


def time_limits(note: ScannedNote, present: int | None) -> list[AgeLimit]:
    """The limits that durations and years set to the patient's age; `present` is the age that the note gives."""
    found = [*_durations(note), *_years(note)]
    return [limit for limit in found if present is None or limit.low <= present <= limit.high]


def birth_years(note: ScannedNote, present: int | None) -> list[BirthYear]:
    """The patient's years of birth that agree with the age in the note."""
    births = _births(note)
    if not births or present is None:
        return []
    ends = {birth.end for birth in births}
    dates = (match for match in _YEAR.finditer(note.text) if _is_date(match) and match.end() not in ends)
    latest = max(map(_full_year, dates), default=None)
    return [birth for birth in births if latest is None or abs(latest - birth.year - present) <= 1]


def _births(note: ScannedNote) -> list[BirthYear]:
    found = []
    for hit in note.hits("born"):
        if hit.word == "birth" and not _DATE_OF.search(note.text, max(0, hit.start - 8), hit.start):
            continue
        match = _BORN.match(note.text, hit.end, min(len(note.text), hit.end + 48))
        if match is None or not belongs_to_patient(note, hit.start, hit.end):
            continue
        short = match.group("short")
        year = int(short) + (2000 if int(short) < 26 else 1900) if short else int(match.group("year"))
        found.append(BirthYear(*match.span("short" if short else "year"), year))
    return found


def _value(number: str) -> int:
    return int(number) if number.isdigit() else sum(_VALUES[word] for word in re.findall(r"[a-z]+", number.lower()))


def _durations(note: ScannedNote) -> Iterator[AgeLimit]:
    """Years that the patient has lived through: "for 30 years", "30 years ago", "a 30-year history", "40 pack-years"."""
    text = note.text
    smoked: dict[int, int] = {}
    for hit in note.hits("years"):
        first, last = note.sentence(hit.start)
        packs = _PACK_YEARS.search(text, max(first, hit.start - 16), hit.start)
        if packs:
            if belongs_to_patient(note, packs.start(), hit.end):
                yield AgeLimit("a duration", int(packs.group("packs")) // 2 + 12)
            continue
        number = _BEFORE_YEARS.search(text, max(first, hit.start - 40), hit.start)
        after = _AFTER_YEARS.match(text, hit.end, last)
        if number is None or _NO_DURATION.match(text, hit.end) or not (number.group("lead") or after):
            continue
        if not belongs_to_patient(note, number.start("number"), hit.end):
            continue
        years, told = _value(number.group("number")), text[first:last]
        yield from _limits_of(years, told, ago=bool(after and after.group("ago")))
        if _SMOKED.search(told):
            smoked[first] = smoked.get(first, 0) + years
    for years in smoked.values():
        yield AgeLimit("a duration", years + 12)


def _limits_of(years: int, told: str, *, ago: bool) -> Iterator[AgeLimit]:
    """The ages that fit a duration, by what the sentence is about."""
    if _MENOPAUSE.search(told) and ago:
        yield AgeLimit("a duration", years + 38)
    elif _GROWN.search(told):
        yield AgeLimit("a duration", years + 12)
    else:
        yield AgeLimit("a duration", years if _FROM_BIRTH.search(told) else years + 5 * (years > 9))
    if _BIRTHS.search(told) and ago:
        yield AgeLimit("a duration", years + 12, years + 55)


def _is_date(match: re.Match[str]) -> bool:
    """Whether a year is part of a date with a month: 3/4/2012, 2012-03-04, March 2012, and not "in 1985"."""
    if match.group("year") is None or match.group("date"):
        return match.group("quit") is None
    year = match.start("year")
    iso = match.string[year + 4 : year + 5] == "-"
    return iso or _MONTH.search(match.string, max(0, year - 20), year) is not None


def _full_year(match: re.Match[str]) -> int:
    short = match.group("short") or match.group("quit")
    if short:
        return int(short) + (1900 if int(short) >= 30 else 2000)
    return int(match.group("year"))


def _years(note: ScannedNote) -> Iterator[AgeLimit]:
    """Years that the patient has lived through, by the year of the note."""
    found = [(match, _full_year(match)) for match in _YEAR.finditer(note.text)]
    if not found:
        return
    dated = any(_is_date(match) for match, _ in found)
    latest = max(year for _, year in found)
    latest = latest if dated else max(latest, _FIRST_DIGITAL)
    births = {birth.end for birth in _births(note)}
    for match, year in found:
        passed = latest - year
        if passed < 5 or match.end() in births or not belongs_to_patient(note, match.start(), match.end()):
            continue
        first, last = note.sentence(match.start())
        if note.text[first:last].count("\n") > 2:
            last = match.end()
        yield AgeLimit("a year long past", passed + (12 if _GROWN.search(note.text, first, last) else 0))
