from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from xgboost import XGBClassifier

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, MissingExtra
from palpate.models import ModelSpec, load_model
from palpate.models.adapters.palpate import load, read_manifest, save_hf, save_sklearn, save_tfidf_xgboost
from palpate.testing import KeywordModel
from tests.small_disks import run_on_small_disk

NOTES = ["fever and pain", "no fever", "chest pain today", "discharged home well"] * 6
Y = np.array([1, 0, 1, 0] * 6)
CARD = {"cohort": "mimic", "auroc": 0.71}


def trees(folder: Path, y: Any = Y, **options: Any) -> Any:
    vectorizer = TfidfVectorizer().fit(NOTES)
    classifier = XGBClassifier(n_estimators=6, min_child_weight=0, **options)
    x = vectorizer.transform(NOTES)
    classifier.fit(x, y, **({"eval_set": [(x[:4], 1 - y[:4])], "verbose": False} if options else {}))
    labels = ["readmission"] if np.ndim(y) == 1 and np.max(y) == 1 else ["a", "b", "c"]
    save_tfidf_xgboost(folder, vectorizer, classifier, labels=labels, threshold=0.25, card=CARD)
    return classifier.predict_proba(x)


def test_sklearn_comes_back(tmp_path: Path) -> None:
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(NOTES, Y)
    save_sklearn(tmp_path / "m", pipeline, labels=["readmission"], threshold=0.4, card=CARD)
    model = load("m", {}, folder=tmp_path)
    assert model.labels == ("readmission",)
    assert model.threshold == 0.4
    assert model.uses_edits
    assert read_manifest(tmp_path / "m").card == CARD
    p = model.predict(Inputs.from_texts(NOTES))
    np.testing.assert_allclose(p, pipeline.predict_proba(NOTES)[:, 1:], rtol=0, atol=1e-15)


def test_trees_come_back_from_json_without_trust(tmp_path: Path) -> None:
    expected = trees(tmp_path / "m")
    model = load("m", {}, folder=tmp_path)
    assert (model.labels, model.threshold, model.uses_edits) == (("readmission",), 0.25, True)
    assert np.array_equal(model.predict(Inputs.from_texts(NOTES)), expected[:, 1:].astype(np.float64))
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "booster.json",
        "palpate.json",
        "vectorizer.skops",
    ]


def test_trees_stopped_early_stay_so(tmp_path: Path) -> None:
    expected = trees(tmp_path / "m", early_stopping_rounds=1)
    model = load("m", {}, folder=tmp_path)
    assert np.array_equal(model.predict(Inputs.from_texts(NOTES)), expected[:, 1:].astype(np.float64))


@pytest.mark.parametrize("y", [np.arange(24) % 3, np.column_stack([Y, 1 - Y, Y])], ids=["classes", "labels"])
def test_trees_with_three_columns(y: Any, tmp_path: Path) -> None:
    expected = trees(tmp_path / "m", y)
    model = load("m", {}, folder=tmp_path)
    assert model.labels == ("a", "b", "c")
    assert np.array_equal(model.predict(Inputs.from_texts(NOTES)), expected.astype(np.float64))


def test_labels_may_be_renamed_and_that_is_another_fingerprint(tmp_path: Path) -> None:
    trees(tmp_path / "m")
    plain, renamed = load("m", {}, folder=tmp_path), load("m", {"labels": ["death"]}, folder=tmp_path)
    assert renamed.labels == ("death",)
    assert plain.fingerprint != renamed.fingerprint


def test_the_threshold_is_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    trees(tmp_path / "m")
    before = load("m", {}, folder=tmp_path)
    file = tmp_path / "m" / "palpate.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"threshold": None}))
    after = load("m", {}, folder=tmp_path)
    assert after.threshold is None
    assert before.fingerprint == after.fingerprint


def test_transformers_are_left_to_their_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fake_load(target: str, options: Any, *, folder: Path) -> KeywordModel:
        asked.append((target, dict(options), (folder / target / "config.json").read_text()))
        return KeywordModel({"fever": 1.0}, labels=options["labels"])

    fake = ModuleType("palpate.models.adapters.hf")
    fake.load = fake_load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "palpate.models.adapters.hf", fake)
    monkeypatch.setattr("palpate.models.adapters.hf", fake, raising=False)
    save_hf(tmp_path / "m", lambda home: (home / "config.json").write_text("{}"), labels=["a"], threshold=0.1)
    model = load("m", {"batch_size": 4}, folder=tmp_path)
    assert asked == [("checkpoint", {"labels": ("a",), "batch_size": 4}, "{}")]
    assert model.threshold == 0.1


def test_a_save_that_fails_is_no_model(tmp_path: Path) -> None:
    trees(tmp_path / "m")

    class Broken:
        def get_booster(self) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save_tfidf_xgboost(tmp_path / "m", TfidfVectorizer().fit(NOTES), Broken(), labels=["a"])
    with pytest.raises(ConfigError, match=r"no palpate\.json"):
        load("m", {}, folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "column 'format'"),
        ({"kind": "magic"}, "column 'kind'"),
        ({"labels": []}, "column 'labels'"),
        ({"threshold": 3}, "column 'threshold'"),
        ({"extra": 3}, "column 'extra'"),
        ({"labels": ["a", "b"]}, "names 2 labels, but the model gives 1"),
    ],
)
def test_a_wrong_manifest_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    trees(tmp_path / "m")
    file = tmp_path / "m" / "palpate.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConfigError) as caught:
        load("m", {}, folder=tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "m") in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\x01", b"[1, 2]"])
def test_damaged_trees(content: bytes, tmp_path: Path) -> None:
    trees(tmp_path / "m")
    (tmp_path / "m" / "booster.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"booster\.json"):
        load("m", {}, folder=tmp_path)


def test_missing_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtra, match="xgboost"):
        load("m", {}, folder=tmp_path)
    (tmp_path / "m" / "booster.json").unlink()
    with pytest.raises(ConfigError, match=r"booster\.json"):
        load("m", {}, folder=tmp_path)


def test_a_folder_of_seeds_says_so(tmp_path: Path) -> None:
    (tmp_path / "m" / "seed-24").mkdir(parents=True)
    (tmp_path / "m" / "seed-24" / "palpate.json").write_text("{}")
    with pytest.raises(ConfigError, match="palpate:m/seed-24"):
        load_model(ModelSpec("m", "palpate:m", folder=str(tmp_path)))


_SAVING = """
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from xgboost import XGBClassifier
from palpate.models.adapters.palpate import save_tfidf_xgboost
texts = [f"{word} {k}" for k in range(40) for word in ("fever", "cough")]
words = TfidfVectorizer().fit(texts)
trees = XGBClassifier(n_estimators=20).fit(words.transform(texts), np.arange(80) % 2)
for but in range(0, 5 * 4096, 4096):
    fill(but=but)
    try:
        save_tfidf_xgboost(place / "model", words, trees, labels=["sick"])
        raise SystemExit(f"written with {but} bytes free")
    except OSError as error:
        print(error.errno == 28, bool(error.filename), (place / "model" / "palpate.json").exists())
"""


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    """XGBoost has its own error, which says nothing of the disk, and may lose the end of a file without one."""
    done = run_on_small_disk(_SAVING, tmp_path / "disk")
    assert not done.stderr
    assert done.stdout.split() == ["True", "True", "False"] * 5
