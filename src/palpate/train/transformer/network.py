"""The parts of a transformer training: tokenizer, network, notes as token batches.

The library's own WordPiece trainer breaks ties by an order that changes from run to run, because it meets the
letters inside words in the order of a randomly seeded table. With all letters given to it beforehand, in order, its
result depends on the notes only.
"""

from __future__ import annotations

import shutil
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.errors import ConfigError
from palpate.models.adapters.hf import load_tokenizer, positions_of, quiet
from palpate.models.text.batches import attention_mask, padded
from palpate.models.text.windows import Frame, TextWindows, clean, text_windows
from palpate.train.notes import Floats, Notes, class_weights, example_weights
from palpate.train.transformer import TransformerOptions

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SCRATCH_TOKENS = 512
_REPEATS = 10_000
_LETTERS = sorted(set(string.ascii_lowercase + string.digits + string.punctuation))


# --- tokenizer ----------------------------------------------------------------------------------------------


def make_tokenizer(notes: Notes, options: TransformerOptions, scratch: Path) -> Any:
    """The checkpoint's tokenizer, or one that is trained; a trained one is kept for a resumed training."""
    import transformers

    kept = scratch / "tokenizer"
    with quiet(transformers):
        if options.checkpoint is None and not kept.is_dir():
            draft = scratch / "tokenizer.tmp"
            shutil.rmtree(draft, ignore_errors=True)
            train_tokenizer(notes, options).save_pretrained(draft)
            draft.rename(kept)
        # A new one is read back too: the library notes that it was, and a resumed training must write the same.
        tokenizer = load_tokenizer(transformers, options.checkpoint or kept, trust=options.trust)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer


def train_tokenizer(notes: Notes, options: TransformerOptions) -> Any:
    """An uncased WordPiece tokenizer; words of too few patients have no part in it."""
    from tokenizers import decoders, models, processors, trainers
    from transformers import PreTrainedTokenizerFast

    learner = _backend(models.WordPiece(unk_token="[UNK]"))
    splitter = _backend(models.WordPiece())  # a tokenizer is locked while it learns
    words = _Words(splitter, notes)
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
        model_max_length=options.max_tokens or SCRATCH_TOKENS,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name.strip('[]').lower()}_token": name for name in SPECIAL},
    )


def _backend(model: Any) -> Any:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers

    backend = Tokenizer(model)
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


class _Words:
    """How often each word is used, and by the notes of how many patients."""

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
        """The words between two blanks; notes repeat themselves, so they are remembered."""
        if piece not in self._pieces:
            normal = self._backend.normalizer.normalize_str(clean(piece))
            self._pieces[piece] = [word for word, _ in self._backend.pre_tokenizer.pre_tokenize_str(normal)]
        return self._pieces[piece]

    def repeated(self, min_patients: int) -> Iterator[str]:
        """The words of enough patients, in alphabetical order, as often as they are used."""
        for word in sorted(word for word, n in self.n_patients.items() if n >= min_patients):
            for first in range(0, self.used[word], _REPEATS):
                yield f"{word} " * min(_REPEATS, self.used[word] - first)


# --- network ------------------------------------------------------------------------------------------------


class Built(NamedTuple):
    """A classifier, and how it reads texts."""

    network: Any
    windows: TextWindows


def make_network(tokenizer: Any, labels: Sequence[str], options: TransformerOptions, seed: int) -> Built:
    """The classifier with its first weights, which depend on the seed; one label is two classes, as in the paper."""
    import torch
    import transformers

    names = [f"not {labels[0]}", labels[0]] if len(labels) == 1 else list(labels)
    task = {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: k for k, name in enumerate(names)},
        "problem_type": f"{'single' if len(labels) == 1 else 'multi'}_label_classification",
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng(devices=[]), quiet(transformers):
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
        tokenizer.model_max_length = windows.max_tokens  # whoever reads the checkpoint reads as much
    return Built(network.float(), windows)


def _small(tokenizer: Any, options: TransformerOptions, task: dict[str, Any]) -> Any:
    import transformers

    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=4 * options.hidden,
        hidden_dropout_prob=options.dropout,
        attention_probs_dropout_prob=options.dropout,
        max_position_embeddings=options.max_tokens or SCRATCH_TOKENS,
        **task,
    )
    return transformers.BertForSequenceClassification(config)


def _loaded(options: TransformerOptions, task: dict[str, Any]) -> Any:
    """The checkpoint with a head for the labels; its own head is used if it fits."""
    import transformers

    path = options.checkpoint
    try:
        network, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            path,
            local_files_only=True,
            trust_remote_code=options.trust,
            use_safetensors=None if options.trust else True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **task,
        )
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"the checkpoint can't be loaded: {first}", file=path) from error
    body = f"{network.base_model_prefix}."
    lost = [str(key) for key in report["missing_keys"] if str(key).startswith(body) and ".pooler." not in str(key)]
    if lost:
        raise ConfigError(
            f"the checkpoint lacks {len(lost)} weights of its encoder, among them {sorted(lost)[0]}",
            file=path,
            hint="give a whole checkpoint of the architecture that config.json names",
        )
    return network


# --- notes as tokens ----------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """Notes as token ids, with labels and the weight of each example."""

    ids: list[list[int]]
    lengths: NDArray[np.int64]
    y: NDArray[np.uint8]
    weight: Floats
    frame: Frame
    pad: int

    def batch(self, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """What the network is given for some notes."""
        ids = [self.ids[row] for row in rows]
        lengths = self.lengths[rows]
        out = {"input_ids": padded(ids, self.pad), "attention_mask": attention_mask(lengths)}
        if self.frame.has_types:
            out["token_type_ids"] = padded([self.frame.types(int(n)) for n in lengths], 0)
        return out


def read_notes(windows: TextWindows, notes: Notes, y_train: NDArray[np.uint8], options: TransformerOptions) -> Encoded:
    """Tokenise notes as an audit will; the classes weigh as the training split says."""
    ids = windows.encode(notes.texts).ids
    lengths = np.fromiter((len(window) for window in ids), dtype=np.int64, count=len(ids))
    weight = example_weights(notes.y, class_weights(y_train, options.class_weight))
    return Encoded(ids, lengths, notes.y, weight, windows.frame, int(windows.tokenizer.pad_token_id or 0))


def shuffled_batches(lengths: NDArray[np.int64], size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Batches of `size` notes of like length, in random order: sorted within random pools of 32 batches."""
    order = rng.permutation(len(lengths))
    batches = []
    for first in range(0, len(order), 32 * size):
        pool = order[first : first + 32 * size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[k : k + size] for k in range(0, len(pool), size)]
    return [batches[k] for k in rng.permutation(len(batches))]
