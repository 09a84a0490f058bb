"""The training of a transformer: AdamW, warm-up, weighted cross-entropy, several learning rates (Appendix B.1)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from palpate.models.text import batches_within
from palpate.train.fine_tuning import adamw, warm_up
from palpate.train.loop import Ints, Training, shuffled_by_length
from palpate.train.options import Progress
from palpate.train.transformer.network import TokenisedNotes
from palpate.train.transformer.options import TransformerOptions

_VALIDATION_TOKENS = 4096


class TransformerTraining(Training):
    """Trains a network with each learning rate in turn, from the same initial weights."""

    def __init__(
        self,
        network: Any,
        train: TokenisedNotes,
        validation: TokenisedNotes,
        options: TransformerOptions,
        *,
        seed: int,
        home: Path,
        progress: Progress,
    ) -> None:
        self._train, self._validation, self._own = train, validation, options
        self._n_steps = math.ceil(len(train.ids) / options.batch_size)
        super().__init__(
            network,
            options,
            n_examples=len(train.ids),
            rates=options.rates,
            patience=options.patience,
            max_grad_norm=options.max_grad_norm,
            seed=seed,
            home=home,
            progress=progress,
        )

    def new_optimizer(self) -> Any:
        """AdamW, without weight decay for biases and norms."""
        return adamw(self.network, self._own.weight_decay)

    def batches(self) -> list[Ints]:
        """Notes of similar length together."""
        return shuffled_by_length(self._train.lengths, self._own.batch_size, self.rng())

    def learning_rate(self) -> float:
        """Rises linearly during the warm-up, then falls linearly to 0."""
        done = self.state.epoch * self._n_steps + self.state.step
        return super().learning_rate() * warm_up(done, self._n_steps * self._own.epochs, self._own.warmup)

    def row_facts(self) -> dict[str, Any]:
        """The learning rate at its peak."""
        return {"learning_rate": super().learning_rate()}

    def losses(self, rows: Ints) -> list[Any]:
        """The mean of the weighted cross-entropy."""
        return [self._each_loss(self._train, rows).mean()]

    def validate(self) -> float:
        """The weighted mean of the cross-entropy."""
        total = 0.0
        with torch.inference_mode():
            for rows in batches_within(_VALIDATION_TOKENS, self._validation.lengths):
                total += float(self._each_loss(self._validation, rows).double().sum())
        return round(total / float(self._validation.weight.sum()), 9)

    def _each_loss(self, notes: TokenisedNotes, rows: Ints) -> Any:
        """The weighted cross-entropy of each example, [note, label]."""
        batch = {name: self.tensor(array) for name, array in notes.batch(rows).items()}
        with self.autocast():
            logits = self.network(**batch).logits.float()
        y, weight = (self.tensor(values[rows].astype(np.float32)) for values in (notes.y, notes.weight))
        if self.network.config.problem_type == "single_label_classification":
            logits = logits[:, 1:] - logits[:, :1]  # cross-entropy over two classes, as one label
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, y, weight=weight, reduction="none")
