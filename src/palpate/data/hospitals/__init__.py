"""Hospital tables in a folder (CSV, gzipped CSV or Parquet), opened in DuckDB as views of strings.

A layout (see `mimic`) says which tables and columns must be there; this module finds and checks them and opens
them in DuckDB with a memory limit. The SQL files in `sql/` do the rest. DuckDB's own messages never reach the user:
they quote the line that could not be read, and that line may be a note.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from palpate.cases.columns import missing_column, quote
from palpate.data.hospitals.scans import literal, scan_of, table_format
from palpate.data.tables.formats import check_complete
from palpate.errors import CohortError
from palpate.registry import optional

if TYPE_CHECKING:
    import duckdb

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
MEMORY_LIMIT = "1500MB"
TYPES: dict[str, pl.DataType] = {
    "VARCHAR": pl.String(),
    "VARCHAR[]": pl.List(pl.String()),
    "INTEGER": pl.Int64(),
    "BIGINT": pl.Int64(),
    "BOOLEAN": pl.Boolean(),
    "DOUBLE": pl.Float64(),
    "TIMESTAMP": pl.Datetime("us"),
}
DATES = (
    "write 2039-07-23 or 2039-07-23 14:05:00, 23-JUL-2039 or 23JUL2039, 23.7.2039 or, with `dates=mdy` (the default) "
    "or `dates=dmy`, 7/23/2039 or 23/7/2039"
)
WORD_BEHIND = re.compile(r"\d:\d\d.*[^\W\d_]{2}|\(")
"""A time with a word, such as the name of a time zone, or with brackets."""
PROBLEMS = {
    "time": ("NOT is_time({cell})", "which is not a time", "write it like 2180-07-23 14:05:00"),
    "id": ("NOT is_id({cell})", "which is not a whole number", "ids are whole numbers in this layout"),
    "flag": ("NOT is_flag({cell})", "not 0 or 1", "write 0 or 1"),
    "date": ("NOT is_date({cell})", "which is not a date in the order that `dates` says", DATES),
    "zone": (
        "NOT is_date({cell})",
        "and what stands behind the time is not understood",
        "write a time zone as its offset, such as -05:00 or Z, in all times or in none, and times as 14:05 or 2:05 PM",
    ),
    "empty": ("{cell} IS NULL", "", "fill the cell or drop the row"),
}

Announce = Callable[[str], None]
"""Called with one line of text before each step of long work."""


class SourceTable(NamedTuple):
    """A table of a layout: its folder, and which columns and rows are needed."""

    name: str
    columns: tuple[str, ...]
    folder: str = ""
    key: str | None = None
    """A column whose values must be unique."""
    wanted: str = "true"
    """An SQL condition on the columns; rows that don't meet it are not read."""
    verbatim: tuple[str, ...] = ("text",)
    """Columns that keep leading and trailing blanks; all others are stripped."""
    optional: tuple[str, ...] = ()
    """Columns that a file may lack: all of their cells are then empty."""


class HospitalLayout(NamedTuple):
    """A published set of tables, and the SQL files that turn them into `stays` and `notes`."""

    name: str
    stays: tuple[SourceTable, ...]
    notes: SourceTable
    sql: tuple[str, str]
    """The names of the files that create `stays` and `notes`."""


class Scan(NamedTuple):
    """Where a table is read from: a name for errors, its columns, and what follows FROM in SQL."""

    name: str | Path
    columns: tuple[str, ...]
    sql: str


