"""The pre-test probability of each case and label: taken from the cohort, or fitted to what was known before.

Ready probabilities are columns of the cohort (`palpate train pretest` writes them). Where there are none, a simple
model is fitted (after Section 3.2 of the context paper): a logistic regression on named attributes, on the labels of
earlier cases of the patient, and on tf-idf of earlier notes. It learns from the training split and is then calibrated
(Platt) on probabilities that are out of fold by patient, never on the audited cases. Without a training split, the
audited cases themselves are divided into folds by patient, and each fold is predicted from the others. Sampling weights
count in the fit and in the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palpate.audits.context.features import EncodedFeatures, HistoryFeatures
from palpate.audits.context.sources import EarlierLabels, Sources, number_column
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.stats import auroc
from palpate.stats.context.incremental import patient_folds
from palpate.stats.context.pretest_model import calibrator

Floats = NDArray[np.float64]
N_FOLDS = 5
FEWEST_TO_FIT = 10
EMPTY_COLUMN = "its column of pre-test probabilities is empty"
NO_COLUMN = "no column holds a pre-test probability for this label"
NOTHING_TO_LEARN = "no pre-test model: no word of the earlier notes and no attribute is frequent enough"
JOB = "pretest job"
"""The attribute that `palpate train pretest` adds to a cohort: which training run made its probabilities."""
UNCHECKED = "; the cohort does not say whether the models of the card made them"
_FURTHEST = 1e-6
_HEAVIEST = 10


class PretestProbabilities(NamedTuple):
    """Pre-test probabilities of the audited cases."""

    p: Floats
    """[case, label]; NaN where there is none."""
    origin: str
    """Where they come from, in words."""
    reason: tuple[str | None, ...]
    """Why a label has none."""
    training_auroc: Floats
    """[label] out of fold on the training split; NaN where no model was fitted on one."""
    heaviest: tuple[tuple[str, ...], ...]
    """For each label, the features with the largest coefficients; empty without a model of a training split."""
    model: tuple[str, ...]
    """For each label, which kind of model it is; empty where that is not known."""
    reads_notes: bool = False
    """Whether the features are words of notes: single words are note text too."""
    refits: Callable[[int], Iterator[Floats]] | None = None
    """So many times: what the model would say if it had learned from a resample of its patients. None where the
    probabilities come with the cohort: nothing is known then about the model that made them."""


@dataclass(frozen=True)
class PretestModel:
    """What the card of `palpate train pretest` says about the model of one label."""

    name: str
    training_auroc: float | None = None
    heaviest: tuple[str, ...] = ()
    reads_notes: bool = True
    job: str = ""
    """Which training run, as the cohort's attribute `JOB` names it; empty where the card does not say."""


def pretest_of(
    cohort: Cohort,
    labels: tuple[str, ...],
    sources: Sources,
    past: EarlierLabels | None,
    *,
    training: Ints,
    audited: Ints,
    seed: int,
) -> PretestProbabilities:
    """The pre-test probabilities of the audited rows, ready or fitted."""
    if sources.kinds == ("pretest",):
        names = [sources.columns.get(label) for label in labels]
        return ready([None if name is None else number_column(cohort, name)[audited] for name in names])
    features = HistoryFeatures(
        attributes=[(name, cohort.cases[name]) for name in sources.attributes if "attributes" in sources.kinds],
        earlier=past if "earlier" in sources.kinds else None,
        labels=labels,
        notes=cohort.cases["prior"].to_list() if "notes" in sources.kinds else None,
    )
    y_true = cohort.y_true(np.arange(len(cohort)), labels)
    weight = cohort.weights_of(training if len(training) else audited)
    return fit_pretest(features, y_true, cohort.patients, training=training, audited=audited, seed=seed, weight=weight)


def ready(columns: Sequence[Floats | None]) -> PretestProbabilities:
    """Probabilities from columns of the cohort, one for each label; None where there is none."""
    n = next(len(column) for column in columns if column is not None)
    p = np.column_stack([np.full(n, np.nan) if column is None else column for column in columns])
    empty = np.isnan(p).all(axis=0)
    return PretestProbabilities(
        p=p,
        origin="columns of the cohort",
        reason=tuple(
            NO_COLUMN if column is None else EMPTY_COLUMN if nobody else None
            for column, nobody in zip(columns, empty, strict=True)
        ),
        training_auroc=np.full(len(columns), np.nan),
        heaviest=((),) * len(columns),
        model=("",) * len(columns),
    )


