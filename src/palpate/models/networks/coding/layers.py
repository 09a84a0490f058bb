"""The coding networks in torch: CAML and EffectiveCAN with label-wise attention, and heads that tag evidence.

CAML (Mullenbach et al., 2018): one convolution over word vectors, tanh, and for each label an attention over the words
and a logistic unit on what it gathers. EffectiveCAN (Liu et al., 2021): four residual blocks, each with two
convolutions and a squeeze-and-excitation gate; the labels attend to the outputs of all four, side by side (multi-layer
attention) or summed after a projection. The heads are those of the evidence paper, Section 5.2. Written from papers.

Activations are modules, each used once in a pass, so that they can be followed (DeepLift); the softmax is not, because
Captum's rule for it depends on the other texts of a batch.

No position of a text depends on how its batch is padded: padded positions are zero before every convolution, like those
beyond the ends of a text, and take no part in means and attention. This module needs torch: import it only where a
network is built.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from palpate.models.networks.coding import CodingShape
from palpate.models.networks.coding.attention import EncodedBatch, LabelAttentionNetwork


class Convolution(nn.Module):  # type: ignore[misc]
    """A convolution over words, [text, word, channel] to the same, with zeros beyond the ends."""

    def __init__(self, n_in: int, n_out: int, kernel: int) -> None:
        super().__init__()
        self.kernel = nn.Conv2d(n_in, n_out, (1, kernel))
        self.ends = ((kernel - 1) // 2, kernel // 2)

    def forward(self, x: Any) -> Any:
        """As an image one pixel high with its channels last, which is how the axes already are: nothing is copied.

        On a CPU this takes 0.8 of the time of a one-dimensional convolution.
        """
        image = functional.pad(x, (0, 0, *self.ends)).transpose(1, 2).unsqueeze(2)
        return self.kernel(image).squeeze(2).transpose(1, 2)


class Gate(nn.Module):  # type: ignore[misc]
    """Squeeze and excitation: the mean of each channel over the words decides how much of it passes."""

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        inner = max(channels // reduction, 1)
        self.squeeze, self.excite = nn.Linear(channels, inner), nn.Linear(inner, channels)
        self.relu, self.sigmoid = nn.ReLU(), nn.Sigmoid()

    def forward(self, x: Any, filled: Any) -> Any:
        """`filled` is 1 where there is a word, [text, word, 1]."""
        mean = (x * filled).sum(1) / filled.sum(1)
        return x * self.sigmoid(self.excite(self.relu(self.squeeze(mean)))).unsqueeze(1)


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """A residual squeeze-and-excitation block."""

    def __init__(self, n_in: int, n_out: int, shape: CodingShape) -> None:
        super().__init__()
        self.first, self.first_norm = Convolution(n_in, n_out, shape.kernel), nn.LayerNorm(n_out)
        self.second, self.second_norm = Convolution(n_out, n_out, shape.kernel), nn.LayerNorm(n_out)
        self.gate = Gate(n_out, shape.reduction)
        self.shortcut = nn.Identity() if n_in == n_out else nn.Linear(n_in, n_out)
        self.dropout = nn.Dropout(shape.dropout)
        self.inner_relu, self.relu = nn.ReLU(), nn.ReLU()

    def forward(self, x: Any, filled: Any) -> Any:
        """[text, word, channel]; zero at padding."""
        inner = self.dropout(self.inner_relu(self.first_norm(self.first(x)))) * filled
        inner = self.gate(self.second_norm(self.second(inner)), filled)
        return self.relu(inner + self.shortcut(x)) * filled


class CodingNetwork(LabelAttentionNetwork):
    """Words in, one logit per label out; `pair_scores` and `tags` say where a label looked."""

    def __init__(self, shape: CodingShape, n_ids: int, n_labels: int) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(n_ids, shape.embedding, padding_idx=0)
        self.dropout, self.tanh = nn.Dropout(shape.dropout), nn.Tanh()
        widths = (shape.embedding, *shape.channels)
        if shape.architecture == "caml":
            self.convolution = Convolution(shape.embedding, shape.channels[0], shape.kernel)
            size = shape.channels[0]
        else:
            self.blocks = nn.ModuleList([ResidualBlock(n_in, n_out, shape) for n_in, n_out in pairwise(widths)])
            joined = shape.layers == "joined"
            sizes = shape.channels if joined else (shape.attention,) * len(shape.channels)
            self.projections = nn.ModuleList([nn.Linear(*pair) for pair in zip(shape.channels, sizes, strict=True)])
            size = sum(sizes) if joined else shape.attention
        self.add_labels(n_labels, size)
        self.tagger = _tagger(shape, size)
        self.pair_size = size * (shape.tag_kernel if shape.evidence == "cnn" else 1)
        """How many numbers one word of one pair needs at a time."""

    # --- text to keys ---------------------------------------------------------------------------------------

    def encode(self, vectors: Any, mask: Any) -> EncodedBatch:
        """The convolutions of word vectors, [text, word, dimension]."""
        filled = mask.unsqueeze(2).to(vectors.dtype)
        x = self.dropout(vectors) * filled
        if self.shape.architecture == "caml":
            x = self.tanh(self.convolution(x)) * filled
            return EncodedBatch(x, x, x, mask)
        layers = []
        for block, project in zip(self.blocks, self.projections, strict=True):
            x = block(x, filled)
            layers.append(project(x))
        keys = torch.cat(layers, 2) if self.shape.layers == "joined" else sum(layers)
        keys = self.tanh(keys) * filled
        return EncodedBatch(keys, keys, x, mask)

    def tags(self, encoded: EncodedBatch, attention: Any, text: Any, label: Any) -> Any:
        """[pair, word]: the logit that a word is evidence for a label (evidence paper, Equations 2 and 5)."""
        scaled = attention / attention.amax(1, keepdim=True)
        filled = encoded.mask[text].unsqueeze(2).to(scaled.dtype)
        return self.tagger(encoded.last, text, scaled.unsqueeze(2), self.queries[label], filled)


class LinearTagger(nn.Module):  # type: ignore[misc]
    """A number per word times a number per attention weight; all labels share the two layers."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.of_word, self.of_attention = nn.Linear(channels, 1), nn.Linear(1, 1)

    def forward(self, last: Any, text: Any, attention: Any, label: Any, filled: Any) -> Any:  # noqa: ARG002
        """[pair, word] logits."""
        return (self.of_word(last)[text] * self.of_attention(attention)).squeeze(2)


class ConvolutionTagger(nn.Module):  # type: ignore[misc]
    """A convolution over the sum of word, attention and label, each projected; then norm, ReLU and a linear layer."""

    def __init__(self, channels: int, label_size: int, shape: CodingShape) -> None:
        super().__init__()
        self.of_word, self.of_attention = nn.Linear(channels, label_size), nn.Linear(1, label_size)
        self.of_label = nn.Linear(label_size, label_size)
        self.convolution = Convolution(label_size, shape.tag_channels, shape.tag_kernel)
        self.norm, self.out = nn.LayerNorm(shape.tag_channels), nn.Linear(shape.tag_channels, 1)

    def forward(self, last: Any, text: Any, attention: Any, label: Any, filled: Any) -> Any:
        """[pair, word] logits."""
        x = self.of_word(last)[text] + self.of_attention(attention) + self.of_label(label).unsqueeze(1)
        return self.out(functional.relu(self.norm(self.convolution(x * filled)))).squeeze(2)


def _tagger(shape: CodingShape, size: int) -> Any:
    if shape.evidence == "linear":
        return LinearTagger(shape.channels[-1])
    return ConvolutionTagger(shape.channels[-1], size, shape) if shape.evidence == "cnn" else None