class Hospital:
    """A folder of tables, opened in DuckDB: runs SQL files, and reports errors in terms of the user's files."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, progress: Announce | None, scratch: Path
    ) -> None:
        self.connection, self.folder, self.progress = connection, folder, progress or (lambda _: None)
        self.scratch = scratch
        """A folder for the time of the work."""
        self.known: dict[str, Scan] = {}
        """Tables that are not files in the folder: of a DuckDB file or a database."""
        self._files: dict[str, Path] = {}
        self._scans: dict[str, Scan] = {}
        self._columns: dict[str, dict[str, str]] = {}
        self._tables: dict[str, SourceTable] = {}
        self.run("macros")

    def attach(self, table: SourceTable, file: Path | None = None) -> None:
        """Find and check a table, and make it a view of strings; `file` is where it is, if not where its layout says.

        Names of columns in the view are in lower case, with `_` for blanks.
        """
        if table.name in self.known:
            self.attach_scan(table, self.known[table.name])
            return
        file = file or find_table(self.folder, table)
        form = table_format(file)
        scan = Scan(file, form.columns(file), "")
        columns = _match_columns(table, scan)
        self._files[table.name] = file
        plain = True
        if form.typed:
            _refuse_numbers(file, columns)
        else:
            self.progress(f"checking {file.name}")
            plain = check_complete(file, form)
        sql = scan_of(file, self.scratch / f"{table.name}_lines", exactly=not plain)
        self.attach_scan(table, scan._replace(sql=sql))

    def attach_scan(self, table: SourceTable, scan: Scan) -> None:
        """The same for a table that DuckDB can already read, such as one of a database."""
        self._scans[table.name], self._tables[table.name] = scan, table
        self._columns[table.name] = _match_columns(table, scan)
        self.connection.execute(
            f"CREATE VIEW {table.name} AS SELECT * FROM ({self._cells(table.name)}) WHERE {table.wanted}"
        )
        if table.key is not None:
            self._refuse_twice(table.name, table.key)

    def run(self, file: str, options: Mapping[str, object] | None = None) -> None:
        """Run the statements of `sql/FILE.sql`, each with the options that it names as parameters."""
        text = (resources.files("palpate.data") / "sql" / f"{file}.sql").read_text(encoding="utf-8")
        with self._errors():
            for statement in _duckdb().extract_statements(text):
                named = {name: (options or {})[name] for name in statement.named_parameters}
                self.connection.execute(statement, named or None)

    def frame(self, query: str) -> pl.DataFrame:
        """The result of a query, as one frame."""
        return pl.concat(self.frames(query), rechunk=False)

    def frames(self, query: str, *, rows: int = 2000) -> Iterator[pl.DataFrame]:
        """The result of a query, some rows at a time; the first frame has no rows, so that there is always one.

        Rows pass through Python: conversion through Arrow leaks DuckDB's types, with warnings when Python exits.
        """
        with self._errors():
            answer = self.connection.execute(query)
            schema = {column[0]: TYPES[str(column[1])] for column in answer.description or ()}
            yield pl.DataFrame(schema=schema)
            while batch := answer.fetchmany(rows):
                yield pl.DataFrame(batch, schema=schema, orient="row")

    def file(self, table: str) -> Path:
        """The file that a table was read from."""
        return self._files[table]

    def source(self, table: str) -> str | Path:
        """What errors call the place that a table was read from."""
        return self._scans[table].name

    def refuse_cells(self, table: str, conditions: Mapping[str, str], what: str, hint: str) -> None:
        """Raise for the first row with a cell that meets the SQL condition for its column."""
        bad = " OR ".join(f"({condition})" for condition in conditions.values())
        listed = ", ".join(conditions)
        with self._errors():
            found = self.connection.execute(
                f"SELECT file_row, {listed} FROM ({self._cells(table, numbered=True)}) WHERE {bad} "
                "ORDER BY file_row LIMIT 1"
            ).fetchone()
            if found is None:
                return
            marks = self.connection.execute(
                f"SELECT {', '.join(f'coalesce({condition}, false)' for condition in conditions.values())} "
                f"FROM (SELECT {', '.join(f'${k + 1}::VARCHAR AS {name}' for k, name in enumerate(conditions))})",
                list(found[1:]),
            ).fetchone()
        column, cell = next(
            (name, cell) for name, cell, mark in zip(conditions, found[1:], marks or (), strict=True) if mark
        )
        said = "the cell is empty" if cell is None else f"the cell is {quote(cell)}, {what}"
        place = self._columns[table][column]
        raise CohortError(said, file=self._scans[table].name, row=found[0], column=place, hint=hint)

    def refuse_rows(self, table: str, condition: str, column: str, problem: str, hint: str) -> None:
        """Raise for the first row that meets an SQL condition, which may compare it with others by a window."""
        with self._errors():
            found = self.connection.execute(
                f"SELECT file_row FROM (SELECT file_row, {condition} AS bad "
                f"FROM ({self._cells(table, numbered=True)})) WHERE bad ORDER BY file_row LIMIT 1"
            ).fetchone()
        if found is not None:
            place = self._columns[table][column]
            raise CohortError(problem, file=self._scans[table].name, row=found[0], column=place, hint=hint)

    # --- errors that name the file, the row and the column ----------------------------------------------------------

    def _cells(self, table: str, *, numbered: bool = False) -> str:
        """A query for the needed columns as strings, NULL as none; `numbered` adds the number of the row, from 1."""
        verbatim = self._tables[table].verbatim
        cells = []
        for name, column in self._columns[table].items():
            form = "nullif({}, '')" if name in verbatim else "nullif(nullif(trim({}), 'NULL'), '')"
            cells.append(form.format(f'"{column}"::VARCHAR') + f" AS {name}")
        missing = [name for name in self._tables[table].optional if name not in self._columns[table]]
        cells += [f"NULL::VARCHAR AS {name}" for name in missing]
        number = ["row_number() OVER () AS file_row"] if numbered else []
        return f"SELECT {', '.join([*number, *cells])} FROM {self._scans[table].sql}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn DuckDB's errors into palpate's."""
        try:
            yield
        except _duckdb().Error as error:
            parts = str(error).split("palpate|", 1)
            if len(parts) == 2:
                problem, table, column = (part.strip() for part in parts[1].splitlines()[0].split("|")[:3])
                raise self._bad_cell(problem, table, column) from None
            raise self._bad_file(error) from None

    def _bad_cell(self, problem: str, table: str, column: str) -> CohortError:
        """The error for the first cell with a problem."""
        condition, what, hint = PROBLEMS[problem]
        bad = condition.format(cell=column)
        found = self.connection.execute(
            f"SELECT file_row, {column} FROM ({self._cells(table, numbered=True)}) "
            f"WHERE {bad} AND {self._tables[table].wanted} ORDER BY file_row LIMIT 1"
        ).fetchone()
        row, cell = found if found is not None else (None, None)
        if problem in ("date", "time") and WORD_BEHIND.search(cell or ""):
            _, what, hint = PROBLEMS["zone"]
        said = "the cell is empty" if problem == "empty" else f"the cell is {quote(cell)}, {what}"
        return CohortError(said, file=self._scans[table].name, row=row, column=self._columns[table][column], hint=hint)

    def _bad_file(self, error: duckdb.Error) -> CohortError:
        """Which file DuckDB could not read: each is read again by the exact reader, which can say."""
        if isinstance(error, _duckdb().OutOfMemoryException):
            hint = "free disk space or memory, or set TMPDIR to a larger disk"
            return CohortError("not enough memory and disk space to read the tables", hint=hint)
        for name, file in self._files.items():
            form = table_format(file)
            first = next(iter(self._columns[name].values()))
            try:
                form.frame(file, (first,), {})
            except CohortError as found:
                return found
        # Not the message: it may quote a line of a note.
        kind = type(error).__name__.removesuffix("Exception")
        line = re.search(r"CSV Error on Line: (\d+)", str(error))
        told = f"DuckDB: {kind}" + (f", line {int(line[1]):,}" if line else "")
        return CohortError(f"the tables can't be read ({told})", file=self._unread(), hint="export them again")

    def _unread(self) -> str | Path:
        """The table that DuckDB can't read, or the folder if it is none of them alone."""
        for name, scan in self._scans.items():
            try:
                self.connection.execute(f"SELECT max(length(columns(*))) FROM ({self._cells(name)})").fetchall()
            except _duckdb().Error:
                return scan.name
        return self.folder

    def _refuse_twice(self, table: str, key: str) -> None:
        """Refuse a key that occurs in two rows, which would count a stay or a patient twice."""
        with self._errors():
            found = self.connection.execute(
                f"SELECT file_row, {key}, min(file_row) OVER (PARTITION BY {key}) AS first_row "
                f"FROM ({self._cells(table, numbered=True)}) WHERE {key} IS NOT NULL "
                f"QUALIFY file_row > first_row ORDER BY file_row LIMIT 1"
            ).fetchone()
        if found is not None:
            column = self._columns[table][key]
            problem = f"{column} {quote(found[1])} is also in row {found[2]}"
            raise CohortError(
                problem, file=self._scans[table].name, row=found[0], column=column, hint="keep one row for each"
            )


