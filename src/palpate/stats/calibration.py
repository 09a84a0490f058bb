"""Whether a probability of p comes true with frequency p (chest X-ray context paper, Appendices A and E).

Bins have equal mass: equal numbers of rows, or equal sums of weights. Rows with the same score are indistinguishable,
so a group of them that straddles the edge of a bin is divided in proportion, and so is a single row; the order of the
rows has no effect. The paper does not give its number of bins; the default here is 10.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats import inputs as _inputs
from palpate.stats.inputs import Floats, divide
from palpate.stats.intervals import wilson_interval


def _scored(y_true: ArrayLike, y_score: ArrayLike, weight: ArrayLike | None) -> _inputs.ScoredRows:
    rows = _inputs.scored(y_true, y_score, weight)
    _inputs.probabilities(rows.score)
    return rows


def brier(y_true: ArrayLike, y_score: ArrayLike, *, weight: ArrayLike | None = None) -> float:
    """Mean squared difference between outcome and probability; nan without rows."""
    positive, score, mass = _scored(y_true, y_score, weight)
    return divide(float(np.sum(mass * (positive - score) ** 2)), float(mass.sum()))


def brier_skill_score(y_true: ArrayLike, y_score: ArrayLike, *, weight: ArrayLike | None = None) -> float:
    """1 - Brier / Brier of always predicting the (weighted) prevalence; nan with one class."""
    positive, _, mass = _scored(y_true, y_score, weight)
    prevalence = divide(float(mass[positive].sum()), float(mass.sum()))
    reference = prevalence * (1.0 - prevalence)
    if not reference > 0:
        return float("nan")
    return 1.0 - brier(y_true, y_score, weight=weight) / reference


class _Bins(NamedTuple):
    mass: float  # of one bin
    positive: Floats
    score: Floats
    squares: Floats


def _bins(rows: _inputs.ScoredRows, n_bins: int) -> _Bins | None:
    """Sums per bin of equal mass; None if there is nothing to bin."""
    if n_bins < 1:
        raise ValueError("n_bins must be at least 1")
    present = rows.mass > 0
    positive, score, mass = rows.positive[present], rows.score[present], rows.mass[present]
    if score.size == 0:
        return None
    order = np.argsort(score, kind="stable")
    score, mass, positive = score[order], mass[order], positive[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    reached = np.append(0.0, np.cumsum(mass)[last])
    edges = reached[-1] * np.arange(n_bins + 1) / n_bins

    def per_bin(amount: Floats) -> Floats:
        # Within a group of equal scores the cumulative sum is a straight line: that divides in proportion.
        return np.diff(np.interp(edges, reached, np.append(0.0, np.cumsum(amount)[last])))

    return _Bins(
        float(reached[-1] / n_bins),
        per_bin(np.where(positive, mass, 0.0)),
        per_bin(mass * score),
        per_bin(np.square(mass, dtype=np.float64)),
    )


def adaptive_calibration_error(
    y_true: ArrayLike, y_score: ArrayLike, *, n_bins: int = 10, weight: ArrayLike | None = None
) -> float:
    """Mean over bins of equal mass of |observed rate - mean probability|; nan without rows."""
    bins = _bins(_scored(y_true, y_score, weight), n_bins)
    if bins is None:
        return float("nan")
    return float(np.mean(np.abs(bins.positive - bins.score)) / bins.mass)


class CalibrationCurve(NamedTuple):
    """One entry per bin, from low to high probability; `low` and `high` belong to the observed rate."""

    mean_score: Floats
    observed: Floats
    weight: Floats
    low: Floats
    high: Floats


def calibration_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    n_bins: int = 10,
    weight: ArrayLike | None = None,
    level: float = 0.95,
    per_unit: float = 1.0,
) -> CalibrationCurve:
    """Observed rate against mean probability in bins of equal mass, with Wilson intervals.

    With weights, the interval uses the bin's effective number of rows, (sum w)^2 / sum w^2. With `per_unit` rows from
    each patient, it takes them for one: a patient's rows may be all alike.
    """
    bins = _bins(_scored(y_true, y_score, weight), n_bins)
    if bins is None:
        nothing = np.empty(0)
        return CalibrationCurve(nothing, nothing, nothing, nothing, nothing)
    observed = np.clip(bins.positive / bins.mass, 0.0, 1.0)
    low, high = wilson_interval(observed, bins.mass**2 / bins.squares / per_unit, level=level)
    return CalibrationCurve(bins.score / bins.mass, observed, np.full(n_bins, bins.mass), low, high)
