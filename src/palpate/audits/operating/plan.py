"""The cases that the operating audit wants scored, and which of them are decided together: the predictions of a stay.

A stay with several predictions is one decision: it is positive if one of its cases is, and the predictions that come at
or after its event do not count, because an alert would have come too late.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.scope import audited_cohort, audited_labels, audited_rows, validation_rows
from palpate.cases.cohort import STAY_WEIGHT, Cohort
from palpate.cases.columns import ColumnCheck, times
from palpate.cases.edits import Ints, Variants
from palpate.errors import CohortError, ConfigError, closest
from palpate.results import Plan
from palpate.stats.precision import n_distinct

AUDIT = "operating"
Floats = NDArray[np.float64]
_HOUR = 3.6e9
"""In microseconds."""


class StayRows(NamedTuple):
    """Some rows of a plan, those of a stay together and in order of time; without stays, each row is one."""

    order: Ints
    """Rows of the plan's variants."""
    start: Ints
    """Where each stay begins in `order`."""
    patient: Ints
    """Of each stay."""
    hours: Floats | None
    """When each row of `order` was predicted; None where the cohort has no time."""
    event: Floats | None
    """When the event of each stay was; nan where there was none, None where no column says it."""

    def highest(self, values: Floats) -> Floats:
        """[..., row, label] of the plan's rows: the highest of each stay."""
        found: Floats = np.maximum.reduceat(values[..., self.order, :], self.start, axis=-2)
        return found

    def first(self, values: Floats) -> Floats:
        """[..., row, label] of the plan's rows: the first of each stay."""
        return values[..., self.order[self.start], :]

    @property
    def stay(self) -> Ints:
        """The stay of each row of `order`."""
        return np.repeat(np.arange(len(self.start)), np.diff(np.append(self.start, len(self.order))))


class AlertPlan(NamedTuple):
    """Where the plan's rows come from, and what is known about stays and days."""

    audited: StayRows
    validation: StayRows
    """For thresholds; empty where there is no validation split."""
    has_stays: bool
    unit: str
    """What an alert is about: `stays`, `patients`, or `cases` where patients have several."""
    per_day: float | None
    """Stays or cases of the whole cohort on a day with any, as many as they stand for; None without times."""
    least_weight: float
    """The smallest sampling weight above 0; 1 without weights."""
    n_mixed: int
    """Audited stays whose cases have different sampling weights: the largest counts."""
    n_late: int
    """Predictions at or after the event, which do not count."""
    n_unpredicted: int
    """Stays with an event before which there is no prediction; they do not count."""
    n_undecided: int
    """Stays whose first prediction, which alone decides, has no score or no weight; they do not count."""


def plan_alerts(
    cohort: Cohort,
    *,
    name: str | None,
    split: str,
    labels: tuple[str, ...] | None,
    most_common: int,
    event_time: str | None,
    first_alone: bool,
) -> Plan[AlertPlan]:
    """The held-out cases, then the validation cases, with their stays.

    A case that does not count (its weight is 0, or a model has no score for it) still tells what became of its stay;
    where the first prediction alone decides, a stay whose first one does not count is left out.
    """
    which = audited_cohort(AUDIT, cohort, name)
    rows = audited_rows(AUDIT, cohort, which, split)
    chosen = audited_labels(AUDIT, cohort, labels, rows=rows, most_common=most_common)
    validation: Ints = np.setdiff1d(validation_rows(cohort, which), rows)
    every: Ints = np.concatenate([rows, validation])
    whole = np.flatnonzero(np.isin(cohort.stays, cohort.stays[every])) if cohort.has_stays else np.sort(every)
    hours = _hours(cohort, whole)
    event = _events(cohort, whole, event_time, chosen)
    late = _late(cohort, whole, hours, event, cohort.y_true(whole, chosen)[:, 0].astype(bool))
    alone = n_distinct(cohort.patients[rows]) == len(rows)
    per_day, n_late = _per_day(cohort, which, every), int(late[np.searchsorted(whole, rows)].sum())
    n_stays, n_undecided = n_distinct(cohort.stays[rows]), 0
    if first_alone and hours is not None:
        first = _grouped(cohort, whole, ~late, hours, None)
        predicted = whole[first.order[first.start]]
        counts = np.isin(cohort.stays, cohort.stays[np.intersect1d(predicted, every)])
        n_undecided = n_distinct(
            cohort.stays[rows[~counts[rows] & np.isin(cohort.stays[rows], cohort.stays[predicted])]]
        )
        rows, every = rows[counts[rows]], every[counts[every]]
    at = np.searchsorted(whole, every)
    hours, event = (None if each is None else each[at] for each in (hours, event))
    late, held = late[at], np.arange(len(every)) < len(rows)
    audited = _grouped(cohort, every, held & ~late, hours, event)
    return Plan(
        cohort,
        Variants.of_cases(every),
        chosen,
        cases=rows,
        memory=AlertPlan(
            audited=audited,
            validation=_grouped(cohort, every, ~held & ~late, hours, event),
            has_stays=cohort.has_stays,
            unit="stays" if cohort.has_stays else "patients" if alone else "cases",
            per_day=per_day,
            least_weight=_least_weight(cohort, which),
            n_mixed=_n_mixed(cohort, rows),
            n_late=n_late,
            n_unpredicted=n_stays - n_undecided - len(audited.start),
            n_undecided=n_undecided,
        ),
    )


