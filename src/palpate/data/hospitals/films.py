"""The headers of DICOM films in a folder: whose film it is, of which study, and how it was taken.

A file is a film if it has all pixels of one grey frame and does not say that annotations are burned into them; what is
wrong with another file is its `dropped`. Values of a header are never quoted in messages: they may be a name.
"""

from __future__ import annotations

import os
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from palpate.cases.columns import FILMS
from palpate.errors import CohortError
from palpate.registry import optional

_TAGS = (
    "SOPInstanceUID", "StudyInstanceUID", "AccessionNumber", "PatientID", "PatientAge", "PatientBirthDate",
    "PatientSex", "StudyDate", "StudyTime", "Modality", "ViewPosition", "Manufacturer", "ManufacturerModelName",
    "StationName", "StudyDescription", "SeriesDescription", "ProtocolName", "PerformedProcedureStepDescription",
    "NumberOfFrames", "BurnedInAnnotation", "Rows", "Columns", "SamplesPerPixel", "BitsAllocated", "BitsStored",
    "PhotometricInterpretation", "SpecificCharacterSet",
)  # fmt: skip
_BESIDE = (
    r"chest|thorax|cxr|abdomen|abd|kub|pelvis|spine|hip|knee|xr|x-?ray|rad|views?|\d+ ?v(?:w|iews?)?|[1-4]|one|single|"
    r"frontal|ap|pa|lat|lateral|supine|erect|upright|semi|sitting|decub|stat|icu|nicu|picu|er|ed|or"
)
"""Words beside which PORT is short for portable; a port that is placed or checked is a catheter's."""
_PORTABLE = re.compile(
    r"(?<!non)(?<!non[ -])(?<!not )\b(?:portable\b|mobile(?:\b|d)|mobilett|bedside\b|bed side\b)"
    rf"|(?:^|\b(?:{_BESIDE})\b)[^\w]*\bport\b(?=[^\w]*$|[^\w]+(?:{_BESIDE})\b)",
    re.IGNORECASE,
)
_MOBILE_DEVICE = re.compile(
    r"(?<!im)mobil|(?<!non)(?<!non[ _-])portab|transportable|bed[ _-]?side"
    r"|(?:^|[^a-z])port[ _-]?\d*$|(?:^|[^a-z])amx(?![a-z])|drx[ _-]?rev|fdr[ _-]?(?:go|nano|aqro)",
    re.IGNORECASE,
)
"""What names of movable devices and their stations have in common (MobileDaRt, Mobilett, PORTABLE2, PORT-1), and a
few series whose names don't say it (AMX, DRX-Revolution, FDR Go)."""
_DESCRIPTIONS = ("StudyDescription", "SeriesDescription", "ProtocolName", "PerformedProcedureStepDescription")
_PIXELS = (b"\xe0\x7f\x10\x00", b"\x7f\xe0\x00\x10")
_PIXEL_TYPES = (b"OW", b"OB", b"UN")
_ITEM, _END = b"\xfe\xff\x00\xe0", b"\xfe\xff\xdd\xe0"
_UNDEFINED = 0xFFFFFFFF
_GREY = ("MONOCHROME1", "MONOCHROME2")
_EIGHT_BITS = ("gdcm", "pillow")
"""Decoders that read JPEG Extended of 8 bits only."""
_OLDEST = 120
_YEARS = {"": 1.0, "Y": 1.0, "M": 1 / 12, "W": 7 / 365.25, "D": 1 / 365.25}


class Film(NamedTuple):
    """One file, and what its header says; empty or None where it says nothing."""

    file: str
    dropped: str | None = None
    film: str = ""
    study: str = ""
    accession: str = ""
    patient_id: str = ""
    time: datetime | None = None
    age: float | None = None
    gender: str | None = None
    view: str | None = None
    portable: str | None = None
    """`yes` if a description of the study or the name of its device says so, `no` if there are descriptions and neither
    does."""
    scanner: str | None = None
    modality: str | None = None


