"""Hospital tables as folders hold them (CSV, gzipped CSV or Parquet), opened in DuckDB as views of strings.

A layout (`mimic_iii`, `mimic_iv`) says which tables and columns there must be; here they are found, checked and
put under DuckDB's eyes with limits on memory. The SQL files in `sql/` do the rest. DuckDB's own messages never
reach the user: they quote the line that they stumbled over, and that line may be a note.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import duckdb
import polars as pl

from palpate.cases.columns import missing_column, quote
from palpate.data.hospitals.truncation import check_whole
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError

SUFFIXES = (".parquet", ".csv", ".csv.gz")
MEMORY_LIMIT = "2800MB"
LONGEST_ROW = 16 * 2**20
TYPES: dict[str, pl.DataType] = {
    "VARCHAR": pl.String(),
    "VARCHAR[]": pl.List(pl.String()),
    "INTEGER": pl.Int64(),
    "BIGINT": pl.Int64(),
    "BOOLEAN": pl.Boolean(),
    "TIMESTAMP": pl.Datetime("us"),
}
PROBLEMS = {
    "time": ("NOT is_time({cell})", "which is not a time", "write it like 2180-07-23 14:05:00"),
    "id": ("NOT is_id({cell})", "which is no whole number", "ids are whole numbers in this layout"),
    "flag": ("NOT is_flag({cell})", "not 0 or 1", "write 0 or 1"),
    "empty": ("{cell} IS NULL", "", "fill the cell or drop the row"),
}

Say = Callable[[str], None]


class Table(NamedTuple):
    """A table of a layout: where it is, the columns that are needed, and which rows."""

    name: str
    columns: tuple[str, ...]
    folder: str = ""
    key: str | None = None
    """A column that no two rows may share."""
    wanted: str = "true"
    """A condition in SQL on the columns; other rows are left in the file."""
    verbatim: tuple[str, ...] = ("text",)
    """Columns whose blanks count; all others are stripped."""


class Layout(NamedTuple):
    """A published arrangement of tables, and the SQL files that bring it to `stays` and `notes`."""

    name: str
    stays: tuple[Table, ...]
    notes: Table
    sql: tuple[str, str]
    """The files that make `stays` and `notes`."""


class Hospital:
    """An open source: runs SQL files, and says what is wrong in terms of the user's files."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path, progress: Say) -> None:
        self.connection, self.folder, self.progress = connection, folder, progress
        self._files: dict[str, Path] = {}
        self._columns: dict[str, dict[str, str]] = {}
        self._tables: dict[str, Table] = {}
        self.run("macros")

    def attach(self, table: Table) -> None:
        """Find a table and make it a view of strings with lower-case names; checks the file on the way."""
        file = find_table(self.folder, table)
        form = format_of(file)
        columns = _match_columns(table, form.columns(file), file)
        self._files[table.name], self._columns[table.name], self._tables[table.name] = file, columns, table
        if form.typed:
            _refuse_numbers(file, columns)
        else:
            self.progress(f"checking {file.name}")
            check_whole(file)
        self.connection.execute(
            f"CREATE VIEW {table.name} AS SELECT * FROM ({self._cells(table.name)}) WHERE {table.wanted}"
        )
        if table.key is not None:
            self._refuse_twice(table.name, table.key)

    def run(self, file: str, options: Mapping[str, object] | None = None) -> None:
        """Run the statements of `sql/FILE.sql`; each gets those of the options that it names."""
        text = (resources.files("palpate.data") / "sql" / f"{file}.sql").read_text(encoding="utf-8")
        with self._errors():
            for statement in duckdb.extract_statements(text):
                named = {name: (options or {})[name] for name in statement.named_parameters}
                self.connection.execute(statement, named or None)

    def frame(self, query: str) -> pl.DataFrame:
        """The answer to a query, as a frame."""
        return pl.concat(self.frames(query), rechunk=False)

    def frames(self, query: str, *, rows: int = 2000) -> Iterator[pl.DataFrame]:
        """The answer to a query, some rows at a time; the first frame has no rows, so that there is always one.

        By Python's hand: polars' way through Arrow leaks DuckDB's types, which say so when Python ends.
        """
        with self._errors():
            answer = self.connection.execute(query)
            schema = {column[0]: TYPES[str(column[1])] for column in answer.description or ()}
            yield pl.DataFrame(schema=schema)
            while batch := answer.fetchmany(rows):
                yield pl.DataFrame(batch, schema=schema, orient="row")

    def file(self, table: str) -> Path:
        """The file that a table comes from."""
        return self._files[table]

    # --- what the files say and DuckDB can't tell ---------------------------------------------------------------

    def _cells(self, table: str, *, numbered: bool = False) -> str:
        """A query for the needed columns as strings; `numbered` adds the row in the file, counted from 1."""
        verbatim = self._tables[table].verbatim
        cells = []
        for name, column in self._columns[table].items():
            cell = f'"{column}"::VARCHAR'
            cells.append(f"nullif({cell if name in verbatim else f'trim({cell})'}, '') AS {name}")
        number = ["row_number() OVER () AS file_row"] if numbered else []
        return f"SELECT {', '.join([*number, *cells])} FROM {_scan(self._files[table])}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """DuckDB's errors as palpate's."""
        try:
            yield
        except duckdb.Error as error:
            parts = str(error).split("palpate|", 1)
            if len(parts) == 2:
                problem, table, column = (part.strip() for part in parts[1].splitlines()[0].split("|")[:3])
                raise self._bad_cell(problem, table, column) from None
            raise self._bad_file(error) from None

    def _bad_cell(self, problem: str, table: str, column: str) -> CohortError:
        """Where the first cell is that can't be read."""
        condition, what, hint = PROBLEMS[problem]
        bad = condition.format(cell=column)
        found = self.connection.execute(
            f"SELECT file_row, {column} FROM ({self._cells(table, numbered=True)}) "
            f"WHERE {bad} AND {self._tables[table].wanted} ORDER BY file_row LIMIT 1"
        ).fetchone()
        row, cell = found if found is not None else (None, None)
        said = "the cell is empty" if problem == "empty" else f"the cell is {quote(cell)}, {what}"
        return CohortError(said, file=self._files[table], row=row, column=self._columns[table][column], hint=hint)

    def _bad_file(self, error: duckdb.Error) -> CohortError:
        """Which file DuckDB could not read: each is read again, row by row, by the reader that can tell."""
        if isinstance(error, duckdb.OutOfMemoryException):
            hint = "free disk space or memory, or set TMPDIR to a larger disk"
            return CohortError("there is not enough memory and disk space to read the tables", hint=hint)
        for name, file in self._files.items():
            form = format_of(file)
            first = next(iter(self._columns[name].values()))
            try:
                form.frame(file, (first,), {})
            except CohortError as found:
                return found
        # Not the message: it may quote a line of a note.
        kind = type(error).__name__.removesuffix("Exception")
        return CohortError(f"the tables can't be read (DuckDB: {kind})", file=self.folder, hint="export them again")

    def _refuse_twice(self, table: str, key: str) -> None:
        """A key in two rows would count a stay or a patient twice."""
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
                problem, file=self._files[table], row=found[0], column=column, hint="keep one row for each"
            )


