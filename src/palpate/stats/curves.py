"""Curves: net benefit over decision thresholds, and how much of a curve over ages is noise between neighbours.

A decision curve shows what acting on a probability is worth, compared with acting on all or on none (Vickers and Elkin
2006). Whoever acts at a probability of t accepts that a false alarm costs t / (1 - t) of what a found case is worth.
The net benefit per row is then TP / n - FP / n * t / (1 - t). With the pre-test probability as one of the models, the
curves say what the model adds for a clinician who knows the history. Not in the context paper.

The characteristics paper (Section 5.2) sees a higher risk at 73 than at 74 and calls it a lack of number understanding;
`curve_variance` measures that on any curve over equally spaced points.

Roughness is the share of the variance of a mean-probability curve that is noise between neighbouring ages: 0 for a
straight line, near 0 for a smooth curve or a single step, 1 for white noise, more where neighbours alternate. All ages
hold the same notes, but a model's noise also differs from note to note. What this adds to both variances is estimated
by the bootstrap, as V = mean of the replicates less the value on the data, and subtracted (twice in a replicate, which
has it twice). So a model whose noise averages out over patients is not rough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import resampling_units
from palpate.stats.clustered import ratio_replicates
from palpate.stats.inputs import Floats

NO_EFFECT = "the prediction does not change with age"
NO_MORE_THAN_CHANCE = "age moves the mean prediction no more than chance does"

FEWEST_POINTS = 10
"""The noise of a curve with fewer points is not reported."""


class DecisionCurves(NamedTuple):
    """Net benefit per row over thresholds; acting on none is 0 everywhere. nan without rows."""

    thresholds: Floats  # [threshold]
    net_benefit: Floats  # [model, threshold]
    treat_all: Floats  # [threshold]
    values: Floats  # [model, threshold, replicate]
    treat_all_values: Floats  # [threshold, replicate]


def decision_curves(
    y_true: ArrayLike,
    p_model: ArrayLike,
    *,
    patient: ArrayLike,
    rng: np.random.Generator | int,
    thresholds: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    n_replicates: int = 10_000,
) -> DecisionCurves:
    """Net benefit of every model at every threshold, on the data and on resamples of patients.

    y_true is [n], `p_model` [n] or [models, n] of probabilities. Thresholds are 0.01 to 0.99 by default; a row is acted
    on if its probability is at least the threshold. `rows` restricts the curves, not the resampling; `weight` is [n].
    For the same integer `rng` and patients the resamples are those of `bootstrap`; differences of curves are paired.
    """
    positive, chance = _inputs.binary(y_true), np.atleast_2d(_inputs.finite(p_model, name="p_model"))
    if positive.ndim != 1 or chance.ndim != 2 or chance.shape[1] != positive.size:
        raise ValueError("y_true must be [n] and p_model [n] or [models, n]")
    _inputs.probabilities(chance)
    at = _thresholds(thresholds)
    used = np.ones(positive.size, np.bool_) if rows is None else _inputs.binary(rows, name="rows")
    if used.shape != positive.shape:
        raise ValueError(f"rows has shape {used.shape}, expected {positive.shape}")
    codes, sizes = resampling_units("patient", patient, positive[:, None])
    unit, n_units = codes[:, 0].astype(np.int64), int(sizes[0, 0])
    curves = np.concatenate([chance, np.ones((1, positive.size))])
    mass = np.ones(int(used.sum())) if weight is None else _inputs.weights(weight, shape=positive.shape)[used]
    benefit = _by_patient(positive[used], curves[:, used], mass, unit[used], n_units, at)
    n_rows = np.bincount(unit[used], minlength=n_units, weights=mass)
    flat = benefit.reshape(n_units, -1)
    shape = (len(curves), at.size)
    total = flat.sum(axis=0).reshape(shape)
    point = total / mass.sum() if used.any() else np.full(shape, np.nan)
    nothing = np.zeros(flat.shape[1], np.int64)
    values = ratio_replicates(flat, n_rows[:, None], over=nothing, rng=rng, n_replicates=n_replicates)
    values = values.reshape(*shape, n_replicates)
    return DecisionCurves(at, point[:-1], point[-1], values[:-1], values[-1])


def _thresholds(thresholds: ArrayLike | None) -> Floats:
    if thresholds is None:
        return np.arange(1, 100) / 100.0
    at = np.atleast_1d(_inputs.finite(thresholds, name="thresholds"))
    if at.ndim != 1 or bool(np.any((at < 0) | (at >= 1))):
        raise ValueError("thresholds must be at least 0 and below 1")
    return at


def _by_patient(
    positive: NDArray[np.bool_], curves: Floats, mass: Floats, unit: NDArray[np.int64], n_units: int, at: Floats
) -> Floats:
    """What each patient's rows add to each curve, [patient, model, threshold]."""
    worth = mass[:, None] * np.where(positive[:, None], 1.0, -(at / (1.0 - at)))
    out = np.zeros((n_units, len(curves), at.size))
    for m, chance in enumerate(curves):
        # The last curve is 1 for every row: everybody is treated at every threshold.
        acted = np.where(chance[:, None] >= at, worth, 0.0)
        for t in range(at.size):
            out[:, m, t] = np.bincount(unit, weights=acted[:, t], minlength=n_units)
    return out


