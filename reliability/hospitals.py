"""What is fuzzed of hospitals' data: MEDS, OMOP, FHIR and DICOM, with contents that are right."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from palpate.data.cohorts.fhir import FhirOptions, build_fhir
from palpate.data.cohorts.meds import build_meds
from palpate.data.cohorts.omop import OmopOptions, build_omop
from palpate.data.hospitals.films import read_header
from palpate.data.hospitals.meds import check_shards, read_label_files
from palpate.models.networks.vision.images import ImageFormat, read_all

_BETWEEN = b"\n%%\n"


def _place(path: Path, name: str) -> Path:
    folder = path.parent / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


# --- MEDS ---------------------------------------------------------------------------------------------------

_EVENTS = {
    "subject_id": [1, 1, 1, 2, 2],
    "time": [None, *(f"2020-01-0{day}T08:00:00" for day in (1, 2)), None, "2020-02-01T00:00:00"],
    "code": ["GENDER//F", "NOTE//discharge", "LAB//7", "GENDER//M", "NOTE//discharge"],
    "numeric_value": [None, None, 1.5, None, None],
    "text_value": [None, "fever", None, None, "cough"],
}
_LABELS = {"subject_id": [1, 2], "prediction_time": ["2020-01-03", "2020-02-02"], "boolean_value": [True, False]}


def _frame(content: bytes) -> pl.DataFrame | None:
    """A table from JSON: lists by column, texts that are times as times; None where it is none."""
    try:
        columns = json.loads(content)
        frame = pl.DataFrame(columns, strict=False)
        for name in ("time", "prediction_time"):
            if name in frame.columns and frame[name].dtype == pl.String:
                times = [None if cell is None else datetime.fromisoformat(cell) for cell in frame[name]]
                frame = frame.with_columns(pl.Series(name, times, dtype=pl.Datetime("us")))
        frame.write_parquet(io.BytesIO())
    except (ValueError, TypeError, RecursionError, OverflowError, AttributeError, pl.exceptions.PolarsError):
        return None
    return frame


def _as_parquet(columns: Mapping[str, object]) -> bytes:
    out, frame = io.BytesIO(), _frame(json.dumps(columns).encode())
    if frame is not None:
        frame.write_parquet(out)
    return out.getvalue()


def meds_tables(path: Path) -> object:
    """Tables with any columns, as shard and as labels."""
    frame = _frame(path.read_bytes())
    if frame is None:
        return None
    file = path.with_name("table.parquet")
    frame.write_parquet(file)
    return check_shards([file]) if "code" in frame.columns else read_label_files([file])


def meds_shard(path: Path) -> object:
    """Any bytes as a shard."""
    return check_shards([path])


def meds(path: Path) -> object:
    """A data set with a shard of any columns."""
    frame, folder = _frame(path.read_bytes()), _place(path, "meds")
    if frame is None:
        return None
    for name in ("data/train", "data/held_out", "task_labels/ill"):
        (folder / name).mkdir(parents=True)
    frame.write_parquet(folder / "data" / "train" / "0.parquet")
    other = {**_EVENTS, "subject_id": [7, 7, 7, 8, 8]}
    (folder / "data" / "held_out" / "0.parquet").write_bytes(_as_parquet(other))
    labels = {**_LABELS, "subject_id": [1, 7]}
    (folder / "task_labels" / "ill" / "0.parquet").write_bytes(_as_parquet(labels))
    return build_meds(folder)


MEDS = (json.dumps(_EVENTS).encode(), json.dumps(_LABELS).encode())
MEDS_SHARD = (_as_parquet(_EVENTS),)
MEDS_EVENTS = MEDS[:1]


# --- OMOP ---------------------------------------------------------------------------------------------------

OMOP = (
    _BETWEEN.join(
        (
            b"person_id,year_of_birth,gender_source_value\n1,1950,F\n2,1960,M\n",
            b"visit_occurrence_id,person_id,visit_concept_id,visit_start_date,visit_end_date\n"
            b"1,1,9201,2020-01-01,2020-01-05\n2,1,9201,2020-01-20,2020-01-25\n3,2,9201,1/2/2020,1/6/2020\n",
            b"note_id,person_id,note_date,note_text,visit_occurrence_id\n"
            b'1,1,2020-01-04,"fever, cough",1\n2,1,2020-01-21,"said ""no""",2\n3,2,2020-01-05,well,\n',
            b"person_id,death_date\n2,2021-01-01\n",
        )
    ),
)


