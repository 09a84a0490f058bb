"""The people in a note, and whom a description is about.

Relatives, newborns, donors and providers are not the patient. A description is about somebody else if it is in a family
history, if its head noun is a relative or a donor ("85 year old mother", "45 yo male donor"), or if a relative is the
subject before it in the same sentence ("mother is 82yo and obese"). A relative who only accompanies the patient
("brought in by his daughter", "per his wife") is not a subject.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palpate.perturb.characteristics.reading import ScannedNote

REMEMBERED = 4096
"""How many answers about the words beside a position are kept: a note is read a dozen times, altered and not."""
_MALE = (
    "father dad daddy stepfather grandfather grandpa brother stepbrother son stepson grandson uncle nephew husband "
    "boyfriend"
)
_FEMALE = (
    "mother mom mommy mum stepmother grandmother grandma sister stepsister daughter stepdaughter granddaughter aunt "
    "niece wife girlfriend"
)
_EITHER = (
    "cousin cousins sibling siblings parent parents child children kid kids grandchild grandchildren grandparent "
    "grandparents twin twins partner spouse fiance fiancee family relative relatives"
)
_PLURAL = "fathers brothers sons uncles nephews sisters daughters aunts nieces mothers grandmothers grandfathers"
_STRANGERS = (
    "friend friends neighbor neighbors neighbour roommate caregiver caretaker donor donors newborn newborns baby "
    "babies infant infants neonate neonates fetus fetal foetus surrogate assailant bystander chaperone"
)
SPOUSES = {"wife": "husband", "girlfriend": "boyfriend", "fiancee": "fiance"}
SIDES = frozenset(["maternal", "paternal", "mat", "pat", "mgm", "mgf", "pgm", "pgf", "fam"])
GENDER_OF_KIN: dict[str, str] = {
    **dict.fromkeys(_MALE.split(), "male"),
    **dict.fromkeys(_FEMALE.split(), "female"),
    **{"fiance": "male", "fiancee": "female"},
}
RELATIVES = frozenset((_MALE + " " + _FEMALE + " " + _EITHER + " " + _PLURAL).split())
OTHERS = RELATIVES | frozenset(_STRANGERS.split())
CHILDREN = ("son", "sons", "daughter", "daughters", "child", "children", "kid", "kids")
PARENTS = ("mother", "father", "mom", "dad", "mum")
NOUNS = ("man", "woman", "male", "female", "gentleman", "lady", "boy", "girl")
"""The nouns that say who the patient is."""
PERSON = "|".join((*NOUNS[:6], "patient", "pt"))
"""The same for an adult, as alternatives of a regular expression."""
DENIALS = r"not|no|never|denie[sd]|denying|without|neither|nor"
"""Words that deny what follows them, as alternatives of a regular expression."""
SOME = r"(?:\d|one|two|three|four|five|six|seven|eight|nine|ten)\b"
PATIENT = ("patient", "patients", "pt", "pts")
_NOT_PATIENT = re.compile(r"\s?/\s?(?:INR|a?PTT|OT|SLP|ST)\b|\s?[:=]?\s*\d", re.IGNORECASE)
_PT_DOES = re.compile(
    r"(?:['’]S\b|['’]s\b|\s+(?:is|was|has|had)\b(?!\s+(?:been\s+)?(?:recommended|consulted|ordered|prolonged|elevated|normal|checked|working|"
    r"following|continued|started|unavailable|\d))|\s+(?:presents?|presented|reports?|reported|denies|denied|states?|stated|c/o|complain|"
    r"admitted|with|who|lives|s/p|seen|came|h/o|p/w|appears|brought|transferred|tolerated|remains)\b)",
    re.IGNORECASE,
)
_BEFORE_PT = re.compile(
    r"\b(?:by|per|with|from|home|outpatient|inpatient|for|of|to|and|continue|start|begin|via|in|formal)\s+$|[/,]\s*$",
    re.IGNORECASE,
)


_NAMED_SO = re.compile(r"\b(?:Mr|Mrs|Ms|Miss)\.?[ \t]+(?:[A-Z][\w-]*[ \t]+)?$")
"""A made-up name: "Mr. Sample Patient"."""


_BORN_TO = re.compile(
    r"\b(?:born|delivered)\s+(?:\w+\s+){0,6}?to\s+(?:an?|the|this)?\s*(?:[\w-]+\s+){0,6}$|"
    r"\b(?:(?:born|delivered)\b[^.;]*\b(?:to|by)|(?:infant|newborn|neonate|baby)(?:\s+(?:boy|girl))?\s+of)"
    r"\s+an?\s+(?:[\w/+>-]+\s+){0,6}$",
    re.IGNORECASE,
)
""" "Born by C-section to a 28-year-old woman", "infant of a 28-year-old primigravida"."""


def is_born_to(note: ScannedNote, first: int, start: int) -> bool:
    """Whether what starts here is a newborn's mother; `first` is where the sentence begins."""
    return _BORN_TO.search(note.text, max(first, start - 160), start) is not None


def means_patient(text: str, start: int, end: int) -> bool:
    """Whether a word is the patient: "PT" may be a prothrombin time or physical therapy, "Patient" a made-up name."""
    if text[start:end] == "Patient":
        return _NAMED_SO.search(text, max(0, start - 24), start) is None
    if end - start > 2:
        return True
    if _NOT_PATIENT.match(text, end):
        return False
    if text[start:end] != "PT":
        return True
    return _PT_DOES.match(text, end) is not None and _BEFORE_PT.search(text, max(0, start - 14), start) is None


