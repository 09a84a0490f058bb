"""Where the patient lives: "lives with his wife", "lives at home", "resides in a shelter", "lives in a nursing home".

With whom a patient lives says nothing about a home: a couple may live in a shelter. So a sentence that names no place
is where one is put in ("lives in a homeless shelter with his wife"), and a home or a shelter that it names is replaced.
Where it is all that the sentence says, "locally" takes its place, which tells of no home: "She lives at home.".
So is a nursing home. A place that is described can't be replaced ("in a house with steps", "with daily nursing aides").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import RELATIVES, has_other_subject

Place = Literal["home", "shelter", "fixed", "open"]
WORDS = ("lives", "resides", "living", "residing", "live", "reside", "staying", "stays")
_COMPANY = "|".join(
    sorted(RELATIVES | {"roommate", "roommates", "room-mate", "friend", "friends", "foster", "caregiver", "both"})
)
_ADVERBS = r"(?:\s+(?:currently|now|still|presently|here|mostly|primarily))*"
_ALONE = r"\s+(?:alone|independently|by\s+(?:him|her|them)sel(?:f|ves)|on\s+(?:his|her|their)\s+own)\b"
_WITH = (
    r"\s+(?:together\s+)?with\s+(?:(?:his|her|their|the|a|an|one|two|three|both|of|ex|own|elderly|adult|young|biological|"
    rf"biologic|current|former|female|male|long-term|longtime|\d+)[\s-]+){{0,4}}(?:{_COMPANY})\b"
)
_FOLLOWS = re.compile(
    rf"{_ADVERBS}(?:(?P<alone>{_ALONE})|(?P<with>{_WITH})|(?P<in>\s+(?:in|at|on)\s)|\s+(?P<local>locally)\b|\s+(?:nearby|here)\b)",
    re.IGNORECASE,
)
_NOT_NOW = re.compile(
    r"\b(?:was|were|used\s+to|had\s+been|previously|formerly|once|to|if|would|will|could|may|might|daily|assisted|of|not|no|never|"
    r"n['’]t|while)\s+(?:been\s+|be\s+|apparently\s+)?$|\bindependent\s+$",
    re.IGNORECASE,
)
_IS_LIVING = re.compile(
    r"(?:\b(?:is|are|['’]s|been|currently|now|still|presently|and|single|married|divorced|widowed)\s+|[,.:;\n(]\s*|^\s*)$",
    re.IGNORECASE,
)
_DOES = re.compile(r"\bdoes\s+$", re.IGNORECASE)
_STOP = re.compile(
    r"[.;:\n(]|(?:,|\band|\bbut)\s+(?:(?:he|she|they|also|currently|previously)\s+)?(?:is|are|was|has|have|had|does|do|denie[sd]|works?|worked|"
    r"smokes?|uses|drinks?|quit|retired|employed|never|no|not|goes|attends|walks|usually|enjoys|recently|stays|cares|takes)\b"
    r"|,?\s+(?:who|which|while|since|because|but|although|whose)\b",
    re.IGNORECASE,
)
_BETWEEN = r"(?:(?!(?:with|and|or|in|at|on|near|from|to|for|of)\b)[\w'’-]+\s+){0,5}?"
_CARE = re.compile(
    rf"\b(?:in|at)\s+{_BETWEEN}(?:(?:nursing|facility|SNF|ALF|assisted|group\s+home|board\s+and|rest\s+home|care\b|rehab\w*|hospice|"
    r"residential|institution|halfway|retirement|senior|convalescent|long[\s-]term|memory|community)\b"
    r"(?:[\s-]+(?:nursing|facility|home|center|living|care|citizens?|building|community|unit|house|residence|complex)\b)*|"
    r"(?-i:[A-Z][a-z]+\s+(?:Home|Manor|House|Center|Village|Gardens|Place)\b))",
    re.IGNORECASE,
)
_SHELTER = re.compile(
    rf"\b(?:in|at|out\s+of)\s+{_BETWEEN}(?:shelters?|car|van|tent|woods)\b|\bon\s+(?:the\s+)?streets?\b",
    re.IGNORECASE,
)
_HOME = re.compile(
    rf"\b(?:in|at|on)\s+{_BETWEEN}(?:home|house|apartment|apt|condo|condominium|townhouse|townhome|trailer|duplex|flat|dorm|rental(?:\s+(?:unit|property))?|unit|share\s?house|villa|cabin|caravan|basement|"
    r"dormitory|bungalow|cottage|farm|ranch|"
    r"studio|residence|household)\b(?!\s+(?:park|complex|building|health))",
    re.IGNORECASE,
)
_DESCRIBED = re.compile(
    r"\s*,?\s*(?:where|that|which|of\b|full\b|with\s+(?:[\w-]+\s+){0,3}(?:stairs?|steps?|levels?|stor(?:y|ies)|floors?|dogs?|cats?|"
    r"pets?|services?|aides?|aids|nurs\w+|VNA|elevator|ramp)\b)",
    re.IGNORECASE,
)


_REGION = re.compile(
    r"(?:the\s+|a\s+|an\s+)?(?:(?:rural|urban|local|same|nearby|central|northern|southern|eastern|western|north|south|east|west|upstate|"
    r"downtown|remote|small|large)\s+)*(?:[A-Z_\[]|(?:area|town|city|suburbs?|village|community|country|region|state|county|neighbou?rhood|"
    r"district|province|island|coast|outskirts|vicinity)\b)|(?:this|that|another)\b"
)
"""What tells the region and not the home: "lives in Salem", "lives in the area"."""
_HOUSE = re.compile(r"\b(?:house|home|apartment|household|property|condo)\b", re.IGNORECASE)
"""What the rest of the sentence may say of a home: "lives alone, family members live on her property"."""


class Dwelling(NamedTuple):
    """Where a note says that its patient lives: the span of the place, which is empty for `open` but for "locally"."""

    verb: int
    """The end of the verb, after which a place is put in."""
    start: int
    end: int
    place: Place
    has_company: bool
    """Whether the sentence says more than the place: "lives at home with his wife"."""


def place_of(form: str) -> Place:
    """The kind of place that a phrase names: "in a homeless shelter" is a shelter."""
    return "shelter" if _SHELTER.search(form) else "home"


def dwellings(note: ScannedNote, tag: str) -> Iterator[Dwelling]:
    """Where the note says that the patient lives now."""
    for hit in note.hits(tag):
        follows = _FOLLOWS.match(note.text, hit.end)
        if follows is None or not _tells_now(note, hit) or note.in_family(hit.start):
            continue
        if not has_other_subject(note, hit.start):
            found = _read(note.text, hit, follows, note.sentence(hit.start)[1])
            if found.place != "open" or follows.group("with") or hit.word not in ("stays", "staying"):
                yield found


def _tells_now(note: ScannedNote, hit: Hit) -> bool:
    text, first = note.text, note.sentence(hit.start)[0]
    low = max(first, hit.start - 30)
    if _NOT_NOW.search(text, low, hit.start):
        return False
    if hit.word in ("live", "reside"):
        return _DOES.search(text, low, hit.start) is not None
    if hit.word in ("living", "residing", "staying"):
        return hit.start == note.opening(hit.start) or _IS_LIVING.search(text, low, hit.start) is not None
    return True


def _read(text: str, hit: Hit, follows: re.Match[str], last: int) -> Dwelling:
    stop = _STOP.search(text, hit.end, min(last, hit.end + 130))
    end = stop.start() if stop else min(last, hit.end + 130)
    company = bool(follows.group("alone") or follows.group("with"))
    patterns: tuple[tuple[Place, re.Pattern[str]], ...] = (("home", _CARE), ("shelter", _SHELTER), ("home", _HOME))
    for place, pattern in patterns:
        match = pattern.search(text, hit.end, end)
        if match:
            described = place == "home" and (
                _DESCRIBED.match(text, match.end()) or _HOUSE.search(text, match.end(), last)
            )
            more = company or re.match(_WITH + "|" + _ALONE, text[match.end() : end], re.IGNORECASE) is not None
            return Dwelling(hit.end, *match.span(), "fixed" if described else place, more)
    named = (
        follows.group("in") is None
        or hit.word in ("stays", "staying")
        or _REGION.match(text, follows.end()) is not None
    )
    start, end = follows.span("local") if follows.group("local") else (hit.end, hit.end)
    return Dwelling(hit.end, start, end, "fixed" if _HOUSE.search(text, hit.end, last) or not named else "open", True)
