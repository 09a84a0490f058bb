"""The same notes, altered and as they were: means and shares by patient with intervals, corrected over a family.

Intervals are in closed form; they hold for few patients and rare events.

A change of risk is far from normal: a few patients at high risk carry most of it. The interval of a mean is therefore
the union of Student's t and of Hall's transformation (1992), which allows for skewness; the p-value is the one that
this interval implies, so that test and interval agree at every level, corrected or not. A share of decisions has the
exact interval of as many independent notes as would vary as much as the patients do (Korn and Graubard 1998); 0 of n
has a real width.

Where cases have sampling weights, a note counts as its weight does, in sums and in how many notes there are: the number
of patients that would be worth as much (`n`) is then Kish's.

A mean of numbers that are all alike (no prediction changes at all) says nothing about a patient who was not seen. As
for a share of 0, at most q^2 / (n + q^2) of the patients are otherwise; what changes in those is taken to be as large
as the spread of the predictions between patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from palpate.audits.kit.resampling import Correction
from palpate.audits.kit.rows import RowWriter
from palpate.results import Estimate
from palpate.stats import Interval, adjust
from palpate.stats.clustered import Units

K = TypeVar("K")

Floats = NDArray[np.float64]
FEWEST_PATIENTS = 30
"""Below that many patients there is no interval: the skewness of a handful can't be told."""
FEW_PATIENTS = f"no interval: fewer than {FEWEST_PATIENTS} patients"
FEW_NOTES = f"fewer than {FEWEST_PATIENTS} patients have a note that can be written so"
_ALIKE = 1e-12


class MeanArrays(NamedTuple):
    """Means over notes, with what their intervals are made of; arrays of one shape."""

    value: Floats
    error: Floats
    """Standard error, by a jackknife of patients."""
    skew: Floats
    """Of what each patient adds."""
    n: Floats
    """How many patients with equally many notes would be worth as much."""
    scale: Floats
    """The largest change that is expected of a patient who was not seen."""

    @classmethod
    def of(
        cls, sums: Floats, units: Units, scale: Floats | float = 0.0, counts: NDArray[np.number] | None = None
    ) -> MeanArrays:
        """From what the notes of each unit sum to, [unit, ...].

        `counts` is how many notes of each unit are in each mean (or what they weigh), [unit, mean], where the means are
        over different notes; by default all of the unit's notes are in all.
        """
        size = _sizes(sums, units, counts)
        n_notes = _total(size)
        value = sums.sum(axis=0) / n_notes
        rest = _rest(sums, value, size, n_notes)
        n = n_notes**2 / _total(size**2)
        return cls.from_rest(value, rest, (size > 0).sum(axis=0), n, scale, n_notes)

    @classmethod
    def from_rest(
        cls,
        value: Floats,
        rest: Floats,
        n_units: NDArray[np.int64],
        n: Floats,
        scale: Floats | float,
        n_notes: Floats | float = 1.0,
    ) -> MeanArrays:
        """From the means and what each loses without a unit, [unit, ...], times the number of notes."""
        n_units = np.maximum(n_units, 1)
        second = (rest**2).sum(axis=0)
        error = np.sqrt(second * (n_units - 1) / n_units) / n_notes
        varies = error > _ALIKE
        skew = np.zeros_like(value)
        np.divide((rest**3).sum(axis=0) * np.sqrt(n_units), second**1.5, out=skew, where=varies)
        worth = np.full_like(value, n)
        return cls(value, np.where(varies, error, 0.0), skew, worth, np.maximum(np.abs(value), scale))

    @property
    def spread(self) -> Floats:
        """The standard deviation between patients."""
        return np.asarray(self.error * np.sqrt(self.n))

    def ends(self, outside: float | Floats) -> Interval:
        """The interval that misses the mean with probability `outside`."""
        q = -stdtrit(self.n - 1.0, np.asarray(outside) / 2.0)
        above, below = (self._transformed(side * q / np.sqrt(self.n)) for side in (1.0, -1.0))
        low = np.minimum(self.value - q * self.error, self.value - self.spread * above)
        high = np.maximum(self.value + q * self.error, self.value - self.spread * below)
        unseen = self.scale * q**2 / (self.n + q**2)
        varies = self.error > 0
        return Interval(np.where(varies, low, self.value - unseen), np.where(varies, high, self.value + unseen))

    def p_value(self) -> Floats:
        """Of a mean of 0: the smallest `outside` whose interval does not hold 0."""
        standard = np.divide(self.value, self.spread, out=np.zeros_like(self.value), where=self.error > 0)
        skew = self.skew
        cubic = standard + skew * standard**2 / 3 + skew**2 * standard**3 / 27 + skew / (6 * self.n)
        side = np.sign(self.value)
        nearer = np.minimum(side * standard, side * cubic)
        share = np.divide(np.abs(self.value), self.scale, out=np.zeros_like(self.value), where=self.scale > 0)
        unseen = np.sqrt(np.divide(share, 1.0 - share, out=np.full_like(share, np.inf), where=share < 1.0))
        tail = stdtr(self.n - 1.0, -np.sqrt(self.n) * np.where(self.error > 0, nearer, unseen))
        return np.asarray(np.where(self.value == 0.0, 1.0, np.minimum(2.0 * tail, 1.0)))

    def _transformed(self, x: Floats) -> Floats:
        """The inverse of Hall's cubic transformation."""
        skewed = np.abs(self.skew) > 1e-6
        skew = np.where(skewed, self.skew, 1.0)
        return np.where(skewed, (np.cbrt(1.0 + skew * (x - skew / (6 * self.n))) - 1.0) * 3.0 / skew, x)


