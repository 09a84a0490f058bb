"""Tiny hospitals in the layouts of MIMIC-III and MIMIC-IV, written by hand, for the builders' tests."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

START = datetime(2150, 1, 1, 12)
LAST = START + timedelta(days=3650)
"""A stay of another patient, long after all others: nothing else is in the last month."""

COLUMNS_III = {
    "PATIENTS": ("ROW_ID", "SUBJECT_ID", "GENDER", "DOB", "DOD", "EXPIRE_FLAG"),
    "ADMISSIONS": (
        *("ROW_ID", "SUBJECT_ID", "HADM_ID", "ADMITTIME", "DISCHTIME", "DEATHTIME", "ADMISSION_TYPE"),
        *("INSURANCE", "LANGUAGE", "ETHNICITY", "HOSPITAL_EXPIRE_FLAG", "HAS_CHARTEVENTS_DATA"),
    ),
    "NOTEEVENTS": (
        *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY"),
        *("DESCRIPTION", "CGID", "ISERROR", "TEXT"),
    ),
    "DIAGNOSES_ICD": ("ROW_ID", "SUBJECT_ID", "HADM_ID", "SEQ_NUM", "ICD9_CODE"),
}
COLUMNS_IV = {
    "hosp/patients": ("subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod"),
    "hosp/admissions": (
        *("subject_id", "hadm_id", "admittime", "dischtime", "deathtime", "admission_type"),
        *("insurance", "language", "race", "hospital_expire_flag"),
    ),
    "note/discharge": (
        *("note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "storetime", "text"),
    ),
}

Row = dict[str, object]
Tables = dict[str, list[Row]]


@dataclass(frozen=True)
class Stay:
    """One stay, in days since `START`."""

    patient: int
    begin: float
    end: float | None
    id: int
    kind: str = "EMERGENCY"
    died: bool = False

    @property
    def admitted(self) -> datetime:
        return START + timedelta(days=self.begin)

    @property
    def discharged(self) -> datetime | None:
        return None if self.end is None else START + timedelta(days=self.end)


def note(row: int, stay: Stay, text: str | None = None, **cells: object) -> Row:
    """A discharge summary of a stay, in MIMIC-III's columns."""
    return {
        "ROW_ID": row,
        "SUBJECT_ID": stay.patient,
        "HADM_ID": stay.id,
        "CHARTDATE": (stay.discharged or stay.admitted).date(),
        "CATEGORY": "Discharge summary",
        "DESCRIPTION": "Report",
        "TEXT": f'Summary of stay {stay.id},\n"quoted"\n' if text is None else text,
        **cells,
    }


def hospital(
    stays: Sequence[Stay], notes: Sequence[Row] | None = None, codes: Mapping[int, str] | None = None
) -> Tables:
    """MIMIC-III's tables for some stays; without `notes`, each stay has one summary."""
    people = dict.fromkeys(stay.patient for stay in stays)
    return {
        "PATIENTS": [
            {"SUBJECT_ID": p, "GENDER": "F" if p % 2 else "M", "DOB": "2100-06-15 00:00:00", "EXPIRE_FLAG": 0}
            for p in people
        ],
        "ADMISSIONS": [
            {
                "SUBJECT_ID": stay.patient,
                "HADM_ID": stay.id,
                "ADMITTIME": stay.admitted,
                "DISCHTIME": stay.discharged,
                "ADMISSION_TYPE": stay.kind,
                "INSURANCE": "Medicare",
                "ETHNICITY": "WHITE",
                "HOSPITAL_EXPIRE_FLAG": int(stay.died),
            }
            for stay in stays
        ],
        "NOTEEVENTS": list(notes) if notes is not None else [note(k, stay) for k, stay in enumerate(stays, start=1)],
        "DIAGNOSES_ICD": [
            {"HADM_ID": stay, "SEQ_NUM": 1, "ICD9_CODE": code}
            for stay, listed in (codes or {}).items()
            for code in listed.split()
        ],
    }


def with_last(stays: Sequence[Stay]) -> list[Stay]:
    """The stays, and the one that makes all others observed for long enough."""
    end = (LAST - START).days
    return [*stays, Stay(999_999, end, end + 1, 999_999)]


def as_iv(tables: Tables) -> Tables:
    """The same hospital in MIMIC-IV's tables."""
    return {
        "hosp/patients": [
            {"subject_id": r["SUBJECT_ID"], "gender": r["GENDER"], "anchor_age": 49, "anchor_year": 2150}
            for r in tables["PATIENTS"]
        ],
        "hosp/admissions": [
            {k.lower(): v for k, v in r.items()} | {"race": r["ETHNICITY"]} for r in tables["ADMISSIONS"]
        ],
        "note/discharge": [
            {
                "note_id": f"{r['SUBJECT_ID']}-DS-{r['ROW_ID']}",
                "subject_id": r["SUBJECT_ID"],
                "hadm_id": r["HADM_ID"],
                "note_type": "DS" if r["DESCRIPTION"] == "Report" else "AD",
                "note_seq": r["ROW_ID"],
                "charttime": f"{r['CHARTDATE']} 00:00:00",
                "text": r["TEXT"],
            }
            for r in tables["NOTEEVENTS"]
        ],
    }


def write(folder: Path, tables: Tables, *, suffix: str = ".csv", lower: bool = False) -> Path:
    """The tables as files; `lower` for lower-case names of files and columns."""
    columns = COLUMNS_IV if "note/discharge" in tables else COLUMNS_III
    for name, rows in tables.items():
        cells = [[_cell(row.get(column)) for column in columns[name]] for row in rows]
        header = [column.lower() if lower else column for column in columns[name]]
        path = folder / f"{name.lower() if lower else name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_table(path, header, cells)
    return folder


def write_table(path: Path, header: Sequence[str], cells: Sequence[Sequence[str | None]]) -> None:
    """One table, in the format of the file's name."""
    if path.suffix == ".parquet":
        _typed(pl.DataFrame(cells, schema=dict.fromkeys(header, pl.String), orient="row")).write_parquet(path)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(cells)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _typed(frame: pl.DataFrame) -> pl.DataFrame:
    """Parquet files know numbers and times: ids are numbers there, and fractions where some are missing."""
    for name in frame.columns:
        plain = name.lower()
        if plain in ("subject_id", "row_id"):
            frame = frame.with_columns(pl.col(name).cast(pl.Int64))
        elif plain == "hadm_id":
            frame = frame.with_columns(pl.col(name).cast(pl.Float64))
        elif (
            plain.endswith("time")
            and frame[name].str.to_datetime(strict=False).null_count() == frame[name].null_count()
        ):
            frame = frame.with_columns(pl.col(name).str.to_datetime(time_unit="us"))
    return frame


def _cell(value: object) -> str | None:
    return None if value is None else str(value)
