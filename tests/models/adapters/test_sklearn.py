from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from xgboost import XGBClassifier

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models.adapters.sklearn import load
from palpate.models.bagofwords import BagOfWordsModel
from palpate.models.estimators import EstimatorModel

NOTES = ["fever and pain", "no fever", "chest pain today", "discharged home well"] * 6
BINARY = np.array([1, 0, 1, 0] * 6)
TWO = np.column_stack([BINARY, [1, 1, 0, 0] * 6])
THREE = np.column_stack([TWO, [0, 1, 1, 0] * 6])


def saved(folder: Path, classifier: Any, y: Any, vectorizer: Any = None) -> Any:
    pipeline = make_pipeline(vectorizer or TfidfVectorizer(), classifier).fit(NOTES, y)
    skops.io.dump(pipeline, folder / "m.skops")
    return pipeline


def read(folder: Path, name: str = "m.skops", **options: Any) -> EstimatorModel:
    return load(name, options, folder=folder)


def asked(model: EstimatorModel) -> Any:
    return model.predict(Inputs.from_texts(NOTES[:4]))


@pytest.mark.parametrize("y", [BINARY, BINARY.astype(bool), np.where(BINARY, "yes", "no")], ids=["int", "bool", "str"])
def test_two_classes_are_one_label(y: Any, tmp_path: Path) -> None:
    pipeline = saved(tmp_path, LogisticRegression(), y)
    model = read(tmp_path)
    assert model.labels == (str(pipeline.classes_[1]),)
    np.testing.assert_allclose(asked(model), pipeline.predict_proba(NOTES[:4])[:, 1:], rtol=0, atol=1e-15)


