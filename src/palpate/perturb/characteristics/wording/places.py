"""Where a mention is added to a note that has none: at the phrase that introduces the patient, or at "This patient".

A clinician writes "a 63-year-old Hispanic man", "this Hispanic patient presents with", and not "Hispanic Female
Reproductive History:" or "a new Hispanic patient".
"""

from __future__ import annotations

import re

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.reading.patient import DescribedPatient, Description
from palpate.perturb.characteristics.reading.people import belongs_to_patient

_TITLE = re.compile(
    r"[\s-]+(?:[A-Za-z/&]+\s+){0,3}(?:Hx|History|Exam|Examination|Reproductive|Genitalia|Health|Organs?|System)\b[^.\n]{0,20}:"
    r"|\s*:"
)
_NEW = re.compile(r"\b(?:new|established|returning|clinic|baby|newborn|infant)\s+$", re.IGNORECASE)
_PRESENTS = re.compile(
    r"\s+(?:(?:now|again|today|recently|initially|also)\s+)?(?:presents?|presented|comes?|came|returns?|returned|"
    r"is\s+(?:here|seen|being\s+seen|admitted|referred|known|an?|in)|was\s+(?:seen|admitted|referred|brought|transferred|"
    r"found|evaluated)|has\s+(?:been|had|a|an)|is\s+well|complains?|complained|with|who)\b",
    re.IGNORECASE,
)
_THIS = re.compile(r"\bthis\s+$", re.IGNORECASE)


def mention_places(patient: DescribedPatient) -> list[Description]:
    """The places for a mention, none of them in a heading; "This patient presents" is one if there is no better."""
    note = patient.note
    found = [place for place in patient.places if not _is_title(patient, place)]
    if found:
        return [_before_new(patient, place) for place in found]
    for hit in note.hits("patient"):
        if hit.word not in ("patient", "pt") or not _PRESENTS.match(note.text, hit.end):
            continue
        opens = hit.start == note.opening(hit.start)
        if not opens and not _THIS.search(note.text, max(0, hit.start - 8), hit.start):
            continue
        if belongs_to_patient(note, hit.start, hit.end):
            return [Description(hit.start, (hit.start, hit.end), None)]
    return []


def _is_title(patient: DescribedPatient, place: Description) -> bool:
    return place.noun is not None and place.age is None and _TITLE.match(patient.note.text, place.noun[1]) is not None


def _before_new(patient: DescribedPatient, place: Description) -> Description:
    new = _NEW.search(patient.note.text, max(0, place.place - 12), place.place)
    return place._replace(place=new.start()) if new else place


def small_patient(patient: DescribedPatient, description: Description) -> list[Edit]:
    """The small letter of a "Patient" that no longer opens its sentence."""
    start = description.place
    if description.noun and description.noun[0] == start and patient.note.text[start : start + 2] in ("Pa", "Pt"):
        return [Edit(start, start + 1, "p")]
    return []
