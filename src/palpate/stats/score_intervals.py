"""Intervals that hold with few patients: of AUROCs, rates, F1, mean errors, and of contrasts between them.

A percentile interval of a metric near 0 or 1, or of a handful of positives, is too narrow: three positives that rank
first give an AUROC of 1 in every resample. These intervals take the variance at the value that is asked about, not at
the estimate (Wilson 1927, Newcombe 2006), so they have a real width there. What resampling patients adds is a *design
effect*: how much more the metric varies than it would if notes were independent patients. With few patients that is a
guess too, so it is pulled towards the number of notes per patient, the most that clustering can do; of patients with
unequal numbers of notes, those with many count for as many (sum of squares over sum).

A contrast (a difference, a mean over labels or seeds, a difference of differences) gets its interval from those of its
parts (Zou and Donner 2008): their arms are added as if independent, and scaled by how much more or less the contrast
varies over the resamples than it would then. Measured by `make validity`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from palpate.stats.arguments import NOISE
from palpate.stats.inputs import Floats
from palpate.stats.intervals import Interval, error_interval, percentile_interval
from palpate.stats.precision import MANY, Counts, Weighing, class_units, cluster_sizes, weighing
from palpate.stats.precision.called import denominators

__all__ = [
    "ERROR",
    "FEWEST_UNITS",
    "Counts",
    "Spread",
    "Weighing",
    "auroc_interval",
    "calibration_interval",
    "class_units",
    "cluster_sizes",
    "contrast_interval",
    "defined_error",
    "f1_interval",
    "mean_interval",
    "metric_intervals",
    "rate_interval",
    "squared_error_interval",
    "student_quantile",
    "weighing",
]

ERROR = "adaptive_calibration_error"
FEWEST_UNITS = 2
"""Patients below which there is no interval."""

_PRIOR = 5.0
"""Patients that the guess of the design effect counts for."""
_FEW = 10.0
"""Patients of the rarer outcome that cannot tell how much less outcomes vary around predictions."""
_LEAST_LEFT = 1e-3
"""Of p (1 - p), around predictions that are nearly certain."""
_SPREAD = 2.5
"""How much wider than the negatives' the few positives' scores may spread: Hanley and McNeil's variance, which takes
both alike, is then about that much too small."""
_STEPS = 40


def _quantile(level: float) -> float:
    return float(ndtri(0.5 + level / 2.0))


def auroc_interval(
    value: ArrayLike,
    error: ArrayLike,
    n_positive: ArrayLike,
    n_negative: ArrayLike,
    units: tuple[ArrayLike, ArrayLike],
    *,
    per_unit: ArrayLike | None = None,
    level: float = 0.95,
) -> Interval:
    """Interval of an AUROC: the values t from which the estimate is less than z standard errors away, at t.

    The variance at t is that of Hanley and McNeil (1982) for the numbers of positive and negative rows, each divided by
    the design effect. `error` is the standard deviation over resamples; `units` are the patients with a positive row,
    and with a negative one, and `per_unit` the rows that a patient has (by default the mean).
    """
    estimate, spread, m, n = (np.asarray(each, np.float64) for each in (value, error, n_positive, n_negative))
    patients = [np.maximum(np.asarray(each, np.float64), 1.0) for each in units]
    mean = np.maximum(m / patients[0], n / patients[1])
    most = mean if per_unit is None else np.asarray(per_unit, np.float64)
    guess = np.maximum(_SPREAD * mean, most)
    known = np.minimum(patients[0], m / np.maximum(most, 1.0))
    effect = _design_effect(spread**2, _hanley_mcneil(estimate, m, n), most, guess, known)
    effect = np.maximum(effect, np.minimum(1.0, MANY / patients[0]))
    m, n, z = m / effect, n / effect, _quantile(level)

    def far(t: Floats) -> Floats:
        return np.asarray((estimate - t) ** 2 > z * z * _hanley_mcneil(t, m, n))

    ends = []
    for outer in (np.zeros_like(estimate), np.ones_like(estimate)):
        inner = estimate
        for _ in range(_STEPS):
            middle = (outer + inner) / 2.0
            outer, inner = np.where(far(middle), middle, outer), np.where(far(middle), inner, middle)
        ends.append(np.where(np.isnan(spread), np.nan, np.where(inner == estimate, estimate, outer)))
    return Interval(*ends)


def _hanley_mcneil(t: Floats, m: Floats, n: Floats) -> Floats:
    size = np.maximum((m + n) / 2.0 - 1.0, 0.0)
    pairs = np.maximum(m * n, 1e-9)
    return np.asarray(t * (1.0 - t) * (1.0 + size * ((1.0 - t) / (2.0 - t) + t / (1.0 + t))) / pairs)


def _design_effect(variance: Floats, independent: Floats, most: Floats, guess: Floats, n_units: Floats) -> Floats:
    """How much more a metric varies than without clustering (`most` where nothing varies), pulled towards a guess."""
    known = (independent > 0) & (variance > 0)
    seen = np.where(known, variance / np.where(known, independent, 1.0), most)
    return np.asarray(seen + _PRIOR / (_PRIOR + n_units) * (guess - seen))


def rate_interval(
    value: ArrayLike,
    error: ArrayLike,
    n: ArrayLike,
    per_unit: ArrayLike,
    *,
    level: float = 0.95,
    wider: ArrayLike = 1.0,
    variation: ArrayLike | None = None,
) -> Interval:
    """Interval of a share of `n` rows, `per_unit` of them from each patient (Agresti and Coull 1998).

    Never narrower than Wilson's, whose coverage dips near 0 and 1. `n` is divided by the design effect, at least 1.
    `wider` multiplies the normal quantile. How much clustering matters is told by the patients of the rarer outcome.
    `variation` is the variance of a row where the share is compared with what was predicted for these rows: outcomes
    vary less around good predictions than around their mean, by p (1 - p), so that fewer rows would say as much.
    """
    p, spread, size, each = (np.asarray(a, np.float64) for a in (value, error, n, per_unit))
    known = np.maximum(size, 1e-9)
    rarer = np.minimum(p, 1.0 - p) * known / each
    share = _of_mean(p, variation, rarer)
    effect = _design_effect(spread**2, p * (1.0 - p) * share / known, each, each, rarer)
    size = known / share / np.maximum(effect, 1.0)
    # A few outcomes that nobody expected make up what is left, as few as that share of them.
    quantile = np.where(share < 1.0, student_quantile(rarer * share - 1.0, level), _quantile(level))
    return _agresti_coull(p, size, quantile * np.asarray(wider, np.float64))


def _of_mean(p: Floats, variation: ArrayLike | None, rarer: Floats) -> Floats:
    """What part of p (1 - p) is left of a row's variance, at most 1: all of it where few patients tell."""
    if variation is None:
        return np.ones_like(p)
    left = np.asarray(variation, np.float64) / np.maximum(p * (1.0 - p), 1e-300)
    left = np.clip(np.nan_to_num(left, nan=1.0), _LEAST_LEFT, 1.0)
    return np.asarray(left + np.minimum(1.0, _FEW / np.maximum(rarer, 1e-9)) * (1.0 - left))


