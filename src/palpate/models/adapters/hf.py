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

A checkpoint that cuts notes into chunks by itself (PLM-ICD and its kin; `palpate.models.text.passes`) reads them whole:

      coder: {source: hf:models/plm-icd, trust: true, chunk: 128, max_tokens: 4000}

Speed: the rows of a call are tokenised together, sorted by their exact number of tokens and cut into batches
by a token budget, so there is little padding; equal windows of different rows are run once.

A checkpoint explains itself by gradients (`palpate.models.text.gradients`), token by token; text beyond its window is
in no piece. Each window of a longer note is explained by itself: a token's score is the mean over the windows that
read it or, where the note's prediction is that of its strongest window (`pooling: max`), that window's score. One that
returns the attention of each label over the tokens of a note also explains itself by that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from palpate.cases.edits import Inputs
from palpate.files import at_home
from palpate.models import Model, Probabilities
from palpate.models.classes import ClassOptions
from palpate.models.devices import Device, DeviceOptions, check_device, choose, compiled
from palpate.models.networks import Activation, probabilities_of, require_torch
from palpate.models.options import checked_by, digest, parse_options, sized_by
from palpate.models.text import padded
from palpate.models.text.checkpoints import (
    check_checkpoint,
    check_own_code,
    load_config,
    load_tokenizer,
    positions_of,
)
from palpate.models.text.classifiers import (
    OutputLabels,
    activation_of,
    classifier_without_weights,
    load_classifier,
    output_labels,
)
from palpate.models.text.gradients import (
    ATTENTION,
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
from palpate.models.text.passes import Passes, embedding_of, logits_of
from palpate.models.text.reading import Reading, Trial, chunk_passes, plain_passes, reading_of
from palpate.models.text.rollout import attention_rollout
from palpate.models.text.sizes import MemoryNeed, memory_need, tokens_fitting
from palpate.models.text.windows import Long, MeanScores, TextWindows, Windows, text_windows
from palpate.results import Asked, Attributions

VERSION = "hf-2"
_ROWS_PER_CALL = 128
_CHARACTERS_PER_CALL = 256_000
_FILES = (".json", ".txt", ".model", ".safetensors")
_FILES_IF_TRUSTED = (".bin", ".py")


class HfOptions(ClassOptions, DeviceOptions):
    """Options of a checkpoint."""

    long: Long | None = None
    """Notes longer than the window: read the beginning only (truncate), all in overlapping windows (sliding), or all at
    once (chunked), for checkpoints that cut notes by themselves; default: chunked if the checkpoint does, else
    truncate."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens in a window, special ones included; default: as many as model and tokenizer allow. Chunked: tokens of a
    note; default: as many as its configuration says, else all."""
    chunk: int | None = Field(default=None, ge=2)
    """Chunked: tokens in one of the checkpoint's own chunks; default: `chunk_size` in its configuration."""
    problem_type: Literal["single_label_classification", "multi_label_classification"] | None = None
    """Whether the outputs are classes or labels, for a checkpoint that does not say so."""
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

    @model_validator(mode="after")
    def _chunks_fit(self) -> HfOptions:
        if self.chunk is not None and self.long not in (None, "chunked"):
            raise ValueError(f"`chunk` is given, but `long` is {self.long}; chunks go with `long: chunked`")
        return self


class HfModel(Model):
    """A transformers classifier."""

    def __init__(
        self,
        network: Any,
        windows: TextWindows,
        passes: Passes,
        options: HfOptions,
        *,
        activation: Activation,
        labels: OutputLabels,
        fingerprint: str,
    ) -> None:
        self.labels, self.fingerprint, self._kept = labels.names, fingerprint, labels.kept
        self.classes = labels.names if labels.kept == "both" else ()
        self.rows_per_call = options.batch_size or _ROWS_PER_CALL
        self.characters_per_call = None if options.batch_size else _CHARACTERS_PER_CALL
        self.window = windows.reads
        self._network, self._windows, self._passes, self._options = network, windows, passes, options
        self._activation, self._pad, device = activation, passes.pad, passes.device
        self._device, self._forward = device, compiled(network, wanted=options.compile)
        self._budget = options.batch_tokens or tokens_fitting(network, windows.max_tokens, device)
        self.runs_on, self.rounding = str(device), device.rounding
        # Only fast tokenizers report the offsets of their tokens.
        self.explains = _explains(network, passes) if getattr(windows.tokenizer, "is_fast", False) else ()

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
            "max_rows": self._passes.max_rows,
            "device": self._device,
        }
        embedding, rows_embedded = embedding_of(self._network), self._passes.rows_embedded
        if way in WAYS:
            empty = [self._without_text(len(row)) for row in ids]
            how: dict[str, Any] = {
                "way": way,
                "network": self._network,
                "baseline": empty,
                "n_steps": self._options.steps,
                "rows_embedded": rows_embedded,
            }
            return token_scores(self._logit, embedding, ids, labels, **how, **limits)
        if self._passes.attention is not None:
            looked = self._label_attention(ids, labels)
        else:
            first = self._windows.tokenizer.cls_token_id is not None
            looked = attention_rollout(self._network, ids, reads_first=first, **limits)
        if way in (ATTENTION, ROLLOUT):
            return looked
        sizes = gradient_sizes(self._logit, embedding, ids, labels, rows_embedded=rows_embedded, **limits)
        return [attention * size for attention, size in zip(looked, sizes, strict=True)]

    def _label_attention(self, ids: Sequence[Sequence[int]], labels: Sequence[int]) -> list[NDArray[np.float64]]:
        """The weights with which the network itself says that each label gathers the tokens."""
        import torch

        field, out = self._passes.attention, [np.zeros(0)] * len(ids)
        if field is None:
            raise ValueError("this network does not return the attention of its labels")
        first = {"both": 0, 0: 0}.get(self._kept, int(self._network.config.num_labels) - len(self.labels))
        distinct, which = _distinct([list(row) for row in ids])
        asked_by = dict.fromkeys(field.asked_by, True)
        with torch.inference_mode():
            for rows, weights in self._passes.run(
                distinct, lambda batch: field.weights(self._network(**batch, **asked_by)), self._budget
            ):
                place = {row: k for k, row in enumerate(rows.tolist())}
                for pair in [pair for pair, row in enumerate(which) if row in place]:
                    own = weights[place[which[pair]], labels[pair] + first, : len(ids[pair])]
                    out[pair] = own.astype(np.float64)
        return out

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
        logits = logits_of(self._network(**self._passes.shaped(batch))).float()
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

        logits = np.empty((len(ids), int(self._network.config.num_labels)))
        forward = self._forward
        with torch.inference_mode():
            for rows, found in self._passes.run(ids, lambda batch: logits_of(forward(**batch)), self._budget):
                logits[rows] = found
        return logits


