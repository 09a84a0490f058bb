"""A trained network that reads images: what `palpate:DIR` gives for the kind `vision`.

The folder has `network.json` (which network, and how it reads images) and `weights.safetensors`. The prediction depends
on the image alone: texts and edits are ignored, and the cache identifies an image by its bytes. A case with several
films, such as a study of two views, gets the mean or the largest of their probabilities.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from palpate.cases.cohort import Cohort
from palpate.cases.columns import films
from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError, first_problem
from palpate.models import Model, Probabilities
from palpate.models.devices import Device, DeviceOptions, changed_by, check_device, choose
from palpate.models.networks import probabilities_of, require_torch
from palpate.models.networks.vision.images import Pixels, read_all
from palpate.models.networks.vision.layers import VisionShape, make_network, normalise
from palpate.models.options import Options, digest, existing, parse_options

VERSION = "vision-1"
SHAPE_FILE, WEIGHTS_FILE = "network.json", "weights.safetensors"
_ROWS_PER_CALL = 256
Combine = Literal["mean", "max"]


class VisionOptions(Options, DeviceOptions):
    """Options of a trained network in an audit."""

    images_at_once: int = Field(default=32, ge=1)
    """Images in one forward pass."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch, for the whole process; default: torch's own choice."""
    combine: Combine = "mean"
    """How the films of a case become one probability: their `mean`, or `max`, if one film is enough to find it."""


class VisionModel(Model):
    """A network, and how it reads images."""

    reads: ClassVar[Literal["text", "case", "image"]] = "image"
    window: str | None = "the image, and no text"

    def __init__(
        self, network: Any, shape: VisionShape, *, labels: tuple[str, ...], fingerprint: str, options: VisionOptions
    ) -> None:
        self.labels, self.fingerprint, self.shape = labels, fingerprint, shape
        self.rows_per_call = options.batch_size or _ROWS_PER_CALL
        self._at_once, self._device, self._how = options.images_at_once, choose(options), options.combine
        self._network = self._device.place(network)
        self.runs_on, self.rounding = str(self._device), self._device.rounding

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the cases, in the order of the rows; an image that occurs twice is read once."""
        if len(inputs) == 0:
            return np.zeros((0, len(self.labels)))
        images = list(inputs.images)
        if not images or not all(images):
            case = inputs.case_ids[images.index("")] if images else inputs.case_ids[0]
            raise ModelError("the model reads images, and the case has none", model="vision", case=case or None)
        own = [films(image) for image in images]
        first = {file: row for row in range(len(own) - 1, -1, -1) for file in own[row]}
        place = {file: k for k, file in enumerate(first)}
        p = self._predict_files(list(first), [inputs.case_ids[row] for row in first.values()])
        return combined(p[[place[file] for files in own for file in files]], [len(files) for files in own], self._how)

    def _predict_files(self, files: Sequence[str], case_ids: Sequence[str]) -> Probabilities:
        images = read_all(files, case_ids, self.shape.format)
        parts = []
        for start in range(0, len(files), self._at_once):
            n = min(self._at_once, len(files) - start)
            logits = logits_of(self._network, np.stack([next(images) for _ in range(n)]), self.shape, self._device)
            parts.append(probabilities_of(logits, "sigmoid"))
        self.notices = self._device.notices
        return np.concatenate(parts)

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """No text is read."""
        return np.zeros(len(texts), dtype=np.int64)


def combined(p: Probabilities, n_films: Sequence[int], how: Combine) -> Probabilities:
    """The probabilities of each case from those of its films, which follow each other."""
    first = np.concatenate([[0], np.cumsum(n_films)[:-1]]).astype(np.int64)
    if how == "max":
        largest: Probabilities = np.maximum.reduceat(p, first, axis=0)
        return largest
    mean: Probabilities = np.add.reduceat(p, first, axis=0) / np.asarray(n_films)[:, None]
    return mean


def logits_of(network: Any, pixels: Pixels, shape: VisionShape, device: Device) -> NDArray[np.float64]:
    """The outputs of a network in evaluation mode, before the sigmoid; fewer images at a time where memory runs out."""
    import torch

    one_each = np.ones(len(pixels), dtype=np.int64)
    with torch.inference_mode():
        parts = dict[int, NDArray[np.float64]]()
        forward = lambda rows: network(normalise(device.tensor(pixels[rows]).float()[:, None], shape))  # noqa: E731
        for rows, found in device.passes(one_each, forward, budget=len(pixels)):
            parts |= dict(zip(rows.tolist(), found.astype(np.float64), strict=True))
    return np.stack([parts[row] for row in range(len(pixels))])


def load_vision(home: Path, labels: tuple[str, ...], options: Mapping[str, Any]) -> VisionModel:
    """Read a folder that `palpate train cxr` wrote."""
    own = parse_options(VisionOptions, f"palpate:{home.name}", options)
    check_device(own)
    shape_file, weights = existing(SHAPE_FILE, home), existing(WEIGHTS_FILE, home)
    require_torch("a model that reads images", "monai", "PIL")
    if own.threads is not None:
        import torch

        torch.set_num_threads(own.threads)
    try:
        shape = VisionShape.model_validate_json(shape_file.read_bytes())
    except ValidationError as error:
        wrong = first_problem(error)
        raise ConfigError(wrong.problem, file=shape_file, column=wrong.field or None) from None
    if own.labels and len(own.labels) != len(labels):
        raise ConfigError(f"`labels` names {len(own.labels)} labels, but the model gives {len(labels)}", file=home)
    network = make_network(shape, len(labels), seed=0)
    _load(network, weights)
    named = own.labels or labels
    said = {"labels": named, "fingerprint": own.fingerprint} | ({"combine": "max"} if own.combine == "max" else {})
    fingerprint = digest(VERSION, said | changed_by(own), [shape_file, weights])
    return VisionModel(network, shape, labels=named, fingerprint=fingerprint, options=own)


def _load(network: Any, weights: Path) -> None:
    from safetensors.torch import load_file

    try:
        network.load_state_dict(load_file(weights))
    except Exception as error:  # damaged files and other shapes, each with its own type
        raise ConfigError(
            f"the weights do not fit {SHAPE_FILE} and the labels of palpate.json", file=weights
        ) from error


def write_vision(home: Path, network: Any, shape: VisionShape) -> None:
    """Write what `load_vision` reads."""
    from safetensors.torch import save_file

    (home / SHAPE_FILE).write_text(shape.model_dump_json(indent=2) + os.linesep, encoding="utf-8")
    save_file({name: value.cpu().contiguous() for name, value in network.state_dict().items()}, home / WEIGHTS_FILE)


def predictions_table(model: Model, cohort: Cohort, *, split: str | None = None) -> pl.DataFrame:
    """A model's predictions as the table that `predictions:FILE` reads: `cohort`, `case_id`, one column per label.

    For passing predictions on without the images and the network; `split` restricts it to the cases of one split.
    """
    rows = cohort.rows(split=split)
    own = cohort.cases.select("cohort", "case_id")[rows]
    files = [cohort.images[row] for row in rows]
    parts = [np.zeros((0, len(model.labels)))]
    for start in range(0, len(rows), model.rows_per_call):
        part = slice(start, start + model.rows_per_call)
        parts.append(model.predict(Inputs.from_images(files[part], own["case_id"][part].to_list())))
    return own.hstack(pl.DataFrame(np.concatenate(parts), schema=list(model.labels)))
