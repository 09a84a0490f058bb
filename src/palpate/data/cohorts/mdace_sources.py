"""Where MDACE's files and MIMIC-III's tables are, and what the coding cohort reads from them: one query per table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.data.annotations import AnnotatedChart, mdace
from palpate.data.annotations.mdace_notes import FoundNotes, keep_note, merge_notes
from palpate.data.hospitals import Announce, Hospital, has_table, open_hospital
from palpate.data.hospitals.discharge import ATTRIBUTES
from palpate.data.hospitals.mimic import ADMISSIONS, CPTEVENTS, DIAGNOSES_ICD, NOTEEVENTS, PATIENTS, PROCEDURES_ICD
from palpate.errors import CohortError
from palpate.privacy import hides

_LAST = datetime.max
_BILLED = {
    "Inpatient": {"billed_diagnoses": DIAGNOSES_ICD, "billed_procedures": PROCEDURES_ICD},
    "Profee": {"billed_diagnoses": DIAGNOSES_ICD, "billed_cptevents": CPTEVENTS},
}
"""By setting: the SQL that reads billed codes, in order, each with its table."""


class SourceFolders(NamedTuple):
    """The folders of the two data sets."""

    mdace: Path
    mimic: Path


@hides("text")
class ChartNote(NamedTuple):
    """A note of an admission, as it is in NOTEEVENTS."""

    note_id: int
    subject_id: int
    written: datetime | None
    category: str
    is_summary: bool
    is_addendum: bool
    is_error: bool
    text: str

    @property
    def order(self) -> tuple[bool, bool, datetime, int]:
        """What notes are sorted by in the chart's text."""
        return (not self.is_summary, self.is_summary and self.is_addendum, self.written or _LAST, self.note_id)


class ChartSources(NamedTuple):
    """Annotated charts with text, the notes of all admissions, billed codes by system, and attributes of the stays."""

    charts: list[AnnotatedChart]
    notes: Mapping[int, Sequence[ChartNote]]
    billed: Mapping[int, Mapping[str, Sequence[str]]]
    stays: pl.DataFrame | None


def find_folders(source: Path, *, mdace_folder: Path | None = None, mimic: Path | None = None) -> SourceFolders:
    """The folders of MDACE and MIMIC-III: as given, or the source itself, or a folder in it."""
    if not source.is_dir():
        raise CohortError("folder not found", file=source, hint="give the folder with MDACE and MIMIC-III")
    places = [source, *sorted(place for place in source.iterdir() if place.is_dir())]
    holding = (place for place in places if mdace.has_settings(mdace.charts_folder(place)))
    annotated = mdace_folder or next(holding, None)
    if annotated is None:
        hint = (
            "palpate looks for Inpatient/ or Profee/, or MDACE's repository with its data/, here and one folder below; "
            "set another folder with --set mdace=DIR"
        )
        raise CohortError("the folder has no annotated charts", file=source, hint=hint)
    tables = mimic or next((place for place in places if has_table(place, NOTEEVENTS)), None)
    if tables is None:
        hint = "palpate looks for it here and one folder below; set another folder with --set mimic=DIR"
        raise CohortError("the table NOTEEVENTS is missing", file=source, hint=hint)
    return SourceFolders(annotated, tables)


def read_chart_notes(
    charts: Sequence[AnnotatedChart],
    wanted: Collection[int],
    folder: Path,
    *,
    only_summaries: bool,
    billed: bool,
    progress: Announce | None = None,
) -> ChartSources:
    """Read MIMIC-III's tables for the wanted admissions, and read and check every annotated note."""
    annotated = sorted({note.note_id for chart in charts for note in chart.notes})
    with open_hospital(folder, progress=progress) as hospital:
        _keep_numbers(hospital, "charts", "hadm_id", sorted(wanted))
        _keep_numbers(hospital, "annotated", "note_id", annotated)
        summary = " AND lower(category) = 'discharge summary'" if only_summaries else ""
        condition = (
            f"(try_cast(hadm_id AS BIGINT) IN (SELECT hadm_id FROM charts){summary}) "
            "OR try_cast(row_id AS BIGINT) IN (SELECT note_id FROM annotated)"
        )
        hospital.attach(NOTEEVENTS._replace(wanted=condition))
        file = hospital.file("noteevents")
        hospital.progress(f"reading notes from {file.name}")
        hospital.run("mdace")
        found, notes = _notes(hospital, set(annotated), file)
        merged = merge_notes(charts, found, folder)
        codes = _billed(hospital) if billed else {}
        stays = _stays(hospital, folder)
    return ChartSources(merged, notes, codes, stays)


