"""DICOM films for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def write_film(
    path: Path,
    stored: Any,
    *,
    bits: int | None = None,
    compress: Any = None,
    pixels: bool = True,
    cut: int = 0,
    **tags: Any,
) -> Path:
    """A film as a device writes it; `cut` takes bytes off its end."""
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    film = Dataset()
    film.file_meta = FileMetaDataset()
    film.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    film.SOPClassUID = film.file_meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    film.SOPInstanceUID = film.file_meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(path)])
    film.PatientID, film.Modality = "p1", "DX"
    film.Rows, film.Columns = stored.shape[:2]
    film.SamplesPerPixel = 3 if stored.ndim == 3 else 1
    film.PhotometricInterpretation = "RGB" if stored.ndim == 3 else "MONOCHROME2"
    if stored.ndim == 3:
        film.PlanarConfiguration = 0
    film.BitsAllocated = stored.dtype.itemsize * 8
    film.BitsStored = bits or film.BitsAllocated
    film.HighBit = film.BitsStored - 1
    film.PixelRepresentation = int(np.issubdtype(stored.dtype, np.signedinteger))
    if pixels:
        film.PixelData = np.ascontiguousarray(stored).tobytes()
    for name, value in tags.items():
        setattr(film, name, value)
    if compress is not None:
        film.compress(compress)
    film.save_as(path, enforce_file_format=True)
    if cut:
        path.write_bytes(path.read_bytes()[:-cut])
    return path
