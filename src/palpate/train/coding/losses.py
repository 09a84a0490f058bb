"""The losses of the coding models (evidence paper, Equations 1 and 3); needs torch.

All are sums over the labels of a note, so that λ weighs the same with sixty labels and with nine thousand: binary
cross-entropy over all labels, and one evidence term for each label that has evidence in the note. A term does not grow
with the number of its evidence words: the divergence is between distributions, and the cross-entropy of tags, summed
over the words of the note, is divided by it. A batch counts as the mean of its notes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


def code_loss(logits: Any, y: Any, weight: Any) -> Any:
    """Binary cross-entropy, [note, label] each, as one number."""
    return functional.binary_cross_entropy_with_logits(logits, y, weight=weight, reduction="sum") / len(y)


def attention_loss(scores: Any, marked: Any, n_notes: int) -> Any:
    """Divergence of the attention of each pair from evidence words that share all of it equally.

    `scores` are those before the softmax, [pair, word], minus infinity where there is no word; `marked` is 1 for
    evidence and 0 elsewhere.
    """
    target = marked / marked.sum(1, keepdim=True)
    log_attention = torch.log_softmax(scores, 1).masked_fill(marked == 0, 0.0)
    return (torch.xlogy(target, target) - target * log_attention).sum() / n_notes


def tagging_loss(tags: Any, marked: Any, mask: Any, n_notes: int) -> Any:
    """Cross-entropy of the tag of every word of each pair; `mask` is true where there is a word."""
    each = functional.binary_cross_entropy_with_logits(tags, marked, reduction="none").masked_fill(~mask, 0.0)
    return (each.sum(1) / marked.sum(1)).sum() / n_notes
