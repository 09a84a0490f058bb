"""The patient's own first name: "James Allen is a 57-year-old male", "Name: Allen, James", and wherever it recurs.

A name of firstnames.yaml is swapped with its counterpart. Other names are not changed, but marked: skipping such notes
would lose many of them for a hint that not every reader notices. De-identified notes have no names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from palpate.files import read_resource
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import OTHERS

_TITLES_AND_SUCH = (
    "the this our a an known patient pt mr mrs ms miss dr history present illness hpi she he his her is was and"
)
_NO_NAME = frozenset(_TITLES_AND_SUCH.split())
_SOON = frozenset(["today", "yesterday", "here", "currently", "again", "master", "veteran", "chief", "complaint"])
"""What may open a sentence before a name, and is none."""
_LAST = r"(?P<last>[A-Z][A-Za-z'’-]+)"
_INTRODUCED = re.compile(
    rf"\b(?P<first>[A-Z][A-Za-z'’-]+)[ \t]+(?:[A-Z]\.?[ \t]+)?{_LAST},?"
    r"\s+(?:is|was|IS|WAS)\s+(?:an?|the|our|AN?)\s+(?:[\w-]+,?\s+){0,4}$"
)
_INTRODUCED_ALONE = re.compile(r"\b(?P<first>[A-Z][A-Za-z]+)\s+(?:is|was)\s+(?:an?|our)\s+(?:[a-z-]+,?\s+){0,4}$")
_INTRODUCED_SMALL = re.compile(
    r"\b(?P<first>[a-z]+)[ \t]+(?:[a-z]\.?[ \t]+)?(?P<last>[a-z'’-]+),?\s+(?:is|was)\s+an?\s+(?:[\w-]+,?\s+){0,4}$"
)
"""In a note without capitals."""
_LISTED = re.compile(
    rf"\b(?P<first>[A-Z][A-Za-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?{_LAST}(?:[ \t]*[,(][ \t]*(?:an?[ \t]+)?|[ \t]+an?[ \t]+)$"
)
_PRESENTS = re.compile(
    rf"[ \t]+{_LAST}[ \t]+(?:presents|presented|returns|returned|comes|came|"
    r"is\s+(?:here|seen|an?\b|presenting|complaining|being\s+seen)|was\s+(?:seen|admitted|referred|brought))\b"
)
_TITLED = re.compile(rf"\.?[ \t]+(?P<first>[A-Z][a-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?{_LAST}")
_HEADER = re.compile(
    r"(?:name|patient)[ \t]*:[ \t]*(?:(?P<last>[A-Z][A-Za-z'’-]+)[ \t]*,[ \t]*(?P<first>[A-Z][A-Za-z]+)"
    r"|(?P<one>[A-Z][A-Za-z]+)[ \t]+(?:[A-Z]\.?[ \t]+)?(?P<two>[A-Z][A-Za-z'’-]+))",
    re.IGNORECASE,
)
_PATIENT_NAME = re.compile(r"(?:^|[\n|])[ \t]*(?:(?:patient|pt)(?:['’]?s)?[ \t]+)?(?:full[ \t]+)?$", re.IGNORECASE)
_SOMEBODY_BEFORE = re.compile(r"\b(?P<word>[A-Za-z]+)[.,:(]?[ \t]+\(?$")
_NAME_NEXT = re.compile(r"[ \t]+(?:[A-Z]\.?[ \t]+)?([A-Z][A-Za-z'’-]+)")
_CAPITAL_BEFORE = re.compile(r"[A-Z][\w.'’-]*[ \t]+$|\bthe\s+$|[\w'’)-]$")
_LOWER_NEXT = re.compile(r"(?:['’]s)?[ \t]+[a-z]|[.,;]")
_EPONYM = re.compile(
    r"(?:['’]s)?[ \t-]+(?:\w+[ \t]+){0,2}?(?:approach|incisions?|clamps?|retractors?|forceps|maneuver|sign|"
    r"test|splint|score|scale|stag(?:e|ing)|"
    r"class(?:ification)?|procedure|technique|sutures?|stitch|drain|catheter|tube|disease|syndrome|fracture|criteria|elevator|osteotome|"
    r"scissors|needle|speculum|frame|table|brace|bandage|dressing|operation|repair|flap|point|triangle|line|angle|position|County|"
    r"Hospital|Clinic|Center|University|Street|Medical)\b",
    re.IGNORECASE,
)
_ACTS = re.compile(
    r"(?:['’]s\b|\s+(?:also\s+|then\s+|now\s+)?(?:has|had|is|was|denies|denied|reports?|reported|states?|stated|feels|felt|lives|works|"
    r"presents|presented|says|said|takes|took|will|would|does|did|came|went|returns|returned)\b)"
)
"""What a person does, unlike "Mark the site"."""
_GIVEN_BEFORE = re.compile(r"(?P<first>[A-Z][a-z]+)[ \t]+$")
_ARTICLE_BEFORE = re.compile(r"\b(?:an?|the|modified|standard|using|via|through|volar|dorsal)\s+(?:[a-z-]+\s+)?$")
_PROVIDERS = frozenset(["dr", "prof", "np", "rn", "pa", "nurse", "doctor", "md", "attending", "resident"])


class Name(NamedTuple):
    """One occurrence of the patient's first name; `gender` is None for a name that is not in the list."""

    start: int
    end: int
    gender: str | None
    counterpart: str


