"""FHIR R4 as bulk export writes it: files of one resource per line, staged as tables.

File names say nothing: the type of a resource is in its line, one type may be in several files, and a file may hold
something else, such as the export's log. A resource that occurs twice counts once, as it was written last.
"""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from palpate.data.hospitals import Announce, Hospital
from palpate.delimited import decompressed
from palpate.errors import CohortError
from palpate.privacy import hides

SUFFIXES = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
_BATCH = 5_000
_KINDS = (bool, int, float, date)
"""What a cell can be that is no text."""
_ONE_PER_LINE = "write one resource per line, as a bulk export does; a Bundle or an indented .json file is not read"
_NAMES = "; names of such files end in .ndjson"
_BLANK = b" \t\r\n\xef\xbb\xbf"
_LONGEST_LINE = 2**28
_GZIP = b"\x1f\x8b"
"""How a gzip file begins, whatever its name."""

Json = Mapping[str, Any]


class Zones:
    """Whether the times that were read have an offset from UTC: all of them or none, since others can't be compared."""

    def __init__(self) -> None:
        self._zoned = False
        self._bare: Line | None = None

    def add(self, line: Line, *, zoned: bool) -> None:
        """Take note of a time of day, and refuse one without an offset beside others with one."""
        self._zoned = self._zoned or zoned
        if not zoned and self._bare is None:
            self._bare = line
        if self._zoned and self._bare is not None:
            hint = "write all times in one way, with an offset such as -05:00 or Z, or this one as a day alone"
            raise self._bare.error("has a time without an offset from UTC, and others have one", hint)


@hides("resource")
class Line(NamedTuple):
    """A resource, and where it is."""

    resource: Json
    file: Path
    number: int
    zones: Zones

    def error(self, problem: str, hint: str) -> CohortError:
        """An error at this line."""
        kind = self.resource.get("resourceType", "resource")
        return CohortError(f"the {kind} {problem}", file=self.file, row=self.number, hint=hint)


def find_files(folder: Path) -> list[Path]:
    """The files of an export, in the folder or below it; or the one file that was named."""
    if folder.is_file() and folder.name.lower().endswith(SUFFIXES):
        return [folder]
    if not folder.is_dir():
        problem = "this is not a .ndjson file" if folder.is_file() else "folder not found"
        raise CohortError(problem, file=folder, hint="give the folder with the .ndjson files")
    files = sorted(file for file in folder.rglob("*") if file.name.lower().endswith(SUFFIXES) and file.is_file())
    if not files:
        bundles = any(folder.rglob("*.json"))
        hint = _ONE_PER_LINE + _NAMES if bundles else "give the folder of a FHIR bulk export"
        raise CohortError("there is no .ndjson file", file=folder, hint=hint)
    return files


def read_resources(files: Iterable[Path], kinds: Iterable[str], progress: Announce) -> Iterator[Line]:
    """The resources of some types, as they come; lines that can't be of these types are not parsed."""
    wanted = frozenset(kinds)
    zones = Zones()
    signs = [f'"{kind}"'.encode() for kind in sorted(wanted)]
    for file in files:
        progress(f"reading {file.name}")
        for number, raw in enumerate(_lines(file), start=1):
            if number == 1 and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise CohortError("the file is UTF-16", file=file, hint="save it as UTF-8")
            if not any(sign in raw for sign in signs):
                if number == 1 or raw.strip(_BLANK)[-1:] not in (b"}", b""):
                    _parse(raw, file, number)  # a file of another type is at least JSON, and not cut off
                continue
            resource = _parse(raw, file, number)
            if isinstance(resource, list) or (isinstance(resource, dict) and resource.get("resourceType") == "Bundle"):
                what = "list of resources" if isinstance(resource, list) else "Bundle"
                raise CohortError(f"the line is a {what}", file=file, row=number, hint=_ONE_PER_LINE)
            if isinstance(resource, dict) and resource.get("resourceType") in wanted:
                yield Line(resource, file, number, zones)


