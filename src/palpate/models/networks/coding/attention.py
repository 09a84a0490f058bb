"""Label-wise attention in torch: each label gathers the words of a text with weights of its own.

What all coding networks share; they differ in how they turn words into keys and values. This module needs torch: import
it only where a network is built.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from torch import nn


class EncodedBatch(NamedTuple):
    """A batch after its encoder."""

    keys: Any
    """[text, word, dimension]: what the labels attend to."""
    values: Any
    """[text, word, dimension]: what they gather."""
    last: Any
    """[text, word, channel]: the output of the last layer."""
    mask: Any
    """[text, word]: true where there is a word."""


class LabelAttentionNetwork(nn.Module):  # type: ignore[misc]
    """Words in, one logit per label out; `pair_scores` says where a label looked."""

    embedding: Any
    """Turns word ids into vectors."""

    def add_labels(self, n_labels: int, size: int) -> None:
        """The weights of each label: what it looks for, and what it makes of it."""
        self.queries = nn.Parameter(torch.empty(n_labels, size))
        self.weights = nn.Parameter(torch.empty(n_labels, size))
        self.bias = nn.Parameter(torch.zeros(n_labels))
        nn.init.xavier_uniform_(self.queries)
        nn.init.xavier_uniform_(self.weights)

    @abstractmethod
    def encode(self, vectors: Any, mask: Any) -> EncodedBatch:
        """Keys and values of word vectors, [text, word, dimension]."""

    def read(self, ids: Any, mask: Any) -> EncodedBatch:
        """The same, from word ids."""
        return self.encode(self.embedding(ids), mask)

    def scores(self, encoded: EncodedBatch) -> Any:
        """[text, label, word]: how well words match labels; minus infinity at padding."""
        scores = torch.matmul(self.queries, encoded.keys.transpose(1, 2))
        return scores.masked_fill_(~encoded.mask.unsqueeze(1), -math.inf)  # in place: large with 9,000 labels

    def logits(self, encoded: EncodedBatch, scores: Any) -> Any:
        """[text, label], from what each label gathers with its attention."""
        gathered = torch.matmul(torch.softmax(scores, 2), encoded.values)
        return (gathered * self.weights).sum(2) + self.bias

    def forward(self, ids: Any, mask: Any) -> Any:
        """Logits, [text, label]."""
        encoded = self.read(ids, mask)
        return self.logits(encoded, self.scores(encoded))

    # --- pairs of a text and a label ------------------------------------------------------------------------

    def pair_scores(self, encoded: EncodedBatch, text: Any, label: Any) -> Any:
        """[pair, word]: the scores of some pairs of text and label only."""
        scores = torch.einsum("pnd,pd->pn", encoded.keys[text], self.queries[label])
        return scores.masked_fill(~encoded.mask[text], -math.inf)

    def label_logits(self, ids: Any, mask: Any, label: Any) -> Any:
        """[text]: the logit of one label per text, without computing the others."""
        encoded = self.read(ids, mask)
        weight = torch.softmax(self.pair_scores(encoded, torch.arange(len(label), device=label.device), label), 1)
        gathered = torch.einsum("pn,pnd->pd", weight, encoded.values)
        return (gathered * self.weights[label]).sum(1) + self.bias[label]
