"""Tiny FHIR exports, written by hand."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

Resource = dict[str, Any]
START = datetime(2030, 1, 1, 12)
US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"


def when(days: float, *, hours_from_utc: float | None = -5) -> str:
    """A time of a hospital whose clock is some hours from UTC; None gives the day only."""
    at = (START + timedelta(days=days)).replace(microsecond=0)
    if hours_from_utc is None:
        return at.date().isoformat()
    return at.replace(tzinfo=timezone(timedelta(hours=hours_from_utc))).isoformat()


def coded(code: str, display: str = "", system: str = "http://loinc.org") -> Resource:
    return {"coding": [{"system": system, "code": code, "display": display}]}


def patient(number: object, **more: Any) -> Resource:
    race = {"url": f"{US_CORE}race", "extension": [{"url": "ombCategory", "valueCoding": {"display": "White"}}]}
    who = {"resourceType": "Patient", "id": str(number), "gender": "female", "birthDate": "1950-03-04"}
    return {**who, "extension": [race], **more}


def encounter(number: object, who: object, start: str, end: str | None, **more: Any) -> Resource:
    period = {"start": start} | ({"end": end} if end else {})
    place = {"resourceType": "Encounter", "id": str(number), "status": "finished", "class": {"code": "IMP"}}
    return {**place, "subject": {"reference": f"Patient/{who}"}, "period": period, **more}


def attachment(text: str, kind: str = "text/plain", charset: str = "utf-8") -> Resource:
    return {"contentType": f"{kind}; charset={charset}", "data": base64.b64encode(text.encode(charset)).decode()}


def document(number: object, who: object, at: str, visit: object, *attachments: Resource, **more: Any) -> Resource:
    said = attachments or (attachment(f"Note {number}."),)
    return {
        **{"resourceType": "DocumentReference", "id": str(number), "status": "current", "date": at},
        **{"type": coded("18842-5", "Discharge summary"), "subject": {"reference": f"Patient/{who}"}},
        "context": {"encounter": [{"reference": f"Encounter/{visit}"}]} if visit else {},
        "content": [{"attachment": each} for each in said],
        **more,
    }


def report(number: object, who: object, at: str, visit: object, *forms: Resource, **more: Any) -> Resource:
    return {
        **{"resourceType": "DiagnosticReport", "id": str(number), "status": "final", "issued": at},
        **{"code": coded("24627-2", "CT chest"), "subject": {"reference": f"Patient/{who}"}},
        **{"encounter": {"reference": f"Encounter/{visit}"}, "presentedForm": list(forms)},
        **more,
    }


def hospital() -> list[Resource]:
    """Encounter e1 is followed by e2 after ten days, e3 by none; e9, on day 400, ends the data."""
    return [
        *(patient(1), patient(2, gender="male"), patient(9)),
        *(encounter("e1", 1, when(0), when(5)), encounter("e2", 1, when(15), when(20))),
        *(encounter("e3", 2, when(0), when(5)), encounter("e9", 9, when(400), when(401))),
        *(document("d1", 1, when(4), "e1"), document("d2", 1, when(16), "e2"), document("d3", 2, when(2), "e3")),
    ]


def write(folder: Path, resources: Iterable[Resource], *, name: str = "all.ndjson") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(each) + "\n" for each in resources)
    packed = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (folder / name).write_bytes(packed)
    return folder
