"""Tiny checkpoints that are real: the library's own classes, random weights, safetensors, a working tokenizer.

Weights are drawn ten times wider than usual, so that different texts get visibly different answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

SENTENCE = (
    "patient is a man woman with chest pain no fever cough history of diabetes hypertension sepsis admitted "
    "discharged home stable creatinine elevated pneumonia denies alcohol was seen by the service on day two"
)
WORDS = SENTENCE.split()
PIECES = ["##s", "##ed", "##ing", "##ly", *(f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789")]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789", *".,;:!?'\"()-/%"]


def note(rng: np.random.Generator, n_words: int) -> str:
    """A text of known words, unknown words, numbers and punctuation, with uneven white space."""
    odd = ["98.6", "acetaminophen", "q.d.", "µg", "naïve", "🙂", "BP:120/80", "Zürich", "(?)"]
    gaps = [" ", " ", " ", "  ", "     ", "\n", "\t", ", ", ".\n\n"]
    words = rng.choice([*WORDS, *WORDS, *odd], size=n_words)
    return "".join(f"{word}{gap}" for word, gap in zip(words, rng.choice(gaps, size=n_words), strict=True))


def wordpiece(max_length: int = 32, **options: Any) -> Any:
    """An uncased BERT tokenizer over a written vocabulary."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys([*LETTERS, *WORDS, *PIECES])]
    ids = {token: i for i, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **special,
        **options,
    )


def byte_level(max_length: int = 32) -> Any:
    """A RoBERTa tokenizer, trained on the spot."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=special,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    rng = np.random.default_rng(0)
    backend.train_from_iterator((note(rng, 200) for _ in range(20)), trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
    )


def unigram(max_length: int = 32) -> Any:
    """A SentencePiece-like tokenizer: its pieces are not safe from what follows a space."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Replace(" {2,}", " ")
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    rng = np.random.default_rng(0)
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator((note(rng, 200) for _ in range(20)), trainer)
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def checkpoint(
    folder: Path,
    family: str = "Bert",
    *,
    n_outputs: int = 2,
    problem_type: str | None = None,
    names: Iterable[str] | None = None,
    max_length: int = 32,
    task: str = "SequenceClassification",
    tokenizer: Any = None,
    seed: int = 0,
    **config: Any,
) -> Path:
    """Write a checkpoint of a family (Bert, DistilBert, Roberta, GPT2, ...) in `folder`."""
    import torch
    import transformers

    if tokenizer is None:
        tokenizer = byte_level(max_length) if family in ("Roberta", "GPT2") else wordpiece(max_length)
    sizes = {
        "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
        "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": max_length},
    }.get(family, {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32})
    # RoBERTa's first position is that of the padding token plus one.
    positions = {"max_position_embeddings": max_length + (2 if family == "Roberta" else 0)}
    labels = list(names) if names is not None else [f"label {i}" for i in range(n_outputs)]
    settings = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.2,
        "num_labels": n_outputs,
        "problem_type": problem_type,
        "id2label": dict(enumerate(labels)),
        "label2id": {name: i for i, name in enumerate(labels)},
        **sizes,
        **({} if family == "GPT2" else positions),
        **config,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = getattr(transformers, f"{family}For{task}")(getattr(transformers, f"{family}Config")(**settings))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
