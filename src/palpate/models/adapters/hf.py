"""`hf:DIR`: a sequence-classification checkpoint of the transformers library, in a folder on this machine.

Nothing is downloaded, and weights are read from safetensors only, unless the configuration says
`trust: true`, which also lets the checkpoint run code of its own.

Probabilities are what the checkpoint's `problem_type` says: a softmax over classes
(`single_label_classification`) or a sigmoid per label (`multi_label_classification`). Without one, several
outputs are classes and a single output is a label. A softmax over two classes has one label, its class 1.

    models:
      bert: hf:models/bert
      longer: {source: hf:models/bert, long: sliding, stride: 128, pooling: max}

Speed: the rows of a call are tokenised at once, sorted by their exact number of tokens and cut into batches
by a token budget, so there is little padding; equal windows of different rows are run once.

A checkpoint explains itself by gradients (`palpate.models.text.gradients`), token by token; text behind its window is
in no piece. A note of several windows has each window explained by itself: a token's score is the mean over the windows
that read it, or, where the note's answer is that of its strongest window (`pooling: max`), that window's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, MissingExtra
from palpate.models.digest import digest
from palpate.models.networks.logits import Activation, n_labels_of, probabilities_of
from palpate.models.options import Options, parse_options
from palpate.models.protocol import Model, Probabilities
from palpate.models.text.batches import attention_mask, batches_within, padded
from palpate.models.text.gradients import BATCH_TOKENS, N_STEPS, WAYS, attributions_of, log_odds, token_scores
from palpate.models.text.window_scores import MeanScores
from palpate.models.text.windows import Long, TextWindows, Windows, text_windows
from palpate.results import Asked, Attributions

VERSION = "hf-1"
_ROWS_PER_CALL = 128
_CHARACTERS_PER_CALL = 256_000
_FILES = (".json", ".txt", ".model", ".safetensors")
_FILES_IF_TRUSTED = (".bin", ".py")


class HfOptions(Options):
    """What can be said about a checkpoint."""

    long: Long = "truncate"
    """Notes longer than the window: read only the beginning, or all of it in overlapping windows."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens in a window, special ones included; default: as many as model and tokenizer allow."""
    stride: int | None = Field(default=None, ge=0)
    """Sliding: how many tokens two neighbouring windows share; default: a quarter of the window."""
    pooling: Literal["mean", "max"] = "mean"
    """Sliding: how the probabilities of a note's windows become one."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 is faster on processors that have it, and moves probabilities by about 0.01."""
    batch_tokens: int = Field(default=4096, ge=1)
    """Tokens in one forward pass, padding included."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch, for the whole process; default: torch's own choice."""
    steps: int = Field(default=N_STEPS, ge=2)
    """Steps of integrated gradients, each as dear as a prediction and its gradient."""
    trust: bool = False
    """Allow pickled weights and code that comes with the checkpoint."""


