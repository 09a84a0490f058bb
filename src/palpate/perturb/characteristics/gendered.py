"""The words that tell the patient's gender, each with its wording for female and male.

Headers, nouns, letters, titles and roles here; pronouns with the rules of `owners`, spouses with their pronouns.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from palpate.perturb.characteristics.describe import NOUNS, Patient
from palpate.perturb.characteristics.owners import Pronoun, PronounOwners, pronouns
from palpate.perturb.characteristics.people import GENDER_OF_KIN, RELATIVES, belongs_to_patient
from palpate.perturb.characteristics.pronouns import her_is_object, his_stands_alone
from palpate.perturb.characteristics.scan import Hit, Note

TO_FEMALE = {
    "man": "woman", "male": "female", "gentleman": "lady", "boy": "girl", "m": "f", "he": "she", "him": "her",
    "himself": "herself", "mr": "ms", "widower": "widow", "waiter": "waitress", "policeman": "policewoman",
    "businessman": "businesswoman", "salesman": "saleswoman", "househusband": "housewife", "transman": "transwoman",
    "husband": "wife", "boyfriend": "girlfriend", "fiance": "fiancee", "father": "mother", "grandfather": "grandmother",
    "latino": "latina", "filipino": "filipina", "fatherhood": "motherhood",
}  # fmt: skip
TO_MALE = {female: male for male, female in TO_FEMALE.items() if female != "her"} | {
    "mrs": "mr",
    "miss": "mr",
    "hers": "his",
}
_ROLES = (
    "widow widower waiter waitress policeman policewoman businessman businesswoman salesman saleswoman housewife "
    "househusband latino latina filipino filipina fatherhood motherhood"
)
_PARENTS = frozenset(["father", "mother", "grandfather", "grandmother"])
_SPOUSES = "husband wife boyfriend girlfriend fiance fiancee"
_HEADER = re.compile(r"(?:sex|gender)[ \t]*(?::|=)[ \t]*(?P<value>male|female|[MF])\b(?!\s?/)", re.IGNORECASE)
_TITLE = re.compile(
    r"(?:Mr|Mrs|Ms|Miss)\b(?=\.?\s+(?:\[\*\*(?!\d)|_{2,}|[A-Z]))"
    r"|(?:MR|MRS|MS|MISS)\b(?=\.\s+(?:\[\*\*(?!\d)|[A-Z]{2,}\b))"
)
_TWO = re.compile(r"\.?\s+(?:and|&)\s+(?:Mr|Mrs|Ms)\b")
_TWO_BEFORE = re.compile(r"(?:Mr|Mrs|Ms)\.?\s+(?:and|&)\s+$|\b(?:" + "|".join(sorted(RELATIVES)) + r")[\s,(]+$")
_SPOUSE_BEFORE = re.compile(r"\b(?:husband|wife)[\s,(]+$", re.IGNORECASE)
_PARENT_BEFORE = re.compile(
    r"\b(?:is|was|as|become|becoming|being)\s+(?:an?|the)\s+(?:(?!he|she)[\w-]+\s+){0,2}$", re.IGNORECASE
)
_PARENT_AFTER = re.compile(r"\s+of\s+(?:\d|one|two|three|four|five|six|seven|eight|nine|ten)\b", re.IGNORECASE)
_OTHERS_SPOUSE = re.compile(r"\b(?P<kin>[A-Za-z]+)(?:['’]s|\s+and\s+(?:his|her))\s+(?:[\w-]+\s+)?$", re.IGNORECASE)
_PARTNER = re.compile(r"[\s-]+(?:sexual[\s-]+)?partners?\b", re.IGNORECASE)


class Swap(NamedTuple):
    """A place and its wording for either gender; `weight` says how much it tells of the patient's gender."""

    start: int
    end: int
    gender: str
    female: str
    male: str
    weight: int = 0
    ambiguous: bool = False


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "noun": tuple(NOUNS),
        "role": (*_ROLES.split(), *sorted(_PARENTS)),
        "spouse": tuple(_SPOUSES.split()),
        "title": ("mr", "mrs", "ms", "miss"),
        "pronoun": ("he", "him", "his", "himself", "she", "her", "hers", "herself"),
        "sex": ("sex", "gender"),
        "trans": ("transgender", "transgendered", "trans", "transsexual", "mtf", "ftm"),
    }


def like(written: str, word: str) -> str:
    """A word in the capitals of another: SHE, She, she."""
    if written.isupper() and (len(written) > 1 or len(word) == 1):
        return word.upper()
    return word[0].upper() + word[1:] if written[:1].isupper() else word


def swap(note: Note, start: int, end: int, *, weight: int = 0) -> Swap:
    """The place of a gendered word with its counterpart."""
    written = note.text[start:end]
    word = written.lower()
    if word in TO_FEMALE:
        return Swap(start, end, "male", like(written, TO_FEMALE[word]), written, weight)
    return Swap(start, end, "female", written, like(written, TO_MALE[word]), weight)


def find_strong(patient: Patient) -> list[Swap]:
    """Headers, nouns, titles and roles."""
    return sorted([*_headers(patient.note), *_nouns(patient), *_titles(patient.note), *_roles(patient.note)])


def _headers(note: Note) -> list[Swap]:
    matches = [_HEADER.match(note.text, hit.start) for hit in note.hits("sex")]
    return [
        swap(note, *match.span("value"), weight=3)
        for match in matches
        if match and belongs_to_patient(note, match.start(), match.end())
    ]


