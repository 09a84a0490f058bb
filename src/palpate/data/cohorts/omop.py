"""A cohort from the OMOP Common Data Model, 5.3 or 5.4: visits with their notes, and what happened afterwards.

The source is a folder of tables (CSV, gzipped CSV or Parquet, names in any case), a DuckDB file, or the address of a
database. What is a case, an outcome and a note of a case: `data/hospitals/records.py`. The SQL is in `sql/omop.sql`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import polars as pl
from pydantic import BeforeValidator

from palpate.data.cohorts import BuiltCohort, FlowStep
from palpate.data.hospitals import Announce
from palpate.data.hospitals.omop import (
    ANCESTOR,
    CONDITION,
    DEATH,
    INPATIENT,
    NOTE,
    NOTE_NLP,
    PERIOD,
    PERSON,
    VISIT,
    OmopHospital,
    Source,
    need_table,
    open_omop,
    shown,
)
from palpate.data.hospitals.options import Names, RecordOptions, every_kind, listed, notes_alone
from palpate.data.hospitals.records import Records, build_cases, pattern
from palpate.errors import CohortError

Concepts = Annotated[tuple[int, ...], BeforeValidator(listed)]
_NOTE_STEPS = {
    "class": ("notes of the wanted classes", "another class (`classes`)"),
    "type": ("notes of the wanted types", "another type (`types`)"),
    "title": ("notes with the wanted titles", "another title (`titles`)"),
    "blank": ("notes with text", "the note is blank"),
    "undated": ("notes with a date", "the note has no date"),
}
_SHIFTED = (
    "times are of the day before or after their dates, as where a server keeps UTC; "
    "the times are compared with times, and the dates where only days are known"
)


class OmopOptions(RecordOptions):
    """Which notes are read, beside what makes a case."""

    classes: Concepts = ()
    """Concepts of `note_class_concept_id`; default: all."""
    types: Concepts = ()
    """Concepts of `note_type_concept_id`; default: all."""
    titles: Names = ()
    """Patterns for `note_title` (where it is empty or 0, `note_source_value`), such as `Discharge*`; default: all."""
    descendants: bool = False
    """Whether `conditions` stand for their descendants in CONCEPT_ANCESTOR too."""
    evidence: Concepts = ()
    """Concepts in NOTE_NLP whose spans are evidence for the outcome; default: `conditions`."""
    race: Literal["source", "concept"] = "source"
    """Race and ethnicity in the source's own words (`race_source_value`; the concept's name where there are none), or
    as the concept's name, which puts different spellings into one group."""
    dates: Literal["mdy", "dmy"] = "mdy"
    """How 7/8/2039 is read: 8 July or 7 August."""
    database_schema: str | None = None
    """The schema of the tables in a DuckDB file or a database."""


def build_omop(
    source: Source, *, options: OmopOptions | None = None, name: str = "omop", progress: Announce | None = None
) -> BuiltCohort:
    """Build a cohort from a folder, a DuckDB file or a database with tables of the OMOP CDM."""
    chosen = options or OmopOptions()
    concepts = _concepts(chosen.conditions)
    with open_omop(source, schema=chosen.database_schema, dates=chosen.dates, progress=progress) as hospital:
        chosen, assumed = notes_alone(chosen) if hospital.present == {NOTE.name} else (chosen, ())
        _need(hospital, source, chosen)
        chosen, records = _stage(hospital, source, chosen, concepts)
        records = records._replace(assumed=(*assumed, *records.assumed))
        built = build_cases(hospital, records, chosen, name)
        evident = chosen.evidence or concepts
        if not evident or "notes" not in built.tables or NOTE_NLP.name not in hospital.present:
            return built
        return _with_evidence(hospital, built, evident)


def _concepts(conditions: tuple[str, ...]) -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in conditions)
    except ValueError:
        raise CohortError("`conditions` of OMOP are concept ids", hint="write them like 316139,4229440") from None


