"""Table files on disk: which columns they have, and the wanted columns as a frame.

CSV and TSV are read by `palpate.delimited`, JSON Lines row by row with the standard library: exactly or not at all.
Cells are returned as strings, so that ids like "007" survive, also those of Excel workbooks; Parquet keeps its own
types. Rows are passed to polars in batches, so memory holds the wanted columns only once. A row is a record, counted
from 1 without the header; a note that spans many lines is one row, and blank lines are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol

import polars as pl

from palpate.cases.growth import check_parquet, check_workbook, read_parquet
from palpate.cases.panics import panics_are_errors
from palpate.delimited import (
    AS_IT_IS,
    BLOCK,
    COPY_HINT,
    ENCODE_HINT,
    SURROGATE,
    FileLayout,
    bounded_lines,
    csv_rows,
    has_surrogate,
    not_unicode,
    open_bytes,
    open_text,
    plain_frame,
)
from palpate.errors import CohortError, parse_json
from palpate.privacy import as_cell, from_cell
from palpate.registry import optional

BATCH_ROWS = 2_000


class _ReadFrame(Protocol):
    def __call__(
        self, path: Path, columns: Sequence[str], lists: Mapping[str, str | None], *, n_rows: int | None = None
    ) -> pl.DataFrame: ...


class Format(NamedTuple):
    """How one kind of file is read.

    `frame` takes the path, the wanted columns, and which of them hold lists, with the delimiter that splits a string
    into a list; `n_rows` stops after the first rows. `typed` means that the file distinguishes numbers from strings,
    `lists` that a cell can be a list.
    """

    columns: Callable[[Path], tuple[str, ...]]
    frame: _ReadFrame
    typed: bool
    lists: bool


class _Kind(NamedTuple):
    """A format whose functions take the layout of a particular file first; `says` are the fields that it has."""

    columns: Callable[[FileLayout, Path], tuple[str, ...]]
    frame: Callable[..., pl.DataFrame]
    typed: bool
    lists: bool
    says: tuple[str, ...]


def format_of(path: Path, layout: FileLayout = AS_IT_IS) -> Format:
    """The format that the file's name implies; the file must exist. `layout` says what the file itself does not."""
    for suffix, kind in FORMATS.items():
        if path.name.lower().endswith(suffix):
            if not path.is_file():
                raise CohortError("file not found", file=path, hint="check the path")
            for name in ("encoding", "delimiter", "sheet"):
                if getattr(layout, name) is not None and name not in kind.says:
                    problem = f"`{name}` does not apply to a {suffix} file"
                    raise CohortError(problem, file=path, hint=f"remove `{name}:`")
            return Format(partial(kind.columns, layout), partial(kind.frame, layout), kind.typed, kind.lists)
    hint = f"give one of {', '.join(FORMATS)}"
    if path.suffix.lower() in (".xls", ".xlsb", ".xlsm", ".ods", ".numbers"):
        hint = "save it as .xlsx or .csv"
    raise CohortError("this type of file can't be read", file=path, hint=hint)


def check_complete(file: Path, form: Format) -> bool:
    """Refuse a CSV or gzipped CSV that is damaged or truncated; whether DuckDB may read it.

    DuckDB does not notice either: it drops a last row whose quote is never closed, as an interrupted copy leaves it,
    and does not compare a gzip file's checksum. An odd number of quotes may be one in a cell that is not quoted, such
    as 5" for inches: the exact reader knows, and has to read such a file.
    """
    n_quotes = 0
    with open_bytes(file) as content:
        while block := content.read(BLOCK):
            n_quotes += block.count(b'"')
    if n_quotes % 2:
        form.frame(file, form.columns(file)[:1], {})
    return n_quotes % 2 == 0


# --- sheets for people --------------------------------------------------------------------------------------


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """A table to be written as CSV: in a spreadsheet, a text that would be computed is shown (`as_cell`).

    >>> escaped(pl.DataFrame({"word": ["=1+1", "fever"]}))["word"].to_list()
    ["'=1+1", 'fever']
    """
    return frame.with_columns(pl.col(pl.String).map_elements(as_cell, return_dtype=pl.String))


def unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """What `escaped` was given."""
    return frame.with_columns(pl.col(pl.String).map_elements(from_cell, return_dtype=pl.String))


