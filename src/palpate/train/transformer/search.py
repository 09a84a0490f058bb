"""The search over learning rates and epochs, by validation loss (Appendix B.1), as a loop that can be killed.

Its state (place, weights, optimizer, random numbers, losses so far) is written after every epoch and every some
steps, each time to a new file that then takes the old one's name. A resumed search continues from there. On a CPU with
the same number of threads it ends with the same weights, bit by bit, as one that was left alone.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.errors import ConfigError
from palpate.models.networks.device import device_of
from palpate.models.text.batches import batches_within
from palpate.train.options import Progress, Step
from palpate.train.resume import Found, Place, TrainingFiles
from palpate.train.transformer import TransformerOptions
from palpate.train.transformer.network import Encoded, shuffled_batches

_VALIDATION_TOKENS = 4096
_NO_DECAY = ("bias", "norm.weight")


@dataclass
class _Place(Place):
    """Where a search is: its learning rate by number, and the loss in this epoch so far."""

    trial: int = 0
    loss_sum: float = 0.0

    def best(self, rate: float | None = None) -> dict[str, Any] | None:
        """The epoch with the lowest validation loss, of all or of one learning rate."""
        done = [row for row in self.history if row["validation_loss"] is not None]
        done = [row for row in done if rate is None or row["learning_rate"] == rate]
        return min(done, key=lambda row: float(row["validation_loss"]), default=None)


class Search:
    """Trains a network with each learning rate in turn, from the same first weights."""

    def __init__(
        self,
        network: Any,
        train: Encoded,
        validation: Encoded,
        options: TransformerOptions,
        *,
        seed: int,
        home: Path,
        progress: Progress,
    ) -> None:

        self._device = device_of(options.device)
        self._network = network.to(self._device)
        self._first = {name: value.detach().clone() for name, value in network.state_dict().items()}
        self._train, self._validation, self._options = train, validation, options
        self._seed, self._progress = seed, progress
        self._files = TrainingFiles(home, self._network, self._device)
        self._place = _Place()
        self._optimizer = self._new_optimizer()
        self._n_steps = math.ceil(len(train.ids) / options.batch_size)

    def run(self) -> Found:
        """Go through what is left, then give the network the best weights."""
        import torch

        devices = [torch.cuda.current_device()] if self._device == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            if not self._restore():
                self._begin_trial()
            while self._place.trial < len(self._options.rates):
                self._epoch()
        best = self._place.best()
        if best is None:
            rates = ", ".join(f"{rate:g}" for rate in self._options.rates)
            raise ConfigError(f"the training diverged with every learning rate ({rates})", hint="try lower ones")
        self._files.take_best()
        self._network.eval()
        return Found(best, self._place.history)

    # --- one epoch ------------------------------------------------------------------------------------------

    @property
    def _rate(self) -> float:
        return self._options.rates[self._place.trial]

    def _begin_trial(self) -> None:
        """The first weights, a new optimizer, and the seed's random numbers."""
        import torch

        torch.manual_seed(self._seed)
        self._network.load_state_dict(self._first)
        self._optimizer = self._new_optimizer()

    def _epoch(self) -> None:
        place, options = self._place, self._options
        rng = np.random.default_rng([self._seed, place.epoch])
        batches = shuffled_batches(self._train.lengths, options.batch_size, rng)
        stage = f"learning rate {self._rate:g}, epoch {place.epoch + 1} of {options.epochs}"
        self._network.train()
        while place.step < len(batches):
            loss = self._step(batches[place.step])
            if not math.isfinite(loss):
                self._end_trial(diverged=True)
                return
            place.loss_sum += loss * len(batches[place.step])
            place.step += 1
            if place.step % options.save_steps == 0 and place.step < len(batches):
                self._save()
            self._progress(Step(stage, place.step, len(batches), loss))
        self._end_epoch(stage)

    def _step(self, rows: NDArray[np.int64]) -> float:
        import torch

        done = self._place.epoch * self._n_steps + self._place.step
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate * self._schedule(done)
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._losses(self._train, rows).mean()
        value = float(loss.detach())
        if math.isfinite(value):
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._options.max_grad_norm)
            self._optimizer.step()
        return value

    def _schedule(self, done: int) -> float:
        """Share of the learning rate after so many steps: up to 1, then down to 0."""
        total = self._n_steps * self._options.epochs
        warm = int(total * self._options.warmup)
        if done < warm:
            return (done + 1) / warm
        return max(0.0, (total - done) / max(1, total - warm))

    def _losses(self, notes: Encoded, rows: NDArray[np.int64]) -> Any:
        """The weighted cross-entropy of each example, [note, label]."""
        import torch

        batch = {name: torch.from_numpy(array).to(self._device) for name, array in notes.batch(rows).items()}
        with self._autocast():
            logits = self._network(**batch).logits.float()
        y = torch.from_numpy(notes.y[rows].astype(np.float32)).to(self._device)
        weight = torch.from_numpy(notes.weight[rows].astype(np.float32)).to(self._device)
        if self._network.config.problem_type == "single_label_classification":
            logits = logits[:, 1:] - logits[:, :1]  # cross-entropy over two classes, as a label of its own
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, y, weight=weight, reduction="none")

    def _autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self._options.precision == "float32":
            return nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(self._device, dtype=torch.bfloat16)
        return context

    # --- choosing -------------------------------------------------------------------------------------------

    def _end_epoch(self, stage: str) -> None:
        place = self._place
        loss = self._validation_loss()
        train_loss = place.loss_sum / len(self._train.ids)
        before = place.best()
        place.epoch, place.step, place.loss_sum = place.epoch + 1, 0, 0.0
        row = {"learning_rate": self._rate, "epoch": place.epoch, "train_loss": round(train_loss, 6)}
        place.history.append({**row, "validation_loss": round(loss, 9) if math.isfinite(loss) else None})
        if place.best() is not before:
            self._files.keep_best()
        self._progress(Step(stage, self._n_steps, self._n_steps, loss))
        if place.epoch == self._options.epochs or not math.isfinite(loss) or self._hopeless():
            self._end_trial()
        else:
            self._save()

    def _hopeless(self) -> bool:
        best, patience = self._place.best(self._rate), self._options.patience
        return patience is not None and best is not None and self._place.epoch - int(best["epoch"]) >= patience

    def _end_trial(self, *, diverged: bool = False) -> None:
        place = self._place
        if diverged:
            row = {"learning_rate": self._rate, "epoch": place.epoch + 1, "train_loss": None, "validation_loss": None}
            place.history.append(row)
        self._place = _Place(trial=place.trial + 1, history=place.history)
        if self._place.trial < len(self._options.rates):
            self._begin_trial()
        self._save()

    def _validation_loss(self) -> float:
        import torch

        self._network.eval()
        total = 0.0
        with torch.inference_mode():
            for rows in batches_within(_VALIDATION_TOKENS, self._validation.lengths):
                total += float(self._losses(self._validation, rows).double().sum())
        return total / float(self._validation.weight.sum())

    # --- state ----------------------------------------------------------------------------------------------

    def _new_optimizer(self) -> Any:
        import torch

        named = [(name.lower(), weight) for name, weight in self._network.named_parameters() if weight.requires_grad]
        groups = [
            {
                "params": [weight for name, weight in named if not name.endswith(_NO_DECAY)],
                "weight_decay": self._options.weight_decay,
            },
            {"params": [weight for name, weight in named if name.endswith(_NO_DECAY)], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=1.0)

    def _save(self) -> None:
        self._files.save(asdict(self._place), self._optimizer)

    def _restore(self) -> bool:
        place = self._files.restore(self._optimizer)
        if place is None:
            return False
        self._place = _Place(**place)
        return True
