"""The training of a coding network: Adam on the losses of codes and evidence (evidence paper, Section 5, Appendix D).

The epoch with the highest micro-F1 on validation is kept, at the threshold that is best for it: codes decide, evidence
does not (Section 6).

All losses are sums over the labels of a note, so that λ weighs the same with sixty labels and with nine thousand:
binary cross-entropy over all labels (Equation 1), and one evidence term for each label that has evidence in the note
(Equation 3). A term does not grow with the number of its evidence words: the divergence is between distributions, and
the cross-entropy of tags, summed over the words of the note, is divided by that number. A batch counts as the mean of
its notes.
"""

from __future__ import annotations

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
from palpate.train.coding.options import CodingOptions
from palpate.train.loop import Ints, Training, shuffled_by_length
from palpate.train.options import Progress

_CELLS = 4_000_000


class CodingTraining(Training):
    """Trains a network on notes, and chooses the best epoch on others."""

    losses_named: ClassVar[tuple[str, ...]] = ("code_loss", "evidence_loss")
    measure: ClassVar[str] = "micro_f1"
    perfect: ClassVar[float | None] = 1.0

    def __init__(
        self,
        network: Any,
        train: PreparedNotes,
        validation: PreparedNotes,
        options: CodingOptions,
        *,
        seed: int,
        home: Path,
        progress: Progress,
    ) -> None:
        self._train, self._validation, self._own = train, validation, options
        super().__init__(
            network,
            options,
            n_examples=len(train.ids),
            rates=(options.learning_rate,),
            patience=options.patience,
            max_grad_norm=options.max_grad_norm,
            seed=seed,
            home=home,
            progress=progress,
        )

    def new_optimizer(self) -> Any:
        """Adam."""
        return torch.optim.Adam(self.network.parameters(), lr=self._own.learning_rate)

    def batches(self) -> list[Ints]:
        """Notes of similar length together."""
        return shuffled_by_length(self._train.lengths, self._own.batch_size, self.rng())

    def losses(self, rows: Ints) -> tuple[Any, Any]:
        """The loss of the codes and the weighted loss of the evidence."""
        batch = self._train.batch(rows).on(self.device)
        network, n_notes, pairs = self.network, len(batch.y), batch.pairs
        with self.autocast():
            encoded = network.read(batch.ids, batch.mask)
            scores = network.scores(encoded)
            code = code_loss(network.logits(encoded, scores).float(), batch.y, batch.weight)
            if pairs is None:
                return code, torch.zeros((), device=self.device)
            own = scores[pairs.note, pairs.label].float()
            if not network.shape.tags:
                return code, self._own.evidence_weight * attention_loss(own, pairs.marked, n_notes)
            tags = network.tags(encoded, torch.softmax(own, 1), pairs.note, pairs.label).float()
        loss = tagging_loss(tags, pairs.marked, batch.mask[pairs.note], n_notes)
        return code, self._own.evidence_weight * loss

    def validate(self) -> float:
        """The micro-F1 at its best threshold."""
        return round(best_f1(self._validation.y, self._probabilities()).f1, 6)

    def _probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the validation notes."""
        notes = self._validation
        out = np.empty(notes.y.shape)
        with torch.inference_mode():
            for rows in batches_within(max(_CELLS // notes.y.shape[1], 1), notes.lengths, max_rows=32):
                batch = notes.batch(rows).on(self.device)
                out[rows] = self.network(batch.ids, batch.mask).double().cpu().numpy()
        return probabilities_of(out, "sigmoid")


def code_loss(logits: Any, y: Any, weight: Any) -> Any:
    """Binary cross-entropy of logits [note, label], as one number."""
    return functional.binary_cross_entropy_with_logits(logits, y, weight=weight, reduction="sum") / len(y)


def attention_loss(scores: Any, marked: Any, n_notes: int) -> Any:
    """Divergence of each pair's attention from an equal distribution over its evidence words.

    `scores` are those before the softmax, [pair, word], minus infinity at padding; `marked` is 1 for evidence and 0
    elsewhere.
    """
    target = marked / marked.sum(1, keepdim=True)
    log_attention = torch.log_softmax(scores, 1).masked_fill(marked == 0, 0.0)
    return (torch.xlogy(target, target) - target * log_attention).sum() / n_notes


def tagging_loss(tags: Any, marked: Any, mask: Any, n_notes: int) -> Any:
    """Cross-entropy of the tag of every word of each pair; `mask` is true where there is a word."""
    each = functional.binary_cross_entropy_with_logits(tags, marked, reduction="none").masked_fill(~mask, 0.0)
    return (each.sum(1) / marked.sum(1)).sum() / n_notes
