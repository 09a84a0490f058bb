"""A cohort from MEDS 0.4: one case per label, at its prediction time, with what was known up to and including it.

The labels are a task's, such as ACES makes them: `subject_id`, `prediction_time` and a value. Notes are the events of
chosen codes that have a `text_value`; attributes are age (MEDS_BIRTH) and codes such as GENDER//F. The SQL is in
`sql/meds.sql` and `sql/meds_attributes.sql`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from palpate.cases.cohort import ROLES, Cohort
from palpate.cases.columns import prediction_ids
from palpate.data.cohorts import BuiltCohort, FlowStep, normal_gender, refuse_empty, split_cases
from palpate.data.cohorts.splits import VOCABULARY_RATIOS, Ratios
from palpate.data.hospitals import Announce, Hospital, in_memory
from palpate.data.hospitals.meds import (
    MedsFiles,
    check_shards,
    find_labels,
    find_meds,
    open_events,
    read_label_files,
    read_subject_splits,
)
from palpate.data.hospitals.options import Names
from palpate.data.hospitals.records import Joined, join_texts, pattern
from palpate.data.hospitals.strays import find_strays
from palpate.errors import CohortError

NOTES = ("NOTE", "NOTE//*", "NOTES//*", "CLINICAL_NOTE//*")
NAMES = {"SEX": "gender"}
"""What headings are called as attributes, if not by their own name."""
_TIMES = "times have no time zone and are compared as they are; the prediction time is included"
_STRAYS = "don't say when a case is"
_NO_LABELS = (
    "each subject is a case at the time of the last event, and the cohort has no labels, because the data set has no "
    "folder task_labels; labels=FOLDER names one elsewhere"
)


class MedsOptions(BaseModel):
    """Which labels are cases, and which events are their notes and attributes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str | None = None
    """The task whose labels are used; it need not be named where there is only one."""
    labels: Path | None = None
    """A file or folder with labels, in place of one in the data set's own `task_labels`."""
    above: float | None = None
    """For labels that are numbers: those of at least this value are positive."""
    notes: Names = NOTES
    """Patterns for the codes of notes, such as `NOTE//*`; only events with a text_value count."""
    window_days: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Only notes of so many days before the prediction time; default: all."""
    last: int | None = Field(default=None, ge=1)
    """Only so many of the last notes; default: all."""
    text: Literal["auto", "require", "leave"] = "auto"
    """Whether cases need notes: `auto`, if the data set has any; `leave`: the cohort has no text."""
    attributes: Names = ("GENDER", "SEX", "RACE", "ETHNICITY")
    """Headings of codes that become attributes: of RACE//WHITE the part after the heading, of HEIGHT the value."""
    split: Literal["dataset", "draw"] = "dataset"
    """The data set's own splits (train, tuning, held_out), or one drawn by subject in `ratios`."""
    ratios: Ratios = VOCABULARY_RATIOS
    """Training, validation and test subjects, where a split is drawn."""
    seed: int = 0
    """The same seed gives the same split."""
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead."""


def build_meds(
    source: Path, *, options: MedsOptions | None = None, name: str = "meds", progress: Announce | None = None
) -> BuiltCohort:
    """Build a cohort from a folder with a MEDS data set."""
    chosen = options or MedsOptions()
    files = find_meds(source)
    found = find_labels(source, chosen.labels, chosen.task)
    read = None if found is None else read_label_files(found[1])
    labels: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    with in_memory() as (connection, scratch):
        hospital = Hospital(connection, source, progress, scratch)
        hospital.progress(f"checking {len(files.shards)} shards")
        n_events = check_shards(files.shards)
        open_events(hospital, files)
        if found is None or read is None:
            first, frame, flow, assumed = _unlabelled(hospital, n_events, source)
        else:
            frame, labels, flow = _labelled(*read, found[0], chosen, found[1][0].parent)
            told = f"labels of {found[0]} ({n_events:,} events in the shards)"
            first = FlowStep(told, read[0].height, read[0]["subject_id"].n_unique())
        _stage(hospital, frame, chosen)
        frame, flow = _known(hospital, frame, flow, source)
        joined, noted = _notes(hospital, chosen, source)
        if joined is not None:
            frame = _with_texts(frame, joined, flow, source)
        frame, attributes, several = _with_attributes(hospital, frame)
    frame, step = _with_splits(frame, labels, chosen, files)
    cohort = Cohort.from_frame(frame, labels=labels, name=name, attributes=attributes)
    last = [_step(f"positive for {each}: {int(frame[each].sum()):,}", frame) for each in labels]
    kept = frame["case_id"].to_list()
    tables = {} if joined is None else {"notes": joined.notes.filter(pl.col("case_id").is_in(kept))}
    built = BuiltCohort(
        replace(cohort, facts=(*cohort.facts, _TIMES)), (*noted, first, *flow, *several, step, *last), tables
    )
    return built.assuming(*assumed)


def _unlabelled(
    hospital: Hospital, n_events: int, source: Path
) -> tuple[FlowStep, pl.DataFrame, list[FlowStep], tuple[str, ...]]:
    """The cases of a data set without labels: each subject at the time of the last event; and what that assumes."""
    last = "SELECT subject_id, max(time) FILTER ({}) AS moment FROM events GROUP BY subject_id ORDER BY subject_id"
    strays = find_strays(hospital, last.format("true"))
    known = "true" if strays.start is None else f"time < TIMESTAMP '{strays.start}'"
    rows = hospital.frame(last.format(known)).rename({"moment": "prediction_time"})
    first = FlowStep(f"subjects ({n_events:,} events in the shards)", rows.height, rows.height)
    frame = _identified(rows.drop_nulls())
    flow = [_step("subjects with a time", frame, rows.height - frame.height, "no event has a time that counts")]
    refuse_empty(flow, source)
    return first, frame, flow, (_NO_LABELS, *strays.told("last events of subjects", _STRAYS))


def _identified(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns that say which case it is, from `subject_id` and `prediction_time`."""
    return rows.select(
        prediction_ids(rows["subject_id"], rows["prediction_time"]).alias("case_id"),
        pl.col("subject_id").cast(pl.String).alias("patient_id"),
        pl.col("prediction_time").alias("time"),
        "subject_id",
    )


