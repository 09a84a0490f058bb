"""Tables of a live database (PostgreSQL, SQL Server), copied into Parquet files while palpate works.

PostgreSQL is read by psycopg in one transaction that sees one snapshot (repeatable read, read only), so that what
others write meanwhile can't tear the cohort. SQL Server is read by ConnectorX, each part of a table by its own query.

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
from typing import Any, Protocol
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
_PROBLEMS = (
    (r"password|authentication|login failed|role .* does not exist", "the database refused the user or the password"),
    (r"database .* does not exist|cannot open database", "the server has no database of this name"),
    (r"permission denied", "the user may not read the table"),
    (r"refused|could not connect|connection|timed? ?out|resolve|lookup|unreachable", _UNREACHABLE),
)


def is_address(source: str) -> bool:
    """Whether a source is the address of a database, of whatever kind."""
    return "://" in source


def scheme(address: str) -> str:
    """What an address begins with."""
    return address.partition("://")[0].lower()


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
        schema, name, columns = self._there[table.name]
        wanted = [column for column in columns if column.lower() in (*table.columns, *table.optional)]
        for needed in table.columns:
            if needed not in [column.lower() for column in wanted]:
                raise missing_column(needed, columns, file=f"table {schema}.{name}")
        self._hospital.progress(f"copying {name}")
        folder = self._hospital.scratch / table.name
        folder.mkdir()
        key = next((column for column in wanted if column.lower() == table.key), None)
        for k, frame in enumerate(self._reader.parts((schema, name), wanted, key)):
            frame.write_parquet(folder / f"{k:012d}.parquet")
        path = "'" + str(folder).replace("'", "''") + "/*.parquet'"
        return Scan(f"table {schema}.{name}", tuple(wanted), f"read_parquet({path})")

    def close(self) -> None:
        """End the transaction."""
        self._reader.close()


class Reader(Protocol):
    """Asks one kind of database."""

    def ask(self, query: str) -> pl.DataFrame:
        """The answer to a query that has few rows."""

    def parts(self, name: tuple[str, str], columns: Sequence[str], key: str | None) -> Iterator[pl.DataFrame]:
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

    def ask(self, query: str) -> pl.DataFrame:
        """The answer to a query that has few rows."""
        with _refusing("postgresql"):
            answer = self._connection.execute(query)
            names = [column.name for column in answer.description]
            return pl.DataFrame(answer.fetchall(), schema=dict.fromkeys(names, pl.String()), orient="row")

    def parts(self, name: tuple[str, str], columns: Sequence[str], key: str | None) -> Iterator[pl.DataFrame]:
        """A table by a cursor of the server; cells as text, which says the same of every type."""
        del key  # one query has one order
        cells = ", ".join(f"{_quoted(column)}::text" for column in columns)
        schema = dict.fromkeys(columns, pl.String())
        with _refusing("postgresql"), self._connection.cursor(name="palpate") as cursor:
            cursor.execute(f"SELECT {cells} FROM {_quoted(*name)}")
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

    def ask(self, query: str) -> pl.DataFrame:
        """The answer to a query."""
        # ConnectorX's pool of connections writes a line of its own for each attempt, unless it is told not to.
        os.environ.setdefault("RUST_LOG", "off")
        connectorx: Any = optional("connectorx", extra="databases", needed_for="reading SQL Server (ConnectorX)")
        with _refusing(scheme(self._address)):
            frame: pl.DataFrame = connectorx.read_sql(_with_password(self._address), query, return_type="polars")
            return frame

    def parts(self, name: tuple[str, str], columns: Sequence[str], key: str | None) -> Iterator[pl.DataFrame]:
        """A table in the order of its key; without one, rows have no order in which they could be fetched in parts."""
        cells, done = ", ".join(_quoted(column) for column in columns), 0
        while True:
            part = f"ORDER BY {_quoted(key)} OFFSET {done} ROWS FETCH NEXT {ROWS} ROWS ONLY" if key else ""
            frame = self.ask(f"SELECT {cells} FROM {_quoted(*name)} {part}")
            yield frame
            done += frame.height
            if key is None or frame.height < ROWS:
                return

    def close(self) -> None:
        """Nothing is held open."""


def _quoted(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _columns(reader: Reader, schema: str) -> dict[str, tuple[str, str, list[str]]]:
    """The tables of a schema by name in lower case: schema and name as they are spelled, and their columns."""
    literal = "'" + schema.replace("'", "''") + "'"
    found = reader.ask(
        "SELECT CAST(table_schema AS VARCHAR(200)) AS place, CAST(table_name AS VARCHAR(200)) AS named, "
        "CAST(column_name AS VARCHAR(200)) AS col FROM information_schema.columns "
        f"WHERE lower(table_schema) = lower({literal}) ORDER BY table_name, ordinal_position"
    )
    there: dict[str, tuple[str, str, list[str]]] = {}
    for place, table, column in found.iter_rows():
        there.setdefault(table.lower(), (place, table, []))[2].append(column)
    if not there:
        hint = "name it with `--set database_schema=NAME`"
        raise CohortError(f"the database has no schema '{schema}' with tables that the user may see", hint=hint)
    return there


@contextmanager
def _refusing(kind: str) -> Iterator[None]:
    """Turn whatever a driver raises into palpate's words: ConnectorX raises what its Rust code panics with."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | CohortError):
            raise
        raise _refusal(str(error), kind) from None


def _without_password(address: str) -> tuple[str, str | None]:
    """The address without its password, as libpq reads it, and the password: its own, or that of the environment."""
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    netloc = login.partition(":")[0] + at + host
    own = None if parts.password is None else unquote(parts.password)
    asked = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{netloc}{parts.path}{asked}", own or os.environ.get(PASSWORD) or None


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
