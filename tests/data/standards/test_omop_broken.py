"""Broken OMOP tables: file, row, column and one sentence; no word of a note; nothing written."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest

from palpate.commands.build import build_cohort
from palpate.data.hospitals.databases import _refusal, _with_password, _without_password
from palpate.data.hospitals.omop import shown
from palpate.errors import ConfigError, InputError
from tests.data.standards.omop_files import Row, Tables, hospital, note, period, person, write


def refused(source: Path | str, tmp_path: Path, *overrides: str) -> str:
    out = tmp_path / "cohort.parquet"
    with pytest.raises(InputError) as caught:
        build_cohort("omop", source, out, overrides=overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert "Note 1" not in message
    assert not list(tmp_path.glob("cohort*"))
    return message


def changed(table: str, row: int, cells: Row) -> Tables:
    tables = hospital()
    tables[table][row] |= cells
    return tables


@pytest.mark.parametrize(
    ("table", "cells", "said"),
    [
        ("NOTE", {"person_id": ""}, "NOTE.csv, row 2, column 'person_id': the cell is empty"),
        ("VISIT_OCCURRENCE", {"person_id": "x"}, "row 2, column 'person_id': the cell is 'x', which is not a whole"),
        (
            "NOTE",
            {"note_date": "23/7/2039", "note_datetime": ""},
            "row 2, column 'note_date': the cell is '23/7/2039', which is not a date",
        ),
        (
            "NOTE",
            {"note_datetime": "2030-01-05 14:05 EST"},
            "row 2, column 'note_datetime': the cell is a text of 20 characters, and what stands behind the time "
            "is not understood; write a time zone as its offset, such as -05:00",
        ),
        ("NOTE", {"note_id": 11}, "row 2, column 'note_id': note_id '11' is also in row 1; keep one row for each."),
        ("PERSON", {"year_of_birth": "old"}, "PERSON.csv, row 2, column 'year_of_birth': the cell is 'old'"),
        ("VISIT_OCCURRENCE", {"visit_occurrence_id": 1}, "visit_occurrence_id '1' is also in row 1"),
    ],
)
def test_bad_cells(table: str, cells: Row, said: str, tmp_path: Path) -> None:
    assert said in refused(write(tmp_path / "omop", changed(table, 1, cells)), tmp_path)


def test_overlapping_observation_periods(tmp_path: Path) -> None:
    tables = hospital() | {"OBSERVATION_PERIOD": [period(1, 1, 0, 50), period(2, 2, 0, 600), period(3, 1, 50, 600)]}
    message = refused(write(tmp_path / "omop", tables), tmp_path)
    assert "OBSERVATION_PERIOD.csv, row 3, column 'observation_period_start_date': the period overlaps" in message
    assert "`--set observation=merge`" in message
    built = build_cohort("omop", tmp_path / "omop", tmp_path / "c.parquet", overrides=["observation=merge"])
    assert len(built.cohort) == 3


@pytest.mark.parametrize("observation", ["respect", "merge"])
def test_a_period_that_ends_before_it_starts(observation: str, tmp_path: Path) -> None:
    tables = hospital() | {"OBSERVATION_PERIOD": [period(1, 1, 0, 600), period(2, 2, 50, 0)]}
    message = refused(write(tmp_path / "omop", tables), tmp_path, f"observation={observation}")
    assert "OBSERVATION_PERIOD.csv, row 2, column 'observation_period_end_date': the period ends before" in message


def test_two_columns_whose_names_differ_in_case_only(tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    text = (folder / "NOTE.csv").read_text()
    (folder / "NOTE.csv").write_text(text.replace("note_source_value\n", "NOTE_TITLE\n", 1))
    message = refused(folder, tmp_path)
    assert "NOTE.csv, column 'NOTE_TITLE': the header has this column twice, the first time as 'note_title'" in message


@pytest.mark.parametrize("other", ["person.csv", "PERSON.parquet", "PERSON.csv.gz", "person/part-0.parquet"])
def test_two_files_for_one_table(other: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    (folder / other).parent.mkdir(exist_ok=True)
    pl.DataFrame({"person_id": [1]}).write_parquet(folder / other)
    message = refused(folder, tmp_path)
    assert "there are two files for the table PERSON: PERSON.csv and " in message or "and PERSON.csv" in message
    assert message.endswith("remove one of them, or move it elsewhere.")


def test_two_files_that_could_be_the_notes(tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    shutil.copy(folder / "NOTE.csv", folder / "b.csv")
    (folder / "NOTE.csv").rename(folder / "a.csv")
    assert "several files could be the table NOTE: a.csv, b.csv; name one of them NOTE" in refused(folder, tmp_path)


@pytest.mark.parametrize("kind", ["mysql", "sqlserver", "jdbc:postgresql", "postgresql+psycopg2"])
def test_a_database_that_is_not_read_is_not_quoted(kind: str, tmp_path: Path) -> None:
    message = refused(f"{kind}://me:secret@host:1/base", tmp_path)
    assert message.startswith("addresses of this kind of database are not read; give postgresql://user@host")
    assert "secret" not in message


@pytest.mark.parametrize("kind", ["omop", "fhir", "meds", "dicom", "readmission"])
@pytest.mark.parametrize(
    "source",
    [
        "host=127.0.0.1 port=5432 user=me password=s3cret dbname=omop",
        "Server=tcp:db,1433;Database=omop;User Id=me;Password = s3cret;Encrypt=True",
        "DRIVER={ODBC Driver 18 for SQL Server};SERVER=db;UID=me;PWD=s3cret",
        "postgresql:/me:s3cret@host/omop",
        "jdbc:sqlserver:me:s3cret@db",
    ],
)
def test_a_string_with_a_password_is_not_quoted(source: str, kind: str, tmp_path: Path) -> None:
    """Strings of other programs are no folders that were not found: the message would have the password."""
    with pytest.raises(InputError) as caught:
        build_cohort(kind, source, tmp_path / "c.parquet")
    assert "s3cret" not in str(caught.value)
    assert "address" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("host=127.0.0.1 user=me password=s3cret", "database"),
        ("host=127.0.0.1 user=me password=s3cret://x", "database"),
        ("postgresql:/me:s3cret@host/omop", "database"),
        ("POSTGRESQL://me:s3cret@host/omop", "postgresql database"),
        ("jdbc:sqlserver://db;password=s3cret", "jdbc:sqlserver database"),
    ],
)
def test_what_may_be_said_of_an_address(source: str, told: str) -> None:
    assert shown(source) == told


@pytest.mark.parametrize("kind", ["postgresql", "mssql"])
def test_a_server_that_does_not_answer(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """At once, without a driver's own lines, and with the hint for this kind of database."""
    message = refused(f"{kind}://me:secret@127.0.0.1:1/base", tmp_path)
    assert message.startswith(f"the server can't be reached; check the address {kind}://user@host:port/database")
    assert "can't be reached" in refused(f"{kind}://me:secret@nowhere.invalid/base", tmp_path)
    assert "the address can't be read" in refused(f"{kind}://me:secret@host:port/base", tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("address", "plain", "password"),
    [
        ("postgresql://me:s3cret@host:5432/base", "postgresql://me@host:5432/base", "s3cret"),
        ("postgresql://me:p%40ss%2Fword@host/base", "postgresql://me@host/base", "p@ss/word"),
        ("POSTGRES://me:a@b@host/base?sslmode=require", "postgres://me@host/base?sslmode=require", "a@b"),
        ("postgresql://me@host/base", "postgresql://me@host/base", "of the environment"),
        ("postgresql:///base?host=/run", "postgresql:///base?host=/run", "of the environment"),
        (
            "postgresql://host/base?user=me&password=p%40s&sslmode=require",
            "postgresql://host/base?user=me&sslmode=require",
            "p@s",
        ),
        ("postgresql://me@host/base?password=a+b%2Bc", "postgresql://me@host/base", "a+b+c"),
        ("postgresql://me:own@one,two:5433/base", "postgresql://me@one,two:5433/base", "own"),
    ],
)
def test_a_password_leaves_the_address(
    address: str, plain: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's driver is told both apart, so that no message of its own can quote the password."""
    monkeypatch.setenv("PALPATE_DB_PASSWORD", "of the environment")
    assert _without_password(address) == (plain, password)


@pytest.mark.parametrize(
    ("address", "whole"),
    [
        ("mssql://me@host:1433/omop", "mssql://me:p%40ss%2Fword@host:1433/omop"),
        ("mssql://me:own@host/omop", "mssql://me:own@host/omop"),
        ("mssql://host/omop?trusted_connection=true", "mssql://host/omop?trusted_connection=true"),
        ("mssql://DOMAIN%5Cme@host/omop?encrypt=true", "mssql://DOMAIN%5Cme:p%40ss%2Fword@host/omop?encrypt=true"),
    ],
)
def test_an_address_of_sql_server_gets_the_password(address: str, whole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ConnectorX takes addresses only; one that has a password, or no user, stays as it is."""
    monkeypatch.setenv("PALPATE_DB_PASSWORD", "p@ss/word")
    assert _with_password(address) == whole


def test_no_words_of_a_driver_are_repeated() -> None:
    """A driver may quote the address."""
    for said, told in (
        ("Login failed for user 'me' with s3cret", "the database refused the user or the password"),
        ('Cannot open database "omop" requested by the login. mssql://me:s3cret@host', "no database of this name"),
        ("timed out: mssql://me:s3cret@host", "the server can't be reached"),
        ("Timed out in bb8", "the server did not let the user in: it refused the user, the password or the database"),
        ("something new: mssql://me:s3cret@host", "the database did not answer the query"),
    ):
        message = str(_refusal(said, "mssql"))
        assert told in message
        assert "s3cret" not in message


def test_missing_tables_and_columns(tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    message = refused(folder, tmp_path, "outcome=death")
    assert "the table DEATH is missing; it says who died; palpate found note, person, visit_occurrence (" in message
    text = (folder / "NOTE.csv").read_text()
    (folder / "NOTE.csv").write_text(text.replace("note_text", "note_texts", 1))
    assert "NOTE.csv, column 'note_text': column not found" in refused(folder, tmp_path)
    message = refused(folder / "NOTE.csv", tmp_path, "cases=visits")
    assert "the table VISIT_OCCURRENCE is missing" in message
    assert "notes alone are cases with `--set cases=notes --set outcome=none`, or with labels: `--set labels=FILE`" in (
        message
    )
    assert "folder or file not found" in refused(tmp_path / "no", tmp_path)
    (tmp_path / "no.duckdb").write_text("nothing")
    assert "this is not a DuckDB file" in refused(tmp_path / "no.duckdb", tmp_path)


def test_a_cohort_without_cases_says_where_they_went(tmp_path: Path) -> None:
    tables = hospital()
    tables["NOTE"] = [note(1, 1, 6, 1), note(2, 2, 6, 3)]
    message = refused(write(tmp_path / "omop", tables), tmp_path, "text=require")
    assert "no cases are left after the step 'cases with a note'" in message
    built = build_cohort("omop", tmp_path / "omop", tmp_path / "c.parquet")
    assert not built.cohort.has_text
    assert "text=leave, because no case has a note by its index" in built.assumed[-1]
    assert "grace_hours" in built.assumed[-1]


def test_an_empty_table_of_observation_periods_is_no_table(tmp_path: Path) -> None:
    """All cases would be in no period; the data end with the last visit instead, and this is said."""
    without = build_cohort("omop", write(tmp_path / "a", hospital()), tmp_path / "a.parquet")
    empty = build_cohort(
        "omop", write(tmp_path / "b", {**hospital(), "OBSERVATION_PERIOD": []}), tmp_path / "b.parquet"
    )
    assert without.cohort.cases["case_id"].to_list() == empty.cohort.cases["case_id"].to_list()
    assert "because OBSERVATION_PERIOD is missing" in without.assumed[0]
    assert "because OBSERVATION_PERIOD has no rows" in empty.assumed[0]
    day = without.assumed[0].partition("everyone on ")[2][:10]
    assert day == max(str(row["visit_start_date"]) for row in hospital()["VISIT_OCCURRENCE"])


def test_labels_and_conditions_say_what_the_outcome_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "omop", hospital())
    (tmp_path / "labels.csv").write_text("visit_occurrence_id,fell\n1,1\n2,0\n")
    built = build_cohort(
        "omop", folder, tmp_path / "c.parquet", overrides=[f"labels={tmp_path / 'labels.csv'}", "index=start"]
    )
    assert built.cohort.labels == ("fell",)


def test_persons_of_notes_that_nobody_knows(tmp_path: Path) -> None:
    tables = hospital() | {"PERSON": [person(1)]}
    built = build_cohort("omop", write(tmp_path / "omop", tables), tmp_path / "c.parquet")
    assert next(step for step in built.flow if step.name == "patients who are known").n_dropped == 2


def test_archives_and_folders_above(tmp_path: Path) -> None:
    folder = write(tmp_path / "deep" / "omop", hospital())
    assert f"VISIT_OCCURRENCE is missing; it says which visits there were; it is in {folder}: give" in refused(
        tmp_path / "deep", tmp_path
    )
    packed = Path(shutil.make_archive(str(tmp_path / "zipped" / "omop"), "zip", folder))
    for source in (packed, packed.parent):
        assert (
            refused(source, tmp_path) == f"{packed}: this is an archive; unpack it, and give the folder with its files."
        )


def test_times_with_offsets_and_without(tmp_path: Path) -> None:
    tables = hospital()
    tables["NOTE"][0]["note_datetime"] = "2030-01-03 12:00:00-05:00"
    message = refused(write(tmp_path / "omop", tables), tmp_path)
    assert "some times have an offset from UTC, such as -05:00 or Z, and others have none; write all" in message


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["index=start"], "a readmission follows the end of a visit"),
        (["outcome=condition"], "give `conditions` with outcome=condition"),
        (["outcome=condition", "conditions=I50"], "are concept ids"),
        (["outcome=file"], "give `labels` with outcome=file"),
        (["day=3"], "did you mean `days`?"),
    ],
)
def test_options_that_do_not_fit(overrides: list[str], said: str, tmp_path: Path) -> None:
    assert said in refused(write(tmp_path / "omop", hospital()), tmp_path, *overrides)


def test_two_schemas_of_a_duckdb_file(tmp_path: Path) -> None:
    base = duckdb.connect(str(tmp_path / "two.duckdb"))
    for schema in ("a", "b"):
        base.execute(f"CREATE SCHEMA {schema}")
        for file in write(tmp_path / "omop", hospital()).iterdir():
            base.execute(f"CREATE TABLE {schema}.{file.stem} AS FROM read_csv('{file}')")
    base.close()
    assert "two schemas have the table" in refused(tmp_path / "two.duckdb", tmp_path)
    built = build_cohort("omop", tmp_path / "two.duckdb", tmp_path / "c.parquet", overrides=["database_schema=b"])
    assert len(built.cohort) == 3


def test_an_address_is_for_omop_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build_cohort("readmission", "postgresql://me:secret@host/base", tmp_path / "c.parquet")
    assert "secret" not in str(caught.value)