_HEADS = sorted((OTHERS | SIDES) - {"family", "relative", "relatives", "fam"})
_HEAD = re.compile(
    r"(?:(?:[\t\x20-]|\n(?=[\t\x20]*(?-i:[a-z])))+(?!with\b|who\b|and\b|has\b|is\b|was\b|presents?\b|history\b|whose\b|in\b|for\b|at\b|to\b|of\b|by\b|as\b|w\b|here\b|lives\b|seen\b|brought\b|accompanied\b|per\b|on\b|an?\b|from\b|after\b|had\b|due\b|taking\b|using\b|since\b|referred\b|admitted\b|transferred\b)[A-Za-z-]+)"
    r"{0,3}?(?:[ \t-]|\n(?=[ \t]*(?-i:[a-z])))+(?:" + "|".join(_HEADS) + rf")\b(?!['’]s\b)(?!\s+of\s+{SOME})",
    re.IGNORECASE,
)
_COMPANION = re.compile(
    r"\b(?:with|by|per|to|from|via|and|of|for|called|contacted|asked|told|calls?|contact|see|saw|visits?|helping)\s+"
    r"(?:(?:his|her|the|their|an?|pt'?s|patient['’]?s|patient's|[A-Za-z]+['’]s|own|elderly|oldest|youngest|older|younger|"
    r"adult|former|ex)[\s-]+){0,3}$",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"(?:-in-law)?(?:\s+\w+){0,2}?\s*(?:,?\s*(?:who|which)\b|\(|:|-\s|\b(?:is|was|are|were|aged?|died|deceased)\b|"
    r",\s*(?:an?|age|aged|\d)\b)",
    re.IGNORECASE,
)
OF_SOME = re.compile(rf"\s+of\s+{SOME}", re.IGNORECASE)
"""A "mother of two" is the patient."""
_HAS_BEFORE = re.compile(
    r"\b(?:has|have|had|having|lost|raised|raising)\s+(?:(?:an?|no|one|two|three|four|five|six|seven|\d+|several|many|grown|adult|"
    r"healthy|living|young|adopted|biological|other|another|and|sons?|daughters?|children|child|brothers?|sisters?|stepchildren)\s+){0,6}$",
    re.IGNORECASE,
)
_AND_GOES_ON = re.compile(
    r",?\s+and\s+(?:(?:he|she|they)\s+)?(?:is|was|has|had|lives|works|worked|smokes|denies|reports|does|retired)\b",
    re.IGNORECASE,
)
"""In "she has three children and is a widow", the widow is she."""
_PATIENT_AGAIN = re.compile(r"\b(?:patient|pt|who presents|mr|mrs|ms)\b", re.IGNORECASE)
_OF_OTHERS = re.compile(
    r"\b(?:donor|fetal|another|unrelated|fetus)\s+(?:\w+\s+){0,2}$|\b(?:same|other|opposite)\s+$", re.IGNORECASE
)


_CHILD_WHO_IS_ILL = re.compile(
    r"(?:\b(?:in|is|was|were|report|reports|describe|describes|present|presents|case\s+of|this)\s+(?:an?\s+|the\s+|this\s+)?|"
    r"^\W*(?:An?|This|The)\s+)(?:[\w-]+\s+){0,2}$|^\W*$",
    re.IGNORECASE,
)
""" "We report a 10-year-old child", unlike "she has a 10-year-old child"."""
_WARD = re.compile(r"(?:['’]s)?\s+(?:hospital|clinic|ward|emergency)\b", re.IGNORECASE)
_IN_A = re.compile(r"\bin\s+an?\s+(?:\w+\s+)?$|\bwell[\s-]+$", re.IGNORECASE)
""" "In a child", "well child visit"."""


def belongs_to_patient(note: ScannedNote, start: int, end: int) -> bool:
    """Whether a description (an age, a noun, a word for a group) at this position is about the patient."""
    text = note.text
    if note.in_family(start):
        return False
    head = _head(text[end : end + 60])
    first, _ = note.sentence(start)
    if head is not None and note.sentence_number(end + len(head)) == note.sentence_number(start):
        child = head.lower().endswith("child") and _CHILD_WHO_IS_ILL.search(text, max(first, start - 50), start)
        if not child:
            return False
    if _is_of_others(text[max(first, start - 60) : start]):
        return False
    return not has_other_subject(note, start)


@lru_cache(maxsize=REMEMBERED)
def _head(after: str) -> str | None:
    """What follows a description up to a relative or a donor who is its head noun, if one is."""
    head = _HEAD.match(after)
    return head.group() if head else None


@lru_cache(maxsize=REMEMBERED)
def _is_of_others(before: str) -> bool:
    return bool(_BORN_TO.search(before) or _OF_OTHERS.search(before))


def is_had(text: str, start: int) -> bool:
    """Whether a relative is only counted: "he has two grown sons"."""
    return _HAS_BEFORE.search(text, max(0, start - 50), start) is not None


def has_other_subject(note: ScannedNote, start: int, *, people: frozenset[str] = OTHERS) -> bool:
    """Whether somebody else is the subject before a position in its sentence."""
    text = note.text
    first, _ = note.sentence(start)
    for hit in reversed(note.hits("people")):
        if hit.start >= start or hit.word not in people:
            continue
        if hit.start < first:
            break
        between = text[hit.end : start]
        if (
            OF_SOME.match(between)
            or (hit.word in ("kids", "children") and _WARD.match(between))
            or (hit.word == "child" and _IN_A.search(text, max(first, hit.start - 24), hit.start))
        ):
            continue
        if _PATIENT_AGAIN.search(between):
            return False
        if _AND_GOES_ON.match(between) and is_had(text, hit.start):
            continue
        if _PREDICATE.match(between):
            return True
        if not _COMPANION.search(text[max(first, hit.start - 50) : hit.start]) and not between.startswith(("'s", "’s")):
            return True
    return False
