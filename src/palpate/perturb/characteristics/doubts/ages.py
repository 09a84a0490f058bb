"""Ages: words that only some ages allow, whoever's they are, and numbers that may be the age and were not changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from palpate.cases.edits import Edit
from palpate.files import read_resource
from palpate.perturb.characteristics.age.stages import stage_limits, stage_words
from palpate.perturb.characteristics.age.times import GROWN, told_years
from palpate.perturb.characteristics.doubts.relatives import (
    AGE_AFTER,
    SIBLINGS,
    SPOUSES,
    UNIT_AFTER,
    limits_of_kin,
    limits_of_onset,
    limits_of_quitting,
    own_child,
    past_decades,
)
from palpate.perturb.characteristics.reading import Hit, ScannedNote, lazy
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import CHILDREN

_YOUNGEST, _OLDEST = 18, 200
_THESE_DAYS = 2024
_CHILD = 16
"""Younger patients' notes are a child's in more ways than can be told."""
_BEFORE, _NEARLY = 120, 3
"""How far before a past age its year may be, and how exact the two are together."""
_YEARS_BEFORE_HABIT = 14
_YEARS_BEFORE_ILLNESS, _YEARS_BEFORE_EVENT = 8, 4
""" "Broke his ankle 20 years ago": that may have been in childhood."""
_NUMBER = re.compile(r"\d\d(?<!\w\d\d)(?!\d)")
"""A number of two digits; what it starts with is looked for first, so that other letters are passed over at once."""
_YEARS_LONG = re.compile(
    r"\+?[\s-]*(?P<pack>p(?:ac)?k?[\s/-]*(?:(?:per|an?)[\s-]+)?)?(?:yrs?|years?|y)\b(?![\s-]*(?:old|o\b|of\s+age)|/?o)|(?P<py>[\s-]?py\b)",
    re.IGNORECASE,
)
_AGO = re.compile(r"\b(?:in|over|within|next|every|for\s+the\s+next|q)\s+~?$", re.IGNORECASE)
_YEARS_AFTER = re.compile(r"[\s-]?(?:y|yrs?|years?)[\s-]+(?!ago|history|hx|later|prior)[a-z]", re.IGNORECASE)
""" "17 year olld", in a note without another age."""
_AGE_BEFORE = re.compile(
    r"(?:\b(?:age|aged|ages|turned|turns|turning)\s*[:=]?\s*(?:of\s+)?|\b(?:is|now)\s+)$", re.IGNORECASE
)
_OLD = re.compile(r"[\s-]*old\b", re.IGNORECASE)
_DIGIT_BEFORE = re.compile(r"(?P<years>\d{1,3})[\s-]?$")
_PART = re.compile(r"\d[\s./-]$|/$")
"""What makes a number the end of a larger one, and no child's age: "54-1/2-year-old", "6 2 year old"."""
_PAST = re.compile(
    r"(?:(?:\bat|@|\bage|\baged|\buntil|\btill|\bsince)\s*(?:age\s*)?|\bages?\s*\d\d\s*(?:to|-|–|until|till|through)\s*(?:age\s*)?)$",
    re.IGNORECASE,
)
_WAS = re.compile(
    r"\b(?:he|she|they|pt|patient)\s+(?:was|were|turned)\s+(?:then\s+|about\s+|approximately\s+|around\s+|only\s+|just\s+)?$",
    re.IGNORECASE,
)
_WAS_ENDS = ("was", "were", "turned", "then", "about", "approximately", "around", "only", "just")
_WAS_NEXT = re.compile(r"\s*(?:[.,;)]|$|(?:at|when|and|years?|y/?o|then|in)\b)", re.IGNORECASE)
""" "When she was 59.", "he was 41 at the time"."""
_YEARS_AGO = re.compile(
    r"(?<![\d.])(?P<years>\d{1,2})\s+(?:years?|yrs?)\s+(?:ago|later|earlier|prior)\b", re.IGNORECASE
)
_PAST_ENDS = ("at", "@", "age", "aged", "to", "-", "–", "until", "till", "through", "since")
"""How all that the pattern matches ends: a look at the word tells that nearly all numbers are no past age."""
_MEASURED = re.compile(
    r"\b(?:sats?|satting|o2|spo2|hr|rate|ef|bp|temp|bmi|a1c|wt|weight|level|stable|set|running|dilated|pulse|rr|score|gtt|drip|dose|mg|units|"
    r"looked|pain|volume|flow|peep|fio2|hgb|hct|plts?|inr|glucose|sugars?|cr|measur\w+|peaked|discharge\w*|elevated|decreased|increased|normal|low|high|remain\w*|ast|alt|albumin|sodium|potassium|bun|"
    r"creatinine|h(?:a)?emoglobin|hematocrit|bilirubin|platelets?|pressure|saturat\w+)\b[^.;]{0,14}$",
    re.IGNORECASE,
)
_AGO_NEXT = re.compile(r"\s+(?:ago|back|earlier|prior)\b", re.IGNORECASE)
_WHEN_YOUNG = re.compile(r"\b(?:was|were|since|when|until|till|at|from|by|between)\b[^.;]{0,16}$", re.IGNORECASE)
_NAMES = frozenset(["young", "cook", "carpenter", "walker", "marine", "miner"])
"""Words that are last names as well."""
_NAMED = re.compile(r"\b(?:Mr|Mrs|Ms|Miss|Dr)\.?\s+(?:[A-Z][\w'’-]*\s+)?$", re.IGNORECASE)
_NAME_IS = re.compile(r",?\s+(?:is|was)\s+an?\s+(?:[\w-]+\s+){0,3}\d\d", re.IGNORECASE)
_FIRST_NAME = re.compile(r"\b[A-Z][a-z]+\s+$")
_DECADE_LONG = 13
_DECADE = re.compile(r"['’]?s\b")
_IN_HIS = re.compile(r"\bin\s+(?:(?:his|her|their)\s+)?(?:early|mid|late)?[\s-]*$", re.IGNORECASE)
_BIRTH = re.compile(r"(?:\s+(?:of\s+birth|in|on))?[\s:.)-]*(?:\[\*\*)?(?:[A-Z][a-z]+\s+)?\d[\d/., -]*", re.IGNORECASE)
_GRAVIDA = re.compile(r"[Gg](?<!\w[Gg])\s?\d{1,2}\s?,?\s?[Pp]\s?\d")
_GIVES = re.compile(r"\bg(?:ave|ives|iving|iven)\s+$", re.IGNORECASE)
_YEARS_PASSED = re.compile(
    r"\s*(?:y|yrs?|years?|mos?|months?|w|wks?|weeks?|days?|d|hrs?|min\w*)\b|\s*[./+]?\d*\s*(?:kg|g|lbs?|weeks|wks?)\b"
)
""" "Born 12 years ago", "born at 39 weeks"."""
_WEEKS = re.compile(
    r"(?<![\d/.])(?:[1-3]\d|4[0-2])\s?(?:\+\s?[0-6](?!\d)|w(?:ee)?k?s?\s?(?:[0-6]\s?d\b|GA\b|IUP\b|gest))",
    re.IGNORECASE,
)
_PREGNANT = (14, 53)
_TELLS = re.compile(r"\b(?:says?|states?|reports?|tells)\b(?:\s+that)?\s+(?:he|she|they|pt|patient)\b", re.IGNORECASE)