def _agresti_coull(p: Floats, n: Floats, z: Floats) -> Interval:
    size = n + z * z
    middle = (n * p + z * z / 2.0) / size
    half = z * np.sqrt(middle * (1.0 - middle) / size)
    return Interval(np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0))


def f1_interval(
    value: ArrayLike,
    error: ArrayLike,
    n: ArrayLike,
    per_unit: ArrayLike,
    *,
    level: float = 0.95,
    wider: ArrayLike = 1.0,
) -> Interval:
    """Interval of an F1: F / (2 - F) is the share of hits among the `n` rows that are positive or called so."""
    f = np.asarray(value, np.float64)
    slope = 2.0 / (2.0 - f) ** 2
    ends = rate_interval(f / (2.0 - f), slope * np.asarray(error, np.float64), n, per_unit, level=level, wider=wider)
    return Interval(*(2.0 * end / (1.0 + end) for end in ends))


def squared_error_interval(
    value: ArrayLike, error: ArrayLike, n_units: ArrayLike, freedom: ArrayLike, *, level: float = 0.95
) -> Interval:
    """Interval of a mean of squared errors (Brier score) over `n_units` patients.

    That of a rate, for the number of 0/1 errors that would vary as much, with Student's t. `freedom` are the patients
    of the rarer class, which carry most of the error. One more patient could be a complete miss, so the upper arm is at
    least that of 1 in `n_units`.
    """
    b, spread = np.asarray(value, np.float64), np.asarray(error, np.float64)
    t = student_quantile(freedom, level)
    varies = spread > 0
    n_like = np.where(varies, b * (1.0 - b) / np.where(varies, spread, 1.0) ** 2, 1e12)
    low, high = _agresti_coull(b, n_like, t)
    unseen = t / np.maximum(np.asarray(n_units, np.float64), 1.0)
    return Interval(np.minimum(low, b), np.minimum(b + np.hypot(high - b, unseen), 1.0))