def _with_texts(frame: pl.DataFrame, joined: Joined, flow: list[FlowStep], source: Path) -> pl.DataFrame:
    whole = frame.join(joined.texts, on="case_id", maintain_order="left")
    flow.append(_step("cases with a note", whole, frame.height - whole.height, "no note by the prediction time"))
    refuse_empty(flow, source)
    return whole


def _step(name: str, frame: pl.DataFrame, dropped: int = 0, reason: str = "") -> FlowStep:
    return FlowStep(name, frame.height, frame["patient_id"].n_unique(), dropped, reason)


def _labelled(
    rows: pl.DataFrame, column: str, task: str, options: MedsOptions, place: Path
) -> tuple[pl.DataFrame, tuple[str, ...], list[FlowStep]]:
    """The cases with their labels, sorted by subject and time; categories become a label each."""
    known = rows.drop_nulls("value").sort("subject_id", "prediction_time")
    frame = _identified(known)
    flow = [_step("labels with a value", frame, rows.height - frame.height, f"{column} is empty")]
    refuse_empty(flow, place)
    value = known["value"]
    if value.dtype == pl.String:
        kinds = tuple(sorted(value.unique()))
        _refuse_reserved(kinds, options, f"the value of {column}", "rename the value in the label files", place)
        columns = [(value == kind).cast(pl.UInt8).alias(kind) for kind in kinds]
        return frame.with_columns(columns), kinds, flow
    hint = "rename it, or give its labels another name with `--set labels=FOLDER --set task=NAME`"
    _refuse_reserved((task,), options, "the task", hint, place)
    if options.above is not None:
        positive = value.cast(pl.Float64) >= options.above
    elif value.dtype == pl.Boolean or value.cast(pl.Float64).is_in([0.0, 1.0]).all():
        positive = value.cast(pl.Boolean)
    else:
        hint = "say from which value on a label is positive, with `--set above=VALUE`"
        raise CohortError("the labels are numbers other than 0 and 1", file=place, column=column, hint=hint)
    return frame.with_columns(positive.cast(pl.UInt8).alias(task)), (task,), flow


