"""The text of annotated notes, merged in from MIMIC-III, and two clean-ups of spans that need the text.

MDACE publishes only offsets (evidence paper, Section 1); the text is in NOTEEVENTS, by ROW_ID. Trimming and merging
clean up spans that coders marked with a mouse; both are optional, and neither shortens a span because of another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, check_offsets, place_of
from palpate.data.hospitals import Announce, SourceTable, open_hospital
from palpate.errors import CohortError

Between = Literal["blanks", "punctuation"]
FoundNotes = dict[int, tuple[int, int, str]]
"""Admission, patient and text by note id."""
_COLUMNS = ("row_id", "subject_id", "hadm_id", "category", "text")


def with_notes(
    charts: Iterable[AnnotatedChart], source: str | Path, *, progress: Announce | None = None
) -> list[AnnotatedChart]:
    """The charts with their patient and the text of their notes, from NOTEEVENTS in the folder `source`.

    The table is CSV, gzipped CSV or Parquet. It must have every note exactly once and in the chart's own admission, and
    every span must lie within its note.
    """
    annotated = list(charts)
    wanted = sorted({note.note_id for chart in annotated for note in chart.notes})
    found = _fetch(wanted, Path(source), progress)
    return merge_notes(annotated, found, Path(source))


def merge_notes(charts: Iterable[AnnotatedChart], found: FoundNotes, source: Path) -> list[AnnotatedChart]:
    """The charts with notes that were already read from the folder `source`; makes the same checks as `with_notes`."""
    return [_merge(chart, found, source) for chart in charts]


def tidy(chart: AnnotatedChart, *, trim: bool = False, merge: Between | None = None) -> AnnotatedChart:
    """The chart with its spans trimmed of punctuation, merged if adjacent, or both, in this order.

    Both need the text of the notes, which `with_notes` adds.
    """
    notes = []
    for note in chart.notes:
        if note.text is None:
            problem = f"{place_of(note.note_id)} has no text, which cleaning up spans needs"
            raise CohortError(problem, file=chart.file, hint="add the text of the notes first")
        spans = note.annotations
        if trim:
            spans = trim_punctuation(spans, note.text)
        if merge is not None:
            spans = merge_adjacent(spans, note.text, between=merge)
        notes.append(replace(note, annotations=tuple(spans)))
    return replace(chart, notes=tuple(notes))


def trim_punctuation(annotations: Iterable[Annotation], text: str) -> tuple[Annotation, ...]:
    """Spans without blanks and punctuation at their ends; a span of nothing else is dropped."""
    trimmed = []
    for span in annotations:
        begin, end = span.begin, span.end
        while begin < end and not _counts(text[begin]):
            begin += 1
        while begin < end and not _counts(text[end - 1]):
            end -= 1
        if begin < end:
            trimmed.append(replace(span, begin=begin, end=end))
    return tuple(trimmed)


def merge_adjacent(
    annotations: Iterable[Annotation], text: str, *, between: Between = "blanks"
) -> tuple[Annotation, ...]:
    """Merge spans of one code that overlap, touch, or have only blanks (or also punctuation) between them.

    A span inside another one leaves the outer one unchanged. A merged span keeps the type and description of its first
    part.
    """
    spans = sorted(annotations, key=lambda a: (a.code_system, a.code, a.begin, -a.end))
    merged: list[Annotation] = []
    for span in spans:
        last = merged[-1] if merged else None
        same = last is not None and (last.code_system, last.code) == (span.code_system, span.code)
        if last is not None and same and _joined(text[last.end : max(last.end, span.begin)], between):
            merged[-1] = replace(last, end=max(last.end, span.end))
        else:
            merged.append(span)
    return tuple(sorted(merged, key=lambda a: (a.begin, a.end, a.code)))


def _counts(character: str) -> bool:
    """Whether a character is more than blank or punctuation; symbols such as + and < count, as coders may mean them."""
    return not (character.isspace() or _is_punctuation(character))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _joined(gap: str, between: Between) -> bool:
    if between == "punctuation":
        return not any(map(_counts, gap))
    return not gap or gap.isspace()


def _fetch(wanted: list[int], source: Path, progress: Announce | None) -> FoundNotes:
    if not wanted:
        return {}
    condition = f"try_cast(row_id AS BIGINT) IN ({', '.join(map(str, wanted))})"
    found: FoundNotes = {}
    with open_hospital(source, progress=progress) as hospital:
        hospital.attach(SourceTable("noteevents", _COLUMNS, wanted=condition))
        file = hospital.file("noteevents")
        query = (
            "SELECT try_cast(row_id AS BIGINT) AS note, try_cast(hadm_id AS BIGINT) AS stay, "
            "try_cast(subject_id AS BIGINT) AS patient, text FROM noteevents"
        )
        for note, stay, patient, text in _rows(hospital.frames(query)):
            keep_note(found, note, stay, patient, text, file)
    return found


def keep_note(
    found: FoundNotes, note: int, stay: int | None, patient: int | None, text: str | None, file: Path
) -> None:
    """Add a row of NOTEEVENTS that has annotations; it must occur once and be complete."""
    if note in found:
        problem = f"ROW_ID {note} is in two rows"
        raise CohortError(problem, file=file, column="ROW_ID", hint="keep one row per note")
    if stay is None or patient is None or text is None:
        lacking = "HADM_ID" if stay is None else "SUBJECT_ID" if patient is None else "TEXT"
        problem = f"note {note} has no {lacking}"
        raise CohortError(problem, file=file, column=lacking, hint="annotated notes need one")
    found[note] = (stay, patient, text)


def _rows(frames: Iterable[pl.DataFrame]) -> Iterator[tuple[int, int | None, int | None, str | None]]:
    for frame in frames:
        yield from frame.iter_rows()


def _merge(chart: AnnotatedChart, found: FoundNotes, source: Path) -> AnnotatedChart:
    notes: list[AnnotatedNote] = []
    patients: set[int] = set()
    for note in chart.notes:
        if note.note_id not in found:
            problem = f"{place_of(note.note_id)} is not in NOTEEVENTS of {source}"
            raise CohortError(problem, file=chart.file, hint="give the complete MIMIC-III that was annotated")
        stay, patient, text = found[note.note_id]
        patients.add(patient)
        if stay != chart.hadm_id:
            problem = f"{place_of(note.note_id)} belongs to admission {stay} in NOTEEVENTS, not to {chart.hadm_id}"
            raise CohortError(problem, file=chart.file, hint="give the MIMIC-III that was annotated")
        merged = replace(note, text=text)
        check_offsets(merged, chart.file)
        notes.append(merged)
    if len(patients) > 1:
        problem = f"the notes of admission {chart.hadm_id} belong to several patients in NOTEEVENTS of {source}"
        raise CohortError(problem, file=chart.file, hint="give the MIMIC-III that was annotated")
    return replace(chart, notes=tuple(notes), subject_id=min(patients, default=None))
