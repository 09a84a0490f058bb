"""DICOM films as grey pictures, from 0 (black) to 255 (white), as a radiologist would see them.

In the order of the standard (PS3.3, C.11): the stored numbers through the modality table or rescale, then through the
window or table that the file itself asks for, then MONOCHROME1 is turned, so that bone is bright in every film. A film
of more than 8 bits without a window is stretched from its darkest to its brightest pixel; padding around it is black
and does not count. Compressed films are decoded by GDCM.

Refused, with a reason: a file without pixels, several frames, and a picture that says that annotations are burned into
it, which may be the patient's name.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palpate.errors import MissingExtra
from palpate.registry import optional

if TYPE_CHECKING:
    from PIL import Image

Grey = NDArray[np.float64]
_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp")
_NAMED = (".dcm", ".dicom", ".dic", ".ima")
_FAR = 1e12


def is_dicom(file: str) -> bool:
    """Whether it is a DICOM file, by its name or by its mark; archives often give films no ending."""
    ending = Path(file).suffix.lower()
    if ending in _PICTURES or ending in _NAMED:
        return ending in _NAMED
    with Path(file).open("rb") as stream:
        return stream.read(132)[128:] == b"DICM"


def read_film(file: str) -> Image.Image:
    """The film with one number per pixel; a ValueError says why there is none, without a value from its header."""
    from PIL import Image

    pydicom = optional("pydicom", extra="dicom", needed_for="DICOM films")
    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE  # its warnings quote the header
    warnings.filterwarnings("ignore", module=r"pydicom\b")  # for good: films are read by several threads
    try:
        film = pydicom.dcmread(file, force=True)
        _refuse(film)
        grey = _shown(film, _pixels(film))
    except (OSError, MissingExtra, _Refused):
        raise
    except Exception as error:  # damaged headers raise many types, and their messages quote patients' values
        raise ValueError(f"damaged DICOM, {type(error).__name__}") from None
    return Image.fromarray(grey.astype(np.float32))


class _Refused(ValueError):
    """A film that can't be used, with the reason as its text."""


def _refuse(film: Any) -> None:
    if "PixelData" not in film:
        raise _Refused("a DICOM file without pixels, or cut short" if len(film) else "not a DICOM file")
    frames = int(film.get("NumberOfFrames") or 1)
    if frames > 1:
        raise _Refused(f"it has {frames} frames; a film has one")
    if str(film.get("BurnedInAnnotation") or "").strip().upper() == "YES":
        raise _Refused("it says that annotations are burned into the picture, which may name the patient")


def _pixels(film: Any) -> NDArray[Any]:
    """The stored numbers; colour becomes grey."""
    from pydicom.uid import ImplicitVRLittleEndian

    film.ensure_file_meta()
    film.file_meta.setdefault(
        "TransferSyntaxUID", ImplicitVRLittleEndian
    )  # of a file without a header, by the standard
    syntax = film.file_meta.TransferSyntaxUID
    try:
        stored: NDArray[Any] = film.pixel_array
    except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
        if syntax.is_compressed and not _decodes():
            raise MissingExtra("dicom", needed_for=f"films compressed as {syntax.name}") from None
        how = f" ({syntax.name})" if syntax.is_compressed else ""
        raise _Refused(f"its pixels can't be decoded{how}, {type(error).__name__}") from None
    if stored.ndim == 3:
        return np.asarray(stored @ np.array([0.299, 0.587, 0.114]))
    return stored


def _decodes() -> bool:
    try:
        optional("gdcm", extra="dicom", needed_for="compressed films")
    except MissingExtra:
        return False
    return True


def _shown(film: Any, stored: NDArray[Any]) -> Grey:
    """The numbers as they are shown, from 0 to 255."""
    padded = _padding(film, stored)
    if stored.dtype.kind == "f":  # it was colour, which has no window
        low, high, values = 0.0, float(2 ** int(film.BitsStored) - 1), stored
    else:
        low, high, values = _windowed(film, stored, ~padded)
    grey = np.clip((values - low) / (high - low if high != low else 1.0), 0.0, 1.0) * 255
    shape = str(film.get("PresentationLUTShape") or "").strip().upper()
    if film.PhotometricInterpretation == "MONOCHROME1" or shape == "INVERSE":
        grey = 255 - grey
    grey[padded] = 0
    return np.asarray(grey, dtype=np.float64)


def _windowed(film: Any, stored: NDArray[Any], counts: NDArray[np.bool_]) -> tuple[float, float, NDArray[Any]]:
    """The numbers through the file's own tables, and what is black and white among them."""
    from pydicom.pixels import apply_modality_lut, apply_voi_lut, apply_windowing

    values = apply_modality_lut(stored, film)
    if film.get("VOILUTSequence"):
        bits = int(film.VOILUTSequence[0].LUTDescriptor[2])
        return 0.0, float(2**bits - 1), apply_voi_lut(values.astype(np.int64), film)
    if film.get("WindowWidth") is not None and film.get("WindowCenter") is not None:
        # What lies far outside the window is shown as its ends.
        low, high = apply_windowing(np.array([-_FAR, _FAR]), film)
        return float(low), float(high), apply_windowing(values, film)
    if values is stored and int(film.BitsStored) <= 8:
        return 0.0, float(2 ** int(film.BitsStored) - 1), values
    inside = values[counts] if counts.any() else values
    return float(inside.min()), float(inside.max()), values


def _padding(film: Any, stored: NDArray[Any]) -> NDArray[np.bool_]:
    """The pixels around the film, which a scanner filled in."""
    value = film.get("PixelPaddingValue")
    if value is None or stored.dtype.kind == "f":
        return np.zeros(stored.shape, dtype=bool)
    limit = film.get("PixelPaddingRangeLimit")
    low, high = sorted((int(value), int(value if limit is None else limit)))
    return np.asarray((stored >= low) & (stored <= high), dtype=bool)
