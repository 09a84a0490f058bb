"""Rates with intervals that hold for other wordings, charts and patients: what is counted comes in clusters.

The sentences of a template are one sentence with different words in its slots, and the evidence of a chart is that of
one patient, so a further case of the same cluster adds little (ADE template paper, Section 5). There may be few
clusters, of unequal size, and their rates may all lie near 0 or 1: then they say little about a cluster that differs.

An interval is Wilson's for the number of independent cases that would vary as much (Dean and Pagano 2015), with four
changes. Two clusters of average size are added, one that passes all its cases and one that fails all of them (as
Agresti and Coull add two cases); they only enter the variance, so that clusters which are all alike leave a real doubt.
Residuals are divided by one less their cluster's share of the cases, as in a jackknife. Student's t takes the place of
the normal distribution. And its degrees of freedom are those of as many clusters of equal size as would weigh as much.

Means and differences get their intervals from those of their parts (Zou and Donner 2008; Newcombe 1998 for pairs). The
correlation of a pair is shrunk by (k - 1) / (k + 1) for k clusters: two models that agree in all of a few clusters may
differ in the next. `make validity` measures the coverage of all of them.

Sentences that stand in notes belong to two clusters at once. The doubt about other templates and that about other notes
are added, less that of single cases, which is in both (Cameron, Gelbach and Miller 2011), and never below the larger.
Tests in the same notes are then not independent, and their mean allows for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from palpate.stats.intervals import wilson_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Rates(NamedTuple):
    """Numbers with their intervals, arrays of one shape."""

    value: Floats
    low: Floats
    high: Floats

    def column(self, k: int) -> Rates:
        """Those of one column (a model)."""
        return Rates(*(np.asarray(part[k]) for part in self))


class ClusteredRatios(NamedTuple):
    """Shares of clustered cases, one per column, with intervals; even one cluster has both ends."""

    rates: Rates
    residual: Floats
    """[cluster, column] what each cluster adds to the share of all."""
    n_clusters: Ints
    """[column] clusters with a case."""
    n_equal: Floats
    """[column] as many clusters of equal size would weigh as much."""

    def columns(self, which: Any) -> ClusteredRatios:
        """Some of the columns, by index or mask."""
        rates = Rates(*(part[which] for part in self.rates))
        return ClusteredRatios(rates, self.residual[:, which], self.n_clusters[which], self.n_equal[which])


def clustered_ratios(
    passed: ArrayLike, n: ArrayLike, *, level: float = 0.95, added: ArrayLike | None = None
) -> ClusteredRatios:
    """sum(passed) / sum(n) of each column of [cluster, column] tables, with 0 <= passed <= n; nan where n sums to 0.

    `added` is the size of the two clusters that are added to the variance: that of an average cluster, unless it is
    known that cases pass independently of each other (words drawn at random), so that no cluster can pass as a whole.
    """
    above, below = np.broadcast_arrays(np.asarray(passed, np.float64), np.asarray(n, np.float64))
    n_independent, n_equal = _independent_cases(above, below, level, added)
    return _ratios(above, below, n_independent, n_equal, level)


def _independent_cases(
    above: Floats, below: Floats, level: float, added: ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """[column] as many independent cases vary as much, and as many clusters of equal size weigh as much."""
    total, k = below.sum(axis=0), (below > 0).sum(axis=0)
    known = total > 0
    size = np.where(known, total, 1.0)
    extra = size / np.maximum(k, 1) if added is None else np.broadcast_to(np.asarray(added, np.float64), size.shape)
    larger = size + 2.0 * extra
    middle = (above.sum(axis=0) + extra) / larger
    spread = (above - middle * below) / (1.0 - below / larger)
    variance = ((spread**2).sum(axis=0) + extra**2 * (middle**2 + (1.0 - middle) ** 2)) / larger**2
    squares = (below**2).sum(axis=0)
    n_equal = np.where(known, size**2 / np.where(known, squares, 1.0), 0.0)
    tail = 0.5 + level / 2.0
    wider = stdtrit(np.maximum(n_equal - 1.0, 1.0), tail) / ndtri(tail)
    return np.asarray(middle * (1.0 - middle) / variance / wider**2), n_equal


def _ratios(above: Floats, below: Floats, n_independent: Floats, n_equal: Floats, level: float) -> ClusteredRatios:
    """The shares with Wilson's interval for a number of independent cases."""
    total, k = below.sum(axis=0), (below > 0).sum(axis=0)
    known = total > 0
    size = np.where(known, total, 1.0)
    value = np.clip(above.sum(axis=0) / size, 0.0, 1.0)
    ends = wilson_interval(value, n_independent, level=level)
    rates = Rates(*(np.where(known, part, np.nan) for part in (value, ends.low, ends.high)))
    return ClusteredRatios(rates, (above - value * below) / size, k.astype(np.int64), n_equal)


