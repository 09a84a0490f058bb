"""Pass rates with intervals that hold for other wordings: base templates are resampled (ADE template paper, Section 5).

The cases of a template are one sentence with different words in its slots, so each further case adds little; the
template is the unit that is resampled. A test may have only two or three templates, and their rates lie near 0 or 1. So
an interval is the widest of three. First, the percentile interval, widened by the ratio of Student's t to the normal
distribution and by the root of k / (k - 1) for k templates. Second, Wilson's interval for the number of independent
cases that would vary as much (Dean and Pagano 2015), with t in place of the normal distribution. Third, where all
templates agree (each passes at least 90% of its cases, or at most 10%) and so say nothing about a wording that fails,
Wilson's interval with the number of templates as n. Means and differences of independent rates get their intervals from
those of their parts (Zou and Donner 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc
from scipy.stats import norm, t

from palpate.stats.bootstrap import resample_counts
from palpate.stats.clustered import ratio_replicates, resampled_ratios
from palpate.stats.intervals import percentile_interval, wilson_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MOST_KEPT = 150
"""Units whose draws are kept: suites have tens of templates, cohorts thousands of patients."""
AGREE = 0.90
"""Templates agree if each passes at least this share of its cases, or each fails it."""


@dataclass(frozen=True, eq=False)
class ClusterBootstrap:
    """A bootstrap of templates or patients; for the same number of units, the same resamples are used again."""

    level: float = 0.95
    n_replicates: int = 10_000
    seed: int = 0
    unit: str = "templates"
    _drawn: dict[int, NDArray[np.int32]] = field(default_factory=dict)

    def ratios(self, counts: ClusterCounts) -> Floats:
        """Replicates of sum(passed) / sum(n), [column, replicate]."""
        passed, n, n_units = counts.passed, counts.n[:, None], len(counts.n)
        over, seed, n_replicates = np.zeros(passed.shape[1], dtype=np.int64), self.seed, self.n_replicates
        if n_units > _MOST_KEPT:
            return ratio_replicates(passed, n, over=over, rng=seed, n_replicates=n_replicates)
        if n_units not in self._drawn:
            units = np.arange(n_units)
            self._drawn[n_units] = resample_counts(rng=seed, n_replicates=n_replicates, patient=units)
        return resampled_ratios(passed, n, self._drawn[n_units], over=over)


class ClusterCounts(NamedTuple):
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
    """Numbers with their intervals, arrays of one shape; even one template has both ends."""

    value: Floats
    low: Floats
    high: Floats

    def column(self, k: int) -> Rates:
        """Those of one column (a model)."""
        return Rates(*(np.asarray(part[k]) for part in self))


@dataclass(frozen=True, eq=False)
class ClusteredRates:
    """The pass rates of one group of cases, one column per model, and the replicates that they share."""

    rates: Rates
    values: Floats
    """[column, replicate]"""
    agree: Flags
    """Whether all templates agree."""
    n_units: int
    n: int
    unit: str = "templates"
    """What is resampled."""

    def paired_difference(self, a: int, b: int, *, level: float) -> Rates:
        """Column a less column b, on the same resamples; where the templates of either agree, as if independent."""
        value = self.rates.value[a] - self.rates.value[b]
        if self.n_units < 2 or self.agree[a] or self.agree[b]:
            return difference(self.rates.column(a), self.rates.column(b))
        low, high = widened(np.asarray(value), self.values[a] - self.values[b], self.n_units, level=level)
        return Rates(np.asarray(value), np.clip(low, -1, 1), np.clip(high, -1, 1))


@dataclass(frozen=True, eq=False)
class AveragedRates:
    """The mean over several groups of cases, each counted alike."""

    parts: Sequence[ClusteredRates]
    unit: str = "templates"

    @cached_property
    def rates(self) -> Rates:
        """One column per model."""
        return mean([part.rates for part in self.parts])

    @property
    def n_units(self) -> int:
        """How many templates there are in all."""
        return sum(part.n_units for part in self.parts)

    @property
    def n(self) -> int:
        """How many cases there are in all."""
        return sum(part.n for part in self.parts)

    def paired_difference(self, a: int, b: int, *, level: float) -> Rates:
        """Column a less column b, paired within each group."""
        return mean([part.paired_difference(a, b, level=level) for part in self.parts])


def count_by(unit: Ints, passed: Floats) -> ClusterCounts:
    """Sum [column, case] by unit; units are numbered anew, in the order of their numbers."""
    _, code, n = np.unique(unit, return_inverse=True, return_counts=True)
    sums = np.zeros((len(n), len(passed)))
    np.add.at(sums, code, passed.T)
    return ClusterCounts(sums, n.astype(np.int64))


def pass_rates(counts: ClusterCounts, bootstrap: ClusterBootstrap) -> ClusteredRates:
    """Pass rates over all cases, resampled by unit."""
    level, n_units, n_columns = bootstrap.level, counts.n_units, counts.passed.shape[1]
    n = int(counts.n.sum())
    if n == 0:
        nothing = np.full(n_columns, np.nan)
        return ClusteredRates(Rates(*[nothing] * 3), np.zeros((n_columns, 0)), np.zeros(n_columns, bool), 0, 0)
    point = counts.passed.sum(axis=0) / n
    values = bootstrap.ratios(counts)
    rates = counts.rates
    agree = (rates.min(axis=0) >= AGREE) | (rates.max(axis=0) <= 1 - AGREE)
    low, high = widened(point, values, n_units, level=level)
    for n_independent, where in (
        (_effective(counts, point, level), np.ones(n_columns, dtype=bool)),
        (np.full(n_columns, n_units), agree | (n_units < 2)),
    ):
        wilson = wilson_interval(np.clip(point, 0, 1), n_independent, level=level)
        low = np.where(where, np.fmin(low, wilson.low), low)
        high = np.where(where, np.fmax(high, wilson.high), high)
    ends = np.clip(low, 0, 1), np.clip(high, 0, 1)
    return ClusteredRates(Rates(point, *ends), values, agree, n_units, n, bootstrap.unit)


def _effective(counts: ClusterCounts, point: Floats, level: float) -> Floats:
    """How many independent cases would vary as much, divided by the squared ratio of t to the normal distribution.

    0, which is no number of cases, for a single unit and where nothing varies.
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


