"""The OMOP Common Data Model, 5.3 and 5.4: its tables in files, in a DuckDB file, or in a database.

Only the tables and columns that are read are needed, and of the tables only those that the options ask for; what else
is missing counts as empty, and the cohort's facts say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from palpate.cases.columns import quote
from palpate.data.hospitals import (
    SUFFIXES,
    Announce,
    Hospital,
    Scan,
    SourceTable,
    find_table,
    has_table,
    in_memory,
    sql_name,
    table_columns,
    two_files,
)
from palpate.data.hospitals.databases import Database, is_address, scheme
from palpate.data.hospitals.options import NOTES_ALONE
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError

PERSON = SourceTable(
    "person",
    ("person_id",),
    key="person_id",
    optional=(
        *("year_of_birth", "month_of_birth", "day_of_birth", "birth_datetime", "gender_concept_id"),
        *("gender_source_value", "race_concept_id", "race_source_value", "ethnicity_concept_id"),
        "ethnicity_source_value",
    ),
)
VISIT = SourceTable(
    "visit_occurrence",
    ("visit_occurrence_id", "person_id", "visit_concept_id", "visit_start_date", "visit_end_date"),
    key="visit_occurrence_id",
    # Renamed from 5.3 to 5.4.
    optional=("visit_start_datetime", "visit_end_datetime", "discharge_to_concept_id", "discharged_to_concept_id"),
)
NOTE = SourceTable(
    "note",
    ("note_id", "person_id", "note_date", "note_text"),
    key="note_id",
    verbatim=("note_text",),
    optional=(
        *("note_datetime", "visit_occurrence_id", "note_class_concept_id", "note_type_concept_id", "note_title"),
        "note_source_value",
    ),
)
CONDITION = SourceTable(
    "condition_occurrence",
    ("person_id", "condition_concept_id", "condition_start_date"),
    optional=("condition_start_datetime",),
)
DEATH = SourceTable("death", ("person_id", "death_date"), optional=("death_datetime",))
PERIOD = SourceTable(
    "observation_period", ("person_id", "observation_period_start_date", "observation_period_end_date")
)
ANCESTOR = SourceTable("concept_ancestor", ("ancestor_concept_id", "descendant_concept_id"))
NOTE_NLP = SourceTable(
    "note_nlp",
    ("note_id", "note_nlp_concept_id", "lexical_variant", "offset"),
    optional=("term_exists",),
    verbatim=("lexical_variant",),
)
TABLES = (PERSON, VISIT, NOTE, CONDITION, DEATH, PERIOD, ANCESTOR, NOTE_NLP)
INPATIENT = (9201, 262, 8717, 32037)
"""Inpatient visit, emergency room and inpatient visit, inpatient hospital, intensive care."""

Source = str | Path


class OmopHospital(Hospital):
    """A hospital whose tables may be in files, in a DuckDB file or in a database; `present` says which there are."""

    present: frozenset[str] = frozenset()
    notes: Path | None = None
    """The file with the notes, where it is all that there is, or has another name than the table."""

    database: Database | None = None

    def supply(self, table: SourceTable, *, wanted: bool = True) -> bool:
        """Open a table, or an empty one in its place if it is not there or not wanted; whether it was opened."""
        if table.name in self.present and wanted:
            if self.database is not None:
                self.known[table.name] = self.database.copy(table)
            self.attach(table, self.notes if table is NOTE else None)
            return True
        cells = ", ".join(f"NULL::VARCHAR AS {name}" for name in (*table.columns, *table.optional))
        self.connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM (SELECT {cells}) WHERE false")
        return False


@contextmanager
def open_omop(
    source: Source, *, schema: str | None, dates: Literal["mdy", "dmy"], progress: Announce | None
) -> Iterator[OmopHospital]:
    """Open the tables of a folder, a DuckDB file or a database's address."""
    folder = source if isinstance(source, Path) and source.is_dir() else None
    if folder is None and isinstance(source, Path) and not source.is_file():
        hint = "give a folder with the tables, a DuckDB file, or an address such as postgresql://user@host/database"
        raise CohortError("folder or file not found", file=source, hint=hint)
    with in_memory() as (connection, scratch), ExitStack() as opened:
        hospital = OmopHospital(connection, folder or Path(), progress, scratch)
        if folder is not None:
            parts = _parts(folder)
            for table in (each for each in TABLES if each.name in parts and has_table(folder, each)):
                raise two_files(table, [Path(parts[table.name].name), find_table(folder, table)], folder)
            _open_scans(hospital, parts)
            hospital.present |= {table.name for table in TABLES if has_table(folder, table)}
            _find_notes(hospital, folder)
        elif is_address(str(source)):
            hospital.database = Database(hospital, str(source), schema)
            opened.callback(hospital.database.close)
            hospital.present = hospital.database.names & {table.name for table in TABLES}
        elif is_table(Path(source)):
            _open_scans(hospital, {})
            hospital.present, hospital.notes = frozenset([NOTE.name]), Path(source)
        else:
            _open_scans(hospital, _duckdb_tables(hospital, Path(source), schema))
        hospital.connection.execute(f"SET VARIABLE dates = '{dates}'")
        hospital.run("moments")
        yield hospital