def explain(
    pretest: PretestProbabilities, labels: Sequence[str], card: Mapping[str, PretestModel], *, checked: bool
) -> PretestProbabilities:
    """Ready probabilities with what the card says about their models; `checked`: both name the same training run."""
    models = [card.get(label) for label in labels]
    reads_notes = any(model is None or model.reads_notes for model in models)
    read = "earlier notes" if reads_notes else "attributes"
    return pretest._replace(
        origin=f"{pretest.origin}, by models of {read}{'' if checked else UNCHECKED}",
        training_auroc=np.asarray([np.nan if model is None else model.training_auroc for model in models], np.float64),
        heaviest=tuple(() if model is None else model.heaviest for model in models),
        model=tuple("" if model is None else model.name for model in models),
        reads_notes=reads_notes,
    )


def fit_pretest(
    features: HistoryFeatures,
    y_true: NDArray[np.uint8],
    patient: Ints,
    *,
    training: Ints,
    audited: Ints,
    seed: int,
    weight: Floats | None = None,
) -> PretestProbabilities:
    """A model for each label; `y_true`, [row, label], and `patient` are those of all rows of the cohort.

    `weight` are the sampling weights of the rows that are learned from, with a mean of 1.
    """
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
    how = _Fit(features, y_true, patient, training, audited, tuple(fitted), seed, weight)
    if fitted:
        p = how.probabilities(np.arange(len(learned)))
        if len(training):
            for j in fitted:
                training_auroc[j] = auroc(y_true[training, j], how.out_of_fold[:, j], weight=weight)
                heaviest[j] = how.heaviest(j)
    origin = f"fitted to {features.described} on {where}"
    names = tuple("LogisticRegression" if j in fitted else "" for j in range(n_labels))
    return PretestProbabilities(
        p, origin, tuple(reasons), training_auroc, tuple(heaviest), names, features.notes is not None, how.refits
    )


@dataclass(frozen=True, eq=False)
class _Fit:
    """How the probabilities of the audited rows follow from the rows that are learned from, each drawn 0, 1 or more
    times."""

    features: HistoryFeatures
    y_true: NDArray[np.uint8]
    patient: Ints
    training: Ints
    audited: Ints
    labels: tuple[int, ...]
    """Those that have enough patients."""
    seed: int
    weight: Floats | None = None
    """Sampling weights of the rows that are learned from."""

    @property
    def learned(self) -> Ints:
        return self.training if len(self.training) else self.audited

    @cached_property
    def _folds(self) -> list[tuple[NDArray[np.bool_], EncodedFeatures, Any, Any]]:
        """For each fold: which rows are outside it, and the features of those inside and outside; labels share them."""
        rows, rng = self.learned, np.random.default_rng([self.seed, 1])
        positive = np.asarray(self.y_true[rows][:, list(self.labels)].any(axis=1), dtype=bool)
        fold = patient_folds(self.patient[rows], positive, n_folds=N_FOLDS, rng=rng)
        encoded = [self.features.learn(rows[fold != k]) for k in range(N_FOLDS)]
        return [(fold != k, each, each.table(rows), each.table(rows[fold == k])) for k, each in enumerate(encoded)]

    def _predict_folds(self, drawn: Ints) -> Floats:
        """Log-odds of the rows from models that have not seen the row's patient, [row, label]."""
        y = self.y_true[self.learned]
        logits = np.zeros(y.shape)
        for known, encoded, table, asked in self._folds:
            inside = drawn[known[drawn]]
            for j in self.labels:
                model = _logistic(table[inside], y[inside, j], encoded, self._weights(inside))
                logits[~known, j] = _decision(model, asked)
        return logits

    @cached_property
    def out_of_fold(self) -> Floats:
        """The same from the rows as they are."""
        return self._predict_folds(np.arange(len(self.learned)))

    @cached_property
    def _tables(self) -> tuple[EncodedFeatures, Any, Any]:
        encoded = self.features.learn(self.training)
        return encoded, encoded.table(self.training), encoded.table(self.audited)

    def _weights(self, drawn: Ints) -> Floats | None:
        return None if self.weight is None else self.weight[drawn]

    def heaviest(self, j: int) -> tuple[str, ...]:
        encoded, table, _ = self._tables
        return _heaviest(_logistic(table, self.y_true[self.training, j], encoded, self.weight), encoded)

    def probabilities(self, drawn: Ints) -> Floats:
        """[audited row, label] if the model learns from the rows `drawn`, some of them repeated."""
        out = np.full((len(self.audited), self.y_true.shape[1]), np.nan)
        if not len(self.training):
            # Each case is predicted from other patients; calibration would have to learn from the case itself.
            is_whole = np.array_equal(drawn, np.arange(len(self.learned)))
            logits = self.out_of_fold if is_whole else self._predict_folds(drawn)
            fitted = list(self.labels)
            out[:, fitted] = _inside(expit(logits[:, fitted]))
            return out
        encoded, table, asked = self._tables
        own, weight = _places(self.training, self.audited), self._weights(drawn)
        for j in self.labels:
            y, logits = self.y_true[self.training[drawn], j], self.out_of_fold[:, j]
            model = _logistic(table[drawn], y, encoded, weight)
            calibrated = calibrator(logits[drawn], y, weight=weight)
            out[:, j] = _inside(calibrated(np.where(own >= 0, logits[own], _decision(model, asked))))
        return out

    def refits(self, n: int) -> Iterator[Floats]:
        """What models of resampled patients say. Calibration learns from the same resample, but from the log-odds out
        of fold of the data: fitting the folds again would cost five times as much."""
        rng = np.random.default_rng([self.seed, 2])
        _, code = np.unique(self.patient[self.learned], return_inverse=True)
        n_patients = int(code.max()) + 1
        for _ in range(n if self.labels else 0):
            times = np.bincount(rng.integers(0, n_patients, n_patients), minlength=n_patients)
            drawn = np.repeat(np.arange(len(code)), times[code])
            y = self.y_true[self.learned[drawn]][:, list(self.labels)]
            if bool(np.all(y.any(axis=0) & ~y.all(axis=0))):
                yield self.probabilities(drawn)


