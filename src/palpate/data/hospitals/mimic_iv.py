"""The MIMIC-IV layout (version 2.2, with MIMIC-IV-Note): which tables and columns the builders read."""

from __future__ import annotations

from palpate.data.hospitals.sources import Layout, Table

PATIENTS = Table("patients", ("subject_id", "gender", "anchor_age", "anchor_year"), folder="hosp", key="subject_id")
ADMISSIONS = Table(
    "admissions",
    ("subject_id", "hadm_id", "admittime", "dischtime", "admission_type", "insurance", "race", "hospital_expire_flag"),
    folder="hosp",
    key="hadm_id",
)
DISCHARGE = Table(
    "discharge",
    ("note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "text"),
    folder="note",
)

MIMIC_IV = Layout("mimic-iv", (PATIENTS, ADMISSIONS), DISCHARGE, ("mimic_iv_stays", "mimic_iv_notes"))
