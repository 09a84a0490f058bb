"""The chest pictures as DICOM films: one file per film, as an archive exports them, with the truth of the JPG layout.

Twelve bits, a window, and in every second study MONOCHROME1, as devices differ. The labels are those of MIMIC-CXR-JPG's
table: its `study_id` is the accession number.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.files import open_named
from palpate.registry import optional

_TOP = 4095
_STORAGE = "1.2.840.10008.5.1.4.1.1.1.1"
_VIEWS = {"LATERAL": "LL"}


class Shot(NamedTuple):
    """What the header says of one film."""

    dicom: str
    subject: int
    study: int
    time: datetime
    view: str
    procedure: str
    gender: str
    years: int


def require_pydicom() -> Any:
    """pydicom, which writes the films."""
    return optional("pydicom", extra="dicom", needed_for="a hospital with DICOM films")


def write_film(folder: Path, shot: Shot, picture: NDArray[np.uint8]) -> None:
    """Write one film; its numbers are sixteen times those of the picture."""
    require_pydicom()
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian

    film = Dataset()
    film.file_meta = FileMetaDataset()
    film.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    film.SOPClassUID = film.file_meta.MediaStorageSOPClassUID = _STORAGE
    film.SOPInstanceUID = film.file_meta.MediaStorageSOPInstanceUID = (
        f"2.25.{int(shot.dicom.replace('-', '')[:31], 16)}"
    )
    film.StudyInstanceUID, film.AccessionNumber = f"2.25.{shot.study}", str(shot.study)
    film.PatientID, film.PatientSex, film.PatientAge = str(shot.subject), shot.gender, f"{shot.years:03d}Y"
    film.StudyDate, film.StudyTime = f"{shot.time:%Y%m%d}", f"{shot.time:%H%M%S}"
    film.Modality, film.ViewPosition = "DX", _VIEWS.get(shot.view, shot.view)
    film.StudyDescription, film.BurnedInAnnotation = shot.procedure, "NO"
    film.Manufacturer = "Synthetic Mobile" if "PORTABLE" in shot.procedure else "Synthetic Wall"
    stored = np.rint(picture.astype(np.float64) / 255 * _TOP).astype("<u2")
    dark_is_high = shot.study % 2 == 1
    film.PhotometricInterpretation = "MONOCHROME1" if dark_is_high else "MONOCHROME2"
    film.Rows, film.Columns = stored.shape
    film.SamplesPerPixel, film.PixelRepresentation = 1, 0
    film.BitsAllocated, film.BitsStored, film.HighBit = 16, 12, 11
    film.WindowCenter, film.WindowWidth = (_TOP + 1) // 2, _TOP + 1
    film.PixelData = (_TOP - stored if dark_is_high else stored).astype("<u2").tobytes()
    path = folder / f"s{shot.study}" / f"{shot.dicom}.dcm"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_named(path) as file:
        film.save_as(file, enforce_file_format=True)
