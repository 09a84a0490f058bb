"""`hf:DIR`: a sequence-classification checkpoint of the transformers library, in a folder on this machine.

Nothing is downloaded, and weights are read from safetensors only, unless the configuration sets
`trust: true`, which also lets the checkpoint run code of its own.

The checkpoint's `problem_type` decides what the probabilities are: a softmax over classes
(`single_label_classification`) or a sigmoid per label (`multi_label_classification`). Without it, several
outputs are classes and a single output is a label. A softmax over two classes has one label, the positive class: by the
names of the classes (`id2label`), or by the option `positive`.

    models:
      bert: hf:models/bert
      longer: {source: hf:models/bert, long: sliding, stride: 128, pooling: max}

Speed: the rows of a call are tokenised together, sorted by their exact number of tokens and cut into batches
by a token budget, so there is little padding; equal windows of different rows are run once.

A checkpoint explains itself by gradients (`palpate.models.text.gradients`), token by token; text beyond its window is
in no piece. Each window of a longer note is explained by itself: a token's score is the mean over the windows that
read it or, where the note's prediction is that of its strongest window (`pooling: max`), that window's score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.models.classes import ClassOptions, positive_of, unclear
from palpate.models.devices import Device, DeviceOptions, check_device, choose, compiled
from palpate.models.networks import Activation, n_labels_of, probabilities_of, require_torch
from palpate.models.options import checked_by, digest, parse_options
from palpate.models.text import lengths_of, padded
from palpate.models.text.checkpoints import (
    check_checkpoint,
    lacks_weights,
    load_config,
    load_network,
    load_tokenizer,
    positions_of,
)
from palpate.models.text.gradients import (
    ATTINGRAD,
    BATCH_TOKENS,
    N_STEPS,
    ROLLOUT,
    WAYS,
    attributions_of,
    gradient_sizes,
    log_odds,
    token_scores,
)
from palpate.models.text.rollout import attention_rollout
from palpate.models.text.sizes import tokens_fitting
from palpate.models.text.windows import Long, MeanScores, TextWindows, Windows, text_windows
from palpate.results import Asked, Attributions

VERSION = "hf-2"
_ROWS_PER_CALL = 128
_CHARACTERS_PER_CALL = 256_000
_FILES = (".json", ".txt", ".model", ".safetensors")
_FILES_IF_TRUSTED = (".bin", ".py")


class HfOptions(ClassOptions, DeviceOptions):
    """Options of a checkpoint."""

    long: Long = "truncate"
    """What to do with notes longer than the window: read the beginning only, or all of it in overlapping windows."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens in a window, special ones included; default: as many as model and tokenizer allow."""
    stride: int | None = Field(default=None, ge=0)
    """Sliding: how many tokens two adjacent windows share; default: a quarter of the window."""
    pooling: Literal["mean", "max"] = "mean"
    """Sliding: how the probabilities of a note's windows are combined."""
    batch_tokens: int | None = Field(default=None, ge=1)
    """Tokens in one forward pass, padding included; default: 4,096 on a CPU, what fits into memory on a GPU."""
    compile: bool = False
    """Compile the network for its device before the first prediction (`torch.compile`), which takes a minute or two."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch, for the whole process; default: torch's own choice."""
    steps: int = Field(default=N_STEPS, ge=2)
    """Steps of integrated gradients; each costs one prediction and its gradient."""
    trust: bool = False
    """Allow pickled weights, and code that comes with the checkpoint."""


class _Labels(NamedTuple):
    """The labels; of two classes also which one they are: the first, the second, or both where that is not known."""

    names: tuple[str, ...]
    kept: Literal[0, 1, "both"] = 1


