"""What palpate takes from each type of FHIR R4 resource, as rows of tables."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import polars as pl

from palpate.data.hospitals.fhir import Json, Line
from palpate.errors import CohortError

RACE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race"
ETHNICITY = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity"
WRONG = "entered-in-error"
_MOMENT = {"instant": pl.Datetime("us"), "wall": pl.Datetime("us"), "timed": pl.Boolean()}
_TEXT = pl.String()
_PARTIAL = re.compile(r"(\d{4})(?:-(\d{2}))?")
_DAY = len("2015-02-07")
SCHEMAS: dict[str, dict[str, Any]] = {
    "patients": {
        **{"id": _TEXT, "birth": pl.Datetime("us"), "gender": _TEXT, "race": _TEXT, "ethnicity": _TEXT},
        **{"dead": pl.Boolean(), **_MOMENT},
    },
    "encounters": {
        **{"id": _TEXT, "person_id": _TEXT, "kind": _TEXT, "status": _TEXT, "expired": pl.Boolean(), **_MOMENT},
        **{f"end_{name}": kind for name, kind in _MOMENT.items()},
    },
    "conditions": {
        **{"id": _TEXT, "person_id": _TEXT, "status": _TEXT, "chosen": pl.Boolean(), "had_by": pl.Date()},
        **_MOMENT,
    },
    "documents": {
        **{"resource": _TEXT, "id": _TEXT, "person_id": _TEXT, "visit_id": _TEXT, "status": _TEXT},
        **{"category": _TEXT, "chosen": pl.Boolean(), "text": _TEXT, **_MOMENT},
    },
    "observations": {
        **{"id": _TEXT, "person_id": _TEXT, "status": _TEXT, "code": _TEXT, "value": pl.Float64()},
        **_MOMENT,
    },
}

Row = tuple[object, ...]


class Moment(NamedTuple):
    """A point in time: in UTC, as the clock on the wall showed it, and whether the time of day is known."""

    instant: datetime | None = None
    wall: datetime | None = None
    timed: bool | None = None


def moment(value: object, line: Line) -> Moment:
    """A FHIR date or time. Of a month or a year without a day, and of nothing, nothing is known."""
    if value is None or _PARTIAL.fullmatch(str(value)):
        return Moment()
    try:
        at = datetime.fromisoformat(str(value))
        wall = at.replace(tzinfo=None)
        instant = wall if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # which the first and the last day of all can make
        raise _unreadable(line) from None
    return Moment(instant, wall, len(str(value)) > _DAY)  # midnight is a time too, if it is written


def _unreadable(line: Line) -> CohortError:
    hint = "FHIR writes 2015-02-07 or 2015-02-07T13:28:17-05:00"
    return line.error("has a time that can't be read", hint)


def first_moment(values: Sequence[object], line: Line) -> Moment:
    """The first of several times that is known."""
    return next((found for value in values if (found := moment(value, line)).wall is not None), Moment())


def last_day(values: Sequence[object], line: Line) -> date | None:
    """The last day of the first of several times that is stated, if that is a month or a year."""
    partial = _PARTIAL.fullmatch(next((str(value) for value in values if value is not None), ""))
    if partial is None:
        return None
    year, month = int(partial[1]), int(partial[2] or 12)
    try:
        return date(year, month, monthrange(year, month)[1])
    except ValueError:
        raise _unreadable(line) from None


def reference(value: object) -> str | None:
    """The id in a reference such as Patient/1, with or without a server's address and a version."""
    target = value.get("reference") if isinstance(value, dict) else None
    if not isinstance(target, str) or not target:
        return None
    return target.partition("/_history/")[0].rstrip("/").rpartition("/")[2].removeprefix("urn:uuid:")


def codings(concept: object) -> Iterator[tuple[str, str, str]]:
    """System, code and display of each coding, and the concept's text as a display of its own."""
    for each in concept if isinstance(concept, list) else [concept]:
        if isinstance(each, dict):
            for coding in each.get("coding") or ():
                yield str(coding.get("system") or ""), str(coding.get("code") or ""), str(coding.get("display") or "")
            if each.get("text"):
                yield "", "", str(each["text"])


def matches(concept: object, wanted: re.Pattern[str] | None) -> bool:
    """Whether a concept's code, system|code or display is wanted."""
    if wanted is None:
        return True
    return any(
        wanted.fullmatch(word)
        for system, code, display in codings(concept)
        for word in (code, f"{system}|{code}", display)
        if word
    )


def need_id(line: Line) -> str:
    """A resource's id."""
    found = line.resource.get("id")
    if not found:
        raise line.error("has no id", "export it again")
    return str(found)


