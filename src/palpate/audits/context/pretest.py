"""The pre-test probability of each case and label: taken from the cohort, or fitted to what was known before.

A ready probability is a column of the cohort (`palpate train pretest` writes such columns). Where there is none, a
plain model is fitted (context paper, Section 3.2, in small): a logistic regression on named attributes, on labels that
earlier cases of the patient have, and on tf-idf of earlier notes. It learns from the training split and is then
rescaled (Platt) on probabilities that are out of fold by patient, never on the audited cases. Without a training split
the audited cases themselves are divided into folds by patient, and each is predicted from the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.features import EncodedFeatures, Features
from palpate.cases.edits import Ints
from palpate.stats import auroc
from palpate.stats.context.incremental import patient_folds

Floats = NDArray[np.float64]
N_FOLDS = 5
FEWEST_TO_FIT = 10
EMPTY_COLUMN = "its column of pre-test probabilities is empty"
NO_COLUMN = "no column holds a pre-test probability of this label"
NOTHING_TO_LEARN = "no pre-test model: no word of the earlier notes and no attribute is frequent enough"
JOB = "pretest job"
"""The attribute of a cohort by `palpate train pretest` that says which training its probabilities are of."""
UNCHECKED = "; the cohort does not say whether they are those of the card"
_FURTHEST = 1e-6
_HEAVIEST = 10


class Pretest(NamedTuple):
    """Pre-test probabilities of the audited cases."""

    p: Floats
    """[case, label]; nan where there is none."""
    origin: str
    """In words, where they come from."""
    reason: tuple[str | None, ...]
    """Why a label has none."""
    training_auroc: Floats
    """[label] out of fold on the training split; nan where nothing was fitted on one."""
    heaviest: tuple[tuple[str, ...], ...]
    """Of each label the features with the largest coefficients; empty where nothing was fitted on a training split."""
    model: tuple[str, ...]
    """Of each label which model it is; empty where that is not known."""


@dataclass(frozen=True)
class PretestModel:
    """What the card of `palpate train pretest` tells of a label's model."""

    name: str
    training_auroc: float | None = None
    heaviest: tuple[str, ...] = ()
    reads_notes: bool = True
    job: str = ""
    """Which training, as the cohort's attribute `JOB` names it; empty where the card does not say."""


def ready(columns: Sequence[tuple[str, Any] | None]) -> Pretest:
    """Probabilities from columns of the cohort: (name, values) for each label, None where there is none."""
    n = next(len(found[1]) for found in columns if found is not None)
    nothing = np.full(n, np.nan)
    p = np.column_stack([nothing if found is None else np.asarray(found[1], np.float64) for found in columns])
    empty = np.isnan(p).all(axis=0)
    return Pretest(
        p=p,
        origin="columns of the cohort",
        reason=tuple(
            NO_COLUMN if found is None else EMPTY_COLUMN if nobody else None
            for found, nobody in zip(columns, empty, strict=True)
        ),
        training_auroc=np.full(len(columns), np.nan),
        heaviest=((),) * len(columns),
        model=("",) * len(columns),
    )


def explain(pretest: Pretest, labels: Sequence[str], card: Mapping[str, PretestModel], *, checked: bool) -> Pretest:
    """Ready probabilities with what is known of the models that made them; `checked`: both name the same training."""
    told = [card.get(label) for label in labels]
    read = "earlier notes" if any(each is None or each.reads_notes for each in told) else "attributes"
    return pretest._replace(
        origin=f"{pretest.origin}, by models of {read}{'' if checked else UNCHECKED}",
        training_auroc=np.asarray([np.nan if each is None else each.training_auroc for each in told], np.float64),
        heaviest=tuple(() if each is None else each.heaviest for each in told),
        model=tuple("" if each is None else each.name for each in told),
    )


