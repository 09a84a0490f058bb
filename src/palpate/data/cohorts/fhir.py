"""A cohort from FHIR R4 in bulk export's NDJSON: encounters with their documents, and what happened afterwards.

What is a case, an outcome and a note of a case: `data/hospitals/records.py`. The SQL is in `sql/fhir.sql`. Times with
an offset are compared in UTC; the cohort's `time` is what the hospital's clock showed. Dates without a time are
compared by day.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import polars as pl

from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps
from palpate.data.hospitals import Announce, Hospital, in_memory
from palpate.data.hospitals.fhir import Line, Staging, find_files, read_resources, resources
from palpate.data.hospitals.fhir.attachments import has_further_text, text_of
from palpate.data.hospitals.options import NOTES_ALONE, Names, RecordOptions, every_kind, notes_alone
from palpate.data.hospitals.records import Records, build_cases, pattern
from palpate.errors import CohortError

INPATIENT = ("IMP", "ACUTE", "NONAC", "INPATIENT")
OBSERVED = "observation_"
DOCUMENTS = ("DocumentReference", "DiagnosticReport")
_NOTE_STEPS = {
    "error": ("notes not entered in error", "the status is entered-in-error or cancelled"),
    "superseded": ("notes that are current", "the status is superseded"),
    "type": ("notes of the wanted types", "another type (`types`)"),
    "no text": ("notes with a text attachment", "no attachment is text or HTML, or it can't be read"),
    "blank": ("notes with text", "the note is blank"),
    "undated": ("notes with a date", "the note has no date"),
    "version": ("first versions of notes", "a later version: where notes are cases, a note's own time is the index"),
    "repeat": ("distinct notes", "repeats the text of another document or report of the visit"),
}
_NEWEST = "the same id occurs again; the newest version counts"
_AS_OF = "the same id occurs again, and not at another time; the newest version counts"
_TOUCHED = "notes read as of their own time, though meta.lastUpdated is after the index"
_NO_PATIENT = "are about no patient, but a group, a device or the like, and are left out"
_MERGED = "of patients were replaced by other records of theirs (Patient.link) and count as these"
_UNBOUNDED = "FHIR has no observation periods"
_FURTHER = (
    "several different texts of one format, and the first is read: to FHIR, all attachments of a document "
    "are the same document in several formats"
)
_OTHERWISE = "export this type too, or choose other options"


class FhirOptions(RecordOptions):
    """Which documents are read, beside what makes a case."""

    resources: Names = DOCUMENTS
    """Which resources are notes: DocumentReference, DiagnosticReport (its presentedForm), or both."""
    types: Names = ()
    """Patterns for the type of a document or the code of a report: a LOINC code, system|code or a display such as
    `Discharge*`; default: all."""
    superseded: Literal["keep", "drop"] = "keep"
    """Documents whose status is superseded: some servers mark all but the newest document of a patient so."""
    parts: Literal["merge", "keep"] = "merge"
    """Encounters that are part of another one of the wanted kind (`partOf`), such as wards: their notes belong to the
    outermost encounter, and a move from one to the next is no readmission; or each is a visit of its own."""
    attachments: Literal["refuse", "drop"] = "refuse"
    """Notes whose text is only an address, or can't be decoded: an error, or left out and counted."""
    observations: Names = ()
    """Codes of Observations whose last number by the index becomes an attribute, such as 8867-4 (LOINC)."""