# --- rows of strings ----------------------------------------------------------------------------------------


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
    places = ((k, name) for name, column in cells.items() for k, cell in enumerate(column) if has_surrogate(cell))
    at, name = min(places)
    problem = "the cell contains an unpaired surrogate"
    return CohortError(problem, file=path, row=done + at + 1, column=name, hint=ENCODE_HINT)


# --- CSV and TSV --------------------------------------------------------------------------------------------


def _csv_columns(layout: FileLayout, path: Path) -> tuple[str, ...]:
    header = next(csv_rows(path, layout), None)
    if header is None:
        raise CohortError("the file is empty", file=path, hint="give a table with a header and one row per case")
    if not any(header):
        raise CohortError("the header names no column", file=path, hint="name the columns in the first row")
    return _distinct([name for name in header if name], path)


def _distinct(named: Sequence[str], path: Path) -> tuple[str, ...]:
    """The names of the columns, of which no two may be equal."""
    name, times = max(Counter(named).items(), key=itemgetter(1), default=("", 0))
    if times > 1:
        raise CohortError("the header has this column twice", file=path, column=name, hint="rename one of them")
    return tuple(named)


def _csv_frame(
    layout: FileLayout,
    path: Path,
    columns: Sequence[str],
    lists: Mapping[str, str | None],
    *,
    n_rows: int | None = None,
) -> pl.DataFrame:
    del lists  # a CSV cell is a string; codes are split later, all at once
    plain = plain_frame(path, layout) if n_rows is None else None
    if plain is not None:
        return plain.select(columns)
    rows = csv_rows(path, layout)
    header = next(rows)
    rows = islice(rows, n_rows)
    if len(columns) == 1:
        k = header.index(columns[0])
        return _frame(path, ((row[k],) for row in rows), columns, {})
    return _frame(path, map(itemgetter(*(header.index(name) for name in columns)), rows), columns, {})


# --- JSON Lines ---------------------------------------------------------------------------------------------


_PER_LINE = "write one JSON object per line"


def _objects(path: Path, layout: FileLayout) -> Iterator[dict[str, object]]:
    """One object per line."""
    done = 0
    with open_text(path, layout, newline="\n") as stream:
        lines = bounded_lines(stream, path)
        while True:
            try:
                line = next(lines)
                record = parse_json(line) if not line.isspace() else None
            except StopIteration:
                return
            except UnicodeError:
                raise _bad_json_byte(path, layout) from None
            except ValueError:
                raise CohortError("the line is not JSON", file=path, row=done + 1, hint=_PER_LINE) from None
            if line.isspace():
                continue
            done += 1
            if not isinstance(record, dict):
                raise CohortError("the line is not a JSON object", file=path, row=done, hint=_PER_LINE)
            yield record


def _bad_json_byte(path: Path, layout: FileLayout) -> CohortError:
    """Which cell has the byte that is not UTF-8."""
    if layout.encoding is None:
        with open_text(path, errors="surrogateescape", newline="\n") as lines:
            for number, line in enumerate((line for line in lines if not line.isspace()), start=1):
                if SURROGATE.search(line):
                    return not_unicode(path, layout, row=number, column=_bad_key(line), cell=line)
    return not_unicode(path, layout, row=None, column=None)


def _bad_key(line: str) -> str | None:
    try:
        record = parse_json(line)
    except ValueError:
        return None
    items = record.items() if isinstance(record, dict) else ()
    return next((name for name, cell in items if has_surrogate(cell)), None)


def _json_columns(layout: FileLayout, path: Path) -> tuple[str, ...]:
    """All keys, in the order in which they first occur; a row may lack some."""
    seen: dict[str, None] = {}
    rows = 0
    for record in _objects(path, layout):
        rows += 1
        if not record.keys() <= seen.keys():
            seen.update(dict.fromkeys(record))
    if not rows:
        raise CohortError("the file is empty", file=path, hint="give one JSON object per line, one per case")
    return tuple(seen)


