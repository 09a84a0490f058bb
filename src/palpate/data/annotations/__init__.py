"""Annotations: spans of a note that coders marked as evidence for a code.

Evidence paper (MDACE), Sections 3 and 4. `mdace` reads and writes them in MDACE's format; `inception` reads exports of
the annotation tools INCEpTION and WebAnno, in the formats `webanno` (TSV) and `uima_cas` (JSON, XMI); `evidence_tables`
reads them as tables for the evidence audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from palpate.errors import CohortError
from palpate.privacy import hides

SETTINGS = ("Inpatient", "Profee")
SYSTEMS = ("ICD-9", "ICD-10")
CODE_SYSTEMS = ("ICD-9-CM", "ICD-9-PCS", "ICD-10-CM", "ICD-10-PCS", "CPT")
COMPLETENESS = {"Inpatient": "sufficient", "Profee": "complete"}
"""What the annotators were asked to mark: the first evidence that is sufficient, or all of it (Section 3.1)."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span of a note, in characters, and the code that it supports; `type` says how the code was found."""

    begin: int
    end: int
    code: str
    code_system: str
    type: str = "Human"
    description: str = ""


@hides("text")
@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note of a chart with its annotations, in the order of the file; `text` is None until it is merged in."""

    note_id: int
    category: str
    annotations: tuple[Annotation, ...]
    description: str = ""
    text: str | None = None


@dataclass(frozen=True, slots=True)
class AnnotatedChart:
    """An admission. `setting`, `system` and `file` say where it was read; the patient is merged in with the text."""

    hadm_id: int
    notes: tuple[AnnotatedNote, ...]
    comment: str = ""
    setting: str | None = None
    system: str | None = None
    file: Path | None = None
    subject_id: int | None = None

    @property
    def completeness(self) -> str | None:
        """Whether the evidence is sufficient or complete; None if the setting is unknown."""
        return None if self.setting is None else COMPLETENESS[self.setting]


def place_of(note_id: int, number: int | None = None) -> str:
    """The position of a note or an annotation in a chart's file, for messages; annotations are counted from 1."""
    return f"note {note_id}" + ("" if number is None else f", annotation {number}")


def check_offsets(note: AnnotatedNote, file: Path | None) -> None:
    """Raise an error if a span goes beyond the end of its note's text."""
    if note.text is None:
        return
    for number, annotation in enumerate(note.annotations, start=1):
        if annotation.end > len(note.text):
            span = f"the span goes from {annotation.begin} to {annotation.end}"
            problem = f"{place_of(note.note_id, number)}: {span}, but the note has {len(note.text)} characters"
            raise CohortError(problem, file=file, hint="use the notes that were annotated (MIMIC-III 1.4), unchanged")
