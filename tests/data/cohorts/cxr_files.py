"""Tiny hospitals in the layouts of MIMIC-IV and MIMIC-CXR-JPG, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from palpate.data.hospitals.mimic import XRAY_LABELS
from tests.data.mimic_files import START, Stay, write_table

STEM = "mimic-cxr-2.0.0-"
CHEXPERT_COLUMNS = (*XRAY_LABELS[:8], "No Finding", *XRAY_LABELS[8:])
"""The 14 columns in the order of the real file: the ninth is no label of ours."""


@dataclass(frozen=True)
class Note:
    """A discharge note, charted so many days after `START`."""

    stay: Stay
    charted: float | None
    text: str
    id: int = 1
    kind: str = "DS"


@dataclass(frozen=True)
class Study:
    """A study of one or more images, so many days after `START`."""

    patient: int
    day: float
    id: int
    positive: tuple[str, ...] = ()
    views: tuple[str, ...] = ("AP",)
    cells: Mapping[str, str] = field(default_factory=dict)
    """Other cells of the table of labels."""

    @property
    def time(self) -> datetime:
        return (START + timedelta(days=self.day)).replace(microsecond=0)


def dicom(study: Study, number: int) -> str:
    """The id of an image."""
    return f"{study.id:08x}-{number:08x}"


def write_xrays(
    folder: Path,
    stays: Sequence[Stay],
    notes: Sequence[Note],
    studies: Sequence[Study],
    *,
    people: Sequence[int] | None = None,
    suffix: str = ".csv",
) -> Path:
    """Both layouts below one folder, as the synthetic hospital has them."""
    everyone = dict.fromkeys([*(s.patient for s in stays), *(s.patient for s in studies)] if people is None else people)
    iv, cxr = folder / "mimic-iv", folder / "mimic-cxr-jpg"
    for place in (iv / "hosp", iv / "note", cxr):
        place.mkdir(parents=True, exist_ok=True)
    write_table(
        iv / "hosp" / f"patients{suffix}",
        ["subject_id", "gender", "anchor_age", "anchor_year", "dod"],
        [[str(p), "F" if p % 2 else "M", "49", str(START.year), None] for p in everyone],
    )
    columns = ("subject_id", "hadm_id", "admittime", "dischtime", "admission_type", "insurance", "race")
    write_table(
        iv / "hosp" / f"admissions{suffix}",
        [*columns, "hospital_expire_flag"],
        [
            [str(s.patient), str(s.id), str(s.admitted), _time(s.discharged), s.kind, "Other", "WHITE", "0"]
            for s in stays
        ],
    )
    write_table(
        iv / "note" / f"discharge{suffix}",
        ["note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "storetime", "text"],
        [
            [
                f"{n.stay.patient}-{n.kind}-{n.id}",
                str(n.stay.patient),
                str(n.stay.id),
                n.kind,
                str(n.id),
                _when(n),
                None,
                n.text,
            ]
            for n in notes
        ],
    )
    _write_cxr(
        cxr / f"{STEM}metadata{suffix}",
        ["dicom_id", "subject_id", "study_id", "ViewPosition", "Rows", "StudyDate", "StudyTime"],
        [
            [dicom(s, k), str(s.patient), str(s.id), view, "64", f"{s.time:%Y%m%d}", clock(s.time)]
            for s in studies
            for k, view in enumerate(s.views)
        ],
    )
    _write_cxr(
        cxr / f"{STEM}chexpert{suffix}",
        ["subject_id", "study_id", *CHEXPERT_COLUMNS],
        [
            [str(s.patient), str(s.id)]
            + [s.cells.get(name, "1.0" if name in s.positive else None) for name in CHEXPERT_COLUMNS]
            for s in studies
        ],
    )
    return folder


def _write_cxr(path: Path, header: Sequence[str], cells: Sequence[Sequence[str | None]]) -> None:
    """Parquet files know numbers: all but the names of images and views."""
    if path.suffix != ".parquet":
        write_table(path, header, cells)
        return
    frame = pl.DataFrame(cells, schema=dict.fromkeys(header, pl.String), orient="row")
    whole = [name for name in header if name in ("subject_id", "study_id", "Rows", "StudyDate")]
    rest = [name for name in header if name not in (*whole, "dicom_id", "ViewPosition")]
    frame.with_columns(pl.col(whole).cast(pl.Int64), pl.col(rest).cast(pl.Float64)).write_parquet(path)


def clock(time: datetime) -> str:
    """A time of day as MIMIC-CXR has it: a number, without leading zeros."""
    return f"{int(f'{time:%H%M%S}')}.531"


def _time(time: datetime | None) -> str | None:
    return None if time is None else str(time)


def _when(note: Note) -> str | None:
    return None if note.charted is None else str((START + timedelta(days=note.charted)).replace(microsecond=0))
