"""Tiny ONNX files that are real: scikit-learn pipelines through skl2onnx, and a bag of token embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.models.tiny_checkpoints import WORDS

TOKENS = r"[a-zA-Z0-9_]+"


def training_texts(n: int = 60) -> list[str]:
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, size=12)) for _ in range(n)]


def fitted(classifier: Any, *, n_labels: int = 1, n_classes: int = 2, names: Any = None) -> Any:
    """A tf-idf pipeline on random texts; lower-casing needs a locale that a small machine may not have."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    texts = training_texts()
    rng = np.random.default_rng(4)
    y = rng.integers(n_classes, size=(len(texts), n_labels))
    target = y[:, 0] if n_labels == 1 else y
    if names is not None:
        target = np.asarray(names)[target]
    return make_pipeline(TfidfVectorizer(token_pattern=TOKENS, lowercase=False), classifier).fit(texts, target)


def write_pipeline(
    path: Path, pipeline: Any, *, shape: Any = (None, 1), metadata: dict[str, str] | None = None, **options: Any
) -> Path:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import StringTensorType

    graph = convert_sklearn(pipeline, initial_types=[("text", StringTensorType(list(shape)))], options=options)
    for key, value in (metadata or {}).items():
        graph.metadata_props.add(key=key, value=value)
    path.write_bytes(graph.SerializeToString())
    return path


def logistic_file(path: Path, strength: float = 50.0) -> Path:
    """A two-class tf-idf model."""
    from sklearn.linear_model import LogisticRegression

    return write_pipeline(path, fitted(LogisticRegression(C=strength)), zipmap=False)


def embeddings(n_tokens: int, n_outputs: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_tokens, n_outputs)).astype(np.float32)


def write_token_graph(
    path: Path, table: np.ndarray, *, rows: Any = "rows", width: Any = "width", kind: str = "INT64"
) -> Path:
    """`logits`: the mean of the tokens' rows of `table`, padding left out."""
    from onnx import TensorProto, helper, numpy_helper

    integer = getattr(TensorProto, kind)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["found", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["total"], keepdims=0),
        helper.make_node("ReduceSum", ["wide", "middle"], ["count"], keepdims=0),
        helper.make_node("Div", ["total", "count"], ["logits"]),
    ]
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([2], dtype=np.int64), "last"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "middle"),
    ]
    inputs = [helper.make_tensor_value_info(n, integer, [rows, width]) for n in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [rows, table.shape[1]])]
    graph = helper.make_graph(nodes, "bag", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path