def _hours(cohort: Cohort, rows: Ints) -> Floats | None:
    """When each row was predicted; a row of a stay must have a time."""
    if "time" not in cohort.cases.columns:
        return None
    column = cohort.cases["time"].gather(rows)
    if cohort.has_stays and column.null_count():
        raise CohortError(
            f"audit '{AUDIT}': {column.null_count():,} of {len(rows):,} cases have a stay and no time",
            hint="fill the column of `time:`, or drop these rows",
        )
    return np.asarray(column.dt.epoch("us").cast(float).fill_null(float("nan")).to_numpy() / _HOUR, np.float64)


def _events(cohort: Cohort, rows: Ints, name: str | None, labels: tuple[str, ...]) -> Floats | None:
    """When the event of each row's stay was: the earliest that any of its rows has."""
    if name is None:
        return None
    at = ("event_time",)
    if name not in cohort.attributes:
        hint = "list the column under the cohort's `attributes:`"
        if cohort.attributes:
            hint += f"; {closest(name, cohort.attributes, all_are='its attributes are')}"
        raise ConfigError(f"audit '{AUDIT}', option 'event_time': there is no attribute '{name}'", hint=hint, at=at)
    if "time" not in cohort.cases.columns:
        problem = f"audit '{AUDIT}', option 'event_time': the cohort has no time, so there is no lead time"
        raise ConfigError(problem, hint="set `time:` of the cohort", at=at)
    if len(labels) > 1:
        problem = f"audit '{AUDIT}', option 'event_time': it is the time of one label, and {len(labels)} are audited"
        raise ConfigError(problem, hint="name the label in `labels`", at=at)
    column = times(ColumnCheck(cohort.cases[name], name=name)).gather(rows)
    hours = column.dt.epoch("us").cast(float).fill_null(float("inf")).to_numpy() / _HOUR
    _, code = np.unique(cohort.stays[rows], return_inverse=True)
    first = np.full(code.max(initial=-1) + 1, np.inf)
    np.minimum.at(first, code, hours)
    return np.asarray(np.where(np.isfinite(first), first, np.nan)[code], np.float64)


def _late(
    cohort: Cohort, rows: Ints, hours: Floats | None, event: Floats | None, positive: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Rows of a stay with the outcome that were predicted at or after its event."""
    if hours is None or event is None:
        return np.zeros(len(rows), bool)
    _, code = np.unique(cohort.stays[rows], return_inverse=True)
    ill = np.zeros(code.max(initial=-1) + 1, bool)
    np.logical_or.at(ill, code, positive)
    return np.asarray(ill[code] & (hours >= event))


def _grouped(
    cohort: Cohort, rows: Ints, kept: NDArray[np.bool_], hours: Floats | None, event: Floats | None
) -> StayRows:
    """The kept rows by stay and time."""
    chosen = np.flatnonzero(kept)
    stay = cohort.stays[rows[chosen]]
    if cohort.has_stays:
        when = np.zeros(len(chosen)) if hours is None else hours[chosen]
        order = chosen[np.lexsort((when, stay))]
        stay = cohort.stays[rows[order]]
        start = np.flatnonzero(np.append(True, stay[1:] != stay[:-1])[: len(stay)])
    else:
        order, start = chosen, np.arange(len(chosen))
    return StayRows(
        order=order,
        start=start,
        patient=cohort.patients[rows[order[start]]],
        hours=None if hours is None else hours[order],
        event=None if event is None else event[order[start]],
    )


def _per_day(cohort: Cohort, name: str, asked: Ints) -> float | None:
    """Stays or cases on a day with any, over all splits of the cohort.

    With sampling weights, as many as they stand for: a stay has the largest weight of its cases, and one whose cases do
    not count (their weight is 0) is nobody. Where scores are missing, stays that no model was asked about, such as
    those of the training split, lack them as often as the others.
    """
    rows = cohort.rows(cohort=name)
    if "time" not in cohort.cases.columns:
        return None
    days = cohort.cases["time"].gather(rows).dt.date()
    known = rows[days.is_not_null().to_numpy()]
    n_days = days.drop_nulls().n_unique()
    if not n_days:
        return None
    stays = cohort.stay_weights
    if stays is None:
        return n_distinct(cohort.stays[known]) / n_days
    _, first = np.unique(cohort.stays[known], return_index=True)
    each = known[first]
    counted = stays[each]
    if STAY_WEIGHT in cohort.cases.columns:
        whole = cohort.cases[STAY_WEIGHT].gather(each).to_numpy()
        of_models = np.isin(cohort.stays[each], cohort.stays[asked]) | (counted < whole)
        scored = counted[of_models].sum() / whole[of_models].sum() if of_models.any() else 1.0
        counted = np.where(of_models, counted, scored * counted)
    return float(counted.sum()) / n_days


def _n_mixed(cohort: Cohort, rows: Ints) -> int:
    """Cases that do not count, whose weight is 0, are no other weight."""
    weight, largest = cohort.weights, cohort.stay_weights
    if weight is None or largest is None:
        return 0
    stays = np.flatnonzero(np.isin(cohort.stays, cohort.stays[rows]))
    return n_distinct(cohort.stays[stays[(weight[stays] > 0) & (weight[stays] < largest[stays])]])


def _least_weight(cohort: Cohort, name: str) -> float:
    weight = cohort.weights
    own = np.ones(1) if weight is None else weight[cohort.rows(cohort=name)]
    return float(own[own > 0].min(initial=np.inf))
