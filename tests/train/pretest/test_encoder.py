"""Embeddings of notes, against one window at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.train.pretest.pretest_cohort import options


@pytest.mark.parametrize("family", ["Bert", "Roberta", "Mistral"])
def test_embeddings_like_one_window_at_a_time(family: str, tmp_path: Path) -> None:
    """The families of the paper's six encoders; Mistral's has no padding token."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from palpate.train.pretest.encoder import load_encoder
    from tests.models.tiny_checkpoints import checkpoint, note, unigram

    more: dict[str, Any] = {}
    if family == "Mistral":
        words = unigram(16)
        words.pad_token = None
        more = {"tokenizer": words, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8}
    checkpoint(tmp_path, family, max_length=16, **more)
    rng = np.random.default_rng(0)
    texts = [note(rng, n) for n in (3, 40, 12, 100)]
    found = load_encoder(tmp_path, options(stride=4)).embed(texts, lambda _: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    network = transformers.AutoModel.from_pretrained(tmp_path).eval()
    for text, vector in zip(texts, found, strict=True):
        windows = tokenizer(text, max_length=16, truncation=True, stride=4, return_overflowing_tokens=True)["input_ids"]
        with torch.inference_mode():
            means = [network(torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy() for ids in windows]
        slow = np.mean(means, axis=0)
        np.testing.assert_allclose(vector, slow / np.linalg.norm(slow), atol=1e-5)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)
