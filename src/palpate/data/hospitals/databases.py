"""Tables of a live database (PostgreSQL, SQL Server), copied through ConnectorX into Parquet files while palpate works.

An address such as postgresql://user:password@host/database holds a password: it is in no message, and no driver's
message is shown, since a driver may quote the address. The password is better given by PALPATE_DB_PASSWORD in the
environment, which neither the shell's history nor the list of processes shows.
"""

from __future__ import annotations

import os
import re
import socket
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

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
        self._hospital, self._address = hospital, address
        self._there = _columns(address, schema or SCHEMES[scheme(address)])

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
        return _copy(self._hospital, self._address, table, (schema, name), wanted)


def _columns(address: str, schema: str) -> dict[str, tuple[str, str, list[str]]]:
    """The tables of a schema by name in lower case: schema and name as they are spelled, and their columns."""
    literal = "'" + schema.replace("'", "''") + "'"
    found = _ask(
        address,
        "SELECT CAST(table_schema AS VARCHAR(200)) AS place, CAST(table_name AS VARCHAR(200)) AS named, "
        "CAST(column_name AS VARCHAR(200)) AS col FROM information_schema.columns "
        f"WHERE lower(table_schema) = lower({literal}) ORDER BY table_name, ordinal_position",
    )
    there: dict[str, tuple[str, str, list[str]]] = {}
    for place, table, column in found.iter_rows():
        there.setdefault(table.lower(), (place, table, []))[2].append(column)
    if not there:
        hint = "name it with `--set database_schema=NAME`"
        raise CohortError(f"the database has no schema '{schema}' with tables that the user may see", hint=hint)
    return there


def _copy(hospital: Hospital, address: str, table: SourceTable, name: tuple[str, str], wanted: list[str]) -> Scan:
    """One table as Parquet files of some hundred thousand rows each, ordered by its key."""
    folder = hospital.scratch / table.name
    folder.mkdir()
    listed = ", ".join(f'"{column}"' for column in wanted)
    source = ".".join(f'"{part}"' for part in name)
    key = next((f'"{column}"' for column in wanted if column.lower() == table.key), None)
    done = 0
    while True:
        # Without a key, rows have no order in which they could be fetched in parts.
        part = f"ORDER BY {key} OFFSET {done} ROWS FETCH NEXT {ROWS} ROWS ONLY" if key else ""
        frame = _ask(address, f"SELECT {listed} FROM {source} {part}")
        frame.write_parquet(folder / f"{done:012d}.parquet")
        done += frame.height
        if key is None or frame.height < ROWS:
            break
    path = "'" + str(folder).replace("'", "''") + "/*.parquet'"
    return Scan(f"table {'.'.join(name)}", tuple(wanted), f"read_parquet({path})")


def _ask(address: str, query: str) -> pl.DataFrame:
    # ConnectorX's pool of connections writes a line of its own for each attempt, unless it is told not to.
    os.environ.setdefault("RUST_LOG", "off")
    connectorx: Any = optional("connectorx", extra="databases", needed_for="reading a database (ConnectorX)")
    try:
        frame: pl.DataFrame = connectorx.read_sql(_with_password(address), query, return_type="polars")
    # ConnectorX raises RuntimeError, and whatever its Rust code panics with.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | CohortError):
            raise
        raise _refusal(str(error), scheme(address)) from None
    return frame


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
