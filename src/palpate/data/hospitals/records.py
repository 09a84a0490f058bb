"""From people, visits, notes and conditions to cases, whatever standard they come in: OMOP CDM or FHIR.

A reader stages the tables `people`, `visits`, `notes`, `conditions` and `observed` and the view `texts` in DuckDB
(`sql/omop.sql` says what is in them). Here an index is chosen in each visit, the outcome after it and the notes before
it are found (`sql/record_cases.sql`, `sql/record_notes.sql`), and who is left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from palpate.cases.cohort import Cohort
from palpate.cases.columns import ColumnCheck
from palpate.cases.labels import label_matrix
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, normal_gender, refuse_empty, split_cases
from palpate.data.cohorts.splits import VOCABULARY_RATIOS, Ratios
from palpate.data.hospitals import Hospital
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError
from palpate.privacy import hides

NOTE_MARK = "\n\n===== NEXT NOTE =====\n\n"
"""The separator between two notes of a case; it belongs to neither."""
NOTES_ALONE = "notes alone need labels: `--set cases=notes --set outcome=file --set labels=FILE`"
ATTRIBUTES = ("age", "gender", "race", "ethnicity")
NOTES = {**dict.fromkeys(("case_id", "note_id", "category"), pl.String()), "start": pl.Int64(), "end": pl.Int64()}
_BLOCK = 2**24
"""How many characters of notes are joined at a time."""
_NO_NOTE = "no note by the index (see `grace_hours`)"


def listed(value: object) -> object:
    """One value, or several with commas, as on the command line, is a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return (value,) if isinstance(value, int) else value


Names = Annotated[tuple[Annotated[str, BeforeValidator(str)], ...], BeforeValidator(listed)]


class RecordOptions(BaseModel):
    """Which visits or notes are cases, when the model is asked, and what it is to predict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cases: Literal["visits", "notes"] = "visits"
    """One case for each visit, with its notes; or one for each note, at the time of the note."""
    outcome: Literal["readmission", "death", "condition", "file"] = "readmission"
    """What happens within `days` after the index: another visit begins, the patient dies, one of `conditions` is
    recorded; or `file`: the labels are in the file `labels`."""
    days: int = Field(default=30, ge=1)
    """How long after the index the outcome may happen."""
    conditions: Names = ()
    """What counts as the condition: concept ids in OMOP, codes in FHIR (`I50*`, `http://snomed.info/sct|84114007`)."""
    labels: Path | None = None
    """A table with `case_id` (or `visit_occurrence_id`, `encounter_id`, `note_id`) and labels in columns of 0 and 1."""
    label: str | None = None
    """The label's name; default: the outcome's."""
    index: Literal["end", "start"] = "end"
    """The moment of prediction: the end or the start of the visit."""
    visits: Annotated[Literal["inpatient", "all"] | Names, Field(union_mode="left_to_right")] = "inpatient"
    """Visits that are cases and readmissions: inpatient ones, all, or a list of visit concepts or encounter classes."""
    people: Literal["known", "any"] = "known"
    """Whether patients must be in the table of patients, if there is one."""
    gap_hours: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """A visit that begins sooner after the index is its continuation, not a readmission."""
    deaths: Literal["drop", "keep"] = "drop"
    """Visits whose patient was dead by the index."""
    prevalent: Literal["drop", "keep"] = "drop"
    """Cases whose patient already had the condition by the index."""
    min_age: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """In years at the index; cases whose age is unknown are left out if it is above 0."""
    observation: Literal["respect", "merge", "ignore"] = "respect"
    """The index must be in an observation period, and `days` after it too; `merge`: overlapping periods are merged
    instead of refused. Without periods, the data end with the last visit that begins."""
    incomplete: Literal["drop", "keep"] = "drop"
    """Cases that are observed for less than `days`: all are dropped, or those with the outcome are kept."""
    text: Literal["auto", "require", "leave"] = "auto"
    """Whether cases need notes: `auto`, if there are any; `leave`: the cohort has no text."""
    which: Literal["all", "first", "last"] = "all"
    """Of several notes of a case: all of them in order of time, or one."""
    same_day: Literal["auto", "keep", "drop"] = "auto"
    """Notes of the day of the index, where the time of day is unknown: `auto` keeps them at the end of a visit only."""
    grace_hours: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Notes written so long after the index still count as written at it, such as discharge summaries."""
    window_days: int = Field(default=1, ge=0)
    """A note without a visit may be so many days older than the visit to which it is joined."""
    ratios: Ratios = VOCABULARY_RATIOS
    """Training, validation and test patients."""
    seed: int = 0
    """The same seed gives the same split."""
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""

    @model_validator(mode="after")
    def _fit_together(self) -> RecordOptions:
        if self.outcome == "readmission" and self.cases == "visits" and self.index == "start":
            raise ValueError("a readmission follows the end of a visit: use index=end")
        if (self.outcome == "condition") != bool(self.conditions):
            raise ValueError("give `conditions` with outcome=condition, and only then")
        if (self.outcome == "file") != (self.labels is not None):
            raise ValueError("give `labels` with outcome=file, and only then")
        return self

    @property
    def keeps_same_day(self) -> bool:
        """Whether notes of the index's day count where the time of day is unknown."""
        return self.same_day == "keep" or (self.same_day == "auto" and (self.index == "end" or self.cases == "notes"))


