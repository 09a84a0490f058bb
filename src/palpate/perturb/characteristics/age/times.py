"""Times in a note that set a limit to the patient's age: durations, years, and the date of birth.

"A 30-year history of neck pain" does not fit a patient of 25, nor does "quit smoking in 1985" if the note is of 2010.
The year of a note is the latest one in it. A date of birth is moved with the age if it agrees with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from palpate.perturb.characteristics.age.life import AgeLimit
from palpate.perturb.characteristics.grammar import ONES, TENS
from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import belongs_to_patient

_VALUES = {**{word: n for n, word in enumerate(ONES)}, **{word: 10 * n for n, word in enumerate(TENS, 2)}}
_NUMBER = rf"(?P<number>\d{{1,2}}|(?:{'|'.join(TENS)})(?:[\s-](?:{'|'.join(ONES[1:10])}))?|{'|'.join(ONES[:9:-1])})"
_BEFORE_YEARS = re.compile(
    rf"(?P<lead>\b(?:for|x|over|past|last|previous|about|approximately|approx|nearly|almost|around|than|roughly|some|of|"
    rf"~|least|within|after|married|widowed|divorced|sober|smoked|smoker)?)[\s~]*(?<![\d./-]){_NUMBER}(?:\s?\+|\s?plus|\s+or\s+so)?[\s-]*$",
    re.IGNORECASE,
)
_AFTER_YEARS = re.compile(
    r"[\s-]*(?P<ago>ago|earlier|prior|back|previously|before|(?:after|since|following)(?=\s+(?:an?|the|his|her|their|\w+(?:ectomy|plasty|tomy|ation|ment|ery|ing|lant|sion))\b))\b|[\s-]*(?P<span>history|hx|h/o|smok\w+|tobacco|marriage|duration|"
    r"of\s+(?!age\b|life\b|follow|treatment\s+(?:is|will)|therapy\s+(?:is|will))[a-z]+)\b|\s+(?P<state>sober|married|post|status[\s-]post|s/p|out)\b",
    re.IGNORECASE,
)
_NO_DURATION = re.compile(
    r"[\s-]*(?:old|/?\s?o\b|of\s+age|risk|survival|follow|from\s+now|later|time|check|plan|mortality|recurrence|y\b)",
    re.IGNORECASE,
)
_AGE_OF = re.compile(r"\bage\s+(?:of\s+)?$", re.IGNORECASE)
""" "Her stated age of 32 years" is no duration."""
_SHORT_YEARS = re.compile(r"\b(?:for|x|past|last|over)\s*~?\d{1,2}\s?\+?\s?$", re.IGNORECASE)
"""The x of "1 ppd x 25y": a bare "y" may also be an age."""
_DECADES = re.compile(r"\b(?P<number>[2-7]|two|three|four|five|six|seven)[\s-]+$", re.IGNORECASE)
_DECADES_PAST = re.compile(r"[\s-]+(?:of\s+(?!life\b)|ago\b|long\b|history\b|hx\b)", re.IGNORECASE)
_FOR_DECADES = re.compile(
    r"\b(?:for|past|last|over)\s+(?:(?:the|past|last|more|than|about|over|nearly|almost)\s+)*", re.IGNORECASE
)
_PACK_YEARS = re.compile(
    r"(?<![\d./-])(?P<packs>\d{1,3})\+?[\s-]*(?:packs?|pks?|p)\.?[\s-]*(?:(?:per|an?)[\s-]*)?$", re.IGNORECASE
)
GROWN = re.compile(
    r"\b(?:smok\w+|tobacco|cigar\w*|packs?|ppd|drink\w*|drank|alcohol\w*|etoh|beers?|married|marriage|husband|wife|"
    r"widow\w*|divorc\w+|work\w*|employ\w+|career|sober|heroin|cocaine|methadone|drugs?|teach\w+|served?|military|"
    r"army|navy|graduat\w+|college|degree|hysterectomy|prostat\w+|vasectomy|CABG|stents?|infarction|MI|bypass|"
    r"sexual\w*|intercourse|penis|penile|syphilis|gonorrh\w+|chlamydia|\w*laminectom\w+|discectom\w+|fusions?|arthroplasty|replacements?|job|kyphoplasty)\b",
    re.IGNORECASE,
)
"""What an adult does."""
_WEDDED = re.compile(r"\b(?:married|marriage|wedding|husband|wife|widow\w*|divorc\w+)\b", re.IGNORECASE)
_BIRTHS = re.compile(
    r"\b(?:childbirth|C-?section|cesarean|delivered|delivery|gave\s+birth|pregnan\w+|miscarr\w+)\b", re.IGNORECASE
)
_MENOPAUSE = re.compile(r"\b(?:menstrual|menses|LMP|menopaus\w*|period)\b", re.IGNORECASE)
_FROM_BIRTH = re.compile(
    r"\b(?:congenital|birth|born|lifelong|childhood|infan\w+|since\s+(?:he|she)\s+was)\b", re.IGNORECASE
)
_SMOKED = re.compile(r"\b(?:smok\w+|tobacco|cigar\w*|packs?|ppd)\b", re.IGNORECASE)
_MAY_BE_YEAR = re.compile(r"\d(?<!\d\d)(?:(?<=1)9\d\d|(?<=2)[01]\d\d|(?<=[/'’]\d)\d)(?!\d)")
"""1985, 2012, and the 93 of 7/4/93 and of '93. The digit comes first, because a search for one is fast."""
_YEAR_LEAD = re.compile(
    r"(?:\b(?:in|since|until|till|from|during|circa|before|after|of|early|late|mid|and|quit|to|approximately|"
    r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?)\s*(?:the\s+)?|,\s*|\(|(?<!\d)\d{1,2}[/-]|\[\*\*)$",
    re.IGNORECASE,
)
_DECADE_OF_YEARS = re.compile(r"['’]?s\b")
_PART_BEFORE = re.compile(r"\b(?P<part>early|mid|late)[\s-]+$", re.IGNORECASE)
_PARTS = {"early": 3, "mid": 6, "late": 9}
"""Which year of a decade is meant at the latest."""
_YEARS_NEXT = re.compile(r"\s?[-–]\s?(?:19|20)\d\d(?![\d-])")
_YEARS_LEAD = re.compile(r"(?<![\d-])(?:19|20)\d\d\s?[-–]\s?$")
_NO_YEAR = re.compile(r"\.\d|%|-?\s?(?:mg|ml|mcg|units?|cc|k?cal|g\b|hours?|hrs?|calor|iu\b|steps|feet)", re.IGNORECASE)
_SHORT_LEAD = re.compile(r"(?<![\d./-])(?:(?:0?[1-9]|1[0-2])/[0-3]?\d/|\b(?:in|of|on|by)\s(?:0?[1-9]|1[0-2])/)$")
_QUIT_LEAD = re.compile(r"\bquit\s+(?:in\s+)?['’]$", re.IGNORECASE)
_MONTH = re.compile(
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s*(?:\d{1,2}(?:st|nd|rd|th)?)?,?\s*$|\d[/-]$|\[\*\*$",
    re.IGNORECASE,
)
_SINCE_AGE = re.compile(r"[\s,]+(?:ever\s+)?since\s+(?:the\s+)?age\s+(?:of\s+)?(?P<age>\d\d)\b", re.IGNORECASE)
""" "For ten years since the age of 33": the two together tell the age."""
_PACKS = re.compile(r"(?<![\d./-])(?P<packs>\d{1,3})\+?[\s-]*$")
_QUIT_AGO = re.compile(r"[\w\s,;(-]{0,20}?\bquit\s+~?(?P<years>\d{1,2})\s?(?:y|yrs?|years?)\b", re.IGNORECASE)
""" "40py (quit 8y)"."""
_WED = re.compile(r"\b(?:late\s+)?(?:wife|husband|spouse|partner)\s+of\s+$", re.IGNORECASE)
""" "Lost his wife of 32 years": the years are the patient's too."""
_OVER = re.compile(
    r"\b(?:RFs?|risk\s+factors?)\b[^.;\n]{0,40}(?:>=?|≥|over\s)\s?(?P<age>[3-8]\d)(?=\s*(?:[,;.\n]|yo\b|years|$))"
)
"""An age among risk factors: "RFs: F, >50"."""
_OF_CHILDREN = re.compile(
    r"\b(?:congenital|birth|born|child\w*|infan\w+|juvenile|tonsil\w*|adenoid\w*|T\s?&\s?A|append\w+|tubes?|tympano\w+|hernia\w*|fractur\w*|"
    r"injur\w*|accident|MVA|burn\w*|asthma|seizure\w*|epilep\w+|type\s+(?:1|I|one)\b|vaccin\w*|immuni[sz]\w+|measles|rheumatic|murmur|polio\w*|"
    r"moved|\w*migrat\w+|came|school|cleft|scoliosis|strabismus|shunt|fell|gunshot|stab\w*|bitten)\b",
    re.IGNORECASE,
)
"""What happens to children too, so that it may be long past in the note of somebody young."""
_LONG_PAST, _GROWING_UP = 10, 14
_WIDOWED = re.compile(r"\bwidow\w*", re.IGNORECASE)
_WED_AT, _GROWN_AT, _WIDOWED_AT = 17, 12, 24
_FIRST_PACK = 15
"""Who has smoked N pack-years has hardly smoked more than two packs a day, from this age on."""
_MASKED = 90
_FIRST_DIGITAL = 2010
"""A note without a date is read as if it were of this year or later."""
_BORN = re.compile(
    r"(?:\s*(?:date)?\s*[:=]?\s*|\s+(?:on|in)\s+(?:the\s+year\s+)?)\(?(?:\[\*\*)?"
    r"(?:\d{1,2}[/-]\d{1,2}[/-](?P<short>\d\d)(?!\d)|(?:\d{1,2}[/-]\d{1,2}[/-]|(?:[a-z]{3,9}\.?\s+)?(?:\d{1,2}(?:st|nd|rd|th)?,?\s+)?"
    r"(?:of\s+)?)(?P<year>(?:1[89]|2[01])\d\d)\b)",
    re.IGNORECASE,
)
_DATE_OF = re.compile(r"\bdate\s+of\s+$", re.IGNORECASE)


class ToldYear(NamedTuple):
    """A year in a note; `dated` if a month comes with it, as in the date of the note."""

    start: int
    end: int
    year: int
    dated: bool


@dataclass(frozen=True)
class BirthYear:
    """The year of a date of birth, and its place in the note."""

    start: int
    end: int
    year: int
    age: int = 0
    """The age that it tells."""

    def at_age(self, years: int) -> str:
        """The year that tells another age, as it is written here."""
        width = self.end - self.start
        return f"{(self.year - years + self.age) % 10**width:0{width}d}"


def time_words() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "years": ("year", "years", "yr", "yrs", "y", "py", "pyh"),
        "decades": ("decade", "decades"),
        "born": ("dob", "birth", "birthdate", "born"),
    }


