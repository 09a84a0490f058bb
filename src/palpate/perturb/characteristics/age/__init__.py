"""Age: whole years from 18 to 89, and 90+ (section 4.2 of the paper); notes describe children differently.

All present ages of the patient are changed in the same way; past ages and those of other people stay. A number in words
stays in words. "90+" is written as in the note's source: "[**Age over 90 **]" if the note has "[**" marks (MIMIC-III),
"90+" elsewhere. A blank ("___ year old", as MIMIC-IV writes every age) gives no age and is filled in: that is `added`,
even for 90+, since a remaining blank would give no age at all. An age that is stated but can't be rewritten ("63-65
yo", "sixty-something", "septuagenarian" alone) is `skipped: ambiguous`. A date of birth
that agrees with the age moves with it; other dates stay. A boy or girl becomes a man or woman. Notes about infants are
skipped.

Contradictory, and skipped unless requested: an age below one that the note mentions in the patient's past ("CABG at age
55", "retired at 62"), ages that contradict "elderly", "middle-aged", "young" or "child" for the patient, facts that
only some ages allow (`life`: a pregnancy, retirement, grandchildren, the ages of relatives, childhood), and durations
and years that are longer than the age (`times`). Diseases that are rare at an age (dementia) are no contradiction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.age.life import CHILDBEARING, OLDEST, AgeLimit, life_limits, life_words
from palpate.perturb.characteristics.age.template import AgeTemplate, write
from palpate.perturb.characteristics.age.times import BirthYear, birth_years, time_limits, time_words
from palpate.perturb.characteristics.gender.anatomy import gestation
from palpate.perturb.characteristics.gender.words import like
from palpate.perturb.characteristics.grammar import with_articles
from palpate.perturb.characteristics.outcomes import KEPT, NO_MENTION, Contradictory, EditOutcome, Mention, skipped
from palpate.perturb.characteristics.reading import lazy
from palpate.perturb.characteristics.reading.ages import Age
from palpate.perturb.characteristics.reading.past_ages import DECADES, tells_age_vaguely
from palpate.perturb.characteristics.reading.patient import DescribedPatient, Description
from palpate.perturb.characteristics.reading.people import PERSON, belongs_to_patient
from palpate.perturb.characteristics.wording.measures import is_light, measure_words
from palpate.perturb.characteristics.wording.places import mention_places, small_patient

OVER_90 = "90+"
_UNREADABLE = "the age is told as a range or in words that can't be changed"
_ADULTS = {"boy": "man", "girl": "woman"}
_FITS = {
    "elderly": (60, 200), "aged": (60, 200), "geriatric": (60, 200), "octogenarian": (80, 89),
    "septuagenarian": (70, 79), "nonagenarian": (90, 99), "middle": (35, 69), "young": (0, 45),
    "teenage": (13, 19), "teenager": (13, 19),
    "adolescent": (10, 19), "child": (0, 17), "toddler": (0, 4), "youth": (0, 25),
}  # fmt: skip
_AS_A_CHILD = re.compile(
    r"\b(?:as|was|since|when|being)\s+(?:just\s+)?an?\s+(?:young\s+|little\s+|small\s+)?$", re.IGNORECASE
)
_WAS = re.compile(
    r"\b(?:he|she|they|patient|pt)\s+(?:was|were|turned)\s+(?:an?\s+|then\s+|only\s+|just\s+|about\s+)?$", re.IGNORECASE
)
""" "She was 59 years old at the time": an age that she has passed."""
_MIDDLE_AGE = re.compile(r"[\s-]+aged?\b", re.IGNORECASE)
_NOUN_NEAR = re.compile(
    rf"(?:[\s-]+aged?)?(?:[\s,]+(?!with\b|and\b|who\b|in\b|is\b|was\b)[\w-]+){{0,3}}?[\s,]+(?:{PERSON}|[MF]|"
    r"subject|person|individual|adult)\b",
    re.IGNORECASE,
)


@dataclass
class FoundAge:
    """The ages of the patient in a note."""

    patient: DescribedPatient
    ages: list[Age] = field(default_factory=list)
    left: list[Age] = field(default_factory=list)
    youngest: int = 0
    """The highest age that the patient is known to have passed."""
    years: int | None = None
    """The age that the note gives."""
    nouns: list[Edit] = field(default_factory=list)
    masked: str = OVER_90
    infant: bool = False
    unreadable: str | None = None
    """Why the age can't be rewritten."""

    @lazy
    def fits(self) -> list[tuple[str, int, int]]:
        """The words for a time of life, with the ages that fit them."""
        return _fits(self.patient)

    @lazy
    def limits(self) -> list[AgeLimit]:
        """The limits that facts and times set to the age."""
        note, child = self.patient.note, self.patient.is_child
        light = [AgeLimit("a child's weight", 0, 17)] if child and is_light(self.patient) else []
        expects = [AgeLimit("a pregnancy", 12, high) for high in (CHILDBEARING, 57)] if gestation(note) else []
        expects = [limit for limit in expects if self.years is None or limit.low <= self.years <= limit.high]
        return light + expects + life_limits(note, self.years, child=child) + time_limits(note, self.years)

    @lazy
    def bounds(self) -> tuple[int, int]:
        """The youngest and the oldest age that nothing in the note contradicts."""
        limits = (*self.fits, *self.limits)
        return max([self.youngest, *(low for _, low, _ in limits)]), min((high for *_, high in limits), default=OLDEST)

    @lazy
    def births(self) -> list[BirthYear]:
        """The years of birth that move with the age."""
        return birth_years(self.patient.note, self.years)

    @lazy
    def template(self) -> AgeTemplate:
        """The edits for all ages."""
        births = self.births if self.years is not None else ()
        return AgeTemplate(self.patient.note.text, self.nouns, self.ages, births, self.masked)

    @lazy
    def place(self) -> Description | None:
        """Where an age is added to a note without one."""
        return next((place for place in mention_places(self.patient) if place.noun), None)

    @lazy
    def present(self) -> str | None:
        """The group that the note is in."""
        value = next((age.value for age in self.ages if age.value is not None and age.style != "decade"), None)
        return None if value is None else group_of(value)

    def against(self, years: int) -> str | None:
        """What in the note contradicts an age."""
        low, high = self.bounds
        if low <= years <= high:
            return None
        if years < self.youngest:
            return f"contradictory: the note tells of age {self.youngest}"
        for word, low, high in self.fits:
            if not low <= years <= high:
                return f"contradictory: the note says '{word}'"
        for kind, low, high in self.limits:
            if not low <= years <= high:
                return f"contradictory: the note tells of {kind}"
        return None


