"""Tables of a live database (PostgreSQL, SQL Server), copied into Parquet files while palpate works.

PostgreSQL is read by psycopg in one transaction that sees one snapshot (repeatable read, read only), so that what
others write meanwhile can't tear the cohort. SQL Server is read by ConnectorX, each part of a table by its own query;
this was written after the documentation, and its queries were checked, but no SQL Server was at hand to run them.

An address such as postgresql://user:password@host/database holds a password: it is in no message, and no driver's
message is shown, since a driver may quote the address. The password is better given by PALPATE_DB_PASSWORD in the
environment, which neither the shell's history nor the list of processes shows.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import polars as pl

from palpate.cases.columns import missing_column
from palpate.data.hospitals import Hospital, Scan, SourceTable
from palpate.errors import CohortError
from palpate.registry import optional

PASSWORD = "PALPATE_DB_PASSWORD"
SCHEMES = {"postgresql": "public", "postgres": "public", "mssql": "dbo"}
"""What addresses begin with, and the schema that is looked into unless another one is named."""
PORTS = {"postgresql": 5432, "postgres": 5432, "mssql": 1433}
ROWS = 200_000
_UNREACHABLE = "the server can't be reached"
_PATIENCE = 10.0
_CONNECTION = re.compile(
    r"://|^(?:jdbc:|odbc:)*(?:postgres|mssql|sqlserver|mysql|oracle)[\w+]*:|\b(?:password|pwd)\s*=", re.IGNORECASE
)
"""What tells an address, or a string with which other programs connect, from the name of a file."""
_SCHEME = re.compile(r"(?:jdbc:|odbc:)*[a-z][a-z0-9+.-]*(?=://)", re.IGNORECASE)
_DATES = ("date", "datetime", "datetime2", "smalldatetime", "datetimeoffset")
_EXACT = ("numeric", "decimal")
_PROBLEMS = (
    (
        "bb8",  # ConnectorX's pool tries again for half a minute, and says no more than that it gave up
        "the server did not let the user in: it refused the user, the password or the database, or is no SQL Server",
    ),
    (r"password|authentication|login failed|role .* does not exist", "the database refused the user or the password"),
    (r"database .* does not exist|cannot open database", "the server has no database of this name"),
    (r"refused|could not connect|connection|timed? ?out|resolve|lookup|unreachable", _UNREACHABLE),
)


def is_address(source: str) -> bool:
    """Whether a source is the address of a database, of whatever kind, which may hold a password."""
    return _CONNECTION.search(source) is not None


def scheme(address: str) -> str:
    """What an address begins with; nothing of a string of another kind, which may be a password."""
    found = _SCHEME.match(address)
    return "" if found is None else found[0].lower()


def check_address(address: str) -> None:
    """Refuse a kind of database that is not read, and a server that does not answer, before a driver tries for long."""
    kind = scheme(address)
    if kind not in SCHEMES:
        known = "postgresql://user@host:port/database or mssql://user@host:port/database"
        raise CohortError("addresses of this kind of database are not read", hint=f"give {known}, or export the tables")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or PORTS[kind]
    except ValueError:
        raise CohortError("the address can't be read", hint=_hint(kind)) from None
    if host is None or "," in host:  # a local socket, or several servers, which only the driver understands
        return
    try:
        socket.create_connection((host, port), timeout=_PATIENCE).close()
    except (OSError, UnicodeError):
        raise CohortError(_UNREACHABLE, hint=_hint(kind)) from None


class DatabaseTable(NamedTuple):
    """A table: schema and name as they are spelled, and its columns with their types."""

    schema: str
    name: str
    columns: dict[str, str]

    def __str__(self) -> str:
        return f"table {self.schema}.{self.name}"


class Database:
    """The tables of a schema; each is copied when it is asked for."""

    def __init__(self, hospital: Hospital, address: str, schema: str | None) -> None:
        check_address(address)
        self._hospital = hospital
        self._reader: Reader = ServerReader(address) if scheme(address) == "mssql" else SnapshotReader(address)
        try:
            self._there = _columns(self._reader, schema or SCHEMES[scheme(address)])
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> frozenset[str]:
        """The tables by name, in lower case."""
        return frozenset(self._there)

    def copy(self, table: SourceTable) -> Scan:
        """A table with the columns that are needed, as DuckDB can read it."""
        place = _only(self._there[table.name])
        _refuse_twins("columns", list(place.columns), file=str(place))
        wanted = [column for column in place.columns if column.lower() in (*table.columns, *table.optional)]
        for needed in table.columns:
            if needed not in [column.lower() for column in wanted]:
                raise missing_column(needed, list(place.columns), file=str(place))
        self._hospital.progress(f"copying {place.name}")
        folder = self._hospital.scratch / table.name
        folder.mkdir()
        key = next((column for column in wanted if column.lower() == table.key), None)
        for k, frame in enumerate(self._reader.parts(place, wanted, key)):
            frame.write_parquet(folder / f"{k:012d}.parquet")
        path = "'" + str(folder).replace("'", "''") + "/*.parquet'"
        return Scan(str(place), tuple(wanted), f"read_parquet({path})")

    def close(self) -> None:
        """End the transaction."""
        self._reader.close()


class Reader(Protocol):
    """Asks one kind of database."""

    def columns(self, schema: str) -> pl.DataFrame:
        """The columns of all tables of a schema in any case: `place`, `named`, `col`, `kind`."""

    def parts(self, place: DatabaseTable, columns: Sequence[str], key: str | None) -> Iterator[pl.DataFrame]:
        """A table, some hundred thousand rows at a time; at least one frame."""

    def close(self) -> None:
        """Let go of the server."""


class SnapshotReader:
    """PostgreSQL, all of whose tables are read as they were at the first query."""

    def __init__(self, address: str) -> None:
        psycopg: Any = optional("psycopg", extra="databases", needed_for="reading PostgreSQL (psycopg)")
        plain, password = _without_password(address)
        with _refusing("postgresql"):
            self._connection = psycopg.connect(
                plain, password=password, connect_timeout=int(_PATIENCE), client_encoding="utf8"
            )
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True

    def columns(self, schema: str) -> pl.DataFrame:
        """From PostgreSQL's own catalogue: the standard one has neither materialised views nor what may not be read."""
        query = (
            "SELECT n.nspname, c.relname, a.attname, '' FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid "
            "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped "
            "AND lower(n.nspname) = lower(%s) ORDER BY n.nspname, c.relname, a.attnum"
        )
        with _refusing("postgresql"):
            rows = self._connection.execute(query, [schema]).fetchall()
        return pl.DataFrame(rows, schema=dict.fromkeys(("place", "named", "col", "kind"), pl.String()), orient="row")

    def parts(self, place: DatabaseTable, columns: Sequence[str], key: str | None) -> Iterator[pl.DataFrame]:
        """A table by a cursor of the server; cells as text, which says the same of every type."""
        del key  # one query has one order
        cells = ", ".join(f"{_quoted(column)}::text" for column in columns)
        schema = dict.fromkeys(columns, pl.String())
        with _refusing("postgresql", str(place)), self._connection.cursor(name="palpate") as cursor:
            cursor.execute(f"SELECT {cells} FROM {_quoted(place.schema)}.{_quoted(place.name)}")
            rows = cursor.fetchmany(ROWS)
            yield pl.DataFrame(rows, schema=schema, orient="row")
            while len(rows) == ROWS:
                rows = cursor.fetchmany(ROWS)
                yield pl.DataFrame(rows, schema=schema, orient="row")

    def close(self) -> None:
        """End the transaction, in which nothing was written."""
        self._connection.close()