class Records(NamedTuple):
    """What a reader has staged, and how its steps are called in the flow table."""

    source: str | Path
    """What errors call it."""
    has_people: bool
    has_periods: bool
    notes: Mapping[str, tuple[str, str]]
    """Reasons of the reader for dropping a note: the step's name, and why."""
    visits: str = "visits"
    """What the first step of the cases is called."""
    facts: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """Columns of the table `measured` (`case_id`, ...), which `prepare` makes from `labelled`."""
    start: tuple[FlowStep, ...] = ()
    """What the reader has left out before."""
    first_notes: tuple[FlowStep, ...] = ()
    """The same of notes."""
    others: tuple[FlowStep, ...] = ()
    """The same of what is neither a note nor a visit."""
    has_spans: bool = False
    """Whether a condition may begin in a month or a year."""
    has_versions: bool = False
    """Whether notes may be replaced by newer ones."""
    prepare: Callable[[Hospital, tuple[str, ...]], None] = lambda _hospital, _attributes: None


@hides("texts", "notes")
class Joined(NamedTuple):
    """The texts of the cases, and where each note is in them."""

    texts: pl.DataFrame
    notes: pl.DataFrame


def pattern(globs: Sequence[str]) -> str | None:
    """A regular expression that matches any of the patterns, in which `*` stands for anything; None for none."""
    parts = [re.escape(glob.strip()).replace(r"\*", ".*").replace(r"\?", ".") for glob in globs]
    return "|".join(f"(?:{part})" for part in parts) or None


def build_cases(hospital: Hospital, records: Records, options: RecordOptions, name: str) -> BuiltCohort:
    """The cohort from staged tables, with its flow, its notes and its split."""
    hospital.progress("finding outcomes")
    settings = options.model_dump()
    follow = options.observation != "ignore" and options.outcome != "file"
    settings |= {
        "has_people": records.has_people and options.people == "known",
        "has_periods": records.has_periods,
        "follow": follow,
    }
    hospital.run("record_cases", settings)
    rows = hospital.frame("SELECT person_id AS subject_id, dropped FROM labelled")
    start = () if options.cases == "notes" else records.start
    first = FlowStep(options.cases if options.cases == "notes" else records.visits, rows.height, _count(rows))
    flow = [*(start or [first])]
    flow += flow_steps(rows, _case_steps(options, records))
    refuse_empty(flow, records.source)
    hospital.progress("choosing notes")
    hospital.run("record_notes", {**settings, "same_day": options.keeps_same_day})
    screening = _note_flow(hospital, records, options)
    records.prepare(hospital, records.attributes)
    frame = _cases(hospital, records)
    joined = _texts(hospital, records, options)
    tables: dict[str, pl.DataFrame] = {}
    if joined is not None:
        frame, step = _with_texts(frame, joined.texts)
        flow.append(step)
        refuse_empty(flow, records.source)
        tables["notes"] = joined.notes
    frame, labels, labelled = _with_labels(frame, options)
    flow += [labelled] if labelled else []
    return _assemble(frame, (*records.others, *screening, *flow), labels, records, options, name, tables)


def _assemble(
    frame: pl.DataFrame,
    flow: tuple[FlowStep, ...],
    labels: Sequence[str],
    records: Records,
    options: RecordOptions,
    name: str,
    tables: Mapping[str, pl.DataFrame],
) -> BuiltCohort:
    frame, step = split_cases(
        frame, frame[labels[0]] == 1, ratios=options.ratios, seed=options.seed, file=options.splits
    )
    last = [
        FlowStep(f"positive for {label}: {n:,} ({n / frame.height:.1%})", step.n_cases, step.n_patients)
        for label in labels
        for n in [int(frame[label].sum())]
    ]
    empty = {each for each in (*ATTRIBUTES, *records.attributes) if frame[each].null_count() == frame.height}
    attributes = [each for each in (*ATTRIBUTES, *records.attributes) if each not in empty]
    cohort = Cohort.from_frame(frame.drop(empty), labels=labels, name=name, attributes=attributes)
    told = {name: table.filter(pl.col("case_id").is_in(frame["case_id"].to_list())) for name, table in tables.items()}
    facts = (*cohort.facts, *records.facts)
    return BuiltCohort(
        Cohort(cohort.cases, cohort.labels, cohort.y, cohort.attributes, facts), (*flow, step, *last), told
    )


