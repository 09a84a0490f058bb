"""MEDS 0.4: events in shards of some hundred subjects, splits, and labels of readmission at each discharge."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.data.cohorts.splits import assign_splits
from palpate.files import replacing, write_atomically
from palpate.synthetic.layouts.standards import RecordedPatient
from palpate.synthetic.patients.conditions import conditions

SHARD = 500
TASK = "readmission"
NOTE = "NOTE//discharge_summary"
SPLITS = {"train": "train", "validation": "tuning", "test": "held_out"}
SCHEMA = {
    "subject_id": pl.Int64(),
    "time": pl.Datetime("us"),
    "code": pl.String(),
    "numeric_value": pl.Float32(),
    "text_value": pl.String(),
}
_DAYS = timedelta(days=30)

Event = tuple[int, datetime | None, str, None, str | None]


class _Stay(NamedTuple):
    subject_id: int
    admit: datetime
    discharge: datetime
    died: bool


class MedsWriter:
    """Writes shards as they fill; splits and labels at the end, when the last admission is known."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events: list[Event] = []
        self._stays: list[_Stay] = []
        self._n_subjects = 0
        for name in ("data", "metadata", f"task_labels/{TASK}"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, patient: RecordedPatient) -> None:
        """Write all events of a patient, sorted by time; static ones first."""
        who = patient.subject_id
        static: list[Event] = [
            (who, None, f"GENDER//{patient.gender}", None, None),
            (who, None, f"RACE//{patient.race}", None, None),
        ]
        timed: list[Event] = [(who, patient.birth, "MEDS_BIRTH", None, None)]
        for stay in patient.stays:
            timed.append((who, stay.admit, f"HOSPITAL_ADMISSION//{stay.kind}", None, None))
            timed += [
                (who, stay.discharge, f"DIAGNOSIS//ICD10CM//{each.icd10}", None, None) for each in stay.conditions
            ]
            timed.append((who, stay.discharge, NOTE, None, stay.text))
            timed.append((who, stay.discharge, "HOSPITAL_DISCHARGE", None, None))
            self._stays.append(_Stay(who, stay.admit, stay.discharge, stay.died))
        if patient.death is not None:
            timed.append((who, patient.death, "MEDS_DEATH", None, None))
        self._events += [*static, *sorted(timed, key=lambda event: event[1] or datetime.min)]
        self._n_subjects += 1
        if self._n_subjects % SHARD == 0:
            self._flush()

    def _write(self, frame: pl.DataFrame, name: str) -> None:
        with replacing(self._folder / name) as scratch:
            frame.write_parquet(scratch)

    def _flush(self) -> None:
        if self._events:
            number = (self._n_subjects - 1) // SHARD
            self._write(pl.DataFrame(self._events, SCHEMA, orient="row"), f"data/{number}.parquet")
            self._events = []

    def close(self) -> None:
        """Write the last shard, the labels, the splits and what the codes mean."""
        self._flush()
        labels = readmissions(self._stays)
        self._write(labels, f"task_labels/{TASK}/0.parquet")
        split = assign_splits(labels["subject_id"].cast(pl.String), labels["boolean_value"], seed=0)
        known = labels.select("subject_id", split.replace_strict(SPLITS).alias("split")).unique()
        everyone = pl.DataFrame({"subject_id": pl.Series([stay.subject_id for stay in self._stays]).unique().sort()})
        splits = everyone.join(known, on="subject_id", how="left").with_columns(pl.col("split").fill_null("train"))
        self._write(splits.sort("subject_id"), "metadata/subject_splits.parquet")
        codes = {f"DIAGNOSIS//ICD10CM//{each.icd10}": each.title10 for each in conditions()}
        schema = {"code": pl.String(), "description": pl.String(), "parent_codes": pl.List(pl.String())}
        rows = [(code, title, None) for code, title in sorted(codes.items())]
        self._write(pl.DataFrame(rows, schema, orient="row"), "metadata/codes.parquet")
        about = {"dataset_name": "palpate's synthetic hospital", "meds_version": "0.4.0"}
        write_atomically(self._folder / "metadata" / "dataset.json", json.dumps(about) + "\n")


def readmissions(stays: list[_Stay]) -> pl.DataFrame:
    """Labels at each discharge alive: whether a stay begins within 30 days; not in the last 30 days of the data."""
    by_subject: dict[int, list[_Stay]] = {}
    for stay in stays:
        by_subject.setdefault(stay.subject_id, []).append(stay)
    last = max((stay.admit for stay in stays), default=datetime.min)
    rows = [
        (
            here.subject_id,
            here.discharge,
            any(here.discharge <= s.admit <= here.discharge + _DAYS for s in own[k + 1 :]),
        )
        for own in by_subject.values()
        for k, here in enumerate(own)
        if not here.died and here.discharge <= last - _DAYS
    ]
    schema = {"subject_id": pl.Int64(), "prediction_time": pl.Datetime("us"), "boolean_value": pl.Boolean()}
    return pl.DataFrame(rows, schema, orient="row")


def open_writer(folder: Path) -> MedsWriter:
    """The writer of this layout."""
    return MedsWriter(folder)
