"""Alerts over the time of a stay: how many there are, when the first one comes, and how long before the event."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import append_ensembles
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, MeanInterval, no_interval
from palpate.audits.operating.measures import Decided
from palpate.audits.operating.plan import AlertPlan
from palpate.audits.operating.points import AlertPoint
from palpate.cases.edits import Ints
from palpate.results import Plan, Predictions
from palpate.stats.score_intervals import rate_interval

Floats = NDArray[np.float64]
TIMED = ("alerts_per_stay", "alerts_per_flagged_stay", "hours_to_alert", "lead_time_hours")
MEDIANS = ("hours_to_alert", "lead_time_hours")
_ROUNDING = 1e-12
_FEWEST = "no interval: a median of so few patients"


class TimedAlerts(NamedTuple):
    """By metric, a value for each stay: [model, stay], nan where a stay has none; for one label and point."""

    values: dict[str, Floats]
    patient: NDArray[np.int64]
    weight: Floats | None
    """The sampling weight of each stay."""


def timed_alerts(
    plan: Plan[AlertPlan], predictions: Predictions, point: AlertPoint, label: int, decided: Decided
) -> TimedAlerts:
    """Every model's alerts in every stay, those of an ensemble as the mean of its members'; `decided` is by stay."""
    rows, y_true = plan.memory.audited, decided.y_true[:, label]
    scores = np.stack([answers.p[rows.order, label] for answers in predictions.scored.values()])
    alert = scores >= point.threshold[:, label, None]
    count = np.add.reduceat(alert.astype(np.float64), rows.start, axis=1)
    found: dict[str, Floats] = {}
    if plan.memory.has_stays:
        found["alerts_per_stay"] = count
        found["alerts_per_flagged_stay"] = np.where(count > 0, count, np.nan)
    if rows.hours is not None:
        first = _first_alert(rows.hours, rows.start, alert)
        if plan.memory.has_stays:
            found["hours_to_alert"] = first - rows.hours[rows.start]
        if rows.event is not None:
            found["lead_time_hours"] = np.where(y_true > 0, rows.event - first, np.nan)
    values = {name: _with_ensembles(each, predictions) for name, each in found.items()}
    return TimedAlerts(values, rows.patient, decided.weight)


def _first_alert(hours: Floats, start: Ints, alert: NDArray[np.bool_]) -> Floats:
    """When the first alert of each stay comes, [model, stay]; nan without one."""
    first = np.minimum.reduceat(np.where(alert, hours, np.inf), start, axis=1)
    return np.asarray(np.where(np.isfinite(first), first, np.nan))


def _with_ensembles(values: Floats, predictions: Predictions) -> Floats:
    """A stay that some members do not flag has the mean of those that do."""
    if not predictions.ensembles:
        return values
    known = append_ensembles(np.where(np.isnan(values), 0.0, 1.0), predictions)
    total = append_ensembles(np.nan_to_num(values), predictions)
    return np.asarray(np.divide(total, known, out=np.full(total.shape, np.nan), where=known > 0))


def median_with_interval(
    values: Floats, patient: NDArray[np.int64], *, level: float = 0.95, weight: Floats | None = None
) -> MeanInterval:
    """The median of `values` (nan is left out), with an interval by patient (Woodruff 1952).

    The share of values below the median has the interval of a rate, with the clustering that patients show, and the
    values that stand at its ends are the ends of the median's; one further out on each side, since a share of few
    values moves in steps. With few patients no such values exist: no interval. Weights count as copies would, and the
    rate is one of as many values of equal weight as are as precise (Kish 1965).
    """
    known = ~np.isnan(values)
    order = np.argsort(values[known], kind="stable")
    numbers, code = values[known][order], np.unique(patient[known][order], return_inverse=True)[1]
    mass = np.ones(len(numbers)) if weight is None else weight[known][order]
    n, n_patients = len(numbers), int(code.max(initial=-1)) + 1
    if n == 0:
        return MeanInterval(np.nan, np.nan, np.nan, 0, 0, "no case")
    below = np.cumsum(mass)
    whole = float(below[-1])
    middle = np.searchsorted(below, [whole / 2.0 * (1.0 - _ROUNDING), whole / 2.0 * (1.0 + _ROUNDING)])
    median = float(numbers[np.minimum(middle, n - 1)].mean())
    if n_patients < FEWEST_FOR_INTERVAL:
        return MeanInterval(median, np.nan, np.nan, n, n_patients, no_interval(n_patients))
    total = np.bincount(code, weights=mass * np.sign(numbers - median) / 2.0)
    error = math.sqrt(float((total**2).sum()) * n_patients / (n_patients - 1.0)) / whole
    as_precise = whole**2 / float((mass**2).sum())
    share = rate_interval(0.5, error, as_precise, n / n_patients, level=level)
    low = int(np.searchsorted(below, float(share.low) * whole, "right")) - 1
    high = int(np.searchsorted(below, float(share.high) * whole, "left")) + 1
    if low < 0 or high >= n:
        return MeanInterval(median, np.nan, np.nan, n, n_patients, _FEWEST)
    return MeanInterval(median, float(numbers[low]), float(numbers[high]), n, n_patients, None)


def paired(values: Floats, model: int, reference: int) -> Floats:
    """A model's values less another's, in the stays that have both."""
    return np.asarray(values[model] - values[reference])
