"""From the chosen classifier to probabilities that are calibrated and out of fold.

Each of the K models leaves out two adjacent folds, k and k + 1. It is calibrated on one of them and gives the
probabilities of the other, and vice versa, so every case to learn from gets two probabilities, whose mean it keeps:
nothing of its fold went into the fit or the calibration of either. All other cases get the mean over the K models, each
calibrated on both of its folds: this is scikit-learn's `CalibratedClassifierCV` with these splits, as in the paper. The
price is that a model learns from only (K - 2) / K of the cases; more folds lower it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.stats.context.pretest_model import Calibration, calibrator
from palpate.train.pretest.grids import XGBOOST, Setup, make
from palpate.train.pretest.options import PretestOptions
from palpate.train.pretest.search import Floats, Ints, Labels, calm, fit, scores_of


class Calibrated(NamedTuple):
    """Probabilities, and how much each feature weighs in the models (None if they have no weights)."""

    p_learn: Floats
    """Out of fold."""
    p_rest: Floats
    weight: Floats | None


def method_of(setup: Setup, options: PretestOptions) -> Calibration:
    """Platt's scaling, or isotonic regression for XGBoost, unless the options choose one."""
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
    weight: Floats | None = None,
) -> Calibrated:
    """Fit the K models and give every case its probability; `weight` are the sampling weights of those learned from."""
    from joblib import Parallel, delayed

    method, n_folds = method_of(setup, options), options.folds
    p_learn, p_rest = np.zeros(len(y)), np.zeros(x_rest.shape[0])
    weights: list[Floats | None] = []
    told(0, n_folds)

    def learned(score: Floats, rows: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
        return calibrator(score[rows], y[rows], method, None if weight is None else weight[rows])

    with calm(), Parallel(n_jobs=options.threads, prefer="threads", return_as="generator") as pool:
        pairs = [(k, (k + 1) % n_folds) for k in range(n_folds)]
        answers = pool(delayed(_fit)(setup, x, x_rest, y, fold, pair, options.seed, weight) for pair in pairs)
        for (one, other), (score, rest, own) in zip(pairs, answers, strict=True):
            a, b = fold == one, fold == other
            p_learn[a] += learned(score, b)(score[a]) / 2
            p_learn[b] += learned(score, a)(score[b]) / 2
            if len(rest):
                p_rest += learned(score, a | b)(rest) / n_folds
            weights.append(own)
            told(len(weights), n_folds)
    known = [own for own in weights if own is not None]
    return Calibrated(p_learn, p_rest, np.mean(known, axis=0) if len(known) == n_folds else None)


def _fit(
    setup: Setup,
    x: Any,
    x_rest: Any,
    y: Labels,
    fold: Ints,
    pair: tuple[int, int],
    seed: int,
    weight: Floats | None = None,
) -> tuple[Floats, Floats, Floats | None]:
    """Scores of the two folds left out (nan elsewhere), scores of the rest, and the weights."""
    out = np.isin(fold, pair)
    rows = np.flatnonzero(~out)
    model = fit(make(setup, seed), x[rows], y[rows], None if weight is None else weight[rows])
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
