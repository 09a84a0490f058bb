"""FHIR R4 as a bulk export writes it: gzipped NDJSON, notes as base64, all times five hours behind UTC."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from palpate.synthetic.layouts import open_gzip
from palpate.synthetic.layouts.standards import RecordedPatient, RecordedStay

TYPES = ("Patient", "Encounter", "Condition", "DocumentReference")
GENDERS = {"F": "female", "M": "male"}
US_CORE_RACE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race"
ICD_10 = "http://hl7.org/fhir/sid/icd-10-cm"
_ACT = "http://terminology.hl7.org/CodeSystem/v3-ActCode"
_DISPOSITION = "http://terminology.hl7.org/CodeSystem/discharge-disposition"
_ZONE = timezone(timedelta(hours=-5))


def instant(time: datetime) -> str:
    """A time as FHIR writes it."""
    return time.replace(tzinfo=_ZONE).isoformat()


class FhirWriter:
    """Writes a file for each type, patient by patient."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._files = {name: open_gzip(folder / f"{name}.000.ndjson.gz", self._stack) for name in TYPES}
        self._numbers = dict.fromkeys(TYPES, 0)

    def _add(self, kind: str, content: dict[str, Any], number: int | None = None) -> None:
        self._numbers[kind] += 1
        resource = {"resourceType": kind, "id": str(number or self._numbers[kind]), **content}
        self._files[kind].write(json.dumps(resource, ensure_ascii=False, separators=(",", ":")) + "\n")

    def add(self, patient: RecordedPatient) -> None:
        """Write all resources of a patient."""
        race = {"url": US_CORE_RACE, "extension": [{"url": "text", "valueString": patient.race}]}
        who = {"extension": [race], "gender": GENDERS[patient.gender], "birthDate": patient.birth.date().isoformat()}
        died = {"deceasedDateTime": instant(patient.death)} if patient.death else {}
        self._add("Patient", {**who, **died}, patient.subject_id)
        for stay in patient.stays:
            self._stay({"reference": f"Patient/{patient.subject_id}"}, stay)

    def _stay(self, subject: dict[str, str], stay: RecordedStay) -> None:
        period = {"start": instant(stay.admit), "end": instant(stay.discharge)}
        left = {"coding": [{"system": _DISPOSITION, "code": "exp" if stay.died else "home"}]}
        where = {"class": {"system": _ACT, "code": "IMP"}, "subject": subject, "period": period}
        self._add("Encounter", {"status": "finished", **where, "hospitalization": {"dischargeDisposition": left}}, stay.hadm_id)  # fmt: skip  # noqa: E501
        visit = {"reference": f"Encounter/{stay.hadm_id}"}
        for each in stay.conditions:
            code = {"coding": [{"system": ICD_10, "code": each.icd10, "display": each.title10}]}
            self._add(
                "Condition", {"code": code, "subject": subject, "encounter": visit, "recordedDate": period["start"]}
            )
        note = {
            "contentType": "text/plain; charset=utf-8",
            "data": base64.b64encode(stay.text.encode()).decode(),
        }
        kind = {"coding": [{"system": "http://loinc.org", "code": "18842-5", "display": "Discharge summary"}]}
        rest = {"context": {"encounter": [visit], "period": period}, "content": [{"attachment": note}]}
        said = {"status": "superseded", "type": kind, "subject": subject, "date": period["end"], **rest}
        self._add("DocumentReference", said)

    def close(self) -> None:
        """Close the files."""
        self._stack.close()


def open_writer(folder: Path) -> FhirWriter:
    """The writer of this layout."""
    return FhirWriter(folder)