def clustered_means(total: ArrayLike, n: ArrayLike, *, level: float = 0.95) -> ClusteredRatios:
    """sum(total) / sum(n) of numbers between -1 and 1: shares of the way from -1 to 1.

    A whole cluster at either end is rarer than one that passes or fails all its cases, so those that are added have two
    thirds of the size.
    """
    sums, size = np.broadcast_arrays(np.asarray(total, np.float64), np.asarray(n, np.float64))
    smaller = 2.0 / 3.0 * size.sum(axis=0) / np.maximum((size > 0).sum(axis=0), 1)
    found = clustered_ratios((sums + size) / 2.0, size, level=level, added=np.where(smaller > 0, smaller, 1.0))
    rates = Rates(*(2.0 * part - 1.0 for part in found.rates))
    return found._replace(rates=rates, residual=2.0 * found.residual)


def paired_difference(first: ClusteredRatios, second: ClusteredRatios) -> Rates:
    """The columns of one table less those of another about the same clusters."""
    ours, theirs = first.residual, second.residual
    spread = np.sqrt((ours**2).sum(axis=0) * (theirs**2).sum(axis=0))
    together = (ours * theirs).sum(axis=0)
    r = np.divide(together, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    k = np.maximum(np.minimum(first.n_equal, second.n_equal), 1.0)
    return difference(first.rates, second.rates, np.where(r > 0, r * (k - 1.0) / (k + 1.0), r))


def difference(first: Rates, second: Rates, correlation: ArrayLike = 0.0) -> Rates:
    """One rate less another; by default the two are independent."""
    r = np.asarray(correlation, np.float64)
    value = first.value - second.value
    below = _joint(first.value - first.low, second.high - second.value, r)
    above = _joint(first.high - first.value, second.value - second.low, r)
    return Rates(value, value - below, value + above)


def _joint(ours: Floats, theirs: Floats, correlation: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(ours**2 + theirs**2 - 2.0 * correlation * ours * theirs, 0.0)))


def mean(parts: Sequence[Rates], correlation: ArrayLike | None = None) -> Rates:
    """The mean of rates, each counted alike; independent of each other, unless [part, part, ...] correlations say."""
    each, low, high = (np.stack([np.asarray(part[k]) for part in parts]) for k in range(3))
    value = each.mean(axis=0)
    if correlation is None:
        below, above = (np.sqrt((side**2).sum(axis=0)) for side in (each - low, high - each))
    else:
        r = np.asarray(correlation, np.float64)
        below, above = (np.sqrt(np.einsum("ij...,i...,j...->...", r, side, side)) for side in (each - low, high - each))
    return Rates(value, value - below / len(parts), value + above / len(parts))


# --- cases by template or patient -------------------------------------------------------------------------------


class TwoWays(NamedTuple):
    """What each cluster adds to the share of all, [cluster, column], for cases that belong to two clusters at once."""

    units: Floats
    others: Floats
    """Row by row the same notes in all groups of cases."""
    cells: Floats

    def scaled(self, contrast: Floats) -> Floats:
        """[note] what the notes add to a difference of columns, in its standard errors."""
        units, others, cells = (((part @ contrast) ** 2).sum() for part in self)
        variance = max(units, others, units + others - cells)
        return np.asarray(self.others @ contrast / np.sqrt(variance) if variance > 1e-12 else self.others[:, 0] * 0.0)