def _is_past(text: str, start: int) -> bool:
    """Whether a boy or a girl is who the patient was: "kept pigeons as a girl"."""
    return _AS_A_CHILD.search(text, max(0, start - 24), start) is not None


def group_of(years: int) -> str:
    """The group of an age: 63 is in "63", 94 in "90+"."""
    return OVER_90 if years >= 90 else str(years)


@dataclass(frozen=True)
class AgeCharacteristic:
    """Finds and alters the patient's age."""

    contradictory: Contradictory = "skip"
    name: str = "age"
    groups: tuple[str, ...] = (*map(str, range(18, 90)), OVER_90)

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        return {
            "year": ("year", "years", "yr", "yrs", "yo", "y"),
            "age_unit": ("year", "years", "yr", "yrs", "yo", "y", "yom", "yof", "ym", "yf", "m", "f"),
            "age": ("age", "aged"),
            "decade": ("s", *DECADES),
            "past": ("at", "since", "until", "till"),
            "vague": ("something", "ish"),
            "subject": ("he", "she"),
            "infant_unit": ("hour", "hours", "hr", "day", "days", "week", "weeks", "wk", "month", "months", "mo"),
            "life": (*_FITS, "sexagenarian", "centenarian"),
            **life_words(),
            **time_words(),
            **measure_words(),
            "noun": ("boy", "girl"),
        }

    def knows(self, group: str) -> bool:
        """Whether this is an age that can be written: 18 to 89, or 90+."""
        return group in self.groups

    def find(self, patient: DescribedPatient) -> FoundAge:
        """Everything that the note says about the age."""
        found = FoundAge(patient)
        text = patient.note.text
        found.ages, found.left = patient.own_ages, patient.odd_ages
        first = next((age.value for age in found.ages if age.value is not None and age.style != "decade"), None)
        found.infant = patient.is_infant
        found.masked = "[**Age over 90 **]" if "[**" in text else OVER_90
        found.years = first
        told = (age for age in found.left if _WAS.search(text, max(0, age.start - 32), age.start))
        passed = (*patient.past_ages, *(age.value for age in told if age.value is not None))
        found.youngest = max((value for value in passed if first is None or value <= first), default=0)
        if not found.ages:
            found.unreadable = _UNREADABLE if tells_age_vaguely(patient.note) else None
        elif patient.has_two_ages:
            found.unreadable = "the note tells two ages of the patient"
        for description in patient.descriptions:
            if description.noun:
                start, end = description.noun
                adult = _ADULTS.get(text[start:end].lower())
                if adult and description.age in found.ages:
                    found.nouns.append(Edit(start, end, adult))
        if found.ages:
            others = (hit for hit in patient.plain_nouns if hit.word in _ADULTS and not _is_past(text, hit.start))
            found.nouns += [
                Edit(hit.start, hit.end, like(text[hit.start : hit.end], _ADULTS[hit.word])) for hit in others
            ]
        return found

    def reread(self, patient: DescribedPatient) -> FoundAge:
        """The ages alone, of which the check asks no more."""
        return FoundAge(patient, patient.own_ages)

    def present(self, found: FoundAge) -> str | None:
        """The group that the note is in; None if it does not say, or masks it."""
        return found.present

    def mentions(self, found: FoundAge) -> list[Mention]:
        """Where the note mentions the age."""
        text = found.patient.note.text
        told = [
            Mention(
                age.start, age.end, text[age.start : age.end], None if age.value is None else group_of(age.value), apart
            )
            for ages, apart in ((found.ages, False), (found.left, True))
            for age in ages
        ]
        return sorted(told)

    def outcome(self, found: FoundAge, group: str) -> EditOutcome:
        """The edits that alter the note to a group."""
        if found.infant:
            return skipped("infant: the age is in days, weeks or months")
        if found.unreadable and group != found.present:
            return skipped(f"ambiguous: {found.unreadable}")
        if (
            found.ages
            and group == found.present
            and all(age.value is None or group_of(age.value) == group or age.style == "decade" for age in found.ages)
        ):
            return KEPT
        if not found.ages and found.place is None:
            return skipped(NO_MENTION)
        years = 90 if group == OVER_90 else int(group)
        against = found.against(years) if self.contradictory == "skip" else None
        if against:
            return skipped(against)
        if not found.ages:
            return _added(found, years)
        edits = found.template.edits(years)
        return EditOutcome(edits, "added" if found.present is None else "changed") if edits else KEPT


def _added(found: FoundAge, years: int) -> EditOutcome:
    """A note without an age gets one at the noun that introduces the patient: "a pleasant 63-year-old woman"."""
    place = found.place
    if place is None or place.noun is None:
        return skipped(NO_MENTION)
    text = found.patient.note.text
    at = found.patient.before_ethnicity(place.place)
    edits = [Edit(at, at, f"{write(years, 'digits', '', found.masked)}-year-old ")]
    edits += small_patient(found.patient, place)
    adult = _ADULTS.get(text[slice(*place.noun)].lower())
    if adult and years >= 18:
        edits.append(Edit(*place.noun, adult))
    return EditOutcome(with_articles(text, edits), "added")


def _fits(patient: DescribedPatient) -> list[tuple[str, int, int]]:
    """The words for a time of life that the note uses for the patient, with the ages that fit them."""
    found = []
    for hit in patient.note.hits("life"):
        text = patient.note.text
        if text[hit.start : hit.end] == "Young" and patient.note.opening(hit.start) != hit.start:
            continue  # a name
        if hit.word == "aged" or (hit.word == "middle" and not _MIDDLE_AGE.match(text, hit.end)):
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
