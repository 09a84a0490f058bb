"""Pass rates with intervals that speak of other wordings: resampled by base template (ADE template paper, Section 5).

The cases of a template are the same sentence with other words in its slots, so they tell little that is new; the
template is what is resampled. A test may have two or three, and their rates lie near the ends. So an interval is the
widest of three: the percentile interval, widened by what Student's t has over the normal distribution, times the root
of k / (k - 1) for k templates; Wilson's, with the number of independent cases that would vary as much (Dean and Pagano
2015), and t in the place of the normal; and, where all templates agree (each passes at least 90% of its cases, or at
most 10%), so that nothing is known of a wording that fails, Wilson's with templates as n. Sums and differences of
independent rates get their interval from those of their parts (Zou and Donner 2008).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc
from scipy.stats import norm, t

from palpate.cases.edits import Ints
from palpate.stats import percentile_interval, ratio_replicates, resample_counts, resampled_ratios, wilson_interval

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_MOST_KEPT = 150
"""Units whose draws are kept: suites have tens of templates, cohorts thousands of patients."""
AGREE = 0.90
"""Templates agree if all pass at least this share of their cases, or all fail it."""


@dataclass(frozen=True)
class Resampling:
    """How intervals are made. As many templates are drawn once only, whatever they are templates of."""

    level: float
    n_replicates: int
    seed: int
    _drawn: dict[int, NDArray[np.int32]] = field(default_factory=dict, compare=False, repr=False)

    def ratios(self, passed: Floats, n: Ints) -> Floats:
        """Replicates of sum(passed) / sum(n), [column, replicate], from [unit, column] and [unit]."""
        over = np.zeros(passed.shape[1], dtype=np.int64)
        n_units = len(n)
        if n_units > _MOST_KEPT:
            return ratio_replicates(passed, n[:, None], over=over, rng=self.seed, n_replicates=self.n_replicates)
        if n_units not in self._drawn:
            units = np.arange(n_units)
            self._drawn[n_units] = resample_counts(rng=self.seed, n_replicates=self.n_replicates, patient=units)
        return resampled_ratios(passed, n[:, None], self._drawn[n_units], over=over)


class Tally(NamedTuple):
    """Cases by template (or patient): how many passed, [unit, column], and how many there are, [unit]."""

    passed: Floats
    n: Ints

    @property
    def n_units(self) -> int:
        """How many templates (or patients) can be drawn."""
        return int((self.n > 0).sum())

    @property
    def rates(self) -> Floats:
        """[unit, column]: the pass rate of each unit."""
        return np.asarray(self.passed / np.maximum(self.n, 1)[:, None])


class Rates(NamedTuple):
    """Numbers with their intervals, arrays of one shape; the ends are always there, even for one template."""

    value: Floats
    low: Floats
    high: Floats


class Measured(NamedTuple):
    """The pass rates of one group of cases, a column a model, and the replicates that they share."""

    rates: Rates
    values: Floats
    """[column, replicate]"""
    agree: Flags
    """Whether all templates agree."""
    n_units: int
    n: int


def tally(passed: Floats, unit: Ints) -> Tally:
    """Sum [case, column] by unit; units are numbered anew, in the order of their numbers."""
    _, code, n = np.unique(unit, return_inverse=True, return_counts=True)
    table = np.zeros((len(n), passed.shape[1]))
    np.add.at(table, code, passed)
    return Tally(table, n.astype(np.int64))


def measure(counts: Tally, how: Resampling) -> Measured:
    """Pass rates over all cases, resampled by unit."""
    n_columns = counts.passed.shape[1]
    n = int(counts.n.sum())
    if n == 0:
        nothing = np.full(n_columns, np.nan)
        return Measured(Rates(nothing, nothing, nothing), np.zeros((n_columns, 0)), np.zeros(n_columns, bool), 0, 0)
    point = counts.passed.sum(axis=0) / n
    values = how.ratios(counts.passed, counts.n)
    rates = counts.rates
    agree = (rates.min(axis=0) >= AGREE) | (rates.max(axis=0) <= 1 - AGREE)
    low, high = widened(point, values, counts.n_units, level=how.level)
    for n_independent, where in (
        (_effective(counts, point, how.level), np.ones(n_columns, dtype=bool)),
        (np.full(n_columns, counts.n_units), agree | (counts.n_units < 2)),
    ):
        wilson = wilson_interval(np.clip(point, 0, 1), n_independent, level=how.level)
        low = np.where(where, np.fmin(low, wilson.low), low)
        high = np.where(where, np.fmax(high, wilson.high), high)
    return Measured(Rates(point, np.clip(low, 0, 1), np.clip(high, 0, 1)), values, agree, counts.n_units, n)


def _effective(counts: Tally, point: Floats, level: float) -> Floats:
    """How many independent cases would vary as much, fewer by the square of what t has over the normal distribution.

    0, which is no number, for one unit and where nothing varies.
    """
    k, n = counts.n_units, int(counts.n.sum())
    if k < 2:
        return np.zeros(point.shape)
    residual = counts.passed - counts.n[:, None] * point
    variance = (residual**2).sum(axis=0) * k / (k - 1) / n**2
    spread = point * (1 - point)
    varies = (variance > 1e-12) & (spread > 1e-12)
    n_independent = np.where(varies, np.minimum(spread / np.where(varies, variance, 1.0), n), 0.0)
    return np.asarray(n_independent / _t_over_normal(k, level) ** 2)


def _t_over_normal(n_units: int, level: float) -> float:
    tail = 0.5 + level / 2
    return float(t.ppf(tail, n_units - 1) / norm.ppf(tail))


def measure_mean(counts: Tally, how: Resampling) -> Measured:
    """Means of numbers that are no shares (they lie between -1 and 1), resampled by unit.

    Units that are all alike tell nothing of how others would vary, so there is no interval: its ends are NaN.
    """
    point = counts.passed.sum(axis=0) / int(counts.n.sum())
    values = how.ratios(counts.passed, counts.n)
    low, high = widened(point, values, counts.n_units, level=how.level)
    alike = np.ptp(counts.rates, axis=0) <= 1e-9
    low, high = (np.where(alike, np.nan, np.clip(end, -1, 1)) for end in (low, high))
    rates = Rates(point, low, high)
    return Measured(rates, values, np.zeros(len(point), dtype=bool), counts.n_units, int(counts.n.sum()))


def widened(point: Floats, values: Floats, n_units: int, *, level: float) -> tuple[Floats, Floats]:
    """The percentile interval, wider for few units; NaN for one."""
    if n_units < 2:
        return np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    wider = np.sqrt(n_units / (n_units - 1)) * _t_over_normal(n_units, level)
    low, high = percentile_interval(values, level=level)
    return point - wider * (point - low), point + wider * (high - point)


def paired_difference(measured: Measured, a: int, b: int, *, level: float) -> Rates:
    """Column a less column b, on the same resamples; as of independent rates where either's templates agree."""
    value = measured.rates.value[a] - measured.rates.value[b]
    apart = difference(_column(measured.rates, a), _column(measured.rates, b))
    if measured.n_units < 2 or measured.agree[a] or measured.agree[b]:
        return apart
    low, high = widened(np.asarray(value), measured.values[a] - measured.values[b], measured.n_units, level=level)
    return Rates(np.asarray(value), np.clip(low, -1, 1), np.clip(high, -1, 1))