class AgeWord(NamedTuple):
    """A row of crude.yaml: what must be around its words, and the ages that they allow."""

    low: int
    high: int
    kin: tuple[int, int] | None
    before: re.Pattern[str] | None
    after: re.Pattern[str] | None
    not_before: re.Pattern[str] | None
    not_after: re.Pattern[str] | None
    not_near: re.Pattern[str] | None
    either: bool

    def allows(self, note: ScannedNote, hit: Hit) -> tuple[int, int] | None:
        """The ages that the word allows here; None if it says nothing."""
        text, (first, last) = note.text, note.sentence(hit.start)
        low, high = max(first, hit.start - 48), min(last, hit.end + 48)
        is_before = self.before is not None and self.before.search(text, low, hit.start) is not None
        is_after = self.after is not None and self.after.match(text, hit.end, high) is not None
        if (self.before or self.after) and not (is_before or is_after):
            return None
        if self.before and self.after and not self.either and not (is_before and is_after):
            return None
        if self.not_before and self.not_before.search(text, low, hit.start):
            return None
        if self.not_after and self.not_after.match(text, hit.end, high):
            return None
        if self.not_near and (note.in_family(hit.start) or self.not_near.search(text, max(first, low), high)):
            return None
        if self.kin and any(first <= one.start < last for one in note.hits("kin_age") if one.word in CHILDREN):
            return self.kin
        return self.low, self.high


