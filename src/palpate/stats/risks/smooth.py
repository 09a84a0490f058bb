"""A smooth calibration curve: what share of cases has the outcome at each predicted risk.

Restricted cubic splines of the log odds in a logistic model (Harrell 2015, Section 2.4.5; Austin and Steyerberg 2019):
straight beyond the outermost knots. Five knots where both outcomes are frequent, fewer where they are not. From the
curve, how far predicted risks are from it: on average (ICI), in the middle (E50), in the worst tenth (E90), and at the
worst case (Emax). And how predicted risks are distributed among cases with and without the outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from palpate.stats.inputs import Floats
from palpate.stats.intervals import Interval
from palpate.stats.risks import check_risks, log_odds
from palpate.stats.risks.logistic import LogisticFit, fit_logistic, influences

KNOTS = {
    5: (0.05, 0.275, 0.5, 0.725, 0.95),
    4: (0.05, 0.35, 0.65, 0.95),
    3: (0.1, 0.5, 0.9),
}
"""At which quantiles of the log odds the knots stand."""
FEWEST_FOR_KNOTS = {5: 100, 4: 50, 3: 20}
"""Patients of the rarer outcome that so many knots need; below, the curve is a straight line of the log odds."""


class CalibrationErrors(NamedTuple):
    """How far predicted risks are from the smooth curve; arrays of any one shape."""

    ici: Floats
    e50: Floats
    e90: Floats
    emax: Floats


class SmoothCurve(NamedTuple):
    """A fitted curve; nan where there is none."""

    knots: Floats
    """Of the log odds; empty where the curve is a straight line."""
    fit: LogisticFit
    terms: Floats
    """Of the rows that it was fitted to: `spline_terms`."""

    def at(self, risk: ArrayLike) -> Floats:
        """The observed share at predicted risks."""
        return np.asarray(expit(spline_terms(log_odds(np.asarray(risk, np.float64)), self.knots) @ self.coefficients))

    @property
    def coefficients(self) -> Floats:
        """Of the terms of `spline_terms`."""
        return self.fit.coefficients


def spline_terms(x: Floats, knots: Floats) -> Floats:
    """The terms of a restricted cubic spline, [row, term]: 1, x, and one for each knot but the last two."""
    plain = [np.ones_like(x), x]
    if knots.size < 3:
        return np.stack(plain).T
    scale = (knots[-1] - knots[0]) ** 2
    before, last = knots[-2], knots[-1]

    def cubed(knot: float) -> Floats:
        over = np.maximum(x - knot, 0.0)
        return np.asarray(over * over * over)

    ends = [cubed(float(before)), cubed(float(last))]
    terms = [
        (cubed(float(k)) - ends[0] * (last - k) / (last - before) + ends[1] * (before - k) / (last - before)) / scale
        for k in knots[:-2]
    ]
    return np.stack([*plain, *terms]).T


def weighted_quantiles(values: Floats, weight: Floats, shares: Sequence[float] | Floats) -> Floats:
    """Where the weights add up to these shares; between two values that are both right, their mean.

    A row of weight 2 counts as two rows. Without weights these are numpy's quantiles by `averaged_inverted_cdf`.
    """
    if values.size and bool((weight == weight[0]).all()):
        values, reached = np.sort(values), np.cumsum(weight)
    else:
        used = weight > 0
        order = np.argsort(values[used], kind="stable")
        values, reached = values[used][order], np.cumsum(weight[used][order])
    wanted, rounding = np.asarray(shares, np.float64) * reached[-1], 1e-9 * reached[-1]
    last = len(values) - 1
    first = np.searchsorted(reached, wanted - rounding).clip(0, last)
    following = np.searchsorted(reached, wanted + rounding, side="right").clip(0, last)
    return np.asarray((values[first] + values[following]) / 2.0)


def fit_curve(y: Floats, risk: Floats, weight: Floats, n_rarer: int) -> SmoothCurve:
    """The curve with as many knots as `n_rarer` patients of the rarer outcome, and the different risks, allow."""
    x = log_odds(risk)
    wanted = next((k for k, fewest in FEWEST_FOR_KNOTS.items() if n_rarer >= fewest), 0)
    for k in range(wanted, 2, -1):
        knots = np.unique(weighted_quantiles(x, weight, KNOTS[k]))
        if len(knots) == k and _has_more(x[weight > 0], k):
            terms = spline_terms(x, knots)
            fit = fit_logistic(terms, y, weight)
            if fit.known:
                return SmoothCurve(knots, fit, terms)
    none = np.zeros(0)
    return SmoothCurve(none, fit_line(x, y, weight), spline_terms(x, none))


def _has_more(values: Floats, k: int) -> bool:
    """Whether there are more than k different values; a few of them often tell."""
    return len(np.unique(values[: 10 * k])) > k or len(np.unique(values)) > k


def fit_line(x: Floats, y: Floats, weight: Floats) -> LogisticFit:
    """Outcomes by log odds, on a straight line; without a solution where all risks are the same."""
    known = x[weight > 0]
    flat = known.size == 0 or bool((known == known[0]).all())
    return fit_logistic(spline_terms(x, np.zeros(0)), y, np.zeros_like(weight) if flat else weight)


def curve_influences(curve: SmoothCurve, y: Floats, weight: Floats, unit: NDArray[np.int64], n_units: int) -> Floats:
    """How much each unit moves each coefficient of the curve, [unit, term]."""
    return influences(curve.fit, curve.terms, y, weight, unit, n_units)


def calibration_errors(curve: SmoothCurve, risk: Floats, weight: Floats) -> CalibrationErrors:
    """The distances between the curve and the predicted risks that it was fitted to."""
    gap = np.abs(curve.fit.fitted - risk)
    if not np.isfinite(gap).all():
        return CalibrationErrors(*[np.asarray(np.nan)] * 4)
    half, most = weighted_quantiles(gap, weight, (0.5, 0.9))
    mean = float(weight @ gap) / float(weight.sum())
    return CalibrationErrors(*(np.asarray(each) for each in (mean, half, most, gap[weight > 0].max())))


def curve_band(curve: SmoothCurve, influence: Floats, risk: Floats, quantile: float) -> Interval:
    """The pointwise band of the curve at predicted risks, from the influences of patients; `quantile` is the normal's
    or Student's."""
    terms = spline_terms(log_odds(risk), curve.knots)
    middle = terms @ curve.coefficients
    error = np.sqrt(((influence @ terms.T) ** 2).sum(axis=0))
    return Interval(np.asarray(expit(middle - quantile * error)), np.asarray(expit(middle + quantile * error)))


class RiskDistribution(NamedTuple):
    """Shares of the cases with the outcome, and of those without, whose risk is in each bin; nan if there are none."""

    edges: Floats
    with_outcome: Floats
    without_outcome: Floats


def risk_distribution(
    y_true: ArrayLike, y_score: ArrayLike, *, n_bins: int = 20, weight: ArrayLike | None = None
) -> RiskDistribution:
    """Histograms of risks over [0, 1] in bins of equal width, one for each outcome; each sums to 1."""
    if n_bins < 1:
        raise ValueError("n_bins must be at least 1")
    y, risk, mass = check_risks(y_true, y_score, weight)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    shares = []
    for side in (y == 1.0, y == 0.0):
        total = float(mass[side].sum())
        counts = np.histogram(risk[side], bins=edges, weights=mass[side])[0].astype(np.float64)
        shares.append(counts / total if total > 0 else np.full(n_bins, np.nan))
    return RiskDistribution(edges, *shares)
