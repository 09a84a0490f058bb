"""The choice of a pre-test model, against scikit-learn's grid search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

from palpate.train.pretest.card import describe_search
from palpate.train.pretest.features import (
    FeatureMatrix,
)
from palpate.train.pretest.grids import FOREST, XGBOOST, make, setups
from palpate.train.pretest.search import LabelTask, fit, make_folds, search, takes_weights
from tests.train.pretest.pretest_cohort import discriminants, numbers, options


def test_folds_keep_patients_together() -> None:
    _, y, patients = numbers()
    fold = make_folds(y, patients, 5, 42)
    assert all(len(set(fold[patients == patient])) == 1 for patient in np.unique(patients))
    share = [y[fold == k].mean() for k in range(5)]
    assert max(share) - min(share) < 0.05


@pytest.mark.parametrize("classifier", ["LinearSVC", FOREST, "DecisionTreeClassifier"])
def test_the_full_search_is_a_grid_search(classifier: str) -> None:
    x, y, patients = numbers(150)
    own = options(search="full", classifiers=classifier)
    candidates = setups({"bow": ["words"]}, own)
    if classifier == FOREST:
        # Two sizes of one forest, which are grown as one.
        same = (("max_depth", 10), ("min_samples_leaf", 10))
        candidates = [setup for setup in candidates if setup.settings[1:] == same][:2]
    fold = make_folds(y, patients, 5, 42)
    found = search(LabelTask({"words": FeatureMatrix(x)}, y, fold), candidates, own, lambda *_: None)
    grid = {
        name: sorted({dict(s.settings)[name] for s in candidates}, key=str) for name in dict(candidates[0].settings)
    }
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(5)]
    slow = GridSearchCV(make(candidates[0], 42), grid, scoring="roc_auc", cv=splits, refit=False).fit(x, y)
    expected = {
        tuple(sorted(params.items(), key=str)): score
        for params, score in zip(slow.cv_results_["params"], slow.cv_results_["mean_test_score"], strict=True)
    }
    assert len(found.tried) == len(expected)
    for tried in found.tried:
        assert tried.mean == pytest.approx(expected[tuple(sorted(tried.setup.settings, key=str))], abs=1e-12)
    assert found.best.mean == pytest.approx(slow.best_score_, abs=1e-12)


def test_halving_gives_most_up_and_keeps_one_of_each() -> None:
    x, y, patients = numbers()
    cheap = ["Perceptron", "RidgeClassifier", "LinearSVC", "DecisionTreeClassifier", XGBOOST]
    own = options(draws=4, search_rows=100, classifiers=cheap)
    candidates = setups({"bow": ["words"], "xgboost": ["words"]}, own)
    calls: list[tuple[int, int, int]] = []
    task = LabelTask({"words": FeatureMatrix(sparse.csr_matrix(x))}, y, make_folds(y, patients, 5, 42))
    found = search(task, candidates, own, lambda *told: calls.append(told))
    n_folds = np.asarray([np.isfinite(tried.auroc).sum() for tried in found.tried])
    assert len(found.tried) == 36
    assert (n_folds >= 1).all()
    assert 12 <= (n_folds >= 3).sum() <= 17
    assert 4 <= (n_folds == 5).sum() <= 9
    assert {tried.setup.classifier for tried in found.tried if tried.finished} == set(cheap)
    assert found.best.mean == max(tried.mean for tried in found.tried if tried.finished)
    assert [call[0] for call in calls if call[1] == call[2]] == [0, 1, 2]
    again = search(task, candidates, own.model_copy(update={"threads": 2}), lambda *_: None)
    assert [one.setup for one in again.tried] == [one.setup for one in found.tried]
    assert all(np.array_equal(a.auroc, b.auroc, equal_nan=True) for a, b in zip(again.tried, found.tried, strict=True))


@pytest.mark.parametrize("kind", ["full", "halving"])
def test_a_setting_that_can_t_be_fitted_loses(kind: str) -> None:
    """A singular matrix ended the whole training."""
    task, candidates = discriminants(400)
    found = search(task, candidates, options(search=kind), lambda *_: None)
    (lost,) = (tried for tried in found.tried if not np.isfinite(tried.auroc).any())
    assert dict(lost.setup.settings) == {"solver": "eigen", "shrinkage": None}
    assert found.tried[-1] is lost
    assert found.best.finished
    assert describe_search(found)["n_not_fitted"] == 1
    nothing = search(task, [lost.setup], options(search=kind), lambda *_: None)
    assert not nothing.best.finished


def test_a_rare_label_keeps_its_positives() -> None:
    from palpate.train.pretest.search import _training_rows

    y = np.zeros(5000, dtype=np.uint8)
    y[::100] = 1
    task = LabelTask({}, y, np.arange(5000, dtype=np.int64) % 5)
    rows = _training_rows(task, 0, options(search_rows=400))
    assert len(rows) == len(set(rows)) == 400
    assert y[rows].sum() == y[task.fold != 0].sum()
    assert not (task.fold[rows] == 0).any()


def test_a_forest_s_first_trees_are_the_smaller_forest() -> None:
    from palpate.train.pretest.search import _smaller

    x, y, _ = numbers(120)
    large = RandomForestClassifier(20, random_state=42).fit(x, y)
    for size, p in zip((5, 20), _smaller(large, x, [5, 20]), strict=True):
        small = RandomForestClassifier(size, random_state=42).fit(x, y)
        np.testing.assert_allclose(p, small.predict_proba(x)[:, 1], atol=1e-12)


def test_a_classifier_that_cannot_weigh_cases_learns_from_them_as_they_are() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), (rng.random(60) < 0.5).astype(np.uint8)
    weight = rng.uniform(0.1, 5.0, 60)
    near, line = KNeighborsClassifier(), LogisticRegression()
    assert not takes_weights(near)
    assert takes_weights(line)
    assert (fit(near, x, y, weight).predict(x) == KNeighborsClassifier().fit(x, y).predict(x)).all()
    wanted = LogisticRegression().fit(x, y, sample_weight=weight).coef_
    assert np.allclose(fit(line, x, y, weight).coef_, wanted)
