"""A tiny real model for each adapter that needs neither torch nor a server.

`FACTORIES` write a model into a folder and say how to load it; `CHANGES` alter a written model so that it gives
other answers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import polars as pl
import skops.io
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from xgboost import XGBClassifier

from palpate.cases.edits import Inputs
from palpate.cases.hashing import key_of
from palpate.models import ModelSpec
from palpate.models.adapters.palpate import save_sklearn, save_tfidf_xgboost
from palpate.testing import KeywordModel
from palpate.testing.model_contract import TEXTS, asked_texts

NOTES = [*TEXTS, "pain pain fever", "good condition, no pain", "chest pain at rest", "insulin for diabetes"] * 3
Y = np.arange(len(NOTES)) % 2
MODULE = """
def score(texts):
    return [min(1.0, {bias} + 0.01 * text.lower().count("fever")) for text in texts]
"""


def words_and_line(seed: float = 1.0) -> Pipeline:
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=seed)).fit(NOTES, Y)


def letters_and_line(seed: float = 1.0) -> Pipeline:
    return make_pipeline(TfidfVectorizer(analyzer="char_wb"), LogisticRegression(C=seed)).fit(NOTES, Y)


def three_classes(seed: float = 1.0) -> Pipeline:
    classes = np.array(["low", "medium", "high"])[np.arange(len(NOTES)) % 3]
    return make_pipeline(CountVectorizer(), LogisticRegression(C=seed)).fit(NOTES, classes)


def two_labels(seed: float = 1.0) -> Pipeline:
    labels = np.column_stack([Y, np.arange(len(NOTES)) % 3 == 0]).astype(int)
    return make_pipeline(CountVectorizer(binary=True), MultiOutputClassifier(LogisticRegression(C=seed))).fit(
        NOTES, labels
    )


def write_skops(fit: Callable[[float], Pipeline], folder: Path, seed: float = 1.0) -> ModelSpec:
    skops.io.dump(fit(seed), folder / "model.skops")
    return ModelSpec("skops", "sklearn:model.skops", str(folder))


def write_joblib(folder: Path, seed: float = 1.0) -> ModelSpec:
    joblib.dump(words_and_line(seed), folder / "model.joblib")
    return ModelSpec("joblib", "sklearn:model.joblib", str(folder), {"trust": True})


def write_trained(folder: Path, seed: float = 1.0) -> ModelSpec:
    save_sklearn(folder / "model", words_and_line(seed), labels=["readmission"], threshold=0.3)
    return ModelSpec("trained", "palpate:model", str(folder))


def write_trees(folder: Path, seed: float = 1.0) -> ModelSpec:
    vectorizer = TfidfVectorizer().fit(NOTES)
    trees = XGBClassifier(n_estimators=4, learning_rate=seed / 2, min_child_weight=0)
    trees.fit(vectorizer.transform(NOTES), Y)
    save_tfidf_xgboost(folder / "trees", vectorizer, trees, labels=["readmission"])
    return ModelSpec("trees", "palpate:trees", str(folder))


def write_module(folder: Path, seed: float = 1.0) -> ModelSpec:
    (folder / "contract_model.py").write_text(MODULE.format(bias=seed / 2))
    return ModelSpec("function", "python:contract_model:score", str(folder))


def write_table(folder: Path, seed: float = 1.0) -> ModelSpec:
    texts = asked_texts()
    p = KeywordModel({"fever": seed, "pain": -1e-4}).predict(Inputs.from_texts(texts))
    frame = pl.DataFrame({"input_id": [key_of(text).hex() for text in texts], "readmission": p[:, 0]})
    frame.write_csv(folder / "scores.csv")
    return ModelSpec("table", "predictions:scores.csv", str(folder))


_WRITERS: dict[str, Callable[..., ModelSpec]] = {
    "sklearn-words": functools.partial(write_skops, words_and_line),
    "sklearn-letters": functools.partial(write_skops, letters_and_line),
    "sklearn-classes": functools.partial(write_skops, three_classes),
    "sklearn-labels": functools.partial(write_skops, two_labels),
    "sklearn-joblib": write_joblib,
    "palpate-sklearn": write_trained,
    "palpate-tfidf-xgboost": write_trees,
    "python": write_module,
    "predictions": write_table,
}


def _changed(writer: Callable[..., ModelSpec], folder: Path) -> None:
    writer(folder, seed=0.5)


FACTORIES: dict[str, Callable[[Path], ModelSpec]] = dict(_WRITERS)
CHANGES: dict[str, Callable[[Path], Any]] = {
    name: functools.partial(_changed, writer) for name, writer in _WRITERS.items()
}
