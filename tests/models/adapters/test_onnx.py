"""ONNX files, against the scikit-learn pipelines that they were made from and against numpy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, MissingExtra
from palpate.models import Model, ModelSpec, load_model
from tests.models.adapters import tiny_graphs
from tests.models.tiny_checkpoints import note, wordpiece

pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")

TEXTS = [*tiny_graphs.training_texts(12), "", "🙂 naïve", "sepsis " * 20_000, " \n ", "pain\x00pain"]


def load(path: Path, **options: Any) -> Model:
    return load_model(ModelSpec("m", f"onnx:{path}", options=options))


def predict(path: Path, texts: list[str], **options: Any) -> np.ndarray:
    return load(path, **options).predict(Inputs.from_texts(texts))


@pytest.mark.parametrize("shape", [(None, 1), (None,), (1, 1)])
@pytest.mark.parametrize("zipmap", [True, False])
def test_two_classes_are_one_label(tmp_path: Path, zipmap: bool, shape: tuple[int | None, ...]) -> None:
    pipeline = tiny_graphs.fitted(LogisticRegression(C=50))
    path = tiny_graphs.write_pipeline(tmp_path / "m.onnx", pipeline, shape=shape, zipmap=zipmap)
    model = load(path)
    assert model.labels == ("1",)
    got = model.predict(Inputs.from_texts(TEXTS))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, pipeline.predict_proba(TEXTS)[:, 1:], atol=1e-5)
    assert np.ptp(got) > 0.1
    assert model.predict(Inputs.from_texts([])).shape == (0, 1)
    assert model.window is None


def test_classes_have_the_names_of_the_zipmap(tmp_path: Path) -> None:
    pipeline = tiny_graphs.fitted(LogisticRegression(), n_classes=3, names=["stays", "dies", "returns"])
    path = tiny_graphs.write_pipeline(tmp_path / "m.onnx", pipeline)
    assert load(path).labels == ("dies", "returns", "stays")
    np.testing.assert_allclose(predict(path, TEXTS), pipeline.predict_proba(TEXTS), atol=1e-5)
    assert load(path, labels=["a", "b", "c"]).labels == ("a", "b", "c")


def test_two_labels_are_not_two_classes(tmp_path: Path) -> None:
    pipeline = tiny_graphs.fitted(OneVsRestClassifier(LogisticRegression()), n_labels=2)
    path = tiny_graphs.write_pipeline(tmp_path / "m.onnx", pipeline, zipmap=False)
    assert load(path).labels == ("0", "1")
    np.testing.assert_allclose(predict(path, TEXTS), pipeline.predict_proba(TEXTS), atol=1e-5)


def test_a_table_for_each_label(tmp_path: Path) -> None:
    pipeline = tiny_graphs.fitted(MultiOutputClassifier(LogisticRegression()), n_labels=3)
    path = tiny_graphs.write_pipeline(tmp_path / "m.onnx", pipeline, zipmap=False)
    wanted = np.column_stack([table[:, 1] for table in pipeline.predict_proba(TEXTS)])
    np.testing.assert_allclose(predict(path, TEXTS, labels=["a", "b", "c"]), wanted, atol=1e-5)


def test_labels_of_the_metadata(tmp_path: Path) -> None:
    pipeline = tiny_graphs.fitted(LogisticRegression())
    path = tmp_path / "m.onnx"
    for names in (["readmission"], ["home", "readmission"]):
        tiny_graphs.write_pipeline(path, pipeline, metadata={"labels": json.dumps(names)}, zipmap=False)
        assert load(path).labels == ("readmission",)
    tiny_graphs.write_pipeline(path, pipeline, metadata={"labels": "['not json"}, zipmap=False)
    assert load(path).labels == ("1",)


def test_an_output_by_name(tmp_path: Path) -> None:
    pipeline = tiny_graphs.fitted(LogisticRegression())
    path = tiny_graphs.write_pipeline(tmp_path / "m.onnx", pipeline, zipmap="columns")
    with pytest.raises(ConfigError, match=r"not clear which output.*i0.*i1"):
        load(path)
    np.testing.assert_allclose(predict(path, TEXTS, output="i1"), pipeline.predict_proba(TEXTS)[:, 1:], atol=1e-5)
    with pytest.raises(ConfigError, match="no output 'i2'"):
        load(path, output="i2")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    wordpiece(16).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "graph", [{}, {"kind": "INT32"}, {"width": 12}, {"rows": 1}], ids=["free", "int32", "width", "rows"]
)
@pytest.mark.parametrize(
    ("n_outputs", "activation", "wanted"),
    [
        (1, None, expit),
        (2, None, lambda x: softmax(x, axis=1)[:, 1:]),
        (3, None, lambda x: softmax(x, axis=1)),
        (2, "sigmoid", expit),
    ],
)
def test_token_graphs(
    tmp_path: Path, tokenizer: Path, graph: Any, n_outputs: int, activation: Any, wanted: Any
) -> None:
    words = wordpiece(graph.get("width", 16))
    table = tiny_graphs.embeddings(len(words), n_outputs)
    path = tiny_graphs.write_token_graph(tmp_path / "m.onnx", table, **graph)
    rng = np.random.default_rng(0)
    texts = [note(rng, n) for n in (3, 80, 0, 9, 400, 1)]
    options = {"tokenizer": str(tokenizer), "activation": activation, "batch_tokens": 40}
    if activation:
        options["labels"] = ["a", "b"]
    model = load(path, **options)
    logits = np.array([table[words(text, truncation=True)["input_ids"]].mean(0) for text in texts])
    np.testing.assert_allclose(model.predict(Inputs.from_texts(texts)), wanted(logits.astype(float)), atol=1e-6)
    assert model.window == f"the first {graph.get('width', 16)} tokens"
    assert np.all(model.visible_ends(texts)[[1, 4]] < 150)


def test_token_graph_needs_a_tokenizer(tmp_path: Path, tokenizer: Path) -> None:
    path = tiny_graphs.write_token_graph(tmp_path / "m.onnx", tiny_graphs.embeddings(200, 2))
    with pytest.raises(ConfigError, match="set the option `tokenizer`"):
        load(path)
    with pytest.raises(ConfigError, match="nowhere"):
        load(path, tokenizer="nowhere")
    assert load(path, tokenizer=str(tokenizer), max_tokens=8).window == "the first 8 tokens"


def test_fingerprint_follows_files_and_options(tmp_path: Path, tokenizer: Path) -> None:
    path = tiny_graphs.write_token_graph(tmp_path / "m.onnx", tiny_graphs.embeddings(200, 2))
    options = {"tokenizer": str(tokenizer)}
    seen = [load(path, **options).fingerprint]
    assert load(path, **options, threads=1, batch_tokens=99).fingerprint == seen[0]
    for change in ({"max_tokens": 8}, {"activation": "sigmoid"}, {"fingerprint": "v2"}):
        seen.append(load(path, **options, **change).fingerprint)
    (tmp_path / "m.onnx_data").write_bytes(b"of another graph")
    assert load(path, **options).fingerprint == seen[0]
    tiny_graphs.write_token_graph(path, tiny_graphs.embeddings(200, 2, seed=6))
    seen.append(load(path, **options).fingerprint)
    other = tmp_path / "other"
    wordpiece(8).save_pretrained(other)
    seen.append(load(path, tokenizer=str(other)).fingerprint)
    assert len(set(seen)) == 6


def test_wrong_files_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"gone.onnx"):
        load(tmp_path / "gone.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no graph")
    with pytest.raises(ConfigError, match=r"broken.onnx: onnxruntime can't load"):
        load(broken)
    path = tiny_graphs.logistic_file(tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match="thraeds"):
        load(path, thraeds=3)
    with pytest.raises(ConfigError, match="3 names for 1 labels"):
        load(path, labels=["a", "b", "c"])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"palpate\[onnx\]"):
        load(path)


def test_inputs_that_are_not_text(tmp_path: Path) -> None:
    from skl2onnx import to_onnx

    classifier = LogisticRegression().fit(np.eye(3), [0, 1, 0])
    path = tmp_path / "m.onnx"
    path.write_bytes(to_onnx(classifier, np.eye(3, dtype=np.float32)).SerializeToString())
    with pytest.raises(
        ConfigError, match=r"inputs are X: tensor\(float\), which is neither one input of strings nor input_ids"
    ):
        load(path)


def test_missing_locale_is_explained(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(TfidfVectorizer(token_pattern=tiny_graphs.TOKENS), LogisticRegression())
    pipeline.fit(["a b", "c d"], [0, 1])
    path = tiny_graphs.write_pipeline(tmp_path / "m.onnx", pipeline, tfidfvectorizer={"locale": "xx_XX.UTF-8"})
    with pytest.raises(ConfigError, match="install the locale"):
        load(path)


def external(path: Path, weights: np.ndarray, where: str) -> Path:
    """A graph whose weights are in another file, as onnx writes it."""
    import onnx

    tiny_graphs.write_token_graph(path, weights)
    graph = onnx.load(path)
    (path.parent / where).parent.mkdir(parents=True, exist_ok=True)
    (path.parent / where).unlink(missing_ok=True)
    onnx.save_model(graph, path, save_as_external_data=True, location=where, size_threshold=200)
    return path


@pytest.mark.parametrize("where", ["m.onnx.data", "weights.bin", "parts/weights-of-the-model.bin"])
def test_weights_in_another_file_are_part_of_the_model(where: str, tmp_path: Path, tokenizer: Path) -> None:
    weights = tiny_graphs.embeddings(len(wordpiece(16)), 2)
    path, options = tmp_path / "m.onnx", {"tokenizer": str(tokenizer)}
    first = load(external(path, weights, where), **options)
    before = path.read_bytes()
    second = load(external(path, weights * 2, where), **options)
    assert path.read_bytes() == before, "only the other file has changed"
    assert not np.allclose(*(model.predict(Inputs.from_texts(TEXTS)) for model in (first, second)))
    assert first.fingerprint != second.fingerprint
    assert load(path, **options).fingerprint == second.fingerprint


def test_providers_are_those_of_the_installed_runtime(tmp_path: Path) -> None:
    tiny_graphs.logistic_file(tmp_path / "model.onnx")
    plain = load_model(ModelSpec("m", "onnx:model.onnx", str(tmp_path)))
    named = load_model(ModelSpec("m", "onnx:model.onnx", str(tmp_path), {"providers": ["cpu"]}))
    assert (plain.runs_on, named.runs_on) == ("CPUExecutionProvider", "CPUExecutionProvider")
    assert plain.fingerprint == named.fingerprint
    inputs = Inputs.from_texts(["fever and pain", ""])
    np.testing.assert_array_equal(plain.predict(inputs), named.predict(inputs))
    with pytest.raises(ConfigError, match=r"has no 'TensorRT'; it has .*CPUExecutionProvider.* another build"):
        load_model(ModelSpec("m", "onnx:model.onnx", str(tmp_path), {"providers": ["TensorRT", "CPU"]}))
    with pytest.raises(ConfigError, match="providers"):
        load_model(ModelSpec("m", "onnx:model.onnx", str(tmp_path), {"providers": []}))


def test_a_provider_that_does_not_start_is_not_replaced_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As onnxruntime-gpu does without CUDA's libraries: it lists the provider, and then runs on the CPU."""
    import onnxruntime

    tiny_graphs.logistic_file(tmp_path / "model.onnx")
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: offered)
    with pytest.raises(ConfigError, match="could not start CUDAExecutionProvider and would use CPU"):
        load_model(ModelSpec("m", "onnx:model.onnx", str(tmp_path), {"providers": ["CUDA"]}))