class HfModel(Model):
    """A transformers classifier."""

    def __init__(
        self,
        network: Any,
        windows: TextWindows,
        options: HfOptions,
        *,
        activation: Activation,
        labels: _Labels,
        fingerprint: str,
        device: Device | None = None,
    ) -> None:
        device = device or Device.of(network)
        self.labels, self.fingerprint, self._kept = labels.names, fingerprint, labels.kept
        self.classes = labels.names if labels.kept == "both" else ()
        self.rows_per_call = options.batch_size or _ROWS_PER_CALL
        self.characters_per_call = None if options.batch_size else _CHARACTERS_PER_CALL
        self.window = windows.reads
        self._network, self._windows, self._options = network, windows, options
        self._activation, self._device, self._forward = activation, device, compiled(network, wanted=options.compile)
        self._budget = options.batch_tokens or tokens_fitting(network, windows.max_tokens, device)
        self.runs_on, self.rounding = str(device), device.rounding
        pad = windows.tokenizer.pad_token_id
        self._pad = int(pad) if pad is not None else None
        # Only fast tokenizers report the offsets of their tokens.
        explains = (*WAYS, ROLLOUT, ATTINGRAD) if hasattr(network, "set_attn_implementation") else WAYS
        self.explains = explains if getattr(windows.tokenizer, "is_fast", False) else ()

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the texts, in the order of the rows."""
        if len(inputs) == 0:
            return np.zeros((0, len(self.labels)))
        windows = self._windows.encode(inputs.texts)
        distinct, which = _distinct(windows.ids)
        p_window = self._probabilities(distinct)[which]
        self.notices = self._device.notices
        return _pool(p_window, windows, self._options.pooling)

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The end of the word that contains the last token read, and the space after it."""
        return self._windows.visible_ends(texts)

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        """What speaks for the labels' logits, by gradients or attention."""
        rows, place = np.unique(asked.row, return_inverse=True)
        texts = inputs.texts
        placed = self._windows.place([texts[row] for row in rows.tolist()])
        chosen = self._explaining_windows(placed.windows, place, asked.label)
        pairs = {(tuple(placed.windows.ids[w]), int(asked.label[k])): 0 for k, w in chosen}
        pairs = {pair: number for number, pair in enumerate(pairs)}
        scores = self._scores([ids for ids, _ in pairs], [label for _, label in pairs], way)
        found, frame = MeanScores(placed, place), self._windows.frame
        for k, w in chosen:
            number = pairs[tuple(placed.windows.ids[w]), int(asked.label[k])]
            found.add(k, w, scores[number][len(frame.before) : len(placed.windows.ids[w]) - len(frame.after)])
        return attributions_of(asked, *found.pieces())

    def _scores(self, ids: Sequence[Sequence[int]], labels: Sequence[int], way: str) -> list[NDArray[np.float64]]:
        """A score for each token of each window."""
        limits: dict[str, Any] = {
            "filler": self._pad or 0,
            "batch_tokens": min(self._budget, BATCH_TOKENS),
            "max_rows": None if self._pad is not None else 1,
            "device": self._device,
        }
        embedding = self._network.get_input_embeddings()
        if way in WAYS:
            empty = [self._without_text(len(row)) for row in ids]
            how: dict[str, Any] = {
                "way": way,
                "network": self._network,
                "baseline": empty,
                "n_steps": self._options.steps,
            }
            return token_scores(self._logit, embedding, ids, labels, **how, **limits)
        first = self._windows.tokenizer.cls_token_id is not None
        rolled = attention_rollout(self._network, ids, reads_first=first, **limits)
        if way == ROLLOUT:
            return rolled
        sizes = gradient_sizes(self._logit, embedding, ids, labels, **limits)
        return [attention * size for attention, size in zip(rolled, sizes, strict=True)]

    def words(self) -> Sequence[str]:
        """The tokenizer's entries, without the special ones."""
        tokenizer = self._windows.tokenizer
        special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
        return [entry for entry in tokenizer.get_vocab() if entry not in special]

    def _explaining_windows(
        self, windows: Windows, place: NDArray[np.int64], label: NDArray[np.int64]
    ) -> list[tuple[int, int]]:
        """Each asked pair with the windows behind its prediction: all windows of the text, or the strongest one."""
        several = [(k, range(windows.first[row], windows.first[row + 1])) for k, row in enumerate(place.tolist())]
        if self._options.pooling == "mean" or all(len(each) == 1 for _, each in several):
            return [(k, w) for k, each in several for w in each]
        distinct, which = _distinct(windows.ids)
        p_window = self._probabilities(distinct)[which]
        return [(k, each[int(p_window[each, label[k]].argmax())]) for k, each in several]

    def _without_text(self, n_tokens: int) -> list[int]:
        """A window of this length whose text is padding; the special tokens stay."""
        frame = self._windows.frame
        filler = self._windows.filler if self._pad is None else self._pad
        inside = n_tokens - len(frame.before) - len(frame.after)
        return [*frame.before, *([filler] * inside), *frame.after]

    def _logit(self, tokens: Any, mask: Any, label: Any) -> Any:
        batch = {"input_ids": tokens, "attention_mask": mask}
        if self._windows.frame.has_types:
            types = [self._windows.frame.types(int(n)) for n in mask.sum(1)]
            batch["token_type_ids"] = self._device.tensor(padded(types, 0))
        logits = self._network(**batch).logits.float()
        if self._kept == 0:
            logits = logits.flip(1)
        # `log_odds` counts the labels of two classes from the second.
        return log_odds(logits, label - 1 if self._kept == "both" else label, self._activation)

    def _probabilities(self, ids: list[list[int]]) -> Probabilities:
        """One column per label."""
        logits = self._logits(ids)
        second = probabilities_of(logits, self._activation)
        if self._kept == 1:
            return second
        first = probabilities_of(logits[:, ::-1], self._activation)
        return first if self._kept == 0 else np.column_stack([first, second])

    def _logits(self, ids: list[list[int]]) -> NDArray[np.float64]:
        import torch

        def forward(rows: NDArray[np.int64]) -> Any:
            batch = self._windows.frame.batch([ids[row] for row in rows], self._pad or 0)
            return self._forward(**{name: self._device.tensor(array) for name, array in batch.items()}).logits

        # Without a padding token, models of the GPT family refuse more than one row.
        max_rows = None if self._pad is not None else 1
        logits = np.empty((len(ids), int(self._network.config.num_labels)))
        with torch.inference_mode():
            for rows, found in self._device.passes(lengths_of(ids), forward, budget=self._budget, max_rows=max_rows):
                logits[rows] = found
        return logits