def _refuse_reserved(names: tuple[str, ...], options: MedsOptions, what: str, hint: str, place: Path) -> None:
    """Refuse a label with the name of a column that says something else of a case."""
    headings = (NAMES.get(each.upper(), each.lower()) for each in options.attributes)
    reserved = {*ROLES, "subject_id", "cohort", "age", *headings}
    for name in names:
        if name.lower() in reserved:
            problem = f"{what} is called '{name}', which is also the name of another column of the cohort"
            raise CohortError(problem, file=place, hint=hint)


def _stage(hospital: Hospital, frame: pl.DataFrame, options: MedsOptions) -> None:
    """The tables `labels` and `headings`."""
    file = hospital.scratch / "labels.parquet"
    frame.select("case_id", "subject_id", pl.col("time").alias("prediction_time")).write_parquet(file)
    run = hospital.connection.execute
    run(f"CREATE TABLE labels AS FROM read_parquet('{file}')")
    run("CREATE TABLE headings (heading VARCHAR, name VARCHAR)")
    for heading in options.attributes:
        run("INSERT INTO headings VALUES (?, ?)", [heading.upper(), NAMES.get(heading.upper(), heading.lower())])


def _known(
    hospital: Hospital, frame: pl.DataFrame, flow: list[FlowStep], source: Path
) -> tuple[pl.DataFrame, list[FlowStep]]:
    """Only labels of subjects who have an event by the prediction time."""
    seen = hospital.frame(
        "SELECT DISTINCT labels.case_id FROM labels JOIN "
        "(SELECT subject_id, min(time) AS began FROM events WHERE time IS NOT NULL GROUP BY subject_id) AS events "
        "ON events.subject_id = labels.subject_id AND events.began <= labels.prediction_time"
    )
    kept = frame.join(seen, on="case_id", maintain_order="left")
    reason = "the subject has no event by the prediction time"
    flow = [*flow, _step("labels of subjects with events", kept, frame.height - kept.height, reason)]
    refuse_empty(flow, source)
    return kept, flow


def _notes(hospital: Hospital, options: MedsOptions, source: Path) -> tuple[Joined | None, list[FlowStep]]:
    """The texts of the cases, None where there are none or none are wanted; and how many notes have a time."""
    if options.text == "leave":
        return None, []
    hospital.progress("choosing notes")
    settings = {"codes": pattern(options.notes) or "", "window_days": options.window_days, "last": options.last}
    hospital.run("meds", settings)
    n, who, n_timed, who_timed = hospital.frame(
        "SELECT count(*) AS n, count(DISTINCT subject_id) AS who, count(time) AS n_timed, "
        "count(DISTINCT subject_id) FILTER (time IS NOT NULL) AS who_timed FROM notes"
    ).row(0)
    timed = FlowStep("notes with a time", n_timed, who_timed, n - n_timed, "the event has no time")
    noted = [FlowStep("notes", n, who), timed] if n else []
    if n_timed:
        return join_texts(hospital), noted
    if options.text == "auto" and options.notes == NOTES:
        return None, noted
    if noted:
        problem = f"none of the {n:,} notes has a time"
        raise CohortError(problem, file=source, hint="write the times of notes, or use `--set text=leave`")
    found = hospital.frame(
        "SELECT code FROM events WHERE text_value IS NOT NULL GROUP BY code ORDER BY count(*) DESC, code LIMIT 5"
    )["code"].to_list()
    hint = f"codes with text are: {', '.join(found)}" if found else "no event has a text_value; use `--set text=leave`"
    raise CohortError(f"no event of {', '.join(options.notes)} has text", file=source, hint=hint)