def build_fhir(
    source: Path, *, options: FhirOptions | None = None, name: str = "fhir", progress: Announce | None = None
) -> BuiltCohort:
    """Build a cohort from a folder of NDJSON files, gzipped or not."""
    chosen = options or FhirOptions()
    assumed: tuple[str, ...] = ()
    unknown = next((each for each in chosen.resources if each not in DOCUMENTS), None)
    if unknown is not None:
        raise CohortError(f"'{unknown}' holds no notes", hint=f"`resources` are {' and '.join(DOCUMENTS)}")
    files = find_files(source)
    with in_memory() as (connection, scratch):
        hospital = Hospital(connection, source, progress, scratch)
        staging = Staging(hospital, resources.SCHEMAS)
        replaced: dict[str, str] = {}
        found = _stage(staging, files, chosen, hospital.progress, replaced)
        if staging.n_rows["documents"] and not staging.n_rows["encounters"]:
            chosen, assumed = notes_alone(chosen)
        _need(staging, source, chosen)
        staging.open()
        n_merged = staging.merge(replaced)
        hospital.run("moments")
        chosen, every = _kinds(hospital, chosen)
        kinds = {"inpatient": INPATIENT, "all": ()}.get(str(chosen.visits), tuple(chosen.visits))
        settings = {"superseded": chosen.superseded, "parts": chosen.parts, "cases": chosen.cases}
        hospital.run("fhir", {"visit_kinds": [kind.upper() for kind in kinds], **settings})
        _need_condition(hospital, source, chosen)
        facts = ["times with an offset are compared in UTC, dates without a time by day"]
        facts += [f"{found['others']:,} resources {_NO_PATIENT}"] if found["others"] else []
        facts += [f"{n_merged:,} records {_MERGED}"] if n_merged else []
        steps = {key: step for key, step in _NOTE_STEPS.items() if key != "version" or chosen.cases == "notes"}
        records = Records(source, staging.n_rows["patients"] > 0, False, steps, "encounters", tuple(facts))
        records = records._replace(start=_encounters(hospital), first_notes=_notes(hospital), others=_others(hospital))
        n, have = found["further"], "note has" if found["further"] == 1 else "notes have"
        further = [f"{n:,} {have} {_FURTHER}"] if n else []
        records = records._replace(has_spans=True, has_versions=True, assumed=(*assumed, *every, *further))
        records = records._replace(unbounded=_UNBOUNDED)
        if chosen.observations:
            measure = partial(_measure, same_day=chosen.keeps_same_day)
            records = records._replace(prepare=measure, attributes=_attributes(hospital))
        return _with_touched(hospital, build_cases(hospital, records, chosen, name))


def _kinds(hospital: Hospital, options: FhirOptions) -> tuple[FhirOptions, tuple[str, ...]]:
    """Encounters of every kind, if none is inpatient and nobody has said which ones; and what that assumes."""
    found = hospital.frame(
        "SELECT upper(kind) AS kind, count(*) AS n FROM staged_encounters "
        "WHERE status NOT IN ('entered-in-error', 'cancelled', 'planned') GROUP BY ALL ORDER BY n DESC, kind"
    )
    if options.cases == "notes" or not found.height or found["kind"].is_in(INPATIENT).any():
        return options, ()
    return every_kind(options, found["kind"].to_list())


def _notes(hospital: Hospital) -> tuple[FlowStep, ...]:
    """How many notes the files have, and how many of them are the same one again, and not at another time."""
    rows = hospital.frame(
        "SELECT person_id AS subject_id, CASE WHEN documents.line IS NULL THEN 'again' END AS dropped "
        "FROM staged_documents LEFT JOIN (SELECT line FROM documents) AS documents USING (line)"
    )
    if not rows.height:
        return ()
    first = FlowStep("notes in the files", rows.height, rows["subject_id"].n_unique())
    return (first, *flow_steps(rows, {"again": ("notes with different ids or versions", _AS_OF)}))


def _with_touched(hospital: Hospital, built: BuiltCohort) -> BuiltCohort:
    """Say how many notes were stored again after the index, for whatever reason; and name notes by their ids alone."""
    if "notes" not in built.tables:
        return built
    named = built.tables["notes"].with_columns(pl.col("note_id").str.replace(r"/_history/\d+$", ""))
    built = built._replace(tables={**built.tables, "notes": named})
    touched = hospital.frame(
        "SELECT count(*) AS n FROM parts JOIN kept USING (case_id) JOIN documents USING (note_id) "
        "WHERE NOT not_after(stored, moment, true)"
    ).item()
    step = FlowStep(f"{_TOUCHED}: {touched:,}", len(built.cohort), built.cohort.n_patients)
    return built._replace(flow=(*built.flow, step)) if touched else built


