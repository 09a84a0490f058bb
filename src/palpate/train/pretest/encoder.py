"""Embeddings of notes by any local encoder (context paper, Appendix A).

A note longer than the encoder's window is read in overlapping windows. The hidden states of a window's tokens, special
ones included, are averaged; then the windows of a note are averaged; then the vector is scaled to unit length. Notes
are read as they are written: tokenizers and encoders expect sentences, so stop words and punctuation stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.models.devices import Device, choose
from palpate.models.networks import require_torch
from palpate.models.options import digest
from palpate.models.text import lengths_of
from palpate.models.text.checkpoints import (
    check_checkpoint,
    lacks_weights,
    load_network,
    load_tokenizer,
    positions_of,
)
from palpate.models.text.sizes import tokens_fitting
from palpate.models.text.windows import TextWindows, text_windows
from palpate.train.pretest.options import PretestOptions

_NOTES_AT_ONCE = 64


class Encoder(NamedTuple):
    """A checkpoint that turns notes into vectors."""

    network: Any
    windows: TextWindows
    batch_tokens: int
    device: Device

    def embed(self, texts: Sequence[str], told: Callable[[int], None]) -> NDArray[np.float32]:
        """[note, dimension], each of unit length; `told` is called with the number of notes done."""
        parts = []
        for low in range(0, len(texts), _NOTES_AT_ONCE):
            parts.append(self._embed(texts[low : low + _NOTES_AT_ONCE]))
            told(min(low + _NOTES_AT_ONCE, len(texts)))
        return np.concatenate(parts)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        windows = self.windows.encode(texts)
        of_window = self._hidden(windows.ids)
        mean = np.add.reduceat(of_window, windows.first[:-1], axis=0) / np.diff(windows.first)[:, None]
        length = np.linalg.norm(mean, axis=1, keepdims=True)
        unit = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0)
        return np.asarray(unit, dtype=np.float32)

    def _hidden(self, ids: list[list[int]]) -> NDArray[np.float64]:
        """The mean over the tokens of each window's last hidden states."""
        import torch

        pad = self.windows.tokenizer.pad_token_id

        def forward(rows: NDArray[np.int64]) -> Any:
            batch = self.windows.frame.batch([ids[row] for row in rows], pad or 0)
            tensors = {name: self.device.tensor(array) for name, array in batch.items()}
            mask = tensors["attention_mask"].unsqueeze(2).float()
            return (self.network(**tensors).last_hidden_state.float() * mask).sum(1) / mask.sum(1)

        out = np.empty((len(ids), int(self.network.config.hidden_size)))
        limits: dict[str, Any] = {"budget": self.batch_tokens, "max_rows": None if pad is not None else 1}
        with torch.inference_mode():
            for rows, found in self.device.passes(lengths_of(ids), forward, **limits):
                out[rows] = found
        return out


def encoder_digest(path: Path, options: PretestOptions) -> str:
    """A digest of what the vectors of an encoder depend on; the folder is checked."""
    check_checkpoint(path, trust=options.trust)
    chosen = options.model_dump(include={"max_tokens", "stride", "dtype"})
    return digest("pretest-2", chosen, [file for file in path.iterdir() if file.is_file()])


def load_encoder(path: Path, options: PretestOptions) -> Encoder:
    """The encoder in a folder, with all its weights; its output layer, if any, is left out."""
    source = f"the encoder {path}"
    require_torch(source, "transformers")
    import transformers

    device = choose(options)
    tokenizer = load_tokenizer(path, trust=options.trust)
    network, missing = load_network(transformers.AutoModel, path, trust=options.trust, device=device)
    # A checkpoint of another task has no pooling layer, which is not used here.
    missing = [key for key in missing if "pooler" not in key]
    if missing:
        raise lacks_weights(missing, "an encoder", path, hint="give a complete checkpoint")
    windows = text_windows(
        tokenizer,
        long="sliding",
        max_tokens=options.max_tokens,
        limit=positions_of(network),
        stride=options.stride,
        source=source,
    )
    budget = options.batch_tokens or tokens_fitting(network, windows.max_tokens, device)
    return Encoder(network, windows, budget, device)
