"""The one training loop of the torch networks, which can be killed and resumed.

Each learning rate is tried from the same initial weights: epochs of steps, a validation after each epoch, and an end
when the best epoch is `patience` epochs ago. Over all epochs of all learning rates, the best weights are kept.

The state (position, weights, optimizer, random numbers, losses so far) is written after every epoch and every
`save_steps` steps, each time to a new file that then replaces the old one. The order of the examples follows from seed
and epoch. So a resumed training ends, on a CPU with the same number of threads, with the same weights, bit by bit, as
one that ran through.

A kind of network says what differs: its optimizer, its batches, the losses of a batch, and the validation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from palpate.errors import ConfigError
from palpate.models.devices import Device, device_named, is_out_of_memory
from palpate.train.options import Progress, TorchOptions, TrainStep
from palpate.train.resume import MemoryRanOut, ResumeState, TrainingFiles

Ints = NDArray[np.int64]
_POOL = 32
_SMALLER = ("images_at_once", "batch_tokens", "batch_size")
"""Options that say how much is computed at once; those that do not change what is learned come first."""


class TrainingOutcome(NamedTuple):
    """The row of the best epoch, whose weights the network now has, and the rows of all epochs."""

    best: Mapping[str, Any]
    history: list[dict[str, Any]]


class Training(ABC):
    """Trains one network from where it is, or from where an earlier training was interrupted."""

    losses_named: ClassVar[tuple[str, ...]] = ("train_loss",)
    """What `losses` returns; their sum is minimised."""
    measure: str = "validation_loss"
    """The column of the history that chooses the best epoch."""
    perfect: ClassVar[float | None] = None
    """None: a lower measure is better. A number: higher is better, and this can't be improved on."""

    def __init__(
        self,
        network: Any,
        options: TorchOptions,
        *,
        n_examples: int,
        rates: Sequence[float],
        patience: int | None,
        seed: int,
        home: Path,
        progress: Progress,
        max_grad_norm: float | None = None,
    ) -> None:
        self.computes_on = Device(device_named(options.device), options.dtype)
        self.device = self.computes_on.name
        self.network = network.to(self.device)
        self.state = ResumeState()
        self._options, self._n_examples, self._seed, self._progress = options, n_examples, seed, progress
        self._rates, self._patience, self._max_grad_norm = tuple(rates), patience, max_grad_norm
        again = self.network.state_dict().items() if len(self._rates) > 1 else ()
        self._first = {name: value.detach().clone() for name, value in again}
        self._files = TrainingFiles(home, self.network, self.device)
        self._optimizer = self.new_optimizer()

    # --- what a kind of network says ------------------------------------------------------------------------

    @abstractmethod
    def new_optimizer(self) -> Any:
        """An optimizer for the network's weights; the loop sets its learning rate before every step."""

    @abstractmethod
    def batches(self) -> Sequence[Ints]:
        """The rows of each step of the current epoch, the same whenever it is called."""

    @abstractmethod
    def losses(self, rows: Ints) -> Sequence[Any]:
        """The mean losses of some examples as tensors, one for each of `losses_named`."""

    @abstractmethod
    def validate(self) -> float:
        """The measure on the validation examples; the network is in evaluation mode."""

    def parts(self, rows: Ints) -> Sequence[Ints]:
        """A batch in parts that fit into memory; their gradients add up."""
        return (rows,)

    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._rates[self.state.trial]

    def row_facts(self) -> dict[str, Any]:
        """What else the history says about the current epoch."""
        return {}

    def rng(self, *purpose: int) -> np.random.Generator:
        """Random numbers that depend on the seed and the current epoch."""
        return np.random.default_rng([self._seed, self.state.epoch, *purpose])

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision, if the options ask for it."""
        return self.computes_on.autocast()

    def tensor(self, array: NDArray[Any]) -> Any:
        """An array on the device."""
        return self.computes_on.tensor(array)

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> TrainingOutcome:
        """Do what is left to do, then give the network the best weights."""
        devices = [self.device] if self.computes_on.kind == "cuda" else []
        with torch.random.fork_rng(devices=devices), _deterministic():
            torch.manual_seed(self._seed)
            self.state = self._files.restore(self._optimizer) or self.state
            while self.state.trial < len(self._rates):
                self._epoch()
        best = self._best(self.state.history)
        if best is None:
            tried = ", ".join(f"{rate:g}" for rate in self._rates)
            raise ConfigError(f"the training diverged (learning rate {tried})", hint="choose a lower learning rate")
        self._files.take_best()
        self.network.eval()
        return TrainingOutcome(best, self.state.history)

    def _epoch(self) -> None:
        state, batches = self.state, self.batches()
        several = f"learning rate {self._rates[state.trial]:g}, " if len(self._rates) > 1 else ""
        stage = f"{several}epoch {state.epoch + 1} of {self._options.epochs}"
        self.network.train()
        while state.step < len(batches):
            rows = batches[state.step]
            losses = self._tried(rows)
            if losses is None:
                self._end_trial(diverged=True)
                return
            for name, value in losses.items():
                state.sums[name] = state.sums.get(name, 0.0) + value * len(rows)
            state.step += 1
            if state.step % self._options.save_steps == 0 and state.step < len(batches):
                self._save()
            self._progress(TrainStep(stage, state.step, len(batches), sum(losses.values())))
        self._end_epoch(stage, len(batches))

    def _tried(self, rows: Ints) -> dict[str, float] | None:
        """A step, or what to do where it needs more memory than there is: with other options it is another training."""
        try:
            return self._step(rows)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            smaller = next((name for name in _SMALLER if hasattr(self._options, name)), _SMALLER[-1])
            ways = [f"a lower `{smaller}`"]
            if self.computes_on.kind != "cpu":
                ways += ["`dtype: bfloat16`"] * (self._options.dtype != "bfloat16") + ["`device: cpu`"]
            raise MemoryRanOut(
                f"the memory of {self.device} ran out in a step of {len(rows)} training examples",
                hint=f"free some and go on with --resume, or start a new training in another folder with "
                f"{' or '.join(ways)}",
            ) from error

    def _step(self, rows: Ints) -> dict[str, float] | None:
        """The losses of one step; None if they are not finite, and then nothing is learned."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate()
        self._optimizer.zero_grad(set_to_none=True)
        values = dict.fromkeys(self.losses_named, 0.0)
        for part in self.parts(rows):
            losses = [loss * (len(part) / len(rows)) for loss in self.losses(part)]
            sum(losses[1:], losses[0]).backward()
            for name, loss in zip(self.losses_named, losses, strict=True):
                values[name] += float(loss.detach())
        if not math.isfinite(sum(values.values())):
            return None
        if self._max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self._max_grad_norm)
        self._optimizer.step()
        return values

    def _end_epoch(self, stage: str, n_steps: int) -> None:
        state = self.state
        self.network.eval()
        measured = self.validate()
        means = {name: round(state.sums[name] / self._n_examples, 6) for name in self.losses_named}
        row = {"epoch": state.epoch + 1, **self.row_facts(), **means}
        row[self.measure] = measured if math.isfinite(measured) else None
        state.history.append(row)
        if self._best(state.history) is row:
            self._files.keep_best()
        state.epoch, state.step, state.sums = state.epoch + 1, 0, {}
        self._progress(TrainStep(stage, n_steps, n_steps, measured if self.perfect is None else None))
        if self._is_over():
            self._end_trial()
        else:
            self._save()

    def _best(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The row with the best measure, of equal ones the first; None if no row has one."""
        done = [row for row in rows if row[self.measure] is not None]
        sign = 1 if self.perfect is None else -1
        return min(done, key=lambda row: sign * float(row[self.measure]), default=None)

    def _is_over(self) -> bool:
        state = self.state
        best = self._best(state.history[-state.epoch :])
        if best is None or state.history[-1][self.measure] is None or state.epoch >= self._options.epochs:
            return True
        if self.perfect is not None and best[self.measure] >= self.perfect:
            return True
        return self._patience is not None and state.epoch - int(best["epoch"]) >= self._patience

    def _end_trial(self, *, diverged: bool = False) -> None:
        state = self.state
        if diverged:
            nothing = dict.fromkeys((*self.losses_named, self.measure))
            state.history.append({"epoch": state.epoch + 1, **self.row_facts(), **nothing})
        self.state = ResumeState(trial=state.trial + 1, history=state.history)
        if self.state.trial < len(self._rates):
            torch.manual_seed(self._seed)
            self.network.load_state_dict(self._first)
            self._optimizer = self.new_optimizer()
        self._save()

    def _save(self) -> None:
        self._files.save(self.state, self._optimizer)


@contextmanager
def _deterministic() -> Iterator[None]:
    """On a GPU: only algorithms that give the same numbers each time."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before


def shuffled_by_length(lengths: Ints, size: int, rng: np.random.Generator) -> list[Ints]:
    """Batches of `size` notes of similar length, in random order: sorted within random pools of 32 batches."""
    order = rng.permutation(len(lengths))
    batches = []
    for first in range(0, len(order), _POOL * size):
        pool = order[first : first + _POOL * size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[k : k + size] for k in range(0, len(pool), size)]
    return [batches[k] for k in rng.permutation(len(batches))]
