"""Moments of `sql/moments.sql` beside a slow version in plain Python, in every notation; and what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from importlib import resources
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

duckdb = pytest.importorskip("duckdb")

ZONES = {
    "": None,
    "Z": 0,
    "+00": 0,
    "-05:00": -300,
    "+0530": 330,
    " +02": 120,
    "+14:00": 840,
    "z": 0,
    " UTC": 0,
    " GMT": 0,
}
"""Offsets from UTC, as they are written, in minutes."""


class Cell(NamedTuple):
    """What is written, and what it means: the clock's time, and the offset from UTC if there is one."""

    written: str | None
    wall: datetime | None = None
    offset: int | None = None


@pytest.fixture(scope="module")
def macros() -> Iterator[object]:
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone = 'UTC'")
    for name in ("macros", "moments"):
        connection.execute((resources.files("palpate.data") / "sql" / f"{name}.sql").read_text(encoding="utf-8"))
    yield connection
    connection.close()


days = st.dates(date(2020, 2, 26), date(2020, 3, 3)) | st.dates(date(1900, 1, 1), date(2921, 12, 31))
times = st.just((0, 0, 0)) | st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 60))


@st.composite
def cells(draw: st.DrawFn, order: str) -> Cell:
    """A date, with a time of day or without, in one of the notations."""
    day = draw(days)
    slashed = f"{day.month}/{day.day}/{day.year}" if order == "mdy" else f"{day.day}/{day.month}/{day.year}"
    forms = [day.isoformat(), f"{day.year:04}{day.month:02}{day.day:02}", slashed]
    others = [f"{day.year}/{day.month:02}/{day.day:02}", f"{day.day}.{day.month}.{day.year}", f"{day:%d-%b-%Y}".upper()]
    form = draw(st.sampled_from([*forms, *others]))
    if form == forms[1] or draw(st.booleans()):
        return Cell(form, datetime(day.year, day.month, day.day))
    hour, minute, second = draw(times)
    wall = datetime(day.year, day.month, day.day, hour, minute, min(second, 59))
    clock = f"{hour:02}:{minute:02}:{second:02}"
    if form in others:
        return Cell(f"{form} {clock}", wall)
    half = f"{hour % 12 or 12:02}:{minute:02}:{second:02} {'PM' if hour >= 12 else 'AM'}"
    if form == forms[2]:
        return Cell(f"{form} {draw(st.sampled_from([clock, half]))}", wall)
    if draw(st.booleans()) and draw(st.booleans()):
        return Cell(f"{form} {half}", wall)
    zone = draw(st.sampled_from(list(ZONES)))
    return Cell(f"{form}{draw(st.sampled_from(' T'))}{clock}{zone}", wall, ZONES[zone])


def slow_moment(day: Cell, time: Cell) -> dict[str, object] | None:
    """What `moment` says, step by step."""
    if day.wall is None and time.wall is None:
        return None
    astray = False
    if day.wall is not None and time.wall is not None:
        apart = abs((time.wall.date() - day.wall.date()).days)
        astray = apart > (0 if time.wall.time() == datetime.min.time() else 1)
    used = day if astray or time.wall is None else time
    assert used.wall is not None
    zoned = used is time and time.offset is not None
    instant = used.wall - timedelta(minutes=used.offset or 0) if zoned else used.wall
    return {
        "instant": instant,
        "wall": used.wall,
        "day": (day.wall or used.wall).date(),
        "timed": used.wall.time() != datetime.min.time(),
        "zoned": zoned,
        "astray": astray,
    }


@pytest.mark.parametrize("order", ["mdy", "dmy"])
def test_moments_are_those_of_the_slow_version(order: str, macros: duckdb.DuckDBPyConnection) -> None:
    macros.execute(f"SET VARIABLE dates = '{order}'")
    one = cells(order) | st.just(Cell(None))

    @settings(max_examples=25, deadline=None, phases=(Phase.generate,))
    @given(rows=st.lists(st.tuples(one, one), min_size=40, max_size=80))
    def compare(rows: list[tuple[Cell, Cell]]) -> None:
        given_cells = [[day.written for day, _ in rows], [time.written for _, time in rows]]
        told = macros.execute(
            "SELECT moment(day, clock, 'note', 'note_date', 'note_datetime') AS told "
            "FROM (SELECT unnest($1::VARCHAR[]) AS day, unnest($2::VARCHAR[]) AS clock)",
            given_cells,
        ).fetchall()
        assert [row[0] for row in told] == [slow_moment(day, time) for day, time in rows]

    compare()


