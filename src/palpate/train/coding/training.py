"""The training of a coding network: Adam on the losses of codes and evidence (evidence paper, Section 5, Appendix D).

The epoch with the highest micro-F1 on validation is kept, at the threshold that is best for it, or the one with the
highest precision of each note's first eight codes, as CAML's authors do: codes decide, evidence does not (Section 6).

All losses are means over what they are about, as they are by default in torch: the code loss over notes and labels, the
divergence of the attention (Equation 1) and the cross-entropy of the tags (Equation 3) over the words of all pairs of a
note and a label that have evidence. With these, the λ that the paper tried (0.5 to 5) weigh evidence about as much as
codes; with sums they would drown them. Padding counts nowhere.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from palpate.models.networks import probabilities_of
from palpate.models.text import batches_within
from palpate.train.cards import best_f1
from palpate.train.coding.batches import PreparedNotes
from palpate.train.coding.options import AT, CodeOptions, PlmIcdOptions
from palpate.train.fine_tuning import adamw, warm_up
from palpate.train.loop import Ints, Training, shuffled_by_length
from palpate.train.options import Progress

_CELLS = 4_000_000


class CodingTraining(Training):
    """Trains a network on notes, and chooses the best epoch on others."""

    losses_named: ClassVar[tuple[str, ...]] = ("code_loss", "evidence_loss")
    perfect: ClassVar[float | None] = 1.0

    def __init__(
        self,
        network: Any,
        train: PreparedNotes,
        validation: PreparedNotes,
        options: CodeOptions,
        *,
        seed: int,
        home: Path,
        progress: Progress,
    ) -> None:
        self._train, self._validation, self._own = train, validation, options
        self.measure = options.measure(train.y.shape[1])
        super().__init__(
            network,
            options,
            n_examples=len(train.ids),
            rates=(options.rate,),
            patience=options.patience,
            max_grad_norm=options.max_grad_norm,
            seed=seed,
            home=home,
            progress=progress,
        )

    def new_optimizer(self) -> Any:
        """Adam."""
        return torch.optim.Adam(self.network.parameters(), lr=self._own.rate)

    def batches(self) -> list[Ints]:
        """Notes of similar length together."""
        return shuffled_by_length(self._train.lengths, self._own.batch_size, self.rng())

    def losses(self, rows: Ints) -> tuple[Any, Any]:
        """The loss of the codes and the weighted loss of the evidence."""
        batch = self._train.batch(rows).on(self.computes_on)
        network, pairs = self.network, batch.pairs
        with self.autocast():
            encoded = network.read(batch.ids, batch.mask)
            scores = network.scores(encoded)
            logits = network.logits(encoded, scores).float()
            code = code_loss(logits, batch.y, batch.weight, focus=self._own.focus)
            if pairs is None:
                return code, torch.zeros((), device=self.device)
            own, mask = scores[pairs.note, pairs.label].float(), batch.mask[pairs.note]
            if not network.shape.tags:
                return code, self._own.evidence_weight * attention_loss(own, pairs.marked, mask)
            tags = network.tags(encoded, torch.softmax(own, 1), pairs.note, pairs.label).float()
        return code, self._own.evidence_weight * tagging_loss(tags, pairs.marked, mask)

    def validate(self) -> float:
        """The micro-F1 at its best threshold, or the precision of each note's first eight codes."""
        y, p = self._validation.y, self._probabilities()
        return round(best_f1(y, p).f1 if self.measure == "micro_f1" else precision_at(AT, y, p), 6)

    def _probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the validation notes."""
        notes = self._validation
        out = np.empty(notes.y.shape)
        with torch.inference_mode():
            for rows in batches_within(max(_CELLS // notes.y.shape[1], 1), notes.lengths, max_rows=32):
                batch = notes.batch(rows).on(self.computes_on)
                out[rows] = self.network(batch.ids, batch.mask).double().cpu().numpy()
        return probabilities_of(out, "sigmoid")


class ChunkedTraining(CodingTraining):
    """The same for a network whose encoder is fine-tuned: AdamW, warm-up, long notes in parts."""

    _own: PlmIcdOptions

    def new_optimizer(self) -> Any:
        """AdamW, without weight decay for biases and norms."""
        if self._own.recompute:
            encoder = self.network.encoder
            getattr(encoder, "activation_checkpointing_enable", encoder.gradient_checkpointing_enable)()
        return adamw(self.network, self._own.weight_decay)

    def learning_rate(self) -> float:
        """Rises linearly during the warm-up, then falls linearly to 0."""
        n_steps = math.ceil(len(self._train.ids) / self._own.batch_size)
        done = self.state.epoch * n_steps + self.state.step
        return super().learning_rate() * warm_up(done, n_steps * self._own.epochs, self._own.warmup)

    def parts(self, rows: Ints) -> list[Ints]:
        """Notes whose tokens fit into one pass, longest first."""
        return [rows[some] for some in batches_within(self._own.batch_tokens, self._train.lengths[rows])]


def code_loss(logits: Any, y: Any, weight: Any, *, focus: float = 0.0) -> Any:
    """Binary cross-entropy of logits [note, label]; with `focus`, times that power of the missing probability."""
    each = functional.binary_cross_entropy_with_logits(logits, y, weight=weight, reduction="none")
    if focus:
        each = each * torch.sigmoid(torch.where(y > 0, -logits, logits)) ** focus
    return each.mean()


def attention_loss(scores: Any, marked: Any, mask: Any) -> Any:
    """Divergence of each pair's attention from an equal distribution over its evidence words.

    `scores` are those before the softmax, [pair, word], minus infinity at padding; `marked` is 1 for evidence and 0
    elsewhere; `mask` is true where there is a word.
    """
    target = marked / marked.sum(1, keepdim=True)
    log_attention = torch.log_softmax(scores, 1).masked_fill(marked == 0, 0.0)
    return (torch.xlogy(target, target) - target * log_attention).sum() / mask.sum()


def tagging_loss(tags: Any, marked: Any, mask: Any) -> Any:
    """Cross-entropy of the tag of every word of each pair; `mask` is true where there is a word."""
    each = functional.binary_cross_entropy_with_logits(tags, marked, reduction="none").masked_fill(~mask, 0.0)
    return each.sum() / mask.sum()


def precision_at(k: int, y: NDArray[np.uint8], p: NDArray[np.float64]) -> float:
    """The share of right ones among the k most probable labels of each note; of equal ones, the first."""
    first = np.argsort(-p, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(y, first, axis=1).mean())
