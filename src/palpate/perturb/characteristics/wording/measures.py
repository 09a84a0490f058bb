"""The body mass index that a note gives, by itself or by weight and height.

A weight without a height bounds it: adults are between 1.45 and 2.05 m tall. A child's weight is compared with the
usual weight at that age, by the rules of thumb of emergency medicine.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import belongs_to_patient

_SHORTEST, _TALLEST = 1.45, 2.05
_USUAL = 22
"""The body mass index of an adult of usual weight."""
_LIGHTEST, _HEAVIEST = 25, 350
_KG, _INCH = 0.45359, 0.0254
_LEAD = (
    r"(?:\s*\((?:kg|lbs?|kg/m2|in|cm)\))?(?:\s+(?:is|was|of|today|currently|at|now|approximately|about))*\s*[:=]?\s*"
    r"(?:approximately\s+|about\s+|~\s?)?"
)
_BMI = re.compile(
    rf"(?:\s+mass\s+index)?(?:\s*\(BMI\))?{_LEAD}(?:(?P<value>[1-9]\d(?:\.\d+)?)(?![\d/])|(?P<usual>WNL|normal|healthy|within\s+normal)\b)",
    re.IGNORECASE,
)
_WEIGHT = re.compile(
    rf"{_LEAD}(?P<value>\d{{2,3}}(?:\.\d+)?)(?![\d/])\s*-?(?P<unit>kgs?|kilograms?|lbs?|pounds?|#)?(?![a-z])",
    re.IGNORECASE,
)
_HEIGHT = re.compile(
    rf"{_LEAD}(?:(?P<feet>[4-7])\s*(?:feet|foot|ft\.?|['’])\s*,?\s*(?:(?P<inches>\d{{1,2}})(?:\.\d+)?\s*(?:inch(?:es)?|in\b|[\"”]|['’]{{2}})?)?"
    r"|(?P<cm>1[4-9]\d|20\d)(?:\.\d+)?\s*cm|(?P<m>[12]\.\d\d?)\s*m\b|(?P<in>[5-7]\d)(?:\.\d+)?\s*(?:inch(?:es)?|in\b|[\"”]))",
    re.IGNORECASE,
)
_PLAIN_WEIGHT = re.compile(r"(?:[,(;]|\band|^)\s*(?P<value>\d{1,3}(?:\.\d+)?)\s?-?$", re.IGNORECASE)
_PLAIN_END = re.compile(r"\s*(?:[,.;)\n]|$|and\b|with\b|w/)", re.IGNORECASE)
_PLAIN_HEIGHT = re.compile(r"(?:^|[\s,(/])(?P<cm>1[4-9]\d|20\d)(?:\.\d+)?\s?cm\b", re.IGNORECASE)
_CHANGE = re.compile(
    r"\b(?:lost|lose|losing|gained|gain|loss|down|up|birth|ideal|target|goal|peak\w*|maximum|max|lowest|highest|dry|fetal|stone|"
    r"previous|usual|baseline|prior|last|bearing|lifts?|lifting|baby|over|under)\b[^.;]{0,24}$",
    re.IGNORECASE,
)


class BodyMass(NamedTuple):
    """The lowest and the highest body mass index that fit what the note measured."""

    low: float
    high: float


def body_mass(patient: DescribedPatient) -> BodyMass | None:
    """The body mass index, from the first measurements of the note."""
    note = patient.note
    if patient.is_infant:
        return None
    young = [age.value for age in patient.own_ages if age.value is not None and age.value < 18]
    if young:
        return _child_mass(note, min(young))
    stated = _first(note, "bmi", _BMI)
    if stated and stated.group("usual"):
        return BodyMass(18.5, 24.9)
    if stated:
        value = float(stated.group("value"))
        return BodyMass(value - 0.5, value + 0.5)
    weight = _first(note, "weight", _WEIGHT)
    height = _first(note, "height", _HEIGHT)
    in_feet = height is not None and bool(height.group("feet") or height.group("in"))
    mass, tall = _kilograms(weight, pounds=in_feet) if weight else None, None
    if weight is None:
        mass, tall = _plain_measures(note)
    if mass is None or not _LIGHTEST <= mass <= _HEAVIEST:
        return None
    tall = _metres(height) if height else tall
    return BodyMass(mass / (tall or _TALLEST) ** 2 - 0.5, mass / (tall or _SHORTEST) ** 2 + 0.5)


def measure_words() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "bmi": ("bmi", "body"),
        "weight": ("weight", "wt", "weighs", "weighing", "weighed"),
        "height": ("height", "ht"),
        "kg": ("kg", "kgs"),
    }


def _child_mass(note: ScannedNote, years: int) -> BodyMass | None:
    """What the body mass index would be in an adult as heavy for the age, in wide bounds, as heights differ."""
    weight = _first(note, "weight", _WEIGHT)
    if weight is None:
        mass = _plain_measures(note)[0]
    else:
        unit, value = (weight.group("unit") or "").lower(), float(weight.group("value"))
        mass = value if unit.startswith("k") else value * _KG if unit else None
    if mass is None or years < 1:
        return None
    usual = 2 * years + 8 if years < 6 else 3 * years + 7 if years < 13 else 5 * years - 20
    return BodyMass(_USUAL * mass / usual * 0.75, _USUAL * mass / usual * 1.3)


def is_light(patient: DescribedPatient) -> bool:
    """Whether the patient weighs less than adults do: "5 yo, weight 20 kg"."""
    weight = _first(patient.note, "weight", _WEIGHT)
    if weight is None:
        mass = _plain_measures(patient.note)[0]
        return mass is not None and mass < _LIGHTEST
    return (weight.group("unit") or "").lower().startswith("k") and float(weight.group("value")) < _LIGHTEST


def _plain_measures(note: ScannedNote) -> tuple[float | None, float | None]:
    """The kilograms and metres of a list that names neither: "68M, COPD, 62 kg, 180 cm"."""
    for hit in note.hits("kg"):
        first, last = note.sentence(hit.start)
        low = max(first, hit.start - 12)
        value = _PLAIN_WEIGHT.search(note.text, low, hit.start)
        if value is None or not _PLAIN_END.match(note.text, hit.end):
            continue
        if _CHANGE.search(note.text[max(first, hit.start - 40) : value.start("value")]):
            continue
        if belongs_to_patient(note, value.start("value"), hit.end):
            near = _PLAIN_HEIGHT.search(note.text, max(first, hit.start - 24), min(last, hit.end + 24))
            return float(value.group("value")), int(near.group("cm")) / 100 if near else None
    return None, None


def _first(note: ScannedNote, tag: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    for hit in note.hits(tag):
        match = pattern.match(note.text, hit.end, min(len(note.text), hit.end + 60))
        if match is None or (hit.word == "body" and "mass" not in match.group().lower()):
            continue
        first, _ = note.sentence(hit.start)
        before = note.text[max(first, hit.start - 40) : hit.start]
        if not _CHANGE.search(before) and belongs_to_patient(note, hit.start, match.end()):
            return match
    return None


def _kilograms(match: re.Match[str], *, pounds: bool) -> float | None:
    """Without a unit, a number that can only be pounds is in pounds, and so is one beside a height in feet."""
    value, unit = float(match.group("value")), (match.group("unit") or "").lower()
    if unit.startswith("k"):
        kilograms = value
    elif unit or value > 180 or pounds:
        kilograms = value * _KG
    else:
        return None
    return kilograms if _LIGHTEST <= kilograms <= _HEAVIEST else None


def _metres(match: re.Match[str]) -> float | None:
    if match.group("feet"):
        return (int(match.group("feet")) * 12 + int(match.group("inches") or 0)) * _INCH
    if match.group("cm"):
        return int(match.group("cm")) / 100
    return float(match.group("m")) if match.group("m") else int(match.group("in")) * _INCH
