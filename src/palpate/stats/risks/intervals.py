"""Intervals of the core set that hold with few patients; see `score_intervals` for what they are made from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logit, ndtri

from palpate.stats.inputs import Floats
from palpate.stats.intervals import Interval
from palpate.stats.precision.called import of_shares
from palpate.stats.risks.core import DISTANCES, FALSE_ALARMS, FOUND, ODDS, RANGE_FOUND, RANGE_PRICE, VARIATION
from palpate.stats.risks.net_benefit import benefit_interval
from palpate.stats.score_intervals import (
    FEWEST_UNITS,
    Counts,
    Spread,
    calibration_interval,
    contrast_interval,
    defined_error,
    rate_interval,
    squared_error_interval,
    student_quantile,
)

FEWEST_EVENTS = 5
"""Patients of the rarer outcome below which the core set has no interval."""


def risk_intervals(
    metrics: Sequence[str], point: Floats, values: Floats, counts: Counts, *, level: float = 0.95
) -> Spread:
    """The interval of every measure of `core_replicates`: `point` is [model, metric, label], replicates come last."""
    error = defined_error(values)
    low, high = np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    places = {name: k for k, name in enumerate(metrics)}
    for name, k in places.items():
        if name in _MADE:
            own = {each: (point[:, at], error[:, at]) for each, at in places.items()}
            ends = _MADE[name](own, counts, level)
        elif name in DISTANCES:
            noise = values[:, places[f"{name}_noise"]]
            ends = distance_interval(name, point[:, k], values[:, k], noise, counts, level=level)
        else:
            continue
        fewest = FEWEST_EVENTS if name in (*DISTANCES, "calibration_slope") else FEWEST_UNITS
        unknown = np.isnan(point[:, k]) | (counts.units.min(axis=0) < fewest)
        low[:, k], high[:, k] = (np.where(unknown, np.nan, end) for end in ends)
    return Spread(low, high, error)


def distance_interval(
    name: str, value: Floats, values: Floats, noise: Floats, counts: Counts, *, level: float = 0.95
) -> Interval:
    """Interval of a distance from the smooth curve, which chance can only raise (`calibration_interval`).

    With few patients the curve varies more than its standard error says, as Student's distribution does. The middle of
    the gaps is not convex, as their mean is, and moves most with the curve's shape: its interval is one of a higher
    level, without which 9 of 100 missed it where risks separate the outcomes well (`make validity`).
    """
    if name == "e50":
        level = 1.0 - (1.0 - level) / 3.0
    wider = student_quantile(_freedom(counts), level) / float(ndtri(0.5 + level / 2.0))
    shape = (*value.shape, 1)
    wider = np.broadcast_to(wider, value.shape).reshape(shape)
    spread = value[..., None] + wider * (values - value[..., None])
    return calibration_interval(value, spread, wider * noise, counts, level=level)


def _freedom(counts: Counts) -> Floats:
    """Patients of the rarer outcome, less 1; where a few have most of the rows, as many as those are worth."""
    rows = np.stack([counts.positive, counts.negative])
    sizes = np.ones_like(rows) if counts.sizes is None else np.maximum(counts.sizes, 1.0)
    return np.asarray(np.minimum(counts.units, rows / sizes).min(axis=0) - 1.0)


def _for_weights(counts: Counts) -> Floats:
    """How much wider the interval of a rate is for heavy weights that the sample may by chance lack."""
    return np.asarray(counts.kept_of_all**-0.25)


Known = dict[str, tuple[Floats, Floats]]
"""Of each measure, its values and their standard errors, [model, label]."""


def _observed(error: Floats, known: Known, counts: Counts, level: float) -> Interval:
    """The interval of the observed share, at the error of its comparison with what was predicted."""
    return rate_interval(
        counts.prevalence,
        error,
        counts.of_outcome,
        counts.per_unit,
        level=level,
        wider=_for_weights(counts),
        variation=known[VARIATION][0],
    )


def _intercept(known: Known, counts: Counts, level: float) -> Interval:
    """From the interval of the observed share: an intercept moves the expected share by what outcomes vary."""
    (value, error), variation = known["calibration_intercept"], known[VARIATION][0]
    observed = counts.prevalence
    ends = _observed(error * variation, known, counts, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.maximum(variation, 1e-300) / np.maximum(observed * (1.0 - observed), 1e-300)
        low, high = (value + (logit(end) - logit(observed)) / slope for end in ends)
    return Interval(low, high)


def _slope(known: Known, counts: Counts, level: float) -> Interval:
    value, error = known["calibration_slope"]
    reach = student_quantile(_freedom(counts), level) * error
    return Interval(value - reach, value + reach)


def _ratio(known: Known, counts: Counts, level: float) -> Interval:
    value, error = known["oe_ratio"]
    observed = counts.prevalence
    predicted = np.divide(observed, value, out=np.full(value.shape, np.nan), where=value > 0)
    ends = _observed(error * predicted, known, counts, level)
    return Interval(ends.low / predicted, ends.high / predicted)


def _benefit(known: Known, counts: Counts, level: float) -> Interval:
    rates = [np.stack([known[name][place] for name in (FOUND, FALSE_ALARMS)]) for place in (0, 1)]
    error = known["net_benefit"][1]
    return benefit_interval(
        rates[0],
        rates[1],
        known[ODDS][0],
        error,
        of_shares(counts, rates[0]),
        counts.per_unit,
        level=level,
    )


def _mean_benefit(known: Known, counts: Counts, level: float) -> Interval:
    """What is found and its price are means of numbers between 0 and 1 with a long tail, as squared errors are."""
    parts = [known[name] for name in (RANGE_FOUND, RANGE_PRICE)]
    n_units = counts.total / counts.per_unit
    ends = [squared_error_interval(*part, n_units, _freedom(counts), level=level) for part in parts]
    values, errors = zip(*parts, strict=True)
    return contrast_interval(values, ends, errors, [1.0, -1.0], known["mean_net_benefit"][1])


_MADE = {
    "calibration_intercept": _intercept,
    "calibration_slope": _slope,
    "oe_ratio": _ratio,
    "net_benefit": _benefit,
    "mean_net_benefit": _mean_benefit,
}
