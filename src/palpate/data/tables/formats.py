"""Table files on disk: which columns they have, and the wanted columns as a frame.

CSV, TSV and JSON Lines are parsed row by row with the standard library, because a table of patients must be read
exactly or not at all: polars pads short rows with nulls and can't say which row has an invalid byte. For notes this is
just as fast. Cells are returned as strings, so that ids like "007" survive; Parquet keeps its own types. Rows are
passed to polars in batches, so memory holds the wanted columns only once.

A row is a record, counted from 1 without the header; a note that spans many lines is one row, and blank lines are not
counted.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO, cast

import polars as pl

from palpate.errors import CohortError

BATCH_ROWS = 2_000
LONGEST_CELL = 2**31 - 1
ENCODE_HINT = "save the file as UTF-8"
COPY_HINT = "copy or export the file again"
DAMAGED_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
BLOCK = 4 * 2**20
SURROGATE = re.compile("[\ud800-\udfff]")


class Format(NamedTuple):
    """How one kind of file is read.

    `frame` takes the path, the wanted columns, and which of them hold lists, with the delimiter that splits a string
    into a list. `typed` means that the file distinguishes numbers from strings, `lists` that a cell can be a list.
    """

    columns: Callable[[Path], tuple[str, ...]]
    frame: Callable[[Path, Sequence[str], Mapping[str, str | None]], pl.DataFrame]
    typed: bool
    lists: bool


def format_of(path: Path) -> Format:
    """The format that the file's name implies; the file must exist."""
    for suffix, kind in FORMATS.items():
        if path.name.lower().endswith(suffix):
            if not path.is_file():
                raise CohortError("file not found", file=path, hint="check the path")
            return kind
    raise CohortError("this type of file can't be read", file=path, hint=f"give one of {', '.join(FORMATS)}")


def check_complete(file: Path) -> None:
    """Refuse a CSV or gzipped CSV that is damaged or truncated.

    DuckDB does not notice either: it drops a last row whose quote is never closed, as an interrupted copy leaves it,
    and does not compare a gzip file's checksum.
    """
    n_quotes = 0
    with _open_bytes(file) as content:
        while block := content.read(BLOCK):
            n_quotes += block.count(b'"')
    if n_quotes % 2:
        # The exact reader can say which row it is; it only rereads files that are known to be wrong.
        form = format_of(file)
        form.frame(file, form.columns(file)[:1], {})
        raise CohortError("a quote is not closed", file=file, hint=COPY_HINT)


# --- text files ---------------------------------------------------------------------------------------------


@contextmanager
def _open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, decompressed."""
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as raw:
            yield cast(BinaryIO, raw)
    except DAMAGED_GZIP as error:
        problem = "the gzip file ends too early" if isinstance(error, EOFError) else "the gzip file is damaged"
        raise CohortError(problem, file=path, hint=COPY_HINT) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the file can't be read ({reason})", file=path, hint="check its permissions") from None


@contextmanager
def _open_text(path: Path, *, errors: str = "strict", newline: str = "") -> Iterator[TextIO]:
    """The file as text, decompressed and without a byte order mark."""
    with _open_bytes(path) as raw:
        yield io.TextIOWrapper(raw, encoding="utf-8-sig", errors=errors, newline=newline)


def _frame(
    path: Path, rows: Iterator[tuple[object, ...]], columns: Sequence[str], lists: Mapping[str, str | None]
) -> pl.DataFrame:
    """Rows of strings as columns; the columns named in `lists` hold lists of strings."""
    schema = {name: pl.List(pl.String) if name in lists else pl.String() for name in columns}
    parts, done = [pl.DataFrame(schema=schema)], 0
    while batch := list(islice(rows, BATCH_ROWS)):
        cells = dict(zip(columns, zip(*batch, strict=True), strict=True))
        try:
            parts.append(pl.DataFrame({name: pl.Series(name, cells[name], dtype=schema[name]) for name in columns}))
        except UnicodeEncodeError:
            raise _unpaired_surrogate(path, cells, done) from None
        done += len(batch)
    return pl.concat(parts, rechunk=True)


def _unpaired_surrogate(path: Path, cells: Mapping[str, Sequence[object]], done: int) -> CohortError:
    """Where half of a surrogate pair is, which JSON can write and UTF-8 can't."""
    places = ((k, name) for name, column in cells.items() for k, cell in enumerate(column) if _has_surrogate(cell))
    at, name = min(places)
    problem = "the cell contains an unpaired surrogate"
    return CohortError(problem, file=path, row=done + at + 1, column=name, hint=ENCODE_HINT)


