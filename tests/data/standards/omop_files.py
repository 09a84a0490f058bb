"""Tiny hospitals in OMOP's tables, written by hand."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

START = datetime(2030, 1, 1, 12)

COLUMNS = {
    "PERSON": (
        *("person_id", "gender_concept_id", "year_of_birth", "month_of_birth", "day_of_birth", "birth_datetime"),
        *("race_concept_id", "ethnicity_concept_id", "gender_source_value", "race_source_value"),
        "ethnicity_source_value",
    ),
    "VISIT_OCCURRENCE": (
        *("visit_occurrence_id", "person_id", "visit_concept_id", "visit_start_date", "visit_start_datetime"),
        *("visit_end_date", "visit_end_datetime", "discharged_to_concept_id"),
    ),
    "NOTE": (
        *("note_id", "person_id", "note_date", "note_datetime", "note_type_concept_id", "note_class_concept_id"),
        *("note_title", "note_text", "visit_occurrence_id", "note_source_value"),
    ),
    "CONDITION_OCCURRENCE": (
        *("condition_occurrence_id", "person_id", "condition_concept_id", "condition_start_date"),
        "condition_start_datetime",
    ),
    "DEATH": ("person_id", "death_date", "death_datetime"),
    "OBSERVATION_PERIOD": (
        *("observation_period_id", "person_id", "observation_period_start_date", "observation_period_end_date"),
    ),
    "NOTE_NLP": ("note_nlp_id", "note_id", "note_nlp_concept_id", "lexical_variant", "offset", "term_exists"),
    "CONCEPT_ANCESTOR": ("ancestor_concept_id", "descendant_concept_id"),
}

Row = dict[str, object]
Tables = dict[str, list[Row]]


def when(days: float) -> datetime:
    return (START + timedelta(days=days)).replace(microsecond=0)


def dated(name: str, days: float, *, timed: bool = True) -> Row:
    """`NAME_date` and `NAME_datetime`."""
    at = when(days)
    return {f"{name}_date": at.date(), f"{name}_datetime": at if timed else ""}


def person(number: int, **more: object) -> Row:
    return {"person_id": number, "gender_concept_id": 8532, "year_of_birth": 1950, "race_concept_id": 8527, **more}


def visit(number: int, who: int, start: float, end: float | None, *, timed: bool = True, **more: object) -> Row:
    ends = dated("visit_end", end, timed=timed) if end is not None else {}
    row = {"visit_occurrence_id": number, "person_id": who, "visit_concept_id": 9201}
    return {**row, **dated("visit_start", start, timed=timed), **ends, **more}


def note(number: int, who: int, at: float, at_visit: int | str = "", *, timed: bool = True, **more: object) -> Row:
    row = {"note_id": number, "person_id": who, "note_text": f"Note {number}.", "visit_occurrence_id": at_visit}
    return {**row, **dated("note", at, timed=timed), **more}


def period(number: int, who: int, start: float, end: float) -> Row:
    days = {"observation_period_start_date": when(start).date(), "observation_period_end_date": when(end).date()}
    return {"observation_period_id": number, "person_id": who, **days}


def write(folder: Path, tables: Mapping[str, Iterable[Row]], *, encoding: str = "utf-8") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", encoding=encoding, newline="") as file:
            writer = csv.DictWriter(file, COLUMNS[name.upper()], restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return folder


ASIAN: Row = {"gender_concept_id": 8507, "race_concept_id": 0, "race_source_value": "asian"}


def hospital() -> Tables:
    """Two patients: visit 1 is followed by 2 after ten days, visit 3 by none; a visit of day 400 ends the data."""
    return {
        "PERSON": [person(1), person(2, **ASIAN), person(9)],
        "VISIT_OCCURRENCE": [
            *(visit(1, 1, 0, 5), visit(2, 1, 15, 20), visit(3, 2, 0, 5)),
            *(visit(4, 2, 7, 7.1, visit_concept_id=9202), visit(9, 9, 400, 401)),
        ],
        "NOTE": [note(11, 1, 1, 1), note(12, 1, 4, 1), note(21, 1, 16, 2), note(31, 2, 2, 3), note(91, 9, 400.1, 9)],
    }  # fmt: skip