def fit_pretest(
    features: Features, y_true: NDArray[np.uint8], patient: Ints, *, training: Ints, audited: Ints, seed: int
) -> Pretest:
    """Every label's fit; `y_true`, [row, label], and `patient` are of all rows of the cohort."""
    learned = training if len(training) else audited
    n_labels = y_true.shape[1]
    where = "the training split" if len(training) else "other patients among the audited cases, in five folds"
    p = np.full((len(audited), n_labels), np.nan)
    training_auroc = np.full(n_labels, np.nan)
    heaviest: list[tuple[str, ...]] = [()] * n_labels
    reasons = [_why_not(y_true[learned, j], patient[learned], where) for j in range(n_labels)]
    if len(learned) and not features.learn(learned).names:
        reasons = [NOTHING_TO_LEARN] * n_labels
    fitted = [j for j in range(n_labels) if reasons[j] is None]
    if fitted:
        logits = _out_of_fold(features, y_true[learned], patient[learned], learned, fitted, seed)
        if len(training):
            encoded = features.learn(training)
            tables = encoded.table(training), encoded.table(audited)
            own = _places(training, audited)
            for j in fitted:
                slope, shift = _platt(logits[:, j], y_true[training, j])
                model = _logistic(tables[0], y_true[training, j], encoded)
                logit = np.where(own >= 0, logits[own, j], _decision(model, tables[1]))
                p[:, j] = _probability(slope * logit + shift)
                training_auroc[j] = auroc(y_true[training, j], logits[:, j])
                heaviest[j] = _heaviest(model, encoded)
        else:
            # Each case is predicted from other patients; a rescaling would have to learn from the case itself.
            p[:, fitted] = _probability(logits[:, fitted])
    origin = f"fitted to {features.described} on {where}"
    names = tuple("LogisticRegression" if j in fitted else "" for j in range(n_labels))
    return Pretest(p, origin, tuple(reasons), training_auroc, tuple(heaviest), names)


def _places(training: Ints, audited: Ints) -> Ints:
    """Where an audited row is among the training rows, -1 if it is not: such a row gets its out-of-fold answer."""
    order = np.argsort(training)
    at = np.minimum(np.searchsorted(training, audited, sorter=order), len(training) - 1)
    return np.where(training[order[at]] == audited, order[at], -1)


def _why_not(y_true: NDArray[np.uint8], patient: Ints, where: str) -> str | None:
    sides = [np.unique(patient[y_true == side]).size for side in (0, 1)]
    if min(sides) >= FEWEST_TO_FIT:
        return None
    return f"no pre-test model: fewer than {FEWEST_TO_FIT} patients with or without the label among {where}"


def _out_of_fold(
    features: Features, y_true: NDArray[np.uint8], patient: Ints, rows: Ints, fitted: Sequence[int], seed: int
) -> Floats:
    """Log-odds of rows by models that have not seen their patients, [row, label]; one set of folds for all labels."""
    rng = np.random.default_rng([seed, 1])
    fold = patient_folds(patient, np.asarray(y_true[:, list(fitted)].any(axis=1), dtype=bool), n_folds=N_FOLDS, rng=rng)
    logits = np.zeros(y_true.shape)
    for k in range(N_FOLDS):
        inside, outside = fold != k, fold == k
        encoded = features.learn(rows[inside])
        tables = encoded.table(rows[inside]), encoded.table(rows[outside])
        for j in fitted:
            logits[outside, j] = _decision(_logistic(tables[0], y_true[inside, j], encoded), tables[1])
    return logits


def _logistic(x: Any, y_true: NDArray[np.uint8], encoded: EncodedFeatures) -> Any:
    """A logistic regression with an L2 penalty of 1; the base rate where a fold has one class or no feature."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(y_true)) < 2 or not encoded.names:
        return DummyClassifier(strategy="prior").fit(np.zeros((len(y_true), 1)), y_true)
    # Words are many and sparse, columns of a table few and dense: each solver suits its own.
    solver = "liblinear" if encoded.sparse else "newton-cholesky"
    return LogisticRegression(C=1.0, solver=solver, max_iter=2000, random_state=0).fit(x, y_true)


def _decision(model: Any, x: Any) -> Floats:
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(x), np.float64)
    share = float(model.class_prior_[list(model.classes_).index(1)]) if 1 in model.classes_ else 0.0
    share = min(max(share, _FURTHEST), 1.0 - _FURTHEST)
    return np.full(x.shape[0], np.log(share / (1.0 - share)))


def _platt(logit: Floats, y_true: NDArray[np.uint8]) -> tuple[float, float]:
    """Slope and intercept that make log-odds calibrated."""
    from sklearn.linear_model import LogisticRegression

    spread = float(logit.std()) or 1.0
    fit = LogisticRegression(C=1e6, solver="newton-cholesky").fit((logit / spread)[:, None], y_true)
    return float(fit.coef_[0, 0]) / spread, float(fit.intercept_[0])


def _heaviest(model: Any, encoded: EncodedFeatures) -> tuple[str, ...]:
    """The features with the largest coefficients, with their direction."""
    weight = model.coef_[0]
    order = np.argsort(-np.abs(weight), kind="stable")[:_HEAVIEST]
    return tuple(f"{'+' if weight[k] > 0 else '−'} {encoded.names[k]}" for k in order if weight[k] != 0)


def _probability(logit: Floats) -> Floats:
    odds = np.exp(-np.clip(logit, -30.0, 30.0))
    return np.asarray(np.clip(1.0 / (1.0 + odds), _FURTHEST, 1.0 - _FURTHEST))
