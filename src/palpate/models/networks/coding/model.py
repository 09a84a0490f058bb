"""A coding model that `palpate train` wrote (`caml`, `effective-can`, `plm-icd`): its predictions, and where it looked.

    attention             the weights with which a label gathers the words of a text (evidence paper, Section 5.2.1)
    tagging               the probability that a word is evidence, from a tagging head (Sections 5.2.3 and 5.2.4)
    integrated_gradients, gradient_x_input   see `palpate.models.text.gradients`

Texts are sorted by length and cut into batches by the number of cells in their attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.models.devices import Device, DeviceOptions, changed_by, check_device, choose
from palpate.models.networks import probabilities_of, require_torch
from palpate.models.networks.coding import ENCODER, SHAPE_FILE, ChunkedShape, CodingShape, read_shape
from palpate.models.networks.coding.tokens import TokenWindow, read_tokens
from palpate.models.networks.coding.words import WORDS_FILE, WordSequence, WordWindow, read_window
from palpate.models.options import Options, digest, existing, parse_options
from palpate.models.text import attention_mask, padded
from palpate.models.text.gradients import ATTENTION, ATTINGRAD, WAYS, attributions_of, gradient_sizes, token_scores
from palpate.results import Asked, Attributions, no_attributions

VERSION = "coding-1"
WEIGHTS = "model.safetensors"
_ROWS_PER_CALL = 64
_CELLS = 4_000_000
"""Words times labels in one pass."""
_BYTES_PER_CELL = 16
"""Scores, attention and their products."""
_PAIR_CELLS = 32_000_000
"""Numbers in one pass of an explanation."""


class CodingModelOptions(Options, DeviceOptions):
    """Options of a coding model in an audit."""

    batch_tokens: int = Field(default=16_384, ge=1)
    """Words in one pass, padding included; fewer with thousands of labels, as many as fit into memory on a GPU."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch, for the whole process; default: torch's own choice."""


