"""How well scores separate the classes: areas under curves, and operating points chosen on a curve.

Sensitivity at a specificity is that of the chest X-ray context paper (Section 3.5), but with a strict constraint: the
nearest false positive rate may be above 5%, so only thresholds that reach the specificity count. A row is predicted
positive if its score is at least the threshold. All results equal scikit-learn's with `sample_weight`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats import inputs as _inputs
from palpate.stats.inputs import Floats, Masses

_WEIGHT_TOLERANCE = 1e-12  # rounding of sums of weights; counts are compared exactly


class _Curve(NamedTuple):
    """Distinct scores from high to low, and the mass predicted positive at each."""

    score: Floats
    tp: Masses
    fp: Masses
    tolerance: float


def _curve(y_true: ArrayLike, y_score: ArrayLike, weight: ArrayLike | None) -> _Curve:
    positive, score, mass = _inputs.scored(y_true, y_score, weight)
    present = mass > 0
    positive, score, mass = positive[present], score[present], mass[present]
    # Whole masses sum to the same in any order of equal scores, which is found in half the time.
    order = np.argsort(-score, kind=None if weight is None else "stable")
    score = score[order]
    last = np.flatnonzero(np.append(score[1:] != score[:-1], True)[: score.size])
    tp = np.cumsum(np.where(positive, mass, 0)[order])[last]
    fp = np.cumsum(np.where(positive, 0, mass)[order])[last]
    return _Curve(score[last], tp, fp, 0.0 if weight is None else _WEIGHT_TOLERANCE)


def _both_classes(curve: _Curve) -> bool:
    return curve.score.size > 0 and bool(curve.tp[-1] > 0) and bool(curve.fp[-1] > 0)


def auroc(y_true: ArrayLike, y_score: ArrayLike, *, weight: ArrayLike | None = None) -> float:
    """Area under the ROC curve, a tie counting half; nan with one class."""
    curve = _curve(y_true, y_score, weight)
    if not _both_classes(curve):
        return float("nan")
    tp_before = np.append(0, curve.tp[:-1])
    twice = np.sum(np.diff(curve.fp, prepend=0) * (tp_before + curve.tp))
    return float(twice / (2 * curve.tp[-1] * curve.fp[-1]))


def auprc(y_true: ArrayLike, y_score: ArrayLike, *, weight: ArrayLike | None = None) -> float:
    """Average precision (no interpolation); nan without positives."""
    curve = _curve(y_true, y_score, weight)
    if curve.score.size == 0 or curve.tp[-1] <= 0:
        return float("nan")
    gained = np.diff(curve.tp, prepend=0)
    return float(np.sum(gained * (curve.tp / (curve.tp + curve.fp))) / curve.tp[-1])


class OperatingPoint(NamedTuple):
    """A threshold and what it gives."""

    threshold: float
    sensitivity: float
    specificity: float


def operating_point(
    y_true: ArrayLike, y_score: ArrayLike, *, specificity: float = 0.95, weight: ArrayLike | None = None
) -> OperatingPoint:
    """The point of highest sensitivity among thresholds whose specificity is at least `specificity`.

    Of thresholds with that sensitivity it is the highest. If no score reaches the specificity, nothing is predicted
    positive: the threshold is infinite and the sensitivity 0. nan with one class.
    """
    least = _inputs.fraction(specificity, name="specificity")
    curve = _curve(y_true, y_score, weight)
    if not _both_classes(curve):
        return OperatingPoint(float("nan"), float("nan"), float("nan"))
    n_positive, n_negative = curve.tp[-1], curve.fp[-1]
    reached = (n_negative - curve.fp) / n_negative >= least - curve.tolerance
    n_reached = int(np.sum(reached))
    if n_reached == 0 or curve.tp[n_reached - 1] <= 0:
        return OperatingPoint(float("inf"), 0.0, 1.0)
    best = int(np.searchsorted(curve.tp[:n_reached], curve.tp[n_reached - 1]))
    return OperatingPoint(
        float(curve.score[best]),
        float(curve.tp[best] / n_positive),
        float((n_negative - curve.fp[best]) / n_negative),
    )


def sensitivity_at_specificity(
    y_true: ArrayLike, y_score: ArrayLike, *, specificity: float = 0.95, weight: ArrayLike | None = None
) -> float:
    """The highest sensitivity among thresholds whose specificity is at least `specificity`."""
    return operating_point(y_true, y_score, specificity=specificity, weight=weight).sensitivity


def threshold_at_specificity(
    y_true: ArrayLike, y_score: ArrayLike, *, specificity: float = 0.95, weight: ArrayLike | None = None
) -> float:
    """The threshold of `sensitivity_at_specificity`; infinite if nothing may be predicted positive."""
    return operating_point(y_true, y_score, specificity=specificity, weight=weight).threshold


def youden_threshold(y_true: ArrayLike, y_score: ArrayLike, *, weight: ArrayLike | None = None) -> float:
    """The score with the highest sensitivity + specificity - 1, the highest such score; nan with one class."""
    if weight is None:
        return _best_cut(y_true, y_score)
    curve = _curve(y_true, y_score, weight)
    if not _both_classes(curve):
        return float("nan")
    n_positive, n_negative = curve.tp[-1], curve.fp[-1]
    index = curve.tp * n_negative - curve.fp * n_positive
    slack = curve.tolerance * float(n_positive * n_negative)
    return float(curve.score[int(np.argmax(index >= index.max() - slack))])


def _best_cut(y_true: ArrayLike, y_score: ArrayLike) -> float:
    """`youden_threshold` without weights: below a positive's score, negatives only take away, so no other score is the
    best, and sorting each class on its own is much faster than finding an order."""
    positive, score, _ = _inputs.scored(y_true, y_score, None)
    up, down = np.sort(score[positive]), np.sort(score[~positive])
    if not up.size or not down.size:
        return float("nan")
    cuts, below = np.unique(up, return_index=True)
    passed = np.searchsorted(down, cuts, side="left")
    index = (up.size - below) * down.size - (down.size - passed) * up.size
    return float(cuts[len(cuts) - 1 - int(np.argmax(index[::-1]))])


def recall_threshold(
    y_true: ArrayLike, y_score: ArrayLike, *, recall: float = 0.70, weight: ArrayLike | None = None
) -> float:
    """The highest score at which recall is at least `recall`; nan without positives."""
    target = _inputs.fraction(recall, name="recall")
    curve = _curve(y_true, y_score, weight)
    if curve.score.size == 0 or curve.tp[-1] <= 0:
        return float("nan")
    return float(curve.score[int(np.argmax(curve.tp / curve.tp[-1] >= target - curve.tolerance))])


class Capacity(NamedTuple):
    """A threshold that flags as many rows as can be looked at, and the share that it does flag."""

    threshold: float
    flagged: float


def capacity_threshold(y_score: ArrayLike, share: float, *, weight: ArrayLike | None = None) -> Capacity:
    """The score at which the share of rows that reach it is nearest to `share`; of two equally near, the higher one.

    Tied scores are flagged together, so the share that is flagged may be higher or lower than the one that is asked
    for. At least one score is flagged; nan without rows.
    """
    wanted = _inputs.fraction(share, name="share")
    scores = np.asarray(y_score, np.float64)
    curve = _curve(np.ones(scores.shape, np.uint8), scores, weight)
    if curve.score.size == 0:
        return Capacity(float("nan"), float("nan"))
    flagged = curve.tp / curve.tp[-1]
    distance = np.abs(flagged - wanted)
    best = int(np.argmax(distance <= distance.min() + _WEIGHT_TOLERANCE))
    return Capacity(float(curve.score[best]), float(flagged[best]))
