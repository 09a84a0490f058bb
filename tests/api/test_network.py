"""A transformers classifier that is in memory answers as the same one from its folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import palpate
from palpate.errors import PalpateError
from palpate.models.memory import InMemory, network_in_memory
from tests.api.notes import notes_table

transformers = pytest.importorskip("transformers")


def test_a_network_in_memory_is_its_checkpoint(tmp_path: Path) -> None:
    from tests.models.tiny_checkpoints import checkpoint

    folder = checkpoint(tmp_path / "bert")
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    result = palpate.audit(
        notes_table(80),
        labels="readmitted",
        text="note",
        models={
            "folder": f"hf:{folder}",
            "pair": palpate.InMemory((network, tokenizer), positive=None),
            "pipeline": transformers.pipeline("text-classification", model=network, tokenizer=tokenizer),
        },
        audits={"performance": {"n_replicates": 100}},
        progress=False,
    )
    values = result.estimates(metric="auroc", reference=None).to_polars()["value"].to_numpy()
    assert len(np.unique(values)) == 1
    with pytest.raises(PalpateError, match="without its tokenizer"):
        palpate.audit(notes_table(80), labels="readmitted", text="note", models={"m": network}, progress=False)


def test_another_vocabulary_is_another_model(tmp_path: Path) -> None:
    from tests.models.tiny_checkpoints import checkpoint

    folder = checkpoint(tmp_path / "bert")
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizers = [transformers.AutoTokenizer.from_pretrained(folder) for _ in range(2)]
    models = [network_in_memory("m", network, each, InMemory(network, positive=1)) for each in tokenizers]
    assert models[0].fingerprint == models[1].fingerprint
    tokenizers[1].add_tokens(["sepsis"])
    assert network_in_memory("m", network, tokenizers[1], InMemory(network)).fingerprint != models[0].fingerprint
    turned = network_in_memory("m", network, tokenizers[0], InMemory(network, positive="label 0"))
    assert turned.fingerprint != models[0].fingerprint
