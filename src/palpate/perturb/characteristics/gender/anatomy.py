"""Anatomy, obstetrics and occupations in a note that contradict a change of gender (anatomy.yaml)."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import Any

from palpate.files import read_resource
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import (
    GENDER_OF_KIN,
    RELATIVES,
    SPOUSES,
    belongs_to_patient,
    has_other_subject,
)

_SPOUSES = frozenset((*SPOUSES, *SPOUSES.values()))
_YOUNGEST_MOTHER, _ADULT = 11, 18
_BORN = re.compile(
    r"\bborn(?:,|\s+(?:at|by|via|to|after|on|full|pre|in|vaginally|prematurely|with|without)\b)|\bproduct\s+of\b|\bbirth\s+(?:weight|history)\b|"
    r"\bapgars?\b|\bweeks?['’]?\s+gestation\b",
    re.IGNORECASE,
)
BORN_BY = re.compile(r"\bborn\s+(?:\w+\s+){0,3}?(?:by|via|through)\s+(?:[\w-]+\s+){0,3}$", re.IGNORECASE)
""" "She was born by emergency cesarean section", at any age."""
_IN_KIN = re.compile(
    r"(?:\s+(?!(?:and|but|she|he|who|with|for|on|at|by|to|in|is|was|has)\b)[\w-]+){0,3}\s+(?:in|on|for|with)\s+"
    r"(?:(?:his|her|the|an?|one|two|three|\d|both|either|maternal|paternal|great|of|several|multiple|first|second|degree)[\s-]+){0,4}"
    r"(?:" + "|".join(sorted(RELATIVES - frozenset((*SPOUSES, *SPOUSES.values())))) + r"|side)\b",
    re.IGNORECASE,
)
OF_KIN = re.compile(
    r"\b(?:"
    + "|".join(sorted(RELATIVES - frozenset((*SPOUSES, *SPOUSES.values(), "partner", "spouse", "child"))))
    + r")['’]s\s+(?:(?:own|first|last|early|heavy|age\s+at)\s+)*$",
    re.IGNORECASE,
)
""" "Mother's menarche was at 14"."""
_BIRTHS = re.compile(r"G\s?\d{1,2}(?:\s?,?\s?P\s?\d|(?=\s+(?:presents?|at|here|with|w/)))", re.IGNORECASE)
_AGED = re.compile(
    r"(?<!to\sa\s)(?<!to\san\s)(?<!mother\s)(?<!\d)\d\d\s?(?:y/?o|y\.o\.|yr|year)[\s-]*(?:old)?,?\s+$|\b[A-Z][\w.]*,\s+\d\d,\s+$",
    re.IGNORECASE,
)
_OTHER = {"female": "male", "male": "female"}
GESTATION = re.compile(
    r"(?:^|(?<=\d)[MFmf]|\b(?:at|now|currently|approx|is|yo|y/o|old|[MFmf]|woman|lady|female|pregnan\w+|gravida|primip\w*|"
    r"G\d\s?P\d\w*)|[,;:(@~])[ \t]*(?P<weeks>(?!20/|15/)(?:[4-9]|[1-3]\d|4[0-2])(?:\s?\+\s?[0-6])?/40)"
    r"(?![\d/%.]|\s*(?:mg|mcg|vision|VA|points?|score))",
    re.MULTILINE,
)
"""The weeks of a pregnancy: "32/40", unlike a visual acuity of 20/40."""


def gestation(note: ScannedNote) -> Hit | None:
    """Where the note counts the weeks of the patient's pregnancy."""
    if "/40" not in note.text:
        return None
    found = (Hit(*match.span("weeks"), "weeks of pregnancy") for match in GESTATION.finditer(note.text))
    return next((hit for hit in found if belongs_to_patient(note, hit.start, hit.end)), None)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_resource("palpate.perturb.characteristics.gender", "anatomy.yaml")
    return table


@cache
def sex_of_words() -> dict[str, str]:
    """The words that show a sex, with the sex."""
    table = _table()
    return {word: sex for sex in ("female", "male") for word in (*table[sex].split(), *table["work"][sex].split())}


