"""The classifiers and settings of the pre-test models, against the paper's tables."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from palpate.errors import ConfigError
from palpate.train.pretest.grids import FOREST, Setup, known_classifiers, make, setups
from palpate.train.pretest.options import FAMILIES
from palpate.train.pretest.search import scores_of
from tests.train.pretest.pretest_cohort import numbers, options

EVERY = {"bow": ["words"], "embeddings": ["enc"], "xgboost": ["words"], "tables": ["attributes"]}


def test_the_grids_have_the_paper_s_size() -> None:
    found = setups(EVERY, options())
    counts = {family: sum(setup.family == family for setup in found) for family in FAMILIES}
    # 3 Perceptron, 9 ridge penalties, 4, 27, 4, 9, 16; 3, 9, 4, 1, 4, 27, 4, 9, 3, 6; 60 draws; 4, 27, 60
    assert counts == {"bow": 72, "embeddings": 70, "xgboost": 60, "tables": 91}
    assert len(set(found)) == len(found)
    assert len(known_classifiers(["bow"])) == 7
    assert len(known_classifiers(["embeddings"])) == 10
    draws = [setup for setup in found if setup.family == "xgboost"]
    assert draws[:5] == [s for s in setups(EVERY, options(draws=5)) if s.family == "xgboost"]
    only = setups(EVERY, options(classifiers="LinearSVC"))
    assert {(setup.family, setup.classifier) for setup in only} == {("bow", "LinearSVC"), ("embeddings", "LinearSVC")}
    with pytest.raises(ConfigError, match=r"have no classifier 'SVM'; they have: Perceptron"):
        setups(EVERY, options(classifiers="SVM"))


GRIDS: dict[str, dict[str, dict[str, list[Any]]]] = {
    "bow": {
        "Perceptron": {"alpha": [1e-6, 1e-5, 1e-4]},
        "RidgeClassifier": {"alpha": list(np.logspace(-4, 4, 9))},
        "PassiveAggressiveClassifier": {"C": [0.001, 0.01, 0.1, 1.0]},
        FOREST: {"n_estimators": [50, 100, 200], "max_depth": [10, 20, None], "min_samples_leaf": [1, 5, 10]},
        "LinearSVC": {"C": [0.01, 0.1, 1.0, 10.0]},
        "SGDClassifier": {"alpha": [1e-6, 1e-5, 1e-4], "penalty": ["l1", "l2", "elasticnet"]},
        "DecisionTreeClassifier": {"max_depth": [5, 10, 20, None], "min_samples_leaf": [1, 5, 10, 20]},
    },
    "embeddings": {
        "Perceptron": {"alpha": [1e-5, 1e-4, 1e-3]},
        "RidgeClassifier": {"alpha": list(np.logspace(-4, 4, 9))},
        "PassiveAggressiveClassifier": {"C": [0.01, 0.1, 0.5, 1.0]},
        "GaussianNB": {},
        "LinearDiscriminantAnalysis": {"solver": ["lsqr", "eigen"], "shrinkage": [None, "auto"]},
        FOREST: {"n_estimators": [50, 100, 150], "max_depth": [None, 5, 10], "min_samples_leaf": [1, 5, 10]},
        "KNeighborsClassifier": {"n_neighbors": [3, 5, 7, 9]},
        "MLPClassifier": {"alpha": [1e-5, 1e-4, 1e-3], "hidden_layer_sizes": [(64,), (128,), (64, 32)]},
        "LinearSVC": {"C": [0.1, 1.0, 10.0]},
        "SGDClassifier": {"alpha": [1e-5, 1e-4, 1e-3], "penalty": ["l1", "l2"]},
    },
}
"""The paper's Tables A.11 and A.5."""


@pytest.mark.parametrize("family", ["bow", "embeddings"])
def test_the_grids_are_the_paper_s(family: str) -> None:
    found = setups({family: EVERY[family]}, options())
    assert {setup.classifier for setup in found} == set(GRIDS[family])
    for classifier, grid in GRIDS[family].items():
        own = [dict(setup.settings) for setup in found if setup.classifier == classifier]
        assert len(own) == np.prod([len(values) for values in grid.values()])
        assert all(set(settings) == set(grid) for settings in own)
        for name, values in grid.items():
            assert {settings[name] for settings in own} == set(values)


def test_the_base_configurations_are_the_paper_s() -> None:
    """Tables A.10 and A.4."""
    first = {setup.group[::2]: make(setup, 42).get_params() for setup in reversed(setups(EVERY, options(draws=1)))}

    def told(family: str, classifier: str, *names: str) -> list[Any]:
        return [first[family, classifier][name] for name in names]

    assert told("bow", "Perceptron", "penalty", "random_state", "max_iter", "tol") == ["l2", 42, 1000, 1e-3]
    assert told("bow", "LinearSVC", "max_iter", "random_state") == [2000, 42]
    assert told("embeddings", "LinearSVC", "max_iter", "random_state") == [1000, 42]
    assert told("bow", "SGDClassifier", "loss", "max_iter", "tol") == ["log_loss", 1000, 1e-3]
    network = ("early_stopping", "validation_fraction", "max_iter", "random_state")
    assert told("embeddings", "MLPClassifier", *network) == [True, 0.1, 300, 42]


def test_every_classifier_fits_and_tells_positives_from_negatives() -> None:
    x, y, _ = numbers()
    first: dict[tuple[str, str, str], Setup] = {}
    for setup in setups(EVERY, options(draws=1)):
        first.setdefault(setup.group, setup)
    assert len(first) == 7 + 10 + 1 + 3
    for setup in first.values():
        given = sparse.csr_matrix(x) if setup.features == "words" else x
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = scores_of(make(setup, 42).fit(given, y), given)
        assert score.shape == y.shape
        assert score[y == 1].mean() > score[y == 0].mean(), setup


def test_passive_aggressive_is_scikit_learn_s() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    if not hasattr(linear_model, "PassiveAggressiveClassifier"):
        pytest.skip("this scikit-learn has no such class any more")
    x, y, _ = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = linear_model.PassiveAggressiveClassifier(C=0.1, random_state=42, max_iter=1000, tol=1e-3).fit(x, y)
    ours = make(Setup("bow", "words", "PassiveAggressiveClassifier", (("C", 0.1),)), 42).fit(x, y)
    np.testing.assert_allclose(scores_of(ours, x), theirs.decision_function(x))