class ShareArrays(NamedTuple):
    """Shares of notes, with what their intervals are made of; arrays of one shape."""

    value: Floats
    n: Floats
    """How many independent notes would vary as much."""
    freedom: Floats
    """Patients, less 1."""

    @classmethod
    def of(cls, sums: Floats, units: Units, counts: NDArray[np.number] | None = None) -> ShareArrays:
        """From how many notes of each unit count, [unit, ...]; `counts` are those that might, as in `MeanArrays.of`."""
        mean = MeanArrays.of(sums, units, counts=counts)
        share = np.clip(mean.value, 0.0, 1.0)
        spread = share * (1.0 - share)
        size = _sizes(sums, units, counts)
        # A few patients can't tell how alike the notes of one are: then they are taken to be more alike than they seem.
        seen = np.minimum((sums > 0).sum(axis=0), (sums < size).sum(axis=0))
        variance = mean.error**2 + np.maximum(spread / mean.n - mean.error**2, 0.0) / (1.0 + seen)
        n = mean.n.copy()
        np.divide(spread, variance, out=n, where=(mean.error > 0) & (spread > 0))
        return cls(share, np.minimum(n, np.maximum(_total(size), 1.0)), mean.n - 1.0)

    def ends(self, outside: float | Floats) -> Interval:
        """The interval that misses the share with probability `outside`."""
        tail = np.asarray(outside) / 2.0
        n = self.n * (ndtri(tail) / stdtrit(self.freedom, tail)) ** 2
        count = self.value * n
        with np.errstate(invalid="ignore"):  # a share of 0 or 1 has one end only
            low, high = betaincinv(count, n - count + 1.0, tail), betaincinv(count + 1.0, n - count, 1.0 - tail)
        return Interval(np.where(self.value <= 0.0, 0.0, low), np.where(self.value >= 1.0, 1.0, high))


def lost_without(sums: Floats, units: Units, counts: NDArray[np.number]) -> Floats:
    """What each mean loses without a unit, [unit, ...]; see `MeanArrays.of`."""
    size = _sizes(sums, units, counts)
    n_notes = _total(size)
    return np.asarray(_rest(sums, sums.sum(axis=0) / n_notes, size, n_notes) / n_notes)


def _sizes(sums: Floats, units: Units, counts: NDArray[np.number] | None) -> Floats:
    """How many notes of each unit are in each mean, or what they weigh, with as many axes as `sums`."""
    size = units.mass if counts is None else counts.astype(np.float64)
    return size.reshape(*size.shape, *[1] * (sums.ndim - size.ndim))


def _total(size: Floats) -> Floats:
    """Over the units; 1 where there is nothing, so that it divides."""
    total = size.sum(axis=0)
    return np.asarray(np.where(total > 0, total, 1.0))


def _rest(sums: Floats, value: Floats, size: Floats, n_notes: Floats) -> Floats:
    """What the mean loses without a unit, as in a jackknife: a unit with many notes hides its own deviation."""
    return np.asarray((sums - value * size) / np.maximum(1.0 - size / n_notes, 1.0 / np.maximum(n_notes, 1.0)))


class NoteCounts(NamedTuple):
    """The notes of each group, where groups hold different notes."""

    n: NDArray[np.int64]
    """[group]"""
    few: NDArray[np.bool_]
    """[group] whether they are those of too few patients, so that there is no number."""
    n_positive: NDArray[np.int64] | None = None
    """[group, label]"""


class WindowCount(NamedTuple):
    """How many altered notes there are, and how many of them lie outside a model's window."""

    n_altered: int
    n_outside: int

    @property
    def share(self) -> float | None:
        """The share of the altered notes that the model never saw; None where no note was altered."""
        return self.n_outside / self.n_altered if self.n_altered else None


