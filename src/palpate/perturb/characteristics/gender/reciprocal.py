"""What a relative calls the patient: "her son, who says his mother is confused", "mother states her son is ill".

The word for the person whose son, sister or mother the relative is means the patient, if the relative reports and the
pronoun before the word can only be the relative's own. If it may also be the patient's ("his son says his father
fell"), or nobody reports, grammar does not decide who is meant.
"""

from __future__ import annotations

import re

from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN

DOUBT = "a relative's word may mean the patient"
COUNTERPARTS = {
    "mother": "father", "mom": "dad", "mommy": "daddy", "stepmother": "stepfather", "grandmother": "grandfather",
    "grandma": "grandpa", "sister": "brother", "stepsister": "stepbrother", "daughter": "son",
    "stepdaughter": "stepson", "granddaughter": "grandson", "aunt": "uncle", "niece": "nephew",
}  # fmt: skip
"""The male word for each female one."""
_CHILDREN = "son daughter stepson stepdaughter sons daughters children kids child"
_PARENTS = "mother father mom dad mommy daddy mum stepmother stepfather parents"
_CALLS = (
    (_CHILDREN, _PARENTS),
    (_PARENTS, "son daughter stepson stepdaughter"),
    ("brother sister stepbrother stepsister brothers sisters siblings", "brother sister stepbrother stepsister"),
    ("grandson granddaughter grandchildren", "grandmother grandfather grandma grandpa"),
    ("grandmother grandfather grandma grandpa grandparents", "grandson granddaughter"),
    ("nephew niece", "aunt uncle"),
    ("aunt uncle", "niece nephew"),
)
_CALLED_BY = {relative: frozenset(words.split()) for names, words in _CALLS for relative in names.split()}
_OWNED = re.compile(r"\b(?P<owner>his|her|their)\s+(?:(?:elderly|own|dear|poor|\d+\s?(?:yo|y/o))\s+)?$", re.IGNORECASE)
_REPORTS = re.compile(
    r"(?:-in-law)?(?:\s*\([^)]*\)|,[^,.;]{1,30},|,)?\s+(?:who\s+|he\s+|she\s+|they\s+|also\s+|then\s+|was\s+|were\s+|is\s+|are\s+|at\s+bedside\s+|has\s+|have\s+|and\s+)*"
    r"(?:report|stat|say|said|not(?:e|ic)|found|brought|brings|call|think|thought|feel|felt|believ|describ|mention|t[eo]ll|"
    r"concern|worr|confirm|saw|drove|took|den[iy]|want|wish|agree|ask)",
    re.IGNORECASE,
)
_PARENT_AND = re.compile(
    r"\b(?:mother|father|mom|dad|parents?|family|guardian|grandmother|grandfather)\s+and\s+(?:the\s+|their\s+)?$",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"[\s,\-*•]*(?:he|she|they)\s+(?:also\s+|further\s+)?(?:states?|stated|reports?|reported|says|said|notes|noted|thinks|feels|believes|tells|"
    r"told|is\s+(?:very\s+)?(?:concerned|worried))\b[^.;]{0,30}\b(?:his|her|their)\s+$",
    re.IGNORECASE,
)
_THE = re.compile(r"\b(?:the|their|this)\s+$", re.IGNORECASE)
_LAW = re.compile(r"-in-law")
_LISTED = re.compile(r"\b(?:and|,)\s+(?:his|her)\s+$", re.IGNORECASE)
_SAID = re.compile(r"\b(?:that|says|said|states|stated|reports|reported|thinks|feels|noticed|found)\s+$", re.IGNORECASE)


def find_reciprocal(note: ScannedNote, base: str, *, child: bool = False) -> tuple[list[Hit], bool]:
    """The words that mean the patient, and whether another word may; a child is also the "son" of "mother and son"."""
    found: list[Hit] = []
    doubt = False
    people = note.hits("people")
    for number, hit in enumerate(people):
        if GENDER_OF_KIN.get(hit.word) != base or hit.word not in _CALLED_WORDS or note.in_family(hit.start):
            continue
        if child and hit.word in ("son", "daughter") and _is_parents_child(note, people[:number], hit):
            found.append(hit)
            continue
        doubt |= _is_told_by_child(note, hit)
        relative = _relative_before(note, people[:number], hit)
        owner = _owner(note, hit) if relative else None
        if relative is None or owner is None:
            continue
        can_be_patients = owner == ("his" if base == "male" else "her")
        reports = _REPORTS.match(note.text, relative.end) is not None
        if reports and not can_be_patients:
            found.append(hit)
        elif owner in ("his", "her"):
            parent = relative.word in _CHILDREN.split() and not _LISTED.search(note.text, relative.end, hit.start)
            doubt |= reports or not can_be_patients or parent
    return found, doubt


def _is_parents_child(note: ScannedNote, people: list[Hit], hit: Hit) -> bool:
    """ "Mother and son agreed", "the mother states that the daughter is well"."""
    if _PARENT_AND.search(note.text, max(0, hit.start - 24), hit.start):
        return True
    first, _ = note.sentence(hit.start)
    parent = people and people[-1].start >= first and people[-1].word in _PARENTS.split()
    return bool(parent) and _THE.search(note.text, max(first, hit.start - 8), hit.start) is not None


def _is_told_by_child(note: ScannedNote, hit: Hit) -> bool:
    """ "Seen with her daughter. She states that her mother fell": the daughter's mother is the patient."""
    first, _ = note.sentence(hit.start)
    if hit.word not in _PARENTS.split() or first == 0 or not _STATES.match(note.text, first, hit.start):
        return False
    before, _ = note.sentence(first - 1)
    return any(before <= person.start < first and person.word in _CHILDREN.split() for person in note.hits("people"))


def _owner(note: ScannedNote, hit: Hit) -> str | None:
    """The pronoun before the word; "" if a child says "mom" without one."""
    if _LAW.match(note.text, hit.end):
        return None
    low = max(0, hit.start - 20)
    owned = _OWNED.search(note.text, low, hit.start)
    if owned:
        return owned.group("owner").lower()
    return "" if hit.word in _PARENTS.split() and _SAID.search(note.text, low, hit.start) else None


_CALLED_WORDS = frozenset().union(*_CALLED_BY.values()) & frozenset((*COUNTERPARTS, *COUNTERPARTS.values()))


def _relative_before(note: ScannedNote, people: list[Hit], hit: Hit) -> Hit | None:
    """The nearest person before the word in its sentence, if such a relative uses this word for the patient."""
    first, _ = note.sentence(hit.start)
    nearest = people[-1] if people and people[-1].start >= first else None
    if nearest is None or hit.word not in _CALLED_BY.get(nearest.word, ()):
        return None
    return nearest
