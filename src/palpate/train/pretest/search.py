"""The choice of a pre-test model by cross-validated AUROC, in stratified folds of whole patients (Appendix A).

`full` is the paper's search: every model on all folds. `halving` drops most models early, in three rounds: all of them
on the first fold, the best third on the next two folds, the best ninth on the rest; each time the best one of every
classifier continues too, so that the classifiers can be compared. Until the choice is made, a model sees at most
`search_rows` training cases of a fold, of which up to 500 are positive however rare the label is. A forest of 50 trees
is the first 50 trees of one with 200, so forests that differ only in size are grown once. A setting that can't be
fitted to the cases of a fold (a discriminant needs more cases than columns) is never chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.stats import auroc
from palpate.train.pretest.features import FeatureMatrix
from palpate.train.pretest.grids import FOREST, Setup, make
from palpate.train.pretest.options import PretestOptions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Labels = NDArray[np.uint8]
_LEAST_POSITIVE = 500
_KEPT = (1 / 3, 1 / 9)
_SIZE = "n_estimators"

CANT_FIT = (ValueError, ArithmeticError)
"""What scikit-learn raises where a setting can't be fitted: a singular matrix, a class too small, an overflow."""

Told = Callable[[int, int, int], None]
"""Called with the round, how many of its models are done, and how many it has."""


class LabelTask(NamedTuple):
    """One label: the features of its cases, and the fold of each."""

    features: Mapping[str, FeatureMatrix]
    """By name; one row per case to learn from."""
    y: Labels
    fold: Ints
    weight: Floats | None = None
    """Sampling weights; None where all cases count alike."""

    def weighing(self, rows: Ints | NDArray[np.bool_]) -> Floats | None:
        """The weights of some cases."""
        return None if self.weight is None else self.weight[rows]


class Tried(NamedTuple):
    """A model and its AUROC on each fold; nan where it was not tried, or could not be fitted."""

    setup: Setup
    auroc: Floats

    @property
    def mean(self) -> float:
        """Over the folds on which it was tried; -inf if it could be fitted to none."""
        return float(np.nanmean(self.auroc)) if np.isfinite(self.auroc).any() else -np.inf

    @property
    def finished(self) -> bool:
        """Whether it was tried on all folds."""
        return bool(np.isfinite(self.auroc).all())


class SearchResult(NamedTuple):
    """The model with the highest mean AUROC among those tried on all folds, and all models tried, the best first.

    If no model could be fitted to all folds, the best is not `finished`.
    """

    best: Tried
    tried: tuple[Tried, ...]


def make_folds(y: Labels, patients: Ints, n_folds: int, seed: int) -> Ints:
    """The fold of each case."""
    from sklearn.model_selection import StratifiedGroupKFold

    fold = np.empty(len(y), dtype=np.int64)
    splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    for number, (_, held_out) in enumerate(splitter.split(np.zeros(len(y)), y, patients)):
        fold[held_out] = number
    return fold


def search(task: LabelTask, candidates: Sequence[Setup], options: PretestOptions, told: Told) -> SearchResult:
    """Try the candidates and choose."""
    scores = {setup: np.full(options.folds, np.nan) for setup in candidates}
    left = list(candidates)
    rounds = _rounds(options)
    for number, folds in enumerate(rounds):
        _run_round(task, left, folds, scores, options, partial(told, number))
        if number < len(rounds) - 1:
            left = _survivors(left, scores, max(1, round(len(candidates) * _KEPT[number])))
        if not left:
            break
    tried = sorted(
        (Tried(setup, scores[setup]) for setup in candidates), key=lambda one: (one.finished, one.mean), reverse=True
    )
    return SearchResult(tried[0], tuple(tried))


def _rounds(options: PretestOptions) -> list[list[int]]:
    every = list(range(options.folds))
    if options.search == "full":
        return [every]
    second = 3 if options.folds > 3 else 2
    return [every[:1], every[1:second], every[second:]]


def _survivors(left: Sequence[Setup], scores: Mapping[Setup, Floats], n: int) -> list[Setup]:
    """The n best and the best of every classifier, in their old order, without those that could not be fitted."""
    fitted = [setup for setup in left if np.isfinite(scores[setup]).any()]
    ranked = sorted(fitted, key=lambda setup: -float(np.nanmean(scores[setup])))
    first = {setup.group: setup for setup in reversed(ranked)}
    kept = {*ranked[:n], *first.values()}
    return [setup for setup in left if setup in kept]


