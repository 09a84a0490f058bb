"""What every model adapter must do, as checks on a `ModelSpec`; `test_models.py` runs them on all of them.

A plug-in's own tests can use these functions too.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Edit, Inputs, splice
from palpate.errors import ConfigError
from palpate.models import Model, ModelSpec, load_model
from palpate.results import Asked, Attributions

TEXTS = (
    "Patient is a 54 year old man with chest pain, admitted for pneumonia.",
    "No fever. No pain. Discharged home in good condition.",
    "History of diabetes mellitus; started on insulin.\nFollow up in two weeks.",
    "Pt denies chest pain but reports shortness of breath (SOB) at rest.",
    "Fever",
)
ODD_TEXTS = (
    "",
    " \n\t ",
    "Müller naïve cafe\u0301 İstanbul ΟΔΟΣ ß ﬁ ½ 37,5\u00a0°C",
    "😀 👩🏽‍⚕️ 痛み боль \u202eright-to-left\u202c \u0000 end",
    "fever and pain " * 6_667,
)
EDITS: tuple[tuple[int, tuple[Edit, ...]], ...] = (
    (0, ()),
    (0, (Edit(23, 26, "woman"),)),
    (0, (Edit(13, 15, "84"), Edit(23, 26, "woman"))),
    (0, (Edit(0, 0, "Elderly "),)),
    (1, (Edit(0, 9, ""),)),
    (1, (Edit(2, 3, ""), Edit(3, 3, "-"))),
    (2, (Edit(11, 28, "asthma"), Edit(30, 37, ""))),
    (3, (Edit(66, 67, ""),)),
    (4, (Edit(5, 5, " and 😀 café"),)),
)
"""Edits of `TEXTS`: whole words, within words, at both ends, adjacent, words joined."""


def edited_inputs() -> Inputs:
    """`EDITS` as a model gets them."""
    edits = [edit for _, each in EDITS for edit in each]
    return Inputs(
        parent=np.array([parent for parent, _ in EDITS]),
        first_edit=np.cumsum([0, *(len(each) for _, each in EDITS)]),
        start=np.array([edit.start for edit in edits]),
        end=np.array([edit.end for edit in edits]),
        replacement=np.arange(len(edits)),
        replacements=[edit.text for edit in edits],
        parents=TEXTS,
        case_ids=[str(parent) for parent, _ in EDITS],
        cohorts=[""] * len(EDITS),
    )


def asked_texts() -> list[str]:
    """Every text that the contract may ask of a model that reads all of a text."""
    return list(dict.fromkeys([*TEXTS, *ODD_TEXTS, *(splice(TEXTS[parent], each) for parent, each in EDITS)]))


def check_probabilities(model: Model) -> None:
    p = model.predict(Inputs.from_texts(TEXTS))
    assert p.shape == (len(TEXTS), len(model.labels))
    assert p.dtype == np.float64
    assert np.all(np.isfinite(p))
    assert np.all((p >= 0) & (p <= 1))


def check_labels(model: Model) -> None:
    assert isinstance(model.labels, tuple)
    assert model.labels
    assert all(isinstance(label, str) and label for label in model.labels)
    assert len(set(model.labels)) == len(model.labels)


def check_no_rows(model: Model) -> None:
    p = model.predict(Inputs.from_texts([]))
    assert p.shape == (0, len(model.labels))
    assert p.dtype == np.float64


def check_rows_are_independent(model: Model) -> None:
    together = model.predict(Inputs.from_texts(TEXTS))
    alone = np.concatenate([model.predict(Inputs.from_texts([text])) for text in TEXTS])
    order = [3, 1, 4, 0, 2, 1]
    shuffled = model.predict(Inputs.from_texts([TEXTS[k] for k in order]))
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-6)
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)


def check_edits_are_splices(model: Model) -> None:
    inputs = edited_inputs()
    edited = model.predict(inputs)
    plain = model.predict(Inputs.from_texts(inputs.texts))
    if model.uses_edits:
        np.testing.assert_allclose(edited, plain, rtol=0, atol=1e-12)
    else:
        assert np.array_equal(edited, plain)


def check_odd_texts(model: Model) -> None:
    p = model.predict(Inputs.from_texts(ODD_TEXTS))
    assert p.shape == (len(ODD_TEXTS), len(model.labels))
    assert np.all(np.isfinite(p))
    assert np.all((p >= 0) & (p <= 1))


def check_visible_ends(model: Model) -> None:
    texts = [*TEXTS, *ODD_TEXTS]
    ends = model.visible_ends(texts)
    assert ends.shape == (len(texts),)
    assert np.issubdtype(ends.dtype, np.integer)
    assert model.visible_ends([]).shape == (0,)
    cut = [(text, int(end)) for text, end in zip(texts, ends, strict=True) if end <= len(text)]
    if not cut:
        assert model.window is None or all(end == len(text) + 1 for text, end in zip(texts, ends, strict=True))
        return
    before = model.predict(Inputs.from_texts([text for text, _ in cut]))
    for change in ("", " zebra", "fever fever fever. " * 3):
        changed = [text[:end] + change + text[end + 4 :] for text, end in cut]
        np.testing.assert_allclose(model.predict(Inputs.from_texts(changed)), before, rtol=0, atol=1e-6)


def check_explains(model: Model) -> None:
    """Pieces inside the text that is read, without overlap, the same whatever else is asked; none if none is asked."""
    texts = [*TEXTS, *ODD_TEXTS[:-1], ODD_TEXTS[-1][:2000]]
    inputs, last = Inputs.from_texts(texts), len(model.labels) - 1
    ends = np.minimum(model.visible_ends(texts), [len(text) for text in texts])
    row = np.array([2, *range(len(texts)), 2])
    asked = Asked(row, np.where(np.arange(len(row)) % 2 == 0, 0, last))
    for way in model.explains:
        found = model.explain(inputs, asked, way)
        assert len({len(column) for column in found}) == 1
        assert all(np.issubdtype(column.dtype, np.integer) for column in found[:4])
        assert found.score.dtype == np.float64
        assert np.all(np.isfinite(found.score))
        assert set(zip(found.row.tolist(), found.label.tolist(), strict=True)) <= set(zip(*asked, strict=True))
        assert np.all((found.start >= 0) & (found.start < found.end) & (found.end <= ends[found.row]))
        assert {0, 1, 2, 3, 4} <= set(found.row.tolist()), "a text with words has pieces"
        for k in (0, 5, 8):
            _check_pieces_of_one_pair(model, inputs, Asked(row[[k]], asked.label[[k]]), found, way)
        none = np.zeros(0, dtype=np.int64)
        assert [len(column) for column in model.explain(inputs, Asked(none, none), way)] == [0] * 5


def _check_pieces_of_one_pair(model: Model, inputs: Inputs, pair: Asked, found: Attributions, way: str) -> None:
    alone = model.explain(inputs, pair, way)
    assert np.all(alone.start[1:] >= alone.end[:-1])
    same = np.flatnonzero((found.row == pair.row[0]) & (found.label == pair.label[0]))[: len(alone.row)]
    assert np.array_equal(found.start[same], alone.start)
    assert np.array_equal(found.end[same], alone.end)
    np.testing.assert_allclose(found.score[same], alone.score, rtol=0, atol=1e-5)


def check_fingerprint_is_stable(spec: ModelSpec) -> None:
    first, second = load_model(spec), load_model(spec)
    try:
        assert isinstance(first.fingerprint, str)
        assert first.fingerprint
        assert first.fingerprint == second.fingerprint
    finally:
        first.close()
        second.close()


def fingerprint(spec: ModelSpec) -> str:
    model = load_model(spec)
    try:
        return model.fingerprint
    finally:
        model.close()


def change_weights(folder: Path) -> bool:
    """Scale the numbers in the safetensors and ONNX files below a folder; False: there are none."""
    tensors, graphs = list(folder.rglob("*.safetensors")), list(folder.rglob("*.onnx"))
    for file in tensors:
        from safetensors import numpy as safetensors

        scaled = {name: value * 2 if value.dtype.kind == "f" else value for name, value in _tensors(file).items()}
        safetensors.save_file(scaled, file, metadata={"format": "pt"})
    for file in graphs:
        import onnx

        graph = onnx.load(file)
        for weights in graph.graph.initializer:
            if weights.data_type == onnx.TensorProto.FLOAT:
                weights.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weights) * 2, weights.name))
        for attribute in (each for node in graph.graph.node for each in node.attribute):
            if attribute.name == "coefficients":
                attribute.floats[:] = [2 * value for value in attribute.floats]
        onnx.save(graph, file)
    return bool(tensors or graphs)


def _tensors(file: Path) -> dict[str, Any]:
    from safetensors import numpy as safetensors

    return {name: np.array(value) for name, value in safetensors.load_file(file).items()}


def check_unknown_option(spec: ModelSpec) -> None:
    wrong = ModelSpec(spec.name, spec.source, spec.folder, {**spec.options, "no_such_option": 1})
    with pytest.raises(ConfigError, match="no_such_option"):
        load_model(wrong)


def check_missing_file(spec: ModelSpec) -> None:
    scheme, _, target = spec.source.partition(":")
    missing = f"{scheme}:no-such-model{Path(target).suffix}"
    with pytest.raises(ConfigError, match="no-such-model"):
        load_model(ModelSpec(spec.name, missing, spec.folder, spec.options))


_IN_A_FRESH_PROCESS = """
import pickle, sys
import numpy as np
from palpate.cases.edits import Inputs
from palpate.models import load_model
with open(sys.argv[1], "rb") as file:
    spec, texts = pickle.load(file)
model = load_model(spec)
np.savez(sys.argv[2], p=model.predict(Inputs.from_texts(texts)), fingerprint=model.fingerprint, labels=model.labels)
model.close()
"""


def check_loads_in_a_fresh_process(spec: ModelSpec, model: Model, folder: Path) -> None:
    (folder / "spec.pkl").write_bytes(pickle.dumps((spec, list(TEXTS))))
    command = [sys.executable, "-c", _IN_A_FRESH_PROCESS, str(folder / "spec.pkl"), str(folder / "answer.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = np.load(folder / "answer.npz")
    assert str(answer["fingerprint"]) == model.fingerprint
    assert tuple(answer["labels"]) == model.labels
    np.testing.assert_allclose(answer["p"], model.predict(Inputs.from_texts(TEXTS)), rtol=0, atol=1e-6)