def _need(staging: Staging, source: Path, options: FhirOptions) -> None:
    """Refuse an export without the resources that the options need."""
    if not staging.n_rows:
        raise CohortError("no file has a resource that palpate reads", file=source, hint="give a FHIR bulk export")
    needed = {
        "encounters": (options.cases == "visits" or options.outcome == "readmission", "Encounter"),
        "patients": (options.outcome == "death", "Patient, so that it is not known who died"),
        "documents": (options.cases == "notes" or options.text == "require", f"{' or '.join(options.resources)}"),
    }
    for table, (asked, what) in needed.items():
        if asked and not staging.n_rows[table]:
            hint = _OTHERWISE
            if table == "encounters" and staging.n_rows["documents"]:
                hint = f"export this type too; {NOTES_ALONE}"
            raise CohortError(f"the files have no {what}", file=source, hint=hint)


def _need_condition(hospital: Hospital, source: Path, options: FhirOptions) -> None:
    """Refuse an export without the condition that is to be predicted."""
    if options.outcome == "condition" and not hospital.frame("SELECT id FROM asked_conditions LIMIT 1").height:
        what = f"Condition with one of {', '.join(options.conditions)}"
        raise CohortError(f"the files have no {what}", file=source, hint=_OTHERWISE)


def _once(hospital: Hospital, table: str, patient: str, key: str, name: str) -> tuple[FlowStep, ...]:
    """How many resources of a type the files have, and how many of them are the same one again."""
    rows = hospital.frame(
        f"SELECT {patient} AS subject_id, "
        f"CASE WHEN row_number() OVER (PARTITION BY {key}) > 1 THEN 'again' END AS dropped FROM {table}"
    )
    if not rows.height:
        return ()
    step = {"again": (f"{name} with different ids", _NEWEST)}
    first = FlowStep(f"{name} in the files", rows.height, rows["subject_id"].drop_nulls().n_unique())
    return (first, *flow_steps(rows, step))


def _encounters(hospital: Hospital) -> tuple[FlowStep, ...]:
    """How many patients and encounters there are, and how many of these never were."""
    rows = hospital.frame(
        "SELECT person_id AS subject_id, "
        "CASE WHEN status IN ('entered-in-error', 'cancelled', 'planned') THEN 'no' "
        "WHEN wholes.part IS NOT NULL THEN 'part' END AS dropped "
        "FROM encounters LEFT JOIN wholes ON wholes.part = encounters.id"
    )
    step = {
        "no": ("encounters that took place", "the status is entered-in-error, cancelled or planned"),
        "part": ("encounters that are a visit of their own", "part of another encounter (see `parts`)"),
    }
    patients = _once(hospital, "staged_patients", "id", "id", "patients")
    return (*patients, *_once(hospital, "staged_encounters", "person_id", "id", "encounters"), *flow_steps(rows, step))


def _others(hospital: Hospital) -> tuple[FlowStep, ...]:
    """How many conditions and observations there are, and how many of these don't count."""
    found: list[FlowStep] = []
    for name, wrong, other in (
        ("conditions", "entered-in-error, refuted or differential", "the newest version has another code"),
        ("observations", "entered-in-error or cancelled", "no number"),
    ):
        rows = hospital.frame(f"SELECT person_id AS subject_id, dropped FROM judged_{name}")
        steps = {
            "error": (f"{name} not entered in error", f"the status is {wrong}"),
            "other": (f"{name} that were asked for", other),
            "undated": (f"{name} with a date", "no date is known"),
        }
        if rows.height:
            found += [*_once(hospital, f"asked_{name}", "person_id", "id", name), *flow_steps(rows, steps)]
    return tuple(found)


