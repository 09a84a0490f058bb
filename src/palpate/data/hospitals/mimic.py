"""The layouts of MIMIC-III (1.4), MIMIC-IV (2.2, with MIMIC-IV-Note) and MIMIC-CXR-JPG (2.0.0 and 2.1.0).

They say which tables and columns are read. The tables of MIMIC-III have names here, because cohort builders also read
them one by one. Names of MIMIC-CXR-JPG's files and columns (`mimic-cxr-2.0.0-metadata`, `Lung Opacity`) can't be names
in SQL: its tables have short names here, and columns have `_` in place of spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from palpate.data.hospitals import SUFFIXES, Hospital, HospitalLayout, SourceTable, find_table, has_table, sql_name
from palpate.errors import CohortError

LayoutName = Literal["auto", "mimic-iii", "mimic-iv"]

PATIENTS = SourceTable("patients", ("subject_id", "gender", "dob"), key="subject_id")
_STAY = ("subject_id", "hadm_id", "admittime", "dischtime", "admission_type", "insurance", "hospital_expire_flag")
ADMISSIONS = SourceTable("admissions", (*_STAY, "ethnicity"), key="hadm_id")
NOTEEVENTS = SourceTable(
    "noteevents",
    ("row_id", "subject_id", "hadm_id", "chartdate", "charttime", "category", "description", "iserror", "text"),
    wanted="lower(category) = 'discharge summary'",
)
DIAGNOSES_ICD = SourceTable("diagnoses_icd", ("hadm_id", "icd9_code"))
PROCEDURES_ICD = SourceTable("procedures_icd", ("hadm_id", "icd9_code"))
CPTEVENTS = SourceTable("cptevents", ("hadm_id", "cpt_cd"))

MIMIC_III = HospitalLayout("mimic-iii", (PATIENTS, ADMISSIONS), NOTEEVENTS, ("mimic_iii_stays", "mimic_iii_notes"))
MIMIC_IV = HospitalLayout(
    "mimic-iv",
    (
        SourceTable("patients", ("subject_id", "gender", "anchor_age", "anchor_year"), folder="hosp", key="subject_id"),
        SourceTable("admissions", (*_STAY, "race"), folder="hosp", key="hadm_id"),
    ),
    SourceTable(
        "discharge",
        ("note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "text"),
        folder="note",
    ),
    ("mimic_iv_stays", "mimic_iv_notes"),
)

XRAY_LABELS = (
    "Atelectasis",
    "Cardiomegaly",
    "Consolidation",
    "Edema",
    "Enlarged Cardiomediastinum",
    "Fracture",
    "Lung Lesion",
    "Lung Opacity",
    "Pleural Effusion",
    "Pleural Other",
    "Pneumonia",
    "Pneumothorax",
    "Support Devices",
)
"""The 13 labels of the paper: the labeler's 14 without `No Finding`; always read by name, never by position."""
METADATA = SourceTable(
    "cxr_metadata",
    ("dicom_id", "subject_id", "study_id", "viewposition", "studydate", "studytime"),
    key="dicom_id",
)
CHEXPERT = SourceTable(
    "cxr_chexpert", ("subject_id", "study_id", *(sql_name(label) for label in XRAY_LABELS)), key="study_id"
)
FILES = {METADATA.name: "mimic-cxr-2.0.0-metadata", CHEXPERT.name: "mimic-cxr-2.0.0-chexpert"}

_DEPTH = 2
"""How many folders below the source a table may be: PhysioNet's own layout is NAME/VERSION/table."""
_NOT_TABLES = "files"


def choose_layout(folder: Path, name: LayoutName = "auto") -> HospitalLayout:
    """The layout of a folder; `auto`: MIMIC-IV if it has a folder `hosp`, or a table `discharge` and no NOTEEVENTS."""
    if name == "auto":
        newer = has_table(folder, MIMIC_IV.notes) and not has_table(folder, MIMIC_III.notes)
        hosp = any(place.is_dir() and place.name.lower() == "hosp" for place in folder.iterdir())
        return MIMIC_IV if newer or hosp else MIMIC_III
    return MIMIC_IV if name == MIMIC_IV.name else MIMIC_III


# --- chest X-rays -------------------------------------------------------------------------------------------


def attach_xray_tables(hospital: Hospital) -> Path:
    """Find, check and open the tables of both layouts; returns MIMIC-CXR-JPG's folder, which also has the images."""
    for table in (*MIMIC_IV.stays, MIMIC_IV.notes):
        hospital.attach(table, find_mimic_iv(hospital.folder, table))
    for table in (METADATA, CHEXPERT):
        hospital.attach(table, find_cxr(hospital.folder, table))
    return hospital.file(METADATA.name).parent


def find_mimic_iv(folder: Path, table: SourceTable) -> Path:
    """The file of a MIMIC-IV table: in `hosp` or `note` somewhere below the folder, or in the folder itself."""

    def there(place: Path) -> Path | None:
        # A table outside its layout's folder may belong to another data set: MIMIC-III also has ADMISSIONS.
        own = any(child.is_dir() and child.name.lower() == table.folder for child in _inside(place))
        return find_table(place, table) if own and has_table(place, table) else None

    return _nearest(folder, table.name, there) or find_table(folder, table)


def find_cxr(folder: Path, table: SourceTable) -> Path:
    """The file of a MIMIC-CXR-JPG table, somewhere below the folder."""
    stem = FILES[table.name]

    def there(place: Path) -> Path | None:
        files = {file.name.lower(): file for file in reversed(_inside(place)) if file.is_file()}
        return next((files[stem + suffix] for suffix in SUFFIXES if stem + suffix in files), None)

    found = _nearest(folder, stem, there)
    if found is None:
        hint = (
            f"palpate looked for {stem}{SUFFIXES[1]} (or .parquet, .csv.gz, .tsv) here and up to {_DEPTH} levels below"
        )
        raise CohortError(f"the table {stem} of MIMIC-CXR-JPG is missing", file=folder, hint=hint)
    return found


def _nearest(folder: Path, table: str, there: Callable[[Path], Path | None]) -> Path | None:
    """What `there` finds in the folder or nearest below it; two folders of one level that have it are an error."""
    for level in _levels(folder):
        found = {place: file for place in level if (file := there(place)) is not None}
        if len(found) > 1:
            named = ", ".join(str(place.relative_to(folder)) for place in found)
            hint = "give the folder of one hospital with one version of each table"
            raise CohortError(f"several folders have the table {table}: {named}", file=folder, hint=hint)
        if found:
            return next(iter(found.values()))
    return None


def _levels(folder: Path) -> Iterator[list[Path]]:
    """The folder, then the folders in it, then the folders in those; not the images."""
    level = [folder]
    yield level
    for _ in range(_DEPTH):
        level = [
            child
            for place in level
            for child in _inside(place)
            if child.is_dir() and child.name != _NOT_TABLES and not child.name.startswith(".")
        ]
        yield level


def _inside(place: Path) -> list[Path]:
    """The content of a folder, by name; nothing if it can't be read, like lost+found on a disk."""
    try:
        return sorted(place.iterdir())
    except PermissionError:
        return []
