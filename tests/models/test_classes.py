"""A two-class model is never taken the wrong way round: its class names tell, or the user says, or it is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import yaml
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, ModelSpec, load_model
from palpate.models.classes import ClassOptions, positive_of, unclear
from tests.models.adapters import tiny_graphs
from tests.models.tiny_checkpoints import checkpoint

NOTES = ["fever and chills", "feels well", "fever again", "no complaints"] * 5
ILL = np.array([1, 0, 1, 0] * 5)


@pytest.mark.parametrize(
    ("classes", "place"),
    [
        ((0, 1), 1),
        ((1, 0), 0),
        ((False, True), 1),
        ((-1, 1), 1),
        ((0.0, 1.0), 1),
        (("no", "yes"), 1),
        (("N", "Y"), 1),
        (("POSITIVE", "NEGATIVE"), 0),
        (("neg", "pos"), 1),
        (("LABEL_0", "LABEL_1"), 1),
        (("not readmitted", "readmitted"), 1),
        (("readmission", "no_readmission"), 0),
        (("0", "pneumonia"), 1),
        (("absent", "present"), 1),
        (("case", "control"), None),
        (("alive", "dead"), None),
        ((1, 2), None),
        (("1", "2"), None),
        (("yes", "positive"), None),
    ],
)
def test_what_the_names_tell(classes: tuple[Any, ...], place: int | None) -> None:
    assert positive_of(classes, ClassOptions(), file=Path("m")) == place


def sklearn_spec(folder: Path, classes: Any, classifier: Any = None, **options: Any) -> ModelSpec:
    pipeline = make_pipeline(TfidfVectorizer(), classifier or LogisticRegression()).fit(NOTES, np.asarray(classes)[ILL])
    skops.io.dump(pipeline, folder / "m.skops")
    return ModelSpec("m", "sklearn:m.skops", str(folder), options)


def onnx_spec(folder: Path, classes: Any, *, zipmap: bool = True, **options: Any) -> ModelSpec:
    pipeline = tiny_graphs.fitted(LogisticRegression(C=50), names=classes)
    tiny_graphs.write_pipeline(folder / "m.onnx", pipeline, zipmap=zipmap)
    return ModelSpec("m", "onnx:m.onnx", str(folder), options)


def columns(model: Model, texts: list[str]) -> Any:
    return model.predict(Inputs.from_texts(texts))


@pytest.mark.parametrize("classifier", [LogisticRegression(), KNeighborsClassifier(3)])
def test_case_and_control_are_both_kept_until_it_is_said_which(classifier: Any, tmp_path: Path) -> None:
    trust = {"trust": True}
    both = load_model(sklearn_spec(tmp_path, ["control", "case"], classifier, **trust))
    assert both.labels == both.classes == ("case", "control")
    p = columns(both, NOTES[:4])
    assert p[0, 0] > p[1, 0]
    for positive, k in (("case", 0), ("control", 1)):
        one = load_model(sklearn_spec(tmp_path, ["control", "case"], classifier, positive=positive, **trust))
        assert one.labels == (positive,)
        np.testing.assert_allclose(columns(one, NOTES[:4]), p[:, [k]], rtol=0, atol=1e-12)


def test_a_label_of_the_same_name_tells_and_another_does_not(tmp_path: Path) -> None:
    named = load_model(sklearn_spec(tmp_path, ["control", "case"], labels=["case"]))
    assert columns(named, NOTES[:2])[0, 0] > columns(named, NOTES[:2])[1, 0]
    with pytest.raises(ConfigError, match=r"classes 'case' and 'control', and it is not known.*`positive: case`"):
        load_model(sklearn_spec(tmp_path, ["control", "case"], labels=["ill"]))
    renamed = load_model(sklearn_spec(tmp_path, ["control", "case"], labels=["ill"], positive="case"))
    assert renamed.labels == ("ill",)


def test_a_class_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`positive` is 'cases', but the classes are 'case' and 'control'"):
        load_model(sklearn_spec(tmp_path, ["control", "case"], positive="cases"))


def test_yes_in_yaml_is_true_and_means_the_class_yes(tmp_path: Path) -> None:
    model = load_model(sklearn_spec(tmp_path, ["no", "yes"], positive=True))
    assert model.labels == ("yes",)
    assert load_model(sklearn_spec(tmp_path, [0, 1], positive=0)).labels == ("0",)


def test_the_fingerprint_has_the_positive_class(tmp_path: Path) -> None:
    specs = [sklearn_spec(tmp_path, ["control", "case"], positive=name) for name in ("case", "control")]
    assert len({load_model(spec).fingerprint for spec in specs}) == 2


def test_outputs_with_two_classes_each(tmp_path: Path) -> None:
    def spec(names: list[str], **options: Any) -> ModelSpec:
        y = np.column_stack([np.asarray(names)[ILL], np.asarray(names)[1 - ILL]])
        pipeline = make_pipeline(TfidfVectorizer(), MultiOutputClassifier(LogisticRegression())).fit(NOTES, y)
        skops.io.dump(pipeline, tmp_path / "m.skops")
        return ModelSpec("m", "sklearn:m.skops", str(tmp_path), options)

    with pytest.raises(ConfigError, match="output 0 of the model has the classes 'case' and 'control'"):
        load_model(spec(["control", "case"]))
    p = columns(load_model(spec(["control", "case"], positive="case")), NOTES[:2])
    assert p[0, 0] > 0.5 > p[0, 1]
    q = columns(load_model(spec(["positive", "negative"])), NOTES[:2])
    assert q[0, 0] < 0.5 < q[0, 1]


@pytest.mark.parametrize("zipmap", [True, False])
def test_an_onnx_graph(zipmap: bool, tmp_path: Path) -> None:
    texts = tiny_graphs.training_texts(5)
    pipeline = tiny_graphs.fitted(LogisticRegression(C=50), names=["yes", "control"])
    p = pipeline.predict_proba(texts)  # columns: control, yes
    model = load_model(onnx_spec(tmp_path, ["yes", "control"], zipmap=zipmap))
    assert model.labels == ("yes",)
    np.testing.assert_allclose(columns(model, texts), p[:, [1]], atol=1e-5)
    both = load_model(onnx_spec(tmp_path, ["control", "case"], zipmap=zipmap))
    assert both.labels == both.classes == ("case", "control")
    one = load_model(onnx_spec(tmp_path, ["control", "case"], zipmap=zipmap, positive="case"))
    np.testing.assert_allclose(columns(one, texts), columns(both, texts)[:, [0]], atol=1e-7)
    with pytest.raises(ConfigError, match="classes 'case' and 'control'"):
        load_model(onnx_spec(tmp_path, ["control", "case"], zipmap=zipmap, labels=["ill"]))
    with pytest.raises(ConfigError):
        load_model(onnx_spec(tmp_path, ["control", "case"], zipmap=zipmap, labels=["control", "case"]))
    coded = load_model(onnx_spec(tmp_path, [1, 2], zipmap=zipmap))
    assert coded.classes == ("1", "2")


@pytest.mark.parametrize(
    ("names", "options", "labels", "kept"),
    [
        (["POSITIVE", "NEGATIVE"], {}, ("POSITIVE",), [0]),
        (["case", "control"], {}, ("case", "control"), [0, 1]),
        (["case", "control"], {"positive": "case"}, ("case",), [0]),
        (["case", "control"], {"labels": ["control"]}, ("control",), [1]),
        (["not ill", "ill"], {"labels": ["readmitted"]}, ("readmitted",), [1]),
    ],
)
def test_a_checkpoint(names: list[str], options: Any, labels: Any, kept: list[int], tmp_path: Path) -> None:
    plain = load_model(ModelSpec("m", f"hf:{checkpoint(tmp_path / 'plain', names=['no', 'yes'])}"))
    model = load_model(ModelSpec("m", f"hf:{checkpoint(tmp_path / 'm', names=names)}", options=options))
    assert model.labels == labels
    yes = columns(plain, NOTES[:4])
    np.testing.assert_allclose(columns(model, NOTES[:4]), np.column_stack([1 - yes, yes])[:, kept], atol=1e-12)


def test_a_checkpoint_with_unknown_classes_and_another_label_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, names=["case", "control"])
    with pytest.raises(ConfigError, match="classes 'case' and 'control'"):
        load_model(ModelSpec("m", f"hf:{path}", options={"labels": ["ill"]}))


def test_explanations_are_about_the_positive_class(tmp_path: Path) -> None:
    from palpate.results import Asked

    inputs, none, first = Inputs.from_texts(["fever and pain"]), np.zeros(1, int), np.ones(1, int)
    yes = load_model(ModelSpec("m", f"hf:{checkpoint(tmp_path / 'plain', names=['no', 'yes'])}"))
    flipped = load_model(ModelSpec("m", f"hf:{checkpoint(tmp_path / 'm', names=['yes', 'no'])}"))
    both = load_model(ModelSpec("m", f"hf:{checkpoint(tmp_path / 'b', names=['case', 'control'])}"))
    way = yes.explains[0]
    score = yes.explain(inputs, Asked(none, none), way).score
    np.testing.assert_allclose(flipped.explain(inputs, Asked(none, none), way).score, -score, atol=1e-6)
    np.testing.assert_allclose(both.explain(inputs, Asked(none, none), way).score, -score, atol=1e-6)
    np.testing.assert_allclose(both.explain(inputs, Asked(none, first), way).score, score, atol=1e-6)


@pytest.mark.parametrize("names", [("Readmitted: no", "Readmitted: yes"), ("no", "it's"), ("case", "control"), (1, 2)])
def test_the_hint_can_be_pasted_into_a_yaml_file(names: tuple[object, object]) -> None:
    hint = str(unclear(names).hint)
    first, second = re.fullmatch(r"say so with `(.*)` or `(.*)`", hint).groups()  # type: ignore[union-attr]
    assert [yaml.safe_load(each)["positive"] for each in (first, second)] == list(names)
