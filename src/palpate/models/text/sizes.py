"""How much memory a transformer needs, from its configuration, before any weight is read.

Weights are counted exactly: the network is built on torch's `meta` device, which holds shapes and no numbers. What a
pass needs beside them is an estimate per token, from the widths of a layer; a checkpoint that names its widths
otherwise is counted by its weights alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from palpate.models.devices import Device, Dtype, budget_of, lower, weight_bytes

USUAL_TOKENS = 4096
"""Tokens in a pass on a CPU: larger batches are not faster there."""


class MemoryNeed(NamedTuple):
    """What a model needs on its device, in bytes."""

    weights: int
    passes: int
    """The largest batch; 0: not known, and small."""
    device: Device

    @property
    def total(self) -> int:
        """Weights and the largest pass."""
        return self.weights + self.passes


def bytes_per_token(config: Any, longest: int | None, dtype: Dtype = "float32") -> int:
    """What one token of a batch takes at most, in the widest layer of a pass: its vectors and its row of attention."""
    width = _first(config, "hidden_size", "d_model", "n_embd", "dim")
    inner = _first(config, "intermediate_size", "ffn_dim", "n_inner", "hidden_dim") or 4 * width
    heads = _first(config, "num_attention_heads", "n_head", "n_heads")
    seen = min(longest or USUAL_TOKENS, _first(config, "attention_window") or USUAL_TOKENS)
    half = 4 if dtype == "float32" else 2
    return 4 * 2 * width + half * (4 * width + 3 * inner + heads * seen)


def _first(config: Any, *names: str) -> int:
    """The first of several names that a configuration has a number for; layers of several widths have the largest."""
    for name in names:
        value = getattr(config, name, None)
        value = max(value, default=None) if isinstance(value, list | tuple) else value
        if isinstance(value, int) and value > 0:
            return value
    return 0


def tokens_fitting(network: Any, longest: int | None, device: Device) -> int:
    """Tokens in one pass of a network on its device."""
    per_token = bytes_per_token(network.config, longest, device.dtype)
    return budget_of(device.room(network), per_token, usual=USUAL_TOKENS)


def memory_need(
    config: Any,
    build: Callable[[], Any],
    path: Path,
    device: Device,
    *,
    longest: int | None = None,
    batch_tokens: int | None = None,
) -> MemoryNeed:
    """What a checkpoint needs, without reading its weights; `build` makes its network, with any numbers as weights.

    `longest` is how many tokens attend to each other; default: as many as the configuration has positions.
    """
    weights = _weights(build, device)
    weights = size_of_weights(path) if weights is None else weights
    longest = longest or _first(config, "chunk_size", "max_position_embeddings", "n_positions") or None
    tokens = max(batch_tokens or USUAL_TOKENS, longest or 0)
    return MemoryNeed(weights, tokens * bytes_per_token(config, longest, device.dtype), device)


def size_of_weights(path: Path) -> int:
    """The bytes of the files of weights in a folder."""
    return sum(file.stat().st_size for file in path.iterdir() if file.suffix in (".safetensors", ".bin"))


def _weights(build: Callable[[], Any], device: Device) -> int | None:
    """The bytes of the weights as they will be held; None: the network can't be built from its configuration alone."""
    import torch

    try:
        with torch.device("meta"):
            network = build()
        network.float()
        if device.dtype != "float32":
            lower(network, getattr(torch, device.dtype))
    except Exception:  # code of the checkpoint's own may raise anything; the files tell their sizes as well
        return None
    return weight_bytes(network)