def _has_surrogate(cell: object) -> bool:
    """Whether a cell has half of a surrogate pair; with `surrogateescape`, that is a byte that is not UTF-8."""
    parts = cell if isinstance(cell, list) else [cell]
    return any(isinstance(part, str) and SURROGATE.search(part) is not None for part in parts)


# --- CSV and TSV --------------------------------------------------------------------------------------------


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower()[-7:] else ","


def _csv_rows(path: Path, *, errors: str = "strict") -> Iterator[list[str]]:
    """The header, then the rows, which all have the header's length."""
    csv.field_size_limit(LONGEST_CELL)  # Python's default, 131072, is shorter than the longest notes
    done, width = 0, 0
    with _open_text(path, errors=errors) as lines:
        reader = csv.reader(lines, delimiter=_delimiter(path), strict=True)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except UnicodeDecodeError:
                raise _bad_csv_byte(path) from None
            except csv.Error:
                hint = 'double the quotes inside a quoted cell ("")'
                raise CohortError(
                    "a quote is not closed or not doubled", file=path, row=done or None, hint=hint
                ) from None
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                problem = f"the row has {len(row)} cells and the header has {width}"
                hint = "quote cells that contain the delimiter or a line break"
                raise CohortError(problem, file=path, row=done, hint=hint)
            done += 1
            yield row


def _bad_csv_byte(path: Path) -> CohortError:
    """Which cell has the byte that is not UTF-8: reads the file again and lets invalid bytes pass."""
    rows = _csv_rows(path, errors="surrogateescape")
    header = next(rows, [])
    problem = "the bytes are not UTF-8"
    if any(map(_has_surrogate, header)):
        return CohortError(f"{problem} in the header", file=path, hint=ENCODE_HINT)
    for number, row in enumerate(rows, start=1):
        for name, cell in zip(header, row, strict=True):
            if _has_surrogate(cell):
                return CohortError(problem, file=path, row=number, column=name, hint=ENCODE_HINT)
    return CohortError(problem, file=path, hint=ENCODE_HINT)


def _csv_columns(path: Path) -> tuple[str, ...]:
    header = next(_csv_rows(path), None)
    if header is None:
        raise CohortError("the file is empty", file=path, hint="give a table with a header and one row per case")
    named = [name for name in header if name]
    name, times = max(Counter(named).items(), key=itemgetter(1), default=("", 0))
    if times > 1:
        raise CohortError("the header has this column twice", file=path, column=name, hint="rename one of them")
    return tuple(named)


def _csv_frame(path: Path, columns: Sequence[str], lists: Mapping[str, str | None]) -> pl.DataFrame:
    del lists  # a CSV cell is a string; codes are split later, all at once
    rows = _csv_rows(path)
    header = next(rows)
    if len(columns) == 1:
        k = header.index(columns[0])
        return _frame(path, ((row[k],) for row in rows), columns, {})
    return _frame(path, map(itemgetter(*(header.index(name) for name in columns)), rows), columns, {})


# --- JSON Lines ---------------------------------------------------------------------------------------------


def _objects(path: Path) -> Iterator[dict[str, object]]:
    """One object per line."""
    done = 0
    with _open_text(path, newline="\n") as lines:
        while True:
            try:
                line = next(lines)
                record = json.loads(line) if not line.isspace() else None
            except StopIteration:
                return
            except UnicodeDecodeError:
                raise _bad_json_byte(path) from None
            except (ValueError, RecursionError):
                hint = "write one JSON object per line"
                raise CohortError("the line is not JSON", file=path, row=done + 1, hint=hint) from None
            if line.isspace():
                continue
            done += 1
            if not isinstance(record, dict):
                hint = "write one JSON object per line"
                raise CohortError("the line is not a JSON object", file=path, row=done, hint=hint)
            yield record


