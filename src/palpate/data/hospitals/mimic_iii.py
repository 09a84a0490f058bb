"""The MIMIC-III layout (version 1.4): which tables and columns the builders read."""

from __future__ import annotations

from palpate.data.hospitals.sources import Layout, Table

PATIENTS = Table("patients", ("subject_id", "gender", "dob"), key="subject_id")
ADMISSIONS = Table(
    "admissions",
    (
        "subject_id",
        "hadm_id",
        "admittime",
        "dischtime",
        "admission_type",
        "insurance",
        "ethnicity",
        "hospital_expire_flag",
    ),
    key="hadm_id",
)
NOTEEVENTS = Table(
    "noteevents",
    (
        "row_id",
        "subject_id",
        "hadm_id",
        "chartdate",
        "charttime",
        "category",
        "description",
        "iserror",
        "text",
    ),
    wanted="lower(category) = 'discharge summary'",
)
DIAGNOSES_ICD = Table("diagnoses_icd", ("hadm_id", "icd9_code"))
PROCEDURES_ICD = Table("procedures_icd", ("hadm_id", "icd9_code"))

MIMIC_III = Layout("mimic-iii", (PATIENTS, ADMISSIONS), NOTEEVENTS, ("mimic_iii_stays", "mimic_iii_notes"))