@cache
def _rows() -> dict[str, tuple[AgeWord, ...]]:
    found: dict[str, list[AgeWord]] = {}
    for row in read_resource("palpate.perturb.characteristics.doubts", "crude.yaml")["ages"]:
        keys = ("before", "after", "not_before", "not_after", "not_near")
        patterns = {key: re.compile(row[key], re.IGNORECASE) if key in row else None for key in keys}
        kin = (row["kin"][0], row["kin"][1]) if "kin" in row else None
        one = AgeWord(row["ages"][0], row["ages"][1], kin, either="either" in row, **patterns)
        for word in row["words"].lower().split():
            found.setdefault(word, []).append(one)
    return {word: tuple(rows) for word, rows in found.items()}


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "sure:age": tuple(_rows()),
        "sure:kin_age": (*SIBLINGS, *SPOUSES),
        "sure:child": ("dtr", "dtrs"),
        "sure:birth": ("dob", "born", "birth", "birthdate"),
        **stage_words(),
    }


class AgeDoubts:
    """The ages of which the second reader is sure in a note; `edits` are those of any age."""

    def __init__(self, patient: DescribedPatient, edits: Sequence[Edit]) -> None:
        self._patient, self._note = patient, patient.note
        own = [(age.start, age.end) for age in patient.own_ages]
        self._spans = [*own, *((edit.start, edit.end) for edit in edits)]

    def against(self, group: str) -> str | None:
        """A word that does not allow an age."""
        years = 90 if group == "90+" else int(group)
        if self._bounds[0] <= years <= self._bounds[1]:
            return None
        return next((f"'{word}' at this age" for word, low, high in self._limits if not low <= years <= high), None)

    @lazy
    def _told(self) -> set[int]:
        return {age.value for age in self._patient.own_ages if age.value is not None and age.style != "decade"}

    @lazy
    def _limits(self) -> list[tuple[str, int, int]]:
        """The words, and the lowest and highest age that they allow."""
        rows, note = _rows(), self._note
        found = []
        for hit in note.hits("sure:age"):
            if hit.word in _NAMES and _is_name(note.text, hit):
                continue
            for row in rows[hit.word]:
                allowed = row.allows(note, hit)
                if allowed:
                    found.append((hit.word, *allowed))
        own = (("a past age", years, _OLDEST) for start, years in self._past_decades.items())
        kin = (*limits_of_kin(note, self._told), *limits_of_onset(note), *limits_of_quitting(note))
        stages = stage_limits(note, min(self._told)) if self._told else ()
        limits = [*found, *self._long_ago(), *kin, *self._of_weeks(), *self._of_years(), *own, *stages]
        # What the age that the note tells does not allow either says nothing.
        return [one for one in limits if all(one[1] <= years <= one[2] for years in self._told)]

    @lazy
    def _past_decades(self) -> dict[int, int]:
        """The decades of the patient's life that are past, by their place."""
        found = past_decades(self._note, self._told) if self._told else ()
        return {start: years for start, years in found if not self._is_of_others(start)}

    @lazy
    def _bounds(self) -> tuple[int, int]:
        """The ages that all words allow."""
        lows, highs = [low for _, low, _ in self._limits], [high for *_, high in self._limits]
        return max(lows, default=0), min(highs, default=_OLDEST)

    @lazy
    def left(self) -> str | None:
        """What may be the age, and would stay."""
        if self._told and min(self._told) < _CHILD:
            return "a child's note"
        text = self._note.text
        if any(self._is_unmoved(hit) for hit in self._note.hits("sure:birth")):
            return "a date of birth would stay"
        if any(self._is_unread(hit) for hit in self._note.hits("year")):
            return "an age that was not read"
        for match in self._numbers:
            start, end = match.span()
            if text[start - 1 : start] in ("/", ".", "-", ":", "#", "$"):
                continue
            if self._may_be_age(int(match.group()), start, end) and not self._is_of_others(start):
                return "a number that may be the age"
        return None

    def _is_unread(self, hit: Hit) -> bool:
        """Whether an age with its unit was not changed: "14-1/2-year-old"."""
        told = _OLD.match(self._note.text, hit.end) if hit.word not in ("yo",) else True
        number = _DIGIT_BEFORE.search(self._note.text, max(0, hit.start - 4), hit.start)
        if not told or number is None:
            return False
        part = _PART.search(self._note.text, max(0, number.start("years") - 3), number.start("years"))
        if part is None and self._is_childs(int(number["years"])):
            return False
        if own_child(self._note, hit) is not None or _WHEN_YOUNG.search(
            self._note.text, max(0, hit.start - 32), hit.start
        ):
            return False
        near = any(-6 <= start - hit.start <= 0 or hit.start - 6 <= end <= hit.start for start, end in self._spans)
        return not near and not self._is_of_others(hit.start)

    def _is_childs(self, years: int) -> bool:
        """Whether an age is too low for this adult: "menses: onset: 12 years old", "now a 6-year-old"."""
        return bool(self._told) and years < _CHILD and min(self._told) >= _YOUNGEST

    def _is_unmoved(self, hit: Hit) -> bool:
        """Whether a date of birth is not moved with the age; "gave birth in 2008" is none."""
        end = hit.end
        if _GIVES.search(self._note.text, max(0, hit.start - 8), hit.start) or self._is_birth_of_child(hit):
            return False
        date = _BIRTH.match(self._note.text, end)
        if date and _YEARS_PASSED.match(self._note.text, date.end()):
            return False
        return date is not None and not any(end <= start <= date.end() for start, _ in self._spans)

    def _is_birth_of_child(self, hit: Hit) -> bool:
        """Whether a child of the patient was born then: "one son, born on 3/4/2008"."""
        first, _ = self._note.sentence(hit.start)
        return any(
            first <= one.start and 0 <= hit.start - one.end <= 3
            for one in self._note.hits("kin_age")
            if one.word in CHILDREN
        )

    def _may_be_age(self, value: int, start: int, end: int) -> bool:
        text = self._note.text
        if value % 10 == 0 and _DECADE.match(text, end):
            past = any(end <= place <= end + 1 for place in self._past_decades)
            # A man of 44 is not "in his 70s", nor "in the 20s": that is somebody else, or long ago.
            own = not self._told or any(value <= told + 1 <= value + _DECADE_LONG for told in self._told)
            return own and not past and _IN_HIS.search(text, max(0, start - 24), start) is not None
        near = any(abs(value - told) <= 1 for told in self._told)
        if UNIT_AFTER.match(text, end):
            return False
        if not self._told and _YEARS_AFTER.match(text, end):
            return True
        if AGE_AFTER.match(text, end):
            return near or not self._told
        return near and _AGE_BEFORE.search(text, max(0, start - 16), start) is not None

    def _is_of_others(self, start: int) -> bool:
        """Whether another person is in the sentence, unless it only tells: "wife says he was in the navy till 1989"."""
        first, last = self._note.sentence(start)
        near = [hit for hit in self._note.hits("people") if first <= hit.start < last]
        return bool(near) and not (near[-1].end <= start and _TELLS.search(self._note.text, near[-1].end, start))

    @lazy
    def _numbers(self) -> list[re.Match[str]]:
        """The numbers of two digits that are not changed."""
        changed = {start for start, _ in self._spans}
        return [match for match in _NUMBER.finditer(self._note.text) if match.start() not in changed]

    def _long_ago(self) -> Iterator[tuple[str, int, int]]:
        """Durations and past ages: a roofer for 30 years, an operation at 45."""
        for match in self._numbers:
            if match.group() < "08":
                continue
            years = self._duration(match)
            if years:
                yield "years", years + self._years_before(match), _OLDEST
            if "18" <= match.group() < "90" and self._is_past(*match.span()):
                yield "a past age", int(match.group()), _OLDEST
                yield from self._since(match)

    def _since(self, match: re.Match[str]) -> Iterator[tuple[str, int, int]]:
        """A past age and its year tell the present age: "in 1980, when she was 59", if the note's own age agrees."""
        text, years = self._note.text, told_years(self._note.text)
        first, last = self._note.sentence(match.start())
        now = max((year.year for year in years if year.dated), default=0)
        passed = {now - year.year for year in years if now and max(0, first - _BEFORE) <= year.start < last}
        passed |= {int(ago["years"]) for ago in _YEARS_AGO.finditer(text, first, last)}
        for age in (int(match.group()) + one for one in passed if one > 1):
            if any(abs(age - told) <= 1 for told in self._told):
                yield "a past age", age - _NEARLY, age + _NEARLY

    def _duration(self, match: re.Match[str]) -> int:
        """How many years a habit takes at least; 0 if the number is none."""
        text, start = self._note.text, match.start()
        long = _YEARS_LONG.match(text, match.end())
        if long is None or text[start - 1 : start] in ("/", ".", "-") or self._is_of_others(start):
            return 0
        packs = long.group("pack") or long.group("py")
        ago = _AGO.search(text, max(0, start - 16), start)
        return 0 if ago else -(-int(match.group()) * 2 // 3) if packs else int(match.group())

    def _years_before(self, match: re.Match[str]) -> int:
        """How old a patient was at least, so many years ago: a habit or a trade needs an adult."""
        text, (first, last) = self._note.text, self._note.sentence(match.start())
        long = _YEARS_LONG.match(text, match.end())
        ago = long and _AGO_NEXT.match(text, long.end())
        return _YEARS_BEFORE_EVENT if ago and not GROWN.search(text, first, last) else _YEARS_BEFORE_HABIT

    def _is_past(self, start: int, end: int) -> bool:
        """Whether a number may be an age in the past: "BSO at 45"."""
        text = self._note.text
        before = text[max(0, start - 18) : start].rstrip().lower()
        if before.endswith(_WAS_ENDS) and _WAS.search(text, max(0, start - 40), start):
            return _WAS_NEXT.match(text, end) is not None and not self._is_of_others(start)
        if not before.endswith(_PAST_ENDS):
            return False
        lead = _PAST.search(text, max(0, start - 18), start)
        if lead is None or UNIT_AFTER.match(text, end):
            return False
        return not _MEASURED.search(text, max(0, lead.start() - 24), lead.start()) and not self._is_of_others(start)

    def _of_years(self) -> Iterator[tuple[str, int, int]]:
        """Years of an adult ("laminectomies in 1990"), and what is long ago if an undated note is of these days."""
        years = told_years(self._note.text)
        dated = any(year.dated for year in years)
        now = max((year.year for year in years), default=0) if dated else _THESE_DAYS
        found = []
        for year in years:
            if now - year.year + _CHILD <= _YOUNGEST:
                continue
            first, last = self._note.sentence(year.start)
            grown = GROWN.search(self._note.text, first, last)
            if (grown or not dated) and not self._is_of_others(year.start):
                found.append(now - year.year + (_CHILD if grown else _YEARS_BEFORE_ILLNESS))
        # If these days are too late for one of the years, the note is an old one.
        if dated or not any(low > told for low in found for told in self._told):
            yield from (("a year", low, _OLDEST) for low in found)

    def _of_weeks(self) -> Iterator[tuple[str, int, int]]:
        """A pregnancy that is told in figures: "G2P1 at 31+4"."""
        if _GRAVIDA.search(self._note.text) and _WEEKS.search(self._note.text):
            yield "weeks", *_PREGNANT


def _is_name(text: str, hit: Hit) -> bool:
    """Whether a word is the patient's last name: "Vincent Young is a 56-year-old man", "Ms. Cook"."""
    before = max(0, hit.start - 32)
    if _NAMED.search(text, before, hit.start) or _NAME_IS.match(text, hit.end):
        return True
    return text[hit.start].isupper() and _FIRST_NAME.search(text, before, hit.start) is not None
