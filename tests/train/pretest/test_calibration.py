"""Calibrated, out-of-fold probabilities, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV

from palpate.train.pretest.calibration import calibrate
from palpate.train.pretest.grids import FOREST, Setup, make
from palpate.train.pretest.search import make_folds
from tests.train.pretest.pretest_cohort import numbers, options

SVC = Setup("bow", "words", "LinearSVC", (("C", 0.1),))
GROVE = Setup("bow", "words", FOREST, (("n_estimators", 20), ("max_depth", 4), ("min_samples_leaf", 5)))


@pytest.mark.parametrize("setup", [SVC, GROVE])
@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_like_calibrated_classifier_cv(setup: Setup, method: str) -> None:
    x, y, patients = numbers(400)
    fold = make_folds(y, patients, 5, 42)
    new, _, _ = numbers(50, seed=1)
    made = calibrate(setup, x, new, y, fold, options(calibration=method), lambda *_: None)
    splits = [
        (np.flatnonzero(~np.isin(fold, pair)), np.flatnonzero(np.isin(fold, pair)))
        for pair in ((k, (k + 1) % 5) for k in range(5))
    ]
    name = "sigmoid" if method == "platt" else method
    theirs = CalibratedClassifierCV(make(setup, 42), method=name, cv=splits, ensemble=True).fit(x, y)
    np.testing.assert_allclose(made.p_rest, theirs.predict_proba(new)[:, 1], atol=2e-4)
    assert ((made.p_learn >= 0) & (made.p_learn <= 1)).all()


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_nothing_of_a_fold_is_in_its_probabilities(method: str) -> None:
    """Neither fit nor calibration: other labels in a fold leave the probabilities of that fold as they were."""
    x, y, patients = numbers(200)
    fold = make_folds(y, patients, 5, 42)
    own = options(calibration=method)
    before = calibrate(SVC, x, x[:0], y, fold, own, lambda *_: None).p_learn
    for k in range(5):
        wrong = np.where(fold == k, 1 - y, y).astype(np.uint8)
        after = calibrate(SVC, x, x[:0], wrong, fold, own, lambda *_: None).p_learn
        assert np.array_equal(after[fold == k], before[fold == k])
        assert not np.array_equal(after[fold != k], before[fold != k])


def test_weights_are_of_all_models() -> None:
    x, y, patients = numbers()
    fold = make_folds(y, patients, 5, 42)
    made = calibrate(SVC, x, x[:0], y, fold, options(), lambda *_: None)
    assert made.weight is not None
    assert np.argmax(np.abs(made.weight)) == 0
    assert np.abs(made.weight).sum() <= 1 + 1e-9
    nearest = Setup("embeddings", "enc", "KNeighborsClassifier", (("n_neighbors", 5),))
    assert calibrate(nearest, x, x[:0], y, fold, options(), lambda *_: None).weight is None


def test_constant_scores_give_the_prevalence() -> None:
    _, y, patients = numbers(200)
    fold = make_folds(y, patients, 5, 42)
    made = calibrate(SVC, np.ones((200, 1), dtype=np.float32), np.ones((3, 1)), y, fold, options(), lambda *_: None)
    assert made.p_rest == pytest.approx(y.mean(), abs=0.02)
