"""Options of `palpate train transformer`, mostly with the vocabulary paper's values (Appendix B.1)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from palpate.train.options import Listed, TorchOptions

PAPER_RATES = (2e-5, 2e-6, 2e-7, 2e-8, 2e-9)
SCRATCH_RATES = (1e-3, 3e-4, 1e-4)


class TransformerOptions(TorchOptions):
    """Options of `transformer`."""

    checkpoint: Path | None = None
    """The folder of a transformers checkpoint to fine-tune; None: a small encoder from scratch."""
    trust: bool = False
    """Allow a checkpoint with pickled weights (*.bin) or code of its own."""
    max_tokens: int | None = Field(default=None, ge=8)
    """How many tokens of a note are read; default: as many as the checkpoint can, or 512 from scratch."""
    vocab_size: int = Field(default=8000, ge=300)
    """From scratch: the number of word pieces, learned from the training notes."""
    min_patients: int = Field(default=5, ge=1)
    """From scratch: word pieces are learned from words in the notes of at least this many patients."""
    layers: int = Field(default=2, ge=1)
    """From scratch: layers of the encoder."""
    hidden: int = Field(default=128, ge=2)
    """From scratch: width of the encoder."""
    heads: int = Field(default=2, ge=1)
    """From scratch: attention heads; must divide `hidden`."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """From scratch: dropout."""
    learning_rates: Listed[float] | None = Field(default=None, min_length=1)
    """Learning rates to try; default: the paper's 2e-5 to 2e-9, or 1e-3, 3e-4 and 1e-4 from scratch."""
    epochs: int = Field(default=10, ge=1)
    """The most epochs per learning rate."""
    patience: int | None = Field(default=None, ge=1)
    """Give up a learning rate after this many epochs without a lower validation loss; None: never, as in the paper."""
    batch_size: int = Field(default=16, ge=1)
    """Notes per step."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps in which the learning rate rises linearly; in the others it falls linearly."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW; not applied to biases and norms."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Longer gradients are clipped to this length."""

    @model_validator(mode="after")
    def _heads_divide(self) -> TransformerOptions:
        if self.hidden % self.heads:
            raise ValueError(f"`heads` ({self.heads}) must divide `hidden` ({self.hidden})")
        return self

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates to try, each once."""
        default = SCRATCH_RATES if self.checkpoint is None else PAPER_RATES
        return tuple(dict.fromkeys(self.learning_rates or default))
