"""The training of a coding network, as a loop that can be killed.

Adam, and the weights of the epoch with the best micro-F1 on validation, at the threshold that is best there (evidence
paper, Section 6: codes decide, evidence does not). Its state is written after every epoch and every some steps, each
time to a new file that then takes the old one's name; a resumed training continues from there and, on a CPU with the
same number of threads, ends with the same weights, bit by bit.
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
from palpate.models.networks.logits import probabilities_of
from palpate.models.text.batches import batches_within
from palpate.train.cards import best_f1
from palpate.train.coding.batches import Batch, Prepared
from palpate.train.coding.options import CodingOptions
from palpate.train.options import Progress, Step
from palpate.train.resume import Found, Place, TrainingFiles
from palpate.train.transformer.network import shuffled_batches

_CELLS = 4_000_000


@dataclass
class _Place(Place):
    """Where a training is, and its losses in this epoch so far."""

    code_sum: float = 0.0
    evidence_sum: float = 0.0

    def best(self) -> dict[str, Any] | None:
        """The epoch with the highest micro-F1, of equal ones the first."""
        return max(self.history, key=lambda row: float(row["micro_f1"]), default=None)


class Fit:
    """Trains a network on notes, and chooses on others."""

    def __init__(
        self,
        network: Any,
        train: Prepared,
        validation: Prepared,
        options: CodingOptions,
        *,
        seed: int,
        home: Path,
        progress: Progress,
    ) -> None:
        import torch

        self._device = device_of(options.device)
        self._network, self._options = network.to(self._device), options
        self._train, self._validation = train, validation
        self._seed, self._progress = seed, progress
        self._files = TrainingFiles(home, self._network, self._device)
        self._place = _Place()
        self._optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)

    def run(self) -> Found:
        """Go through what is left, then give the network the best weights."""
        import torch

        devices = [torch.cuda.current_device()] if self._device == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self._seed)
            self._restore()
            while not self._done():
                self._epoch()
        best = self._place.best()
        if best is None:
            raise ConfigError(
                f"the training diverged with the learning rate {self._options.learning_rate:g}", hint="try a lower one"
            )
        self._files.take_best()
        self._network.to("cpu").eval()
        return Found(best, self._place.history)

    def _done(self) -> bool:
        place, best = self._place, self._place.best()
        if place.epoch >= self._options.epochs or (place.epoch and best is None):
            return True
        if best is None:
            return False
        return float(best["micro_f1"]) >= 1 or place.epoch - int(best["epoch"]) >= self._options.patience

    # --- one epoch ------------------------------------------------------------------------------------------

    def _epoch(self) -> None:
        place, options = self._place, self._options
        rng = np.random.default_rng([self._seed, place.epoch])
        batches = shuffled_batches(self._train.lengths, options.batch_size, rng)
        stage = f"epoch {place.epoch + 1} of {options.epochs}"
        self._network.train()
        while place.step < len(batches):
            code, evidence = self._step(batches[place.step])
            if not math.isfinite(code + evidence):
                place.epoch = options.epochs
                return
            n = len(batches[place.step])
            place.code_sum, place.evidence_sum = place.code_sum + n * code, place.evidence_sum + n * evidence
            place.step += 1
            if place.step % options.save_steps == 0 and place.step < len(batches):
                self._save()
            self._progress(Step(stage, place.step, len(batches), code + evidence))
        self._end_epoch(stage, len(batches))

    def _step(self, rows: NDArray[np.int64]) -> tuple[float, float]:
        import torch

        self._optimizer.zero_grad(set_to_none=True)
        code, evidence = self._losses(self._train.batch(rows).on(self._device))
        loss = code + evidence
        if bool(torch.isfinite(loss)):
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._options.max_grad_norm)
            self._optimizer.step()
        return float(code.detach()), float(evidence.detach())

    def _losses(self, batch: Batch) -> tuple[Any, Any]:
        """The loss of the codes and the weighted loss of the evidence, for a batch."""
        import torch

        from palpate.train.coding.losses import attention_loss, code_loss, tagging_loss

        network, n_notes, pairs = self._network, len(batch.y), batch.pairs
        with self._autocast():
            encoded = network.read(batch.ids, batch.mask)
            scores = network.scores(encoded)
            code = code_loss(network.logits(encoded, scores).float(), batch.y, batch.weight)
            if pairs is None:
                return code, torch.zeros((), device=self._device)
            own = scores[pairs.note, pairs.label].float()
            if not network.shape.tags:
                return code, self._options.evidence_weight * attention_loss(own, pairs.marked, n_notes)
            tags = network.tags(encoded, torch.softmax(own, 1), pairs.note, pairs.label).float()
        loss = tagging_loss(tags, pairs.marked, batch.mask[pairs.note], n_notes)
        return code, self._options.evidence_weight * loss

    def _autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self._options.precision == "float32":
            return nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(self._device, dtype=torch.bfloat16)
        return context

    # --- choosing -------------------------------------------------------------------------------------------

    def _end_epoch(self, stage: str, n_steps: int) -> None:
        place, n = self._place, len(self._train.ids)
        before = place.best()
        found = best_f1(self._validation.y, self._scores())
        place.history.append(
            {
                "epoch": place.epoch + 1,
                "code_loss": round(place.code_sum / n, 6),
                "evidence_loss": round(place.evidence_sum / n, 6),
                "micro_f1": round(found.f1, 6),
            }
        )
        if place.best() is not before:
            self._files.keep_best()
        place.epoch, place.step, place.code_sum, place.evidence_sum = place.epoch + 1, 0, 0.0, 0.0
        self._progress(Step(stage, n_steps, n_steps, place.history[-1]["code_loss"]))
        self._save()

    def _scores(self) -> NDArray[np.float64]:
        """Probabilities of the validation notes."""
        import torch

        self._network.eval()
        notes = self._validation
        out = np.empty(notes.y.shape)
        with torch.inference_mode():
            for rows in batches_within(max(_CELLS // notes.y.shape[1], 1), notes.lengths, max_rows=32):
                batch = notes.batch(rows).on(self._device)
                out[rows] = self._network(batch.ids, batch.mask).double().cpu().numpy()
        return probabilities_of(out, "sigmoid")

    # --- state ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._files.save(asdict(self._place), self._optimizer)

    def _restore(self) -> None:
        place = self._files.restore(self._optimizer)
        if place is not None:
            self._place = _Place(**place)
