"""Changes over time: has a metric changed at some date, and does it have a trend?

A metric over some periods is a ratio of sums over their rows: a sensitivity is flagged positives over positives, and an
AUROC the mean over periods of each period's own, so that a shift of all scores from one period to the next is no change
of it. A row's *excess* is what it adds to the numerator beyond what the overall metric would have it add.

The change-point test compares all that comes before a date with all that comes after it, at every date between two
periods, and takes the largest standardised difference. By chance alone the largest of many is large, so it is held
against the largest of as many jointly normal numbers, with the correlations that patients' own sums show, over all
dates, metrics, models and labels at once (a multiplier bootstrap with normal multipliers, which needs no resampling).
A standard error is the larger of two: from the sums on both sides, and from all rows, as if nothing had changed; the
first alone is too small where one side has few rows that are all alike. Measured by `make validity`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from palpate.stats.inputs import Floats

Ints = NDArray[np.int64]
_MOST_VALUES = 20_000_000
FEWEST_PATIENTS = 10
"""On each side of a date: with the outcome, for a sensitivity; of each class, for an AUROC."""


class Excesses(NamedTuple):
    """A metric: the excess and the size (what it adds to the denominator) of each row; 0 where a row does not count."""

    excess: Floats
    size: Floats
    counted: tuple[NDArray[np.bool_], ...]
    """The rows whose patients must be many: one set, or each class."""
    factor: float = 1.0
    """What the excesses are too large by: those of both classes sum to twice the change of an AUROC."""

    @property
    def known(self) -> bool:
        """Whether the metric is defined at all."""
        return bool(np.isfinite(self.excess).all() and self.size.sum() > 0)


def ratio_excesses(numerator: Floats, denominator: Floats, weight: Floats | None = None) -> Excesses:
    """A ratio of sums, such as a rate: flagged positives over positives."""
    mass = np.ones(len(numerator)) if weight is None else weight
    above, below = mass * numerator, mass * denominator
    total = float(below.sum())
    overall = float(above.sum()) / total if total else np.nan
    return Excesses(above - overall * below, below, (below > 0,))


def auroc_excesses(y_true: NDArray[np.uint8], y_score: Floats, period: Ints, weight: Floats | None = None) -> Excesses:
    """The mean of the periods' AUROCs, each weighted by how much it tells: 1 / (1 / positives + 1 / negatives).

    A row adds its placement among the other class of its period (DeLong and colleagues 1988).
    """
    mass = np.ones(len(y_score)) if weight is None else weight
    positive = y_true.astype(bool)
    placed, share = np.zeros(len(y_score)), np.zeros(len(y_score))
    for k in np.unique(period):
        rows = period == k
        here, others = rows & positive, rows & ~positive
        n_here, n_others = float(mass[here].sum()), float(mass[others].sum())
        if n_here > 0 and n_others > 0:
            told = 1.0 / (1.0 / n_here + 1.0 / n_others)
            placed[here] = _placement(y_score[here], y_score[others], mass[others])
            placed[others] = 1.0 - _placement(y_score[others], y_score[here], mass[here])
            share[here], share[others] = told * mass[here] / n_here, told * mass[others] / n_others
    total = float(share.sum())
    overall = float((share * placed).sum()) / total if total else np.nan
    counts = share > 0
    return Excesses(share * (placed - overall), share / 2.0, (counts & positive, counts & ~positive), 0.5)


def _placement(scores: Floats, among: Floats, mass: Floats) -> Floats:
    """The share of others that lie below each score; ties count half."""
    order = np.argsort(among, kind="stable")
    total = np.append(0.0, np.cumsum(mass[order]))
    below, upto = (total[np.searchsorted(among[order], scores, side=side)] for side in ("left", "right"))
    return np.asarray((below + upto) / (2.0 * total[-1]))


class ChangeTest(NamedTuple):
    """One number per metric; nan where no date has enough patients on both sides."""

    after: Ints
    """The first period after the date with the largest standardised difference; -1 where there is none."""
    difference: Floats
    """After that date less before it."""
    low: Floats
    high: Floats
    """An interval that holds for all dates and metrics at once, so it excludes 0 exactly where `p_value` is small."""
    p_value: Floats
    """Corrected over all dates and metrics."""
    n_dates: Ints
    """The dates that were compared."""


class _Dates(NamedTuple):
    """Comparisons of before and after, [comparison], and how they follow from the sums of each metric and period."""

    metric: Ints
    after: Ints
    weights: Floats
    """[comparison, metric x period]"""
    pooled: Floats
    """The variance of each comparison if nothing has changed."""
    freedom: Floats


def change_test(
    metrics: Sequence[Excesses],
    period: Ints,
    patient: Ints,
    n_periods: int,
    *,
    rng: np.random.Generator,
    n_draws: int = 20_000,
    level: float = 0.95,
) -> ChangeTest:
    """Whether each metric changed between two periods; all metrics are of the same rows, whose periods count from 0."""
    sums = _sums(metrics, period, patient, n_periods)
    together = np.asarray((sums.T @ sums).toarray(), np.float64)
    dates = _dates(metrics, period, patient, together, n_periods)
    difference, low, high, p_value = (np.full(len(metrics), np.nan) for _ in range(4))
    n_dates = np.bincount(dates.metric, minlength=len(metrics)).astype(np.int64)
    out = ChangeTest(np.full(len(metrics), -1, np.int64), difference, low, high, p_value, n_dates)
    if not len(dates.metric):
        return out
    factor = np.asarray([metric.factor for metric in metrics])[dates.metric]
    change = factor * (dates.weights @ np.asarray(sums.sum(axis=0)).ravel())
    covariance = dates.weights @ together @ dates.weights.T
    robust = np.diag(covariance).clip(0.0)
    error = np.sqrt(np.maximum(robust, dates.pooled))
    known = error > 0
    z = np.divide(np.abs(change), error, out=np.zeros_like(change), where=known)
    z = _normal(z, dates.freedom)
    highest = _highest(covariance, robust, rng, n_draws)
    critical = float(np.quantile(highest, level, method="higher"))
    for k in range(len(metrics)):
        own = np.flatnonzero((dates.metric == k) & known)
        if not len(own):
            continue
        best = int(own[np.argmax(z[own])])
        arm = _student(critical, float(dates.freedom[best])) * error[best]
        out.after[k] = dates.after[best]
        difference[k], low[k], high[k] = change[best], change[best] - arm, change[best] + arm
        p_value[k] = (1.0 + float((highest >= z[best]).sum())) / (1.0 + n_draws)
    return out


def _sums(metrics: Sequence[Excesses], period: Ints, patient: Ints, n_periods: int) -> sparse.csr_array:
    """The excess of each patient, [patient, metric x period]; a metric that is not defined has none."""
    _, code = np.unique(patient, return_inverse=True)
    column = np.concatenate([k * n_periods + period for k in range(len(metrics))])
    row = np.tile(code, len(metrics))
    value = np.concatenate([metric.excess if metric.known else np.zeros(len(period)) for metric in metrics])
    used = value != 0
    shape = (int(code.max(initial=-1)) + 1, len(metrics) * n_periods)
    return sparse.csr_array(sparse.coo_array((value[used], (row[used], column[used])), shape=shape))


def _dates(metrics: Sequence[Excesses], period: Ints, patient: Ints, together: Floats, n_periods: int) -> _Dates:
    metric, after, weights, pooled, freedom = [], [], [], [], []
    for k, each in enumerate(metrics):
        if not each.known:
            continue
        own = slice(k * n_periods, (k + 1) * n_periods)
        size = np.bincount(period, weights=each.size, minlength=n_periods)
        both = float(together[own, own].sum()) / float(size.sum())
        sides = [_patients(rows, period, patient, n_periods) for rows in each.counted]
        for date in range(1, n_periods):
            if min(int(n[date]) for side in sides for n in side) < FEWEST_PATIENTS:
                continue
            below, above = float(size[:date].sum()), float(size[date:].sum())
            row = np.zeros((len(metrics), n_periods))
            row[k, :date], row[k, date:] = -1.0 / below, 1.0 / above
            metric.append(k)
            after.append(date)
            weights.append(row.ravel())
            pooled.append(both * (1.0 / below + 1.0 / above))
            freedom.append(min(float(first[date] + second[date]) for first, second in sides) - 2.0)
    return _Dates(
        np.asarray(metric, np.int64),
        np.asarray(after, np.int64),
        np.asarray(weights).reshape(len(metric), len(metrics) * n_periods),
        np.asarray(pooled),
        np.asarray(freedom),
    )


def _patients(rows: NDArray[np.bool_], period: Ints, patient: Ints, n_periods: int) -> tuple[Ints, Ints]:
    """How many patients have a row before and after each date."""
    _, code = np.unique(patient[rows], return_inverse=True)
    n = int(code.max(initial=-1)) + 1
    first, last = np.full(n, n_periods), np.zeros(n, np.int64)
    np.minimum.at(first, code, period[rows])
    np.maximum.at(last, code, period[rows])
    started, ended = (np.cumsum(np.bincount(each, minlength=n_periods)) for each in (first, last))
    before: Ints = np.append(0, started[: n_periods - 1])
    after: Ints = n - np.append(0, ended[: n_periods - 1])
    return before, after


def _normal(z: Floats, freedom: Floats) -> Floats:
    """The normal number that is as unlikely as Student's."""
    return np.asarray(-ndtri(np.maximum(stdtr(freedom, -z), 1e-300)))


