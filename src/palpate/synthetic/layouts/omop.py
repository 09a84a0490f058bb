"""The OMOP CDM 5.4 as gzipped CSV: notes have a date and no time, as in many databases."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from palpate.synthetic.layouts import Tables
from palpate.synthetic.layouts.standards import RecordedPatient, RecordedStay
from palpate.synthetic.patients.conditions import conditions

COLUMNS = {
    "PERSON": (
        *("person_id", "gender_concept_id", "year_of_birth", "month_of_birth", "day_of_birth", "birth_datetime"),
        *("race_concept_id", "ethnicity_concept_id", "person_source_value", "gender_source_value"),
        *("race_source_value", "ethnicity_source_value"),
    ),
    "VISIT_OCCURRENCE": (
        *("visit_occurrence_id", "person_id", "visit_concept_id", "visit_start_date", "visit_start_datetime"),
        *("visit_end_date", "visit_end_datetime", "visit_type_concept_id", "visit_source_value"),
        "discharged_to_concept_id",
    ),
    "NOTE": (
        *("note_id", "person_id", "note_date", "note_datetime", "note_type_concept_id", "note_class_concept_id"),
        *("note_title", "note_text", "encoding_concept_id", "language_concept_id", "visit_occurrence_id"),
        "note_source_value",
    ),
    "CONDITION_OCCURRENCE": (
        *("condition_occurrence_id", "person_id", "condition_concept_id", "condition_start_date"),
        *("condition_start_datetime", "condition_type_concept_id", "visit_occurrence_id", "condition_source_value"),
    ),
    "DEATH": ("person_id", "death_date", "death_datetime", "death_type_concept_id"),
    "OBSERVATION_PERIOD": (
        *("observation_period_id", "person_id", "observation_period_start_date", "observation_period_end_date"),
        "period_type_concept_id",
    ),
    "CDM_SOURCE": ("cdm_source_name", "cdm_version"),
}
GENDERS = {"F": 8532, "M": 8507}
RACES = {"WHITE": 8527, "BLACK": 8516, "ASIAN": 8515}
FIRST_CONCEPT = 2_000_000_001
"""OMOP leaves concepts from 2,000,000,000 on to the site."""
INPATIENT, DIED, EHR, DISCHARGE_SUMMARY, UTF8, ENGLISH = 9201, 4216643, 32817, 44814638, 32678, 4180186


class OmopWriter:
    """Writes the tables, patient by patient; observation periods at the end, when the last admission is known."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._tables = self._stack.enter_context(Tables(folder))
        for name, columns in COLUMNS.items():
            self._tables.open(name, columns)
        self._concepts = {each.name: FIRST_CONCEPT + k for k, each in enumerate(conditions())}
        self._seen: list[tuple[int, datetime, datetime | None]] = []
        self._last = datetime.min
        self._tables.add("CDM_SOURCE", ("palpate's synthetic hospital", "v5.4"))

    def add(self, patient: RecordedPatient) -> None:
        """Write all rows of a patient."""
        born, who = patient.birth, patient.subject_id
        race = next((concept for word, concept in RACES.items() if patient.race.startswith(word)), 0)
        self._tables.add(
            "PERSON",
            (who, GENDERS[patient.gender], born.year, born.month, born.day, "", race, 0, who, patient.gender,
             patient.race, ""),
        )  # fmt: skip
        for stay in patient.stays:
            self._stay(who, stay)
            self._last = max(self._last, stay.admit)
        if patient.death is not None:
            self._tables.add("DEATH", (who, patient.death.date(), patient.death, EHR))
        self._seen.append((who, patient.stays[0].admit, patient.death))

    def _stay(self, who: int, stay: RecordedStay) -> None:
        visit, left = stay.hadm_id, stay.discharge
        went = DIED if stay.died else 0
        self._tables.add(
            "VISIT_OCCURRENCE",
            (visit, who, INPATIENT, stay.admit.date(), stay.admit, left.date(), left, EHR, stay.kind, went),
        )
        self._tables.add(
            "NOTE",
            (self._tables.next_row("NOTE"), who, left.date(), "", EHR, DISCHARGE_SUMMARY, "Discharge summary",
             stay.text, UTF8, ENGLISH, visit, "DS"),
        )  # fmt: skip
        for each in stay.conditions:
            row = (self._concepts[each.name], stay.admit.date(), stay.admit, EHR, visit, each.icd10)
            self._tables.add("CONDITION_OCCURRENCE", (self._tables.next_row("CONDITION_OCCURRENCE"), who, *row))

    def close(self) -> None:
        """Everyone is observed from the first admission to the last one of the hospital, or to a death before it."""
        for number, (who, first, death) in enumerate(self._seen, start=1):
            last = max(first, min(death or self._last, self._last)).date()
            self._tables.add("OBSERVATION_PERIOD", (number, who, first.date(), last, EHR))
        self._stack.close()


def open_writer(folder: Path) -> OmopWriter:
    """The writer of this layout."""
    return OmopWriter(folder)
