"""Dates far beyond all others, such as 2921 for 2021 or 9999-12-31: they don't say when the data end.

Whether a date is a mistake can't be told by the day on which it is read: hospitals shift dates into another century to
hide them, and a cohort must be the same whenever it is built. A date is taken for a mistake if it comes after a gap of
`GAP_YEARS` without any date, and few come after the gap: at most one in `ONE_IN`, rounded up.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from palpate.data.hospitals import Hospital

GAP_YEARS = 20
ONE_IN = 20


class Strays(NamedTuple):
    """The dates beyond the gap: how many there are, and the first of them; None where there are none."""

    n: int = 0
    start: datetime | None = None

    def told(self, what: str, use: str) -> tuple[str, ...]:
        """A sentence about them, if there are any: what has such dates, and what they are not used for."""
        if self.start is None:
            return ()
        gap = f"more than {GAP_YEARS} years after all others ({self.n:,} of the {what})"
        return (f"dates from {self.start:%Y-%m-%d} on are mistakes and {use}, because they are {gap}",)


class DataEnd(NamedTuple):
    """What says when the data end: `unit` is visits or, where there are none, notes; without strays, the last one."""

    unit: str
    last: str | None
    strays: Strays


def data_end(hospital: Hospital) -> DataEnd:
    """When the data of the tables `visits` and `notes` end, where no observation period says so."""
    n = hospital.frame("SELECT count(began) AS n FROM visits").item()
    unit, when = ("visits", "began") if n else ("notes", "written")
    strays = find_strays(hospital, f"SELECT {when}.instant AS moment FROM {unit}")
    known = "true" if strays.start is None else f"{when}.instant < TIMESTAMP '{strays.start}'"
    last = hospital.frame(f"SELECT max({when}.day)::VARCHAR AS last FROM {unit} WHERE {known}").item()
    return DataEnd(unit, last, strays)


def find_strays(hospital: Hospital, times: str) -> Strays:
    """The strays among what a query returns as `moment`."""
    found = hospital.frame(
        "WITH placed AS (SELECT moment, lag(moment) OVER (ORDER BY moment) AS before, "
        "count(*) OVER (ORDER BY moment DESC) AS beyond, count(*) OVER () AS n "
        f"FROM ({times}) WHERE moment IS NOT NULL) "
        "SELECT max(beyond) AS n, min(moment) AS start FROM placed "
        f"WHERE moment > before + INTERVAL {GAP_YEARS} YEAR AND beyond <= ceil(n / {ONE_IN})"
    )
    n, start = found.row(0)
    return Strays() if start is None else Strays(n, start)