def time_limits(note: ScannedNote, present: int | None) -> list[AgeLimit]:
    """The limits that durations and years set to the patient's age; `present` is the age that the note gives."""
    told = "RF" in note.text or "risk factor" in note.text
    over = (AgeLimit("an age limit", int(match["age"])) for match in (_OVER.finditer(note.text) if told else ()))
    found = [*_durations(note), *_decades(note), *_years(note), *over]
    return [limit for limit in found if present is None or limit.low <= present <= limit.high]


def birth_years(note: ScannedNote, present: int | None) -> list[BirthYear]:
    """The patient's years of birth that agree with the age in the note."""
    births = _births(note)
    if not births or present is None:
        return []
    ends = {birth.end for birth in births}
    dates = {told.year for told in told_years(note.text) if told.dated and told.end not in ends}
    if not dates:
        return [replace(birth, age=present) for birth in births]
    found = ((birth, _told_age({year - birth.year for year in dates}, present)) for birth in births)
    return [replace(birth, age=age) for birth, age in found if age is not None]


def _told_age(passed: set[int], present: int) -> int | None:
    """The age that a birth so many years before the dates of a note tells; None if it is not the one in the note.

    Ages over 90 are masked, and read as 90.
    """
    if any(abs(years - present) <= 1 for years in passed):
        return present
    return max(passed) if present == _MASKED and max(passed) > _MASKED else None


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
    """Years that the patient has lived through: "for 30 years", "30 years ago", "a 30-year history"."""
    text = note.text
    smoked: dict[int, int] = {}
    for hit in note.hits("years"):
        first, last = note.sentence(hit.start)
        packs = (_PACKS if hit.word in ("py", "pyh") else _PACK_YEARS).search(
            text, max(first, hit.start - 16), hit.start
        )
        if packs:
            if belongs_to_patient(note, packs.start(), hit.end):
                quit_ago = _QUIT_AGO.match(text, hit.end, last)
                low = int(packs.group("packs")) // 2 + _FIRST_PACK
                yield AgeLimit("a duration", low)
                if quit_ago:
                    yield AgeLimit("a duration", low + int(quit_ago["years"]))
            continue
        number = _BEFORE_YEARS.search(text, max(first, hit.start - 40), hit.start)
        after = _AFTER_YEARS.match(text, hit.end, last)
        if number is None or _NO_DURATION.match(text, hit.end) or not (number.group("lead") or after):
            continue
        if _AGE_OF.search(text, max(first, hit.start - 24), number.start("number")):
            continue
        if hit.word == "y" and not _SHORT_YEARS.search(text, max(first, hit.start - 16), hit.start):
            continue
        wed = _WED.search(text, max(first, number.start() - 24), number.start("number"))
        if not wed and not belongs_to_patient(note, number.start("number"), hit.end):
            continue
        years, told = _value(number.group("number")), text[first:last]
        yield from _limits_of(years, told, ago=bool(after and after.group("ago")))
        since = _SINCE_AGE.match(text, hit.end, last)
        if since:
            then = years + int(since.group("age"))
            yield AgeLimit("a duration", then - 2, then + 2)
        if _SMOKED.search(told):
            smoked[first] = smoked.get(first, 0) + years
    for years in smoked.values():
        yield AgeLimit("a duration", years + 12)


