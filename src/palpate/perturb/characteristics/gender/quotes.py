"""Pronouns in somebody's own words: in what the patient says ("he hit my car" per pt) he is somebody else."""

from __future__ import annotations

import re

from palpate.perturb.characteristics.people import RELATIVES
from palpate.perturb.characteristics.scan import Note

_QUOTE = re.compile(r"\"[^\"\n]{1,240}\"|“[^”\n]{1,240}”")
_FIRST_PERSON = re.compile(r"\b(?:I|I['’]\w+|me|my|mine|myself|we|our|us)\b")
_PATIENT = re.compile(r"\b(?:patient|pt|he|she)\b(?!['’]s)", re.IGNORECASE)
_PER_PATIENT = re.compile(
    r"[.,]?\s*,?\s*(?:-+\s*)?(?:per|according\s+to|states?|says?)\s+(?:the\s+)?(?:patient|pt)\b(?!['’]s)", re.IGNORECASE
)
_SOMEBODY = re.compile(
    r"\b(?:"
    + "|".join(sorted(RELATIVES))
    + r"|friend|neighbor|roommate|caregiver|EMS|RN|nurse|staff|aide|PCP|police|bystander)\b",
    re.IGNORECASE,
)


def quotes(text: str) -> list[tuple[int, int]]:
    """The spans of what is quoted, in order."""
    return [match.span() for match in _QUOTE.finditer(text)] if '"' in text or "“" in text else []


def speaker_means_another(note: Note, start: int, end: int) -> bool | None:
    """Whether "he" in a quotation is not the patient, who speaks; None where it may be the patient who speaks."""
    text = note.text
    if _PER_PATIENT.match(text, end):
        return True
    first, _ = note.sentence(start)
    after = text[end : min(note.sentence(end - 1)[1], end + 30)]
    if _SOMEBODY.search(text, first, start) or _SOMEBODY.search(after):
        return False
    if not _FIRST_PERSON.search(text, start, end):
        return False
    return True if _PATIENT.search(text, first, start) else None
