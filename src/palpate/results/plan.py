"""What passes between an audit and the runner: plans, predictions, and the protocols that audits follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Skip, Variants
from palpate.results.attributions import Attributions
from palpate.results.blocks import AuditResult

if TYPE_CHECKING:
    from palpate.perturb.words.substitutes import ContextModel


class Explain(NamedTuple):
    """Which answers one model is to explain, and in which of its ways: pairs of a case and a label, in columns."""

    way: str
    row: NDArray[np.int64]
    """Rows of the cohort."""
    label: NDArray[np.int64]
    """Indices into the plan's labels."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What an audit wants scored, and what it needs to remember until the answers are there."""

    cohort: Cohort
    variants: Variants
    labels: tuple[str, ...]
    skips: tuple[Skip, ...] = ()
    cases: NDArray[np.int64] | None = None
    """The cohort's rows that the results are about; by default all whose variants are scored."""
    memory: Any = None
    names: tuple[str, ...] = ()
    """Models that the audit's options name; the runner refuses those that the run does not have."""
    only: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """By model, which variants it is asked for, where that is not all of them."""
    explain: Mapping[str, Explain] = field(default_factory=dict)
    """By model, what it is to explain."""
    windows: bool = False
    """Whether the audit wants to know how much of each case a model reads."""


class ModelFacts(NamedTuple):
    """What a model declares of itself that an audit may plan by."""

    explains: tuple[str, ...] = ()
    reads: str = "text"
    uses_edits: bool = False
    window: str | None = None


@dataclass(frozen=True, eq=False)
class ModelPredictions:
    """One model's answers to one plan, in the plan's order; NaN where the model was not asked (`Plan.only`)."""

    labels: tuple[str, ...]
    p: NDArray[np.float64]
    seen: NDArray[np.bool_]
    """False where every edit lies outside the model's window: the answer is the parent's."""
    threshold: float | None = None
    family: str | None = None
    """The model that this is a checkpoint of, where a model has several."""
    facts: ModelFacts = field(default_factory=ModelFacts)
    visible: NDArray[np.int64] | None = None
    """How many characters of each cohort row's text the model reads, where the plan asked for `windows`; -1 where the
    row is not in the plan."""
    attributions: Attributions | None = None
    """What the model says it looked at, where the plan asked: rows of the cohort, and indices into `labels`."""


class Audit(Protocol):
    """Two pure steps. An audit is a frozen dataclass: its fields are its configuration and its saved spec."""

    @property
    def name(self) -> str:
        """The audit's one word: its file, its key in the configuration, its section of the report."""
        ...

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:
        """Say what must be scored."""
        ...

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Turn the answers into estimates."""
        ...


class KnownWords(NamedTuple):
    """Whole words that models know, sorted."""

    general: tuple[str, ...]
    """Of a language: a tokenizer's."""
    learned: tuple[str, ...]
    """Of the notes that a model was fitted on: a rare one may be a name."""


class Lender(Protocol):
    """What the runner lends to a plan: things that only models know."""

    def vocabulary(self) -> KnownWords:
        """The whole words that any model of the run knows; none where none of them tells."""
        ...

    def context_model(self, source: str) -> ContextModel:
        """A masked language model, by its `scheme:target`."""
        ...


@runtime_checkable
class Borrows(Protocol):
    """An audit whose plan needs something from models; the runner calls this in the place of `plan`."""

    def plan_with(self, cohort: Cohort, rng: np.random.Generator, lender: Lender) -> Plan:
        """Say what must be scored."""
        ...


@runtime_checkable
class ChecksModels(Protocol):
    """An audit that can tell, from what models declare, that its options do not fit them."""

    def check_models(self, plan: Plan, models: Mapping[str, ModelPredictions]) -> None:
        """Refuse them, before anything is scored: the models have given no answer yet."""
        ...


@runtime_checkable
class AsksAgain(Protocol):
    """An audit that may want more once it has seen the answers (a budget with a stopping rule)."""

    def plan_again(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> Plan | None:
        """The plan with more variants, the earlier ones among them; None: enough."""
        ...

    def without_turns(self) -> Audit:
        """The audit that asks for everything at once, for models that can be asked only once."""
        ...