def mean_movements(counts: ClusterCounts, bootstrap: ClusterBootstrap) -> ClusteredRates:
    """Means of numbers that are not shares (they lie between -1 and 1), resampled by unit.

    Units that are all alike say nothing about how others would vary, so there is no interval: its ends are NaN.
    """
    point = counts.passed.sum(axis=0) / int(counts.n.sum())
    values = bootstrap.ratios(counts)
    low, high = widened(point, values, counts.n_units, level=bootstrap.level)
    alike = np.ptp(counts.rates, axis=0) <= 1e-9
    rates = Rates(point, *(np.where(alike, np.nan, np.clip(end, -1, 1)) for end in (low, high)))
    return ClusteredRates(rates, values, np.zeros(len(point), dtype=bool), counts.n_units, int(counts.n.sum()))


def widened(point: Floats, values: Floats, n_units: int, *, level: float) -> tuple[Floats, Floats]:
    """The percentile interval, wider for few units; NaN for a single one."""
    if n_units < 2:
        return np.full(point.shape, np.nan), np.full(point.shape, np.nan)
    wider = np.sqrt(n_units / (n_units - 1)) * _t_over_normal(n_units, level)
    low, high = percentile_interval(values, level=level)
    return point - wider * (point - low), point + wider * (high - point)


def difference(first: Rates, second: Rates) -> Rates:
    """One rate less another that is independent of it."""
    value = first.value - second.value
    below = np.hypot(first.value - first.low, second.high - second.value)
    above = np.hypot(first.high - first.value, second.value - second.low)
    return Rates(value, value - below, value + above)


def mean(parts: Sequence[Rates]) -> Rates:
    """The mean of independent rates, each counted alike."""
    each, low, high = (np.stack([np.asarray(part[k]) for part in parts]) for k in range(3))
    value = each.mean(axis=0)
    below = np.sqrt(((each - low) ** 2).sum(axis=0)) / len(parts)
    above = np.sqrt(((high - each) ** 2).sum(axis=0)) / len(parts)
    return Rates(value, value - below, value + above)


def p_of_interval(rates: Rates, *, level: float, n_replicates: int) -> Floats:
    """Two-sided p-value of "no difference": that of a normal distribution with the interval's end on the side of 0.

    So p is below 1 - level exactly where the interval excludes 0.
    """
    z = norm.ppf(0.5 + level / 2)
    value = np.asarray(rates.value)
    error = np.where(value > 0, value - rates.low, rates.high - value) / z
    known = error > 0
    p = np.asarray(erfc(np.abs(value) / np.where(known, error, 1.0) / np.sqrt(2)))
    # An interval without width comes from resamples that are all alike; p can't be below what their number allows.
    p = np.where(known, p, 2 / (n_replicates + 1))
    return np.asarray(np.where(np.isnan(value), np.nan, np.where(value == 0, 1.0, p)))