@cache
def names() -> dict[str, tuple[str, str]]:
    """The gender and the counterpart of each name, by its lower-case form."""
    male = _table()["pairs"]
    return {m.lower(): ("male", f) for m, f in male.items()} | {f.lower(): ("female", m) for m, f in male.items()}


@cache
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = read_resource("palpate.perturb.characteristics.gender", "firstnames.yaml")
    return table


@cache
def name_words() -> frozenset[str]:
    """Names that are words too: Mark, Will."""
    return frozenset(str(_table()["words"]).lower().split())


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {"first_name": tuple(names()), "name": ("name",)}


def is_first_name(word: str) -> bool:
    """Whether a word is in the list of first names."""
    return word.lower() in names()


BOTH = "the patient's first name and its counterpart are both in the note"
LOOSE = "a first name that may be the patient's"


def find_names(patient: DescribedPatient, base: str) -> tuple[list[Name], str | None]:
    """Where the patient's first name is, and why it can't be swapped with its counterpart, if so."""
    note = patient.note
    found: dict[int, Name] = {}
    last_of: dict[str, str] = {}
    for start, end, last in (*_introduced(patient), *_headers(note), *_presenting(note), *_titled(note, base)):
        word = note.text[start:end].lower()
        if word not in _NO_NAME:
            found[start] = _name(note, start, end)
            last_of.setdefault(word, last.lower())
    if not found:
        return [], LOOSE if any(_is_loose(note, hit, base) for hit in note.hits("first_name")) else None
    for hit in note.hits("first_name"):
        if hit.word in last_of and _is_same(note, hit, last_of[hit.word]):
            found.setdefault(hit.start, _name(note, hit.start, hit.end))
    counterparts = {name.counterpart.lower() for name in found.values()}
    both = any(hit.word in counterparts and note.text[hit.start].isupper() for hit in note.hits("first_name"))
    return sorted(found.values(), key=lambda name: name.start), BOTH if both else None


def _name(note: ScannedNote, start: int, end: int) -> Name:
    gender, counterpart = names().get(note.text[start:end].lower(), (None, ""))
    return Name(start, end, gender, counterpart)


def _introduced(patient: DescribedPatient) -> Iterator[tuple[int, int, str]]:
    text = patient.note.text
    for description in patient.descriptions:
        start = description.age.start if description.age else description.place
        match = _INTRODUCED_SMALL.search(text, max(0, start - 90), start) if text.islower() else None
        if match and is_first_name(match.group("first")) and not _is_somebody(patient.note, match.start()):
            yield *match.span("first"), match.group("last")
            continue
        match = _INTRODUCED.search(text, max(0, start - 90), start)
        if match and match.group("last").lower() not in _NO_NAME:
            first = _first_of_three(patient.note, match.start()) or match
            if first["first"].lower() not in _NO_NAME and not _is_somebody(patient.note, first.start()):
                yield *first.span("first"), match.group("last")
            continue
        match = _LISTED.search(text, max(0, start - 50), start)
        if match and is_first_name(match.group("first")) and not _is_somebody(patient.note, match.start()):
            yield *match.span("first"), match.group("last")
            continue
        match = _INTRODUCED_ALONE.search(text, max(0, start - 60), start)
        if match and is_first_name(match.group("first")) and not _is_somebody(patient.note, match.start()):
            before = text[max(0, match.start() - 2) : match.start()]
            if not before.endswith(". ") or text[max(0, match.start() - 5) : match.start() - 2].strip() not in (
                "Mr",
                "Ms",
                "Mrs",
            ):
                yield *match.span("first"), ""