@contextmanager
def open_hospital(folder: Path, *, progress: Announce | None = None) -> Iterator[Hospital]:
    """Open a folder in an in-memory DuckDB with a memory limit; data beyond it spills to a temporary folder."""
    if not folder.is_dir():
        raise CohortError("folder not found", file=folder, hint="give the folder with the tables")
    with in_memory() as (connection, scratch):
        yield Hospital(connection, folder, progress, scratch)


@contextmanager
def in_memory() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """A DuckDB with a memory limit, and a temporary folder for what does not fit."""
    with tempfile.TemporaryDirectory(prefix="palpate-") as scratch:
        connection = _duckdb().connect(":memory:")
        try:
            connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            connection.execute(f"SET temp_directory = {literal(scratch)}")
            # Each thread holds a row group of notes, and more threads hardly speed up decompression.
            connection.execute("SET threads = 1")
            connection.execute("SET TimeZone = 'UTC'")  # a column with a zone is told the same on every machine
            connection.execute("SET enable_progress_bar = false")
            yield connection, Path(scratch)
        finally:
            connection.close()


def _duckdb() -> Any:
    return optional("duckdb", extra="cohorts", needed_for="reading a hospital's tables (DuckDB)")


def find_table(folder: Path, table: SourceTable) -> Path:
    """The file of a table, whose name may be in any case; in the layout's own folder, or else beside it."""
    for place in _places(folder, table):
        found = _files(place, table)
        if len(found) > 1:
            raise two_files(table, found, place)
        if found:
            return found[0]
    looked = " and ".join(str(place) for place in _places(folder, table)) or str(folder / table.folder)
    kinds = ", ".join(f"{table.name.upper()}{suffix}" for suffix in SUFFIXES)
    raise CohortError(
        f"the table {table.name.upper()} is missing", file=folder, hint=f"palpate looked for {kinds} in {looked}"
    )