def _need(hospital: OmopHospital, source: Source, options: OmopOptions) -> None:
    """Refuse a source without the tables that the options need."""
    needed = (
        (VISIT, options.cases == "visits" or options.outcome == "readmission", "it says which visits there were"),
        (NOTE, options.cases == "notes" or options.text == "require", "it has the texts"),
        (DEATH, options.outcome == "death", "it says who died"),
        (CONDITION, options.outcome == "condition", "it says who has the condition"),
        (ANCESTOR, options.descendants, "it says which concepts descend from another"),
    )
    for table, asked, why in needed:
        if asked:
            need_table(hospital, table, source, why)


def _stage(
    hospital: OmopHospital, source: Source, options: OmopOptions, concepts: tuple[int, ...]
) -> tuple[OmopOptions, Records]:
    """Open the tables and make those that `build_cases` needs; with the options that fit them."""
    hospital.progress("reading tables")
    wanted = {
        NOTE: options.text != "leave" or options.cases == "notes",
        CONDITION: options.outcome == "condition",
        ANCESTOR: options.descendants,
        PERIOD: options.observation != "ignore",
    }
    tables = (PERSON, VISIT, DEATH, *wanted)
    there = {table.name: hospital.supply(table, wanted=wanted.get(table, True)) for table in tables}
    if there[PERIOD.name]:
        _check_periods(hospital, merge=options.observation == "merge")
    options, assumed = _kinds(hospital, options)
    kinds = {"inpatient": INPATIENT, "all": ()}.get(str(options.visits), ())
    if not isinstance(options.visits, str):
        kinds = _concepts(options.visits)
    settings = {"visit_kinds": list(kinds), "classes": list(options.classes), "types": list(options.types)}
    more = {"titles": pattern(options.titles), "concepts": list(concepts), "descendants": options.descendants}
    more["race"] = options.race
    hospital.run("omop", {**settings, **more})
    facts = _facts(hospital)
    if options.outcome == "condition" and not hospital.frame("SELECT count(*) AS n FROM conditions").item():
        problem = f"nobody has one of the conditions {', '.join(options.conditions)}"
        hint = "check the concept ids, or add their descendants with `--set descendants=true`"
        raise CohortError(problem, file=hospital.source(CONDITION.name), column="condition_concept_id", hint=hint)
    periods = bool(hospital.frame("SELECT count(*) AS n FROM observed").item())
    records = Records(shown(source), there[PERSON.name], periods, _NOTE_STEPS, "rows of VISIT_OCCURRENCE", facts)
    unbounded = f"OBSERVATION_PERIOD {'has no rows' if there[PERIOD.name] else 'is missing'}"
    return options, records._replace(assumed=assumed, unbounded=unbounded)


def _kinds(hospital: OmopHospital, options: OmopOptions) -> tuple[OmopOptions, tuple[str, ...]]:
    """Visits of every kind, if none is inpatient and nobody has said which ones; and what that assumes."""
    if options.cases == "notes":
        return options, ()
    found = hospital.frame(
        "SELECT as_id(visit_concept_id, 'visit_occurrence', 'visit_concept_id') AS kind, count(*) AS n "
        "FROM visit_occurrence GROUP BY ALL ORDER BY n DESC, kind"
    )["kind"]
    if not len(found) or found.is_in(INPATIENT).any():
        return options, ()
    return every_kind(options, [str(kind) for kind in found])


def _facts(hospital: OmopHospital) -> tuple[str, ...]:
    """What a reader of the cohort should know: which tables there are, and how times were compared."""
    zoned, astray, shifted = _refuse_mixed_zones(hospital)
    facts = [] if hospital.notes is None else [f"the notes are in {hospital.notes.name}, which has NOTE's columns"]
    absent = [name.upper() for name in ("person", "death", "observation_period") if name not in hospital.present]
    facts += [f"there is no table {', '.join(absent)}"] if absent else []
    facts.append("dates without a time of day are compared by day; midnight counts as no time of day")
    facts += ["times have offsets from UTC and are compared in UTC"] if zoned else []
    facts += [f"{astray:,} times were of another day than their dates; the dates are used"] if astray else []
    facts += [f"{shifted:,} {_SHIFTED}"] if shifted else []
    return tuple(facts)


