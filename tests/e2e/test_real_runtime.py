"""Real runtimes that serve language models which the tests make, audited as a user would.

`transformers serve`, and the server of llama.cpp (`pip install xllamacpp gguf`: its wheels need no compiler).
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
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
LLAMA_CPP = """
import sys, time
import xllamacpp

options = xllamacpp.CommonParams()
options.model.path, options.hostnames, options.port = sys.argv[1], ["127.0.0.1"], int(sys.argv[2])
options.n_ctx, options.n_parallel, options.n_gpu_layers, options.cpuparams.n_threads = 512, 1, 0, 1
server = xllamacpp.Server(options)
while True:
    time.sleep(1)
"""
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


def write_gguf(file: Path) -> None:
    """A Llama of one layer with random weights, as llama.cpp reads it; nearly all probability is that of yes and no."""
    from gguf import GGUFWriter, TokenType

    rng, width, inner = np.random.default_rng(3), 32, 64
    kinds = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}
    kinds |= {f"<0x{byte:02X}>": TokenType.BYTE for byte in range(256)}
    kinds |= dict.fromkeys(["\u2581", *"yesno", "ye", "yes", "no"], TokenType.NORMAL)
    names = list(kinds)
    writer = GGUFWriter(file, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(names))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores([-float(k) for k in range(len(names))])
    writer.add_token_types(list(kinds.values()))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }} {% endfor %}")
    shapes = dict.fromkeys(["attn_q", "attn_k", "attn_v", "attn_output"], (width, width))
    shapes |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    weights = {f"blk.0.{name}": rng.normal(0, 0.15, shape) for name, shape in shapes.items()}
    weights |= dict.fromkeys(["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"], np.ones(width))
    weights["token_embd"] = rng.normal(0, 0.5, (len(names), width))
    weights["token_embd"][:, 0] = 3.0  # the same for all texts, so that it can favour two words
    weights["output"] = np.zeros((len(names), width))
    for word in ("yes", "no"):
        weights["output"][names.index(word)] = [6.0, *rng.normal(0, 0.3, width - 1)]
    for name, values in weights.items():
        writer.add_tensor(f"{name}.weight", values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def serving(command: Sequence[str], port: int, log: Path) -> Iterator[str]:
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", *command], stdout=out, stderr=out, env={**os.environ, **offline}
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


def write_notes(file: Path) -> list[str]:
    texts = [" ".join([("he", "she")[k % 2], "has", *["fever"] * (k % 3), *["cough"] * (k % 5)]) for k in range(24)]
    frame = pl.DataFrame(
        {"case_id": [f"c{k}" for k in range(24)], "text": texts, "ill": [k % 3 % 2 for k in range(24)]}
    )
    frame.write_csv(file)
    return texts


def config(folder: Path, name: str, url: str, **options: object) -> Path:
    settings = json.dumps({"source": url, "api": "chat", "prompt": "{text} ill ?", "timeout": 60, **options})
    file = folder / f"{name}.yaml"
    file.write_text(
        f"cohort: {{file: notes.csv, labels: [ill]}}\nmodels:\n  llama: {settings}\n"
        f"audits:\n  performance: {{n_replicates: 100}}\ncache: {name}.sqlite\n"
    )
    return file


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_model_that_transformers_serves(tmp_path: Path, palpate: CommandLine) -> None:
    for needed in ("torch", "accelerate", "fastapi", "uvicorn", "openai"):
        pytest.importorskip(needed, reason="`transformers serve` needs accelerate, fastapi, uvicorn and openai")
    write_model(tmp_path / "model")
    write_notes(tmp_path / "notes.csv")
    options = {
        "api": "chat",
        "model": str(tmp_path / "model"),
        "prompt": "{text} ill ?",
        "max_tokens": 1,
        "timeout": 60,
    }
    port = free_port()
    command = [SERVE, "serve", options["model"], "--host", "127.0.0.1", "--port", port]
    command += ["--device", "cpu", "--default-seed", "0"]
    with serving(list(map(str, command)), port, tmp_path / "server.log") as url:
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


def asked_directly(url: str, text: str) -> tuple[float, float]:
    """What llama.cpp itself says: P(yes) and P(no) of the first token."""
    question = {"messages": [{"role": "user", "content": f"{text} ill ?"}], "max_tokens": 1}
    body = json.dumps(question | {"logprobs": True, "top_logprobs": 20}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        tokens = json.load(answer)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    found = {token["token"]: math.exp(token["logprob"]) for token in tokens}
    return found["yes"], found["no"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_model_that_llama_cpp_serves(tmp_path: Path, palpate: CommandLine) -> None:
    for needed in ("xllamacpp", "gguf"):
        pytest.importorskip(needed, reason="the server of llama.cpp is in xllamacpp, and gguf writes its models")
    write_gguf(tmp_path / "model.gguf")
    texts, port = write_notes(tmp_path / "notes.csv"), free_port()
    with serving([LLAMA_CPP, str(tmp_path / "model.gguf"), str(port)], port, tmp_path / "server.log") as url:
        price = {"input": 1, "output": 1}
        options = {"model": "any", "max_tokens": 1, "extra_body": {"cache_prompt": False}}
        one = config(tmp_path, "one", url, parser="logprobs", price=price, **options)
        many = config(tmp_path, "many", url, samples=5, concurrency=4, price=price, **options)
        runs = {
            name: palpate("audit", file, "--out", tmp_path / name) for name, file in (("run", one), ("sampled", many))
        }
        said = [asked_directly(url, text) for text in texts]
        # A grammar forces a random model to write an object: some numbers are probabilities, and some never end.
        schema = config(tmp_path, "schema", url, parser="json", model="any", max_tokens=60)
        runs["schema"] = palpate("audit", schema, "--out", tmp_path / "schema")
    for name, ran in runs.items():
        assert ran.code == 0, (name, ran.err)
    scores = {name: pl.read_parquet(tmp_path / name / "predictions" / "llama.parquet")["p"].explode() for name in runs}
    np.testing.assert_allclose(scores["run"], [yes / (yes + no) for yes, no in said], atol=1e-4)
    assert scores["run"].n_unique() > 4
    assert set((scores["sampled"] * 5).round(6)) <= {0, 1, 2, 3, 4, 5}
    for name, requests in (("run", 24), ("sampled", 120)):
        spent = RunDirectory(tmp_path / name).read_manifest()["scoring"]["llama"]["spent"]
        assert (spent["requests"], spent["answers"], spent["output_tokens"], spent["guessed"]) == (requests,) * 3 + (0,)
    rows = RunDirectory(tmp_path / "schema").read_result("performance").estimates.filter(pl.col("reference").is_null())
    share = dict(rows.filter(pl.col("metric").str.ends_with("_share")).select("metric", "value").iter_rows())
    read = scores["schema"].drop_nulls().drop_nans()
    assert read.is_between(0, 1).all()
    assert share["refusal_share"] == 0
    assert share["unreadable_share"] == pytest.approx(1 - len(read) / 24)