class Corrected(NamedTuple):
    """What a family does to each of its comparisons; arrays [group, label]. NaN is not tested."""

    p_value: Floats
    outside: Floats
    """How often the interval may miss, so that all of them hold at once."""
    n_family: int


def correct_family(raw: Mapping[K, Floats], correction: Correction, outside: float) -> dict[K, Corrected]:
    """P-values, corrected over all of `raw` at once, and the levels of the intervals that agree with them."""
    own = np.concatenate([values.ravel() for values in raw.values()])
    n_family = int((~np.isnan(own)).sum())
    adjusted = adjust(own, method=correction)
    factor = np.full(own.shape, float(max(n_family, 1)))
    np.divide(adjusted, own, out=factor, where=(own > 0) & (adjusted < 1))
    ends = np.cumsum([values.size for values in raw.values()])[:-1]
    parts = zip(raw.items(), np.split(adjusted, ends), np.split(factor, ends), strict=True)
    return {
        key: Corrected(p.reshape(values.shape), outside / wider.reshape(values.shape), n_family)
        for (key, values), p, wider in parts
    }


@dataclass(frozen=True, eq=False)
class GridWriter:
    """Writes one row per group and label of the same notes."""

    writer: RowWriter
    labels: Sequence[str]
    n_notes: int
    n_units: int
    n_positive: NDArray[np.int64]
    """The positive notes of each label."""

    def rows(
        self,
        model: str,
        metric: str,
        numbers: MeanArrays | ShareArrays,
        groups: Sequence[str],
        references: Sequence[str] | None = None,
        *,
        least: float = -1.0,
        test: Corrected | None = None,
        with_p: bool = False,
        counted: bool = False,
        reason: str | None = None,
        notes: NoteCounts | None = None,
    ) -> Iterator[Estimate]:
        """Rows of `numbers` [group, label]; a group is not compared with itself.

        `least` is the smallest number that is possible; `test` gives intervals that hold for a family, and `with_p`
        its p-values; `reason` says why a number is undefined. `notes` are counts of groups with different notes.
        """
        pointwise = _ends(numbers, np.asarray(1.0 - self.writer.level), least)
        ends = pointwise if test is None else _ends(numbers, test.outside, least)
        few = self.n_units < FEWEST_PATIENTS
        for (g, group), (j, label) in product(enumerate(groups), enumerate(self.labels)):
            reference = None if references is None else references[g]
            if group == reference:
                continue
            value, n_positive = numbers.value[g, j], self.n_positive
            if notes is not None and notes.n_positive is not None:
                n_positive = notes.n_positive[g]
            why = FEW_NOTES if notes is not None and notes.few[g] else reason
            row = self.writer.row(
                model,
                metric,
                label,
                group,
                value,
                n=self.n_notes if notes is None else int(notes.n[g]),
                interval=(None, None) if few else (ends[0][g, j], ends[1][g, j]),
                reference=reference,
                n_positive=int(n_positive[j]) if counted else None,
                reason=why if np.isnan(value) else FEW_PATIENTS if few else None,
            )
            if test is not None and row.low is not None:
                low, high = (float(end[g, j]) for end in pointwise)
                row = replace(row, pointwise_low=low, pointwise_high=high, n_family=test.n_family)
                if with_p:
                    p = float(test.p_value[g, j])
                    row = replace(row, p_value=p, significant=bool(p < 1.0 - self.writer.level))
            yield row

    def spread(
        self, model: str, metric: str, values: Sequence[Floats], groups: Sequence[str], references: Sequence[str]
    ) -> Iterator[Estimate]:
        """The standard deviation over the members of an ensemble (`difference_sd`), from each one's [group, label]."""
        sd = np.std(values, axis=0, ddof=1)
        for (g, group), (j, label) in product(enumerate(groups), enumerate(self.labels)):
            value, reference = sd[g, j], references[g]
            why = FEW_NOTES if np.isnan(value) else None
            if group != reference:
                row = self.writer.row
                yield row(model, f"{metric}_sd", label, group, value, n=self.n_notes, reference=reference, reason=why)


def _ends(numbers: MeanArrays | ShareArrays, outside: Floats, least: float) -> tuple[Floats, Floats]:
    """Ends of the intervals, within what a probability or a difference of two can be."""
    low, high = numbers.ends(outside)
    return np.clip(low, least, 1.0), np.clip(high, least, 1.0)


_Decided = TypeVar("_Decided", MeanArrays, ShareArrays)


def where_decided(shares: _Decided, undecided: NDArray[np.bool_]) -> _Decided:
    """The shares without those of labels that have no threshold."""
    return shares._replace(value=np.where(undecided, np.nan, shares.value))