def two_files(table: SourceTable, found: Sequence[Path], folder: Path) -> CohortError:
    """The error for a table that is in several files: nobody knows which is the newer one."""
    listed = " and ".join(file.name for file in found)
    problem = f"there are {'two' if len(found) == 2 else len(found)} files for the table {table.name.upper()}: {listed}"
    return CohortError(problem, file=folder, hint="remove one of them, or move it elsewhere")


def has_table(folder: Path, table: SourceTable) -> bool:
    """Whether the folder has the table, in any format."""
    return any(_files(place, table) for place in _places(folder, table))


def _files(place: Path, table: SourceTable) -> list[Path]:
    names = {table.name + suffix for suffix in SUFFIXES}
    return [file for file in sorted(place.iterdir()) if file.name.lower() in names and file.is_file()]


def table_columns(file: Path) -> tuple[str, ...]:
    """The columns of a table's file, as they are spelled."""
    return table_format(file).columns(file)


def sql_name(column: str) -> str:
    """A column's name in SQL."""
    return column.strip().lower().replace(" ", "_")


def _places(folder: Path, table: SourceTable) -> list[Path]:
    """The folder that the layout names, then the source folder itself."""
    own = [place for place in sorted(folder.iterdir()) if place.is_dir() and place.name.lower() == table.folder]
    return [*own, folder]


def _match_columns(table: SourceTable, scan: Scan) -> dict[str, str]:
    """The file's own spelling of each needed column, and of those optional ones that it has."""
    spelled: dict[str, str] = {}
    for column in scan.columns:
        first = spelled.setdefault(sql_name(column), column)
        if first is not column and column.strip():
            problem = f"the header has this column twice, the first time as {quote(first)}"
            raise CohortError(problem, file=scan.name, column=column, hint="rename one of them")
    for name in table.columns:
        if name not in spelled:
            shown = name.upper() if scan.columns and scan.columns[0].isupper() else name
            raise missing_column(shown, scan.columns, file=scan.name)
    return {name: spelled[name] for name in (*table.columns, *table.optional) if name in spelled}


def _refuse_numbers(file: Path, columns: Mapping[str, str]) -> None:
    """Refuse codes that are numbers, for they have lost their leading zeros: 038.9 and 389 are different diseases."""
    column = columns.get("icd9_code")
    if column is not None and pl.read_parquet_schema(file)[column].is_numeric():
        hint = "export the codes as strings"
        raise CohortError("the codes are numbers, so leading zeros are lost", file=file, column=column, hint=hint)