def student_quantile(freedom: ArrayLike, level: float) -> Floats:
    """The quantile of Student's distribution that a two-sided interval of `level` takes."""
    return np.asarray(stdtrit(np.maximum(np.asarray(freedom, np.float64), 1.0), 0.5 + level / 2.0))


class Spread(NamedTuple):
    """The interval and the bootstrap standard error of each number; nan where there is none."""

    low: Floats
    high: Floats
    error: Floats


def metric_intervals(
    metrics: Sequence[str], point: Floats, values: Floats, counts: Counts, *, level: float = 0.95
) -> Spread:
    """The interval of every metric of `bootstrap`: `point` is [model, metric, label], `values` has the replicates last.

    Metrics that are neither ranks, rates nor errors have percentile intervals. A class of fewer than two
    patients gives no interval, nor does a rate of fewer than two.
    """
    error, each = defined_error(values), counts.per_unit
    low, high = np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    rows = denominators(metrics, point, counts)
    few = counts.units.min(axis=0) < FEWEST_UNITS
    around = point[:, list(metrics).index("brier")] if "brier" in metrics else None  # the mean squared distance
    for k, name in enumerate(metrics):
        value, own = point[:, k], error[:, k]
        too_few = np.broadcast_to(few, value.shape)
        if name in rows and name.startswith("f1"):
            n, kept = rows[name]
            ends = f1_interval(value, own, n, each, level=level, wider=_for_weights(name, kept))
            too_few = n / each < FEWEST_UNITS
        elif name in rows:
            n, kept = rows[name]
            ends = rate_interval(value, own, n, each, level=level, wider=_for_weights(name, kept))
            if "_at_" in name and "sensitivity" in name:  # its threshold jumps between tied scores, now and then
                ends = _widest(ends, percentile_interval(values[:, k], level=1.0 - (1.0 - level) / 5.0))
            else:
                too_few = n / each < FEWEST_UNITS
        else:
            ends = _interval(name, value, values[:, k], own, counts, level, around)
            if name == ERROR and NOISE in metrics:
                noise = values[:, list(metrics).index(NOISE)]
                ends = calibration_interval(value, values[:, k], noise, counts, level=level)
        unknown = too_few | np.isnan(value)
        low[:, k], high[:, k] = (np.where(unknown, np.nan, end) for end in ends)
    return Spread(low, high, error)


def _for_weights(name: str, kept: Floats) -> Floats:
    """How much wider a rate's interval is for heavy weights that the sample may by chance lack, as `make validity` has
    it: more where rows of both classes are counted together."""
    within = ("sensitivity", "specificity", "recall")
    return np.asarray(kept ** (-0.125 if name.startswith(within) else -0.25))


def _interval(
    name: str,
    value: Floats,
    values: Floats,
    error: Floats,
    counts: Counts,
    level: float,
    variation: Floats | None,
) -> Interval:
    """The interval of one metric that is no rate, [model, label]; `variation` is that of outcomes around risks."""
    positive, negative, each, units = counts.positive, counts.negative, counts.per_unit, counts.units
    freedom = units.min(axis=0)
    if name == "auroc":
        return auroc_interval(value, error, positive, negative, (units[0], units[1]), per_unit=each, level=level)
    if name == "auprc":
        # Few heavy negatives tell how many rank before the positives.
        wider = _for_weights(name, counts.kept_of_all) * student_quantile(freedom - 1, level) / _quantile(level)
        wider = wider / np.sqrt(counts.mixed)
        return rate_interval(value, error, positive, each, level=level, wider=wider)
    if name in ("brier", "mean_score"):  # both are means of numbers between 0 and 1, with a long tail
        return squared_error_interval(value, error, counts.total / each, freedom, level=level)
    if name == "brier_skill_score":
        # 1 - Brier / reference: the interval of the Brier score that has the skill's relative error.
        reference = np.maximum(counts.prevalence * (1.0 - counts.prevalence), 1e-12)
        ends = squared_error_interval(
            (1.0 - value) * reference, error * reference, counts.total / each, freedom, level=level
        )
        return Interval(1.0 - ends.high / reference, 1.0 - ends.low / reference)
    if name in ("oe_ratio", "calibration_in_the_large"):
        # What was observed has the interval of a rate, at the error of its comparison with what was predicted.
        observed = counts.prevalence
        if name == "calibration_in_the_large":
            ends = rate_interval(observed, error, counts.of_outcome, each, level=level, variation=variation)
            return Interval(ends.low + value - observed, ends.high + value - observed)
        predicted = np.divide(observed, value, out=np.full(value.shape, np.nan), where=value > 0)
        ends = rate_interval(observed, error * predicted, counts.of_outcome, each, level=level, variation=variation)
        return Interval(ends.low / predicted, ends.high / predicted)
    return percentile_interval(values, level=level)


