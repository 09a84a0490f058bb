"""From a hospital's tables to one text per stay: discharge summaries, with or without their addenda.

Vocabulary paper, appendix A.1: the input is the discharge note, one per encounter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import polars as pl

from palpate.data.cohorts import FlowStep, flow_steps, normal_gender
from palpate.data.hospitals import Hospital, HospitalLayout
from palpate.errors import CohortError

Kept = Literal["drop", "keep"]
Summaries = Literal["join", "first", "last"]
ATTRIBUTES = ("age", "gender", "ethnicity", "insurance", "admission_type")
ADDENDUM = "\n\n===== ADDENDUM =====\n\n"
FURTHER = "\n\n===== FURTHER DISCHARGE SUMMARY =====\n\n"
BLOCK = 4096
SCREENING = {
    "error": ("notes not marked as errors", "ISERROR is 1"),
    "blank": ("notes with text", "the note is blank"),
    "no stay": ("notes with a stay", "HADM_ID is empty"),
    "unknown stay": ("notes whose stay is known", "HADM_ID is not in ADMISSIONS"),
    "other patient": ("notes of the stay's patient", "SUBJECT_ID differs from the one in ADMISSIONS"),
    "no summary": ("notes with a discharge summary", "an addendum without a summary"),
}


def stage_documents(
    hospital: Hospital, layout: HospitalLayout, *, summaries: Summaries, addenda: Literal["join", "leave"]
) -> list[FlowStep]:
    """Create the tables `stays`, `notes` and `parts`; returns the flow up to here."""
    for table in (*layout.stays, layout.notes):
        hospital.attach(table)
    stays_sql, notes_sql = layout.sql
    hospital.progress("reading stays")
    hospital.run(stays_sql)
    hospital.progress(f"reading discharge summaries from {hospital.file(layout.notes.name).name}")
    hospital.run(notes_sql)
    hospital.progress("joining notes to stays")
    hospital.run("documents", {"summaries": summaries, "addenda": addenda})
    return _screening_flow(hospital, layout)


def _screening_flow(hospital: Hospital, layout: HospitalLayout) -> list[FlowStep]:
    rows = hospital.frame("SELECT subject_id, dropped FROM screened")
    file = hospital.file(layout.notes.name)
    if not rows.height:
        raise CohortError("the table has no discharge summaries", file=file, hint="check its category column")
    start = FlowStep("discharge summaries and addenda", rows.height, rows["subject_id"].n_unique())
    flow = [start, *flow_steps(rows, SCREENING)]
    if not flow[-1].n_cases:
        worst = max(flow[1:], key=lambda step: step.n_dropped)
        hint = "check that the tables belong together"
        raise CohortError(f"no discharge summary can be used; most common reason: {worst.reason}", file=file, hint=hint)
    stays = hospital.frame("SELECT DISTINCT subject_id, hadm_id FROM parts")
    joined = flow[-1].n_cases - stays.height
    name = "stays with a discharge summary"
    reason = "further notes of the stay: joined to it, or not the one that was asked for"
    return [*flow, FlowStep(name, stays.height, stays["subject_id"].n_unique(), joined, reason)]


def read_parts(hospital: Hospital) -> Iterator[pl.DataFrame]:
    """The notes of the stays that `labelled` keeps, in batches: `hadm_id`, `place`, `is_addendum`, `text`."""
    (n_notes,) = hospital.frame("SELECT count(*) AS n FROM notes").row(0)
    for start in range(0, max(n_notes, 1), BLOCK):
        yield hospital.frame(
            "SELECT parts.hadm_id, parts.place, parts.is_addendum, notes.text "
            "FROM notes JOIN parts ON parts.note_row = notes.rowid "
            "SEMI JOIN (FROM labelled WHERE dropped IS NULL) AS kept ON kept.hadm_id = parts.hadm_id "
            f"WHERE notes.rowid >= {start} AND notes.rowid < {start + BLOCK}"
        )


def join_parts(parts: pl.DataFrame) -> pl.DataFrame:
    """One text per stay: `hadm_id` and `text`, with a separator line before each part but the first."""
    mark = pl.when(pl.col("is_addendum")).then(pl.lit(ADDENDUM)).otherwise(pl.lit(FURTHER))
    alone = pl.len().over("hadm_id") == 1
    single = parts.filter(alone).select("hadm_id", "text")
    several = (
        parts.filter(~alone)
        .sort("hadm_id", "place")
        .with_columns(pl.when(pl.col("place") == 1).then("text").otherwise(mark + pl.col("text")).alias("text"))
        .group_by("hadm_id", maintain_order=True)
        .agg(pl.col("text").str.join(""))
    )
    return pl.concat([single, several])


def join_cases(hospital: Hospital, texts: pl.DataFrame, *, time: str, columns: Sequence[str]) -> pl.DataFrame:
    """The stays that `labelled` keeps and that have a text, sorted by patient and time, with a cohort's columns."""
    listed = ", ".join(("hadm_id", "subject_id", f"{time} AS time", "admittime", *ATTRIBUTES, *columns))
    frame = hospital.frame(f"SELECT {listed} FROM labelled WHERE dropped IS NULL")
    frame = frame.join(texts, on="hadm_id").sort("subject_id", "admittime", "hadm_id")
    names = {"case_id": pl.col("hadm_id").cast(pl.String), "patient_id": pl.col("subject_id").cast(pl.String)}
    return frame.with_columns(normal_gender(), **names).drop("hadm_id", "subject_id", "admittime")