def _json_frame(
    layout: FileLayout,
    path: Path,
    columns: Sequence[str],
    lists: Mapping[str, str | None],
    *,
    n_rows: int | None = None,
) -> pl.DataFrame:
    def rows() -> Iterator[tuple[object, ...]]:
        for number, record in enumerate(_objects(path, layout), start=1):
            try:
                yield tuple(_json_cell(record.get(name), name, lists) for name in columns)
            except _WrongShapeError as error:
                raise CohortError(
                    f"the cell is {error}", file=path, row=number, column=error.name, hint=error.hint
                ) from None

    return _frame(path, islice(rows(), n_rows), columns, lists)


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
    except (pl.exceptions.PolarsError, OSError, ValueError):
        raise CohortError("the file is damaged or is not a Parquet file", file=path, hint=COPY_HINT) from None


def _parquet_columns(layout: FileLayout, path: Path) -> tuple[str, ...]:
    del layout  # the file says all
    check_parquet(path)
    with _parquet_errors(path), panics_are_errors(path):
        return tuple(pl.read_parquet_schema(path))


def _parquet_frame(
    layout: FileLayout,
    path: Path,
    columns: Sequence[str],
    lists: Mapping[str, str | None],
    *,
    n_rows: int | None = None,
) -> pl.DataFrame:
    del layout, lists  # the file knows which columns hold lists
    with _parquet_errors(path):
        return read_parquet(path, columns, n_rows=n_rows)


# --- Excel --------------------------------------------------------------------------------------------------


def _excel_sheet(layout: FileLayout, path: Path, *, header: int | None = 0, n_rows: int | None = None) -> pl.DataFrame:
    """A sheet with all cells as strings; empty rows at its end are left out. Without a header it is the first row."""
    fastexcel = optional("fastexcel", extra="excel", needed_for=f"reading {path.name}")
    try:
        path.open("rb").close()  # fastexcel tells an unreadable file from a damaged one only by its message
        check_workbook(path)
        book = fastexcel.read_excel(path)
        if not book.sheet_names:
            raise CohortError("the workbook has no sheet", file=path, hint=COPY_HINT)
        sheet = book.sheet_names[0] if layout.sheet is None else layout.sheet
        if isinstance(sheet, int) and 1 <= sheet <= len(book.sheet_names):
            sheet = book.sheet_names[sheet - 1]
        if sheet not in book.sheet_names:
            hint = f"the sheets are: {', '.join(book.sheet_names)}"
            raise CohortError(f"there is no sheet '{sheet}'", file=path, hint=hint)
        frame: pl.DataFrame = book.load_sheet(str(sheet), header_row=header, n_rows=n_rows, dtypes="string").to_polars()
        return frame
    except fastexcel.FastExcelError as error:
        if "password" in str(error).lower():
            raise CohortError("the workbook has a password", file=path, hint="save it without one") from None
        problem = "the file is not an Excel workbook (.xlsx), or it is damaged"
        raise CohortError(problem, file=path, hint=COPY_HINT) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the file can't be read ({reason})", file=path, hint="check its permissions") from None


def _excel_columns(layout: FileLayout, path: Path) -> tuple[str, ...]:
    first = _excel_sheet(layout, path, header=None, n_rows=1)
    if not first.height:
        raise CohortError("the sheet is empty", file=path, hint="give a table with a header and one row per case")
    return _distinct([name for name in first.row(0) if name], path)


def _excel_frame(
    layout: FileLayout,
    path: Path,
    columns: Sequence[str],
    lists: Mapping[str, str | None],
    *,
    n_rows: int | None = None,
) -> pl.DataFrame:
    del lists  # a cell is a string, as in CSV
    frame = _excel_sheet(layout, path, n_rows=n_rows)
    last = frame.select(pl.any_horizontal(pl.all().is_not_null()).arg_true().max()).item() if frame.height else None
    return frame.select(columns).head(0 if last is None else int(last) + 1)


CSV = _Kind(_csv_columns, _csv_frame, typed=False, lists=False, says=("encoding", "delimiter"))
JSONL = _Kind(_json_columns, _json_frame, typed=False, lists=True, says=("encoding",))
PARQUET = _Kind(_parquet_columns, _parquet_frame, typed=True, lists=True, says=())
EXCEL = _Kind(_excel_columns, _excel_frame, typed=False, lists=False, says=("sheet",))
FORMATS = {
    ".csv": CSV,
    ".csv.gz": CSV,
    ".tsv": CSV,
    ".tsv.gz": CSV,
    ".jsonl": JSONL,
    ".jsonl.gz": JSONL,
    ".parquet": PARQUET,
    ".xlsx": EXCEL,
}