def _count(rows: pl.DataFrame) -> int:
    return rows["subject_id"].drop_nulls().n_unique()


def _case_steps(options: RecordOptions, records: Records) -> dict[str, tuple[str, str]]:
    """The steps of `record_cases.sql` that can drop a case, in its order: names, and reasons for dropping it."""
    kinds = options.visits if isinstance(options.visits, str) else ", ".join(options.visits)
    days, end = options.days, options.index
    by_visit, follow = options.cases == "visits", options.outcome != "file" and options.observation != "ignore"
    steps = {
        "kind": (
            by_visit,
            f"visits of the wanted kind ({kinds})",
            "another kind of visit (`visits=all` takes every kind)",
        ),
        "person": (
            records.has_people and options.people == "known",
            "patients who are known",
            "the patient is not in the table of patients",
        ),
        "no index": (by_visit, f"with an index (the {end})", f"the {end} of the visit is not known"),
        "backwards": (by_visit, "visits that end after they begin", "the end is before the start"),
        "dead": (True, f"alive at the index (deaths: {options.deaths})", "died by the index"),
        "undated death": (options.outcome == "death", "deaths with a date", "died, but it is not known when"),
        "age": (options.min_age > 0, f"at least {options.min_age:g} years old", "younger, or the age is unknown"),
        "unobserved": (records.has_periods, "index in an observation period", "in no period of the patient"),
        "follow-up": (
            follow,
            f"observed for {days} days",
            f"observed for less than {days} days (`observation=ignore` takes them)",
        ),
        "prevalent": (options.outcome == "condition", f"prevalent: {options.prevalent}", "had it by the index"),
        "unclear": (
            options.outcome == "condition" and records.has_spans,
            "onset known to be before or after the index",
            f"only the month or the year of the onset is known, and the index or the end of the {days} days is in it",
        ),
    }
    return {key: (name, reason) for key, (applies, name, reason) in steps.items() if applies}


def _note_flow(hospital: Hospital, records: Records, options: RecordOptions) -> list[FlowStep]:
    """What became of the notes, counted in notes."""
    rows = hospital.frame("SELECT subject_id, dropped FROM screened")
    if not rows.height:
        return []
    late = "its day is that of the index or later" if not options.keeps_same_day else "later than the index"
    steps = {
        **records.notes,
        "unknown visit": ("notes whose visit is known", "the visit is not in the table of visits"),
        "other patient": ("notes of the visit's patient", "the visit is of another patient"),
        "no case": ("notes of a case", "its visit is not a case, or it was written outside of all visits"),
        "late": ("notes written by the index", f"written {late}" if options.keeps_same_day else late),
        "replaced": ("notes that nothing had replaced by the index", "a newer version or document had replaced it"),
        "copy": ("notes in a text", "a copy of another note of the case, or not the one that was asked for"),
    }
    if not records.has_versions:
        del steps["replaced"]
    first = records.first_notes or [FlowStep("notes", rows.height, _count(rows))]
    return [*first, *flow_steps(rows, steps)]


def _cases(hospital: Hospital, records: Records) -> pl.DataFrame:
    """The kept cases without their texts, sorted by patient and time."""
    further = "".join(f', measured."{each}"' for each in records.attributes)
    joined = "LEFT JOIN measured USING (case_id)" if records.attributes else ""
    rows = hospital.frame(
        "SELECT kept.case_id, person_id AS patient_id, moment.wall AS time, age, gender, race, ethnicity, "
        f"outcome::INTEGER AS outcome{further} FROM kept {joined} "
        "ORDER BY length(person_id), person_id, moment.instant, length(kept.case_id), kept.case_id"
    )
    return rows.with_columns(normal_gender())


def _texts(hospital: Hospital, records: Records, options: RecordOptions) -> Joined | None:
    """The texts; None if the cohort is to have none, or the source has no notes."""
    if options.text == "leave":
        return None
    (n_notes,) = hospital.frame("SELECT count(*) AS n FROM notes").row(0)
    if not n_notes and options.text == "auto" and options.cases == "visits":
        return None
    if not n_notes:
        raise CohortError("there are no notes", file=records.source, hint="use `text=leave` for a cohort without text")
    return join_texts(hospital)


