"""Counts, tf-idf, XGBoost: the vocabulary paper's second model (Section 2.2, Appendix B.2).

The paper gives the seeds and no hyperparameters; the defaults here are ours. Class weights go into the fit and into
the validation loss that stops it. There is one booster per label. The exact tree method visits only the entries that a
sparse row has, so with thousands of words it is several times faster than histograms; it gives the same bytes for any
number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from palpate.errors import ConfigError, MissingExtra
from palpate.train.notes import Split, class_weights, example_weights
from palpate.train.options import FitTask, Fitted, Kind, SeededOptions, TrainStep
from palpate.train.tfidf import READS_WORDS, FittedWords, WordOptions, fit_words, shown


class XgboostOptions(WordOptions, SeededOptions):
    """Options of `tfidf-xgboost`."""

    n_estimators: int = Field(default=500, ge=1)
    """The most trees per label."""
    early_stopping: int = Field(default=20, ge=0)
    """Stop after this many trees without a better validation metric, and use the best number; 0: never."""
    eval_metric: Literal["logloss", "auc", "aucpr"] = "logloss"
    """The metric for early stopping, on the validation split."""
    max_depth: int = Field(default=4, ge=1)
    """Depth of a tree."""
    learning_rate: float = Field(default=0.1, gt=0, le=1)
    """How much of each tree is added."""
    subsample: float = Field(default=0.8, gt=0, le=1)
    """Share of the notes that a tree sees; with 1 here and for `colsample`, all seeds give the same model."""
    colsample: float = Field(default=0.5, gt=0, le=1)
    """Share of the words that a tree sees."""
    min_child_weight: float = Field(default=1.0, ge=0)
    """The smallest weight of a leaf."""
    reg_lambda: float = Field(default=1.0, ge=0)
    """L2 penalty on the leaves."""
    tree_method: Literal["exact", "hist"] = "exact"
    """How splits are searched; hist if the notes do not fit into memory twice."""
    threads: int = Field(default=1, ge=1)
    """Threads of XGBoost; any number gives the same trees."""
    max_labels: int = Field(default=200, ge=1)
    """Refuse a cohort with more labels, since each needs a booster of its own."""


def _check(options: XgboostOptions, labels: Sequence[str]) -> Mapping[str, Any]:
    try:
        import xgboost  # noqa: F401
    except ImportError:
        raise MissingExtra("xgboost", needed_for="training tfidf-xgboost") from None
    if len(labels) > options.max_labels:
        raise ConfigError(
            f"the cohort has {len(labels):,} labels, and tfidf-xgboost trains a booster for each",
            hint=f"choose fewer labels, train a transformer, or raise `max_labels` ({options.max_labels})",
        )
    return {}


def _fit(split: Split, options: XgboostOptions, task: FitTask) -> Fitted:
    from palpate.models.adapters.palpate import one_per_label, save_tfidf_xgboost

    task.progress(TrainStep("words", 0, 1))
    words = fit_words(split.train, options)
    x_validation = words.vectorizer.transform(split.validation.texts)
    boosters = []
    for k, label in enumerate(split.labels):
        booster = _fit_label(split, k, words.x, x_validation, options, task.seed)
        boosters.append(booster)
        task.progress(TrainStep(f"trees of '{label}'", k + 1, len(split.labels), _loss(booster)))
    p = np.column_stack([booster.predict_proba(x_validation)[:, 1] for booster in boosters]).astype(np.float64)
    trees = boosters[0] if len(boosters) == 1 else one_per_label(boosters)

    def save(folder: Any, **manifest: Any) -> Any:
        words.forget_address()
        return save_tfidf_xgboost(folder, words.vectorizer, trees, **manifest)

    facts = {"n_words": len(words.names), "n_trees": [_n_trees(booster) for booster in boosters]}
    return Fitted(p, save, facts, _important(words, boosters))


def _fit_label(split: Split, k: int, x: Any, x_validation: Any, options: XgboostOptions, seed: int | None) -> Any:
    import xgboost

    y, y_validation = split.train.y[:, k], split.validation.y[:, k]
    weights = class_weights(split.train.y[:, [k]], options.class_weight)
    booster = xgboost.XGBClassifier(
        objective="binary:logistic",
        n_estimators=options.n_estimators,
        early_stopping_rounds=options.early_stopping or None,
        eval_metric=options.eval_metric,
        max_depth=options.max_depth,
        learning_rate=options.learning_rate,
        subsample=options.subsample,
        colsample_bytree=options.colsample,
        min_child_weight=options.min_child_weight,
        reg_lambda=options.reg_lambda,
        tree_method=options.tree_method,
        n_jobs=options.threads,
        random_state=seed,
    )
    booster.fit(
        x,
        y,
        sample_weight=example_weights(y[:, None], weights)[:, 0],
        eval_set=[(x_validation, y_validation)],
        sample_weight_eval_set=[example_weights(y_validation[:, None], weights)[:, 0]],
        verbose=False,
    )
    return booster


def _n_trees(booster: Any) -> int:
    best = getattr(booster, "best_iteration", None) if booster.early_stopping_rounds else None
    return int(booster.get_booster().num_boosted_rounds() if best is None else best + 1)


def _loss(booster: Any) -> float:
    history = next(iter(booster.evals_result()["validation_0"].values()))
    return float(history[_n_trees(booster) - 1])


def _important(words: FittedWords, boosters: Sequence[Any]) -> tuple[tuple[str, float], ...]:
    """The words by the loss that their splits save, for a model with one label."""
    if len(boosters) > 1:
        return ()
    gains = boosters[0].get_booster().get_score(importance_type="total_gain")
    weight = np.zeros(len(words.names))
    for feature, gain in gains.items():
        weight[int(feature.removeprefix("f"))] = gain
    return shown(words, weight / weight.sum() if weight.any() else weight)


KIND = Kind(
    what="Gradient-boosted trees (XGBoost) on tf-idf weights of the words of a note.",
    options=XgboostOptions,
    fit=_fit,
    check=_check,
    packages=("scikit-learn", "xgboost-cpu", "xgboost"),
    limits=(READS_WORDS,),
)
