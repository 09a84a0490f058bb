"""The layouts of MIMIC-III (version 1.4) and MIMIC-IV (2.2, with MIMIC-IV-Note): which tables and columns are read.

The tables of MIMIC-III have names here, because cohort builders also read them one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from palpate.data.hospitals import HospitalLayout, SourceTable, has_table

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


def choose_layout(folder: Path, name: LayoutName = "auto") -> HospitalLayout:
    """The layout of a folder; `auto`: MIMIC-IV if it has a folder `hosp`, or a table `discharge` and no NOTEEVENTS."""
    if name == "auto":
        newer = has_table(folder, MIMIC_IV.notes) and not has_table(folder, MIMIC_III.notes)
        hosp = any(place.is_dir() and place.name.lower() == "hosp" for place in folder.iterdir())
        return MIMIC_IV if newer or hosp else MIMIC_III
    return MIMIC_IV if name == MIMIC_IV.name else MIMIC_III
