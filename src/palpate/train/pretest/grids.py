"""The classifiers of the pre-test models and their settings (context paper, Tables A.4, A.5, A.10 and A.11).

Three differences from the paper's tables. Ridge: the penalty is chosen by cross-validation like every other setting,
not by leave-one-out, which would need all eigenvalues of a matrix of 8,192 words. LinearSVC: solved in its primal form,
which has the same optimum and converges. PassiveAggressiveClassifier: newer versions of scikit-learn offer it as a
setting of SGDClassifier. The paper does not give its ranges for XGBoost; those here are ours, like the family `tables`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from palpate.errors import ConfigError, MissingExtra
from palpate.train.pretest.options import FAMILIES, PretestOptions

Grid = Mapping[str, Sequence[Any]]
XGBOOST = "XGBClassifier"
FOREST = "RandomForestClassifier"
_RIDGE: Grid = {"alpha": [float(10.0**k) for k in range(-4, 5)]}
_BOW: dict[str, Grid] = {
    "Perceptron": {"alpha": [1e-6, 1e-5, 1e-4]},
    "RidgeClassifier": _RIDGE,
    "PassiveAggressiveClassifier": {"C": [0.001, 0.01, 0.1, 1.0]},
    FOREST: {"n_estimators": [50, 100, 200], "max_depth": [10, 20, None], "min_samples_leaf": [1, 5, 10]},
    "LinearSVC": {"C": [0.01, 0.1, 1.0, 10.0]},
    "SGDClassifier": {"alpha": [1e-6, 1e-5, 1e-4], "penalty": ["l1", "l2", "elasticnet"]},
    "DecisionTreeClassifier": {"max_depth": [5, 10, 20, None], "min_samples_leaf": [1, 5, 10, 20]},
}
_EMBEDDINGS: dict[str, Grid] = {
    "Perceptron": {"alpha": [1e-5, 1e-4, 1e-3]},
    "RidgeClassifier": _RIDGE,
    "PassiveAggressiveClassifier": {"C": [0.01, 0.1, 0.5, 1.0]},
    "GaussianNB": {},
    "LinearDiscriminantAnalysis": {"solver": ["lsqr", "eigen"], "shrinkage": [None, "auto"]},
    FOREST: {"n_estimators": [50, 100, 150], "max_depth": [None, 5, 10], "min_samples_leaf": [1, 5, 10]},
    "KNeighborsClassifier": {"n_neighbors": [3, 5, 7, 9]},
    "MLPClassifier": {"alpha": [1e-5, 1e-4, 1e-3], "hidden_layer_sizes": [(64,), (128,), (64, 32)]},
    "LinearSVC": {"C": [0.1, 1.0, 10.0]},
    "SGDClassifier": {"alpha": [1e-5, 1e-4, 1e-3], "penalty": ["l1", "l2"]},
}
_TABLES: dict[str, Grid] = {
    "LogisticRegression": {"C": [0.01, 0.1, 1.0, 10.0]},
    FOREST: {"n_estimators": [50, 100, 200], "max_depth": [5, 10, None], "min_samples_leaf": [1, 5, 10]},
}
_GRIDS = {"bow": _BOW, "embeddings": _EMBEDDINGS, "xgboost": {}, "tables": _TABLES}
_DRAWN = {"xgboost", "tables"}


class Setup(NamedTuple):
    """One model to try: which features, which classifier, which settings."""

    family: str
    features: str
    classifier: str
    settings: tuple[tuple[str, Any], ...]

    @property
    def group(self) -> tuple[str, str, str]:
        """Identifies the classifier, whatever its settings."""
        return self.family, self.features, self.classifier


def known_classifiers(families: Sequence[str] = FAMILIES) -> tuple[str, ...]:
    """The classifiers of some families, each once."""
    names = [name for family in families for name in _GRIDS[family]]
    names += [XGBOOST] if _DRAWN & set(families) else []
    return tuple(dict.fromkeys(names))


def setups(features: Mapping[str, Sequence[str]], options: PretestOptions) -> list[Setup]:
    """All models to try; `features` names the features of each family."""
    allowed = known_classifiers(tuple(features))
    wanted = options.classifiers or allowed
    unknown = [name for name in wanted if name not in allowed]
    if unknown:
        raise ConfigError(
            f"the families {', '.join(features)} have no classifier '{unknown[0]}'",
            hint=f"they have: {', '.join(allowed)}",
        )
    out = []
    for family, names in features.items():
        for name in names:
            for classifier, grid in _GRIDS[family].items():
                if classifier in wanted:
                    out += [Setup(family, name, classifier, settings) for settings in _combinations(grid)]
            if family in _DRAWN and XGBOOST in wanted:
                out += [Setup(family, name, XGBOOST, settings) for settings in _draw(options.draws, options.seed)]
    if not out:
        raise ConfigError(
            f"no family has any of the classifiers {', '.join(wanted)}", hint="choose other `classifiers` or `families`"
        )
    return out


def _combinations(grid: Grid) -> list[tuple[tuple[str, Any], ...]]:
    return [tuple(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _draw(n: int, seed: int) -> list[tuple[tuple[str, Any], ...]]:
    """Random settings of XGBoost, the same for the same seed; a larger number of draws starts with the same ones."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        settings = {
            "n_estimators": int(rng.choice([100, 200, 300, 400])),
            "max_depth": int(rng.integers(2, 7)),
            "learning_rate": round(float(10 ** rng.uniform(-1.7, -0.5)), 4),
            "min_child_weight": int(rng.choice([1, 2, 5, 10])),
            "subsample": round(float(rng.uniform(0.6, 1.0)), 3),
            "colsample_bytree": round(float(rng.uniform(0.1, 0.6)), 3),
            "reg_lambda": round(float(10 ** rng.uniform(-1, 1)), 4),
        }
        out.append(tuple(settings.items()))
    return out


