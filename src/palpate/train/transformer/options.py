"""Options of `palpate train transformer`, mostly with the vocabulary paper's values (Appendix B.1)."""

from __future__ import annotations

from pydantic import Field

from palpate.train.options import EncoderOptions, Listed

PAPER_RATES = (2e-5, 2e-6, 2e-7, 2e-8, 2e-9)
SCRATCH_RATES = (1e-3, 3e-4, 1e-4)


class TransformerOptions(EncoderOptions):
    """Options of `transformer`."""

    max_tokens: int | None = Field(default=None, ge=8)
    """How many tokens of a note are read; default: as many as the checkpoint can, or 512 from scratch."""
    learning_rates: Listed[float] | None = Field(default=None, min_length=1)
    """Learning rates to try; default: the paper's 2e-5 to 2e-9, or 1e-3, 3e-4 and 1e-4 from scratch."""
    epochs: int = Field(default=10, ge=1)
    """The most epochs per learning rate."""
    patience: int | None = Field(default=None, ge=1)
    """Give up a learning rate after this many epochs without a lower validation loss; None: never, as in the paper."""
    batch_size: int = Field(default=16, ge=1)
    """Notes per step."""

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates to try, each once."""
        default = SCRATCH_RATES if self.checkpoint is None else PAPER_RATES
        return tuple(dict.fromkeys(self.learning_rates or default))