def read_films(folder: Path) -> list[Film]:
    """Every file below a folder, in the order of their paths; hidden files and DICOMDIRs are passed over."""
    pydicom = optional("pydicom", extra="dicom", needed_for="DICOM films")
    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE  # its warnings quote the header
    if not folder.is_dir():
        raise CohortError("this is not a folder", file=folder, hint="give the folder with the DICOM files")
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name != "DICOMDIR" and not path.name.startswith(".")
    )
    if not files:
        raise CohortError("the folder has no files", file=folder, hint="give the folder with the DICOM files")
    for path in files:
        if FILMS in str(path.absolute()):
            problem = f"the name has a bar ({FILMS}), which separates the films of a case in a cohort"
            raise CohortError(problem, file=path, hint="rename the file or its folder")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom's, about headers that it reads nevertheless
        with ThreadPoolExecutor() as pool:
            return list(pool.map(read_header, files))


def read_header(path: Path) -> Film:
    """What one file's header says."""
    from pydicom import dcmread
    from pydicom.errors import InvalidDicomError

    try:
        with path.open("rb") as stream:
            header = dcmread(stream, stop_before_pixels=True, specific_tags=list(_TAGS), force=_named(path))
            lacking = _lacking(stream, header)
        return _film(path, header, lacking) if len(header) else Film(str(path), "not dicom")
    except InvalidDicomError:
        return Film(str(path), "not dicom")
    except OSError as error:
        raise CohortError(f"the file can't be read ({error.strerror or type(error).__name__})", file=path) from None
    except Exception:  # damaged headers raise many types, and their messages quote values
        return Film(str(path), "damaged")


def _named(path: Path) -> bool:
    """Whether a file without DICOM's mark is meant to be DICOM: some archives leave out the preamble."""
    return path.suffix.lower() in (".dcm", ".dicom", ".dic", ".ima")


def _lacking(stream: BinaryIO, header: Any) -> str | None:
    """What is wrong with the pixels, at which reading stopped.

    Of a deflated file, and of a maker's own encoding, the header alone can tell.
    """
    meta = getattr(header, "file_meta", {})
    syntax = meta.get("TransferSyntaxUID") if meta else None
    if syntax is not None and (not syntax.is_transfer_syntax or syntax.is_deflated):
        return None if "Rows" in header else "no pixels"
    if stream.read(4) not in _PIXELS:
        return "no pixels"
    # Some files have implicit types although their header says otherwise; the letters of a type can be no length.
    head, (_, little) = stream.read(4), header.original_encoding
    length = stream.read(4) if head[:2] in _PIXEL_TYPES else head
    declared = int.from_bytes(length, "little" if little else "big")
    there = os.fstat(stream.fileno()).st_size - stream.tell()
    if declared == _UNDEFINED:
        return None if _all_items(stream) else "cut short"
    needed = [header.get(tag) for tag in ("Rows", "Columns", "BitsAllocated")]
    if not all(needed):
        return "no pixels"
    rows, columns, bits = map(int, needed)
    return None if min(declared, there) * 8 >= rows * columns * bits else "cut short"


def _all_items(stream: BinaryIO) -> bool:
    """Whether compressed pixels go on to their end: items, each with its length, and a mark after the last."""
    size = os.fstat(stream.fileno()).st_size
    while True:
        tag, length = stream.read(4), int.from_bytes(stream.read(4), "little")
        if tag == _END:
            return True
        if tag != _ITEM or stream.tell() + length > size:
            return False
        stream.seek(length, os.SEEK_CUR)


def _unusable(header: Any, lacking: str | None) -> str | None:
    """Why a file is no film that can be used."""
    if lacking is not None:
        return lacking
    if int(_text(header, "NumberOfFrames") or 1) > 1:
        return "frames"
    if (
        int(header.get("SamplesPerPixel") or 1) > 1
        or (_text(header, "PhotometricInterpretation") or _GREY[0]) not in _GREY
    ):
        return "colour"
    if (_text(header, "BurnedInAnnotation") or "").upper() == "YES":
        return "burned in"
    if not _is_decoded(header):
        return "compression"
    return "no patient" if _text(header, "PatientID") is None else None


