"""The parts of a transformer training: tokenizer, network, notes as token batches.

The library's WordPiece trainer breaks ties in an order that changes from run to run, because it visits the letters
inside words in the order of a randomly seeded table. When it is given all letters beforehand, in order, its result
depends only on the notes.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.files import replacing
from palpate.models.text import lengths_of
from palpate.models.text.checkpoints import lacks_weights, load_network, load_tokenizer, positions_of, quiet
from palpate.models.text.windows import Frame, TextWindows, clean, text_windows
from palpate.train.notes import Floats, Notes, class_weights, example_weights
from palpate.train.options import EncoderOptions
from palpate.train.transformer.options import TransformerOptions

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SCRATCH_TOKENS = 512
_REPEATS = 10_000
_LETTERS = sorted(set(string.ascii_lowercase + string.digits + string.punctuation))


# --- tokenizer ----------------------------------------------------------------------------------------------


def make_tokenizer(notes: Notes, options: EncoderOptions, scratch: Path, *, max_tokens: int) -> Any:
    """The checkpoint's tokenizer, or a newly trained one, which is kept for a resumed training."""
    kept = scratch / "tokenizer"
    if options.checkpoint is None and not kept.is_dir():
        with quiet(), replacing(kept, folder=True) as draft:
            train_tokenizer(notes, options, max_tokens).save_pretrained(draft)
    # A new one is read back too: the library records that it was loaded, and a resumed training must write the same.
    tokenizer = load_tokenizer(options.checkpoint or kept, trust=options.trust)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer


def train_tokenizer(notes: Notes, options: EncoderOptions, max_tokens: int) -> Any:
    """An uncased WordPiece tokenizer, without words that only a few patients' notes have."""
    from tokenizers import decoders, models, processors, trainers
    from transformers import PreTrainedTokenizerFast

    learner = _backend(models.WordPiece(unk_token="[UNK]"))
    splitter = _backend(models.WordPiece())  # a tokenizer is locked while it learns
    words = _WordCounter(splitter, notes)
    found = {letter for word, n in words.n_patients.items() if n >= options.min_patients for letter in word}
    letters = sorted(found | set(_LETTERS))
    trainer = trainers.WordPieceTrainer(
        vocab_size=options.vocab_size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[*SPECIAL, *letters, *(f"##{letter}" for letter in letters)],
    )
    learner.train_from_iterator(words.repeated(options.min_patients), trainer)
    backend = _backend(models.WordPiece(learner.get_vocab(with_added_tokens=True), unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    ids = {name: int(backend.token_to_id(name)) for name in SPECIAL}
    backend.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_tokens,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name.strip('[]').lower()}_token": name for name in SPECIAL},
    )


def _backend(model: Any) -> Any:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers

    backend = Tokenizer(model)
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


class _WordCounter:
    """How often each word occurs, and in the notes of how many patients."""

    def __init__(self, backend: Any, notes: Notes) -> None:
        self._backend = backend
        self._pieces: dict[str, list[str]] = {}
        self.used: Counter[str] = Counter()
        self.n_patients: Counter[str] = Counter()
        order = np.argsort(notes.patients, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(notes.patients[order])) + 1):
            pieces = Counter(piece for row in rows for piece in notes.texts[row].split())
            words: Counter[str] = Counter()
            for piece, n in pieces.items():
                for word in self._split(piece):
                    words[word] += n
            self.used.update(words)
            self.n_patients.update(words.keys())

    def _split(self, piece: str) -> list[str]:
        """The words between two blanks, cached because notes repeat themselves."""
        if piece not in self._pieces:
            normal = self._backend.normalizer.normalize_str(clean(piece))
            self._pieces[piece] = [word for word, _ in self._backend.pre_tokenizer.pre_tokenize_str(normal)]
        return self._pieces[piece]

    def repeated(self, min_patients: int) -> Iterator[str]:
        """The words of enough patients, in alphabetical order, as often as they occur."""
        for word in sorted(word for word, n in self.n_patients.items() if n >= min_patients):
            for first in range(0, self.used[word], _REPEATS):
                yield f"{word} " * min(_REPEATS, self.used[word] - first)


# --- network ------------------------------------------------------------------------------------------------


class TransformerClassifier(NamedTuple):
    """A network, and how it reads texts."""

    network: Any
    windows: TextWindows


def make_network(
    tokenizer: Any, labels: Sequence[str], options: TransformerOptions, seed: int
) -> TransformerClassifier:
    """The classifier with initial weights, which depend on the seed; one label is two classes, as in the paper."""
    import torch

    names = [f"not {labels[0]}", labels[0]] if len(labels) == 1 else list(labels)
    task = {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: k for k, name in enumerate(names)},
        "problem_type": f"{'single' if len(labels) == 1 else 'multi'}_label_classification",
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        network = _small(tokenizer, options, task) if options.checkpoint is None else _loaded(options, task)
    windows = text_windows(
        tokenizer,
        long="truncate",
        max_tokens=options.max_tokens,
        limit=positions_of(network),
        stride=None,
        source="the transformer",
    )
    if windows.max_tokens is not None:
        tokenizer.model_max_length = windows.max_tokens  # so that readers of the checkpoint read as much
    return TransformerClassifier(network.float(), windows)


def small_config(tokenizer: Any, options: EncoderOptions, positions: int, **task: Any) -> Any:
    """The sizes of a small encoder from scratch."""
    import transformers

    return transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=4 * options.hidden,
        hidden_dropout_prob=options.dropout,
        attention_probs_dropout_prob=options.dropout,
        max_position_embeddings=positions,
        **task,
    )


def _small(tokenizer: Any, options: TransformerOptions, task: dict[str, Any]) -> Any:
    import transformers

    config = small_config(tokenizer, options, options.max_tokens or SCRATCH_TOKENS, **task)
    return transformers.BertForSequenceClassification(config)


def _loaded(options: TransformerOptions, task: dict[str, Any]) -> Any:
    """The checkpoint with a head for the labels; its own head is kept if it fits."""
    import transformers

    path = options.checkpoint or Path()
    kind = transformers.AutoModelForSequenceClassification
    network, missing = load_network(kind, path, trust=options.trust, ignore_mismatched_sizes=True, **task)
    body = f"{network.base_model_prefix}."
    lost = [key for key in missing if key.startswith(body) and ".pooler." not in key]
    if lost:
        hint = "give a complete checkpoint of the architecture that config.json names"
        raise lacks_weights(lost, "its encoder", path, hint=hint)
    return network


# --- notes as tokens ----------------------------------------------------------------------------------------


class TokenisedNotes(NamedTuple):
    """Notes as token ids, with labels and the weight of each example."""

    ids: list[list[int]]
    lengths: NDArray[np.int64]
    y: NDArray[np.uint8]
    weight: Floats
    frame: Frame
    pad: int

    def batch(self, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """The network's inputs for some notes."""
        return self.frame.batch([self.ids[row] for row in rows], self.pad)


def tokenise_notes(
    windows: TextWindows, notes: Notes, y_train: NDArray[np.uint8], options: TransformerOptions
) -> TokenisedNotes:
    """Tokenise notes as an audit will; class weights come from the training split."""
    ids = windows.encode(notes.texts).ids
    weight = example_weights(notes.y, class_weights(y_train, options.class_weight))
    pad = int(windows.tokenizer.pad_token_id or 0)
    return TokenisedNotes(ids, lengths_of(ids), notes.y, weight, windows.frame, pad)