def _parse(raw: bytes, file: Path, number: int) -> Any:
    text = raw.strip(_BLANK)
    try:
        return json.loads(text) if text else None
    except ValueError:
        opened = text in (b"{", b"[", b"{}", b"[{")
        hint = _ONE_PER_LINE if opened else "export the file again: it may be cut off"
        raise CohortError("the line is not JSON", file=file, row=number, hint=hint) from None
    except RecursionError:
        raise CohortError("the line is nested too deeply", file=file, row=number, hint="export it again") from None


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as raw, ExitStack() as stack:
            zipped = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            stream = stack.enter_context(decompressed(file)) if zipped else raw
            while line := stream.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    problem = f"a line has more than {_LONGEST_LINE:,} bytes"
                    raise CohortError(problem, file=file, hint=_ONE_PER_LINE)
                yield line
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise CohortError("the gzip file is cut off or damaged", file=file, hint="copy it again") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CohortError(f"the file can't be read ({reason})", file=file, hint="check the file") from None


class Staging:
    """Rows on their way into DuckDB, by table, in Parquet files of the hospital's temporary folder."""

    def __init__(self, hospital: Hospital, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._hospital, self._schemas = hospital, schemas
        self._rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in schemas}
        self.n_rows: Counter[str] = Counter()

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Append a row; a TypeError or UnicodeEncodeError says that a cell can't be in its column."""
        for cell, kind in zip(row, self._schemas[table].values(), strict=True):
            if isinstance(cell, str):
                cell.encode()
            if cell is not None and not isinstance(cell, str if kind == pl.String else _KINDS):
                raise TypeError
        self._rows[table].append(row)
        self.n_rows[table] += 1
        if len(self._rows[table]) >= _BATCH:
            self._flush(table)

    def _flush(self, table: str) -> None:
        folder = self._hospital.scratch / table
        folder.mkdir(exist_ok=True)
        frame = pl.DataFrame(self._rows[table], schema=dict(self._schemas[table]), orient="row")
        frame.write_parquet(folder / f"{self.n_rows[table]:012d}.parquet", compression="lz4")
        self._rows[table] = []

    def open(self) -> None:
        """Make a view of each table, with `line`: a number that grows with the place of the row."""
        for table in self._schemas:
            self._flush(table)
            path = "'" + str(self._hospital.scratch / table).replace("'", "''") + "/*.parquet'"
            self._hospital.connection.execute(
                f"CREATE VIEW staged_{table} AS SELECT *, filename || lpad(file_row_number::VARCHAR, 8, '0') AS line "
                f"FROM read_parquet({path}, filename = true, file_row_number = true)"
            )

    def merge(self, replaced: Mapping[str, str]) -> int:
        """Let what belongs to a patient's former record belong to the one that replaced it; how many there are."""
        execute = self._hospital.connection.execute
        known = {str(row[0]) for row in execute("SELECT id FROM staged_patients").fetchall()} if replaced else set()
        last = {former: _last(replaced, former) for former in replaced}
        merged = [(former, person) for former, person in last.items() if person in known and person != former]
        if not merged:
            return 0
        execute("CREATE TABLE merged (former VARCHAR, person VARCHAR)")
        self._hospital.connection.executemany("INSERT INTO merged VALUES (?, ?)", merged)
        for table, columns in self._schemas.items():
            execute(f"ALTER VIEW staged_{table} RENAME TO former_{table}")
            own, of = (".* REPLACE (coalesce(person, person_id) AS person_id)", "LEFT"), "person_id"
            if "person_id" not in columns:
                own, of = (".*", "ANTI"), "id"
            execute(
                f"CREATE VIEW staged_{table} AS SELECT former_{table}{own[0]} FROM former_{table} "
                f"{own[1]} JOIN merged ON merged.former = former_{table}.{of}"
            )
        return len(merged)


def _last(replaced: Mapping[str, str], record: str) -> str:
    """The record at the end of a chain of replacements; itself, if they go round in a circle."""
    seen = [record]
    while seen[-1] in replaced:
        seen.append(replaced[seen[-1]])
        if seen[-1] in seen[:-1]:
            return record
    return seen[-1]
