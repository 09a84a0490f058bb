"""Notes for the training of a coding network: words, labels, weights and evidence, as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.models.devices import Device
from palpate.models.networks.coding.words import PADDING, WordSequence
from palpate.models.text import attention_mask, lengths_of, padded
from palpate.train.coding.evidence import Marked
from palpate.train.notes import Floats, Notes, class_weights, example_weights

Ints = NDArray[np.int64]


class EvidencePairs(NamedTuple):
    """The pairs of a note and a label that have evidence in a batch."""

    note: Any
    label: Any
    marked: Any
    """[pair, word]: 1 for evidence."""


class CodingBatch(NamedTuple):
    """The tensors of some notes."""

    ids: Any
    mask: Any
    y: Any
    weight: Any
    pairs: EvidencePairs | None
    """None if no note of the batch has evidence."""

    def on(self, device: Device) -> CodingBatch:
        """The same tensors on a device."""
        ids, mask, y, weight, pairs = self
        moved = None if pairs is None else EvidencePairs(*map(device.move, pairs))
        ids, mask, y, weight = map(device.move, (ids, mask, y, weight))
        return CodingBatch(ids, mask, y, weight, moved)


class PreparedNotes(NamedTuple):
    """All notes of a split."""

    ids: list[list[int]]
    lengths: Ints
    y: NDArray[np.uint8]
    weight: Floats
    evidence: Sequence[Sequence[Marked]]
    padding: int

    def batch(self, rows: Ints) -> CodingBatch:
        """What the network and its losses need for some notes."""
        import torch

        lengths = self.lengths[rows]
        return CodingBatch(
            torch.from_numpy(padded([self.ids[row] for row in rows], self.padding)),
            torch.from_numpy(attention_mask(lengths).astype(bool)),
            torch.from_numpy(self.y[rows].astype(np.float32)),
            torch.from_numpy(self.weight[rows].astype(np.float32)),
            self._pairs(rows, int(lengths.max())),
        )

    def _pairs(self, rows: Ints, longest: int) -> EvidencePairs | None:
        import torch

        found = [(k, one) for k, row in enumerate(rows) if len(self.evidence) for one in self.evidence[row]]
        if not found:
            return None
        marked = np.zeros((len(found), longest), dtype=np.float32)
        for k, (_, one) in enumerate(found):
            marked[k, one.words] = 1
        note, label = ([k for k, _ in found], [one.label for _, one in found])
        return EvidencePairs(torch.tensor(note), torch.tensor(label), torch.from_numpy(marked))


def prepare(
    read: Sequence[WordSequence],
    notes: Notes,
    y_train: NDArray[np.uint8],
    class_weight: str,
    evidence: Sequence[Sequence[Marked]] = (),
    *,
    padding: int = PADDING,
) -> PreparedNotes:
    """Notes with class weights from the training split; a label with only one class there has weight 1."""
    ids = [one.ids.tolist() for one in read]
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = class_weights(y_train, class_weight)
    weights[~np.isfinite(weights).all(axis=1)] = 1.0
    return PreparedNotes(ids, lengths_of(ids), notes.y, example_weights(notes.y, weights), evidence, padding)