class ServerReader:
    """SQL Server, each part of whose tables is a query of its own."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, query: str, table: str | None = None) -> pl.DataFrame:
        """The answer to a query, which is about a table."""
        # ConnectorX's pool of connections writes a line of its own for each attempt, unless it is told not to.
        os.environ.setdefault("RUST_LOG", "off")
        connectorx: Any = optional("connectorx", extra="databases", needed_for="reading SQL Server (ConnectorX)")
        with _refusing(scheme(self._address), table):
            frame: pl.DataFrame = connectorx.read_sql(_with_password(self._address), query, return_type="polars")
            return frame

    def columns(self, schema: str) -> pl.DataFrame:
        """Where a database's collation minds case, its catalogue is known by capitals only."""
        names = {"place": "TABLE_SCHEMA", "named": "TABLE_NAME", "col": "COLUMN_NAME", "kind": "DATA_TYPE"}
        cells = ", ".join(f"CAST({name} AS NVARCHAR(200)) AS {alias}" for alias, name in names.items())
        literal = "N'" + schema.replace("'", "''") + "'"
        return self.ask(
            f"SELECT {cells} FROM INFORMATION_SCHEMA.COLUMNS WHERE LOWER(TABLE_SCHEMA) = LOWER({literal}) "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
        )

    def parts(self, place: DatabaseTable, columns: Sequence[str], key: str | None) -> Iterator[pl.DataFrame]:
        """A table in the order of its key; without one, rows have no order in which they could be fetched in parts."""
        cells, done = ", ".join(_server_cell(column, place.columns[column]) for column in columns), 0
        query = f"SELECT {cells} FROM {_bracketed(place.schema)}.{_bracketed(place.name)} AS t"
        while True:
            part = f" ORDER BY t.{_bracketed(key)} OFFSET {done} ROWS FETCH NEXT {ROWS} ROWS ONLY" if key else ""
            frame = self.ask(query + part, str(place))
            yield frame
            done += frame.height
            if key is None or frame.height < ROWS:
                return

    def close(self) -> None:
        """Nothing is held open."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bracketed(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


def _server_cell(column: str, kind: str) -> str:
    """A cell as ConnectorX can hold it: long numbers as text, and dates too, since its moments end in 2262."""
    name = _bracketed(column)
    cell = f"t.{name}"
    if kind.lower() in _DATES:
        cell = f"CONVERT(NVARCHAR(60), {cell}, 126)"  # 126: ISO 8601
    elif kind.lower() in _EXACT:
        cell = f"CAST({cell} AS NVARCHAR(60))"
    return f"{cell} AS {name}"


def _columns(reader: Reader, schema: str) -> dict[str, list[DatabaseTable]]:
    """The tables of a schema by name in lower case; more than one where names differ in case only."""
    found = reader.columns(schema)
    spelled = found["place"].unique(maintain_order=True).to_list()
    if schema not in spelled:
        _refuse_twins("schemas", spelled, hint="name one of them with `--set database_schema=NAME`, as it is spelled")
    there: dict[str, dict[str, DatabaseTable]] = {}
    for place, table, column, kind in found.iter_rows():
        if schema in spelled and place != schema:
            continue
        own = there.setdefault(table.lower(), {}).setdefault(table, DatabaseTable(place, table, {}))
        own.columns[column] = kind
    if not there:
        hint = "name it with `--set database_schema=NAME`"
        raise CohortError(f"the database has no schema '{schema}' with tables that the user may see", hint=hint)
    return {name: list(places.values()) for name, places in there.items()}


def _only(places: Sequence[DatabaseTable]) -> DatabaseTable:
    _refuse_twins("tables", [place.name for place in places])
    return places[0]


def _refuse_twins(
    what: str, names: Sequence[str], *, file: str | None = None, hint: str = "rename one of them"
) -> None:
    """Refuse names that differ in case only, of which nobody can tell which is meant."""
    first: dict[str, str] = {}
    for name in sorted(names):
        other = first.setdefault(name.lower(), name)
        if other != name:
            raise CohortError(f"the names of the {what} {other} and {name} differ in case only", file=file, hint=hint)


@contextmanager
def _refusing(kind: str, table: str | None = None) -> Iterator[None]:
    """Turn whatever a driver raises into palpate's words: ConnectorX raises what its Rust code panics with."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | CohortError):
            raise
        if "permission" in str(error).lower() and table is not None:
            raise CohortError("the user may not read the table", file=table, hint="grant SELECT on it") from None
        raise _refusal(str(error), kind) from None


