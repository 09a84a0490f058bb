"""From the chosen classifier to probabilities that are calibrated and out of fold.

Each of the K models leaves out two neighbouring folds, k and k + 1. It is calibrated on one of them and gives the
probabilities of the other, and the other way round, so every case to learn from has two probabilities, and their mean
is its own: nothing of its fold went into either, not into the fit and not into the calibration. All other cases get the
mean over the K models, each calibrated on both of its folds: that is scikit-learn's `CalibratedClassifierCV` with these
splits, which the paper uses. The price is that a model learns from (K - 2) / K of the cases: more folds, a lower price.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlogy

from palpate.train.pretest.grids import XGBOOST, Setup, make
from palpate.train.pretest.options import PretestOptions
from palpate.train.pretest.search import Floats, Ints, Labels, calm, scores_of

Method = Literal["platt", "isotonic"]


class Calibrated(NamedTuple):
    """Probabilities, and how much each feature weighs in the models (None where that has no meaning)."""

    p_learn: Floats
    """Out of fold."""
    p_rest: Floats
    weight: Floats | None


def method_of(setup: Setup, options: PretestOptions) -> Method:
    """Platt's scaling, or isotonic regression for XGBoost, unless one is asked for."""
    if options.calibration != "auto":
        return options.calibration
    return "isotonic" if setup.classifier == XGBOOST else "platt"


def calibrate(
    setup: Setup,
    x: Any,
    x_rest: Any,
    y: Labels,
    fold: Ints,
    options: PretestOptions,
    told: Callable[[int, int], None],
) -> Calibrated:
    """Fit the K models and give every case its probability."""
    from joblib import Parallel, delayed

    method, n_folds = method_of(setup, options), options.folds
    p_learn, p_rest = np.zeros(len(y)), np.zeros(x_rest.shape[0])
    weights: list[Floats | None] = []
    told(0, n_folds)
    with calm(), Parallel(n_jobs=options.threads, prefer="threads", return_as="generator") as pool:
        pairs = [(k, (k + 1) % n_folds) for k in range(n_folds)]
        answers = pool(delayed(_fit)(setup, x, x_rest, y, fold, pair, options.seed) for pair in pairs)
        for (one, other), (score, rest, weight) in zip(pairs, answers, strict=True):
            a, b = fold == one, fold == other
            p_learn[a] += calibrator(method, score[b], y[b])(score[a]) / 2
            p_learn[b] += calibrator(method, score[a], y[a])(score[b]) / 2
            if len(rest):
                p_rest += calibrator(method, score[a | b], y[a | b])(rest) / n_folds
            weights.append(weight)
            told(len(weights), n_folds)
    known = [weight for weight in weights if weight is not None]
    return Calibrated(p_learn, p_rest, np.mean(known, axis=0) if len(known) == n_folds else None)


def _fit(
    setup: Setup, x: Any, x_rest: Any, y: Labels, fold: Ints, pair: tuple[int, int], seed: int
) -> tuple[Floats, Floats, Floats | None]:
    """Scores of the two folds that are left out (nan elsewhere), scores of the rest, and the weights."""
    out = np.isin(fold, pair)
    rows = np.flatnonzero(~out)
    model = make(setup, seed).fit(x[rows], y[rows])
    score = np.full(len(y), np.nan)
    score[out] = scores_of(model, x[np.flatnonzero(out)])
    rest = scores_of(model, x_rest) if x_rest.shape[0] else np.zeros(0)
    return score, rest, weights_of(model)


def weights_of(model: Any) -> Floats | None:
    """The coefficients or the importance of the features, scaled to a sum of 1 in absolute value."""
    for name in ("coef_", "feature_importances_"):
        if hasattr(model, name):
            weight = np.asarray(getattr(model, name), dtype=np.float64).ravel()
            total = np.abs(weight).sum()
            return weight / total if total > 0 else weight
    return None


def calibrator(method: Method, score: Floats, y: Labels) -> Callable[[Floats], Floats]:
    """A map from scores to probabilities, learned from scores of cases that the model has not seen."""
    return _isotonic(score, y) if method == "isotonic" else _platt(score, y)


def _isotonic(score: Floats, y: Labels) -> Callable[[Floats], Floats]:
    from sklearn.isotonic import IsotonicRegression

    line = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(score, y)
    return lambda new: np.asarray(line.predict(new), dtype=np.float64)


def _platt(score: Floats, y: Labels) -> Callable[[Floats], Floats]:
    """Platt's sigmoid, with his targets in place of 0 and 1, which keep it from growing without end."""
    n_positive = float(y.sum())
    n_negative = len(y) - n_positive
    target = np.where(y == 1, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    middle, spread = float(score.mean()), float(score.std()) or 1.0
    z = (score - middle) / spread

    def loss(line: Floats) -> tuple[float, Floats]:
        p = expit(line[0] * z + line[1])
        value = -(xlogy(target, p) + xlogy(1 - target, 1 - p)).sum()
        return float(value), np.asarray([((p - target) * z).sum(), (p - target).sum()])

    begin = np.asarray([0.0, np.log((n_positive + 1) / (n_negative + 1))])
    slope, level = minimize(loss, begin, jac=True, method="BFGS", options={"gtol": 1e-6}).x
    return lambda new: np.asarray(expit(slope * (new - middle) / spread + level), dtype=np.float64)
