"""The training of a network on images (context paper, Appendix A).

Adam; the learning rate is lowered when the validation loss has not fallen for some epochs, and the training ends when
it has not for some more. (The public code that the paper follows creates a new Adam in each epoch; here its moments are
kept.) Mirroring, rotation and order follow from seed and epoch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from palpate.models import Probabilities
from palpate.models.devices import Device
from palpate.models.networks import probabilities_of
from palpate.models.networks.vision import logits_of
from palpate.models.networks.vision.layers import normalise
from palpate.train.cxr.images import augment, parts_of, shuffled_batches
from palpate.train.cxr.options import CxrTrainOptions
from palpate.train.loop import Ints, Training
from palpate.train.notes import Floats
from palpate.train.options import Progress


class TrainingImages(NamedTuple):
    """Images with labels and the weight of each example."""

    pixels: NDArray[np.uint8]
    y: NDArray[np.uint8]
    weight: Floats


class CxrTraining(Training):
    """Trains a network on images, and chooses the best epoch on others."""

    def __init__(
        self,
        network: Any,
        train: TrainingImages,
        validation: TrainingImages,
        options: CxrTrainOptions,
        *,
        seed: int,
        home: Path,
        progress: Progress,
    ) -> None:
        self._train, self._validation, self._own, self._shape = train, validation, options, options.shape
        super().__init__(
            network,
            options,
            n_examples=len(train.y),
            rates=(options.learning_rate,),
            patience=options.patience,
            seed=seed,
            home=home,
            progress=progress,
        )

    def new_optimizer(self) -> Any:
        """Adam."""
        options = self._own
        return torch.optim.Adam(self.network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)

    def batches(self) -> list[Ints]:
        """All images in random order; called once per epoch, it also draws how they are augmented."""
        n, options = len(self._train.y), self._own
        self._augmentation = augment(n, self.rng(1), flip=options.flip, rotate=options.rotate)
        return shuffled_batches(n, options.batch_size, self.rng(0))

    def parts(self, rows: Ints) -> list[Ints]:
        """At most `images_at_once` images at a time."""
        return parts_of(rows, self._own.images_at_once)

    def learning_rate(self) -> float:
        """Lowered whenever the validation loss has not fallen for `rate_patience` epochs."""
        rate, lowest, since = super().learning_rate(), float("inf"), 0
        for row in self.state.history:
            if row["validation_loss"] < lowest:
                lowest, since = row["validation_loss"], row["epoch"]
            elif row["epoch"] - since >= self._own.rate_patience:
                rate, since = rate * self._own.rate_factor, row["epoch"]
        return rate

    def row_facts(self) -> dict[str, Any]:
        """The learning rate of the epoch."""
        return {"learning_rate": self.learning_rate()}

    def losses(self, rows: Ints) -> list[Any]:
        """The mean of the weighted cross-entropy."""
        grey = self.tensor(self._train.pixels[rows]).float()[:, None]
        with self.autocast():
            logits = self.network(normalise(self._augmentation.of(grey, rows), self._shape))
        y, weight = (self.tensor(values[rows].astype(np.float32)) for values in (self._train.y, self._train.weight))
        losses = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), y, weight, reduction="none")
        return [losses.mean()]

    def validate(self) -> float:
        """The weighted mean of the cross-entropy."""
        logits, y, weight = self._validation_logits(), self._validation.y, self._validation.weight
        losses = np.logaddexp(0, logits) - y * logits
        return round(float((losses * weight).sum() / weight.sum()), 9)

    def probabilities(self) -> Probabilities:
        """Of the validation images, with the weights that the network has now."""
        return probabilities_of(self._validation_logits(), "sigmoid")

    def _validation_logits(self) -> Floats:
        at_once, pixels = self._own.images_at_once, self._validation.pixels
        starts, in_full = range(0, len(pixels), at_once), Device(self.device)
        parts = (np.array(pixels[k : k + at_once]) for k in starts)
        return np.concatenate([logits_of(self.network, part, self._shape, in_full) for part in parts])