def _stage(
    staging: Staging, files: list[Path], options: FhirOptions, progress: Announce, replaced: dict[str, str]
) -> Counter[str]:
    """Read every file once, and keep what is needed of each resource; how many were about no patient (`others`), and
    how many notes have a `further` text of the format that is read.

    `replaced` gets the former records of patients, with those that took their places.
    """
    found = Counter[str]()
    sought = _compiled(options.conditions)
    types, measured = _compiled(options.types), _compiled(options.observations)

    def keep(table: str, line: Line, row: resources.Row) -> None:
        staging.add(table, (*row, *resources.version(line)))

    def document(line: Line) -> None:
        row, written, attachments = resources.document(line)
        one = line.resource
        about = one.get("code") if one["resourceType"] == "DiagnosticReport" else one.get("type")
        chosen = resources.matches([about, *(one.get("category") or ())], types)
        read = chosen and row[4] != resources.WRONG
        text = text_of(attachments, line, drop=options.attachments == "drop") if read else None
        found["further"] += read and has_further_text(attachments, line)
        keep("documents", line, (*row, chosen, text, *written))

    # What was not asked for is kept too, if it has an id: it may be the newest version of something that was.
    def condition(line: Line) -> None:
        chosen = resources.matches(line.resource.get("code"), sought)
        if chosen or line.resource.get("id"):
            keep("conditions", line, resources.condition(line, chosen=chosen))

    def observation(line: Line) -> None:
        chosen = resources.matches(line.resource.get("code"), measured)
        if measured is not None and (chosen or line.resource.get("id")):
            keep("observations", line, resources.observation(line, measured))

    def patient(line: Line) -> None:
        keep("patients", line, resources.patient(line))
        replaced.update(resources.replacement(line))

    readers: dict[str, Callable[[Line], None]] = {
        "Patient": patient,
        "Encounter": lambda line: keep("encounters", line, resources.encounter(line)),
        **({"Condition": condition} if sought is not None else {}),
        **({"Observation": observation} if measured is not None else {}),
        **({} if options.text == "leave" and options.cases == "visits" else dict.fromkeys(options.resources, document)),
    }
    for line in read_resources(files, readers, progress):
        if resources.about_another(line.resource):
            found["others"] += 1
            continue
        try:
            readers[line.resource["resourceType"]](line)
        except UnicodeEncodeError:
            raise line.error("contains an unpaired surrogate", "save the file as UTF-8") from None
        except (AttributeError, TypeError, KeyError):
            raise line.error("does not have the structure of FHIR R4", "export it again") from None
    return found


def _compiled(globs: Names) -> re.Pattern[str] | None:
    found = pattern(globs)
    return re.compile(found, re.IGNORECASE | re.DOTALL) if found else None


def _attributes(hospital: Hospital) -> tuple[str, ...]:
    """A column for each code that was found."""
    codes = hospital.frame(
        "SELECT DISTINCT code FROM observation_versions WHERE usable AND NOT withdrawn ORDER BY code"
    )["code"]
    return tuple(f"{OBSERVED}{code}" for code in codes if '"' not in code)


def _measure(hospital: Hospital, attributes: tuple[str, ...], *, same_day: bool) -> None:
    """The table `measured`: for each case, the last number of each code by its index, as it was known then."""
    codes = [name.removeprefix(OBSERVED) for name in attributes]
    last = [f'max_by(value, taken) FILTER (code = ${k + 1}) AS "{OBSERVED}{c}"' for k, c in enumerate(codes)]
    hospital.connection.execute(
        "CREATE TABLE measured AS WITH seen AS (SELECT here.case_id, there.* FROM labelled AS here "
        "JOIN observation_versions AS there ON there.person_id = here.person_id AND NOT there.withdrawn "
        f"AND not_after(there.known, here.moment, {same_day}) "
        "QUALIFY row_number() OVER (PARTITION BY here.case_id, there.id ORDER BY there.place DESC) = 1) "
        f"SELECT {', '.join(['case_id', *last])} FROM seen WHERE usable GROUP BY case_id",
        codes,
    )