def join_texts(hospital: Hospital) -> Joined:
    """One text per case from `parts` (case, note, place), `texts` and `notes` (note, category)."""
    hospital.progress("joining texts")
    rows = _rows(
        hospital,
        "SELECT parts.case_id, parts.note_id, texts.text FROM parts JOIN texts USING (note_id) "
        "ORDER BY parts.case_id, parts.place",
    )
    schema = {"case_id": pl.String(), "text": pl.String()}
    blocks, notes = [pl.DataFrame(schema=schema)], [pl.DataFrame(schema={**NOTES, "category": pl.Null()})]
    for block in _blocks(rows):
        blocks.append(pl.DataFrame([(case, NOTE_MARK.join(texts)) for case, _, texts in block], schema, orient="row"))
        spans = [span for case, ids, texts in block for span in _spans(case, ids, texts)]
        notes.append(pl.DataFrame(spans, schema={**NOTES, "category": pl.Null()}, orient="row"))
    titles = hospital.frame("SELECT note_id, category FROM notes SEMI JOIN parts USING (note_id)")
    placed = pl.concat(notes).drop("category").join(titles, on="note_id", how="left", maintain_order="left")
    return Joined(pl.concat(blocks, rechunk=False), placed.select(*NOTES))


def _rows(hospital: Hospital, query: str) -> Iterator[tuple[Any, ...]]:
    for frame in hospital.frames(query):
        yield from frame.iter_rows()


Case = tuple[str, list[str], list[str]]


def _blocks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[Case]]:
    """Some cases at a time: the case, its notes' ids and their texts."""
    block: list[Case] = []
    size = 0
    for case, group in groupby(rows, key=lambda row: row[0]):
        parts = list(group)
        block.append((case, [row[1] for row in parts], [row[2] for row in parts]))
        size += sum(len(row[2]) for row in parts)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    yield block


def _spans(case: str, ids: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[str, str, None, int, int]]:
    at = 0
    for note_id, text in zip(ids, texts, strict=True):
        yield case, note_id, None, at, at + len(text)
        at += len(text) + len(NOTE_MARK)


def _with_texts(frame: pl.DataFrame, texts: pl.DataFrame) -> tuple[pl.DataFrame, FlowStep]:
    whole = frame.join(texts, on="case_id", maintain_order="left")
    dropped = frame.height - whole.height
    step = FlowStep("cases with a note", whole.height, whole["patient_id"].n_unique(), dropped, _NO_NOTE)
    return whole, step


def _with_labels(frame: pl.DataFrame, options: RecordOptions) -> tuple[pl.DataFrame, tuple[str, ...], FlowStep | None]:
    """The frame with its labels: the outcome, or what a file says."""
    if options.labels is None:
        label = options.label or options.outcome
        return frame.rename({"outcome": label}), (label,), None
    saved = read_labels(options.labels)
    labels = tuple(name for name in saved.columns if name != "case_id")
    whole = frame.drop("outcome").join(saved, on="case_id", maintain_order="left")
    if not whole.height:
        raise CohortError("the file has none of the cohort's cases", file=options.labels, hint="check its ids")
    reason = "the case is not in the file of labels"
    step = FlowStep(
        "cases with labels", whole.height, whole["patient_id"].n_unique(), frame.height - whole.height, reason
    )
    return whole, labels, step


KEYS = ("case_id", "visit_occurrence_id", "encounter_id", "visit_id", "note_id")


def read_labels(file: Path) -> pl.DataFrame:
    """A table of labels by case: `case_id` as text, and all other columns as 0 and 1."""
    form = format_of(file)
    columns = form.columns(file)
    key = next((column for name in KEYS for column in columns if column.lower() == name), None)
    if key is None:
        raise CohortError("no column says which case a label is of", file=file, hint=f"name one of {', '.join(KEYS)}")
    frame = form.frame(file, columns, {}).rename({key: "case_id"})
    frame = frame.with_columns(pl.col("case_id").cast(pl.String).str.strip_chars())
    twice = frame["case_id"].is_duplicated()
    if twice.any():
        row = int(twice.arg_true()[0]) + 1
        raise CohortError("the case has several rows", file=file, row=row, column=key, hint="keep one row for each")
    labels = [column for column in frame.columns if column != "case_id"]
    y = label_matrix((ColumnCheck(frame[label], file=file) for label in labels), n=frame.height).toarray()
    return frame.select("case_id", *(pl.Series(label, y[:, k]) for k, label in enumerate(labels)))
