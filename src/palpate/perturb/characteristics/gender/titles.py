"""Titles: Mr., Mrs., Ms. and Miss before the patient's name, and not before somebody else's.

If titles stand before several names, the patient's is the one that introduces the patient ("Mrs. Lopez is a 70-year-old
woman") or, failing that, the most frequent one; the others are left alone and marked.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from palpate.perturb.characteristics.gender.firstnames import is_first_name
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import RELATIVES

TRIGGERS = ("mr", "mrs", "ms", "miss", "master")
COUPLE = "a couple, both of whom may be patients"
TWO = "two people with a title, and which is the patient is unclear"
_TITLE = re.compile(
    r"(?:Mr|Mrs|Ms|Miss)\b(?=\.?\s+(?:\[\*\*(?!\d)|_{2,}|[A-Z]))"
    r"|(?<!\ba\s)(?<!\bthe\s)(?<![-’'])Master\b"
    r"(?=\s+[A-Z][a-z]+(?:\s+[A-Z][a-z'’-]+)?(?:,\s|\s+(?:is|was|has|had|presents?|presented|came)\b|\s*\())"
    r"|(?:MR|MRS|MS|MISS)\b(?=\.\s+(?:\[\*\*(?!\d)|[A-Z]{2,}\b|[A-Z]\b))"
)
_SMALL = re.compile(
    r"(?:mr|mrs|ms)\b(?=\.\s+(?!(?:he|she|his|her|the|patient|pt|no|not|this|there|has|had|is|was|denies|and|with)\b)"
    r"(?:[a-z]{2,}|[a-z]\s+(?:is|was|did|has|had|continues|reports?|denies|states?)\b))"
)
"""A title in a note that is all in small letters, where "mr" may also be a mitral regurgitation."""
_FINDING = re.compile(
    r"(?:\b(?:severe|moderate|mild|trace|mod|no|with|has|had|of|significant|known|and|from|for|or)|\+|:|,)\s+$"
)
_DOES = re.compile(
    r"\.\s+[a-z'’-]+(?:['’]s\b|\s+(?:also\s+|then\s+)?(?:is|was|has|had|reports?|notes?|denies|states?|presents?|presented|complains|"
    r"describes?|underwent|returns?|endorses?|continues|would|will|did|does|came|comes)\b)"
)
"""What a person does, and a regurgitation does not: "regarding his diabetes, mr. walker reports"."""
_TWO = re.compile(r"\.?\s+(?:and|&)\s+(?:Mr|Mrs|Ms)\b")
_TWO_BEFORE = re.compile(r"(?:Mr|Mrs|Ms)\.?\s+(?:and|&)\s+$|\b(?:" + "|".join(sorted(RELATIVES)) + r")[\s,(]+$")
_COUPLE = re.compile(r"\b(?:Mr\.?\s+(?:and|&)\s+(?:Mrs|Ms)|(?:Mrs|Ms)\.?\s+(?:and|&)\s+Mr)\b")
_NAME = re.compile(r"\.?\s+(?P<name>[A-Z][\w-]*(?:[ \t]+[A-Z][\w-]+){0,2})")
_INTRODUCES = re.compile(r"(?:['’]s)?,?\s+(?:is|was)\s+(?:an?|the)\s+(?:[\w-]+,?\s+){0,3}\d", re.IGNORECASE)
COLLEAGUE_BEFORE = re.compile(
    r"\b(?:patient\s+of|(?:referred|seen|followed|evaluated|performed|dictated|ordered|sent|supervised|accompanied|reviewed|r/v|operated\s+on)\s+by|\bd/w|\bunder|by\s+his|by\s+her)\s+$",
    re.IGNORECASE,
)
_COLLEAGUE_AFTER = re.compile(
    r"(?:,\s*|\s*\()(?:(?:the|an?|his|her|our|my|patient['’]s)\s+)?(?:\w+\s+)?(?:social\s+worker|nurse|NP|PA-?C?|RN|LPN|MSW|LCSW|CRNA|MD|DO|PhD|"
    r"therapist|physician|interpreter|case\s+manager|teacher|counselor|principal|guardian|lawyer|attorney|secretary|audiologist|"
    r"dietitian|dietician|" + "|".join(sorted(RELATIVES)) + r")\b"
)


class Titles(NamedTuple):
    """The titles of the patient, those of others, and whether it is unclear which are which."""

    own: list[Hit]
    others: list[Hit]
    unclear: bool


def find_titles(note: ScannedNote) -> Titles:
    """All titles of a note, by whose they are."""
    hits = [hit for hit in note.hits("title") if _is_title(note, hit)]
    others = [hit for hit in hits if _is_colleagues(note, hit)]
    own = [hit for hit in hits if hit not in others]
    names = {hit: _last_name(note, hit) for hit in own}
    if len({name for name in names.values() if name}) < 2:
        return Titles(own, others, unclear=False)
    introduced = next((names[hit] for hit in own if names[hit] and _introduces(note, hit)), None)
    counts = Counter(name for name in names.values() if name).most_common(2)
    unclear = introduced is None and counts[0][1] < 2 * counts[1][1]
    patient = introduced or counts[0][0]
    mine = [hit for hit in own if names[hit] in (None, patient)]
    return Titles(mine, sorted((*others, *(hit for hit in own if hit not in mine))), unclear)


def has_couple(note: ScannedNote) -> bool:
    """Whether the note is about two people: "Mr and Mrs Hall attended"."""
    hits = (hit for hit in note.hits("title") if not note.in_family(hit.start))
    return any(_COUPLE.match(note.text, hit.start) for hit in hits)


def _is_title(note: ScannedNote, hit: Hit) -> bool:
    text = note.text
    if (
        not (_TITLE.match(text, hit.start) or _is_small(note, hit))
        or _TWO.match(text, hit.end)
        or note.in_family(hit.start)
    ):
        return False
    if _TWO_BEFORE.search(text, max(0, hit.start - 15), hit.start):
        return False
    return not text[hit.start : hit.end].isupper() or _capitals_before(note, hit)


def _is_small(note: ScannedNote, hit: Hit) -> bool:
    """Whether this is "mr. jones" in a note without capitals."""
    text = note.text
    if not _SMALL.match(text, hit.start) or not text.islower():
        return False
    if hit.start == note.opening(hit.start) or _DOES.match(text, hit.end):
        return True
    return _FINDING.search(text, max(0, hit.start - 20), hit.start) is None


def _capitals_before(note: ScannedNote, hit: Hit) -> bool:
    """Whether MR. SMITH opens a sentence or is among capitals, unlike "severe MR. TTE"."""
    return not any(letter.islower() for letter in note.text[note.sentence(hit.start)[0] : hit.start][-40:])


def _is_colleagues(note: ScannedNote, hit: Hit) -> bool:
    if COLLEAGUE_BEFORE.search(note.text, max(0, hit.start - 30), hit.start):
        return True
    name = _NAME.match(note.text, hit.end)
    return name is not None and _COLLEAGUE_AFTER.match(note.text, name.end()) is not None


def _last_name(note: ScannedNote, hit: Hit) -> str | None:
    """The last name after a title; None for a mask."""
    match = _NAME.match(note.text, hit.end)
    if match is None:
        return None
    names = match.group("name").split()
    if note.text[hit.start : hit.end].isupper():  # in capitals, what follows is no longer the name: MR. WALKER REPORTS
        names = names[:2] if is_first_name(names[0]) else names[:1]
    return names[-1].lower()


def _introduces(note: ScannedNote, hit: Hit) -> bool:
    match = _NAME.match(note.text, hit.end)
    return match is not None and _INTRODUCES.match(note.text, match.end()) is not None
