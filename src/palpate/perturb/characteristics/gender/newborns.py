"""Newborns: a baby who is the patient, and one of the patient's gender in the note of its mother."""

from __future__ import annotations

import re

from palpate.perturb.characteristics.gender.owners import pronouns
from palpate.perturb.characteristics.reading import Hit
from palpate.perturb.characteristics.reading.patient import DescribedPatient

_BABY = re.compile(r"\b(?:baby|newborn|neonate|infant)\s+$", re.IGNORECASE)
_BABY_NEXT = re.compile(r"\s+(?:infant|newborn|neonate|baby)\b", re.IGNORECASE)
_BABY_OPENS = re.compile(r"(?:^|[:.\n])\s*baby\s+$", re.IGNORECASE)
_LAST_NAMED = re.compile(
    r"\b(?P<who>patient|pt|baby|babies|infants?|newborns?|neonates?|girls?|boys?|child(?:ren)?|twins?|daughters?|sons?|mother|mom)\b",
    re.IGNORECASE,
)
"""Whoever a pronoun in such a note may stand for."""


def is_newborn(patient: DescribedPatient, hit: Hit) -> bool:
    """ "Baby boy Smith was born at 36 weeks": the patient, if the note has no other."""
    if hit.word not in ("boy", "girl") or patient.descriptions:
        return False
    note = patient.note
    return bool(_BABY_OPENS.search(note.text, max(0, hit.start - 9), hit.start)) and not note.in_family(hit.start)


def has_newborn_alike(patient: DescribedPatient, base: str) -> bool:
    """A "baby boy" in the note of a man, or a newborn ("newborn male infant") that may be the patient.

    In a note that says who the patient is, every pronoun after the newborn may come right after the patient: "Delivered
    a female infant. The patient went home. She is well."
    """
    words = ("girl", "female") if base == "female" else ("boy", "male")
    text = patient.note.text
    babies = [
        hit.end
        for hit in patient.note.hits("noun")
        if hit.word in words
        and not is_newborn(patient, hit)
        and (_BABY.search(text, max(0, hit.start - 9), hit.start) or _BABY_NEXT.match(text, hit.end))
    ]
    if patient.is_infant or not babies:
        return False
    described = [one.noun for one in patient.descriptions if one.noun]
    return not described or not _all_after_patient(patient, base, min(babies))


def _all_after_patient(patient: DescribedPatient, base: str, start: int) -> bool:
    """Whether "patient" is the last person named before each pronoun, in its sentence or the one before."""
    note = patient.note
    for hit, gender in pronouns(note):
        if hit.start < start or gender != base:
            continue
        first, _ = note.sentence(hit.start)
        before = note.sentence(first - 1)[0] if first else 0
        named = [match["who"].lower() for match in _LAST_NAMED.finditer(note.text, before, hit.start)]
        if not named or named[-1] not in ("patient", "pt"):
            return False
    return True