def _first_of_three(note: ScannedNote, start: int) -> re.Match[str] | None:
    """The first name before a middle name: the Dalton of "Dalton James Ware is a 26-year-old"."""
    before = _GIVEN_BEFORE.search(note.text, max(0, start - 24), start)
    if before is None or before.start() != note.opening(start) or before["first"].lower() in (*_NO_NAME, *_SOON):
        return None
    return before


def _headers(note: ScannedNote) -> Iterator[tuple[int, int, str]]:
    for hit in (*note.hits("name"), *note.hits("patient")):
        match = _HEADER.match(note.text, hit.start)
        if match and _PATIENT_NAME.search(note.text, max(0, hit.start - 24), hit.start):
            one = "first" if match.group("first") else "one"
            if match.group(one)[0].isupper():
                yield *match.span(one), match.group("last") or match.group("two")


def _presenting(note: ScannedNote) -> Iterator[tuple[int, int, str]]:
    for hit in note.hits("first_name"):
        match = _PRESENTS.match(note.text, hit.end) if note.text[hit.start].isupper() else None
        if match and not _is_somebody(note, hit.start) and not _first_of_three(note, hit.start):
            yield hit.start, hit.end, match.group("last")


def _titled(note: ScannedNote, base: str) -> Iterator[tuple[int, int, str]]:
    """Mr David Llewellyn, wherever he is named; other people with a title are `titles`'."""
    for hit in note.hits("title"):
        match = _TITLED.match(note.text, hit.end)
        if match and names().get(match["first"].lower(), ("",))[0] == base and not _is_somebody(note, hit.start):
            yield *match.span("first"), match.group("last")


def _is_somebody(note: ScannedNote, start: int) -> bool:
    """Whether the name is somebody else's: Dr. James; his son James; James as the last name of Mary."""
    before = _SOMEBODY_BEFORE.search(note.text, max(0, start - 20), start)
    word = before.group("word").lower() if before else ""
    return word in _PROVIDERS or word in OTHERS or is_first_name(word) or note.in_family(start)


def _is_loose(note: ScannedNote, hit: Hit, base: str) -> bool:
    """Whether a first name of the patient's gender belongs to nobody in particular: "do not bother Karen"."""
    text = note.text
    if hit.word in name_words():
        return False
    if text.islower() or text.isupper():
        found = names()[hit.word][0] == base and not _is_somebody(note, hit.start)
        return found and not _EPONYM.match(text, hit.end) and not _is_last(text, hit)
    if not text[hit.start].isupper() or text[hit.start : hit.end].isupper():
        return False
    if names()[hit.word][0] != base or _CAPITAL_BEFORE.search(text, max(0, hit.start - 20), hit.start):
        return False
    if _EPONYM.match(text, hit.end) or _ARTICLE_BEFORE.search(text, max(0, hit.start - 24), hit.start):
        return False
    return _LOWER_NEXT.match(text, hit.end) is not None and not _is_somebody(note, hit.start)


def _is_last(text: str, hit: Hit) -> bool:
    """Whether a title comes before: "mr. james"."""
    return re.search(r"\b(?:mr|mrs|ms|miss)\.?\s+$", text[max(0, hit.start - 8) : hit.start], re.IGNORECASE) is not None


def _is_same(note: ScannedNote, hit: Hit, last: str) -> bool:
    """Whether a first name that recurs is the patient's."""
    if _is_somebody(note, hit.start):
        return False
    if not note.text[hit.start].isupper():
        return bool(last) and note.text[hit.end : hit.end + 1 + len(last)] == f" {last}" and note.text.islower()
    following = _NAME_NEXT.match(note.text, hit.end)
    if following is None:
        return hit.word not in name_words() or _ACTS.match(note.text, hit.end) is not None
    return following.group(1).lower() == last