def _bad_json_byte(path: Path) -> CohortError:
    """Which cell has the byte that is not UTF-8."""
    problem = "the bytes are not UTF-8"
    with _open_text(path, errors="surrogateescape", newline="\n") as lines:
        for number, line in enumerate((line for line in lines if not line.isspace()), start=1):
            if SURROGATE.search(line):
                return CohortError(problem, file=path, row=number, column=_bad_key(line), hint=ENCODE_HINT)
    return CohortError(problem, file=path, hint=ENCODE_HINT)


def _bad_key(line: str) -> str | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    items = record.items() if isinstance(record, dict) else ()
    return next((name for name, cell in items if _has_surrogate(cell)), None)


def _json_columns(path: Path) -> tuple[str, ...]:
    """All keys, in the order in which they first occur; a row may lack some."""
    seen: dict[str, None] = {}
    rows = 0
    for record in _objects(path):
        rows += 1
        if not record.keys() <= seen.keys():
            seen.update(dict.fromkeys(record))
    if not rows:
        raise CohortError("the file is empty", file=path, hint="give one JSON object per line, one per case")
    return tuple(seen)


def _json_frame(path: Path, columns: Sequence[str], lists: Mapping[str, str | None]) -> pl.DataFrame:
    def rows() -> Iterator[tuple[object, ...]]:
        for number, record in enumerate(_objects(path), start=1):
            try:
                yield tuple(_json_cell(record.get(name), name, lists) for name in columns)
            except _WrongShapeError as error:
                raise CohortError(
                    f"the cell is {error}", file=path, row=number, column=error.name, hint=error.hint
                ) from None

    return _frame(path, rows(), columns, lists)


class _WrongShapeError(Exception):
    """A JSON value that does not fit its column."""

    def __init__(self, problem: str, name: str, hint: str) -> None:
        super().__init__(problem)
        self.name, self.hint = name, hint


def _json_cell(value: object, name: str, lists: Mapping[str, str | None]) -> str | list[str] | None:
    """A JSON value as a string, or as a list of strings."""
    if name not in lists:
        if isinstance(value, list | dict):
            raise _WrongShapeError("a list or an object", name, "give a single value")
        return _scalar(value)
    delimiter = lists[name]
    if value is None:
        return None
    if isinstance(value, str) and delimiter is not None:
        return value.split(delimiter)
    if not isinstance(value, list) or any(isinstance(item, list | dict) for item in value):
        raise _WrongShapeError("not a list of codes", name, "name 0/1 columns in `labels`, and codes in `label_list`")
    return [item for item in map(_scalar, value) if item is not None]


def _scalar(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


# --- Parquet ------------------------------------------------------------------------------------------------


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Name the file in errors of polars, which say only what is wrong inside it."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise CohortError("the file is damaged or is not a Parquet file", file=path, hint=COPY_HINT) from None


def _parquet_columns(path: Path) -> tuple[str, ...]:
    with _parquet_errors(path):
        return tuple(pl.read_parquet_schema(path))


def _parquet_frame(path: Path, columns: Sequence[str], lists: Mapping[str, str | None]) -> pl.DataFrame:
    del lists  # the file knows which columns hold lists
    with _parquet_errors(path):
        return pl.read_parquet(path, columns=list(columns), glob=False, hive_partitioning=False)


CSV = Format(_csv_columns, _csv_frame, typed=False, lists=False)
JSONL = Format(_json_columns, _json_frame, typed=False, lists=True)
PARQUET = Format(_parquet_columns, _parquet_frame, typed=True, lists=True)
FORMATS = {
    ".csv": CSV,
    ".csv.gz": CSV,
    ".tsv": CSV,
    ".tsv.gz": CSV,
    ".jsonl": JSONL,
    ".jsonl.gz": JSONL,
    ".parquet": PARQUET,
}