def _column(rates: Rates, column: int) -> Rates:
    return Rates(*(np.asarray(part[column]) for part in rates))


def difference(first: Rates, second: Rates) -> Rates:
    """One rate less another that is independent of it."""
    value = first.value - second.value
    below = np.hypot(first.value - first.low, second.high - second.value)
    above = np.hypot(first.high - first.value, second.value - second.low)
    return Rates(value, value - below, value + above)


def mean(parts: Rates) -> Rates:
    """The mean of independent rates along the first axis, each counted alike."""
    n = len(parts.value)
    value = parts.value.mean(axis=0)
    below = np.sqrt(((parts.value - parts.low) ** 2).sum(axis=0)) / n
    above = np.sqrt(((parts.high - parts.value) ** 2).sum(axis=0)) / n
    return Rates(value, value - below, value + above)


def stack(parts: list[Rates]) -> Rates:
    """Several rates as one, along a new first axis."""
    return Rates(*(np.stack([np.asarray(part[k]) for part in parts]) for k in range(3)))


def p_of_interval(rates: Rates, *, level: float, n_replicates: int) -> Floats:
    """Two-sided p of "no difference": that of a normal distribution which has the interval's end on the side of 0.

    So p is below 1 - level just where the interval leaves 0 out.
    """
    z = norm.ppf(0.5 + level / 2)
    value = np.asarray(rates.value)
    error = np.where(value > 0, value - rates.low, rates.high - value) / z
    known = error > 0
    p = np.asarray(erfc(np.abs(value) / np.where(known, error, 1.0) / np.sqrt(2)))
    # An interval without width comes from resamples that are all alike, and there are not more of them than this.
    p = np.where(known, p, 2 / (n_replicates + 1))
    return np.asarray(np.where(np.isnan(value), np.nan, np.where(value == 0, 1.0, p)))