def _run_round(
    task: LabelTask,
    left: Sequence[Setup],
    folds: Sequence[int],
    scores: Mapping[Setup, Floats],
    options: PretestOptions,
    told: Callable[[int, int], None],
) -> None:
    from joblib import Parallel, delayed

    groups: dict[Setup, list[Setup]] = {}
    for setup in left:
        groups.setdefault(_without_size(setup), []).append(setup)
    jobs = [(group, fold) for fold in folds for group in groups.values()]
    rows = {fold: _training_rows(task, fold, options) for fold in folds}
    told(0, len(jobs))
    with calm(), Parallel(n_jobs=options.threads, prefer="threads", return_as="generator") as pool:
        answers = pool(delayed(_try)(task, group, fold, rows[fold], options.seed) for group, fold in jobs)
        for done, ((group, fold), answer) in enumerate(zip(jobs, answers, strict=True), start=1):
            for setup, value in zip(group, answer, strict=True):
                scores[setup][fold] = value
            told(done, len(jobs))


def _without_size(setup: Setup) -> Setup:
    """The setup without its number of trees, which is the same for forests that differ only in size."""
    if setup.classifier != FOREST:
        return setup
    return setup._replace(settings=tuple(pair for pair in setup.settings if pair[0] != _SIZE))


def _training_rows(task: LabelTask, fold: int, options: PretestOptions) -> Ints:
    rows = np.flatnonzero(task.fold != fold)
    if options.search == "full" or len(rows) <= options.search_rows:
        return rows
    rng = np.random.default_rng((options.seed, fold))
    positive, negative = (rng.permutation(rows[task.y[rows] == value]) for value in (1, 0))
    share = round(options.search_rows * len(positive) / len(rows))
    n_positive = min(len(positive), max(share, min(_LEAST_POSITIVE, options.search_rows // 2)))
    return np.sort(np.concatenate([positive[:n_positive], negative[: options.search_rows - n_positive]]))


def _try(task: LabelTask, group: Sequence[Setup], fold: int, rows: Ints, seed: int) -> list[float]:
    """AUROC on a fold of the models that one fit gives; nan if it can't be fitted."""
    held_out = np.flatnonzero(task.fold == fold)
    x = task.features[group[0].features].x
    largest = max(group, key=lambda setup: dict(setup.settings).get(_SIZE, 0))
    try:
        model = fit(make(largest, seed), x[rows], task.y[rows], task.weighing(rows))
        own = task.weighing(held_out)
        if len(group) == 1:
            return [auroc(task.y[held_out], scores_of(model, x[held_out]), weight=own)]
        sizes = [dict(setup.settings)[_SIZE] for setup in group]
        return [auroc(task.y[held_out], p, weight=own) for p in _smaller(model, x[held_out], sizes)]
    except CANT_FIT:
        return [np.nan] * len(group)


def _smaller(forest: Any, x: Any, sizes: Sequence[int]) -> list[Floats]:
    """The scores of the first trees of a forest, for several numbers of trees."""
    total, at = np.zeros(x.shape[0]), {}
    ready = x.astype(np.float32)  # what trees read; checked once, not once per tree
    for n, tree in enumerate(forest.estimators_, start=1):
        total = total + tree.predict_proba(ready, check_input=False)[:, 1]
        if n in sizes:
            at[n] = total / n
    return [at[size] for size in sizes]


def takes_weights(model: Any) -> bool:
    """Whether a classifier can weigh the cases that it learns from."""
    from sklearn.utils.validation import has_fit_parameter

    return bool(has_fit_parameter(model, "sample_weight"))


def fit(model: Any, x: Any, y: Labels, weight: Floats | None) -> Any:
    """The fitted model; one that cannot weigh cases learns from them as they are, and only its calibration is weighed.

    A sample drawn by outcome has another share of positives than the population: calibration alone can mend that.
    """
    if weight is None or not takes_weights(model):
        return model.fit(x, y)
    return model.fit(x, y, sample_weight=weight)


def scores_of(model: Any, x: Any) -> Floats:
    """A score that is higher for positives: the decision function, or the probability of classifiers without one."""
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(x), dtype=np.float64).ravel()
    return np.asarray(model.predict_proba(x), dtype=np.float64)[:, 1]


@contextmanager
def calm() -> Iterator[None]:
    """No warnings, since settings that do not converge lose by their AUROC; and one thread per model."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        yield
