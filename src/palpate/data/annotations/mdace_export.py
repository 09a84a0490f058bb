"""Spans in tables as charts in MDACE's layout: what `mdace.write` writes.

A table has the columns of evidence (`case_id, label, start, end`), in characters of the case's text; a table of notes
says where each note is in it. A span that goes on in the next note becomes an annotation in each. MDACE names charts
and notes by number (HADM_ID, ROW_ID), so case and note ids must be whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from palpate.cases.columns import quote
from palpate.data.annotations import CODE_SYSTEMS, AnnotatedChart, AnnotatedNote, Annotation
from palpate.errors import CohortError


class NotePlace(NamedTuple):
    """A note in its case's text; a case without notes is one note."""

    note_id: str
    category: str
    start: int
    end: int | None


def charts_of_tables(
    evidence: pl.DataFrame,
    notes: pl.DataFrame | None = None,
    *,
    code_system: str | None = None,
    texts: Mapping[str, str] | None = None,
    setting: str | None = None,
    system: str | None = None,
    file: Path | None = None,
) -> list[AnnotatedChart]:
    """The charts of a table of evidence, sorted by number; `file` is for messages.

    `code_system` is for rows that name none. With `texts`, notes have their text.
    """
    if code_system is not None and code_system not in CODE_SYSTEMS:
        raise CohortError(f"unknown code system {quote(code_system)}", hint=f"use one of {', '.join(CODE_SYSTEMS)}")
    places = _places(notes)
    found: dict[str, dict[NotePlace, list[Annotation]]] = {}
    for number, row in enumerate(evidence.iter_rows(named=True), start=1):
        case = str(row["case_id"])
        for note in _notes_of(case, row, places, number, file):
            annotation = _annotation(row, note, code_system, number, file)
            found.setdefault(case, {}).setdefault(note, []).append(annotation)
    charts = []
    for case, by_note in found.items():
        hadm_id = _whole(case, "case", file)
        marked = tuple(
            AnnotatedNote(
                _whole(note.note_id, "note", file),
                note.category,
                tuple(sorted(spans, key=lambda span: (span.begin, span.end, span.code))),
                text=None if texts is None else texts[case][note.start : note.end],
            )
            for note, spans in sorted(by_note.items(), key=lambda item: item[0].start)
        )
        charts.append(AnnotatedChart(hadm_id, marked, setting=setting, system=system))
    return sorted(charts, key=lambda chart: chart.hadm_id)


def _places(notes: pl.DataFrame | None) -> dict[str, list[NotePlace]] | None:
    """The notes of each case in the order of its text; None without a table."""
    if notes is None:
        return None
    found: dict[str, list[NotePlace]] = {}
    for case, note, category, start, end in notes.select("case_id", "note_id", "category", "start", "end").iter_rows():
        found.setdefault(str(case), []).append(NotePlace(str(note), category or "", start, end))
    return found


def _notes_of(
    case: str, row: Mapping[str, Any], places: dict[str, list[NotePlace]] | None, number: int, file: Path | None
) -> list[NotePlace]:
    """The notes that a span lies in: one, unless it goes on in the next."""
    if places is None:
        if row.get("note_id") is not None and str(row["note_id"]) != case:
            hint = "give the table that says where they are (--notes)"
            raise CohortError("the spans are in notes", file=file, row=number, column="note_id", hint=hint)
        return [NotePlace(case, "", 0, None)]
    within = [
        note
        for note in places.get(case, ())
        if note.end is not None and note.start < row["end"] and row["start"] < note.end
    ]
    if within and within[0].start <= row["start"] and row["end"] <= (within[-1].end or 0):
        return within
    problem = f"the span from {row['start']} to {row['end']} of case {quote(case)} lies in no note"
    raise CohortError(problem, file=file, row=number, hint="give the notes of the same texts, and spans within a note")


def _annotation(
    row: Mapping[str, Any], note: NotePlace, code_system: str | None, number: int, file: Path | None
) -> Annotation:
    system = row.get("code_system") or code_system
    if system not in CODE_SYSTEMS:
        problem = "the row has no code system" if system is None else f"unknown code system {quote(system)}"
        hint = f"write one of {', '.join(CODE_SYSTEMS)}, or give --code-system for all"
        raise CohortError(problem, file=file, row=number, column="code_system", hint=hint)
    more = (str(row.get("type") or "Human"), str(row.get("description") or ""))
    begin = max(row["start"], note.start)
    end = row["end"] if note.end is None else min(row["end"], note.end)
    return Annotation(begin - note.start, end - note.start, str(row["label"]), system, *more)


def _whole(name: str, what: str, file: Path | None) -> int:
    if not name.isdecimal():
        problem = f"the {what} {quote(name)} is not a whole number"
        hint = (
            "MDACE's files name charts and notes by HADM_ID and ROW_ID; name them by number, or choose another format"
        )
        raise CohortError(problem, file=file, column=f"{what}_id", hint=hint)
    return int(name)
