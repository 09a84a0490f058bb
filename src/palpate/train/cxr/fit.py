"""The training of a network on pictures, as a loop that can be killed (context paper, Appendix A).

Adam; the learning rate is halved when the validation loss has not fallen for some epochs, and the training ends when it
has not for some more; of all epochs the weights with the lowest validation loss are kept. (The public code that the
paper follows begins a new Adam in each epoch; here its moments stay.)

The state (place, weights, optimizer, losses so far) is written after every epoch and every some steps, each time to a
new file that then takes the old one's name. Flips, turns and order follow from seed and epoch. So a resumed training
ends, on a CPU with the same number of threads, with the same weights, bit by bit, as one that was left alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.errors import ConfigError
from palpate.models.networks.vision import logits_of
from palpate.models.networks.vision.layers import Shape, normalise
from palpate.models.protocol import Probabilities
from palpate.train.cxr.pictures import Variation, parts_of, shuffled_batches, vary
from palpate.train.notes import Floats
from palpate.train.options import Progress, Step
from palpate.train.resume import Place, TrainingFiles

if TYPE_CHECKING:
    from palpate.train.cxr import CxrOptions


class Examples(NamedTuple):
    """Pictures with labels and the weight of each example."""

    pixels: NDArray[np.uint8]
    y: NDArray[np.uint8]
    weight: Floats


@dataclass
class _Place(Place):
    """Where a training is, its loss in this epoch so far and its learning rate."""

    loss_sum: float = 0.0
    learning_rate: float = 0.0
    halved: int = 0
    """The epoch after which the learning rate was last made smaller."""

    @property
    def best(self) -> dict[str, Any] | None:
        """The epoch with the lowest validation loss."""
        return min(self.history, key=lambda row: float(row["validation_loss"]), default=None)


class Training:
    """Trains one network from where it is, or from where an earlier training was stopped."""

    def __init__(
        self,
        network: Any,
        shape: Shape,
        train: Examples,
        validation: Examples,
        options: CxrOptions,
        *,
        seed: int,
        device: str,
        home: Path,
        progress: Progress,
    ) -> None:
        import torch

        self._network, self._shape, self._device = network.to(device), shape, device
        self._train, self._validation, self._options = train, validation, options
        self._seed, self._progress = seed, progress
        self._files = TrainingFiles(home, self._network, self._device)
        self._place = _Place(learning_rate=options.learning_rate)
        self._optimizer = torch.optim.Adam(
            self._network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )

    def run(self) -> list[dict[str, Any]]:
        """Go through what is left, then give the network the best weights; gives the epochs' losses."""
        with _repeatable():
            self._restore()
            while not self._done():
                self._epoch()
        self._files.take_best()
        self._network.eval()
        return self._place.history

    def probabilities(self) -> Probabilities:
        """Of the validation pictures, with the weights that the network has now."""
        from palpate.models.networks.logits import probabilities_of

        return probabilities_of(self._validation_logits(), "sigmoid")

    # --- one epoch ------------------------------------------------------------------------------------------

    def _epoch(self) -> None:
        place, options = self._place, self._options
        batches = shuffled_batches(
            len(self._train.y), options.batch_size, np.random.default_rng([self._seed, place.epoch, 0])
        )
        varied = vary(
            len(self._train.y),
            np.random.default_rng([self._seed, place.epoch, 1]),
            flip=options.flip,
            rotate=options.rotate,
        )
        stage = f"epoch {place.epoch + 1} of at most {options.epochs}"
        self._network.train()
        while place.step < len(batches):
            rows = batches[place.step]
            loss = self._step(rows, varied)
            place.loss_sum += loss * len(rows)
            place.step += 1
            if place.step % options.save_steps == 0 and place.step < len(batches):
                self._save()
            self._progress(Step(stage, place.step, len(batches), loss))
        self._end_epoch(stage, len(batches))

    def _step(self, rows: NDArray[np.int64], varied: Variation) -> float:
        """One batch, in parts that fit into memory; their gradients add up."""
        import torch

        self._optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for part in parts_of(rows, self._options.images_at_once):
            grey = torch.from_numpy(self._train.pixels[part]).to(self._device).float()[:, None]
            with self._autocast():
                logits = self._network(normalise(varied.of(grey, part), self._shape))
            y, weight = (self._tensor(values[part]) for values in (self._train.y, self._train.weight))
            losses = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), y, weight, reduction="none")
            loss = losses.mean() * (len(part) / len(rows))
            loss.backward()
            total += float(loss.detach())
        if not math.isfinite(total):
            raise ConfigError("the training diverged: its loss is no number", hint="lower `learning_rate`")
        self._optimizer.step()
        return total

    def _tensor(self, values: NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(values.astype(np.float32)).to(self._device)

    def _autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self._options.precision == "float32":
            return nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(self._device, dtype=torch.bfloat16)
        return context

    # --- choosing -------------------------------------------------------------------------------------------

    def _end_epoch(self, stage: str, n_steps: int) -> None:
        place, options = self._place, self._options
        loss = self._validation_loss()
        if not math.isfinite(loss):
            raise ConfigError("the training diverged: its validation loss is no number", hint="lower `learning_rate`")
        before = place.best
        row = {"epoch": place.epoch + 1, "learning_rate": place.learning_rate}
        row["train_loss"] = round(place.loss_sum / len(self._train.y), 6)
        place.history.append({**row, "validation_loss": round(loss, 9)})
        place.epoch, place.step, place.loss_sum = place.epoch + 1, 0, 0.0
        if place.best is not before:
            self._files.keep_best()
            place.halved = place.epoch
        elif place.epoch - place.halved >= options.rate_patience:
            place.learning_rate, place.halved = place.learning_rate * options.rate_factor, place.epoch
            for group in self._optimizer.param_groups:
                group["lr"] = place.learning_rate
        self._save()
        self._progress(Step(stage, n_steps, n_steps, loss))

    def _done(self) -> bool:
        best = self._place.best
        since = 0 if best is None else self._place.epoch - int(best["epoch"])
        return self._place.epoch >= self._options.epochs or since >= self._options.patience

    def _validation_logits(self) -> Floats:
        self._network.eval()
        at_once, pixels = self._options.images_at_once, self._validation.pixels
        starts = range(0, len(pixels), at_once)
        parts = (np.array(pixels[k : k + at_once]) for k in starts)
        return np.concatenate([logits_of(self._network, part, self._shape, self._device) for part in parts])

    def _validation_loss(self) -> float:
        logits, y, weight = self._validation_logits(), self._validation.y, self._validation.weight
        losses = np.logaddexp(0, logits) - y * logits
        return float((losses * weight).sum() / weight.sum())

    # --- state ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._files.save(asdict(self._place), self._optimizer)

    def _restore(self) -> None:
        place = self._files.restore(self._optimizer)
        if place is not None:
            self._place = _Place(**place)


@contextmanager
def _repeatable() -> Iterator[None]:
    """On a GPU: the algorithms that give the same numbers each time."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