class CodingModel(Model):
    """Label-wise attention over the words of a text."""

    learned_words: ClassVar[bool] = True

    def __init__(
        self,
        network: Any,
        window: WordWindow | TokenWindow,
        *,
        labels: tuple[str, ...],
        fingerprint: str,
        batch_tokens: int = 16_384,
        rows_per_call: int | None = None,
        device: Device | None = None,
    ) -> None:
        self.labels, self.fingerprint = labels, fingerprint
        self.rows_per_call = rows_per_call or _ROWS_PER_CALL
        self.window = window.reads
        self.explains = (*(("tagging",) if network.shape.tags else ()), ATTENTION, *WAYS, ATTINGRAD)
        self._device, self._window = device or Device(), window
        self._network = self._device.place(network)
        self.runs_on, self.rounding = str(self._device), self._device.rounding
        cells = max(_CELLS, (self._device.room(network) or 0) // _BYTES_PER_CELL)
        self._budget = max(min(batch_tokens, cells // len(labels)), 1)

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the texts, in the order of the rows."""
        import torch

        read = self._window.read(inputs.texts)
        logits = np.empty((len(read), len(self.labels)))

        def forward(rows: NDArray[np.int64]) -> Any:
            return self._network(*self._tensors([read[row] for row in rows]))

        with torch.inference_mode():
            for rows, found in self._device.passes(n_words_of(read), forward, budget=self._budget):
                logits[rows] = found
        self.notices = self._device.notices
        return probabilities_of(logits, "sigmoid")

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """One character after the last word read."""
        return self._window.visible_ends(texts)

    def words(self) -> Sequence[str]:
        """The vocabulary, learned from the training notes."""
        return self._window.words

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        """A score for each word read, for each asked pair of a text and a label."""
        if way not in self.explains:
            raise ValueError(f"unknown explanation method {way!r}; the methods are {', '.join(self.explains)}")
        if not len(asked.row):
            return no_attributions()
        used, which = np.unique(asked.row, return_inverse=True)
        texts = inputs.texts
        read = self._window.read([texts[row] for row in used])
        pairs = [read[k] for k in which.reshape(-1)]
        offsets = [list(zip(one.begin.tolist(), one.end.tolist(), strict=True)) or [(0, 0)] for one in read]
        places = [offsets[k] for k in which.reshape(-1)]
        ids, label = [one.ids.tolist() for one in pairs], np.asarray(asked.label)
        network, forward = self._network, self._logit
        limits: dict[str, Any] = {"filler": self._window.padding, "device": self._device}
        if way in WAYS:
            blank = [self._window.blank(row) for row in ids]
            how: dict[str, Any] = {"way": way, "network": network, "baseline": blank, **limits}
            return attributions_of(asked, places, token_scores(forward, network.embedding, ids, label, **how))
        scores = self._looks(read, which.reshape(-1), label, ATTENTION if way == ATTINGRAD else way)
        if way == ATTINGRAD:
            sizes = gradient_sizes(forward, network.embedding, ids, label, **limits)
            scores = [attention * size for attention, size in zip(scores, sizes, strict=True)]
        return attributions_of(asked, places, scores)

    def _tensors(self, read: Sequence[WordSequence]) -> tuple[Any, Any]:
        return tensors(read, self._window.padding, self._device)

    def _logit(self, tokens: Any, mask: Any, label: Any) -> Any:
        return self._network.label_logits(tokens, mask.bool(), label).float()

    def _looks(
        self, read: list[WordSequence], text: NDArray[np.int64], label: NDArray[np.int64], way: str
    ) -> list[NDArray[np.float64]]:
        """A score for each word of each pair; the texts are encoded once, whatever the number of labels."""
        import torch

        out: list[NDArray[np.float64]] = [np.zeros(0)] * len(text)
        lengths = n_words_of(read)

        def forward(rows: NDArray[np.int64]) -> Any:
            encoded = self._network.read(*self._tensors([read[row] for row in rows]))
            place = np.full(len(read), -1, dtype=np.int64)
            place[rows] = np.arange(len(rows))
            wanted = np.flatnonzero(place[text] >= 0)
            step = max(_PAIR_CELLS // (encoded.mask.shape[1] * self._network.pair_size), 1)
            starts = range(0, len(wanted), step)
            parts = [wanted[first : first + step] for first in starts]
            return torch.cat([self._pairs(encoded, place[text[part]], label[part], way) for part in parts])

        with torch.inference_mode():
            for rows, found in self._device.passes(lengths, forward, budget=self._budget):
                wanted = np.flatnonzero(np.isin(text, rows))
                for pair, values in zip(wanted.tolist(), found, strict=True):
                    out[pair] = values[: lengths[text[pair]]].astype(np.float64)
        return out

    def _pairs(self, encoded: Any, text: NDArray[np.int64], label: NDArray[np.int64], way: str) -> Any:
        import torch

        rows, labels = self._device.tensor(text), self._device.tensor(label)
        scores = torch.softmax(self._network.pair_scores(encoded, rows, labels).float(), 1)
        return torch.sigmoid(self._network.tags(encoded, scores, rows, labels)) if way == "tagging" else scores


def n_words_of(read: Sequence[WordSequence]) -> NDArray[np.int64]:
    """How many words are read of each text."""
    return np.fromiter((len(one.ids) for one in read), dtype=np.int64, count=len(read))


def tensors(read: Sequence[WordSequence], padding: int, device: Device) -> tuple[Any, Any]:
    """A network's inputs for some texts: ids and mask."""
    ids = padded([one.ids.tolist() for one in read], padding)
    return device.tensor(ids), device.tensor(attention_mask(n_words_of(read)).astype(bool))


# --- files ------------------------------------------------------------------------------------------------------


def write_coding(folder: Path, network: Any, window: WordWindow | TokenWindow) -> None:
    """Write sizes, words and weights."""
    from safetensors.torch import save_file

    network.shape.write(folder)
    if isinstance(window, TokenWindow):
        network.write_encoder(folder)
        window.write(folder / ENCODER)
    else:
        window.write(folder)
    weights = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    save_file(weights, folder / WEIGHTS)


def load_coding(home: Path, labels: tuple[str, ...], options: Mapping[str, Any]) -> CodingModel:
    """The model in a folder, checked: all files exist, and the weights fit the sizes."""
    own = parse_options(CodingModelOptions, f"palpate:{home.name}", options)
    check_device(own)
    if own.labels is not None and len(own.labels) != len(labels):
        raise ConfigError(f"`labels` names {len(own.labels)} labels, but the model gives {len(labels)}", file=home)
    shape, file = read_shape(home), existing(WEIGHTS, home)
    chunked = isinstance(shape, ChunkedShape)
    require_torch(f"the model palpate:{home.name}", *(("transformers",) if chunked else ()))
    window: WordWindow | TokenWindow = read_window(home) if isinstance(shape, CodingShape) else _tokens(home, shape)
    import torch

    if own.threads is not None:
        torch.set_num_threads(own.threads)
    files = [home / SHAPE_FILE, file, *(sorted((home / ENCODER).iterdir()) if chunked else [home / WORDS_FILE])]
    answer_options = {"labels": own.labels or labels, "fingerprint": own.fingerprint}
    return CodingModel(
        _network(shape, window, len(labels), file),
        window,
        labels=own.labels or labels,
        fingerprint=digest(VERSION, answer_options | changed_by(own), files),
        batch_tokens=own.batch_tokens,
        rows_per_call=own.batch_size,
        device=choose(own),
    )


def _tokens(home: Path, shape: ChunkedShape) -> TokenWindow:
    return read_tokens(existing(ENCODER, home), shape.max_tokens)


def _network(shape: CodingShape | ChunkedShape, window: WordWindow | TokenWindow, n_labels: int, file: Path) -> Any:
    import torch
    from safetensors.torch import load_file

    with torch.random.fork_rng(devices=[]):
        network = _empty_network(shape, window, n_labels, file.parent)
    try:
        network.load_state_dict(load_file(file))
    except Exception as error:
        raise ConfigError(
            "the weights do not fit this network", file=file, hint="copy the whole folder, or train again"
        ) from error
    return network


def _empty_network(shape: Any, window: Any, n_labels: int, home: Path) -> Any:
    if isinstance(shape, ChunkedShape):
        from palpate.models.networks.coding.chunked import ChunkedNetwork, empty_encoder

        return ChunkedNetwork(shape, empty_encoder(home), n_labels)
    from palpate.models.networks.coding.layers import CodingNetwork

    return CodingNetwork(shape, window.n_ids, n_labels)
