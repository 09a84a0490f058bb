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

RACE = "us-core-race"
ETHNICITY = "us-core-ethnicity"
_US_CORE = (
    "http://hl7.org/fhir/us/core/StructureDefinition/",
    "http://hl7.org/fhir/StructureDefinition/",  # of DSTU2, which servers have kept
)
WRONG = "entered-in-error"
_MOMENT = {"instant": pl.Datetime("us"), "wall": pl.Datetime("us"), "timed": pl.Boolean()}
_TEXT = pl.String()
_PARTIAL = re.compile(r"(\d{4})(?:-(\d{2}))?")
_LEAP_SECOND = re.compile(r"(T\d{2}:\d{2}):60")
_DAY = len("2015-02-07")
_CONTAINED = "#"
_LONGEST_NUMBER = 18
_NO_PATIENTS = frozenset({"device", "group", "location", "medication", "organization", "practitioner", "procedure"})
_NO_ENCOUNTERS = frozenset({"episodeofcare"})
"""Types in a server's address that can't be part of another address."""
_DENIED = ("refuted", "differential")
_AMENDED = ("amended", "corrected", "appended")
_VERSION = {"updated": pl.Datetime("us"), "updated_wall": pl.Datetime("us"), "version": pl.Int64()}
"""Which of several versions of a resource is the newest."""
_TABLES: dict[str, dict[str, Any]] = {
    "patients": {
        **{"id": _TEXT, "birth": pl.Datetime("us"), "gender": _TEXT, "race": _TEXT, "ethnicity": _TEXT},
        **{"dead": pl.Boolean(), **_MOMENT},
    },
    "encounters": {
        **{"id": _TEXT, "person_id": _TEXT, "kind": _TEXT, "status": _TEXT, "expired": pl.Boolean()},
        **{"part_of": _TEXT, **_MOMENT},
        **{f"end_{name}": kind for name, kind in _MOMENT.items()},
    },
    "conditions": {
        **{"id": _TEXT, "person_id": _TEXT, "status": _TEXT, "chosen": pl.Boolean()},
        **{"had_from": pl.Date(), "had_by": pl.Date(), **_MOMENT},
    },
    "documents": {
        **{"resource": _TEXT, "id": _TEXT, "person_id": _TEXT, "visit_id": _TEXT, "status": _TEXT},
        **{"category": _TEXT, "amended": pl.Boolean(), "replaces": _TEXT, "chosen": pl.Boolean(), "text": _TEXT},
        **_MOMENT,
    },
    "observations": {
        **{"id": _TEXT, "person_id": _TEXT, "status": _TEXT, "code": _TEXT, "value": pl.Float64()},
        **{"taken": pl.Datetime("us"), **_MOMENT},
    },
}
SCHEMAS = {name: {**columns, **_VERSION} for name, columns in _TABLES.items()}

Row = tuple[object, ...]


class Moment(NamedTuple):
    """A point in time: in UTC, as the clock on the wall showed it, and whether the time of day is known."""

    instant: datetime | None = None
    wall: datetime | None = None
    timed: bool | None = None


def moment(value: object, line: Line, *, clinical: bool = True) -> Moment:
    """A FHIR date or time. Of a month or a year without a day, and of nothing, nothing is known.

    A leap second, such as 23:59:60, counts as the second before it, which is of the same day. Times that are `clinical`
    are compared with each other: with an offset from UTC, or all without one.
    """
    if value is None or _PARTIAL.fullmatch(str(value)):
        return Moment()
    try:
        at = datetime.fromisoformat(_LEAP_SECOND.sub(r"\1:59", str(value)))
        wall = at.replace(tzinfo=None)
        timed = len(str(value)) > _DAY  # midnight is a time too, if it is written
        instant = wall if at.tzinfo is None else at.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # which the first and the last day of all can make
        raise _unreadable(line) from None
    if timed and clinical:
        line.zones.add(line, zoned=at.tzinfo is not None)
    return Moment(instant, wall, timed)


def _unreadable(line: Line) -> CohortError:
    hint = "FHIR writes 2015-02-07 or 2015-02-07T13:28:17-05:00"
    return line.error("has a time that can't be read", hint)


def first_moment(values: Sequence[object], line: Line) -> Moment:
    """The first of several times that is known."""
    return next((found for value in values if (found := moment(value, line)).wall is not None), Moment())


def latest_moment(values: Sequence[object], line: Line) -> Moment:
    """The latest of several times that are known; by day, where one of them is only a day."""
    found = [each for value in values if (each := moment(value, line)).wall is not None]
    if all(each.timed for each in found):
        return max(found, key=lambda each: each.instant or datetime.min, default=Moment())
    return max(found, key=lambda each: ((each.wall or datetime.min).date(), bool(each.timed), each.instant))