def _years_before(told: str, *, childhood: int = 0) -> int:
    """How old a patient is at least when what a sentence tells of begins."""
    if _WEDDED.search(told):
        return _WIDOWED_AT if _WIDOWED.search(told) else _WED_AT
    return _GROWN_AT if GROWN.search(told) else childhood


def _decades(note: ScannedNote) -> Iterator[AgeLimit]:
    """Decades that the patient has lived through: "2 decades ago"; "for decades" are two or more."""
    text = note.text
    for hit in note.hits("decades"):
        first, last = note.sentence(hit.start)
        number = _DECADES.search(text, max(first, hit.start - 12), hit.start) if hit.word == "decades" else None
        start = number.start() if number else hit.start
        lead = any(m.end() == start for m in _FOR_DECADES.finditer(text, max(first, start - 40), start))
        past = _DECADES_PAST.match(text, hit.end, last)
        if not (lead or past) or not belongs_to_patient(note, start, hit.end):
            continue
        count = _value(number.group("number")) if number else 1 + (hit.word == "decades")
        yield from _limits_of(10 * count, text[first:last], ago=bool(past and "ago" in past.group().lower()))


def _limits_of(years: int, told: str, *, ago: bool) -> Iterator[AgeLimit]:
    """The ages that fit a duration, by what the sentence is about; at least, the patient has lived for as long."""
    yield AgeLimit("a duration", years)
    if _MENOPAUSE.search(told) and ago:
        yield AgeLimit("a duration", years + 38)
    elif GROWN.search(told):
        yield AgeLimit("a duration", years + _years_before(told))
    else:
        yield AgeLimit("a duration", years if _FROM_BIRTH.search(told) else years + 10 * (years > 9))
    if _BIRTHS.search(told) and ago:
        yield AgeLimit("a duration", years + 12, years + 55)