def test_more_classes_are_labels_each(tmp_path: Path) -> None:
    y = np.array(["low", "mid", "high"])[np.arange(len(NOTES)) % 3]
    pipeline = saved(tmp_path, LogisticRegression(), y)
    model = read(tmp_path)
    assert model.labels == ("high", "low", "mid")
    np.testing.assert_allclose(asked(model), pipeline.predict_proba(NOTES[:4]), rtol=0, atol=1e-15)


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize(
    "classifier",
    [
        MultiOutputClassifier(LogisticRegression()),
        OneVsRestClassifier(LogisticRegression()),
        ClassifierChain(LogisticRegression()),
        RandomForestClassifier(5, random_state=0),
        MLPClassifier((4,), max_iter=5, random_state=0),
        XGBClassifier(n_estimators=3, min_child_weight=0),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_several_labels_have_a_column_each(classifier: Any, y: Any, tmp_path: Path) -> None:
    pipeline = saved(tmp_path, classifier, y)
    model = read(tmp_path, trust=True)
    raw = pipeline.predict_proba(NOTES[:4])
    expected = np.column_stack([each[:, 1] for each in raw]) if isinstance(raw, list) else raw
    assert model.labels == tuple(f"label_{k}" for k in range(y.shape[1]))
    np.testing.assert_allclose(asked(model), expected, rtol=0, atol=1e-12)
    names = ["x", "y", "z"][: y.shape[1]]
    assert read(tmp_path, trust=True, labels=names).labels == tuple(names)


def test_a_label_that_never_occurred_in_training(tmp_path: Path) -> None:
    saved(tmp_path, RandomForestClassifier(3), np.column_stack([BINARY, np.zeros(24, int), np.ones(24, int)]))
    p = asked(read(tmp_path, trusted_types=["sklearn.tree._tree.Tree"]))
    assert p[:, 1].tolist() == [0.0] * 4
    assert p[:, 2].tolist() == [1.0] * 4


def test_labels_must_be_as_many_as_the_model_gives(tmp_path: Path) -> None:
    saved(tmp_path, LogisticRegression(), BINARY)
    assert read(tmp_path, labels=["readmission"]).labels == ("readmission",)
    with pytest.raises(ConfigError, match="`labels` names 2 labels, but the model gives 1"):
        read(tmp_path, labels=["a", "b"])


@pytest.mark.parametrize(
    ("classifier", "unknown"),
    [
        (XGBClassifier(n_estimators=2), "xgboost.core.Booster, xgboost.sklearn.XGBClassifier"),
        (RandomForestClassifier(2), "sklearn.tree._tree.Tree"),
    ],
)
def test_unknown_types_are_named_and_refused(classifier: Any, unknown: str, tmp_path: Path) -> None:
    pipeline = saved(tmp_path, classifier, BINARY)
    with pytest.raises(ConfigError) as caught:
        read(tmp_path)
    assert unknown in str(caught.value)
    assert "m.skops" in str(caught.value)
    assert "trusted_types" in str(caught.value)
    with pytest.raises(ConfigError, match="not known to be safe"):
        read(tmp_path, trusted_types=["some.other.Type"])
    for options in ({"trusted_types": unknown.split(", ")}, {"trust": True}):
        model = read(tmp_path, **options)
        np.testing.assert_allclose(asked(model), pipeline.predict_proba(NOTES[:4])[:, 1:], rtol=0, atol=1e-12)


class Bomb:
    """What a hostile pickle can do."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.pickle"])
def test_pickles_are_not_opened_without_trust(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ConfigError, match=r"can run any program.*trust: true"):
        read(tmp_path, name)
    assert not (tmp_path / "exploded").exists()


def test_trusted_pickles(tmp_path: Path) -> None:
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(NOTES, BINARY)
    joblib.dump(pipeline, tmp_path / "m.joblib", compress=3)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(pipeline))
    for name in ("m.joblib", "m.pkl"):
        assert np.array_equal(asked(read(tmp_path, name, trust=True)), pipeline.predict_proba(NOTES[:4])[:, 1:])


def test_a_local_module_that_a_pickle_names_is_part_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyzer of one's own: its code decides what the model reads."""
    source = tmp_path / "elsewhere" / "analyzer_of_pickle.py"
    source.parent.mkdir()
    source.write_text("def words(text):\n    return text.split()\n")
    monkeypatch.syspath_prepend(str(source.parent))
    words = importlib.import_module("analyzer_of_pickle").words
    monkeypatch.setattr("palpate.models.reads._passing", lambda: ())  # the tests' own folder comes and goes
    pipeline = make_pipeline(TfidfVectorizer(analyzer=words), LogisticRegression()).fit(NOTES, BINARY)
    joblib.dump(pipeline, tmp_path / "m.joblib")
    first = read(tmp_path, "m.joblib", trust=True).fingerprint
    assert read(tmp_path, "m.joblib", trust=True).fingerprint == first
    source.write_text("def words(text):\n    return text.split()[:1]\n")
    assert read(tmp_path, "m.joblib", trust=True).fingerprint != first


def test_models_that_do_not_fit_say_why(tmp_path: Path) -> None:
    saved(tmp_path, LinearSVC(), BINARY)
    with pytest.raises(ConfigError, match="CalibratedClassifierCV"):
        read(tmp_path)
    skops.io.dump(LogisticRegression().fit([[0], [1]], [0, 1]), tmp_path / "m.skops")
    with pytest.raises(ConfigError, match=r"does not work on texts.*whole fitted Pipeline"):
        read(tmp_path)
    skops.io.dump(make_pipeline(TfidfVectorizer(), LogisticRegression()), tmp_path / "m.skops")
    with pytest.raises(ConfigError, match="does not work on texts"):
        read(tmp_path)
    skops.io.dump({"not": "a model"}, tmp_path / "m.skops")
    with pytest.raises(ConfigError, match="dict gives no probabilities"):
        read(tmp_path)
    (tmp_path / "m.skops").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="not a skops file"):
        read(tmp_path)
    (tmp_path / "m.pkl").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="can't be read as a joblib"):
        read(tmp_path, "m.pkl", trust=True)
    (tmp_path / "m.txt").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match=r"ends in \.skops"):
        read(tmp_path, "m.txt")


def test_word_counters_score_differences_and_others_read_texts(tmp_path: Path) -> None:
    saved(tmp_path, LogisticRegression(), BINARY, CountVectorizer(ngram_range=(1, 2)))
    assert isinstance(read(tmp_path), BagOfWordsModel)
    saved(tmp_path, LogisticRegression(), BINARY, CountVectorizer(analyzer="char"))
    assert type(read(tmp_path)) is EstimatorModel


@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_batch_size_does_not_change_the_answer(analyzer: str, tmp_path: Path) -> None:
    saved(tmp_path, LogisticRegression(), BINARY, TfidfVectorizer(analyzer=analyzer))
    small, large = read(tmp_path, batch_size=3), read(tmp_path)
    assert small.rows_per_call == 3
    assert small.fingerprint == large.fingerprint
    np.testing.assert_allclose(asked(small), asked(large), rtol=0, atol=1e-15)