@pytest.mark.parametrize(
    ("day", "time", "column"),
    [
        ("2020-02-30", None, "note_date"),
        ("2020-02-03", "yesterday", "note_datetime"),
        ("2020-02-03", "2020-02-03 25:00", "note_datetime"),
        ("unknown", "2020-02-03 14:00", None),
        ("2020-02-03", "2020-02-03 13:30 PM", "note_datetime"),
        ("31-FEB-2020", None, "note_date"),
        ("03-FEB-2", None, "note_date"),
        ("3/2/20", None, "note_date"),
        *(
            ("2020-02-03", f"2020-02-03 14:05{behind}", "note_datetime")
            for behind in (" EST", ":00 EST", " America/New_York", " JamesTown", ":00 BC", " CEST", "A", " +05:00 EST")
        ),
        ("2020-02-03 (BC)", None, "note_date"),
        ("2020-02-03", "3/2/2020 14:05 EST", "note_datetime"),
        ("2020-02-03", "03-FEB-20 00.05.00 AM", "note_datetime"),
    ],
)
def test_what_is_no_date_is_refused(
    day: str, time: str | None, column: str | None, macros: duckdb.DuckDBPyConnection
) -> None:
    query = "SELECT moment($1::VARCHAR, $2::VARCHAR, 'note', 'note_date', 'note_datetime')"
    if column is None:  # a day that can't be read beside a time that can
        assert macros.execute(query, [day, time]).fetchone() is not None
        return
    with pytest.raises(duckdb.Error, match=re.escape(f"palpate|date|note|{column}")):
        macros.execute(query, [day, time]).fetchone()


def test_sql_servers_own_notation(macros: duckdb.DuckDBPyConnection) -> None:
    found = macros.execute("SELECT parsed_date('Feb  3 2020  2:05PM'), parsed_date('Feb 13 2020 12:00AM')").fetchone()
    assert found == (datetime(2020, 2, 3, 14, 5), datetime(2020, 2, 13))


@pytest.mark.parametrize(
    "cell",
    [
        *("08-JUL-21 02.05.00.000000000 PM", "08-JUL-2021 02:05:00 PM", "08-jul-21 14:05", "08-JUL-2021 14:05:00.000"),
        *("7/8/2021 2:05PM", "7/8/2021 14:05:00.000", "7/8/2021 02:05:00.000 pm", "2021/07/08 2:05 PM"),
        *("2021-07-08 02:05:00.000 PM", "2021-07-08T02:05PM", "08JUL2021:14:05:00", "08JUL2021:14:05:00.000"),
        *("Jul  8 2021  2:05:00:000PM", "8.7.2021 14:05", "2021-07-08T14:05:00.0000000", "2021-07-08T14:05:00"),
    ],
)
def test_notations_of_databases(cell: str, macros: duckdb.DuckDBPyConnection) -> None:
    macros.execute("SET VARIABLE dates = 'mdy'")
    assert macros.execute("SELECT parsed_date($1)", [cell]).fetchone() == (datetime(2021, 7, 8, 14, 5),)


def test_years_of_two_digits_are_of_1950_to_2049(macros: duckdb.DuckDBPyConnection) -> None:
    told = [f"08-JUL-{year % 100:02}" for year in range(1950, 2050)]
    found = macros.execute("SELECT parsed_date(unnest($1::VARCHAR[]))", [told]).fetchall()
    assert [row[0].year for row in found] == list(range(1950, 2050))


@pytest.mark.parametrize("behind", ["EST", "PM", "America/New_York"])
def test_no_word_behind_a_time_of_mimic_is_left_out(behind: str, macros: duckdb.DuckDBPyConnection) -> None:
    assert macros.execute("SELECT is_time($1)", [f"2180-07-23 02:05:00 {behind}"]).fetchone() == (False,)


def test_a_moment_is_a_small_expression(macros: duckdb.DuckDBPyConnection) -> None:
    """Macros in macros once copied a cell's parsing a hundred times: a read of ten rows took more than a second."""
    plan = macros.execute(
        "EXPLAIN (FORMAT json) SELECT moment(day, clock, 'note', 'note_date', 'note_datetime') "
        "FROM (SELECT unnest(['2020-02-03']) AS day, unnest(['2020-02-03 14:00']) AS clock)"
    ).fetchall()
    assert 0 < str(plan).count("strptime") < 30  # 590 before