def is_mother(patient: DescribedPatient) -> bool:
    """Whether a note is a mother's by its words: "Primigravida with a baby boy. He feeds well"."""
    note, mothers = patient.note, _table()["mothers"].split()
    told = (hit for hit in note.hits("sexed") if hit.word in mothers or (hit.word == "g" and _is_counted(note, hit)))
    return any(belongs_to_patient(note, hit.start, hit.end) for hit in told)


def _is_counted(note: ScannedNote, hit: Hit) -> bool:
    """Whether this is the G of "29 y.o. G3P2": the note is hers, unlike "born to a 29-year-old G3P2"."""
    return _BIRTHS.match(note.text, hit.start) is not None and _AGED.search(note.text, 0, hit.start) is not None


def is_work(word: str) -> bool:
    """Whether a word is an occupation, not anatomy."""
    return any(word in words.split() for words in _table()["work"].values())


@cache
def _phrases() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """The listed words as (first word, sex, pattern)."""
    rows = [(sex, phrase) for sex, phrases in _table()["phrases"].items() for phrase in phrases]
    return tuple(
        (re.split(r"[^a-z]", phrase)[0], sex, re.compile(r"\b" + phrase, re.IGNORECASE)) for sex, phrase in rows
    )


@cache
def sexed_words() -> tuple[str, ...]:
    """The words to scan for."""
    return (*sex_of_words(), *dict.fromkeys(first for first, _, _ in _phrases()))


@cache
def _obstetric() -> frozenset[str]:
    return frozenset(_table()["obstetric"].split())


def find_sexed(patient: DescribedPatient, base: str, of_spouse: Container[int] = ()) -> dict[str, Hit]:
    """By sex, the first word that shows it of the patient.

    A word about the spouse counts for the patient's own sex: a pregnant wife can't become a husband. What a note says
    of a child's birth is about the mother, and "ovarian cancer in her aunt" about the aunt. `of_spouse` are the numbers
    of the sentences in which the spouse of a patient of gender `base` is spoken of.
    """
    note = patient.note
    found: dict[str, Hit] = {}
    counted = gestation(note)
    if counted and not _is_of_birth(patient, counted):
        found["female"] = counted
    for hit in note.hits("sexed"):
        sex = sex_of_words().get(hit.word)
        if sex is None:
            sex, hit = _phrase(note, hit)
        if sex is None or _IN_KIN.match(note.text, hit.end, note.sentence(hit.start)[1]):
            continue
        if OF_KIN.search(note.text, max(0, hit.start - 40), hit.start):
            continue
        if sex == "female" and hit.word in _obstetric() and _is_of_birth(patient, hit):
            continue
        if belongs_to_patient(note, hit.start, hit.end) or _is_infants(patient, hit):
            theirs = sex != base and note.sentence_number(hit.start) in of_spouse
            found.setdefault(_OTHER[sex] if theirs else sex, hit)
        elif _is_spouses(note, hit, sex):
            found.setdefault(_OTHER[sex], hit)
    return found


def _phrase(note: ScannedNote, hit: Hit) -> tuple[str | None, Hit]:
    for first, sex, pattern in _phrases():
        match = pattern.match(note.text, hit.start) if first == hit.word else None
        if match:
            return sex, hit._replace(end=match.end())
    return None, hit


def _is_infants(patient: DescribedPatient, hit: Hit) -> bool:
    """ "The infant was circumcised", in the note of an infant."""
    note = patient.note
    if not patient.is_infant or note.in_family(hit.start):
        return False
    return not has_other_subject(note, hit.start, people=RELATIVES)


def _is_of_birth(patient: DescribedPatient, hit: Hit) -> bool:
    """Whether an obstetric word is about the patient's own birth."""
    note = patient.note
    years = next((age.value for age in patient.own_ages if age.value is not None), None)
    if patient.is_infant or (years is not None and years < _YOUNGEST_MOTHER):
        return True
    first, last = note.sentence(hit.start)
    if BORN_BY.search(note.text, max(first, hit.start - 60), hit.start):
        return True
    born = _BORN.search(note.text, first, last)
    return born is not None and (years is None or years < _ADULT)


def _is_spouses(note: ScannedNote, hit: Hit, sex: str) -> bool:
    number = note.sentence_number(hit.start)
    return any(
        person.word in _SPOUSES and GENDER_OF_KIN[person.word] == sex and note.sentence_number(person.start) == number
        for person in note.hits("people")
    )
