"""Real, tiny models for the contract suite: transformers checkpoints, ONNX files, and endpoints on this machine.

Each factory writes what its model needs in a folder of its own and says how to load it. The servers run in daemon
threads, which end with the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from palpate.models import ModelSpec
from tests.models.adapters import tiny_graphs
from tests.models.adapters.local_server import LocalServer, keyword_probability
from tests.models.chunked_checkpoints import chunked_checkpoint
from tests.models.tiny_checkpoints import WORDS, checkpoint, wordpiece


def bert(folder: Path) -> ModelSpec:
    """Two classes, truncated."""
    checkpoint(folder / "bert", names=["not returns", "returns"])
    return ModelSpec("bert", "hf:bert", folder=str(folder))


def roberta_sliding(folder: Path) -> ModelSpec:
    """Three labels, read in windows; its tokenizer keeps white space."""
    checkpoint(folder / "roberta", "Roberta", n_outputs=3, problem_type="multi_label_classification")
    options = {"long": "sliding", "stride": 8, "pooling": "max"}
    return ModelSpec("roberta", "hf:roberta", folder=str(folder), options=options)


def roberta(folder: Path) -> ModelSpec:
    """The same, truncated."""
    checkpoint(folder / "roberta", "Roberta", n_outputs=3, problem_type="multi_label_classification")
    return ModelSpec("roberta", "hf:roberta", folder=str(folder))


def distilbert(folder: Path) -> ModelSpec:
    """A single output."""
    checkpoint(folder / "distilbert", "DistilBert", n_outputs=1)
    return ModelSpec("distilbert", "hf:distilbert", folder=str(folder))


def coding(
    folder: Path, architecture: Literal["caml", "effective-can"], evidence: Any = "none", seed: int = 0
) -> ModelSpec:
    """A coding model with random weights, which reads 12 words; with a tagging head if its evidence has one."""
    import torch

    from palpate.models.adapters.palpate import save_network
    from palpate.models.networks.coding import CodingShape
    from palpate.models.networks.coding.layers import CodingNetwork
    from palpate.models.networks.coding.model import write_coding
    from palpate.models.networks.coding.words import WordWindow

    sizes = {"embedding": 8, "channels": (8,) if architecture == "caml" else (8, 6), "kernel": 3, "attention": 6}
    shape = CodingShape(architecture=architecture, evidence=evidence, reduction=2, dropout=0.1, **sizes)
    window = WordWindow(tuple(WORDS), max_tokens=12)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = CodingNetwork(shape, window.n_ids, 2)
    save_network(
        folder / "coding", "coding", lambda place: write_coding(place, network, window), labels=["428.0", "401.9"]
    )
    return ModelSpec("coding", "palpate:coding", folder=str(folder))


def chunked(folder: Path, seed: int = 0) -> ModelSpec:
    """A PLM-ICD with code of its own, which cuts notes into chunks itself."""
    chunked_checkpoint(folder / "plm", seed=seed)
    return ModelSpec("plm", "hf:plm", folder=str(folder), options={"trust": True, "chunk": 16})


def plm_icd(folder: Path, seed: int = 0) -> ModelSpec:
    """What `palpate train plm-icd` writes, with random weights; it reads 60 tokens in chunks of 8."""
    import torch
    import transformers

    from palpate.models.adapters.palpate import save_network
    from palpate.models.networks.coding import ChunkedShape
    from palpate.models.networks.coding.chunked import ChunkedNetwork
    from palpate.models.networks.coding.model import write_coding
    from palpate.models.networks.coding.tokens import token_window

    words = wordpiece(16)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    window = token_window(words, 60, source="plm")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=16, **sizes)
        network = ChunkedNetwork(ChunkedShape(chunk=8, max_tokens=60), transformers.BertModel(config), 2).eval()
        torch.nn.init.normal_(network.encoder.embeddings.word_embeddings.weight)
    save_network(
        folder / "coding", "coding", lambda place: write_coding(place, network, window), labels=["428.0", "401.9"]
    )
    return ModelSpec("coding", "palpate:coding", folder=str(folder))


def onnx_strings(folder: Path) -> ModelSpec:
    """A tf-idf pipeline in a graph."""
    tiny_graphs.logistic_file(folder / "model.onnx")
    return ModelSpec("onnx", "onnx:model.onnx", folder=str(folder))


def onnx_tokens(folder: Path) -> ModelSpec:
    """A graph behind a tokenizer."""
    words = wordpiece(16)
    words.save_pretrained(folder / "words")
    tiny_graphs.write_token_graph(folder / "model.onnx", tiny_graphs.embeddings(len(words), 3))
    return ModelSpec("onnx", "onnx:model.onnx", folder=str(folder), options={"tokenizer": "words"})


def http(folder: Path) -> ModelSpec:
    """An endpoint with two labels, of which it tells the names."""

    def answer(message: Any) -> Any:
        return {"probabilities": [[keyword_probability(t), keyword_probability(t[::2])] for t in message["texts"]]}

    server = LocalServer(answer=answer, labels=["sepsis", "death"])
    return ModelSpec("http", server.url, folder=str(folder), options={"batch_size": 4})


def chat(folder: Path) -> ModelSpec:
    """A language model that answers with a percentage."""

    def answer(message: Any) -> Any:
        percent = 100 * keyword_probability(message["messages"][-1]["content"])
        return {"choices": [{"message": {"content": f"About {percent:.6f}%."}}]}

    options = {"api": "chat", "model": "m", "prompt": "Risk of {label}: {text}", "parser": "number"}
    options["labels"] = ["sepsis", "death"]
    return ModelSpec("chat", LocalServer(answer=answer).url, folder=str(folder), options=options)


FACTORIES: dict[str, Callable[[Path], ModelSpec]] = {
    "hf bert": bert,
    "hf roberta": roberta,
    "hf roberta sliding": roberta_sliding,
    "hf distilbert": distilbert,
    "palpate caml": lambda folder: coding(folder, "caml"),
    "palpate effective-can": lambda folder: coding(folder, "effective-can", "cnn"),
    "hf chunked": chunked,
    "palpate plm-icd": plm_icd,
    "onnx strings": onnx_strings,
    "onnx tokens": onnx_tokens,
    "http": http,
    "http chat": chat,
}


def _other_roberta(folder: Path) -> None:
    checkpoint(folder / "roberta", "Roberta", n_outputs=3, problem_type="multi_label_classification", seed=1)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "hf bert": lambda folder: checkpoint(folder / "bert", names=["not returns", "returns"], seed=1),
    "hf roberta": _other_roberta,
    "hf roberta sliding": _other_roberta,
    "hf distilbert": lambda folder: checkpoint(folder / "distilbert", "DistilBert", n_outputs=1, seed=1),
    "palpate caml": lambda folder: coding(folder, "caml", seed=1),
    "palpate effective-can": lambda folder: coding(folder, "effective-can", "cnn", seed=1),
    "hf chunked": lambda folder: chunked(folder, seed=1),
    "palpate plm-icd": lambda folder: plm_icd(folder, seed=1),
    "onnx strings": lambda folder: tiny_graphs.logistic_file(folder / "model.onnx", strength=5.0),
    "onnx tokens": lambda folder: wordpiece(8).save_pretrained(folder / "words"),
}
"""How the files of a model become those of another one."""
