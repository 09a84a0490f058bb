"""Whether a note is about a newborn or an infant, whose age is in days, weeks or months."""

from __future__ import annotations

import re

from palpate.perturb.characteristics.reading import ScannedNote
from palpate.perturb.characteristics.reading.people import RELATIVES, has_other_subject

_INFANT = re.compile(
    r"(?:\d{1,3}|\w+)[\s-]*(?:days?|weeks?|wks?|months?|mos?)[\s-]*(?:old|of\s+age)?[\s,-]+(?:[a-z-]+\s+){0,3}?"
    r"(?:male|female|infant|baby|boy|girl|newborn|neonate|twin|gestation)\b",
    re.IGNORECASE,
)
_INFANT_ALONE = re.compile(
    r"\b(?:is|was|this)\s+(?:an?\s+)?(?:[a-z]+\s+)?(?:\d{1,3}|[a-z]+)[\s-]*(?:days?|weeks?|wks?|months?|mos?)[\s-]*old\b"
    r"(?=\s*(?:[.,]|with\b|who\b|here\b|in\b|brought\b|presents))",
    re.IGNORECASE,
)
""" "The patient is an 11-month-old with cough"."""
_YEARS_TOO = re.compile(r"years?[\s,-]+(?:and\s+)?$", re.IGNORECASE)
"""A child of 5 years and 4 months is no infant."""


def speaks_of_infant(note: ScannedNote) -> bool:
    """Whether the patient is a newborn or an infant, whose age is in days, weeks or months."""
    for hit in note.hits("infant_unit"):
        first, _ = note.sentence(hit.start)
        match = _INFANT.search(note.text, max(first, hit.start - 8), min(len(note.text), hit.end + 60))
        match = match or _INFANT_ALONE.search(note.text, max(first, hit.start - 24), min(len(note.text), hit.end + 20))
        if match is None or _YEARS_TOO.search(note.text, max(first, hit.start - 14), match.start()):
            continue
        if not note.in_family(hit.start) and not has_other_subject(note, match.start(), people=RELATIVES):
            return True
    return False