def read_billed(
    folder: Path, *, setting: str = "Inpatient", progress: Announce | None = None
) -> dict[int, dict[str, list[str]]]:
    """The codes that each admission was billed with, by code system and without dots.

    Inpatient: ICD-9 diagnoses and procedures. Profee: ICD-9 diagnoses and CPT codes, which is what its coders annotated
    (evidence paper, Appendix E).
    """
    with open_hospital(folder, progress=progress) as hospital:
        return _billed(hospital, setting)


def missing_billed(folder: Path, setting: str) -> list[str]:
    """The tables of billed codes that a folder does not have."""
    return [table.name.upper() for table in _BILLED[setting].values() if not has_table(folder, table)]


def _keep_numbers(hospital: Hospital, table: str, column: str, numbers: Sequence[int]) -> None:
    hospital.connection.execute(f"CREATE TABLE {table} ({column} BIGINT)")
    hospital.connection.execute(f"INSERT INTO {table} SELECT unnest(?::BIGINT[])", [list(numbers)])


def _notes(hospital: Hospital, annotated: set[int], file: Path) -> tuple[FoundNotes, dict[int, list[ChartNote]]]:
    """The annotated notes, and all notes by admission; a note without an admission belongs to no chart."""
    query = (
        "SELECT note_id, hadm_id, subject_id, written, category, is_summary, is_addendum, is_error, text "
        "FROM chart_notes ORDER BY note_id"
    )
    found: FoundNotes = {}
    notes: dict[int, list[ChartNote]] = {}
    seen: set[int] = set()
    for frame in hospital.frames(query):
        for note_id, stay, patient, written, category, summary, addendum, error, text in frame.iter_rows():
            if note_id in seen:
                problem = f"ROW_ID {note_id} is in two rows"
                raise CohortError(problem, file=file, column="ROW_ID", hint="keep one row for each note")
            seen.add(note_id)
            if note_id in annotated:
                keep_note(found, note_id, stay, patient, text, file)
            if stay is not None and patient is not None and text is not None:
                note = ChartNote(note_id, patient, written, category, summary, addendum, error, text)
                notes.setdefault(stay, []).append(note)
    for stay, some in notes.items():
        if len({note.subject_id for note in some}) > 1:
            problem = f"the notes of admission {stay} belong to several patients"
            raise CohortError(problem, file=file, column="SUBJECT_ID", hint="an admission has one patient")
    return found, notes


def _billed(hospital: Hospital, setting: str = "Inpatient") -> dict[int, dict[str, list[str]]]:
    for table in _BILLED[setting].values():
        hospital.attach(table)
    hospital.progress("reading billed codes")
    for script in _BILLED[setting]:
        hospital.run(script)
    billed: dict[int, dict[str, list[str]]] = {}
    for frame in hospital.frames("SELECT hadm_id, code_system, code FROM billed ORDER BY ALL"):
        for stay, system, code in frame.iter_rows():
            billed.setdefault(stay, {}).setdefault(system, []).append(code)
    return billed


def _stays(hospital: Hospital, folder: Path) -> pl.DataFrame | None:
    """Discharge time and patient attributes by case; None if the folder does not have the tables."""
    if not (has_table(folder, PATIENTS) and has_table(folder, ADMISSIONS)):
        return None
    for table in (PATIENTS, ADMISSIONS):
        hospital.attach(table)
    hospital.run("mimic_iii_stays")
    listed = ", ".join(ATTRIBUTES)
    return hospital.frame(
        f"SELECT hadm_id::VARCHAR AS case_id, dischtime AS time, {listed} FROM stays SEMI JOIN charts USING (hadm_id)"
    )
