"""What can be said about a training, what a kind of model must offer, and how progress is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from palpate.cases.cohort import Cohort
from palpate.models.protocol import Probabilities
from palpate.train.notes import split_notes


def listed(value: object) -> object:
    """A validator: `a,b` from a command line, or one value alone, as a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value if isinstance(value, (Sequence, type(None))) else (value,)


T = TypeVar("T")
Listed = Annotated[tuple[T, ...], BeforeValidator(listed)]


class TrainOptions(BaseModel):
    """What every kind takes; each adds its own fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True)

    class_weight: Literal["balanced", "none"] = "balanced"
    """balanced: positives weigh as the share of negatives in the training split, negatives as that of positives."""
    target_recall: float | None = Field(default=0.70, gt=0, le=1)
    """The stored threshold is the highest that reaches this recall on validation; None: the one with the best F1."""
    n_replicates: int = Field(default=1000, ge=0)
    """Bootstrap replicates of the card's intervals; 0: no intervals."""

    def repeats(self) -> tuple[int | None, ...]:
        """The seeds to train with, one model each; a kind without chance has one, None."""
        return (None,)


class SeededOptions(TrainOptions):
    """Options of a kind whose result depends on a seed."""

    seeds: Listed[int] = Field(default=(24,), min_length=1)
    """One model a seed; with several, each in a folder of its own, OUT/seed-N. The paper's: 24, 42, 61, 67, 70."""

    def repeats(self) -> tuple[int | None, ...]:
        """The seeds, each once."""
        return tuple(dict.fromkeys(self.seeds))


class Option(NamedTuple):
    """One option, for people."""

    name: str
    default: Any
    what: str


def describe(kind: type[TrainOptions]) -> tuple[Option, ...]:
    """The options of a kind, its own first."""
    common = [name for base in (SeededOptions, TrainOptions) for name in base.model_fields]
    names = [name for name in kind.model_fields if name not in common]
    names += [name for name in kind.model_fields if name in common]
    fields = kind.model_fields
    return tuple(Option(name, fields[name].default, fields[name].description or "") for name in names)


class Step(NamedTuple):
    """How far a training is."""

    stage: str
    """What is done now: "seed 24: trees", "learning rate 2e-05, epoch 3 of 10"."""
    done: int
    total: int
    loss: float | None = None


Progress = Callable[[Step], None]


class Task(NamedTuple):
    """One model to be fitted."""

    seed: int | None
    scratch: Path
    """Where files of an unfinished training may be; kept until the whole job is done."""
    progress: Progress


class Save(Protocol):
    """Writes a fitted model where `palpate:` finds it."""

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
    """The words that weigh most, of those that enough patients' notes have."""


class Read(NamedTuple):
    """A cohort without the cases that can't be used, and its splits."""

    cohort: Cohort
    split: Any
    """Has `train`, `validation` (both `Labelled`) and `labels`."""


def read_notes(cohort: Cohort, _options: TrainOptions) -> Read:
    """All cases, with their notes."""
    return Read(cohort, split_notes(cohort))


@dataclass(frozen=True)
class Kind:
    """A kind of reference model."""

    what: str
    """One sentence for the card."""
    options: type[TrainOptions]
    fit: Callable[[Any, Any, Task], Fitted]
    """What is fitted on is what `read` gives."""
    packages: tuple[str, ...]
    """Whose versions the card names."""
    check: Callable[[Any, Sequence[str]], Mapping[str, Any]] | None = None
    """Refuses what can't work before any work (options, labels); gives what else the result depends on."""
    limits: tuple[str, ...] = ()
    keep: str = "The folder holds words or word pieces of the training notes: keep it where the notes may be kept."
    read: Callable[[Cohort, Any], Read] = read_notes
    """The cases that are used, and split."""
