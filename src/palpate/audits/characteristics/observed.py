"""What the training split shows for the same groups (the paper's Figures 4, 6 and 8), and how the model relates to it.

Amplification is the slope, through 0, of the model's deviations on the observed ones over groups and labels: 1 where
changing the patient in the note moves the prediction as much as the groups differ in the training data, below 1 where
the model mutes the difference, above 1 where it amplifies it, below 0 where it turns it round. The groups of the
training split differ in more than the characteristic, so 1 is no ideal.

Observed rates are noisy, and noise in x flattens a slope. What noise adds to the sum of squares is estimated by the
bootstrap, V = mean of the replicates' sums less the sum on the data, and taken off: slope = sum(m o) / (sum(o o) - V).
A replicate has that noise twice, so 2 V is taken off there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.characteristics.arms import ObservedGroups
from palpate.cases.edits import Ints
from palpate.stats import percentile_interval, wilson_interval
from palpate.stats.clustered import Units, tally_replicates

Floats = NDArray[np.float64]
FEWEST_OBSERVED = 30
"""Training cases that a group needs to be compared with others."""


class ObservedRates(NamedTuple):
    """Label rates of the groups in the training split; arrays are [group, label] unless they say otherwise."""

    n: Ints
    """[group] cases."""
    n_positive: Ints
    rate: Floats
    low: Floats
    high: Floats
    known: Ints
    """The groups with enough cases to be compared."""
    deviation: Floats
    """[known group, label] equation 1 among the known groups."""
    deviation_values: Floats
    """[known group, label, replicate]"""
    deviation_low: Floats
    deviation_high: Floats

    def without_replicates(self) -> ObservedRates:
        """The same, small enough to be kept for all labels."""
        return self._replace(deviation_values=self.deviation_values[..., :0].copy())


def deviations(p: Floats) -> Floats:
    """The paper's equation 1 along the first axis, that of groups: each group less the mean of the others.

    Differences to any fixed group may be given in the place of p: the result is the same, and exactly 0 where they are.
    """
    n = len(p)
    if n < 2:
        return np.full_like(p, np.nan)
    out: Floats = (n * p - p.sum(axis=0)) / (n - 1)
    return out


def observed_rates(
    groups: ObservedGroups,
    y_true: NDArray[np.uint8],
    units: Units,
    *,
    n_groups: int,
    seed: int,
    n_replicates: int,
    level: float,
) -> ObservedRates:
    """Rates and deviations of a block of labels; `y_true` and `units` are of `groups.rows`.

    Rates have Wilson's interval, because a bootstrap of no positive case would be sure of 0; deviations have the
    percentile bootstrap by patient.
    """
    n_labels = y_true.shape[1]
    counts = _tallies(groups, y_true, units, n_groups)
    total = np.asarray(counts.sum(axis=0), dtype=np.int64).ravel()
    n, n_positive = total[:n_groups], total[n_groups:].reshape(n_groups, n_labels)
    rate = _share(n_positive, n[:, None])
    low, high = wilson_interval(np.nan_to_num(rate), n[:, None], level=level)
    known = np.flatnonzero(n >= FEWEST_OBSERVED)
    deviation, values = np.full((len(known), n_labels), np.nan), np.full((len(known), n_labels, n_replicates), np.nan)
    if len(known) > 1:
        deviation = deviations(rate[known])
        columns = np.concatenate([known, *(n_groups + g * n_labels + np.arange(n_labels)[None] for g in known)], None)
        drawn = tally_replicates(counts[:, columns], rng=seed, n_replicates=n_replicates)
        positive = drawn[len(known) :].reshape(len(known), n_labels, n_replicates)
        values = deviations(_share(positive, drawn[: len(known), None]))
    ends = percentile_interval(values, level=level)
    return ObservedRates(
        n, n_positive, rate, np.asarray(low), np.asarray(high), known, deviation, values, ends.low, ends.high
    )


def _tallies(groups: ObservedGroups, y_true: NDArray[np.uint8], units: Units, n_groups: int) -> sparse.csr_array:
    """[unit, column]: cases of each group, then positive cases of each group and label."""
    there = np.flatnonzero(groups.group >= 0)
    n_labels = y_true.shape[1]
    rows, labels = np.nonzero(y_true[there])
    row = np.concatenate([there, there[rows]])
    column = np.concatenate([groups.group[there], n_groups + groups.group[there][rows] * n_labels + labels])
    shape = (len(units.size), n_groups * (1 + n_labels))
    return sparse.csr_array((np.ones(len(row), np.int64), (units.code[row], column)), shape=shape)


def _share(positive: NDArray[np.int64], n: NDArray[np.int64]) -> Floats:
    out = np.full(np.broadcast_shapes(positive.shape, n.shape), np.nan)
    np.divide(positive, n, out=out, where=np.broadcast_to(n > 0, out.shape))
    return out


class Slope(NamedTuple):
    """Amplification, with its interval; NaN where the observed differences are no larger than chance."""

    value: float
    low: float
    high: float


def amplification(
    product: float | Floats, product_values: Floats, squares: float | Floats, square_values: Floats, *, level: float
) -> Slope:
    """The slope through 0 of model on observed deviations; see the module's docstring.

    `product` is the sum of m o and `squares` that of o o, over groups and labels; the others are their replicates.
    """
    added = float(np.mean(square_values)) - float(squares)
    denominator = float(squares) - added
    left = square_values - 2.0 * added
    slopes = np.full(left.shape, np.nan)
    np.divide(product_values, left, out=slopes, where=left > 0)
    low, high = (float(end) for end in percentile_interval(slopes, level=level))
    if not (denominator > 0 and np.isfinite(low)):
        return Slope(np.nan, np.nan, np.nan)
    return Slope(float(product) / denominator, low, high)
