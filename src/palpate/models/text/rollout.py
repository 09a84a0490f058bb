"""Attention rollout (Abnar and Zuidema, 2020): how much of each token reaches the one that is classified.

In each layer the mean attention of its heads and the residual connection, half each, mix the tokens; the product over
layers says how much of each token is in the last layer's first token, or in the last one for networks that classify by
that. It does not depend on the label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.models.devices import Device
from palpate.models.text import attention_mask, lengths_of, padded

Floats = NDArray[np.float64]


def attention_rollout(
    network: Any,
    ids: Sequence[Sequence[int]],
    *,
    reads_first: bool,
    filler: int = 0,
    batch_tokens: int = 1024,
    max_rows: int | None = None,
    device: Device | None = None,
) -> list[Floats]:
    """A score for each token of each row; those of a row sum to 1."""
    import torch

    lengths, here = lengths_of(ids), device or Device()
    scores: list[Floats] = [np.zeros(0)] * len(ids)

    def heads(rows: NDArray[np.int64]) -> Any:
        """[layer, row, 1, to, from]: the mean of the heads."""
        tokens = here.tensor(padded([ids[row] for row in rows], filler))
        if tokens.shape[1] == 0:
            return tokens
        mask = here.tensor(attention_mask(lengths[rows]))
        layers = network(input_ids=tokens, attention_mask=mask, output_attentions=True).attentions
        return torch.stack([layer.float().mean(1, keepdim=True) for layer in layers])

    with torch.inference_mode(), _telling_attention(network):
        for rows, layers in here.passes(lengths, heads, budget=batch_tokens, max_rows=max_rows):
            if layers.ndim < 5:
                continue
            mixed = roll_out(list(layers.astype(np.float64)))
            for k, row in enumerate(rows.tolist()):
                place = 0 if reads_first else int(lengths[row]) - 1
                scores[row] = mixed[k, place, : lengths[row]]
    return scores


def roll_out(layers: Sequence[Floats]) -> Floats:
    """[row, to, from]: the product of the layers' attention [row, head, to, from], each mixed with the residual."""
    n = layers[0].shape[-1]
    mixed = np.broadcast_to(np.eye(n), (layers[0].shape[0], n, n))
    for layer in layers:
        mixed = (0.5 * layer.mean(axis=1) + 0.5 * np.eye(n)) @ mixed
    return np.asarray(mixed)


@contextmanager
def _telling_attention(network: Any) -> Iterator[None]:
    """Faster ways to compute attention do not tell its weights."""
    before = network.config._attn_implementation
    network.set_attn_implementation("eager")
    try:
        yield
    finally:
        network.set_attn_implementation(before)