def mean_interval(point: Floats, values: Floats, counts: Counts, *, level: float = 0.95) -> Spread:
    """The interval of a mean over many labels: the estimate and its standard error, a little wider for few patients."""
    error = defined_error(values)
    fewest = np.maximum(counts.units.min(axis=0), FEWEST_UNITS)
    reach = _quantile(level) * np.sqrt(fewest / (fewest - 1.0)) * error
    unknown = np.isnan(point) | (error == 0) | (counts.units.min(axis=0) < FEWEST_UNITS)
    return Spread(np.where(unknown, np.nan, point - reach), np.where(unknown, np.nan, point + reach), error)


def calibration_interval(
    value: Floats, values: Floats, noise: Floats, counts: Counts, *, level: float = 0.95
) -> Interval:
    """`error_interval`, longer where a few patients have most of the rows, with an upper arm that allows for one more
    patient who is a complete miss."""
    low, high = error_interval(value, values, noise, level=level)
    uneven = np.sqrt(np.maximum(counts.per_unit / counts.mean_per_unit, 1.0))
    unseen = _quantile(level) * counts.per_unit / np.maximum(counts.total, 1.0)
    above = np.hypot(uneven * (high - value), unseen)
    return Interval(np.maximum(value - uneven * (value - low), 0.0), np.minimum(value + above, 1.0))


def _widest(first: Interval, second: Interval) -> Interval:
    return Interval(np.fmin(first.low, second.low), np.fmax(first.high, second.high))


def defined_error(values: Floats) -> Floats:
    """The standard deviation of the replicates in which a metric is defined."""
    if values.shape[-1] < 2:
        return np.full(values.shape[:-1], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all replicates undefined: nan
        return np.asarray(np.nanstd(values, axis=-1, ddof=1))


def contrast_interval(
    values: Sequence[ArrayLike],
    ends: Sequence[Interval],
    errors: Sequence[ArrayLike],
    weights: Sequence[ArrayLike],
    error: ArrayLike,
    *,
    n_units: ArrayLike = np.inf,
) -> Interval:
    """Interval of the sum of weights x values, from the intervals and standard errors of its parts and its own error.

    With `n_units` patients, resamples that never differ do not show that two numbers never would: one patient more
    could, so the scale is pulled towards independence by that much.
    """
    total: Floats = np.zeros(())
    below, above, apart = np.zeros(()), np.zeros(()), np.zeros(())
    for each, (low, high), own, share in zip(values, ends, errors, weights, strict=True):
        value, weight = np.asarray(each, np.float64), np.asarray(share, np.float64)
        down, up = value - low, high - value
        total = total + weight * value
        below = below + (weight * np.where(weight > 0, down, up)) ** 2
        above = above + (weight * np.where(weight > 0, up, down)) ** 2
        apart = apart + (weight * np.asarray(own, np.float64)) ** 2
    ratio = np.divide(np.asarray(error, np.float64) ** 2, apart, out=np.ones_like(apart), where=apart > 0)
    ratio = ratio + (1.0 - np.minimum(ratio, 1.0)) / (1.0 + np.asarray(n_units, np.float64))
    return Interval(np.asarray(total - np.sqrt(below * ratio)), np.asarray(total + np.sqrt(above * ratio)))