def _refuse_mixed_zones(hospital: OmopHospital) -> tuple[bool, int, int]:
    """Whether times have offsets from UTC, how many are not used because they stray from their dates, and how many are
    of the day before or after.

    Times with an offset beside others without one can't be compared.
    """
    places = {"visits": ("began", "ended"), "notes": ("written",), "conditions": ("began",), "people": ("died",)}
    parts = [f"SELECT {column} AS told FROM {table}" for table, columns in places.items() for column in columns]
    found = hospital.frame(
        "SELECT coalesce(bool_or(told.zoned), false) AS zoned, "
        "coalesce(bool_or(told.timed AND NOT told.zoned), false) AS bare, "
        "count(*) FILTER (told.astray) AS astray, count(*) FILTER (told.wall::DATE <> told.day) AS shifted "
        f"FROM ({' UNION ALL '.join(parts)})"
    )
    zoned, bare, astray, shifted = found.row(0)
    if zoned and bare:
        problem = "some times have an offset from UTC, such as -05:00 or Z, and others have none"
        hint = "write all times in one way, or leave out the columns that end in _datetime"
        raise CohortError(problem, file=hospital.folder, hint=hint)
    return bool(zoned), int(astray), int(shifted)


def _check_periods(hospital: OmopHospital, *, merge: bool) -> None:
    """Refuse periods that end before they start, and overlapping ones of a patient, which the CDM forbids."""
    start, end = "observation_period_start_date", "observation_period_end_date"
    hospital.refuse_rows(
        PERIOD.name,
        f"parsed_date({end}) < parsed_date({start})",
        end,
        "the period ends before it starts",
        "correct the dates, or use `--set observation=ignore`",
    )
    if merge:
        return
    hospital.refuse_rows(
        PERIOD.name,
        f"parsed_date({start}) <= max(parsed_date({end})) OVER (PARTITION BY person_id "
        f"ORDER BY parsed_date({start}), file_row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        start,
        "the period overlaps an earlier one of the same person",
        "correct the periods, or use `--set observation=merge`",
    )


def _with_evidence(hospital: OmopHospital, built: BuiltCohort, evident: tuple[int, ...]) -> BuiltCohort:
    """Add the spans that NOTE_NLP has for the concepts, in characters of the cases' texts.

    `offset` is where the words of `lexical_variant` start; a span is left out if the text says something else there.
    """
    hospital.progress("reading spans of NOTE_NLP")
    hospital.supply(NOTE_NLP)
    hospital.run("omop_evidence", {"concepts": list(evident)})
    spans = hospital.frame("SELECT note_id, start, words FROM spans")
    cohort, label = built.cohort, built.cohort.labels[0]
    placed = spans.join(built.tables["notes"].rename({"start": "note_start"}), on="note_id")
    placed = placed.join(cohort.cases.select("case_id", "text"), on="case_id")
    length = pl.col("words").str.len_chars()
    start = pl.col("note_start") + pl.col("start")
    said = pl.col("text").str.slice(start, length).str.to_lowercase() == pl.col("words").str.to_lowercase()
    inside = (pl.col("start") >= 0) & (start + length <= pl.col("end"))
    found = placed.filter(said & inside).select(
        "case_id", pl.lit(label).alias("label"), "note_id", start.alias("start"), (start + length).alias("end")
    )
    told = f"evidence in these notes: {found.height:,} of {spans.height:,} spans of NOTE_NLP"
    step = FlowStep(told, len(cohort), cohort.n_patients)
    evidence = found.unique().sort("case_id", "start").cast({"start": pl.Int64, "end": pl.Int64})
    return built._replace(flow=(*built.flow, step), tables={**built.tables, "evidence": evidence})
