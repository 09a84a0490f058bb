"""Options of the coding models, mostly with the papers' values."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from palpate.models.networks.coding import Architecture, CodingShape, EvidenceMode, LayerMode
from palpate.train.options import EncoderOptions, Listed, TorchOptions

LAMBDA_1, LAMBDA_2 = 2.5, 0.5
"""As in the evidence paper's Appendix D."""
FOCUS = 2.0
"""γ of the focal loss (Lin et al., 2017)."""
StopOn = Literal["micro_f1", "precision_at_8"]
AT = 8
"""The k of precision at k."""
FEW_NOTES = 10_000
PLM_RATE, PLM_SCRATCH_RATE = 5e-5, 1e-3
_CHANNELS = (100, 100, 150, 200)
_CHANNELS_OF_FEW_NOTES = (48, 48, 48, 48)


class CodeOptions(TorchOptions):
    """The options of all coding models."""

    loss: Literal["bce", "focal"] = "bce"
    """The loss of the codes: binary cross-entropy, or focal, in which what is predicted well already weighs less."""
    gamma: float = Field(default=FOCUS, ge=0)
    """How much less, in the focal loss; 0 is binary cross-entropy."""
    class_weight: Literal["balanced", "none"] = "none"
    """none, as in the papers; balanced: positives weigh the share of negatives, negatives the share of positives."""
    target_recall: float | None = Field(default=None, gt=0, le=1)
    """The stored threshold is the highest that reaches this recall on validation; None: the one with the best F1."""
    evidence: EvidenceMode = "none"
    """Learn where the evidence is: not at all, by supervised attention, or by a head that tags words (linear, cnn)."""
    evidence_table: Path | None = None
    """The evidence, .csv or .parquet: case_id, label, start, end (characters of the text); used for training cases."""
    lambda1: float = Field(default=LAMBDA_1, ge=0)
    """Weight of the evidence loss of `evidence=attention`."""
    epochs: int = Field(default=20, ge=1)
    """The most epochs."""
    patience: int = Field(default=4, ge=1)
    """Stop after this many epochs that are not better on validation."""
    stop_on: StopOn = "micro_f1"
    """What decides on validation which epoch is best; with at most 8 codes it is always micro_f1."""
    batch_size: int = Field(default=8, ge=1)
    """Notes per step."""
    max_grad_norm: float = Field(default=5.0, gt=0)
    """Longer gradients are clipped to this length."""
    save_steps: int = Field(default=200, ge=1)
    """Save the state of the training every so many steps, and after every epoch."""

    @model_validator(mode="after")
    def _options_fit_together(self) -> CodeOptions:
        if self.evidence != "none" and self.evidence_table is None:
            raise ValueError(f"`evidence={self.evidence}` needs `evidence_table`, the file to learn from")
        if self.evidence == "none" and self.evidence_table is not None:
            ways = [way for way in get_args(type(self).model_fields["evidence"].annotation) if way != "none"]
            raise ValueError(f"`evidence_table` is given, but `evidence` is none; choose {' or '.join(ways)}")
        if "gamma" in self.model_fields_set and self.loss != "focal":
            raise ValueError("`gamma` is given, but `loss` is bce; choose focal")
        return self

    @property
    def focus(self) -> float:
        """γ; 0 for binary cross-entropy."""
        return self.gamma if self.loss == "focal" else 0.0

    def measure(self, n_labels: int) -> StopOn:
        """What decides on validation; of few codes, 8 are always nearly all."""
        return self.stop_on if n_labels > AT else "micro_f1"

    @property
    def evidence_weight(self) -> float:
        """λ1."""
        return self.lambda1

    @property
    @abstractmethod
    def rate(self) -> float:
        """The learning rate."""


