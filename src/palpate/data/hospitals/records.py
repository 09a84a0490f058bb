"""From people, visits, notes and conditions to cases, whatever standard they come in: OMOP CDM or FHIR.

A reader stages the tables `people`, `visits`, `notes`, `conditions` and `observed` and the view `texts` in DuckDB
(`sql/omop.sql` says what is in them). Here an index is chosen in each visit, the outcome after it and the notes before
it are found (`sql/record_cases.sql`, `sql/record_notes.sql`), and who is left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from palpate.cases.cohort import Cohort
from palpate.cases.columns import ColumnCheck
from palpate.cases.labels import label_matrix
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, normal_gender, refuse_empty, split_cases
from palpate.data.hospitals import Hospital
from palpate.data.hospitals.options import RecordOptions
from palpate.data.hospitals.strays import close_periods, data_end
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError
from palpate.privacy import hides

NOTE_MARK = "\n\n===== NEXT NOTE =====\n\n"
"""The separator between two notes of a case; it belongs to neither."""
ATTRIBUTES = ("age", "gender", "race", "ethnicity")
NOTES = {**dict.fromkeys(("case_id", "note_id", "category"), pl.String()), "start": pl.Int64(), "end": pl.Int64()}
_BLOCK = 2**24
"""How many characters of notes are joined at a time."""
_STRAYS = "don't say when the data end"
_NO_NOTE = "no note by the index (see `grace_hours`)"


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
    assumed: tuple[str, ...] = ()
    """What the reader has assumed, where the user said nothing."""
    unbounded: str = ""
    """Why nothing says who was observed when, where that is so."""


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
    end = data_end(hospital)
    said = close_periods(hospital) if options.follows and records.has_periods else ()
    settings = options.model_dump() | {
        "has_people": records.has_people and options.people == "known",
        "has_periods": records.has_periods,
        "follow": options.follows,
        "strays": end.strays.start,
    }
    hospital.run("record_cases", settings)
    if options.follows and not records.has_periods:
        cut = hospital.frame("SELECT count(*) FILTER (dropped = 'follow-up') AS n FROM labelled").item()
        said = (*(end.told(records.unbounded) if cut else ()), *end.strays.told(end.unit, _STRAYS))
    records = records._replace(assumed=(*records.assumed, *said))
    options, records = _knowable(hospital, options, records)
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
    options, records = _written(hospital, options, records)
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


def _knowable(hospital: Hospital, options: RecordOptions, records: Records) -> tuple[RecordOptions, Records]:
    """Cases without labels, if no case at all is observed for long enough and nobody has asked for the outcome."""
    left = hospital.frame("SELECT dropped, count(*) AS n FROM labelled GROUP BY dropped")
    why = dict(left.iter_rows())
    if None in why or "follow-up" not in why or not options.unsaid("outcome", "observation", "incomplete", "days"):
        return options, records
    hospital.connection.execute("UPDATE labelled SET dropped = NULL WHERE dropped = 'follow-up'")
    said = (
        f"outcome=none, because no case is observed for {options.days} days after its index: the cohort has no labels; "
        f"observation=ignore takes what is known as the outcome"
    )
    return options.model_copy(update={"outcome": "none"}), records._replace(assumed=(*records.assumed, said))


def _written(hospital: Hospital, options: RecordOptions, records: Records) -> tuple[RecordOptions, Records]:
    """A cohort without text, if no case has a note by its index and nobody has said that it needs one."""
    if options.cases == "notes" or not options.unsaid("text") or hospital.frame("SELECT * FROM parts LIMIT 1").height:
        return options, records
    n = hospital.frame("SELECT count(*) AS n FROM notes").item()
    late = hospital.frame("SELECT count(*) AS n FROM screened WHERE dropped = 'late'").item()
    why = "no case has a note by its index" if n else "there are no notes"
    hint = "; grace_hours=HOURS admits notes that were written later" if late else ""
    said = f"text=leave, because {why}: the cohort has no text{hint}"
    return options.model_copy(update={"text": "leave"}), records._replace(assumed=(*records.assumed, said))


def _assemble(
    frame: pl.DataFrame,
    flow: tuple[FlowStep, ...],
    labels: Sequence[str],
    records: Records,
    options: RecordOptions,
    name: str,
    tables: Mapping[str, pl.DataFrame],
) -> BuiltCohort:
    positive = frame[labels[0]] == 1 if labels else pl.repeat(False, frame.height, eager=True)
    frame, step = split_cases(frame, positive, ratios=options.ratios, seed=options.seed, file=options.splits)
    last = [
        FlowStep(f"positive for {label}: {n:,} ({n / frame.height:.1%})", step.n_cases, step.n_patients)
        for label in labels
        for n in [int(frame[label].sum())]
    ]
    empty = {each for each in (*ATTRIBUTES, *records.attributes) if frame[each].null_count() == frame.height}
    attributes = [each for each in (*ATTRIBUTES, *records.attributes) if each not in empty]
    cohort = Cohort.from_frame(frame.drop(empty), labels=labels, name=name, attributes=attributes)
    told = {name: table.filter(pl.col("case_id").is_in(frame["case_id"].to_list())) for name, table in tables.items()}
    whole = replace(cohort, facts=(*cohort.facts, *records.facts))
    return BuiltCohort(whole, (*flow, step, *last), told).assuming(*records.assumed)


def _count(rows: pl.DataFrame) -> int:
    return rows["subject_id"].drop_nulls().n_unique()


def _case_steps(options: RecordOptions, records: Records) -> dict[str, tuple[str, str]]:
    """The steps of `record_cases.sql` that can drop a case, in its order: names, and reasons for dropping it."""
    kinds = options.visits if isinstance(options.visits, str) else ", ".join(options.visits)
    days, end = options.days, options.index
    by_visit, follow = options.cases == "visits", options.follows
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
    if options.outcome == "none":
        return frame.drop("outcome"), (), None
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
