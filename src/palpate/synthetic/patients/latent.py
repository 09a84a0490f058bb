"""latent.csv.gz: the state behind each admission, and what each plant added to its log-odds."""

from __future__ import annotations

import math

from palpate.synthetic.layouts.tables import Tables
from palpate.synthetic.patients.conditions import condition_names
from palpate.synthetic.patients.patients import Patient, Stay

_PARTS = ("clinical_readmission", "clinical_mortality", "spurious_word", "age", "gender", "ethnicity")
_STATE = ("source", "subject_id", "hadm_id", "stay", "age", "gender", "ethnicity", "frailty", "severity", "eligible",
          "spurious", "logit_readmission", "logit_mortality", "readmitted", "planned_next", "died")  # fmt: skip


class LatentTable:
    """One row an admission, of either source; conditions are 0/1 columns."""

    def __init__(self, tables: Tables, name: str = "latent") -> None:
        self._tables, self._name = tables, name
        tables.open(
            name, [*_STATE, *(f"from_{part}" for part in _PARTS), *(f"has_{name}" for name in condition_names())]
        )

    def add(self, source: str, patient: Patient, stay: Stay, subject: int, hadm: int) -> None:
        """Append an admission."""
        has = {condition.name for condition in stay.conditions}
        self._tables.add(
            self._name,
            [
                source, subject, hadm, stay.index, math.floor(stay.age * 1000) / 1000, patient.gender,
                patient.ethnicity, round(patient.frailty, 4), round(stay.severity, 4), int(stay.eligible),
                int(stay.spurious),
                round(stay.logit_readmission, 5), round(stay.logit_mortality, 5), int(stay.readmitted),
                int(stay.planned_next), int(stay.died), *(round(stay.parts[part], 5) for part in _PARTS),
                *(int(name in has) for name in condition_names()),
            ],
        )  # fmt: skip
