"""Counts, tf-idf, logistic regression: a second reference model that needs neither XGBoost nor torch.

The penalty is chosen by validation loss. The fit is not random, so there are no seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from palpate.train.notes import Split, class_weights, example_weights, log_loss
from palpate.train.options import FitTask, Fitted, Kind, Listed, TrainStep
from palpate.train.tfidf import READS_WORDS, FittedWords, WordOptions, fit_words, shown


class LogisticOptions(WordOptions):
    """Options of `tfidf-logistic`."""

    c: Listed[Annotated[float, Field(gt=0)]] = Field(default=(0.1, 1.0, 10.0), min_length=1)
    """Inverse penalties to try; the one with the lowest validation loss is used."""
    max_iter: int = Field(default=1000, ge=1)
    """The most iterations of the solver."""


def _fit(split: Split, options: LogisticOptions, task: FitTask) -> Fitted:
    from sklearn.pipeline import Pipeline

    from palpate.models.adapters.palpate import save_sklearn

    task.progress(TrainStep("words", 0, 1))
    words = fit_words(split.train, options)
    x_validation = words.vectorizer.transform(split.validation.texts)
    weight = example_weights(split.validation.y, class_weights(split.train.y, options.class_weight))
    tried: list[tuple[float, float, Any]] = []
    for c in options.c:
        classifier = _classifier(c, options, n_labels=len(split.labels))
        classifier.fit(words.x, split.train.y if len(split.labels) > 1 else split.train.y[:, 0])
        loss = log_loss(split.validation.y, _probabilities(classifier, x_validation, split.labels), weight)
        tried.append((loss, c, classifier))
        task.progress(TrainStep(f"logistic regression, c {c:g}", len(tried), len(options.c), loss))
    _, best_c, best = min(tried, key=lambda trial: trial[0])
    pipeline = Pipeline([("words", words.vectorizer), ("classifier", best)])

    def save(folder: Any, **manifest: Any) -> Any:
        words.forget_address()
        return save_sklearn(folder, pipeline, **manifest)

    facts = {
        "n_words": len(words.names),
        "c": best_c,
        "tried": [{"c": c, "validation_loss": round(loss, 6)} for loss, c, _ in tried],
    }
    return Fitted(_probabilities(best, x_validation, split.labels), save, facts, _important(words, best))


def _classifier(c: float, options: LogisticOptions, *, n_labels: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    weight = "balanced" if options.class_weight == "balanced" else None
    one = LogisticRegression(C=c, class_weight=weight, max_iter=options.max_iter)
    return one if n_labels == 1 else OneVsRestClassifier(one)


def _probabilities(classifier: Any, x: Any, labels: Sequence[str]) -> Any:
    p = np.asarray(classifier.predict_proba(x), dtype=np.float64)
    return p[:, 1:] if len(labels) == 1 else p


def _important(words: FittedWords, classifier: Any) -> tuple[tuple[str, float], ...]:
    """The words by coefficient, for a model with one label."""
    return shown(words, classifier.coef_[0]) if hasattr(classifier, "coef_") else ()


KIND = Kind(
    what="Logistic regression on tf-idf weights of the words of a note.",
    options=LogisticOptions,
    fit=_fit,
    packages=("scikit-learn",),
    limits=(READS_WORDS,),
)