def need_patient(line: Line) -> str:
    """The patient of a resource."""
    found = reference(line.resource.get("subject"))
    if found is None:
        raise line.error("has no patient (subject)", "add the reference, or remove the line")
    return found


def status_of(resource: Json) -> str:
    """The status, or that of what it says about itself, if that is wrong."""
    stated = [resource.get("status"), resource.get("docStatus")]
    stated += [code for _, code, _ in codings(resource.get("verificationStatus"))]
    return WRONG if WRONG in stated else next((str(each) for each in stated if each), "")


# --- rows of each type --------------------------------------------------------------------------------------


def patient(line: Line) -> Row:
    """A row of `patients`."""
    one = line.resource
    birth = str(one.get("birthDate") or "")
    # Of a birth without a month or a day, the middle of what is known.
    born = moment(birth + {4: "-07-01", 7: "-15"}.get(len(birth), "") if birth else None, line).wall
    died = moment(one.get("deceasedDateTime"), line)
    dead = bool(one.get("deceasedBoolean")) or one.get("deceasedDateTime") is not None
    who = (one.get("gender"), _us_core(one, RACE), _us_core(one, ETHNICITY))
    return (need_id(line), born, *who, dead, *died)


def _us_core(one: Json, url: str) -> str | None:
    """US Core's race or ethnicity: the OMB categories in order, else the text."""
    parts = [
        part for each in one.get("extension") or () if each.get("url") == url for part in each.get("extension") or ()
    ]
    omb = [part["valueCoding"] for part in parts if part.get("url") == "ombCategory" and part.get("valueCoding")]
    named = sorted({str(coding.get("display") or coding.get("code")) for coding in omb})
    said = [str(part["valueString"]) for part in parts if part.get("url") == "text" and part.get("valueString")]
    return ", ".join(named) or next(iter(said), None)


def encounter(line: Line) -> Row:
    """A row of `encounters`."""
    one = line.resource
    period = one.get("period") or {}
    stated = one.get("class")
    kind = str(stated.get("code") or stated.get("display") or "") if isinstance(stated, dict) else str(stated or "")
    left = codings((one.get("hospitalization") or {}).get("dischargeDisposition"))
    expired = any(code == "exp" for _, code, _ in left)
    began, ended = moment(period.get("start"), line), moment(period.get("end"), line)
    return (need_id(line), need_patient(line), kind, status_of(one), expired, *began, *ended)


def condition(line: Line, *, chosen: bool) -> Row:
    """A row of `conditions`."""
    one = line.resource
    onset = (one.get("onsetDateTime"), (one.get("onsetPeriod") or {}).get("start"), one.get("recordedDate"))
    had_by = last_day(onset, line)
    return (need_id(line), need_patient(line), status_of(one), chosen, had_by, *first_moment(onset, line))


def observation(line: Line, wanted: re.Pattern[str]) -> Row:
    """A row of `observations`, with its code and its number, if it has them."""
    one = line.resource
    value = (one.get("valueQuantity") or {}).get("value", one.get("valueInteger"))
    number = float(value) if isinstance(value, int | float) else None
    stated = list(codings(one.get("code")))
    by_code = [code for system, code, _ in stated if code and (wanted.fullmatch(code) or wanted.fullmatch(f"{system}|{code}"))]  # fmt: skip  # noqa: E501
    by_name = [code or display for _, code, display in stated if display and wanted.fullmatch(display)]
    code = next(iter(by_code + by_name), None)
    taken = (one.get("effectiveDateTime"), (one.get("effectivePeriod") or {}).get("end"), one.get("issued"))
    return (need_id(line), need_patient(line), status_of(one), code, number, *first_moment(taken, line))


def document(line: Line) -> tuple[Row, Moment, list[Any]]:
    """A row of `documents` up to its text, when it was written, and its attachments."""
    one = line.resource
    if one["resourceType"] == "DiagnosticReport":
        concept, visit = one.get("code"), one.get("encounter")
        attachments = list(one.get("presentedForm") or ())
        times = [one.get("issued"), one.get("effectiveDateTime"), (one.get("effectivePeriod") or {}).get("end")]
    else:
        context = one.get("context") or {}
        concept, visit = one.get("type"), next(iter(context.get("encounter") or ()), None)
        attachments = [each.get("attachment") for each in one.get("content") or () if isinstance(each, dict)]
        period = context.get("period") or {}
        created = [each.get("creation") for each in attachments if isinstance(each, dict)]
        times = [one.get("date"), *created, period.get("end"), period.get("start")]
    said = next((display or code for _, code, display in codings(concept) if display or code), "")
    row = (one["resourceType"], need_id(line), need_patient(line), reference(visit), status_of(one), said)
    return row, first_moment(times, line), attachments