def _student(z: float, freedom: float) -> float:
    """Student's number that is as unlikely as the normal one."""
    return -float(stdtrit(freedom, ndtr(-z)))


def _highest(covariance: Floats, variance: Floats, rng: np.random.Generator, n_draws: int) -> Floats:
    """The largest of the absolute values in each draw of jointly normal numbers with these correlations."""
    known = variance > 0
    scale = np.sqrt(variance[known])
    correlation = covariance[np.ix_(known, known)] / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    used = values > values.max(initial=0.0) * 1e-10
    factor = vectors[:, used] * np.sqrt(values[used])
    highest = np.zeros(n_draws)
    step = max(1, _MOST_VALUES // max(len(factor), 1))
    for low in range(0, n_draws, step):
        drawn = rng.standard_normal((min(step, n_draws - low), factor.shape[1]))
        highest[low : low + step] = np.abs(drawn @ factor.T).max(axis=1, initial=0.0)
    return highest


class Trend(NamedTuple):
    """The change of each metric per unit of time, with its interval; nan with too few patients."""

    slope: Floats
    low: Floats
    high: Floats
    n_patients: Ints


def trends(metrics: Sequence[Excesses], time: Floats, patient: Ints, *, level: float = 0.95) -> Trend:
    """A straight line through each metric over time, by least squares, with standard errors by patient.

    `time` is that of a row's period, such as its middle.
    """
    _, code = np.unique(patient, return_inverse=True)
    found = np.full((3, len(metrics)), np.nan)
    n_patients = np.zeros(len(metrics), np.int64)
    for k, metric in enumerate(metrics):
        if not metric.known:
            continue
        n_patients[k] = min(len(np.unique(code[rows])) for rows in metric.counted)
        from_middle = time - float((metric.size * time).sum()) / float(metric.size.sum())
        spread = float((metric.size * from_middle**2).sum())
        if spread <= 0 or n_patients[k] < FEWEST_PATIENTS:
            continue
        slope = metric.factor * float((metric.excess * from_middle).sum()) / spread
        left = metric.excess - slope * from_middle * metric.size / metric.factor
        by_patient = np.bincount(code, weights=left * from_middle) / spread
        freedom = float(n_patients[k]) - 2.0
        error = np.sqrt(float((by_patient**2).sum()) * n_patients[k] / freedom)
        arm = float(stdtrit(freedom, 0.5 + level / 2.0)) * error
        found[:, k] = slope, slope - arm, slope + arm
    return Trend(found[0], found[1], found[2], n_patients)
