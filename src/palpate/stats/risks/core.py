"""The core set of measures for predicted risks, with replicates by patient (Van Calster and colleagues 2025).

Calibration in the large (intercept, O:E), calibration slope, the distances between risks and a smooth calibration curve
(ICI, E50, E90, Emax), and net benefit at a threshold and over a range of thresholds.

Nothing is refitted. Every estimate has an influence by patient (`logistic`), and a replicate is the estimate moved by
the influences, each times a standard normal number (the multiplier bootstrap): the same numbers for all models and
labels, so that differences and means are paired. Such sums are normal with the influences' own products as covariances,
and are drawn from these where there are fewer estimates than patients, which is the same and cheap. What is not linear
(distances from the curve) is computed from the replicates of the curve's coefficients. More than 10,000 patients are
put together at random into 10,000 groups, which vary as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import Unit
from palpate.stats.bootstrap import seed_of
from palpate.stats.inputs import Floats
from palpate.stats.risks import log_odds, mean_influences, rarer_units, unit_codes, unit_sums
from palpate.stats.risks.logistic import fit_logistic, influences
from palpate.stats.risks.net_benefit import range_worth
from palpate.stats.risks.smooth import (
    SmoothCurve,
    calibration_errors,
    curve_influences,
    fit_curve,
    fit_line,
    spline_terms,
    weighted_quantiles,
)

CORE = (
    "calibration_intercept",
    "calibration_slope",
    "oe_ratio",
    "ici",
    "e50",
    "e90",
    "emax",
    "net_benefit",
    "mean_net_benefit",
)
DISTANCES = ("ici", "e50", "e90", "emax")
"""Distances from the smooth curve, which chance can only raise."""
UNBOUNDED = ("calibration_intercept", "calibration_slope", "oe_ratio", "net_benefit", "mean_net_benefit")
"""May lie below -1 or above 1."""
FOUND, FALSE_ALARMS, RANGE_FOUND, RANGE_PRICE = "found_rate", "false_alarm_rate", "range_found", "range_price"
ODDS, VARIATION = "odds", "outcome_variation"
HIDDEN = (*(f"{name}_noise" for name in DISTANCES), FOUND, FALSE_ALARMS, RANGE_FOUND, RANGE_PRICE, ODDS, VARIATION)
"""What intervals are made from: the distances between the curves of replicates and of the data; the shares of all rows
that are found and that are false alarms at the threshold; what is found over the range of thresholds and the price of
its false alarms; the odds of the threshold; the mean variance of an outcome."""
_AT_ONCE, _GRID, _NOTHING = 1_000, 200, 1e-12
_LINEAR = 7
"""Columns of an influence before those of the curve."""


class CoreReplicates(NamedTuple):
    """The core set on the data and on replicates; nan where a measure is undefined."""

    metrics: tuple[str, ...]
    """`CORE`, then `HIDDEN`."""
    point: Floats  # [model, metric, label]
    values: Floats  # [model, metric, label, replicate]


class _CoreFit(NamedTuple):
    """One model and label."""

    linear: Floats
    """Intercept, slope, O:E, found, false alarms; over the range, found and price."""
    influence: Floats
    """[unit, `_LINEAR` + terms of the curve]; 0 where an estimate is undefined."""
    curve: SmoothCurve
    distances: Floats
    grid: Floats
    """Risks that stand for equal shares of the rows, the lowest and the highest first and last."""
    odds: float
    variation: float


def core_replicates(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    threshold: ArrayLike,
    benefit: tuple[float, float],
    patient: ArrayLike,
    rng: np.random.Generator | int,
    unit: Unit = "patient",
    weight: ArrayLike | None = None,
    n_replicates: int = 2_000,
) -> CoreReplicates:
    """The core set of every model and label.

    y_true is [n, labels], y_score [models, n, labels] of probabilities, `threshold` [models, labels] (nan without one)
    and `benefit` the range of thresholds over which net benefit is averaged. Calls with the same integer `rng`, models
    and labels give the same replicates.
    """
    outcome, risk = _inputs.binary(y_true), _inputs.finite(y_score, name="y_score")
    if outcome.ndim != 2 or risk.ndim != 3 or risk.shape[1:] != outcome.shape:
        raise ValueError(f"y_score has shape {risk.shape}, but y_true has {outcome.shape}")
    _inputs.probabilities(risk)
    mass = np.ones(len(outcome)) if weight is None else _inputs.weights(weight, shape=(len(outcome),))
    limit = np.broadcast_to(np.asarray(threshold, np.float64), (len(risk), outcome.shape[1]))
    g = np.random.default_rng(int(seed_of(rng)))
    code, n_units = unit_codes(patient, unit, len(outcome), g)
    rarer = rarer_units(outcome, patient, unit, mass)
    found = [
        _measure(
            outcome[:, j].astype(np.float64), risk[m, :, j], mass, code, n_units, limit[m, j], benefit, int(rarer[j])
        )
        for m in range(len(risk))
        for j in range(outcome.shape[1])
    ]
    moved = _multiplied([each.influence for each in found], g, n_replicates)
    shape = (len(risk), outcome.shape[1], len(CORE) + len(HIDDEN))
    point = np.stack([_point(each) for each in found]).reshape(shape)
    values = np.stack([_replicates(each, by) for each, by in zip(found, moved, strict=True)])
    return CoreReplicates(
        (*CORE, *HIDDEN), point.transpose(0, 2, 1), values.reshape(*shape, n_replicates).transpose(0, 2, 1, 3)
    )


def _measure(
    y: Floats,
    risk: Floats,
    weight: Floats,
    unit: NDArray[np.int64],
    n_units: int,
    threshold: float,
    benefit: tuple[float, float],
    n_rarer: int,
) -> _CoreFit:
    ones, x, total = np.ones((len(y), 1)), log_odds(risk), float(weight.sum())
    large, line = fit_logistic(ones, y, weight, offset=x), fit_line(x, y, weight)
    expected = float(weight @ risk)
    ratio = float(weight @ y) / expected if expected > 0 else np.nan
    acted = (risk >= threshold).astype(np.float64) if threshold == threshold else np.full(len(y), np.nan)
    shares = np.stack([y * acted, (1.0 - y) * acted, *range_worth(y, risk, benefit)], axis=1)
    means, moves = mean_influences(shares, weight, unit, n_units)
    off = unit_sums((weight * (y - ratio * risk) / expected)[:, None], unit, n_units)
    curve = fit_curve(y, risk, weight, n_rarer)
    influence = np.column_stack(
        [
            influences(large, ones, y, weight, unit, n_units)[:, 0],
            influences(line, spline_terms(x, np.zeros(0)), y, weight, unit, n_units)[:, 1],
            off * np.sqrt(n_units / max(n_units - 1.0, 1.0)),
            moves,
            curve_influences(curve, y, weight, unit, n_units),
        ]
    )
    return _CoreFit(
        linear=np.asarray([large.coefficients[0], line.coefficients[1], ratio, *means]),
        influence=np.nan_to_num(influence),
        curve=curve,
        distances=np.asarray(calibration_errors(curve, risk, weight)),
        grid=_grid(risk, weight),
        odds=threshold / (1.0 - threshold) if threshold < 1.0 else np.nan,
        variation=float(weight @ (large.fitted * (1.0 - large.fitted))) / total,
    )


def _grid(risk: Floats, weight: Floats) -> Floats:
    used = risk[weight > 0]
    if used.size <= _GRID and bool((weight == weight[:1]).all()):
        return np.sort(used)
    middle = weighted_quantiles(risk, weight, (np.arange(_GRID) + 0.5) / _GRID)
    return np.concatenate([[used.min()], middle[1:-1], [used.max()]])


def _multiplied(influence: Sequence[Floats], g: np.random.Generator, n_replicates: int) -> list[Floats]:
    """How far each replicate moves each estimate, [term, replicate]."""
    stacked = np.concatenate(influence, axis=1)
    if stacked.shape[1] < len(stacked):
        stacked = _root(stacked)
    moved = np.zeros((stacked.shape[1], n_replicates))
    for first in range(0, len(stacked), _AT_ONCE):
        part = stacked[first : first + _AT_ONCE]
        moved += part.T @ g.standard_normal((len(part), n_replicates))
    ends = np.cumsum([each.shape[1] for each in influence])[:-1]
    return np.split(moved, ends)


def _root(influence: Floats) -> Floats:
    """R, [term, term], with the same sums of products R'R: R'z varies as influences times a number for each unit do."""
    scale = np.sqrt((influence**2).sum(axis=0))
    unit = influence / np.where(scale > 0, scale, 1.0)
    size, direction = np.linalg.eigh(unit.T @ unit)
    size[size < _NOTHING * max(float(size[-1]), 0.0)] = 0.0  # rounding, which would tell equal models apart
    return np.asarray(np.sqrt(size)[:, None] * direction.T * scale)


def _point(found: _CoreFit) -> Floats:
    intercept, slope, ratio, hits, alarms, gain, price = found.linear
    noise = np.where(np.isnan(found.distances), np.nan, 0.0)
    core = [intercept, slope, ratio, *found.distances, hits - found.odds * alarms, gain - price]
    return np.asarray([*core, *noise, hits, alarms, gain, price, found.odds, found.variation])


def _replicates(found: _CoreFit, moved: Floats) -> Floats:
    """[metric, replicate] in the order of `CORE` and `HIDDEN`."""
    intercept, slope, ratio, hits, alarms, gain, price = found.linear[:, None] + moved[:_LINEAR]
    terms = spline_terms(log_odds(found.grid), found.curve.knots)
    middle = terms @ found.curve.coefficients
    drawn = expit(middle[:, None] + terms @ moved[_LINEAR:])
    # The grid stands for all rows: what that changes is the same on the data, and is taken off.
    exact = _distances(np.abs(expit(middle) - found.grid)[:, None])
    distances = _distances(np.abs(drawn - found.grid[:, None])) + (found.distances[:, None] - exact)
    noise = _distances(np.abs(drawn - expit(middle)[:, None]))
    core = [intercept, slope, ratio, *distances, hits - found.odds * alarms, gain - price]
    same = np.ones_like(hits)
    return np.stack([*core, *noise, hits, alarms, gain, price, found.odds * same, found.variation * same])


def _distances(gap: Floats) -> Floats:
    """ICI, E50, E90 and Emax of gaps [grid, replicate]."""
    ranked = np.sort(gap.T, axis=1)  # much faster than numpy's quantiles, which are these
    at = np.asarray((0.5, 0.9)) * (ranked.shape[1] - 1)
    below = np.floor(at).astype(np.int64)
    above = np.minimum(below + 1, ranked.shape[1] - 1)
    half, most = (ranked[:, below] + (at - below) * (ranked[:, above] - ranked[:, below])).T
    return np.stack([gap.mean(axis=0), half, most, ranked[:, -1]])