def span(values: Sequence[object], line: Line) -> tuple[date | None, date | None]:
    """The first and the last day of the first of several times that is stated, if that is a month or a year."""
    partial = _PARTIAL.fullmatch(next((str(value) for value in values if value is not None), ""))
    if partial is None:
        return None, None
    year, month = int(partial[1]), int(partial[2] or 12)
    try:
        return date(year, int(partial[2] or 1), 1), date(year, month, monthrange(year, month)[1])
    except ValueError:
        raise _unreadable(line) from None


def reference(value: object, wanted: str) -> str | None:
    """The id in a reference such as Patient/1, with or without a server's address and a version.

    None if it refers to another type than the wanted one, such as Group/1, or to what the resource contains (#p1),
    which has no identity outside of it.
    """
    target = value.get("reference") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(target, str) or not target or target.startswith(_CONTAINED):
        return None
    address, _, found = target.partition("/_history/")[0].rstrip("/").rpartition("/")
    kind = (address.rpartition("/")[2] or str(value.get("type") or wanted)).casefold()
    anything = "://" in address and kind not in _NO_PATIENTS | _NO_ENCOUNTERS  # not each address is a FHIR server's
    return found.removeprefix("urn:uuid:") if anything or kind == wanted.casefold() else None


def about_another(resource: Json) -> bool:
    """Whether a resource is about something that is no patient: a group, a device or the like."""
    about = resource.get("subject")
    stated = isinstance(about, dict) and bool(about.get("reference"))
    if isinstance(about, dict) and str(about.get("reference")).startswith(_CONTAINED):
        return False  # a patient without an identity, which is an error
    return stated and reference(about, "Patient") is None


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
    found = reference(line.resource.get("subject"), "Patient")
    if found is None:
        hint = "add the reference, or remove the line; a patient inside of the resource has no identity"
        raise line.error("has no patient (subject)", hint)
    return found


def status_of(resource: Json) -> str:
    """The status, or that of what it says about itself, if that is wrong or denied."""
    stated = [resource.get("status"), resource.get("docStatus")]
    stated += [code for _, code, _ in codings(resource.get("verificationStatus"))]
    stated = [each for each in (WRONG, *_DENIED) if each in stated] + stated
    return next((str(each) for each in stated if each), "")


def version(line: Line) -> tuple[datetime | None, datetime | None, int | None]:
    """When this version of the resource was written, in UTC and by its clock, and its number, if `meta` states them."""
    meta = line.resource.get("meta") or {}
    number = str(meta.get("versionId") or "")
    known = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
    updated = moment(meta.get("lastUpdated"), line, clinical=False)
    return updated.instant, updated.wall, int(number) if known else None


# --- rows of each type --------------------------------------------------------------------------------------


def patient(line: Line) -> Row:
    """A row of `patients`."""
    one = line.resource
    birth = str(one.get("birthDate") or "")
    # Of a birth without a month or a day, the middle of what is known.
    born = moment(birth + {4: "-07-01", 7: "-15"}.get(len(birth), "") if birth else None, line, clinical=False).wall
    died = moment(one.get("deceasedDateTime"), line)
    dead = bool(one.get("deceasedBoolean")) or one.get("deceasedDateTime") is not None
    who = (one.get("gender"), _us_core(one, RACE), _us_core(one, ETHNICITY))
    return (need_id(line), born, *who, dead, *died)


def replacement(line: Line) -> dict[str, str]:
    """A patient's former record and the one that took its place, where the hospital found two of one person."""
    for link in line.resource.get("link") or ():
        other = reference(link.get("other"), "Patient")
        if other is not None and link.get("type") in ("replaced-by", "replaces"):
            own = need_id(line)
            return {own: other} if link["type"] == "replaced-by" else {other: own}
    return {}


def _us_core(one: Json, name: str) -> str | None:
    """US Core's race or ethnicity: the OMB categories in order, else the text.

    Both are parts of an extension; older servers write the extension itself, or a part, as a CodeableConcept.
    """
    found = [each for each in one.get("extension") or () if each.get("url") in [place + name for place in _US_CORE]]
    parts = [part for each in found for part in each.get("extension") or ()]
    omb = [part for part in parts if part.get("url") == "ombCategory"] + found
    concepts = [part["valueCodeableConcept"] for part in omb if part.get("valueCodeableConcept")]
    coded = [part["valueCoding"] for part in omb if part.get("valueCoding")]
    coded += [coding for concept in concepts for coding in concept.get("coding") or ()]
    named = sorted({str(coding.get("display") or coding.get("code")) for coding in coded})
    said = [part.get("valueString") for part in parts if part.get("url") == "text"]
    said += [concept.get("text") for concept in concepts] + [each.get("valueString") for each in found]
    return ", ".join(named) or next((str(each) for each in said if each), None)


