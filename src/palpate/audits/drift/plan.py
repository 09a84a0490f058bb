"""The cases that the drift audit wants scored, and the period of each: months, quarters or years.

Periods follow each other without holes: one without a case stays, with nothing in it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from palpate.audits.kit.scope import audited_cohort, audited_labels, audited_rows, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import CohortError, ConfigError
from palpate.results import Plan

AUDIT = "drift"
Every = Literal["month", "quarter", "year"]
MONTHS: dict[Every, int] = {"month": 1, "quarter": 3, "year": 12}
FIRST, LATEST, WHOLE = "first", "latest", "all"


class Periods(NamedTuple):
    """The periods of the audited cases, and those that are compared."""

    names: tuple[str, ...]
    """`2024-03`, `2024-Q1` or `2024`, in order."""
    code: Ints
    """The period of each audited case."""
    every: Every
    n_compared: int
    """How many periods at each end are compared with each other."""

    def within(self, others: Periods) -> Periods:
        """These cases in the periods of more cases, which begin no later and end no earlier."""
        return others._replace(code=self.code + others.names.index(self.names[0]))

    @property
    def years(self) -> float:
        """The length of a period."""
        return MONTHS[self.every] / 12.0

    @property
    def first(self) -> tuple[str, str]:
        """The first and the last of the periods that come first."""
        return self.names[0], self.names[self.n_compared - 1]

    @property
    def latest(self) -> tuple[str, str]:
        """The first and the last of the latest periods."""
        return self.names[-self.n_compared], self.names[-1]


class DriftPlan(NamedTuple):
    """Where the plan's rows come from, and when they were."""

    periods: Periods
    main: Ints
    """Rows of the plan's variants: the audited cases that have a time."""
    validation: slice
    """For the threshold."""
    n_untimed: int


def plan_periods(
    cohort: Cohort,
    *,
    name: str | None,
    split: str,
    labels: tuple[str, ...] | None,
    most_common: int,
    every: Every,
    compared: int | None,
    most_periods: int,
) -> Plan[DriftPlan]:
    """The held-out cases with their periods, then the validation cases."""
    if "time" not in cohort.cases.columns:
        raise ConfigError(f"audit '{AUDIT}' needs to know when each case was", hint="set `time:` of the cohort")
    which = audited_cohort(AUDIT, cohort, name)
    held = audited_rows(AUDIT, cohort, which, split)
    timed = cohort.cases["time"].gather(held).is_not_null().to_numpy()
    rows: Ints = held[timed]
    if not len(rows):
        raise CohortError(
            f"audit '{AUDIT}': no case of split '{split}' has a time", hint="fill the column of the cohort's `time:`"
        )
    chosen = audited_labels(AUDIT, cohort, labels, rows=rows, most_common=most_common)
    periods = periods_of(cohort, rows, every, compared, most_periods)
    validation: Ints = np.setdiff1d(validation_rows(cohort, which), held)
    n, total = len(rows), len(rows) + len(validation)
    return Plan(
        cohort,
        Variants.of_cases(np.concatenate([rows, validation])),
        chosen,
        cases=rows,
        memory=DriftPlan(periods, np.arange(n), slice(n, total), len(held) - n),
    )


def periods_of(cohort: Cohort, rows: Ints, every: Every, compared: int | None, most_periods: int) -> Periods:
    """The period of each row; too many, or only one, is refused."""
    time = cohort.cases["time"].gather(rows)
    months = (time.dt.year().cast(int) * 12 + time.dt.month().cast(int) - 1).to_numpy().astype(np.int64)
    place = months // MONTHS[every]
    first, last = int(place.min()), int(place.max())
    n = last - first + 1
    if n < 2:
        hint = "choose a shorter one, such as `every: month`" if every != "month" else "audit more than one month"
        problem = f"audit '{AUDIT}', option 'every': all cases are of one {every}, {_named(first, every)}"
        raise ConfigError(problem, hint=hint, at=("every",))
    if n > most_periods:
        raise ConfigError(
            f"audit '{AUDIT}', option 'every': from {_named(first, every)} to {_named(last, every)} there are {n:,} "
            f"{every}s, more than {most_periods}",
            hint="choose a longer one, raise `most_periods`, or check the dates: shifted ones have no order",
            at=("every",),
        )
    ends = max(1, n // 3) if compared is None else compared
    if 2 * ends > n:
        raise ConfigError(
            f"audit '{AUDIT}', option 'compared': {ends} periods at each end are more than the {n} that there are",
            hint=f"use at most {n // 2}",
            at=("compared",),
        )
    return Periods(tuple(_named(k, every) for k in range(first, last + 1)), place - first, every, ends)


def _named(place: int, every: Every) -> str:
    if every == "year":
        return f"{place:04}"
    per_year = 12 // MONTHS[every]
    year, part = divmod(place, per_year)
    return f"{year:04}-{part + 1:02}" if every == "month" else f"{year:04}-Q{part + 1}"
