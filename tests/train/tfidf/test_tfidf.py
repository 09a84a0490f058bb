"""The word models: which words they read, and how XGBoost is fitted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from xgboost import XGBClassifier

from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError, MissingExtra
from palpate.models.adapters.palpate import read_manifest
from palpate.train import train
from palpate.train.notes import class_weights, example_weights, split_notes
from palpate.train.tfidf import WordOptions, fit_words
from palpate.train.tfidf.xgboost import XgboostOptions
from tests.train.synthetic_notes import cohort, frame
from tests.train.training import contents, predict, read_back, small


def vocabulary(folder: Path) -> set[str]:
    return set(read_back(folder)._estimator[0].vocabulary_)


def test_words_that_occur_only_outside_training_are_unknown(tmp_path: Path) -> None:
    table = frame(240).drop("frail")
    for split, word in (("train", "inside"), ("validation", "chosen"), ("test", "outside")):
        text = pl.when(pl.col("split") == split).then(pl.col("text") + f" {word}").otherwise(pl.col("text"))
        table = table.with_columns(text.alias("text"))
    train("tfidf-xgboost", Cohort.from_frame(table, labels=["ill"]), tmp_path / "m", small("tfidf-xgboost"))
    known = vocabulary(tmp_path / "m")
    assert "inside" in known
    assert not known & {"chosen", "outside"}


def test_weights_are_those_of_scikit_learn() -> None:
    notes = split_notes(cohort(240)).train
    for ngrams in ((1, 1), (1, 2)):
        words = fit_words(notes, WordOptions(min_patients=1, max_features=None, ngrams=ngrams, sublinear=True))
        plain = TfidfVectorizer(ngram_range=ngrams, sublinear_tf=True)
        expected = plain.fit_transform(notes.texts)
        assert list(words.names) == list(plain.get_feature_names_out())
        np.testing.assert_allclose(words.x.toarray(), expected.toarray(), rtol=0, atol=1e-15)
        np.testing.assert_array_equal(words.vectorizer.transform(notes.texts[:9]).toarray(), words.x[:9].toarray())


def test_words_of_few_patients_are_left_out_however_often_they_write_them() -> None:
    table = (
        frame(240)
        .drop("frail")
        .with_columns(
            pl.when(pl.col("patient_id") == "p0").then(pl.lit("zanzibar " * 50)).otherwise(pl.col("text")).alias("text")
        )
    )
    notes = split_notes(Cohort.from_frame(table, labels=["ill"])).train
    assert "zanzibar" not in fit_words(notes, WordOptions(min_patients=2)).names
    assert "zanzibar" in fit_words(notes, WordOptions(min_patients=1, min_df=2)).names
    assert "zanzibar" not in fit_words(notes, WordOptions(min_patients=1, min_df=3)).names


def test_which_words_to_read() -> None:
    notes = split_notes(cohort(240)).train
    few = fit_words(notes, WordOptions(max_features=3))
    counts = {word: sum(text.lower().split().count(word) for text in notes.texts) for word in few.names}
    assert len(few.names) == 3
    assert "patient" in counts
    assert list(fit_words(notes, WordOptions(vocabulary=["Fever", "chills", "unheard"])).names) == ["chills", "fever"]
    without = fit_words(notes, WordOptions(exclude_words=["Fever"], ngrams=(1, 2), min_patients=1)).names
    assert not [name for name in without if "fever" in name]
    assert "patient" not in fit_words(notes, WordOptions(max_df=0.9)).names


@pytest.mark.parametrize("kind", ["tfidf-xgboost", "tfidf-logistic"])
def test_a_model_without_a_word_does_not_react_to_it(kind: str, tmp_path: Path) -> None:
    from palpate.cases.edits import Inputs

    data = cohort(600)
    train(kind, data, tmp_path / "with", small(kind))
    train(kind, data, tmp_path / "without", small(kind, exclude_words=["fever"]))
    texts = Inputs.from_texts(["cough walks fever sleeps", "cough walks sleeps"])
    p_with, p_without = read_back(tmp_path / "with").predict(texts), read_back(tmp_path / "without").predict(texts)
    assert p_with[0, 0] > p_with[1, 0] + 0.1
    assert p_without[0, 0] == p_without[1, 0]


def test_words_in_the_card_belong_to_ten_patients(tmp_path: Path) -> None:
    table = (
        frame(240)
        .drop("frail")
        .with_columns(
            pl.when(pl.col("patient_id").is_in([f"p{k}" for k in (0, 1, 2, 6, 7, 8)]) & (pl.col("ill") == 1))
            .then(pl.col("text") + " zanzibar")
            .otherwise(pl.col("text"))
            .alias("text")
        )
    )
    data = Cohort.from_frame(table, labels=["ill"])
    train("tfidf-logistic", data, tmp_path / "m", small("tfidf-logistic", min_patients=1))
    assert "zanzibar" in vocabulary(tmp_path / "m")
    words = [word for word, _ in read_manifest(tmp_path / "m").card["words"]]
    assert "fever" in words
    assert "zanzibar" not in words
    assert "zanzibar" not in (tmp_path / "m" / "MODEL_CARD.md").read_text()


def test_the_papers_weights() -> None:
    """Positives weigh as the share of negatives, negatives as that of positives, to a factor."""
    y = np.zeros((100, 2), dtype=np.uint8)
    y[:6, 0] = y[:30, 1] = 1
    weights = class_weights(y, "balanced")
    np.testing.assert_allclose(weights[:, 1] / weights[:, 0], [0.94 / 0.06, 0.70 / 0.30])
    np.testing.assert_allclose(example_weights(y, weights).mean(axis=0), 1.0)
    assert np.array_equal(class_weights(y, "none"), np.ones((2, 2)))


@pytest.mark.parametrize("class_weight", ["balanced", "none"])
def test_trees_are_those_of_a_fit_with_these_weights(class_weight: str, tmp_path: Path) -> None:
    """Against plain XGBoost with scikit-learn's balanced weights."""
    from sklearn.utils.class_weight import compute_sample_weight

    data = cohort(600, positive=-3.0)
    split = split_notes(data)
    train(
        "tfidf-xgboost",
        data,
        tmp_path / "m",
        small("tfidf-xgboost", class_weight=class_weight, early_stopping=0, n_estimators=20),
    )
    words = fit_words(split.train, XgboostOptions())
    y = split.train.y[:, 0]
    plain = XGBClassifier(
        n_estimators=20,
        max_depth=4,
        learning_rate=0.1,
        subsample=0.8,
        colsample_bytree=0.5,
        tree_method="exact",
        random_state=24,
    )
    weight = compute_sample_weight("balanced", y) if class_weight == "balanced" else None
    plain.fit(words.x, y, sample_weight=weight)
    expected = plain.predict_proba(words.vectorizer.transform(split.validation.texts))[:, 1]
    np.testing.assert_allclose(predict(tmp_path / "m", data, "validation")[1][:, 0], expected, atol=1e-6)