class CurveVariance(NamedTuple):
    """A curve's variance over its points, and the part of it that is noise between neighbours."""

    noise: Floats
    total: Floats


def curve_variance(curve: ArrayLike, *, axis: int = -1) -> CurveVariance:
    """Variance of a curve and of its noise, along `axis`.

    The noise is estimated from second differences (Gasser, Sroka and Jennen-Steinmetz 1986): the mean of
    (x[i-1] - 2 x[i] + x[i+1])^2, over 6. A straight line has none, whatever its slope; white noise has its own
    variance. So noise / total is 0 for a line, near 0 for a smooth curve, 1 in expectation for white noise, and above 1
    (at most 8/3) where neighbours alternate. One step in a curve of K points counts for about 4 / (3 K).
    """
    values = np.moveaxis(np.asarray(curve, np.float64), axis, -1)
    if values.shape[-1] < 3:
        raise ValueError("a curve needs at least 3 points")
    bend = values[..., :-2] - 2.0 * values[..., 1:-1] + values[..., 2:]
    return CurveVariance(np.asarray((bend**2).mean(axis=-1) / 6.0), np.asarray(values.var(axis=-1, ddof=1)))


class AgeCurve(NamedTuple):
    """Noise and total variance of the age curve of each label: on the data, and [label, replicate]."""

    noise: Floats
    total: Floats
    noise_values: Floats
    total_values: Floats

    @classmethod
    def of(cls, point: Floats, values: Floats) -> AgeCurve:
        """From [age, label] mean probabilities (less a constant), and their replicates."""
        return cls(*curve_variance(point, axis=0), *curve_variance(values, axis=0))


class Roughness(NamedTuple):
    """For each label the share of noise, and the size of the noise as a probability, with replicates."""

    share: Floats
    share_values: Floats
    jump: Floats
    jump_values: Floats
    reason: tuple[str | None, ...]
    """Why a share is undefined."""


def roughness(curve: AgeCurve) -> Roughness:
    """Roughness of every label's curve."""
    # In a replicate the sampling noise of the mean is there twice.
    added_noise = curve.noise_values.mean(axis=-1) - curve.noise
    added_total = curve.total_values.mean(axis=-1) - curve.total
    noise, total = curve.noise - added_noise, curve.total - added_total
    noise_values = curve.noise_values - 2.0 * added_noise[:, None]
    total_values = curve.total_values - 2.0 * added_total[:, None]
    share, share_values = np.full(noise.shape, np.nan), np.full(noise_values.shape, np.nan)
    np.divide(noise, total, out=share, where=(total > 0) & (curve.total > 0))
    np.divide(noise_values, total_values, out=share_values, where=total_values > 0)
    reasons = tuple(
        None if known else NO_EFFECT if flat else NO_MORE_THAN_CHANCE
        for known, flat in zip(np.isfinite(share), curve.total == 0, strict=True)
    )
    jump, jump_values = (np.sqrt(np.maximum(variance, 0.0)) for variance in (noise, noise_values))
    return Roughness(share, share_values, jump, jump_values, reasons)


def mean_roughness(members: Sequence[Roughness]) -> Roughness:
    """The mean over the members of an ensemble: averaging their curves first would smooth the noise away."""
    reasons = tuple(next((r for r in each if r), None) for each in zip(*(m.reason for m in members), strict=True))
    arrays = [np.mean(parts, axis=0) for parts in zip(*(m[:4] for m in members), strict=True)]
    return Roughness(arrays[0], arrays[1], arrays[2], arrays[3], reasons)


class AgeStep(NamedTuple):
    """The largest change between two neighbouring ages."""

    group: int
    next_group: int
    change: float


def sharpest_steps(mean: Floats, run: NDArray[np.int64]) -> list[AgeStep]:
    """For each label, the neighbouring ages between which the mean probability [group, label] changes most."""
    steps = np.diff(mean[run], axis=0)
    where = np.abs(steps).argmax(axis=0)
    return [AgeStep(int(run[k]), int(run[k + 1]), float(steps[k, j])) for j, k in enumerate(where)]