def need_table(hospital: OmopHospital, table: SourceTable, source: Source, why: str) -> None:
    """Refuse a source without a table, and say what the table is needed for."""
    if table.name not in hospital.present:
        listed = ", ".join(sorted(hospital.present)) or "none of OMOP's"
        name, hint = table.name.upper(), f"palpate found {listed} ({_endings(source)})"
        if hospital.present == {NOTE.name}:
            hint += f"; {NOTES_ALONE}"
        elif isinstance(source, Path) and (deeper := _deeper(source, table)):
            hint = f"it is in {deeper}: give that folder"
        raise CohortError(f"the table {name} is missing; {why}", file=shown(source), hint=hint)


def _endings(source: Source) -> str:
    """Where tables were looked for."""
    return f"files that end in {', '.join(SUFFIXES)}" if isinstance(source, Path) and source.is_dir() else "tables"


def _deeper(folder: Path, table: SourceTable) -> Path | None:
    """A folder below that has the table."""
    below = sorted(place for place in folder.iterdir() if place.is_dir()) if folder.is_dir() else []
    return next((place for place in below if has_table(place, table)), None)


def shown(source: Source) -> Source:
    """What may be said of a source: of an address, neither user nor password."""
    text = str(source)
    return f"{scheme(text)} database".lstrip() if is_address(text) else source


def is_table(source: Source) -> bool:
    """Whether a source is a single file with a table, which is then NOTE."""
    return str(source).lower().endswith(SUFFIXES)


def _parts(folder: Path) -> dict[str, Scan]:
    """Tables that are folders of Parquet files, as Spark writes them: `note/part-0.parquet`, `note.parquet/...`."""
    wanted = {table.name for table in TABLES}
    scans = {}
    for place in sorted(folder.iterdir()):
        name = place.name.lower().removesuffix(".parquet")
        inside = sorted(place.iterdir()) if place.is_dir() and name in wanted else []
        files = [file for file in inside if file.name.lower().endswith(".parquet")]
        if files:
            listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
            scans[name] = Scan(place, format_of(files[0]).columns(files[0]), f"read_parquet([{listed}])")
    return scans


def _find_notes(hospital: OmopHospital, folder: Path) -> None:
    """Take a file with the columns of NOTE for that table, where no file has its name; of several, none."""
    if NOTE.name in hospital.present:
        return
    files = [file for file in sorted(folder.iterdir()) if is_table(file) and file.is_file()]
    found = [file for file in files if _fits(file, NOTE)]
    if len(found) > 1:
        listed = ", ".join(file.name for file in found)
        hint = "name one of them NOTE, or give the file itself as the source"
        raise CohortError(f"several files could be the table NOTE: {listed}", file=folder, hint=hint)
    if found:
        hospital.notes, hospital.present = found[0], hospital.present | {NOTE.name}


def _fits(file: Path, table: SourceTable) -> bool:
    try:
        columns = {sql_name(column) for column in table_columns(file)}
    except CohortError:  # not a table, whatever its name says
        return False
    return columns >= set(table.columns)


def _open_scans(hospital: OmopHospital, scans: Mapping[str, Scan]) -> None:
    """Let `attach` find tables that are not in a folder."""
    hospital.present = frozenset(scans)
    hospital.known = dict(scans)


def _duckdb_tables(hospital: Hospital, file: Path, schema: str | None) -> dict[str, Scan]:
    """The tables of a DuckDB file, whose names may be in any case and in any schema."""
    literal = "'" + str(file).replace("'", "''") + "'"
    try:
        hospital.connection.execute(f"ATTACH {literal} AS source (READ_ONLY)")
    except Exception:  # duckdb is optional, so its errors have no names here; their messages may quote the file
        raise CohortError("this is not a DuckDB file", file=file, hint="give a folder, or a DuckDB file") from None
    found = hospital.connection.execute(
        "SELECT schema_name, table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "WHERE database_name = 'source' GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    scans: dict[str, Scan] = {}
    wanted = {table.name for table in TABLES}
    for place, name, columns in found:
        if name.lower() not in wanted or (schema is not None and place.lower() != schema.lower()):
            continue
        if name.lower() in scans:
            hint = "choose one with `database_schema`"
            raise CohortError(f"two schemas have the table {quote(name)}", file=file, hint=hint)
        scans[name.lower()] = Scan(f"{file}, table {name}", tuple(columns), f'source."{place}"."{name}"')
    return scans
