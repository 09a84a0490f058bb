"""The options of a training, what a kind of model must offer, and how progress is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from palpate.cases.cohort import Cohort
from palpate.models import Probabilities
from palpate.models.devices import DeviceOptions
from palpate.train.notes import split_notes


def listed(value: object) -> object:
    """A validator: `a,b` from a command line, or a single value, becomes a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, (Sequence, type(None))) else (value,)


T = TypeVar("T")
Listed = Annotated[tuple[T, ...], BeforeValidator(listed)]


class TrainOptions(BaseModel):
    """The options of every kind; each kind adds its own fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True)

    class_weight: Literal["balanced", "none"] = "balanced"
    """balanced: positives weigh the share of negatives in the training split, negatives the share of positives."""
    target_recall: float | None = Field(default=0.70, gt=0, le=1)
    """The stored threshold is the highest that reaches this recall on validation; None: the one with the best F1."""
    n_replicates: int = Field(default=1000, ge=0, le=1_000_000)
    """Bootstrap replicates for the model card's intervals; 0: no intervals."""

    def repeats(self) -> tuple[int | None, ...]:
        """The seeds to train with, one model each; a kind without randomness has one, None."""
        return (None,)


class SeededOptions(TrainOptions):
    """Options of a kind whose result depends on a seed."""

    seeds: Listed[int] = Field(default=(24,), min_length=1)
    """One model per seed; several go to one folder each, OUT/seed-N. The paper's are 24, 42, 61, 67 and 70."""

    def repeats(self) -> tuple[int | None, ...]:
        """The seeds, each once."""
        return tuple(dict.fromkeys(self.seeds))


class TorchOptions(SeededOptions, DeviceOptions):
    """Options of a kind that trains a torch network epoch by epoch (`palpate.train.loop`)."""

    epochs: int = Field(default=10, ge=1)
    """The most epochs."""
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", validation_alias=AliasChoices("dtype", "precision")
    )
    """bfloat16: mixed precision, for devices that support it; the weights stay in single precision."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch during the training; default: torch's own choice."""
    save_steps: int = Field(default=500, ge=1)
    """Save the state of the training every so many steps, and after every epoch."""
    keep_training_files: bool = False
    """Keep OUT/.training when the training is done."""


class EncoderOptions(TorchOptions):
    """Options of a kind that starts from a transformers checkpoint, or from a small encoder of its own."""

    checkpoint: Path | None = None
    """The folder of a transformers checkpoint to fine-tune; None: a small encoder from scratch."""
    trust: bool = False
    """Allow a checkpoint with pickled weights (*.bin) or code of its own."""
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
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps in which the learning rate rises linearly; in the others it falls linearly."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW; not applied to biases and norms."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Longer gradients are clipped to this length."""

    @model_validator(mode="after")
    def _heads_divide(self) -> EncoderOptions:
        if self.hidden % self.heads:
            raise ValueError(f"`heads` ({self.heads}) must divide `hidden` ({self.hidden})")
        return self


class Option(NamedTuple):
    """One option, for help texts."""

    name: str
    default: Any
    what: str


def describe(kind: type[TrainOptions]) -> tuple[Option, ...]:
    """The options of a kind, its own first."""
    fields = kind.model_fields
    common = [
        name for base in (TorchOptions, DeviceOptions, SeededOptions, TrainOptions) for name in base.__annotations__
    ]
    names = [name for name in fields if name not in common] + [name for name in common if name in fields]
    return tuple(Option(name, fields[name].default, fields[name].description or "") for name in names)


class TrainStep(NamedTuple):
    """How far a training is."""

    stage: str
    """What is done now: "seed 24: trees", "learning rate 2e-05, epoch 3 of 10"."""
    done: int
    total: int
    loss: float | None = None
    notice: bool = False
    """Whether `stage` is a sentence that the user should read, and no step."""


Progress = Callable[[TrainStep], None]


class FitTask(NamedTuple):
    """One model to fit."""

    seed: int | None
    scratch: Path
    """Where files of an unfinished training may be put; kept until the whole job is done."""
    progress: Progress


class Save(Protocol):
    """Writes a fitted model in the form that `palpate:` reads."""

    def __call__(self, folder: Path, *, labels: Sequence[str], threshold: float, card: Mapping[str, Any]) -> Path:
        """Write the model's files, then `palpate.json`."""
        ...


class Fitted(NamedTuple):
    """A model in memory, and what its card says about the fit."""

    p_validation: Probabilities
    save: Save
    facts: Mapping[str, Any]
    """What was chosen on the validation split, and how."""
    words: tuple[tuple[str, float], ...] = ()
    """The words that weigh most, among those in the notes of enough patients."""


class TrainingData(NamedTuple):
    """A cohort without the cases that can't be used, and its splits."""

    cohort: Cohort
    split: Any
    """Has `train`, `validation` (both `Labelled`) and `labels`."""


def read_notes(cohort: Cohort, _options: TrainOptions) -> TrainingData:
    """All cases, with their notes."""
    return TrainingData(cohort, split_notes(cohort))


@dataclass(frozen=True)
class Kind:
    """A kind of reference model."""

    what: str
    """One sentence for the card."""
    options: type[TrainOptions]
    fit: Callable[[Any, Any, FitTask], Fitted]
    """Fits one model to the split that `read` gives."""
    packages: tuple[str, ...]
    """The packages whose versions the card states."""
    check: Callable[[Any, Sequence[str]], Mapping[str, Any]] | None = None
    """Refuses what can't work (options, labels) before any work; returns what else the result depends on."""
    limits: tuple[str, ...] = ()
    keep: str = (
        "The folder contains words or word pieces of the training notes: store it where the notes may be stored."
    )
    read: Callable[[Cohort, Any], TrainingData] = read_notes
    """Selects the usable cases and splits them."""
