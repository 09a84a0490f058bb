"""MEDS 0.4 (Medical Event Data Standard): events in Parquet shards, splits of subjects, and labels at prediction times.

The folder may be a whole data set (`data/`, `metadata/`, `task_labels/`) or just its shards. Columns that a file lacks
are empty; file names only have to end in .parquet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.cases.columns import missing_column
from palpate.data.hospitals import Hospital
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError

SPLITS = {"train": "train", "tuning": "validation", "held_out": "test"}
"""MEDS's names of splits, and palpate's."""
LABEL_FOLDERS = ("task_labels", "labels", "cohorts")
EVENT = {"subject_id": "BIGINT", "time": "TIMESTAMP", "code": "VARCHAR"}
VALUES = ("boolean_value", "integer_value", "float_value", "categorical_value", "label")
"""Columns of a label, in the order in which palpate takes the first that has any value."""


class MedsFiles(NamedTuple):
    """The files of a data set."""

    folder: Path
    shards: tuple[Path, ...]
    splits: Path | None


def find_meds(folder: Path) -> MedsFiles:
    """The shards and the splits of a folder."""
    if not folder.is_dir():
        raise CohortError("folder not found", file=folder, hint="give the folder of a MEDS data set")
    data = folder / "data" if (folder / "data").is_dir() else folder
    aside = {"metadata", *LABEL_FOLDERS}
    shards = tuple(
        file for file in _parquet(data) if data.name == "data" or file.relative_to(data).parts[0] not in aside
    )
    if not shards:
        raise CohortError("there is no shard (.parquet file)", file=data, hint="give the folder of a MEDS data set")
    splits = folder / "metadata" / "subject_splits.parquet"
    return MedsFiles(folder, shards, splits if splits.is_file() else None)


def _parquet(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.name.lower().endswith(".parquet") and file.is_file())


def find_labels(folder: Path, labels: Path | None, task: str | None) -> tuple[str, list[Path]] | None:
    """A task's name and its label files: those of `labels`, or of a task in the data set's own folder.

    None if there are none, and none were asked for.
    """
    if labels is not None:
        place = labels if labels.exists() else folder / labels
        files = [place] if place.is_file() else _parquet(place) if place.is_dir() else []
        if place.is_file() and not place.name.lower().endswith(".parquet"):
            raise CohortError("labels of MEDS are Parquet files", file=labels, hint="write them as .parquet")
        if not files:
            raise CohortError("there are no label files", file=labels, hint="give a .parquet file or a folder of them")
        return task or labels.name.split(".")[0], files
    tasks: dict[str, list[Path]] = {}
    for name in LABEL_FOLDERS:
        for file in _parquet(folder / name) if (folder / name).is_dir() else ():
            tasks.setdefault(_task(file.relative_to(folder / name)) or name, []).append(file)
    if task is None and len(tasks) <= 1:
        return next(iter(tasks.items()), None)
    if task in tasks:
        return str(task), tasks[str(task)]
    listed = ", ".join(sorted(tasks)) or "none"
    problem = "there is no folder with labels" if not tasks else f"which task? The tasks are: {listed}"
    hint = "give the files with `--set labels=FOLDER`" if not tasks else "choose with `--set task=NAME`"
    raise CohortError(problem, file=folder, hint=hint)


def _task(file: Path) -> str:
    """A task is a whole folder of shards, or a file; folders named as splits are shards of the task above them."""
    folders = list(file.parts[:-1])
    if not folders:
        return re.sub(r"(\.parquet)+$", "", file.name, flags=re.IGNORECASE)
    while folders and folders[-1] in SPLITS:
        folders.pop()
    return "/".join(folders)


# --- checks -------------------------------------------------------------------------------------------------


def check_shards(files: Sequence[Path]) -> int:
    """Refuse a shard whose rows are not by subject and time, and a subject in two shards; the number of events."""
    home: dict[int, Path] = {}
    total = 0
    for file in files:
        columns = format_of(file).columns(file)
        for name in EVENT:
            if name not in columns:
                raise missing_column(name, columns, file=file)
        frame = _read(file, ("subject_id", "time"))
        _check_subjects(frame, file)
        _check_times(frame, file, "time")
        subject, time = frame["subject_id"], frame["time"]
        if subject.null_count():
            row = int(subject.is_null().arg_true()[0]) + 1
            raise CohortError("the cell is empty", file=file, row=row, column="subject_id", hint="drop the row")
        new = (subject != subject.shift(1)).fill_null(True)
        starts = frame.with_row_index("row").filter(new)
        again = starts["subject_id"].is_duplicated() & ~starts["subject_id"].is_first_distinct()
        if again.any():
            row, who = starts.filter(again).select("row", "subject_id").row(0)
            problem = f"subject {who} occurs again after another subject"
            raise CohortError(problem, file=file, row=row + 1, column="subject_id", hint=_SORT)
        back = ~new & ((time < time.shift(1)).fill_null(False) | (time.is_null() & time.shift(1).is_not_null()))
        if back.any():
            row = int(back.arg_true()[0]) + 1
            problem = "the event is earlier than the one before it"
            raise CohortError(problem, file=file, row=row, column="time", hint=_SORT)
        _check_home(home, starts["subject_id"], file)
        total += frame.height
    return total


_SORT = "MEDS sorts each shard by subject and time, those without a time first"


def _read(file: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    form = format_of(file)
    return form.frame(file, form.columns(file) if columns is None else columns, {})


def _check_times(frame: pl.DataFrame, file: Path, column: str) -> None:
    kind, hint = frame[column].dtype, "write it as timestamp[us]"
    if not isinstance(kind, pl.Datetime | pl.Date):
        raise CohortError(f"the column holds {kind}, not times", file=file, column=column, hint=hint)
    if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        problem = f"the times are in the time zone {kind.time_zone}, but times of MEDS have none"
        raise CohortError(problem, file=file, column=column, hint="write the local times of the events, without a zone")


def _check_subjects(frame: pl.DataFrame, file: Path) -> None:
    if not frame["subject_id"].dtype.is_integer():
        problem, hint = f"the column holds {frame['subject_id'].dtype}, not whole numbers", "write it as int64"
        raise CohortError(problem, file=file, column="subject_id", hint=hint)
    large = frame["subject_id"].cast(pl.Int64, strict=False).is_null() & frame["subject_id"].is_not_null()
    if large.any():
        row, hint = int(large.arg_true()[0]) + 1, "write it as int64"
        raise CohortError("the number is larger than MEDS allows", file=file, row=row, column="subject_id", hint=hint)


def _check_home(home: dict[int, Path], subjects: pl.Series, file: Path) -> None:
    for subject in subjects:
        other = home.setdefault(subject, file)
        if other != file:
            problem = f"subject {subject} is also in {other}"
            raise CohortError(problem, file=file, column="subject_id", hint="keep a subject's events in one shard")


# --- tables in DuckDB ---------------------------------------------------------------------------------------


def open_events(hospital: Hospital, files: MedsFiles) -> None:
    """The view `events`: what MEDS says of an event, and its shard and row as `event`."""
    root = files.folder / "data" if (files.folder / "data").is_dir() else files.folder
    whole = [file.relative_to(root).as_posix() for file in files.shards]
    short = [name[: -len(".parquet")] for name in whole]
    names = short if len(set(short)) == len(short) else whole  # 0.parquet beside 0.PARQUET
    parts = []
    for file, shard in zip(files.shards, names, strict=True):
        there = format_of(file).columns(file)
        cells = [f"{name}::{kind} AS {name}" for name, kind in EVENT.items()]
        for name, kind in (("numeric_value", "DOUBLE"), ("text_value", "VARCHAR")):
            cells.append(f"{name}::{kind} AS {name}" if name in there else f"NULL::{kind} AS {name}")
        place = _literal(f"{shard}#")
        parts.append(
            f"SELECT {', '.join(cells)}, {place} || (file_row_number + 1) AS event "
            f"FROM read_parquet({_literal(str(file))}, file_row_number = true, hive_partitioning = false)"
        )
    hospital.connection.execute(f"CREATE VIEW events AS {' UNION ALL '.join(parts)}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def read_label_files(files: Sequence[Path]) -> tuple[pl.DataFrame, str]:
    """`subject_id`, `prediction_time` and `value` of every row, and which column the values are from."""
    frames = []
    for file in files:
        frame = _read(file)
        if "prediction_time" not in frame.columns and "index_timestamp" in frame.columns:
            frame = frame.rename({"index_timestamp": "prediction_time"})  # as ACES's query itself calls it
        columns = frame.columns
        for name in ("subject_id", "prediction_time"):
            if name not in columns:
                raise missing_column(name, columns, file=file)
        known = [name for name in VALUES if name in columns]
        if not known:
            raise missing_column(VALUES[0], columns, file=file)
        _check_subjects(frame, file)
        _check_times(frame, file, "prediction_time")
        kept = frame.select(
            pl.col("subject_id").cast(pl.Int64),
            pl.col("prediction_time").cast(pl.Datetime("us")),
            *(_as_words(frame[name]) for name in known),
        )
        for name in ("subject_id", "prediction_time"):
            if kept[name].null_count():
                row = int(kept[name].is_null().arg_true()[0]) + 1
                raise CohortError("the cell is empty", file=file, row=row, column=name, hint="drop the row")
        frames.append(kept)
    rows = pl.concat(frames, how="diagonal_relaxed")
    used = next((name for name in VALUES if name in rows.columns and rows[name].null_count() < rows.height), VALUES[0])
    twice = rows.select("subject_id", "prediction_time").is_duplicated()
    if twice.any():
        who, when = rows.filter(twice).select("subject_id", "prediction_time").row(0)
        problem = f"subject {who} has two labels for the prediction time {when}"
        raise CohortError(problem, file=files[0].parent, hint="keep one label for each subject and prediction time")
    return rows.select("subject_id", "prediction_time", pl.col(used).alias("value")), used


def _as_words(values: pl.Series) -> pl.Series:
    """Categories, as some programs write words that repeat, are words."""
    return values.cast(pl.String) if values.dtype in (pl.Categorical, pl.Enum) else values


def read_subject_splits(files: MedsFiles) -> pl.DataFrame | None:
    """Each subject's split by palpate's names: of the metadata or of the shards' folders; None without either."""
    if files.splits is not None:
        frame = _read(files.splits)
        for name in ("subject_id", "split"):
            if name not in frame.columns:
                raise missing_column(name, frame.columns, file=files.splits)
        _check_subjects(frame, files.splits)
        frame = frame.select(pl.col("subject_id").cast(pl.Int64), pl.col("split").cast(pl.String)).drop_nulls()
        unknown = frame.filter(~pl.col("split").is_in([*SPLITS, *SPLITS.values()]))
        if unknown.height:
            problem = f"the split '{unknown['split'][0]}' is not known"
            hint = f"MEDS's splits are {', '.join(SPLITS)}; draw others with `--set split=draw`"
            raise CohortError(problem, file=files.splits, column="split", hint=hint)
        frame = frame.with_columns(pl.col("split").replace(SPLITS)).unique(maintain_order=True)
        twice = frame["subject_id"].is_duplicated()
        if twice.any():
            problem = f"subject {frame.filter(twice)['subject_id'][0]} is in two splits"
            raise CohortError(problem, file=files.splits, column="subject_id", hint="keep one split for each subject")
        return frame
    named = {file: next((part for part in file.parts[::-1] if part in SPLITS), None) for file in files.shards}
    if not all(named.values()):
        return None
    frames = [
        pl.read_parquet(file, columns=["subject_id"], glob=False).unique().with_columns(split=pl.lit(SPLITS[str(name)]))
        for file, name in named.items()
    ]
    return pl.concat(frames).with_columns(pl.col("subject_id").cast(pl.Int64))
