"""Weights under which label and context are independent (context paper, Section 3.4 and Appendix E).

The weight of a row is P(Y = y) / P(Y = y | C = c): the prevalence over the pre-test probability of the row's own label.
Under these weights the sample represents one in which the history says nothing about the label and everything else is
unchanged. That is true only as far as the pre-test probabilities are calibrated; the balance after weighting shows it.

A row's sampling weight multiplies its weight, and P(Y) is then that of the population that the rows stand for.

Brier skill is relative to the weighted prevalence, which is P(Y = 1) as far as the pre-test probability is calibrated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import GAPS, Rows, Unit, check_rows, value_columns
from palpate.stats.bootstrap import (
    DATA,
    BootstrapOptions,
    Replicates,
    check_options,
    gaps_of,
    limited_threads,
    metric_families,
)
from palpate.stats.context import context_of, pretest
from palpate.stats.context.matching import Balance, balance
from palpate.stats.inputs import Floats, divide

CLIP = (0.001, 0.999)


class ContextWeights(NamedTuple):
    """Weights that sum to the number of rows, and what they leave of the sample.

    An effective size is (sum w)^2 / sum w^2; AUROC, sensitivity and specificity are about the classes, so the sizes of
    the classes matter more than the total. nan without rows.
    """

    weight: Floats
    prevalence: float
    effective_size: float
    effective_positives: float
    effective_negatives: float
    n_clipped: int


Kind = Literal["effective_size", "extreme_weight", "no_overlap", "unbalanced"]


class WeightWarning(NamedTuple):
    """Why a re-weighted number may mean nothing: `value` is beyond `limit`.

    effective_size  the smaller class's effective share of its rows is below the limit
    extreme_weight  one row has a share of its class's weight above the limit
    no_overlap      the share of rows of one class whose p lies outside the range of the other's is above the limit
    unbalanced      after weighting, the context's AUROC is farther from 0.5 than the limit
    """

    kind: Kind
    value: float
    limit: float


class WeightLimits(NamedTuple):
    """Where `weight_warnings` starts to warn; the numbers are conventions."""

    effective_size: float = 0.1
    extreme_weight: float = 0.05
    no_overlap: float = 0.05
    unbalanced: float = 0.05


def context_weights(
    p_context: ArrayLike,
    y_true: ArrayLike,
    *,
    clip: tuple[float, float] = CLIP,
    prevalence: float | None = None,
    weight: ArrayLike | None = None,
) -> ContextWeights:
    """P(Y = y) / P(Y = y | C = c) of every row, normalised to sum to n.

    `prevalence` is P(Y = 1): that of the rows by default, or that of the training set as in the paper. If a class
    has no rows, the weights are those of the other class and mean nothing. `weight` are sampling weights, [n].
    """
    positive = _inputs.binary(y_true)
    chance = pretest(p_context)
    if positive.ndim != 1 or positive.shape != chance.shape:
        raise ValueError("p_context and y_true must have one dimension and the same number of rows")
    low, high = _clip(clip)
    mass = None if weight is None else _inputs.weights(weight, shape=positive.shape)
    share = _prevalence(positive, mass) if prevalence is None else _open(prevalence)
    raw = inverse_probability(chance, positive, clip) * np.where(positive, share, 1.0 - share)
    raw = raw if mass is None else raw * mass
    own = raw * (raw.size / raw.sum()) if raw.size else raw
    return ContextWeights(
        weight=own,
        prevalence=share,
        effective_size=effective_size(own),
        effective_positives=effective_size(own[positive]),
        effective_negatives=effective_size(own[~positive]),
        n_clipped=int(np.sum((chance < low) | (chance > high))),
    )


def _prevalence(positive: NDArray[np.bool_], mass: Floats | None) -> float:
    if mass is None:
        return divide(float(positive.sum()), float(positive.size))
    return divide(float(mass[positive].sum()), float(mass.sum()))


def effective_size(weight: ArrayLike) -> float:
    """(sum w)^2 / sum w^2: the number of equally weighted rows with the same information; nan without weight."""
    w = _inputs.finite(weight, name="weight")
    return divide(float(w.sum()) ** 2, float((w * w).sum()))


def weight_warnings(
    p_context: ArrayLike,
    y_true: ArrayLike,
    weight: ArrayLike,
    *,
    limits: WeightLimits | None = None,
) -> tuple[WeightWarning, ...]:
    """What makes numbers under these weights doubtful; empty if a class is missing (there are no numbers then)."""
    at = limits or WeightLimits()
    positive, chance, w = _inputs.scored(y_true, pretest(p_context), weight)
    classes = (positive, ~positive)
    if not all(float(w[c].sum()) > 0 for c in classes):
        return ()
    after: Balance = balance(chance, positive, weight=w)
    size = min(effective_size(w[c]) / int(c.sum()) for c in classes)
    largest = max(float(w[c].max() / w[c].sum()) for c in classes)
    outside = max(float(np.mean((chance[c] < chance[~c].min()) | (chance[c] > chance[~c].max()))) for c in classes)
    tilt = abs(after.auroc - 0.5)
    found = (
        (size < at.effective_size, WeightWarning("effective_size", size, at.effective_size)),
        (largest > at.extreme_weight, WeightWarning("extreme_weight", largest, at.extreme_weight)),
        (outside > at.no_overlap, WeightWarning("no_overlap", outside, at.no_overlap)),
        (tilt > at.unbalanced, WeightWarning("unbalanced", tilt, at.unbalanced)),
    )
    return tuple(warning for wrong, warning in found if wrong)


def reweighted_bootstrap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    p_context: ArrayLike,
    *,
    rng: np.random.Generator | int,
    metrics: Sequence[str] = ("auroc",),
    threshold: ArrayLike | None = None,
    specificity: float = 0.95,
    n_bins: int = 10,
    unit: Unit = "patient",
    patient: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    clip: tuple[float, float] = CLIP,
    prevalence: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    n_replicates: int = 10_000,
    n_threads: int | None = None,
) -> Replicates:
    """Metrics under `context_weights`, on the data and on each replicate, whose weights use its own P(Y).

    `p_context` is [n] or [n, labels], finite where `rows` is true. `prevalence`, a number or [labels], fixes P(Y = 1).
    `weight` are sampling weights, [n] or [n, labels]. All else is as in `bootstrap`, with the same resamples. The
    pre-test probabilities themselves are not fitted again, so intervals do not include the uncertainty of the pre-test
    model.
    """
    options = check_options(metrics, specificity, n_bins, n_replicates, rng)
    checked = check_rows(
        y_true, y_score, options.metrics, threshold=threshold, unit=unit, patient=patient, rows=rows, weight=weight
    )
    chance = context_of(p_context, checked)
    given = _prevalences(prevalence, checked.positive.shape[1])
    with limited_threads(n_threads):
        return _evaluate(checked, inverse_probability(chance, checked.positive, clip), given, options)


def inverse_probability(chance: Floats, positive: NDArray[np.bool_], clip: tuple[float, float]) -> Floats:
    """1 / P(Y = y | C = c), the pre-test probability clipped."""
    clipped = np.clip(chance, *_clip(clip))
    return np.asarray(1.0 / np.where(positive, clipped, 1.0 - clipped))


def _evaluate(rows: Rows, inverse: Floats, prevalence: Floats, options: BootstrapOptions) -> Replicates:
    """`rows` with their sampling weights, if any; `inverse` is 1 / P(Y = y | C = c), [n, labels]."""
    from palpate.stats import layout as _layout
    from palpate.stats.kernels import weighting as _weighting

    n_models, _, n_labels = rows.score.shape
    both = inverse if rows.weight is None else inverse * rows.weight
    ranked = _layout.ranked(rows._replace(weight=both), options.n_bins)
    sampling = np.empty(0) if rows.weight is None else _layout.ranked(rows, options.n_bins).weight

    def walk(names: Sequence[str], replicates: NDArray[np.int64]) -> Floats:
        wanted = value_columns(names, options.n_bins)
        families = metric_families(names, options, weighted=True)
        out = np.empty((n_labels * n_models, wanted.size, replicates.size))
        _weighting.replicate_reweighted(
            options.seed, replicates, prevalence, ranked, sampling, families, wanted, options.n_values, out
        )
        shape = (n_labels, n_models, wanted.size, replicates.size)
        return out.reshape(shape).transpose(1, 2, 0, 3)

    if options.noisy:
        ranked.gap[:] = gaps_of(walk((GAPS,), DATA))
    point = walk(options.metrics, DATA)[..., 0]
    return Replicates(options.metrics, point, walk(options.metrics, np.arange(options.n_replicates, dtype=np.int64)))


def _prevalences(prevalence: ArrayLike | None, n_labels: int) -> Floats:
    if prevalence is None:
        return np.full(n_labels, np.nan)
    numbers = np.asarray(prevalence, np.float64)
    if numbers.shape not in ((), (n_labels,)):
        raise ValueError(f"prevalence has shape {numbers.shape}, expected a number or {(n_labels,)}")
    return np.array([_open(float(value)) for value in np.broadcast_to(numbers, (n_labels,))])


def _open(prevalence: float) -> float:
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"prevalence must lie between 0 and 1, not {prevalence}")
    return float(prevalence)


def _clip(clip: tuple[float, float]) -> tuple[float, float]:
    low, high = clip
    if not 0.0 < low <= high < 1.0:
        raise ValueError(f"clip must be two numbers between 0 and 1, the lower first, not {clip}")
    return float(low), float(high)