def _is_decoded(header: Any) -> bool:
    """Whether a decoder for the film's compression is installed."""
    from pydicom.pixels import get_decoder
    from pydicom.uid import JPEGExtended12Bit

    meta = getattr(header, "file_meta", {})
    syntax = meta.get("TransferSyntaxUID") if meta else None
    if syntax is not None and not syntax.is_transfer_syntax:  # a maker's own, of which pydicom knows nothing
        return False
    if syntax is None or not syntax.is_compressed or syntax.is_deflated:
        return True
    try:
        decoders = set(get_decoder(syntax).available_plugins)
    except NotImplementedError:
        return False
    deep = syntax == JPEGExtended12Bit and int(header.get("BitsStored") or 8) > 8
    return bool(decoders - set(_EIGHT_BITS) if deep else decoders)


def _film(path: Path, header: Any, lacking: str | None) -> Film:
    said = [text for text in (_text(header, tag) for tag in _DESCRIPTIONS) if text]
    devices = [text for text in (_text(header, "ManufacturerModelName"), _text(header, "StationName")) if text]
    maker = [text for text in (_text(header, "Manufacturer"), _text(header, "ManufacturerModelName")) if text]
    taken = _time(_text(header, "StudyDate"), _text(header, "StudyTime"))
    return Film(
        file=str(path),
        dropped=_unusable(header, lacking),
        film=_text(header, "SOPInstanceUID") or path.name,
        study=_text(header, "StudyInstanceUID") or "",
        accession=_text(header, "AccessionNumber") or "",
        patient_id=_text(header, "PatientID") or "",
        time=taken,
        age=_age(_text(header, "PatientAge"), _text(header, "PatientBirthDate"), taken),
        gender=_text(header, "PatientSex"),
        view=_text(header, "ViewPosition"),
        portable=_portable(said, devices),
        scanner=" ".join(maker) or None,
        modality=_text(header, "Modality"),
    )


def _portable(said: list[str], devices: list[str]) -> str | None:
    moved = any(map(_PORTABLE.search, [*said, *devices])) or any(map(_MOBILE_DEVICE.search, devices))
    return "yes" if moved else "no" if said else None


def _text(header: Any, tag: str) -> str | None:
    value = header.get(tag)
    text = "" if value is None else str(value).strip().strip("\x00")
    return text or None


def _time(day: str | None, clock: str | None) -> datetime | None:
    """DICOM's date and time of day; midnight where there is only a date. A leap second is the second before it."""
    on = _date(day)
    if on is None:
        return None
    found = re.match(r"(\d{2}):?(\d{2})?:?(\d{2})?", clock or "")
    hour, minute, second = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    valid = hour < 24 and minute < 60 and second <= 60
    return datetime.combine(on, time(hour, minute, min(second, 59))) if valid else None


def _date(day: str | None) -> date | None:
    found = re.fullmatch(r"(\d{4})[.-]?(\d{2})[.-]?(\d{2})", day or "")
    try:
        return date(*(int(part) for part in found.groups())) if found else None
    except ValueError:
        return None


def _age(said: str | None, born: str | None, taken: datetime | None) -> float | None:
    """Years, from `081Y`, `006M` or a bare `81`, or from the date of birth; 999 and the like are no ages."""
    found = re.fullmatch(r"0*(\d{1,3})([YMWD]?)", (said or "").upper())
    years = round(int(found[1]) * _YEARS[found[2]], 2) if found else _OLDEST + 1
    if years <= _OLDEST:
        return years
    birth = _date(born)
    if birth is None or taken is None or taken.date() < birth:
        return None
    day = taken.date()
    return float(day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day)))
