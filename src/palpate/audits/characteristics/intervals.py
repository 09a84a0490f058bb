"""Intervals of means and shares over notes, by patient, in closed form: they hold for few patients and rare events.

A change of risk is far from normal: a few patients at high risk carry most of it. The interval of a mean is therefore
the union of Student's t and of Hall's transformation (1992), which allows for skewness; the p-value is the one that
this interval implies, so that test and interval agree at every level, corrected or not. A share of decisions has the
exact interval of as many independent notes as would vary as much as the patients do (Korn and Graubard 1998); 0 of n
has a real width.

A mean of numbers that are all alike (no prediction changes at all) says nothing about a patient who was not seen. As
for a share of 0, at most q^2 / (n + q^2) of the patients are otherwise; what changes in those is taken to be as large
as the spread of the predictions between patients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtr, stdtrit

from palpate.stats import Interval
from palpate.stats.clustered import Units

Floats = NDArray[np.float64]
FEWEST_PATIENTS = 30
"""Below that many patients there is no interval: the skewness of a handful can't be told."""
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
    def of(cls, sums: Floats, units: Units, scale: Floats | float = 0.0) -> MeanArrays:
        """From what the notes of each unit sum to, [unit, ...]."""
        size = units.size.reshape(-1, *[1] * (sums.ndim - 1)).astype(np.float64)
        n_units, n_notes = len(units.size), units.size.sum()
        value = sums.sum(axis=0) / n_notes
        # What the mean loses without a unit, as in a jackknife: a unit with many notes hides its own deviation.
        rest = (sums - value * size) / np.maximum(1.0 - size / n_notes, 1.0 / n_notes)
        second = (rest**2).sum(axis=0)
        error = np.sqrt(second * (n_units - 1) / n_units) / n_notes
        varies = error > _ALIKE
        skew = np.zeros_like(value)
        np.divide((rest**3).sum(axis=0) * np.sqrt(n_units), second**1.5, out=skew, where=varies)
        n = np.full_like(value, n_notes**2 / (units.size.astype(np.float64) ** 2).sum())
        return cls(value, np.where(varies, error, 0.0), skew, n, np.maximum(np.abs(value), scale))

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
    def of(cls, sums: Floats, units: Units) -> ShareArrays:
        """From how many notes of each unit count, [unit, ...]."""
        mean = MeanArrays.of(sums, units)
        share = np.clip(mean.value, 0.0, 1.0)
        spread = share * (1.0 - share)
        size = units.size.reshape(-1, *[1] * (sums.ndim - 1))
        # A few patients can't tell how alike the notes of one are: then they are taken to be more alike than they seem.
        seen = np.minimum((sums > 0).sum(axis=0), (sums < size).sum(axis=0))
        variance = mean.error**2 + np.maximum(spread / mean.n - mean.error**2, 0.0) / (1.0 + seen)
        n = mean.n.copy()
        np.divide(spread, variance, out=n, where=(mean.error > 0) & (spread > 0))
        return cls(share, np.minimum(n, units.size.sum()), mean.n - 1.0)

    def ends(self, outside: float | Floats) -> Interval:
        """The interval that misses the share with probability `outside`."""
        tail = np.asarray(outside) / 2.0
        n = self.n * (ndtri(tail) / stdtrit(self.freedom, tail)) ** 2
        count = self.value * n
        with np.errstate(invalid="ignore"):  # a share of 0 or 1 has one end only
            low, high = betaincinv(count, n - count + 1.0, tail), betaincinv(count + 1.0, n - count, 1.0 - tail)
        return Interval(np.where(self.value <= 0.0, 0.0, low), np.where(self.value >= 1.0, 1.0, high))