@dataclass(frozen=True, eq=False)
class PassRates:
    """The pass rates of one group of cases, one column per model."""

    found: ClusteredRatios
    n_units: int
    n: int
    unit: str = "templates"
    """What the cases are clustered by."""
    ways: TwoWays | None = None

    @property
    def rates(self) -> Rates:
        """One column per model."""
        return self.found.rates

    def paired_difference(self, a: int, b: int) -> Rates:
        """Column a less column b, on the same cases."""
        return paired_difference(self.found.columns(a), self.found.columns(b))


@dataclass(frozen=True, eq=False)
class AveragedRates:
    """The mean over several groups of cases, each counted alike."""

    parts: Sequence[PassRates]
    unit: str = "templates"

    @cached_property
    def rates(self) -> Rates:
        """One column per model."""
        each = [part.rates for part in self.parts]
        columns = np.eye(len(each[0].value))
        shared = [self._shared(column) for column in columns]
        known = [r for r in shared if r is not None]
        return mean(each, np.stack(known, axis=-1) if known else None)

    @property
    def n_units(self) -> int:
        """How many templates there are in all."""
        return sum(part.n_units for part in self.parts)

    @property
    def n(self) -> int:
        """How many cases there are in all."""
        return sum(part.n for part in self.parts)

    def paired_difference(self, a: int, b: int) -> Rates:
        """Column a less column b, paired within each group."""
        columns = np.eye(len(self.parts[0].rates.value))
        return mean([part.paired_difference(a, b) for part in self.parts], self._shared(columns[a] - columns[b]))

    def _shared(self, contrast: Floats) -> Floats | None:
        """[part, part] how far the groups vary together because they are in the same notes; None without notes."""
        ways = [part.ways for part in self.parts if part.ways is not None]
        if len(ways) < len(self.parts):
            return None
        scaled = np.stack([each.scaled(contrast) for each in ways])
        r = np.clip(scaled @ scaled.T, 0.0, 1.0)
        np.fill_diagonal(r, 1.0)
        return np.asarray(r)


def pass_rates(
    unit: Ints,
    passed: Floats,
    *,
    level: float = 0.95,
    name: str = "templates",
    other: Ints | None = None,
    n_other: int = 0,
) -> PassRates:
    """The pass rates of [column, case], with the unit (template or patient) of each case.

    `other` is the note that each case stands in, from 0 to `n_other` - 1, if other notes might give other rates.
    """
    sums, size = _sums(np.unique(unit, return_inverse=True)[1], passed)
    found = clustered_ratios(sums, size, level=level)
    if other is None:
        return PassRates(found, len(size), len(unit), name)
    cell = np.unique(np.unique(unit, return_inverse=True)[1] * n_other + other, return_inverse=True)[1]
    tables = [(sums, size), _sums(other, passed, n_other), _sums(cell, passed)]
    by_unit, by_other = (_independent_cases(above, below, level) for above, below in tables[:2])
    value = found.rates.value
    ways = TwoWays(*((above - value * below) / len(unit) for above, below in tables))
    spread = value * (1.0 - value)
    single = np.divide((ways.cells**2).sum(axis=0), spread, out=np.zeros_like(spread), where=spread > 1e-12)
    doubts = [1.0 / by_unit[0], 1.0 / by_other[0]]
    doubt = np.maximum.reduce([*doubts, doubts[0] + doubts[1] - single])
    n_equal = np.minimum(by_unit[1], by_other[1])
    both = _ratios(sums, size, 1.0 / doubt, n_equal, level)
    both = both._replace(residual=np.concatenate([ways.units, ways.others]))
    return PassRates(both, len(size), len(unit), name, ways)


def _sums(code: Ints, passed: Floats, n: int | None = None) -> tuple[Floats, Floats]:
    """[cluster, column] how many cases pass, and how many there are."""
    size = np.bincount(code, minlength=n or 0).astype(np.float64)
    sums = np.zeros((len(size), len(passed)))
    np.add.at(sums, code, passed.T)
    return sums, np.repeat(size[:, None], len(passed), axis=1)
