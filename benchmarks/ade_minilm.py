"""Sentence embeddings by MiniLM, and logistic regression on them, as a function that palpate can call.

`ade_real_run.py` copies this file beside its configuration as `ade_model.py`: `python:ade_model:probability` reads
`ade_minilm.npz`, the fitted weights, and `ade_minilm.json`, which names the folder of the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 64
MAX_TOKENS = 256
HERE = Path(__file__).parent


class Encoder:
    """A sentence-transformers checkpoint, run by transformers alone: mean of the token states, length 1."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self._torch: Any = torch
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model: Any = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True).eval()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """One row a text; texts of like length go together, which changes nothing but the time."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        out = np.zeros((len(texts), self._model.config.hidden_size))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            out[rows] = self._batch([texts[at] for at in rows])
        return out

    def _batch(self, texts: list[str]) -> NDArray[np.float64]:
        inputs = self._tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        with self._torch.inference_mode():
            states = self._model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][:, :, None].to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
        unit = self._torch.nn.functional.normalize(mean, dim=1)
        return np.asarray(unit.numpy(), dtype=np.float64)


@lru_cache(maxsize=1)
def _fitted() -> tuple[Encoder, NDArray[np.float64], float]:
    weights = np.load(HERE / "ade_minilm.npz", allow_pickle=False)
    checkpoint = json.loads((HERE / "ade_minilm.json").read_text(encoding="utf-8"))["checkpoint"]
    return Encoder(Path(checkpoint)), weights["coefficients"], float(weights["intercept"])


def probability(texts: list[str]) -> NDArray[np.float64]:
    """The probability of an adverse drug event."""
    encoder, coefficients, intercept = _fitted()
    logits = encoder.embed(texts) @ coefficients + intercept
    return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float64)