def _nouns(patient: Patient) -> list[Swap]:
    note = patient.note
    spans = [description.noun for description in patient.descriptions if description.noun]
    introduced = [span for span in spans if note.text[span[0] : span[1]].lower() in (*TO_FEMALE, *TO_MALE)]
    found = [swap(note, *span, weight=3) for span in dict.fromkeys(introduced)]
    return found + [swap(note, hit.start, hit.end, weight=1) for hit in patient.plain_nouns]


def _titles(note: Note) -> list[Swap]:
    found = []
    for hit in note.hits("title"):
        if not _TITLE.match(note.text, hit.start) or _TWO.match(note.text, hit.end):
            continue
        if _TWO_BEFORE.search(note.text, max(0, hit.start - 15), hit.start) or note.in_family(hit.start):
            continue
        if note.text[hit.start : hit.end].isupper() and not _capitals_before(note, hit):
            continue
        found.append(swap(note, hit.start, hit.end, weight=1))
    return found


def _capitals_before(note: Note, hit: Hit) -> bool:
    """MR. SMITH opens a sentence or stands among capitals; "severe MR. TTE" does not."""
    before = note.text[note.sentence(hit.start)[0] : hit.start].split()
    return not before or before[-1].isupper()


def _roles(note: Note) -> list[Swap]:
    """A widow, a waitress, a mother of three."""
    found = []
    for hit in note.hits("role"):
        if note.in_family(hit.start) or note.text[max(0, hit.start - 6) : hit.start].lower() == "black ":
            continue  # a black widow is a spider
        if hit.word in _PARENTS:
            told = _PARENT_BEFORE.search(note.text, max(0, hit.start - 40), hit.start) or _PARENT_AFTER.match(
                note.text, hit.end
            )
            if not told or not belongs_to_patient(note, hit.start, hit.end):
                continue
        elif not belongs_to_patient(note, hit.start, hit.end):
            continue
        found.append(swap(note, hit.start, hit.end, weight=1))
    return found


def decide(strong: list[Swap], note: Note) -> tuple[str | None, bool]:
    """The patient's gender, and whether the note says both."""
    firm = {gender: sum(s.weight == 3 for s in strong if s.gender == gender) for gender in ("female", "male")}
    low, high = sorted(firm.values())
    if high:
        return max(firm, key=lambda gender: firm[gender]), 2 * low >= high
    weak = {gender: 2 * sum(s.gender == gender for s in strong) for gender in ("female", "male")}
    for hit, gender in pronouns(note):
        weak[gender] += not note.in_family(hit.start)
    low, high = sorted(weak.values())
    if high and 2 * low < high:
        return max(weak, key=lambda gender: weak[gender]), False
    spouses = {GENDER_OF_KIN[hit.word] for hit in note.hits("spouse") if not note.in_family(hit.start)}
    if not high and len(spouses) == 1:
        return ("female" if spouses == {"male"} else "male"), False
    return None, bool(high)


def find_people(note: Note, base: str) -> tuple[list[Swap], list[Swap]]:
    """Pronouns and spouses: those to swap, and those that are left alone."""
    owners = PronounOwners(note, base).all()
    swaps: list[Swap] = []
    left: list[Swap] = []
    for pronoun in owners:
        place = _pronoun(note, pronoun)
        if pronoun.owner == "spouse":
            place = _of_partner(place, base)
        (left if pronoun.owner == "other" else swaps).append(place)
    theirs = {pronoun.hit.start for pronoun in owners if pronoun.owner == "other"}
    for hit in note.hits("spouse"):
        if not _is_others_spouse(note, hit, theirs, base):
            swaps.append(_of_partner(swap(note, hit.start, hit.end), base))
    for hit in note.hits("title"):
        if _SPOUSE_BEFORE.search(note.text, max(0, hit.start - 14), hit.start):
            swaps.append(_of_partner(swap(note, hit.start, hit.end), base))
    for hit in note.hits("noun"):
        if hit.word in ("male", "female") and _PARTNER.match(note.text, hit.end) and not note.in_family(hit.start):
            swaps.append(_of_partner(swap(note, hit.start, hit.end), base))
    return swaps, left


def _of_partner(place: Swap, base: str) -> Swap:
    """A word about the spouse goes the other way: it is as it stands for the patient's own gender."""
    own, other = (place.female, place.male) if place.gender == "female" else (place.male, place.female)
    return place._replace(female=own if base == "female" else other, male=other if base == "female" else own)


def _pronoun(note: Note, pronoun: Pronoun) -> Swap:
    start, end, word = pronoun.hit
    written = note.text[start:end]
    ambiguous = pronoun.ambiguous
    if word == "her":
        male = "him" if her_is_object(note.text, start, end) else "his"
        return Swap(start, end, "female", written, like(written, male), 0, ambiguous)
    if word == "his":
        female = "hers" if his_stands_alone(note.text, start, end) else "her"
        return Swap(start, end, "male", like(written, female), written, 0, ambiguous)
    return swap(note, start, end)._replace(ambiguous=ambiguous)


def _is_others_spouse(note: Note, hit: Hit, theirs: set[int], base: str) -> bool:
    """His daughter's husband; her sister and her husband; his son and his wife."""
    text = note.text
    before = _OTHERS_SPOUSE.search(text, max(0, hit.start - 40), hit.start)
    if before and before.group("kin").lower() in RELATIVES:
        owner = text[before.end("kin") : hit.start].split()[-1].lower()
        kin = GENDER_OF_KIN.get(before.group("kin").lower())
        return owner not in ("his", "her") or kin is None or (kin == "male") == (owner == "his")
    return any(start in theirs for start in range(max(0, hit.start - 5), hit.start)) and base != ""
