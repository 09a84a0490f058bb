"""Age: 18 to 89 and 90+ by default, any other whole number on request (section 4.2 of the paper).

All present ages of the patient are changed alike; ages of the past and of others are left. A number in words stays in
words. "90+" is written as the note's own source writes it: "[**Age over 90 **]" where the note has "[**" marks
(MIMIC-III), "___" where it has blanks (MIMIC-IV), "90+" elsewhere. A blank ("___ year old") tells no age and is
filled: that is `added`. Dates of birth are left alone, as all dates are. A boy or girl becomes a man or woman. Notes
about infants are skipped.

Contradictory, and skipped unless asked for: an age below one that the note tells of the patient's past ("CABG at age
55"), and ages that do not go with "elderly", "middle-aged", "young" or "child" for the patient.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from palpate.edits import Edit
from palpate.perturb.characteristics.ages import ONES, TENS, Age
from palpate.perturb.characteristics.articles import with_articles
from palpate.perturb.characteristics.describe import Patient
from palpate.perturb.characteristics.mentions import KEPT, NO_MENTION, Mention, Outcome, skipped
from palpate.perturb.characteristics.people import belongs_to_patient

Contradictory = Literal["skip", "alter"]
OVER_90 = "90+"
_ADULTS = {"boy": "man", "girl": "woman"}
_FITS = {
    "elderly": (60, 200), "aged": (60, 200), "geriatric": (60, 200), "octogenarian": (80, 89),
    "septuagenarian": (70, 79), "nonagenarian": (90, 99), "middle": (35, 69), "young": (0, 45),
    "teenage": (13, 19), "teenager": (13, 19),
    "adolescent": (10, 19), "child": (0, 17), "toddler": (0, 4), "youth": (0, 25),
}  # fmt: skip
_NOUN_NEAR = re.compile(
    r"(?:[\s-]+aged)?(?:[\s,]+(?!with\b|and\b|who\b|in\b)[\w-]+){0,3}?[\s,]+(?:man|woman|male|female|gentleman|lady|patient|pt|[MF])\b",
    re.IGNORECASE,
)


@dataclass
class FoundAge:
    """The ages of the patient in a note."""

    patient: Patient
    ages: list[Age] = field(default_factory=list)
    left: list[Age] = field(default_factory=list)
    youngest: int = 0
    """An age that the patient has passed."""
    fits: list[tuple[str, int, int]] = field(default_factory=list)
    nouns: list[Edit] = field(default_factory=list)
    masked: str = OVER_90
    infant: bool = False

    @property
    def present(self) -> str | None:
        """The group that the note is in."""
        value = next((age.value for age in self.ages if age.value is not None and age.style != "decade"), None)
        return None if value is None else group_of(value)

    def against(self, years: int) -> str | None:
        """What in the note contradicts an age."""
        if years < self.youngest:
            return f"contradictory: the note tells of age {self.youngest}"
        for word, low, high in self.fits:
            if not low <= years <= high:
                return f"contradictory: the note says '{word}'"
        return None


def group_of(years: int) -> str:
    """63 is in "63", 94 in "90+"."""
    return OVER_90 if years >= 90 else str(years)


@dataclass(frozen=True)
class AgeCharacteristic:
    """The characteristic."""

    contradictory: Contradictory = "skip"
    name: str = "age"
    groups: tuple[str, ...] = (*map(str, range(18, 90)), OVER_90)

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        return {
            "year": ("year", "years", "yr", "yrs", "yo", "y"),
            "age_unit": ("year", "years", "yr", "yrs", "yo", "y", "yom", "yof", "m", "f"),
            "age": ("age", "aged"),
            "decade": ("s",),
            "subject": ("he", "she"),
            "infant_unit": ("day", "days", "week", "weeks", "wk", "month", "months", "mo"),
            "life": tuple(_FITS),
            "noun": ("boy", "girl"),
        }

    def knows(self, group: str) -> bool:
        """Whether this is an age."""
        return group == OVER_90 or group.isdigit()

    def find(self, patient: Patient) -> FoundAge:
        """Everything, once."""
        found = FoundAge(patient)
        text = patient.note.text
        found.ages, found.left = patient.own_ages, patient.odd_ages
        first = next((age.value for age in found.ages if age.value is not None and age.style != "decade"), None)
        found.infant = patient.is_infant
        found.masked = "[**Age over 90 **]" if "[**" in text else "___" if "___" in text else OVER_90
        found.fits = _fits(patient)
        past = [age.value for age in patient.ages if age.whose == "past" and age.value is not None]
        found.youngest = max((value for value in past if first is None or value <= first), default=0)
        for description in patient.descriptions:
            if description.noun:
                start, end = description.noun
                adult = _ADULTS.get(text[start:end].lower())
                if adult and description.age in found.ages:
                    found.nouns.append(Edit(start, end, adult))
        return found

    def present(self, found: FoundAge) -> str | None:
        """The group that the note is in; None when it does not say, or masks it."""
        return found.present

    def mentions(self, found: FoundAge) -> list[Mention]:
        """Where the note tells of it."""
        text = found.patient.note.text
        told = [
            Mention(
                age.start, age.end, text[age.start : age.end], None if age.value is None else group_of(age.value), apart
            )
            for ages, apart in ((found.ages, False), (found.left, True))
            for age in ages
        ]
        return sorted(told)

    def outcome(self, found: FoundAge, group: str) -> Outcome:
        """What altering to a group takes."""
        if found.infant:
            return skipped("infant: the age is in days, weeks or months")
        if (
            found.ages
            and group == found.present
            and all(age.value is None or group_of(age.value) == group or age.style == "decade" for age in found.ages)
        ):
            return KEPT
        years = 90 if group == OVER_90 else int(group)
        against = found.against(years) if self.contradictory == "skip" else None
        if against:
            return skipped(against)
        if not found.ages:
            return _added(found, years)
        text = found.patient.note.text
        edits = [] if years < 18 else list(found.nouns)
        for age in found.ages:
            written = write(years, age.style, text[age.start : age.end], found.masked)
            if written != text[age.start : age.end]:
                edits.append(Edit(age.start, age.end, written))
        if not edits:
            return KEPT
        return Outcome(with_articles(text, edits), "added" if found.present is None else "changed")


def _added(found: FoundAge, years: int) -> Outcome:
    """A note without an age gets one at the noun that introduces the patient: "a pleasant 63-year-old woman"."""
    place = next((place for place in found.patient.places if place.noun), None)
    if place is None or place.noun is None:
        return skipped(NO_MENTION)
    text = found.patient.note.text
    at = found.patient.before_ethnicity(place.place)
    edits = [Edit(at, at, f"{write(years, 'digits', '', found.masked)}-year-old ")]
    adult = _ADULTS.get(text[slice(*place.noun)].lower())
    if adult and years >= 18:
        edits.append(Edit(*place.noun, adult))
    return Outcome(with_articles(text, edits), "added")


@cache
def spell(years: int) -> str:
    """63 as sixty-three."""
    if years < 20:
        return ONES[years]
    return TENS[years // 10 - 2] + (f"-{ONES[years % 10]}" if years % 10 else "")


def write(years: int, style: str, old: str, masked: str) -> str:
    """An age in the style of the one that it replaces."""
    if style == "decade":
        part = re.match(r"(early|mid|late)([\s-]+)", old, re.IGNORECASE)
        third = "early" if years % 10 < 4 else "mid" if years % 10 < 7 else "late"
        lead = (third if part.group(1).islower() else third.capitalize()) + part.group(2) if part else ""
        return f"{lead}{years // 10 * 10}s"
    if style == "words":
        words = "over ninety" if years >= 90 else spell(years)
        return words.upper() if old.isupper() else words.capitalize() if old[0].isupper() else words
    return masked if years >= 90 else str(years)


def _fits(patient: Patient) -> list[tuple[str, int, int]]:
    """The words for a time of life that the note has for the patient, with the ages that go with them."""
    found = []
    for hit in patient.note.hits("life"):
        text = patient.note.text
        if text[hit.start : hit.end] == "Young" and patient.note.opening(hit.start) != hit.start:
            continue  # a name
        if hit.word == "aged" or (hit.word == "middle" and not text[hit.end : hit.end + 5].lower().endswith("aged")):
            continue
        nounlike = hit.word in (
            "teenager",
            "adolescent",
            "child",
            "toddler",
            "octogenarian",
            "nonagenarian",
            "septuagenarian",
            "youth",
        )
        if nounlike:
            told = any(d.age and 0 <= hit.start - d.age.tail <= 25 for d in patient.descriptions)
        else:
            told = _NOUN_NEAR.match(text, hit.end) is not None
        if told and belongs_to_patient(patient.note, hit.start, hit.end):
            found.append((hit.word, *_FITS[hit.word]))
    return found
