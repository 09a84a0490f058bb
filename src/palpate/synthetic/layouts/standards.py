"""The layouts of standards (MEDS, OMOP, FHIR): the same patients, stays and notes as on the MIMIC-IV side.

    writer = open_standard("omop", folder)
    writer.add(patient)
    writer.close()

A stay is a visit, its discharge summary a note of the time of discharge, and its conditions are diagnoses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Protocol

from palpate.privacy import hides
from palpate.synthetic.patients.conditions import Condition

STANDARDS = ("meds", "omop", "fhir")


@hides("text")
@dataclass(frozen=True, slots=True)
class RecordedStay:
    """A stay as the hospital recorded it."""

    hadm_id: int
    admit: datetime
    discharge: datetime
    kind: str
    died: bool
    conditions: tuple[Condition, ...]
    text: str


@dataclass(frozen=True, slots=True)
class RecordedPatient:
    """A patient as the hospital recorded them, with all stays in order of admission."""

    subject_id: int
    gender: str
    race: str
    birth: datetime
    stays: list[RecordedStay] = field(default_factory=list)

    @property
    def death(self) -> datetime | None:
        """When the patient died in the hospital, if so."""
        return self.stays[-1].discharge if self.stays[-1].died else None


class StandardWriter(Protocol):
    """Writes patients in a standard's layout."""

    def add(self, patient: RecordedPatient) -> None:
        """Write all rows of a patient."""

    def close(self) -> None:
        """Write what is known only at the end, and close the files."""


def open_standard(name: str, folder: Path) -> StandardWriter:
    """The writer of a standard's layout, into a folder of its own."""
    writer: StandardWriter = import_module(f"palpate.synthetic.layouts.{name}").open_writer(folder)
    return writer
