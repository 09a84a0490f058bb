"""Checkpoints of the architectures that clinical encoders have, as folders: to classify with, and as encoders.

The context paper's six encoders are four of BERT's architecture (BERT, PubMedBERT, ClinicalBERT, BioLinkBERT), RoBERTa
and Mistral-7B. GatorTron is a MegatronBERT, Clinical-Longformer and Clinical-BigBird read long notes, and Me-LLaMA is a
decoder like Llama. Here each is tiny and random, and compared with the library's own calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.models import ModelSpec, load_model
from palpate.models.devices import Device, weight_bytes
from palpate.models.text.checkpoints import load_config
from palpate.models.text.sizes import bytes_per_token, memory_need
from palpate.train.pretest.encoder import load_encoder
from palpate.train.pretest.options import PretestOptions
from tests.models.tiny_checkpoints import byte_level, checkpoint, note, wordpiece

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": {},
    "Roberta": {},
    "MegatronBert": {},
    "Longformer": {"attention_window": [8, 8], "max_position_embeddings": 34},
    "BigBird": {"attention_type": "original_full"},
    "Mistral": {"num_key_value_heads": 1, "sliding_window": None},
    "Llama": {"num_key_value_heads": 1},
    "GPT2": {},
}
BYTES = ("Roberta", "Longformer", "Mistral", "Llama", "GPT2")


@pytest.fixture(scope="module")
def notes() -> list[str]:
    rng = np.random.default_rng(3)
    return [note(rng, n) for n in (3, 25, 9, 1, 60)]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family = request.param
    tokenizer = byte_level() if family in BYTES else wordpiece()
    home = tmp_path_factory.mktemp(family)
    return checkpoint(home, family, names=["no", "yes"], tokenizer=tokenizer, **FAMILIES[family])


def one_at_a_time(path: Path, texts: list[str], kind: Any) -> list[Any]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    network = kind.from_pretrained(path).eval()
    with torch.inference_mode():
        ids = [tokenizer(text, truncation=True, max_length=32)["input_ids"] for text in texts]
        return [network(input_ids=torch.tensor([row])) for row in ids]


def test_a_classifier(folder: Path, notes: list[str]) -> None:
    model = load_model(ModelSpec("m", f"hf:{folder}"))
    got = model.predict(Inputs.from_texts(notes))
    alone = one_at_a_time(folder, notes, transformers.AutoModelForSequenceClassification)
    wanted = [out.logits.softmax(-1)[0, 1].item() for out in alone]
    np.testing.assert_allclose(got[:, 0], wanted, atol=2e-6)
    assert np.ptp(got) > 1e-3, "the answers must differ, or the test shows nothing"
    low = load_model(ModelSpec("m", f"hf:{folder}", options={"dtype": "bfloat16"}))
    assert np.abs(low.predict(Inputs.from_texts(notes)) - got).max() < low.rounding


def test_an_encoder(folder: Path, notes: list[str]) -> None:
    got = load_encoder(folder, PretestOptions(max_tokens=32)).embed(notes[:4], lambda _: None)
    alone = one_at_a_time(folder, notes[:4], transformers.AutoModel)
    wanted = np.stack([out.last_hidden_state[0].mean(0).numpy() for out in alone])
    short = [0, 2, 3]  # the others are read in several windows
    np.testing.assert_allclose(got[short], (wanted / np.linalg.norm(wanted, axis=1, keepdims=True))[short], atol=2e-6)
    low = load_encoder(folder, PretestOptions(max_tokens=32, dtype="bfloat16")).embed(notes[:4], lambda _: None)
    assert (low * got).sum(1).min() > 0.99, "the same direction"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_memory_is_known_before_loading(folder: Path, dtype: Any) -> None:
    config, device = load_config(folder, trust=False), Device("cpu", dtype)
    kind = transformers.AutoModelForSequenceClassification
    need = memory_need(config, lambda: kind.from_config(config), folder, device, longest=32)
    assert need.weights == weight_bytes(device.place(kind.from_pretrained(folder)))
    assert need.passes == 4096 * bytes_per_token(config, 32, dtype) > 0


def test_a_7b_encoder_needs_16_bit_on_most_gpus() -> None:
    """Mistral-7B's published sizes: 7.11 billion weights without the head."""
    config = transformers.MistralConfig(vocab_size=32000, num_key_value_heads=8, intermediate_size=14336)
    needs = {
        dtype: memory_need(
            config, lambda: transformers.AutoModel.from_config(config), Path(), Device("cpu", dtype), longest=4096
        ).weights
        for dtype in ("float32", "bfloat16")
    }
    assert needs["float32"] == pytest.approx(28.44e9, rel=0.01)
    assert needs["bfloat16"] == pytest.approx(14.5e9, rel=0.01)
