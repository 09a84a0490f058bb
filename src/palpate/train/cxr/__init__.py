"""`palpate train cxr`: a DenseNet-121 or ResNet-50 that reads chest X-rays (context paper, Appendix A).

The paper follows Seyyed-Kalantari et al. (2020), with batches of 256: images of 256 pixels, normalised as for ImageNet,
flipped and turned by up to 15 degrees; binary cross-entropy over the labels, unweighted; Adam from 5e-4, halved after
three epochs without a lower validation loss, ended after ten, at most 64 epochs. Those are the defaults. That work
begins from ImageNet's weights: give them as `checkpoint`, nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from palpate.cases.cohort import Cohort
from palpate.models.digest import digest
from palpate.models.networks.vision.layers import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    NetworkName,
    Shape,
    load_start,
    make_network,
    require_monai,
)
from palpate.train.cxr.pictures import Pictures, PictureSplit, split_pictures, stored_pixels, usable
from palpate.train.notes import class_weights, example_weights
from palpate.train.options import Fitted, Kind, Listed, Read, SeededOptions, Step, Task
from palpate.train.transformer import torch_threads


class CxrOptions(SeededOptions):
    """Options of `cxr`."""

    network: NetworkName = "densenet121"
    """densenet121 or resnet50."""
    checkpoint: Path | None = None
    """Weights to begin with: a .safetensors file or a torch state dict of the same network; None: from scratch."""
    image_size: int = Field(default=256, ge=32)
    """Pixels of a side: the shorter side of an image is scaled to it, and the middle is cut out."""
    bits: int = Field(default=16, ge=8, le=16)
    """How many bits the pixels of 16-bit images really have; 12 for those of many detectors."""
    mean: Listed[float] = Field(default=IMAGENET_MEAN, min_length=1)
    """Subtracted from pixels between 0 and 1, one a channel; one number makes a network with one channel."""
    std: Listed[float] = Field(default=IMAGENET_STD, min_length=1)
    """What is left is divided by it."""
    flip: float = Field(default=0.5, ge=0, le=1)
    """Share of training images that are mirrored, anew in each epoch."""
    rotate: float = Field(default=15.0, ge=0, le=180)
    """Training images are turned by up to so many degrees to either side."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Of Adam, at first."""
    rate_factor: float = Field(default=0.5, gt=0, le=1)
    """What the learning rate is multiplied with when the validation loss stays up."""
    rate_patience: int = Field(default=3, ge=1)
    """After so many epochs without a lower validation loss."""
    patience: int = Field(default=10, ge=1)
    """The training ends after so many epochs without a lower validation loss."""
    epochs: int = Field(default=64, ge=1)
    """The most epochs."""
    batch_size: int = Field(default=256, ge=2)
    """Images in a step."""
    images_at_once: int = Field(default=64, ge=2)
    """A step is done in parts of so many images, which fit into memory; batch norms see one part."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of Adam."""
    class_weight: Literal["balanced", "none"] = "none"
    """none: as in the paper; balanced: positives weigh as the share of negatives, negatives as that of positives."""
    missing_images: Literal["error", "drop"] = "error"
    """drop: cases whose image is not there are left out and counted in the card."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: mixed precision, for processors that have it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto: a GPU if there is one."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch while it trains; default: torch's own choice."""
    save_steps: int = Field(default=500, ge=1)
    """Save the state of the training after so many steps, besides after every epoch."""
    keep_training_files: bool = False
    """Keep OUT/.training when all is done."""

    @model_validator(mode="after")
    def _channels_agree(self) -> CxrOptions:
        if len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise ValueError("`mean` and `std` need one number a channel each, those of `std` above 0")
        return self

    @property
    def shape(self) -> Shape:
        """The network and how it looks at pictures."""
        return Shape(network=self.network, image_size=self.image_size, bits=self.bits, mean=self.mean, std=self.std)


def _check(options: CxrOptions, labels: Sequence[str]) -> Mapping[str, Any]:
    """The libraries are there and the checkpoint fits; the result depends on its bytes."""
    require_monai("training a model that reads images")
    from palpate.models.networks.device import device_of

    device_of(options.device)
    if options.checkpoint is None:
        return {}
    load_start(make_network(options.shape, len(labels), seed=0), options.shape, options.checkpoint)
    return {"checkpoint": digest("checkpoint", {}, [options.checkpoint])}


def _read(cohort: Cohort, options: CxrOptions) -> Read:
    kept, left_out = usable(cohort, options.missing_images)
    return Read(kept, split_pictures(kept, left_out))


def _fit(split: PictureSplit, options: CxrOptions, task: Task) -> Fitted:
    from palpate.models.networks.device import device_of
    from palpate.models.networks.vision import write_network
    from palpate.train.cxr.fit import Training

    shape, seed = options.shape, task.seed or 0
    with torch_threads(options.threads):
        network = make_network(shape, len(split.labels), seed=seed)
        head = options.checkpoint is not None and load_start(network, shape, options.checkpoint)
        train, validation = (_examples(part, name, split, options, task) for part, name in _parts(split))
        training = Training(
            network,
            shape,
            train,
            validation,
            options,
            seed=seed,
            device=device_of(options.device),
            home=task.scratch,
            progress=task.progress,
        )
        history = training.run()
        task.progress(Step("validation", 0, 1))
        p = training.probabilities()
    best = min(history, key=lambda row: float(row["validation_loss"]))
    facts = {
        "epochs": best["epoch"],
        "validation_loss": round(best["validation_loss"], 6),
        "n_weights": sum(int(weight.numel()) for weight in network.parameters()),
        "head": "the checkpoint's" if head else "new",
        "cases left out for want of their image": split.left_out,
        "tried": history,
    }

    def save(folder: Path, **manifest: Any) -> Path:
        from palpate.models.adapters.palpate import save_network

        return save_network(folder, "vision", lambda home: write_network(home, network, shape), **manifest)

    return Fitted(p, save, facts)


def _parts(split: PictureSplit) -> Iterator[tuple[Pictures, str]]:
    yield split.train, "train"
    yield split.validation, "validation"


def _examples(pictures: Pictures, name: str, split: PictureSplit, options: CxrOptions, task: Task) -> Any:
    from palpate.train.cxr.fit import Examples

    store = task.scratch.parent / "pixels" / f"{name}.npy"
    pixels = stored_pixels(pictures, options.shape.looks, store, task.progress, f"{name} images")
    weights = class_weights(split.train.y, options.class_weight)
    return Examples(pixels, pictures.y, example_weights(pictures.y, weights))


KIND = Kind(
    what="A convolutional network that reads the middle square of a chest X-ray, in grey.",
    options=CxrOptions,
    fit=_fit,
    check=_check,
    read=_read,
    packages=("torch", "monai", "pillow"),
    limits=(
        "It looks at one image at a time, and does not know which view it is.",
        "It may use marks, tubes and borders instead of the finding: audit it with `context`.",
    ),
    keep="The weights may remember training images: keep the folder where the images may be kept.",
)