def _with_attributes(hospital: Hospital, frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str], list[FlowStep]]:
    """Age at the prediction time, what the headings say, and how many subjects have several values at once."""
    hospital.progress("reading attributes")
    hospital.run("meds_attributes")
    ages = hospital.frame(
        "SELECT case_id, CASE WHEN birth <= prediction_time THEN datesub('year', birth, prediction_time) END AS age "
        "FROM labels LEFT JOIN births USING (subject_id)"
    )
    told, several = _one_value(hospital.frame("SELECT case_id, subject_id, name, value FROM told"), frame)
    wide = told.pivot("name", index="case_id", values="value") if told.height else told.select("case_id")
    whole = frame.join(ages, on="case_id", how="left", maintain_order="left")
    whole = whole.join(wide, on="case_id", how="left", maintain_order="left")
    names = [each for each in ("age", *wide.columns[1:]) if whole[each].null_count() < whole.height]
    unused = [each for each in ("age", *wide.columns[1:]) if each not in names]
    return whole.drop("subject_id", *unused).with_columns(_numbers(whole, names)), names, several


def _one_value(told: pl.DataFrame, frame: pl.DataFrame) -> tuple[pl.DataFrame, list[FlowStep]]:
    """Each case's value of each attribute; of several at the same time, all with commas, or the lowest number."""
    gender = pl.when(pl.col("name") == "gender").then(normal_gender("value")).otherwise("value").alias("value")
    number = pl.col("value").cast(pl.Float64, strict=False)
    told = told.filter(pl.col("case_id").is_in(frame["case_id"].implode())).with_columns(gender).unique()
    told = told.with_columns(numeric=number.is_not_null().all().over("name"), number=number)
    one = told.sort("name", "case_id", "number", "value").group_by("name", "case_id", maintain_order=True).agg(
        pl.when(pl.col("numeric").first()).then(pl.col("value").first()).otherwise(pl.col("value").str.join(", ")),
        pl.len().alias("n"),
        pl.col("subject_id", "numeric").first(),
    )  # fmt: skip
    many = one.filter(pl.col("n") > 1).group_by("name", "numeric", maintain_order=True)
    steps = [
        _step(
            f"{name}: {n:,} subject{'' if n == 1 else 's'} with several values at once, "
            f"{'the lowest is used' if numeric else 'joined by commas'}",
            frame,
        )
        for name, numeric, n in many.agg(pl.col("subject_id").n_unique()).iter_rows()
    ]
    return one.select("case_id", "name", "value"), steps


def _numbers(frame: pl.DataFrame, names: list[str]) -> list[pl.Series]:
    """Attributes all of whose values are numbers, as numbers."""
    texts = [frame[name] for name in names if frame[name].dtype == pl.String]
    read = [(text, text.cast(pl.Float64, strict=False)) for text in texts]
    return [number for text, number in read if number.null_count() == text.null_count()]


def _with_splits(
    frame: pl.DataFrame, labels: tuple[str, ...], options: MedsOptions, files: MedsFiles
) -> tuple[pl.DataFrame, FlowStep]:
    own = read_subject_splits(files) if options.split == "dataset" and options.splits is None else None
    if own is None:
        positive = frame[labels[0]] == 1 if labels else pl.repeat(False, frame.height, eager=True)
        return split_cases(frame, positive, ratios=options.ratios, seed=options.seed, file=options.splits)
    saved = own.select(pl.col("subject_id").cast(pl.String).alias("patient_id"), "split")
    kept = frame.join(saved, on="patient_id", maintain_order="left")
    if not kept.height:
        raise CohortError("the data set's splits have none of the labels' subjects", hint="use `--set split=draw`")
    reason = "the subject is in no split"
    return kept, _step("split of the data set", kept, frame.height - kept.height, reason)