def omop(path: Path) -> object:
    """Tables of a hospital in one file, apart."""
    folder = _place(path, "omop")
    names = ("person", "visit_occurrence", "note", "death")
    for name, content in zip(names, path.read_bytes().split(_BETWEEN), strict=False):
        (folder / f"{name}.csv").write_bytes(content)
    return build_omop(folder, options=OmopOptions(incomplete="keep"))


# --- FHIR ---------------------------------------------------------------------------------------------------


def _fhir() -> bytes:
    note = base64.b64encode(b"Fever and cough.").decode()
    page = base64.b64encode(b"<html><body><p>Went <b>home</b>.</p></body></html>").decode()
    found: list[dict[str, object]] = [
        {"resourceType": "Patient", "id": "p1", "gender": "female", "birthDate": "1950-02-01"}
    ]
    for k, (begin, end) in enumerate((("2020-01-01", "2020-01-05"), ("2020-01-20", "2020-01-25"))):
        whose = {"subject": {"reference": "Patient/p1"}}
        period = {"start": f"{begin}T08:00:00+01:00", "end": f"{end}T08:00:00Z"}
        kind = {"class": {"code": "IMP"}, "status": "finished", "period": period}
        found.append({"resourceType": "Encounter", "id": f"e{k}", **whose, **kind})
        data = {"contentType": "text/html", "data": page} if k else {"contentType": "text/plain", "data": note}
        about = {"type": {"coding": [{"system": "http://loinc.org", "code": "18842-5"}]}, "status": "current"}
        where = {"date": f"{end}T07:00:00Z", "context": {"encounter": [{"reference": f"Encounter/e{k}"}]}}
        found.append(
            {
                **{"resourceType": "DocumentReference", "id": f"d{k}", **whose, **about, **where},
                "content": [{"attachment": data}],
            }
        )
    return b"".join(json.dumps(each).encode() + b"\n" for each in found)


FHIR = (_fhir(),)


def fhir(path: Path) -> object:
    """An export of one file."""
    folder = _place(path, "fhir")
    shutil.copy(path, folder / "all.ndjson")
    return build_fhir(folder, options=FhirOptions(incomplete="keep"))


# --- DICOM --------------------------------------------------------------------------------------------------


def _film() -> bytes:
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

    film = Dataset()
    film.file_meta = FileMetaDataset()
    film.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    film.SOPClassUID = film.file_meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    film.SOPInstanceUID = film.file_meta.MediaStorageSOPInstanceUID = "1.2.3"
    film.PatientID, film.Modality, film.PatientAge, film.NumberOfFrames = "p1", "DX", "081Y", "1"
    film.StudyDate, film.StudyTime, film.ViewPosition = "20200125", "104702.8", "PA"
    film.Rows = film.Columns = 8
    film.SamplesPerPixel, film.PhotometricInterpretation = 1, "MONOCHROME2"
    film.BitsAllocated, film.BitsStored, film.HighBit, film.PixelRepresentation = 16, 12, 11, 0
    film.WindowCenter, film.WindowWidth = 32, 64
    film.PixelData = np.arange(64, dtype=np.uint16).tobytes()
    out = io.BytesIO()
    film.save_as(out, enforce_file_format=True)
    return out.getvalue()


DICOM = (_film(),)


def dicom(path: Path) -> object:
    """A film: its header, and its picture."""
    read_header(path)
    return list(read_all([str(path)], ["c"], ImageFormat(image_size=8, bits=12)))