class CodingOptions(CodeOptions):
    """The options of the models that read words."""

    lambda2: float = Field(default=LAMBDA_2, ge=0)
    """Weight of the evidence loss of `evidence=linear` and `cnn`."""
    vectors: Path | None = None
    """Word vectors to start from: a word2vec file (text or binary) or a GloVe file, .gz or not; sets `embedding`."""
    max_tokens: int = Field(default=3500, ge=1)
    """How many words of a text are read; in the paper 3500 for discharge summaries, 5000 for all notes of a chart."""
    min_patients: int = Field(default=5, ge=1)
    """Words in the training notes of fewer patients are left unknown: they may identify someone."""
    max_words: int = Field(default=50_000, ge=1)
    """The most words in the vocabulary; the most frequent are kept."""
    embedding: int = Field(default=100, ge=1)
    """Size of the word vectors, if they are not read from `vectors`."""
    kernel: int = Field(default=9, ge=1)
    """Words in a convolution's window."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Share of values that are dropped during training."""
    learning_rate: float = Field(default=1e-3, gt=0)
    """Learning rate of Adam."""

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.learning_rate

    @property
    def evidence_weight(self) -> float:
        """λ1 or λ2."""
        return self.lambda1 if self.evidence == "attention" else self.lambda2

    @abstractmethod
    def shape(self, n_notes: int) -> CodingShape:
        """The sizes of the network for a number of training notes."""

    def _shape(
        self,
        architecture: Architecture,
        channels: tuple[int, ...],
        attention: int,
        reduction: int,
        layers: LayerMode = "summed",
    ) -> CodingShape:
        return CodingShape(
            architecture=architecture,
            evidence=self.evidence,
            embedding=self.embedding,
            channels=channels,
            kernel=self.kernel,
            attention=attention,
            layers=layers,
            reduction=reduction,
            dropout=self.dropout,
        )


class CamlOptions(CodingOptions):
    """Options of `caml`."""

    kernel: int = Field(default=10, ge=1)
    """Words in the convolution's window."""
    filters: int = Field(default=50, ge=1)
    """Channels of the convolution."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Learning rate of Adam."""
    epochs: int = Field(default=200, ge=1)
    """The most epochs."""
    patience: int = Field(default=10, ge=1)
    """Stop after this many epochs that are not better on validation."""
    stop_on: StopOn = "precision_at_8"
    """What decides on validation which epoch is best; with at most 8 codes it is always micro_f1."""
    batch_size: int = Field(default=16, ge=1)
    """Notes per step."""

    def shape(self, n_notes: int) -> CodingShape:  # noqa: ARG002
        """The paper's, whatever the number of notes."""
        return self._shape("caml", (self.filters,), self.filters, 1)


class EffectiveCanOptions(CodingOptions):
    """Options of `effective-can`."""

    channels: Listed[Annotated[int, Field(ge=1)]] | None = Field(default=None, min_length=1)
    """Channels of each block; default: 100,100,150,200, or 48 four times with fewer than 10,000 training notes."""
    layers: LayerMode = "joined"
    """What the labels attend to: the outputs of all blocks side by side, or their sum, of size `attention`."""
    attention: int = Field(default=100, ge=1)
    """Size of what the labels attend to, with `layers=summed`."""
    reduction: int = Field(default=8, ge=1)
    """The factor by which the gates reduce their channels."""

    def shape(self, n_notes: int) -> CodingShape:
        """Smaller for few notes."""
        default = _CHANNELS_OF_FEW_NOTES if n_notes < FEW_NOTES else _CHANNELS
        return self._shape(
            "effective-can", self.channels or default, self.attention, self.reduction, layers=self.layers
        )


class PlmIcdOptions(CodeOptions, EncoderOptions):
    """Options of `plm-icd`."""

    trust: bool = False
    """Allow a checkpoint with pickled weights (*.bin)."""
    evidence: Literal["none", "attention"] = "none"
    """Learn where the evidence is: not at all, or by supervised attention."""
    chunk: int = Field(default=128, ge=8)
    """Tokens in a chunk; the encoder sees no further than that, the labels see the whole note."""
    max_tokens: int = Field(default=4000, ge=8)
    """How many tokens of a note are read."""
    learning_rate: float | None = Field(default=None, gt=0)
    """Learning rate of AdamW at its highest; default: 5e-5, or 1e-3 from scratch."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW; not applied to biases and norms."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Longer gradients are clipped to this length."""
    batch_tokens: int = Field(default=8192, ge=1)
    """Tokens in one pass: the notes of a step go through in parts of this size, and their gradients add up."""
    recompute: bool = False
    """Compute the encoder's values again in the backward pass instead of keeping them: slower, much less memory."""

    @property
    def rate(self) -> float:
        """The learning rate at its highest."""
        return self.learning_rate or (PLM_SCRATCH_RATE if self.checkpoint is None else PLM_RATE)