def _places(training: Ints, audited: Ints) -> Ints:
    """Where an audited row is among the training rows (it then gets its out-of-fold prediction); -1 if it is not."""
    order = np.argsort(training)
    at = np.minimum(np.searchsorted(training, audited, sorter=order), len(training) - 1)
    return np.where(training[order[at]] == audited, order[at], -1)


def _why_not(y_true: NDArray[np.uint8], patient: Ints, where: str) -> str | None:
    sides = [np.unique(patient[y_true == side]).size for side in (0, 1)]
    if min(sides) >= FEWEST_TO_FIT:
        return None
    return f"no pre-test model: fewer than {FEWEST_TO_FIT} patients with or without the label among {where}"


def _logistic(x: Any, y_true: NDArray[np.uint8], encoded: EncodedFeatures, weight: Floats | None) -> Any:
    """A logistic regression with an L2 penalty of 1; the prevalence where a fold has one class or no feature."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(y_true)) < 2 or not encoded.names:
        return DummyClassifier(strategy="prior").fit(np.zeros((len(y_true), 1)), y_true, weight)
    # Words are many and sparse, other columns few and dense: each has a solver that suits it.
    solver = "newton-cholesky" if encoded.words is None else "liblinear"
    return LogisticRegression(C=1.0, solver=solver, max_iter=2000, random_state=0).fit(x, y_true, weight)


def _decision(model: Any, x: Any) -> Floats:
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(x), np.float64)
    share = float(model.class_prior_[list(model.classes_).index(1)]) if 1 in model.classes_ else 0.0
    share = min(max(share, _FURTHEST), 1.0 - _FURTHEST)
    return np.full(x.shape[0], np.log(share / (1.0 - share)))


def _heaviest(model: Any, encoded: EncodedFeatures) -> tuple[str, ...]:
    """The features with the largest coefficients, with their sign."""
    weight = model.coef_[0]
    order = np.argsort(-np.abs(weight), kind="stable")[:_HEAVIEST]
    return tuple(f"{'+' if weight[k] > 0 else '−'} {encoded.names[k]}" for k in order if weight[k] != 0)


def _inside(p: Floats) -> Floats:
    """Probabilities with finite log-odds."""
    return np.clip(p, _FURTHEST, 1.0 - _FURTHEST)
