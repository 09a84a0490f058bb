"""A real PostgreSQL with OMOP's tables: read like files; refusals are one sentence; the password is nowhere."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from palpate.data.cohorts.omop import OmopOptions, build_omop
from palpate.errors import CohortError
from tests.data.standards.omop_files import COLUMNS, hospital, write
from tests.e2e.command_line import CommandLine

pytestmark = pytest.mark.slow
PASSWORD = "s3cret-of-the-hospital"
TYPES = {"_id": "bigint", "_date": "date", "_datetime": "timestamp", "year_of_birth": "int"}


class Server(NamedTuple):
    host: str
    folder: Path
    """The same tables as files."""

    def address(self, *, password: str = PASSWORD, base: str = "postgres") -> str:
        return f"postgresql://tester:{password}@{self.host}/{base}"


def binaries() -> Path | None:
    found = shutil.which("initdb")
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name), reverse=True)
    return next(iter(versions), None) or (Path(found).resolve().parent if found else None)


def unprivileged() -> dict[str, str]:
    """PostgreSQL does not run as root."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    place = binaries()
    if place is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    with tempfile.TemporaryDirectory(prefix="palpate-pg-") as name:
        folder = Path(name)
        tables = write(folder / "csv", hospital())
        (folder / "password").write_text(PASSWORD)
        data, user = folder / "data", unprivileged()
        data.mkdir()
        for path in (folder, data, folder / "password"):
            path.chmod(0o700)
            if user:
                shutil.chown(path, user["user"], user["group"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        setup = [
            "-D",
            str(data),
            "-U",
            "tester",
            "--auth=scram-sha-256",
            f"--pwfile={folder / 'password'}",
            "--no-sync",
        ]
        subprocess.run([place / "initdb", *setup], check=True, capture_output=True, cwd="/", **user)  # type: ignore[call-overload]
        run = [place / "postgres", "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-F"]
        with (
            tempfile.TemporaryFile() as log,
            subprocess.Popen(run, stdout=log, stderr=log, cwd="/", **user) as running,  # type: ignore[call-overload]
        ):
            try:
                ask = {
                    **os.environ,
                    "PGPASSWORD": PASSWORD,
                    "PGHOST": "127.0.0.1",
                    "PGPORT": str(port),
                    "PGUSER": "tester",
                }
                _wait(place, ask)
                _fill(place, ask, tables)
                yield Server(f"127.0.0.1:{port}", tables)
            finally:
                running.terminate()


def _wait(place: Path, ask: dict[str, str]) -> None:
    for _ in range(300):
        if subprocess.run([place / "pg_isready"], env=ask, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    pytest.fail("PostgreSQL did not start")


def _fill(place: Path, ask: dict[str, str], tables: Path) -> None:
    script = ["CREATE SCHEMA cdm;", "CREATE SCHEMA broken;", "CREATE TABLE broken.person (person_id int);"]
    script.append("CREATE TABLE broken.visit_occurrence (visit_occurrence_id int, person_id int);")
    for file in tables.iterdir():
        kinds = [
            f"{column} {next((kind for end, kind in TYPES.items() if column.endswith(end)), 'text')}"
            for column in COLUMNS[file.stem]
        ]
        script.append(f"CREATE TABLE cdm.{file.stem} ({', '.join(kinds)});")
        columns = ", ".join(COLUMNS[file.stem])
        script.append(f"COPY cdm.{file.stem} ({columns}) FROM STDIN WITH (FORMAT csv, HEADER);")
        script += [file.read_text().rstrip("\n"), "\\."]
    text = "\n".join(script) + "\n"
    psql = [place / "psql", "-d", "postgres", "-q", "-v", "ON_ERROR_STOP=1"]
    subprocess.run(psql, env=ask, input=text, text=True, check=True, capture_output=True)


@pytest.fixture
def palpate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[CommandLine]:
    """The command line; afterwards, no file that it wrote has the password."""
    monkeypatch.chdir(tmp_path)
    yield CommandLine(capsys, monkeypatch)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), file


def test_the_same_cohort_as_from_files(server: Server, palpate: CommandLine, tmp_path: Path) -> None:
    ran = palpate(
        "cohort", "omop", "--source", server.address(), "--out", "omop.parquet", "--set", "database_schema=cdm"
    )
    assert ran.code == 0, ran.err
    assert PASSWORD not in ran.out + ran.err
    assert palpate("cohort", "omop", "--source", server.folder, "--out", "files/omop.parquet").code == 0
    import polars as pl

    assert pl.read_parquet("omop.parquet").equals(pl.read_parquet("files/omop.parquet"))
    assert len(build_omop(server.folder).cohort) == 3


def test_the_password_of_the_environment(server: Server, palpate: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALPATE_DB_PASSWORD", PASSWORD)
    address = f"postgresql://tester@{server.host}/postgres"
    assert (
        palpate("cohort", "omop", "--source", address, "--out", "o.parquet", "--set", "database_schema=CDM").code == 0
    )


def test_refusals(server: Server, palpate: CommandLine, tmp_path: Path) -> None:
    def refused(address: str, *more: str) -> str:
        ran = palpate("cohort", "omop", "--source", address, "--out", "no.parquet", *more)
        assert ran.code == 2
        assert ran.err.count("palpate: ") == 1
        assert PASSWORD not in ran.out + ran.err
        assert server.host not in ran.err
        assert not list(tmp_path.glob("no.*"))
        return ran.err

    cdm = ("--set", "database_schema=cdm")
    wrong = server.address(password="wrong-" + PASSWORD[::-1])
    # In a process of its own, for a driver's own lines pass Python by.
    command = [sys.executable, "-m", "palpate", "cohort", "omop", "--source", wrong, "--out", "no.parquet", *cdm]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("palpate: the database refused the user or the password; check the address postgresql")
    assert ran.stderr.count("\n") == 1
    ran = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert "Traceback" in ran.stderr
    assert PASSWORD[::-1] not in ran.stderr
    assert "no database of this name" in refused(server.address(base="nothing"), *cdm)
    assert "has no schema 'public' with tables" in refused(server.address())
    assert "the table DEATH is missing; it says who died" in refused(server.address(), *cdm, "--set", "outcome=death")
    broken = ("--set", "database_schema=broken")
    assert "table broken.visit_occurrence, column 'visit_concept_id': column not found" in refused(
        server.address(), *broken
    )
    gone = f"postgresql://tester:{PASSWORD}@127.0.0.1:1/postgres"
    assert "can't be reached" in refused(gone, *cdm)


@pytest.mark.parametrize("kind", ["mssql", "postgresql"])
def test_a_server_that_is_no_database(kind: str, palpate: CommandLine) -> None:
    """The driver itself is asked: whatever answers, palpate says one sentence, and no word of the address is in it."""
    with socket.socket() as listening, ThreadPoolExecutor(1) as pool:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        answered = pool.submit(_refuse_all, listening)
        ran = palpate("cohort", "omop", "--source", f"{kind}://tester:{PASSWORD}@127.0.0.1:{listening.getsockname()[1]}/omop", "--out", "x.parquet")  # fmt: skip  # noqa: E501
        listening.shutdown(socket.SHUT_RDWR)
    assert answered.result() > 1, "the port was tried, and then the driver came"
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    problem = {
        "postgresql": "the server can't be reached",
        "mssql": "it refused the user, the password or the database, or is no SQL Server",
    }
    assert f"{problem[kind]}; check the address {kind}://user@host:port/database" in ran.err
    assert PASSWORD not in ran.err + ran.out
    assert not Path("x.parquet").exists()


def _refuse_all(listening: socket.socket) -> int:
    """Answer everybody as a web server would, until the socket is closed; how many came."""
    n = 0
    while True:
        try:
            caller, _ = listening.accept()
        except OSError:
            return n
        n += 1
        with caller, suppress(OSError):
            caller.settimeout(1)
            caller.recv(4096)
            caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def _psql(server: Server, script: str) -> None:
    place = binaries()
    assert place is not None
    psql = [place / "psql", "-q", "-v", "ON_ERROR_STOP=1", server.address()]
    subprocess.run(psql, input=script, text=True, check=True, capture_output=True)


def _copied(server: Server, schema: str, how: str) -> str:
    """A script that makes each table of `cdm` anew in another schema, with names in capitals and small letters."""
    made = [
        f"{how.format(name=file.stem.title(), schema=schema)} AS SELECT * FROM cdm.{file.stem.lower()};"
        for file in server.folder.iterdir()
    ]
    return "\n".join([f'DROP SCHEMA IF EXISTS "{schema}" CASCADE; CREATE SCHEMA "{schema}";', *made])


@pytest.mark.parametrize("kind", ["TABLE", "VIEW", "MATERIALIZED VIEW"])
def test_tables_and_views_whatever_their_names(kind: str, server: Server) -> None:
    _psql(server, _copied(server, "Cdm_V54", f'CREATE {kind} "{{schema}}"."{{name}}"'))
    built = build_omop(server.address(), options=OmopOptions(database_schema="cdm_v54"))
    assert built.cohort.cases.drop("cohort").equals(build_omop(server.folder).cohort.cases.drop("cohort"))


def test_a_table_that_the_user_may_not_read_is_named(server: Server) -> None:
    script = "DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN PASSWORD 'poor-s3cret'; "
    granted = 'GRANT USAGE ON SCHEMA "Own" TO poor; GRANT SELECT ON "Own"."Person" TO poor; '
    _psql(server, _copied(server, "Own", 'CREATE TABLE "{schema}"."{name}"') + script + granted)
    address = f"postgresql://poor:poor-s3cret@{server.host}/postgres"
    try:
        with pytest.raises(CohortError) as caught:
            build_omop(address, options=OmopOptions(database_schema="own"))
    finally:
        _psql(server, 'DROP SCHEMA "Own" CASCADE; DROP ROLE poor;')
    assert str(caught.value) == "table Own.Visit_Occurrence: the user may not read the table; grant SELECT on it."


def test_names_that_differ_in_case_only(server: Server) -> None:
    copied = _copied(server, "Twice", 'CREATE VIEW "{schema}"."{name}"')
    _psql(server, f'{copied} CREATE SCHEMA "TWICE"; CREATE TABLE "TWICE".person (person_id int);')
    try:
        assert len(build_omop(server.address(), options=OmopOptions(database_schema="Twice")).cohort) == 3
        with pytest.raises(CohortError, match="the names of the schemas TWICE and Twice differ in case only"):
            build_omop(server.address(), options=OmopOptions(database_schema="twice"))
        _psql(server, 'CREATE TABLE "Twice".note (note_id int, "Note_ID" int);')
        with pytest.raises(CohortError, match="the names of the tables Note and note differ in case only"):
            build_omop(server.address(), options=OmopOptions(database_schema="Twice"))
        _psql(server, 'DROP VIEW "Twice"."Note";')
        with pytest.raises(CohortError, match=r"Twice\.note: the names of the columns Note_ID and note_id differ"):
            build_omop(server.address(), options=OmopOptions(database_schema="Twice"))
    finally:
        _psql(server, 'DROP SCHEMA "Twice" CASCADE; DROP SCHEMA "TWICE" CASCADE;')


def test_writes_meanwhile_do_not_tear_the_cohort(server: Server, tmp_path: Path) -> None:
    """All tables are of the moment at which the first was read: the others are emptied and filled anew meanwhile."""
    expected = build_omop(server.folder)
    place = binaries()
    told: list[str] = []

    def write_meanwhile(text: str) -> None:
        told.append(text)
        if text == "copying visit_occurrence":
            script = (
                "DELETE FROM cdm.visit_occurrence; DELETE FROM cdm.note; "
                "INSERT INTO cdm.note (note_id, person_id, note_date, note_text) VALUES (1, 1, '2030-01-02', 'torn')"
            )
            psql = [str(place / "psql"), "-q", "-v", "ON_ERROR_STOP=1", server.address(), "-c", script]  # type: ignore[operator]
            subprocess.run(psql, check=True, capture_output=True)

    kept = _rows(server, "note"), _rows(server, "visit_occurrence")
    try:
        built = build_omop(server.address(), options=OmopOptions(database_schema="cdm"), progress=write_meanwhile)
    finally:
        _restore(server, kept)
    assert told.index("copying visit_occurrence") < told.index("copying note")
    assert built.cohort.cases.drop("cohort").equals(expected.cohort.cases.drop("cohort"))


def _rows(server: Server, table: str) -> tuple[str, str]:
    """A table as PostgreSQL's own text."""
    place = binaries()
    assert place is not None
    ask = [place / "psql", "-q", server.address(), "-c", f"COPY cdm.{table} TO STDOUT"]
    return table, subprocess.run(ask, check=True, capture_output=True, text=True).stdout


def _restore(server: Server, kept: tuple[tuple[str, str], ...]) -> None:
    place = binaries()
    assert place is not None
    for table, text in kept:
        script = f"DELETE FROM cdm.{table};\nCOPY cdm.{table} FROM STDIN;\n{text}\\.\n"
        psql = [place / "psql", "-q", "-v", "ON_ERROR_STOP=1", server.address()]
        subprocess.run(psql, input=script, text=True, check=True, capture_output=True)