def _explains(network: Any, passes: Passes) -> tuple[str, ...]:
    """The ways in which a network can be explained."""
    ways: tuple[str, ...] = WAYS if passes.gradients else ()
    if passes.attention is not None:
        return (ATTENTION, *ways, *((ATTINGRAD,) if ways else ()))
    if passes.whole_notes or not hasattr(network, "set_attn_implementation"):
        return ways
    return (*ways, ROLLOUT, ATTINGRAD)


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
    check_checkpoint(folder / at_home(target), trust=own.trust)
    check_device(own)
    return own


def needs(target: str, options: Mapping[str, Any], *, folder: Path) -> MemoryNeed:
    """The memory that the checkpoint would take, from its configuration."""
    own, path = check(target, options, folder=folder), folder / at_home(target)
    require_torch(f"the model hf:{target}", "transformers")
    check_own_code(path, trust=own.trust)
    config = load_config(path, trust=own.trust)

    def build() -> Any:
        return classifier_without_weights(config, path, trust=own.trust)

    longest = own.chunk or (None if own.long == "chunked" else own.max_tokens)
    return memory_need(config, build, path, choose(own), longest=longest, batch_tokens=own.batch_tokens)


@sized_by(needs)
@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """The checkpoint in a folder, with its files, task, weights and labels checked."""
    source = f"hf:{target}"
    own = check(target, options, folder=folder)
    path = folder / at_home(target)
    require_torch(f"the model {source}", "transformers")
    import torch

    if own.threads is not None:
        torch.set_num_threads(own.threads)
    check_own_code(path, trust=own.trust)
    config = load_config(path, trust=own.trust)
    activation_of(config, path, given=own.problem_type)
    tokenizer = load_tokenizer(path, trust=own.trust)
    device = choose(own)
    network = load_classifier(config, path, trust=own.trust, device=device)

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
    network = network.eval()
    positions, reading = positions_of(network), reading_of(network, own.long, own.chunk, own.max_tokens)

    def windows_of(reading: Reading) -> TextWindows:
        most = {"max_tokens": reading.max_tokens, "limit": positions}
        return text_windows(tokenizer, long=reading.long, stride=own.stride, source=source, **most)

    windows = windows_of(reading)
    here = device or Device.of(network)
    trial = Trial.of(network, tokenizer, windows.frame, positions=positions, source=source, device=here)
    if reading.long == "chunked":
        passes: Passes = chunk_passes(trial, chunk=reading.chunk, max_tokens=reading.max_tokens)
    else:
        passes = plain_passes(trial) if own.long is None else Passes(trial.frame, trial.pad, here)
        windows = windows_of(Reading("chunked", None, own.max_tokens)) if passes.whole_notes else windows
    attends = passes.attention is not None
    activation = activation_of(network.config, where, given=own.problem_type, attends=attends)
    labels, version = output_labels(network.config, activation, own, where), fingerprint(windows)
    return HfModel(network, windows, passes, own, activation=activation, labels=labels, fingerprint=version)


def _fingerprint(path: Path, own: HfOptions, windows: TextWindows) -> str:
    suffixes = _FILES + (_FILES_IF_TRUSTED if own.trust else ())
    answer_options = {
        "long": windows.long,
        "max_tokens": windows.max_tokens,
        "dtype": own.dtype,
        "positive": own.positive,
        "fingerprint": own.fingerprint,
        "sliding": [windows.overlap, own.pooling] if own.long == "sliding" else None,
        **{name: value for name in ("chunk", "problem_type") if (value := getattr(own, name)) is not None},
    }
    return digest(
        VERSION,
        answer_options,
        [file for file in path.iterdir() if file.is_file() and file.suffix in suffixes],
    )
