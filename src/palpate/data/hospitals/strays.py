"""Dates far beyond all others, such as 2921 for 2021 or 9999-12-31: they don't say when the data end.

Whether a date is a mistake can't be told by the day on which it is read: hospitals shift dates into another century to
hide them, and a cohort must be the same whenever it is built. A date is taken for a mistake if it comes after a gap of
`GAP_YEARS` without any date, and few come after the gap: at most one in `ONE_IN`, rounded up. After a gap of `CENTURY`
years, which is longer than any hospital's records and than the shifts that hide dates, fewer than half are few.

Periods of observation may be open, which is often written as a day far in the future: nobody was observed after the
data end, so that a period that ends more than `OPEN_YEARS` after the last visit and note ends with the data.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from palpate.data.hospitals import Hospital

GAP_YEARS = 20
ONE_IN = 20
CENTURY = 100
OPEN_YEARS = 1


class Strays(NamedTuple):
    """The dates beyond the gap: how many there are, and the first of them; None where there are none."""

    n: int = 0
    start: datetime | None = None

    def told(self, what: str, use: str) -> tuple[str, ...]:
        """A sentence about them, if there are any: what has such dates, and what they are not used for."""
        if self.start is None:
            return ()
        gap = f"more than {GAP_YEARS} years after all others ({self.n:,} of the {what})"
        return (f"dates from {self.start:%Y-%m-%d} on are taken for mistakes and {use}, because they are {gap}",)


class DataEnd(NamedTuple):
    """What says when the data end: `unit` is visits or, where there are none, notes; without strays, the last one."""

    unit: str
    last: str | None
    strays: Strays

    def told(self, why: str) -> tuple[str, ...]:
        """That the data end for everyone alike, where nothing says who was observed when."""
        how = "when the last visit begins" if self.unit == "visits" else "when the last note was written"
        return (f"the data end for everyone on {self.last}, {how}, because {why}",)


def data_end(hospital: Hospital) -> DataEnd:
    """When the data of the tables `visits` and `notes` end, where no observation period says so."""
    n = hospital.frame("SELECT count(began) AS n FROM visits").item()
    unit, when = ("visits", "began") if n else ("notes", "written")
    strays = find_strays(hospital, f"SELECT {when}.instant AS moment FROM {unit}")
    known = "true" if strays.start is None else f"{when}.instant < TIMESTAMP '{strays.start}'"
    last = hospital.frame(f"SELECT max({when}.day)::VARCHAR AS last FROM {unit} WHERE {known}").item()
    return DataEnd(unit, last, strays)


def close_periods(hospital: Hospital) -> tuple[str, ...]:
    """Let the periods in `observed` end with the data, and say so of those that went on for long: a sentence, or none.

    The data end with the last visit, note or period that is neither a stray nor open.
    """
    events = "SELECT began.instant AS moment FROM visits UNION ALL SELECT written.instant FROM notes"
    strays = find_strays(hospital, events)
    known = "true" if strays.start is None else f"moment < TIMESTAMP '{strays.start}'"
    last = f"(SELECT max(moment)::DATE FROM ({events}) WHERE {known})"
    is_open = f"to_day > {last} + INTERVAL {OPEN_YEARS} YEAR"
    found = hospital.frame(
        f"SELECT count(*) FILTER ({is_open}) AS n, count(*) AS periods, "
        f"min(to_day) FILTER ({is_open})::VARCHAR AS first, "
        f"greatest({last}, max(to_day) FILTER (NOT ({is_open})))::VARCHAR AS last FROM observed"
    )
    n, periods, first, end = found.row(0)
    if not n:
        return ()
    hospital.connection.execute(f"UPDATE observed SET to_day = least(to_day, DATE '{end}')")
    return (
        f"observation periods that end on {first} or later ({n:,} of {periods:,}) are taken for open and end on {end}, "
        f"because no visit, note or other period is later: nobody is known to be observed after the data end",
    )


def find_strays(hospital: Hospital, times: str) -> Strays:
    """The strays among what a query returns as `moment`."""
    found = hospital.frame(
        "WITH placed AS (SELECT moment, lag(moment) OVER (ORDER BY moment) AS before, "
        "count(*) OVER (ORDER BY moment DESC) AS beyond, count(*) OVER () AS n "
        f"FROM ({times}) WHERE moment IS NOT NULL) "
        "SELECT max(beyond) AS n, min(moment) AS start FROM placed "
        f"WHERE moment > before + INTERVAL {GAP_YEARS} YEAR AND beyond <= ceil(n / {ONE_IN}) "
        f"OR moment > before + INTERVAL {CENTURY} YEAR AND beyond < n / 2"
    )
    n, start = found.row(0)
    return Strays() if start is None else Strays(n, start)
