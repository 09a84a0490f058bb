"""A real runtime that serves a language model which the test makes: `transformers serve`, audited as a user would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from palpate.run.directory import RunDirectory
from tests.e2e.command_line import CommandLine

WORDS = [
    "<pad>",
    "<s>",
    "</s>",
    "<unk>",
    "yes",
    "no",
    "perhaps",
    "fever",
    "cough",
    "pain",
    "he",
    "she",
    "has",
    "ill",
    "?",
]
SERVE = "from transformers.cli.transformers import main; main()"
SECONDS_TO_START = 240


def write_model(folder: Path) -> None:
    """A Llama with random weights that answers with one of three words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: k for k, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(WORDS), max_position_embeddings=256, pad_token_id=0, **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight *= torch.tensor([10.0 if word in ("yes", "no") else 0.0 for word in WORDS])[:, None]
    others = [k for k, word in enumerate(WORDS) if word not in ("yes", "no", "perhaps")]
    model.generation_config.update(do_sample=True, temperature=1.0, pad_token_id=0, suppress_tokens=others)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def serving(model: Path, log: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVE, "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--device", "cpu", "--default-seed", "0"], stdout=out, stderr=out, env={**os.environ, **offline}
        )
    try:
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.5)
        else:
            pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_model_that_transformers_serves(tmp_path: Path, palpate: CommandLine) -> None:
    for needed in ("torch", "accelerate", "fastapi", "uvicorn", "openai"):
        pytest.importorskip(needed, reason="`transformers serve` needs accelerate, fastapi, uvicorn and openai")
    write_model(tmp_path / "model")
    texts = [" ".join([("he", "she")[k % 2], "has", *["fever"] * (k % 3), *["cough"] * (k % 5)]) for k in range(24)]
    frame = pl.DataFrame(
        {"case_id": [f"c{k}" for k in range(24)], "text": texts, "ill": [k % 3 % 2 for k in range(24)]}
    )
    frame.write_csv(tmp_path / "notes.csv")
    options = {
        "api": "chat",
        "model": str(tmp_path / "model"),
        "prompt": "{text} ill ?",
        "max_tokens": 1,
        "timeout": 60,
    }
    with serving(tmp_path / "model", tmp_path / "server.log") as url:
        settings = json.dumps({"source": url, **options, "samples": 3, "price": {"input": 1, "output": 1}})
        (tmp_path / "audit.yaml").write_text(
            f"cohort: {{file: notes.csv, labels: [ill]}}\nmodels:\n  llama: {settings}\n"
            "audits:\n  performance: {n_replicates: 100}\ncache: cache.sqlite\n"
        )
        ran = palpate("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run")
        assert ran.code == 0, ran.err
        wrong = json.dumps({"source": url, **options, "parser": "logprobs"})
        (tmp_path / "wrong.yaml").write_text((tmp_path / "audit.yaml").read_text().replace(settings, wrong))
        refused = palpate("audit", tmp_path / "wrong.yaml", "--out", tmp_path / "wrong")
    spent = RunDirectory(tmp_path / "run").read_manifest()["scoring"]["llama"]["spent"]
    assert (spent["requests"], spent["answers"], spent["guessed"]) == (72, 72, 0)
    assert spent["output_tokens"] == 72
    scores = pl.read_parquet(tmp_path / "run" / "predictions" / "llama.parquet")["p"].explode()
    assert scores.is_between(0, 1).all()
    assert scores.n_unique() > 1
    rows = RunDirectory(tmp_path / "run").read_result("performance").estimates
    assert {"refusal_share", "unreadable_share", "answer_standard_error"} <= set(rows["metric"])
    # This runtime has no log-probabilities, and says so.
    assert refused.code == 3
    assert "the answer has no log-probabilities; use `parser: yes-no` with `samples`" in refused.err, refused.err