def require_all(candidates: Sequence[Setup]) -> None:
    """Check before any work that everything they need is installed."""
    drawn = next((setup for setup in candidates if setup.classifier == XGBOOST), None)
    if drawn is not None:
        make(drawn, seed=0)


def make(setup: Setup, seed: int) -> Any:
    """The estimator, not fitted, with the paper's base configuration."""
    from sklearn import discriminant_analysis, ensemble, linear_model, naive_bayes, neighbors, neural_network, svm, tree

    own = dict(setup.settings)
    bow = setup.family == "bow"
    steps = {"max_iter": 1000, "tol": 1e-3, "random_state": seed}
    if setup.classifier == XGBOOST:
        return _xgboost(own, seed)
    if setup.classifier == "PassiveAggressiveClassifier":
        return _passive_aggressive(own["C"], steps)
    makers = {
        "Perceptron": lambda: linear_model.Perceptron(**{"penalty": "l2", **steps, **own}),
        "RidgeClassifier": lambda: linear_model.RidgeClassifier(
            **own, **({"solver": "lsqr", "max_iter": 500} if bow else {})
        ),
        "GaussianNB": lambda: naive_bayes.GaussianNB(),
        "LinearDiscriminantAnalysis": lambda: discriminant_analysis.LinearDiscriminantAnalysis(**own),
        FOREST: lambda: ensemble.RandomForestClassifier(random_state=seed, **own),
        "KNeighborsClassifier": lambda: neighbors.KNeighborsClassifier(**own),
        "MLPClassifier": lambda: neural_network.MLPClassifier(
            early_stopping=True, validation_fraction=0.1, max_iter=300, random_state=seed, **own
        ),
        "LinearSVC": lambda: svm.LinearSVC(dual=False, max_iter=2000 if bow else 1000, random_state=seed, **own),
        "SGDClassifier": lambda: linear_model.SGDClassifier(**{"loss": "log_loss", **steps, **own}),
        "DecisionTreeClassifier": lambda: tree.DecisionTreeClassifier(random_state=seed, **own),
        "LogisticRegression": lambda: linear_model.LogisticRegression(max_iter=1000, **own),
    }
    return makers[setup.classifier]()


def _passive_aggressive(c: float, steps: Mapping[str, Any]) -> Any:
    import sklearn
    from sklearn import linear_model

    major, minor = (int(part) for part in sklearn.__version__.split(".")[:2])
    if (major, minor) >= (1, 8):
        return linear_model.SGDClassifier(loss="hinge", penalty=None, learning_rate="pa1", eta0=c, **steps)
    return linear_model.PassiveAggressiveClassifier(C=c, **steps)


def _xgboost(settings: Mapping[str, Any], seed: int) -> Any:
    try:
        import xgboost
    except ImportError:
        raise MissingExtra("xgboost", needed_for="pre-test models with XGBoost") from None
    # Word counts have few distinct values: 32 bins lose next to nothing and cost an eighth.
    return xgboost.XGBClassifier(tree_method="hist", max_bin=32, n_jobs=1, random_state=seed, **settings)
