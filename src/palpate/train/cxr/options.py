"""Options of `palpate train cxr`, with the values of the work that the context paper follows (Appendix A)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from palpate.models.networks.vision.layers import IMAGENET_MEAN, IMAGENET_STD, NetworkName, VisionShape
from palpate.train.options import Listed, TorchOptions


class CxrTrainOptions(TorchOptions):
    """Options of `cxr`."""

    network: NetworkName = "densenet121"
    """densenet121 or resnet50."""
    checkpoint: Path | None = None
    """Weights to start from: a .safetensors file or a torch state dict of the same network; None: from scratch."""
    image_size: int = Field(default=256, ge=32)
    """Pixels per side: the shorter side of an image is scaled to it, and the middle is cut out."""
    bits: int = Field(default=16, ge=8, le=16)
    """How many bits the pixels of 16-bit images really use; 12 for many detectors."""
    mean: Listed[float] = Field(default=IMAGENET_MEAN, min_length=1)
    """Subtracted from pixels between 0 and 1, one number per channel; a single number makes a one-channel network."""
    std: Listed[float] = Field(default=IMAGENET_STD, min_length=1)
    """What the difference is divided by, one number per channel."""
    flip: float = Field(default=0.5, ge=0, le=1)
    """Share of training images that are mirrored, drawn again in each epoch."""
    rotate: float = Field(default=15.0, ge=0, le=180)
    """Training images are rotated by up to this many degrees to either side."""
    learning_rate: float = Field(default=5e-4, gt=0)
    """Initial learning rate of Adam."""
    rate_factor: float = Field(default=0.5, gt=0, le=1)
    """The factor that lowers the learning rate when the validation loss stops falling."""
    rate_patience: int = Field(default=3, ge=1)
    """Lower the learning rate after this many epochs without a lower validation loss."""
    patience: int = Field(default=10, ge=1)
    """Stop after this many epochs without a lower validation loss."""
    epochs: int = Field(default=64, ge=1)
    """The most epochs."""
    batch_size: int = Field(default=256, ge=2)
    """Images per step."""
    images_at_once: int = Field(default=64, ge=2)
    """A step is done in parts of at most this many images, to fit into memory; batch norms see one part."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of Adam."""
    class_weight: Literal["balanced", "none"] = "none"
    """none: as in the paper; balanced: positives weigh the share of negatives, negatives the share of positives."""
    missing_images: Literal["error", "drop"] = "error"
    """drop: cases whose image file does not exist are left out and counted in the card."""

    @model_validator(mode="after")
    def _channels_agree(self) -> CxrTrainOptions:
        if len(self.mean) != len(self.std) or min(self.std) <= 0:
            raise ValueError("`mean` and `std` need one number per channel each, and those of `std` must be above 0")
        return self

    @property
    def shape(self) -> VisionShape:
        """The network and how it reads images."""
        return VisionShape(
            network=self.network, image_size=self.image_size, bits=self.bits, mean=self.mean, std=self.std
        )
