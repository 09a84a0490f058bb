"""What a model knows beyond the context: AUROC of the pre-test probability, of the model, and of both together.

"Both" is a logistic regression of the label on the two logits. It is fitted in folds of whole patients and predicts the
fold left out, so it is not evaluated on the data it was fitted to; its two slopes cost it a little if the model or the
context adds nothing, and never help it. The fit is done once, on the data: replicates resample the out-of-fold
predictions, as they resample those of the model, so intervals include the uncertainty of the cases but not that of the
two slopes, which are fitted to very many rows. Not in the context paper.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import check_rows
from palpate.stats.bootstrap import bootstrap, seed_of
from palpate.stats.context import context_of
from palpate.stats.inputs import Floats

SCORES = ("context", "model", "both")
_FURTHEST = 1e-6  # a probability of 0 has no logit


class ContextGain(NamedTuple):
    """AUROCs in the order of `SCORES`; nan where undefined. `p_both` is nan if it could not be fitted.

    `gain` is both minus context: what the model adds for a reader who knows the history.
    """

    point: Floats  # [score, label]
    values: Floats  # [score, label, replicate]
    gain: Floats  # [label]
    gain_values: Floats  # [label, replicate]
    p_both: Floats  # [n, label]


def context_gain(
    y_true: ArrayLike,
    y_score: ArrayLike,
    p_context: ArrayLike,
    *,
    patient: ArrayLike,
    rng: np.random.Generator | int,
    rows: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    n_folds: int = 5,
    n_replicates: int = 10_000,
    n_threads: int | None = None,
) -> ContextGain:
    """AUROC of context, model and both, and the gain of both over the context, with replicates.

    y_true, y_score (of one model, probabilities) and p_context are [n] or [n, labels]; `rows` restricts the rows that
    are fitted and measured, and `weight`, [n] or [n, labels], weighs them. The resamples are those of `bootstrap` for
    the same integer `rng` and patients.
    """
    seed = int(seed_of(rng))
    checked = check_rows(
        y_true, y_score, ("brier",), threshold=None, unit="patient", patient=patient, rows=rows, weight=weight
    )
    if checked.score.shape[0] != 1:
        raise ValueError("y_score must come from one model: [n] or [n, labels]")
    chance, score = context_of(p_context, checked), checked.score[0]
    p_both = np.full(chance.shape, np.nan)
    for label in range(chance.shape[1]):
        used = checked.used[:, label]
        p_both[used, label] = combine_logits(
            checked.positive[used, label],
            score[used, label],
            chance[used, label],
            patient=checked.unit[used, label],
            rng=np.random.default_rng([seed, label]),
            n_folds=n_folds,
            weight=None if checked.weight is None else checked.weight[used, label],
        )
    unknown = np.isnan(p_both)
    found = bootstrap(
        checked.positive,
        np.stack([chance, score, np.where(unknown, 0.5, p_both)]),
        patient=patient,
        rows=checked.used,
        weight=checked.weight,
        rng=seed,
        n_replicates=n_replicates,
        n_threads=n_threads,
    )
    point, values = found.point[:, 0].copy(), found.values[:, 0].copy()
    unfitted = np.any(unknown & checked.used, axis=0)
    point[2, unfitted], values[2, unfitted] = np.nan, np.nan
    return ContextGain(point, values, point[2] - point[0], values[2] - values[0], p_both)


def combine_logits(
    y_true: ArrayLike,
    y_score: ArrayLike,
    p_context: ArrayLike,
    *,
    patient: ArrayLike,
    rng: np.random.Generator,
    n_folds: int = 5,
    weight: ArrayLike | None = None,
) -> Floats:
    """Out-of-fold probabilities of a logistic regression on the logits of model and context, [n].

    A patient's rows are in one fold. Logits are standardised and the fit has an L2 penalty of 1, so that perfectly
    separable classes can be fitted too; weights count with a mean of 1. nan everywhere if some fold would
    be fitted to a single class.
    """
    from sklearn.linear_model import LogisticRegression

    positive = _inputs.binary(y_true)
    logits = np.column_stack(
        [_logit(_inputs.finite(y_score, name="y_score")), _logit(_inputs.finite(p_context, name="p"))]
    )
    mass = None if weight is None else _inputs.weights(weight, shape=positive.shape)
    fold = patient_folds(patient, positive, n_folds=n_folds, rng=rng)
    out = np.full(positive.size, np.nan)
    for k in range(n_folds):
        known, asked = fold != k, fold == k
        if len(np.unique(positive[known])) < 2:
            return np.full(positive.size, np.nan)
        if not asked.any():
            continue
        centre, spread = logits[known].mean(axis=0), logits[known].std(axis=0)
        scaled = (logits - centre) / np.where(spread > 0, spread, 1.0)
        own = None if mass is None else mass[known] / mass[known].mean()
        model = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-8)
        fit = model.fit(scaled[known], positive[known], sample_weight=own)
        out[asked] = fit.predict_proba(scaled[asked])[:, 1]
    return out


def patient_folds(
    patient: ArrayLike, positive: NDArray[np.bool_], *, n_folds: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The fold of every row: patients are shuffled and dealt out, those with a positive row first."""
    if n_folds < 2:
        raise ValueError("n_folds must be at least 2")
    _, code = np.unique(np.asarray(patient), return_inverse=True)
    n_patients = int(code.max()) + 1 if code.size else 0
    without = np.bincount(code[positive], minlength=n_patients) == 0
    order = np.lexsort((rng.random(n_patients), without))
    fold = np.empty(n_patients, np.int64)
    fold[order] = np.arange(n_patients) % n_folds
    return np.asarray(fold[code])


def _logit(p: Floats) -> Floats:
    clipped = np.clip(p, _FURTHEST, 1.0 - _FURTHEST)
    return np.asarray(np.log(clipped / (1.0 - clipped)))