@lru_cache(maxsize=2)
def told_years(text: str) -> tuple[ToldYear, ...]:
    """The years in a text, which both limits and dates of birth ask for."""
    return tuple(_find_years(text))


def _find_years(text: str) -> Iterator[ToldYear]:
    """3/4/2012, 2012-03-04, March 2012, in 1985, 7/4/93."""
    for match in _MAY_BE_YEAR.finditer(text):
        start, end = match.span()
        if end - start == 4:
            iso = text[end : end + 1] == "-" and text[end + 1 : end + 2].isdigit()
            decade = _DECADE_OF_YEARS.match(text, end)
            if decade and match.group().endswith("0"):
                part = _PART_BEFORE.search(text, max(0, start - 7), start)
                year = int(match.group()) + (_PARTS[part["part"].lower()] if part else 9)
                yield ToldYear(start, end, year, dated=False)  # the late 1970s
            elif _YEARS_NEXT.match(text, end) or _YEARS_LEAD.search(text, max(0, start - 8), start):
                yield ToldYear(start, end, int(match.group()), dated=False)  # 1980-1984
            elif (iso or _YEAR_LEAD.search(text, max(0, start - 20), start)) and not _NO_YEAR.match(text, end):
                dated = iso or _MONTH.search(text, max(0, start - 20), start) is not None
                yield ToldYear(start, end, int(match.group()), dated)
        elif text[end : end + 1] not in ("/", "%"):
            dated = _SHORT_LEAD.search(text, max(0, start - 12), start) is not None
            if dated or _QUIT_LEAD.search(text, max(0, start - 12), start):
                short = int(match.group())
                yield ToldYear(start, end, short + (1900 if short >= 30 else 2000), dated)


def _years(note: ScannedNote) -> Iterator[AgeLimit]:
    """Years that the patient has lived through, by the year of the note."""
    found = told_years(note.text)
    if not found:
        return
    latest = max(told.year for told in found)
    latest = latest if any(told.dated for told in found) else max(latest, _FIRST_DIGITAL)
    births = {birth.end for birth in _births(note)}
    for told in found:
        passed = latest - told.year
        if passed < 5 or told.end in births or not belongs_to_patient(note, told.start, told.end):
            continue
        first, last = note.sentence(told.start)
        if note.text[first:last].count("\n") > 2:
            last = told.end
        yield AgeLimit("a year long past", passed)
        sentence = note.text[first:last]
        since = 5 if passed < _LONG_PAST or _OF_CHILDREN.search(sentence) else _GROWING_UP
        yield AgeLimit("a year long past", passed + _years_before(sentence, childhood=since))