@contextmanager
def open_hospital(folder: Path, *, progress: Say | None = None) -> Iterator[Hospital]:
    """DuckDB in memory, with limits; what does not fit is spilled to a private folder that is removed after."""
    if not folder.is_dir():
        raise CohortError("there is no such folder", file=folder, hint="give the folder that holds the tables")
    with tempfile.TemporaryDirectory(prefix="palpate-") as scratch:
        connection = duckdb.connect(":memory:")
        try:
            connection.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
            connection.execute(f"SET temp_directory = {_literal(scratch)}")
            # Each thread holds a row group of notes; the work is unzipping, which more threads hardly speed up.
            connection.execute("SET threads = 1")
            connection.execute("SET enable_progress_bar = false")
            yield Hospital(connection, folder, progress or _silent)
        finally:
            connection.close()


def find_table(folder: Path, table: Table) -> Path:
    """The file of a table, whatever the case of its name; Parquet before CSV before gzipped CSV."""
    places = _places(folder, table)
    for suffix in SUFFIXES:
        for place in places:
            for file in sorted(place.iterdir()):
                if file.name.lower() == table.name + suffix and file.is_file():
                    return file
    looked = " and ".join(str(place) for place in places) or str(folder / table.folder)
    kinds = ", ".join(f"{table.name.upper()}{suffix}" for suffix in SUFFIXES)
    raise CohortError(
        f"the table {table.name.upper()} is missing", file=folder, hint=f"palpate looked for {kinds} in {looked}"
    )


def has_table(folder: Path, table: Table) -> bool:
    """Whether the folder has the table, in any format."""
    try:
        find_table(folder, table)
    except CohortError:
        return False
    return True


def _places(folder: Path, table: Table) -> list[Path]:
    """The layout's own folder first, then the source itself."""
    own = [place for place in sorted(folder.iterdir()) if place.is_dir() and place.name.lower() == table.folder]
    return [*own, folder]


def _match_columns(table: Table, columns: tuple[str, ...], file: Path) -> dict[str, str]:
    """The file's own spelling of each column that is needed."""
    spelled = {column.lower(): column for column in reversed(columns)}
    for name in table.columns:
        if name not in spelled:
            raise missing_column(name.upper() if columns[0].isupper() else name, columns, file=file)
    return {name: spelled[name] for name in table.columns}


def _refuse_numbers(file: Path, columns: Mapping[str, str]) -> None:
    """A code that became a number lost its leading zeros: 038.9 and 389 are different diseases."""
    column = columns.get("icd9_code")
    if column is not None and pl.read_parquet_schema(file)[column].is_numeric():
        hint = "export the codes as strings"
        raise CohortError("the codes are numbers, without leading zeros", file=file, column=column, hint=hint)


def _scan(file: Path) -> str:
    """A table function over the file: strings only, nothing guessed."""
    path = _literal("".join(f"[{c}]" if c in "*?[" else c for c in str(file)))
    if file.name.lower().endswith(".parquet"):
        return f"read_parquet({path}, hive_partitioning = false)"
    names = ", ".join(f"{_literal(column)}: 'VARCHAR'" for column in format_of(file).columns(file))
    # One thread a file: a line break inside a note looks like the end of a row to a reader that starts in the middle.
    return (
        f"read_csv({path}, columns = {{{names}}}, auto_detect = false, header = true, delim = ',', quote = '\"', "
        f"escape = '\"', parallel = false, strict_mode = true, hive_partitioning = false, "
        f"max_line_size = {LONGEST_ROW})"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _silent(_: str) -> None:
    """Say nothing."""