def _newer(line: Line) -> CohortError:
    return line.error("is written in FHIR R5", "export R4, which is what palpate reads")


def encounter(line: Line) -> Row:
    """A row of `encounters`."""
    one = line.resource
    period = one.get("period") or {}
    stated = one.get("class")
    if isinstance(stated, list) or "actualPeriod" in one:
        raise _newer(line)
    kind = str(stated.get("code") or stated.get("display") or "") if isinstance(stated, dict) else str(stated or "")
    left = codings((one.get("hospitalization") or {}).get("dischargeDisposition"))
    expired = any(code == "exp" for _, code, _ in left)
    began, ended = moment(period.get("start"), line), moment(period.get("end"), line)
    whole = reference(one.get("partOf"), "Encounter")
    return (need_id(line), need_patient(line), kind, status_of(one), expired, whole, *began, *ended)


def condition(line: Line, *, chosen: bool) -> Row:
    """A row of `conditions`; of one that nobody asked for, only which it is."""
    one = line.resource
    if not chosen:
        return (need_id(line), reference(one.get("subject"), "Patient"), status_of(one), False, None, None, *Moment())
    onset = (one.get("onsetDateTime"), (one.get("onsetPeriod") or {}).get("start"), one.get("recordedDate"))
    return (need_id(line), need_patient(line), status_of(one), True, *span(onset, line), *first_moment(onset, line))


def observation(line: Line, wanted: re.Pattern[str]) -> Row:
    """A row of `observations` with its code and its number; of one that nobody asked for, only which it is.

    It is known when it was issued, if that is later than when it was taken.
    """
    one = line.resource
    if not matches(one.get("code"), wanted):
        return (need_id(line), reference(one.get("subject"), "Patient"), status_of(one), None, None, None, *Moment())
    value = (one.get("valueQuantity") or {}).get("value", one.get("valueInteger"))
    number = float(value) if isinstance(value, int | float) else None
    stated = list(codings(one.get("code")))
    by_code = [code for system, code, _ in stated if code and (wanted.fullmatch(code) or wanted.fullmatch(f"{system}|{code}"))]  # fmt: skip  # noqa: E501
    by_name = [code or display for _, code, display in stated if display and wanted.fullmatch(display)]
    code = next(iter(by_code + by_name), None)
    effective = (
        one.get("effectiveDateTime"),
        one.get("effectiveInstant"),
        (one.get("effectivePeriod") or {}).get("end"),
    )
    times = (*effective, one.get("issued"))
    row = (need_id(line), need_patient(line), status_of(one), code, number, first_moment(times, line).instant)
    return (*row, *latest_moment(times, line))


def document(line: Line) -> tuple[Row, Moment, list[Any]]:
    """A row of `documents` up to its text, when it was written, and its attachments.

    It was written by the latest of its own times; when the care took place tells only where it has none. `amended`: it
    says that it was amended, but not when: neither by its attachments' `creation` nor as a report by `issued`.
    """
    one = line.resource
    care: list[Any] = []
    if one["resourceType"] == "DiagnosticReport":
        concept, visits = one.get("code"), one.get("encounter")
        attachments = list(one.get("presentedForm") or ())
        times = [one.get("effectiveDateTime"), (one.get("effectivePeriod") or {}).get("end")]
        dated = [one.get("issued")]
    else:
        context = one.get("context") or {}
        if isinstance(context, list):
            raise _newer(line)
        concept, visits = one.get("type"), context.get("encounter")
        attachments = [each.get("attachment") for each in one.get("content") or () if isinstance(each, dict)]
        period = context.get("period") or {}
        times, care, dated = [one.get("date")], [period.get("end"), period.get("start")], []
    dated += [each.get("creation") for each in attachments if isinstance(each, dict)]
    named = [visits] if isinstance(visits, dict) else visits or ()
    visit = next((found for each in named if (found := reference(each, "Encounter"))), None)
    said = next((display or code for _, code, display in codings(concept) if display or code), "")
    amended = _says_amended(one) and not any(dated)
    row = (one["resourceType"], need_id(line), need_patient(line), visit, status_of(one), said, amended, _replaces(one))
    written = latest_moment([*dated, *times], line)
    return row, first_moment(care, line) if written.wall is None else written, attachments


def _says_amended(one: Json) -> bool:
    return any(one.get(name) in _AMENDED for name in ("status", "docStatus"))


def _replaces(one: Json) -> str | None:
    """The ids of the documents that a DocumentReference says it replaces, one per line."""
    related = [each for each in one.get("relatesTo") or () if each.get("code") == "replaces"]
    found = [reference(each.get("target"), "DocumentReference") for each in related]
    return "\n".join(each for each in found if each) or None