class HfModel(Model):
    """A transformers classifier."""

    def __init__(
        self,
        network: Any,
        windows: TextWindows,
        options: HfOptions,
        *,
        activation: Activation,
        labels: tuple[str, ...],
        fingerprint: str,
    ) -> None:
        self.labels, self.fingerprint = labels, fingerprint
        self.rows_per_call = options.batch_size or _ROWS_PER_CALL
        self.characters_per_call = None if options.batch_size else _CHARACTERS_PER_CALL
        self.window = windows.reads
        self._network, self._windows, self._options = network, windows, options
        self._activation = activation
        pad = windows.tokenizer.pad_token_id
        self._pad = int(pad) if pad is not None else None
        # Only fast tokenizers say where their tokens stand.
        self.explains = WAYS if getattr(windows.tokenizer, "is_fast", False) else ()

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the texts, in the order of the rows."""
        if len(inputs) == 0:
            return np.zeros((0, len(self.labels)))
        windows = self._windows.encode(inputs.texts)
        distinct, which = _distinct(windows.ids)
        p_window = probabilities_of(self._logits(distinct), self._activation)[which]
        return _pool(p_window, windows, self._options.pooling)

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The end of the word that holds the last token read, and the space after it."""
        return self._windows.visible_ends(texts)

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        """What speaks for the labels' logits, by gradients; in single precision, whatever `dtype` says."""
        rows, place = np.unique(asked.row, return_inverse=True)
        texts = inputs.texts
        placed = self._windows.place([texts[row] for row in rows.tolist()])
        chosen = self._explaining_windows(placed.windows, place, asked.label)
        pairs = {(tuple(placed.windows.ids[w]), int(asked.label[k])): 0 for k, w in chosen}
        pairs = {pair: number for number, pair in enumerate(pairs)}
        scores = token_scores(
            self._logit,
            self._network.get_input_embeddings(),
            [ids for ids, _ in pairs],
            [label for _, label in pairs],
            way=way,
            baseline=[self._without_text(len(ids)) for ids, _ in pairs],
            filler=self._pad or 0,
            n_steps=self._options.steps,
            batch_tokens=min(self._options.batch_tokens, BATCH_TOKENS),
            max_rows=None if self._pad is not None else 1,
        )
        found, frame = MeanScores(placed, place), self._windows.frame
        for k, w in chosen:
            number = pairs[tuple(placed.windows.ids[w]), int(asked.label[k])]
            found.add(k, w, scores[number][len(frame.before) : len(placed.windows.ids[w]) - len(frame.after)])
        return attributions_of(asked, *found.pieces())

    def words(self) -> Sequence[str]:
        """The tokenizer's entries, without the special ones."""
        tokenizer = self._windows.tokenizer
        special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
        return [entry for entry in tokenizer.get_vocab() if entry not in special]

    def _explaining_windows(
        self, windows: Windows, place: NDArray[np.int64], label: NDArray[np.int64]
    ) -> list[tuple[int, int]]:
        """Asked pairs, each with the windows that make its answer: all of the text's, or the strongest of them."""
        several = [(k, range(windows.first[row], windows.first[row + 1])) for k, row in enumerate(place.tolist())]
        if self._options.pooling == "mean" or all(len(each) == 1 for _, each in several):
            return [(k, w) for k, each in several for w in each]
        distinct, which = _distinct(windows.ids)
        p_window = probabilities_of(self._logits(distinct), self._activation)[which]
        return [(k, each[int(p_window[each, label[k]].argmax())]) for k, each in several]

    def _without_text(self, n_tokens: int) -> list[int]:
        """A window of this length whose text is padding; the special tokens stay."""
        frame = self._windows.frame
        filler = self._windows.filler if self._pad is None else self._pad
        inside = n_tokens - len(frame.before) - len(frame.after)
        return [*frame.before, *([filler] * inside), *frame.after]

    def _logit(self, tokens: Any, mask: Any, label: Any) -> Any:
        import torch

        batch = {"input_ids": tokens, "attention_mask": mask}
        if self._windows.frame.has_types:
            types = [self._windows.frame.types(int(n)) for n in mask.sum(1)]
            batch["token_type_ids"] = torch.from_numpy(padded(types, 0))
        return log_odds(self._network(**batch).logits, label, self._activation)

    def _logits(self, ids: list[list[int]]) -> NDArray[np.float64]:
        import torch

        lengths = np.fromiter((len(window) for window in ids), dtype=np.int64, count=len(ids))
        # Without a padding token, models of the GPT family refuse more than one row.
        max_rows = None if self._pad is not None else 1
        logits = np.empty((len(ids), int(self._network.config.num_labels)))
        low = self._options.dtype == "bfloat16"
        # Autocast and not a cast of the weights: as fast here, and less than half the error.
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16) if low else nullcontext():
            for rows in batches_within(self._options.batch_tokens, lengths, max_rows=max_rows):
                batch = self._batch([ids[row] for row in rows], lengths[rows])
                tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
                logits[rows] = self._network(**tensors).logits.float().numpy()
        return logits

    def _batch(self, ids: list[list[int]], lengths: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        batch = {"input_ids": padded(ids, self._pad or 0), "attention_mask": attention_mask(lengths)}
        frame = self._windows.frame
        if frame.has_types:
            batch["token_type_ids"] = padded([frame.types(int(n)) for n in lengths], 0)
        return batch


def _distinct(ids: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """The different windows, in order of appearance, and which of them each window is."""
    places: dict[tuple[int, ...], int] = {}
    which = [places.setdefault(tuple(window), len(places)) for window in ids]
    return [list(window) for window in places], which


def _pool(p_window: Probabilities, windows: Windows, pooling: str) -> Probabilities:
    """One row per text from the rows of its windows."""
    n_windows = np.diff(windows.first)
    if np.all(n_windows == 1):
        return p_window
    if pooling == "max":
        return np.asarray(np.maximum.reduceat(p_window, windows.first[:-1], axis=0))
    return np.asarray(np.add.reduceat(p_window, windows.first[:-1], axis=0)) / n_windows[:, None]


def load(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """The checkpoint in a folder, checked: its files, its task, its weights, its labels."""
    source = f"hf:{target}"
    own = parse_options(HfOptions, source, options)
    path = _checkpoint_folder(target, folder)
    _check_weights(path, trust=own.trust)
    try:
        import torch
        import transformers
    except ImportError:
        raise MissingExtra("torch", needed_for=f"the model {source}") from None
    if own.threads is not None:
        torch.set_num_threads(own.threads)
    with quiet(transformers):
        config = _load_part(transformers.AutoConfig, "config.json", path, trust=own.trust)
        activation = _activation(config, path)
        tokenizer = load_tokenizer(transformers, path, trust=own.trust)
        network = _network(transformers, config, path, own)
    windows = text_windows(
        tokenizer,
        long=own.long,
        max_tokens=own.max_tokens,
        limit=positions_of(network),
        stride=own.stride,
        source=source,
    )
    return HfModel(
        network,
        windows,
        own,
        activation=activation,
        labels=_labels(config, activation, own.labels, path),
        fingerprint=_fingerprint(path, own, windows),
    )


def _checkpoint_folder(target: str, folder: Path) -> Path:
    path = folder / Path(target).expanduser()
    if not path.is_dir():
        raise ConfigError(
            "there is no such folder",
            file=path,
            hint="nothing is downloaded: hf: takes the folder of a checkpoint on this machine",
        )
    if not (path / "config.json").is_file():
        raise ConfigError("this folder has no config.json, so it is no transformers checkpoint", file=path)
    return path


def _check_weights(path: Path, *, trust: bool) -> None:
    if trust or any(path.glob("*.safetensors")):
        return
    pickled = next(path.glob("*.bin"), None)
    if pickled is None:
        raise ConfigError("this checkpoint has no weights (*.safetensors)", file=path)
    raise ConfigError(
        "these weights are a pickle, which can run code when it is loaded",
        file=pickled,
        hint="save the checkpoint as safetensors, or say trust: true",
    )


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """No progress bars and warnings of the library: what matters is checked here and raised."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def load_tokenizer(transformers: Any, path: Path, *, trust: bool) -> Any:
    """The tokenizer in a folder; without its vocabulary the library would make up an empty one."""
    tokenizer = _load_part(transformers.AutoTokenizer, "the tokenizer", path, trust=trust)
    names = set(getattr(tokenizer, "vocab_files_names", {}).values())
    if names and not any((path / name).is_file() for name in names):
        raise ConfigError(f"the tokenizer can't be loaded: there is no {' or '.join(sorted(names))}", file=path)
    return tokenizer


def _load_part(kind: Any, what: str, path: Path, *, trust: bool) -> Any:
    try:
        return kind.from_pretrained(path, local_files_only=True, trust_remote_code=trust)
    except Exception as error:
        raise ConfigError(f"{what} can't be loaded: {_first_line(error)}", file=path) from error


def _network(transformers: Any, config: Any, path: Path, own: HfOptions) -> Any:
    """The classifier with all its weights; a head that the file does not hold is never made up."""
    architectures = config.architectures or []
    if architectures and not any("SequenceClassification" in name for name in architectures):
        raise ConfigError(
            f"this is a checkpoint of {', '.join(architectures)}, not of a sequence classifier", file=path
        )
    try:
        network, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            path,
            config=config,
            local_files_only=True,
            trust_remote_code=own.trust,
            use_safetensors=None if own.trust else True,
            output_loading_info=True,
        )
    except Exception as error:
        raise ConfigError(f"the weights can't be loaded: {_first_line(error)}", file=path) from error
    missing = sorted(str(key) for key in (*report["missing_keys"], *report["mismatched_keys"]))
    if missing:
        raise ConfigError(
            f"the checkpoint lacks {len(missing)} weights of a sequence classifier, among them {missing[0]}",
            file=path,
            hint="it would answer at random; give the fine-tuned checkpoint",
        )
    return network.float().eval()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _activation(config: Any, path: Path) -> Activation:
    n_outputs, task = int(config.num_labels), config.problem_type
    if task == "regression":
        raise ConfigError("problem_type is regression: the outputs are no probabilities", file=path)
    if task == "multi_label_classification" or (task is None and n_outputs == 1):
        return "sigmoid"
    if n_outputs == 1:
        raise ConfigError("problem_type is single_label_classification, with only one class", file=path)
    return "softmax"


def _labels(config: Any, activation: Activation, asked: tuple[str, ...] | None, path: Path) -> tuple[str, ...]:
    n_outputs = int(config.num_labels)
    own = tuple(str(config.id2label[i]) for i in range(n_outputs))
    own = own[-n_labels_of(n_outputs, activation) :]
    if asked is not None and len(asked) != len(own):
        raise ConfigError(f"the option labels names {len(asked)}, the model has {len(own)}", file=path)
    return asked or own


def positions_of(network: Any) -> int | None:
    """How many tokens have a position; RoBERTa and its kin start to count behind the padding token."""
    positions = getattr(network.config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return None
    for name, module in network.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.num_embeddings - module.padding_idx - 1)
    return positions


def _fingerprint(path: Path, own: HfOptions, windows: TextWindows) -> str:
    suffixes = _FILES + (_FILES_IF_TRUSTED if own.trust else ())
    answer_options = {
        "long": own.long,
        "max_tokens": windows.max_tokens,
        "dtype": own.dtype,
        "fingerprint": own.fingerprint,
        "sliding": [windows.overlap, own.pooling] if own.long == "sliding" else None,
    }
    return digest(
        VERSION,
        answer_options,
        [file for file in path.iterdir() if file.is_file() and file.suffix in suffixes],
    )