def test_logistic_regression_is_scikit_learns(tmp_path: Path) -> None:
    data = cohort(600)
    split = split_notes(data)
    train("tfidf-logistic", data, tmp_path / "m", small("tfidf-logistic", c=[0.5]))
    words = fit_words(split.train, WordOptions())
    plain = LogisticRegression(C=0.5, class_weight="balanced", max_iter=1000).fit(words.x, split.train.y[:, 0])
    expected = plain.predict_proba(words.vectorizer.transform(split.validation.texts))[:, 1]
    np.testing.assert_array_equal(predict(tmp_path / "m", data, "validation")[1][:, 0], expected)


def trees_of(folder: Path) -> list[Any]:
    model = json.loads((folder / "booster.json").read_text())
    return list(model["learner"]["gradient_booster"]["model"]["trees"])


def test_validation_decides_when_to_stop_and_nothing_else(tmp_path: Path) -> None:
    """With other validation labels the trees are the same as far as both go."""
    table = frame(600).drop("frail")
    flipped = table.with_columns(
        pl.when(pl.col("split") == "validation").then(1 - pl.col("ill")).otherwise(pl.col("ill")).alias("ill")
    )
    n_trees, trees = [], []
    for k, each in enumerate((table, flipped)):
        train("tfidf-xgboost", Cohort.from_frame(each, labels=["ill"]), tmp_path / f"{k}", small("tfidf-xgboost"))
        n_trees.append(read_manifest(tmp_path / f"{k}").card["fit"]["n_trees"][0])
        trees.append(trees_of(tmp_path / f"{k}"))
    assert n_trees[0] > 10
    assert n_trees[1] == 1
    assert len(trees[1]) == 21
    assert trees[0][:21] == trees[1]


def test_the_number_of_threads_changes_no_byte(tmp_path: Path) -> None:
    data = cohort(600)
    for threads in (1, 2):
        train("tfidf-xgboost", data, tmp_path / f"{threads}", small("tfidf-xgboost", threads=threads, n_estimators=30))
    assert contents(tmp_path / "1")["booster.json"] == contents(tmp_path / "2")["booster.json"]


def test_without_xgboost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtra, match=r"palpate\[xgboost\]"):
        train("tfidf-xgboost", cohort(240), tmp_path / "m", {})


def test_a_wrong_value_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'c\.0'"):
        train("tfidf-logistic", cohort(), tmp_path / "m", {"c": -1})
    assert not (tmp_path / "m").exists()


def test_n_grams_as_on_a_command_line() -> None:
    assert WordOptions.model_validate({"ngrams": "1,2"}).ngrams == (1, 2)