def _without_password(address: str) -> tuple[str, str | None]:
    """The address without its password, as libpq reads it, and the password: its own, or that of the environment."""
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    netloc = login.partition(":")[0] + at + host
    asked = [part for part in parts.query.split("&") if part and not part.lower().startswith("password=")]
    given = (part.partition("=") for part in parts.query.split("&"))
    named = next((unquote(value) for key, _, value in given if key == "password"), None)  # libpq: `+` is no blank
    own = named if parts.password is None else unquote(parts.password)
    query = f"?{'&'.join(asked)}" if asked else ""
    return f"{parts.scheme}://{netloc}{parts.path}{query}", own or os.environ.get(PASSWORD) or None


def _with_password(address: str) -> str:
    """The address with the password of the environment, if it has none itself."""
    parts = urlsplit(address)
    password = os.environ.get(PASSWORD)
    if parts.password is not None or not password or parts.username is None:
        return address
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username}:{quote(password, safe='')}@{host}"))


def _refusal(message: str, kind: str) -> CohortError:
    """What went wrong, in palpate's words: a driver's may quote the address."""
    for sign, problem in _PROBLEMS:
        if re.search(sign, message, re.IGNORECASE):
            return CohortError(problem, hint=_hint(kind))
    return CohortError("the database did not answer the query", hint=_hint(kind))


def _hint(kind: str) -> str:
    return f"check the address {kind}://user@host:port/database, and the password in {PASSWORD}"
