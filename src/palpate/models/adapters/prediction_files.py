"""Files of predictions: CSV, TSV, Parquet, JSON lines, and the schema of meds-evaluation among them.

That one (`subject_id`, `prediction_time`, `predicted_boolean_probability`, ...) needs no `case_id`: a cohort of MEDS
has the subject and the time in its case ids. Its `boolean_value` is what the file takes for the truth:
`palpate.run.checks` compares it with the cohort's labels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from palpate.cases.columns import prediction_ids
from palpate.cases.growth import read_parquet
from palpate.cases.panics import panics_are_errors
from palpate.delimited import FileLayout, csv_rows, find_delimiter, plain_frame
from palpate.errors import CohortError, ConfigError

MEDS_KEY = ("subject_id", "prediction_time")
MEDS_PROBABILITY, MEDS_TRUTH = "predicted_boolean_probability", "boolean_value"
_TRUE, _FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")


def read_file(
    file: Path, layout: FileLayout, keys: Collection[str], wanted: Collection[str] | None = None
) -> pl.DataFrame:
    """The table; a CSV file with a wrong cell is read as text, so that it can be named.

    Of a Parquet file only the `wanted` columns are read, where that says which.
    """
    kind = "".join(file.suffixes[-2:] if file.suffix == ".gz" else file.suffixes[-1:]).lower()
    try:
        if kind in (".csv", ".csv.gz", ".tsv", ".tsv.gz"):
            return _read_csv(file, layout, keys)
        if kind in (".jsonl", ".ndjson"):
            return pl.read_ndjson(file, infer_schema_length=None)
        if kind == ".parquet":
            with panics_are_errors(file):
                there = pl.read_parquet_schema(file)
            return read_parquet(file, [c for c in there if wanted is None or c in wanted])
    except (pl.exceptions.PolarsError, OSError) as error:
        problem = "has no rows" if isinstance(error, pl.exceptions.NoDataError) or not file.stat().st_size else None
        raise ConfigError(problem or f"can't be read as {kind}", file=file) from error
    raise ConfigError(
        f"predictions can't be read from '{kind}' files",
        file=file,
        hint="give .csv, .tsv, .parquet or .jsonl",
    )


def _read_csv(file: Path, layout: FileLayout, keys: Collection[str]) -> pl.DataFrame:
    """All but the keys as numbers, or all cells as text, with decimal points: a comma in a probability can be nothing
    else."""
    try:
        plain = _plain(file, layout, keys)
        if plain is not None:
            return plain
        rows = csv_rows(file, layout)
        header = next(rows, [])
        cells = list(zip(*rows, strict=True)) or [()] * len(header)
    except CohortError as error:
        raise ConfigError(error.problem, file=file, row=error.row, column=error.column, hint=error.hint) from None
    twice = next((name for k, name in enumerate(header) if name in header[:k]), None)
    if twice is not None:
        raise ConfigError("the header has this column twice", file=file, column=twice, hint="rename one of them")
    frame = pl.DataFrame(
        {name: pl.Series(name, column, dtype=pl.String) for name, column in zip(header, cells, strict=True)}
    )
    return frame.with_columns(pl.all().str.replace(r"^\s*([01]),([0-9]+)\s*$", "$1.$2"))


def _plain(file: Path, layout: FileLayout, keys: Collection[str]) -> pl.DataFrame | None:
    """A file without quotes, whose other columns than keys are all numbers; None for any other."""
    mark = layout.delimiter or find_delimiter(file, layout)
    with file.open("rb") as stream:
        names = stream.readline().decode("utf-8", "replace").rstrip("\r\n").split(mark)
    return plain_frame(file, layout, numbers=set(names) - set(keys))


def of_meds(
    frame: pl.DataFrame, cases: Sequence[str], other_keys: Collection[str], file: Path
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """A file of meds-evaluation with case ids and its probabilities only, and what it says is true.

    Any other file, such as one with `other_keys`, is returned as it is, and says nothing of that.
    """
    if {*cases, *other_keys} & set(frame.columns) or not {*MEDS_KEY, MEDS_PROBABILITY} <= set(frame.columns):
        return frame, None
    subject, time = (frame[name] for name in MEDS_KEY)
    if time.dtype == pl.String:
        time = time.str.to_datetime(strict=False)
    empty = subject.is_null() | time.is_null()
    if empty.any():
        row = int(empty.arg_true()[0]) + 1
        raise ConfigError("the subject or the prediction time can't be read", file=file, row=row)
    ids = prediction_ids(subject, time)
    others = [name for name in frame.columns if name in ("cohort", MEDS_PROBABILITY)]
    return frame.select(ids.alias(cases[0]), *others), _truth(frame, ids)


def _truth(frame: pl.DataFrame, ids: pl.Series) -> pl.DataFrame | None:
    """`case_id` and `y`, where the file says which cases are positive."""
    if MEDS_TRUTH not in frame.columns:
        return None
    said = frame[MEDS_TRUTH].cast(pl.String).str.strip_chars().str.to_lowercase()
    known = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
    y = said.replace_strict(known, default=None, return_dtype=pl.Boolean)
    return pl.DataFrame({"case_id": ids, "y": y}).drop_nulls()
