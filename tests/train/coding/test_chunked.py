"""`palpate train plm-icd`: long notes read chunk by chunk, and where their codes come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models.adapters.palpate import read_manifest
from palpate.results import Asked
from palpate.testing import model_contract as contract
from palpate.train import train
from tests.e2e.command_line import CommandLine
from tests.models.tiny_checkpoints import checkpoint
from tests.train.coding.long_charts import PHRASES, TINY_PLM, long_charts, write_long_charts
from tests.train.training import contents, predict, read_back

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def cohort(n: int = 140, **options: Any) -> Cohort:
    return Cohort.from_frame(long_charts(n, **options)[0], labels=list(PHRASES))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plm") / "plain"
    train("plm-icd", cohort(), out, TINY_PLM)
    return out


def test_it_learns_what_only_a_late_chunk_says(plain: Path) -> None:
    """The first 60 words, which are chunks 1 to 3, say nothing about the codes."""
    card = read_manifest(plain).card
    assert card["fit"]["micro_f1"] > 0.95
    y, p = predict(plain, cohort(), "test")
    assert ((p >= read_manifest(plain).threshold) == (y == 1)).mean() > 0.95
    assert card["fit"]["shape"] == {"architecture": "plm-icd", "evidence": "none", "chunk": 16, "max_tokens": 200}


def test_predictions_and_attention_are_those_of_a_direct_computation(plain: Path) -> None:
    model = read_back(plain)
    texts = [*long_charts(6)[0]["text"].to_list(), "", "pneumonia", "🙂 naïve"]
    rows = np.repeat(np.arange(len(texts)), 3)
    found = model.explain(Inputs.from_texts(texts), Asked(rows, np.tile([0, 1, 2], len(texts))), "attention")
    p = model.predict(Inputs.from_texts(texts))
    for row, text in enumerate(texts):
        logits, attention, offsets = direct(plain, text)
        np.testing.assert_allclose(p[row], expit(logits), atol=1e-6)
        np.testing.assert_allclose(attention.sum(1), 1)
        for label in range(3):
            mine = (found.row == row) & (found.label == label)
            places = [(a, b) for a, b in offsets if b > a]
            assert list(zip(found.start[mine].tolist(), found.end[mine].tolist(), strict=True)) == places
            wanted = [w for (a, b), w in zip(offsets, attention[label], strict=True) if b > a]
            np.testing.assert_allclose(found.score[mine], wanted, atol=1e-6)


def direct(folder: Path, text: str, chunk: int = 16) -> tuple[Any, Any, list[Any]]:
    """One text, one chunk at a time, nothing padded."""
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "encoder")
    config = transformers.AutoConfig.from_pretrained(folder / "encoder")
    encoder = transformers.BertModel(config, add_pooling_layer=False).eval()
    encoder.load_state_dict({key[8:]: value for key, value in weights.items() if key.startswith("encoder.")})
    read = tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=200)
    ids = read["input_ids"]
    with torch.inference_mode():
        parts = [encoder(torch.tensor([ids[k : k + chunk]])).last_hidden_state[0] for k in range(0, len(ids), chunk)]
        hidden = torch.cat(parts).double()
        keys = torch.tanh(hidden @ weights["projection.weight"].double().T)
        attention = torch.softmax(weights["queries"].double() @ keys.T, 1)
        logits = ((attention @ hidden) * weights["weights"].double()).sum(1) + weights["bias"].double()
    return logits.numpy(), attention.numpy(), list(read["offset_mapping"])


def test_what_it_reads_and_explains_by(plain: Path) -> None:
    model = read_back(plain)
    assert model.window == "the first 200 tokens"
    assert model.explains[0] == "attention"
    contract.check_visible_ends(model)
    contract.check_rows_are_independent(model)
    contract.check_edits_are_splices(model)


@pytest.mark.slow
def test_the_contract_of_every_model(plain: Path) -> None:
    contract.check_model_contract(read_back(plain))


def test_evidence_in_a_late_chunk_through_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained with supervised attention, audited: nothing is lost to a window, and it points at the evidence."""
    palpate = CommandLine(capsys, monkeypatch)
    write_long_charts(tmp_path)
    (tmp_path / "audit.yaml").write_text(
        f"""
cohort: {{file: charts.csv, labels: {json.dumps(list(PHRASES))}}}
models: {{coder: palpate:coder}}
audits:
  evidence: {{gold: evidence.csv, faithfulness: false}}
"""
    )
    given = {key: value for key, value in TINY_PLM.items() if key not in ("patience",)}
    given |= {"evidence": "attention", "evidence_table": tmp_path / "evidence.csv"}
    settings = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    ran = palpate("train", "plm-icd", "--cohort", tmp_path / "audit.yaml", "--out", tmp_path / "coder", *settings)
    assert ran.code == 0, ran.err
    ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    rows = pl.read_parquet(tmp_path / "run" / "results" / "evidence.parquet").filter(model="coder")
    assert rows.filter(metric="evidence_beyond_window")["value"].to_list() == [0.0]
    assert rows.filter(metric="token_f1", group="all")["value"][0] > 0.8


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_it_starts_from_any_checkpoint(family: str, tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "start", family, task="MaskedLM")
    options = {**TINY_PLM, "checkpoint": path, "epochs": 1, "learning_rate": 1e-9}
    train("plm-icd", cohort(40), tmp_path / "m", options)
    start = transformers.AutoModel.from_pretrained(path)
    model = read_back(tmp_path / "m")
    for name, weight in start.named_parameters():
        if "pooler" not in name:
            learned = dict(model._network.encoder.named_parameters())[name]
            np.testing.assert_allclose(learned.detach(), weight.detach(), atol=1e-6, err_msg=name)
    contract.check_rows_are_independent(model)
    with pytest.raises(ConfigError, match="chunk is 64, but the encoder has 32 positions"):
        train("plm-icd", cohort(40), tmp_path / "n", {**options, "chunk": 64})


def test_parts_and_recomputing_change_no_step(tmp_path: Path) -> None:
    """A step in parts, with values computed again, learns what it learns at once."""
    data, options = cohort(40), {**TINY_PLM, "epochs": 1}
    train("plm-icd", data, tmp_path / "whole", {**options, "batch_tokens": 100_000})
    train("plm-icd", data, tmp_path / "parts", {**options, "batch_tokens": 100, "recompute": True})
    whole, parts = (read_back(tmp_path / name)._network.state_dict() for name in ("whole", "parts"))
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, atol=2e-4, err_msg=name)


def test_an_interrupted_training_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    data, options = cohort(40), {**TINY_PLM, "epochs": 2, "save_steps": 2, "dropout": 0.1}
    train("plm-icd", data, tmp_path / "whole", options)

    class Stop(Exception):
        pass

    def stop(step: Any) -> None:
        if step.stage == "epoch 2 of 2" and step.done == 1:
            raise Stop

    with pytest.raises(Stop):
        train("plm-icd", data, tmp_path / "m", options, progress=stop)
    train("plm-icd", data, tmp_path / "m", options, resume=True)
    assert contents(tmp_path / "m") == contents(tmp_path / "whole")


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="evidence"):
        train("plm-icd", cohort(40), tmp_path / "m", {**TINY_PLM, "evidence": "cnn"})
    with pytest.raises(ConfigError, match="choose attention"):
        train("plm-icd", cohort(40), tmp_path / "m", {**TINY_PLM, "evidence_table": "e.csv"})