def _distinct(ids: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """The distinct windows, in order of appearance, and which of them each window is."""
    places: dict[tuple[int, ...], int] = {}
    which = [places.setdefault(tuple(window), len(places)) for window in ids]
    return [list(window) for window in places], which


def _pool(p_window: Probabilities, windows: Windows, pooling: str) -> Probabilities:
    """One row per text, from the rows of its windows."""
    n_windows = np.diff(windows.first)
    if np.all(n_windows == 1):
        return p_window
    if pooling == "max":
        return np.asarray(np.maximum.reduceat(p_window, windows.first[:-1], axis=0))
    return np.asarray(np.add.reduceat(p_window, windows.first[:-1], axis=0)) / n_windows[:, None]


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> HfOptions:
    """The options, if they are right and the folder holds a checkpoint."""
    own = parse_options(HfOptions, f"hf:{target}", options)
    check_checkpoint(folder / Path(target).expanduser(), trust=own.trust)
    check_device(own)
    return own


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """The checkpoint in a folder, with its files, task, weights and labels checked."""
    source = f"hf:{target}"
    own = check(target, options, folder=folder)
    path = folder / Path(target).expanduser()
    require_torch(f"the model {source}", "transformers")
    import torch

    if own.threads is not None:
        torch.set_num_threads(own.threads)
    config = load_config(path, trust=own.trust)
    _activation(config, path)
    tokenizer = load_tokenizer(path, trust=own.trust)
    device = choose(own)
    network = _classifier(config, path, trust=own.trust, device=device)

    def fingerprint(windows: TextWindows) -> str:
        return _fingerprint(path, own, windows)

    return of_network(network, tokenizer, own, source=source, fingerprint=fingerprint, path=path, device=device)


def of_network(
    network: Any,
    tokenizer: Any,
    own: HfOptions,
    *,
    source: str,
    fingerprint: Callable[[TextWindows], str],
    path: Path | None = None,
    device: Device | None = None,
) -> HfModel:
    """A classifier and its tokenizer, which are in memory, as a model; `path` is where they came from, for messages.

    `device` is where the network was placed; default: where it is, in the precision that it has.
    """
    where = Path(source) if path is None else path
    activation = _activation(network.config, where)
    windows = text_windows(
        tokenizer,
        long=own.long,
        max_tokens=own.max_tokens,
        limit=positions_of(network),
        stride=own.stride,
        source=source,
    )
    labels, version = _labels(network.config, activation, own, where), fingerprint(windows)
    how: dict[str, Any] = {"activation": activation, "labels": labels, "fingerprint": version}
    return HfModel(network.eval(), windows, own, device=device, **how)


def _classifier(config: Any, path: Path, *, trust: bool, device: Device) -> Any:
    """The classifier with all its weights; a head that the file does not contain is never made up."""
    import transformers

    architectures = config.architectures or []
    if architectures and not any("SequenceClassification" in name for name in architectures):
        raise ConfigError(
            f"this is a checkpoint of {', '.join(architectures)}, not of a sequence classifier", file=path
        )
    kind = transformers.AutoModelForSequenceClassification
    network, missing = load_network(kind, path, trust=trust, device=device, config=config)
    if missing:
        hint = "it would predict at random; give the fine-tuned checkpoint"
        raise lacks_weights(missing, "a sequence classifier", path, hint=hint)
    return network


def _activation(config: Any, path: Path) -> Activation:
    n_outputs, task = int(config.num_labels), config.problem_type
    if task == "regression":
        raise ConfigError("problem_type is regression: the outputs are not probabilities", file=path)
    if task == "multi_label_classification" or (task is None and n_outputs == 1):
        return "sigmoid"
    if n_outputs == 1:
        raise ConfigError("problem_type is single_label_classification, but there is only one class", file=path)
    return "softmax"


def _labels(config: Any, activation: Activation, own: HfOptions, path: Path) -> _Labels:
    n_outputs = int(config.num_labels)
    names = tuple(str(config.id2label[i]) for i in range(n_outputs))
    n_labels = n_labels_of(n_outputs, activation)
    if own.labels is not None and len(own.labels) != n_labels:
        raise ConfigError(f"`labels` names {len(own.labels)} labels, but the model gives {n_labels}", file=path)
    if n_labels == n_outputs:
        return _Labels(own.labels or names)
    kept = positive_of(names, own, file=path)
    if kept is None and own.labels is not None:
        raise unclear(names, file=path)
    if kept is None:
        return _Labels(names, "both")
    return _Labels(own.labels or (names[kept],), 0 if kept == 0 else 1)


def _fingerprint(path: Path, own: HfOptions, windows: TextWindows) -> str:
    suffixes = _FILES + (_FILES_IF_TRUSTED if own.trust else ())
    answer_options = {
        "long": own.long,
        "max_tokens": windows.max_tokens,
        "dtype": own.dtype,
        "positive": own.positive,
        "fingerprint": own.fingerprint,
        "sliding": [windows.overlap, own.pooling] if own.long == "sliding" else None,
    }
    return digest(
        VERSION,
        answer_options,
        [file for file in path.iterdir() if file.is_file() and file.suffix in suffixes],
    )
