"""Change the weights of a written model, for the contract that its fingerprint changes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from palpate.models import ModelSpec, load_model


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
