"""Embeddings of notes by any local encoder (context paper, Appendix A).

A note longer than the encoder's window is read in overlapping windows. The hidden states of a window's tokens, special
ones included, are averaged; then those of the note's windows; then the vector is brought to unit length. Notes are read
as they are written: tokenizers and encoders expect sentences, so stop words and punctuation stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.errors import ConfigError, MissingExtra
from palpate.models.adapters.hf import load_tokenizer, positions_of, quiet
from palpate.models.digest import digest
from palpate.models.text.batches import attention_mask, batches_within, padded
from palpate.models.text.windows import TextWindows, text_windows
from palpate.train.pretest.options import PretestOptions

_NOTES_AT_ONCE = 64


class Encoder(NamedTuple):
    """A checkpoint that turns notes into vectors."""

    network: Any
    windows: TextWindows
    batch_tokens: int

    def embed(self, texts: Sequence[str], told: Callable[[int], None]) -> NDArray[np.float32]:
        """[note, dimension], each of unit length; `told` hears how many notes are done."""
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
        """The mean over tokens of the last hidden states of each window."""
        import torch

        lengths = np.fromiter((len(window) for window in ids), dtype=np.int64, count=len(ids))
        pad = self.windows.tokenizer.pad_token_id
        frame = self.windows.frame
        out = np.empty((len(ids), int(self.network.config.hidden_size)))
        with torch.inference_mode():
            for rows in batches_within(self.batch_tokens, lengths, max_rows=None if pad is not None else 1):
                mask = attention_mask(lengths[rows])
                batch = {"input_ids": padded([ids[row] for row in rows], pad or 0), "attention_mask": mask}
                if frame.has_types:
                    batch["token_type_ids"] = padded([frame.types(int(n)) for n in lengths[rows]], 0)
                tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
                hidden = self.network(**tensors).last_hidden_state.float().numpy()
                out[rows] = np.einsum("wtd,wt->wd", hidden, mask) / mask.sum(axis=1, keepdims=True)
        return out


def encoder_digest(path: Path, options: PretestOptions) -> str:
    """What the vectors of an encoder depend on; the folder is checked."""
    if not (path / "config.json").is_file():
        hint = "nothing is downloaded: give the folder of a transformers checkpoint on this machine"
        raise ConfigError("this folder has no config.json, so it is no checkpoint", file=path, hint=hint)
    if not options.trust and not any(path.glob("*.safetensors")):
        hint = "save the checkpoint as safetensors, or set trust=true"
        raise ConfigError("this checkpoint has no weights as safetensors", file=path, hint=hint)
    chosen = options.model_dump(include={"max_tokens", "stride"})
    return digest("pretest-1", chosen, [file for file in path.iterdir() if file.is_file()])


def load_encoder(path: Path, options: PretestOptions) -> Encoder:
    """The encoder in a folder, with all its weights; an output layer that it may also have is left out."""
    source = f"the encoder {path}"
    try:
        import transformers
    except ImportError:
        raise MissingExtra("torch", needed_for=source) from None
    with quiet(transformers):
        tokenizer = load_tokenizer(transformers, path, trust=options.trust)
        try:
            network, report = transformers.AutoModel.from_pretrained(
                path,
                local_files_only=True,
                trust_remote_code=options.trust,
                use_safetensors=None if options.trust else True,
                output_loading_info=True,
            )
        except Exception as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"the weights can't be loaded: {first}", file=path) from error
    # A checkpoint of another task has no pooling layer, which is not used here.
    missing = sorted(str(key) for key in report["missing_keys"] if "pooler" not in str(key))
    if missing:
        raise ConfigError(f"the checkpoint lacks {len(missing)} weights, among them {missing[0]}", file=path)
    windows = text_windows(
        tokenizer,
        long="sliding",
        max_tokens=options.max_tokens,
        limit=positions_of(network),
        stride=options.stride,
        source=source,
    )
    return Encoder(network.float().eval(), windows, options.batch_tokens)
