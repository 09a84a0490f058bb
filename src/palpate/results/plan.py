"""What passes between an audit and the runner: plans, predictions, and the protocols that audits follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Skip, Variants
from palpate.results.attributions import Attributions
from palpate.results.blocks import AuditResult

if TYPE_CHECKING:
    from palpate.perturb.words.substitutes import ContextModel

M = TypeVar("M")


class Explain(NamedTuple):
    """Which predictions a model is asked to explain, and by which of its methods: (case, label) pairs, in columns."""

    way: str
    row: NDArray[np.int64]
    """Rows of the cohort."""
    label: NDArray[np.int64]
    """Indices into the plan's labels."""


@dataclass(frozen=True, eq=False)
class ModelRequests:
    """What a plan asks of particular models, beyond a prediction for every variant."""

    names: tuple[str, ...] = ()
    """Models that the audit's options name; the runner refuses names that the run does not have."""
    only: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """By model: which variants it scores, where that is not all of them."""
    explain: Mapping[str, Explain] = field(default_factory=dict)
    """By model: what it is asked to explain."""
    windows: bool = False
    """Whether the audit needs to know how much of each case a model reads."""


NO_REQUESTS = ModelRequests()


@dataclass(frozen=True, eq=False)
class Plan(Generic[M]):
    """What an audit wants scored, and what it needs to remember until the predictions are there.

    >>> import polars as pl
    >>> cohort = Cohort.from_frame(pl.DataFrame({"text": ["a", "b"], "sick": [0, 1]}), labels=["sick"])
    >>> len(Plan(cohort, Variants.of_cases([0, 1]), cohort.labels).variants)
    2
    """

    cohort: Cohort
    variants: Variants
    labels: tuple[str, ...]
    skips: tuple[Skip, ...] = ()
    cases: NDArray[np.int64] | None = None
    """The rows of the cohort that the results are about; by default all rows whose variants are scored."""
    memory: M = None  # type: ignore[assignment]
    """Whatever `analyse` needs from `plan`, of a type of the audit's own."""
    requests: ModelRequests = NO_REQUESTS
    private: bool = False
    """Whether the replacements hold text of the notes: the run's list of variants then has their places only."""
    notices: tuple[str, ...] = ()
    """Concerns that planning has found already: a user hears them before anything is scored, and can stop."""


class VariantNames(NamedTuple):
    """What some variants are about, in one respect: a word, a template, a label."""

    row: NDArray[np.int64]
    """Rows of the variants."""
    code: NDArray[np.int64]
    """For each of these rows an index into `names`; -1 where it has no name."""
    names: Sequence[str]


@runtime_checkable
class NamesVariants(Protocol):
    """What a plan remembers, where it can tell its variants apart by more than their group: for readers of the run."""

    def variant_names(self) -> Mapping[str, VariantNames]:
        """Columns of names; none may hold text of a note."""
        ...


class PatientDivision(NamedTuple):
    """One way in which an audit divides its patients."""

    groups: Sequence[str]
    """`sex=female`, ..."""
    code: NDArray[np.int64]
    """For each variant an index into `groups`; -1 where it belongs to none."""
    reference: str | None = None
    """The group that the others are compared with; None: each is compared with all others."""


@runtime_checkable
class DividesPatients(Protocol):
    """What a plan remembers, where its audit compares groups of patients: refusals are counted in them, too."""

    def divisions(self) -> Sequence[PatientDivision]:
        """The ways in which the patients are divided."""
        ...


class ModelFacts(NamedTuple):
    """What a model declares about itself that an audit may plan by."""

    explains: tuple[str, ...] = ()
    reads: str = "text"
    uses_edits: bool = False
    window: str | None = None
    may_miss: bool = False


class AnswerKind(IntEnum):
    """What one answer is."""

    ANSWERED = 0
    REFUSED = 1
    UNREADABLE = 2
    NO_CHOICE = 3
    """The choices have too little of the model's probability."""
    TOO_LONG = 4
    """The note is longer than the model can read."""


class Outcomes(NamedTuple):
    """What came of asking about each variant and label; -1 where that is not known."""

    kind: NDArray[np.int8]
    mass: NDArray[np.float64]
    """The probability of all choices together; NaN where the answer is not read from log-probabilities."""
    noise: NDArray[np.float64]
    """The standard error of the mean of several answers; NaN where there is one."""
    samples: int = 1
    """Answers behind each probability."""

    def take(self, rows: NDArray[np.int64] | slice, columns: NDArray[np.int64]) -> Outcomes:
        """Some variants, and some labels."""
        kind, mass, noise = self.kind[rows][:, columns], self.mass[rows][:, columns], self.noise[rows][:, columns]
        return Outcomes(kind, mass, noise, self.samples)

    def spread(self, rows: NDArray[np.int64], n: int) -> Outcomes:
        """The outcomes at some of `n` rows."""
        kind = np.full((n, self.kind.shape[1]), -1, np.int8)
        mass, noise = np.full(kind.shape, np.nan), np.full(kind.shape, np.nan)
        kind[rows], mass[rows], noise[rows] = self.kind, self.mass, self.noise
        return Outcomes(kind, mass, noise, self.samples)


@dataclass(frozen=True, eq=False)
class ModelPredictions:
    """One model's predictions for one plan, in the plan's order.

    NaN where it was not asked (`ModelRequests.only`), and where a model that may lack scores (`may_miss`) has none.
    """

    labels: tuple[str, ...]
    p: NDArray[np.float64]
    seen: NDArray[np.bool_]
    """False where every edit lies outside the model's window: the prediction is the parent's."""
    threshold: float | None = None
    ensemble: str | None = None
    """The model that this is a member (a seed) of, where a model has several."""
    facts: ModelFacts = field(default_factory=ModelFacts)
    visible: NDArray[np.int64] | None = None
    """How many characters of each cohort row's text the model reads, where the plan asked for `windows`; -1 where the
    row is not in the plan."""
    attributions: Attributions | None = None
    """What the model says it looked at, where the plan asked: rows of the cohort, and indices into `labels`."""
    outcomes: Outcomes | None = None
    """What came of asking a language model, where this is one."""


class Predictions(Mapping[str, ModelPredictions]):
    """All models' predictions for one plan: the models that were scored, then each ensemble as one model.

    A model of several seeds is an ensemble. Its members are scored one by one; as a whole it predicts their mean
    probability, which is computed when it is first read. Audits whose metrics are not means of probabilities compute
    them for `scored` and average the members (`palpate.kit.append_ensembles`).
    """

    def __init__(self, scored: Mapping[str, ModelPredictions]) -> None:
        self.scored: dict[str, ModelPredictions] = dict(scored)
        self.ensembles: dict[str, tuple[str, ...]] = {}
        """Each ensemble's members."""
        for name, answers in self.scored.items():
            if answers.ensemble is not None:
                self.ensembles[answers.ensemble] = (*self.ensembles.get(answers.ensemble, ()), name)
        self._wholes: dict[str, ModelPredictions] = {}

    def __getitem__(self, name: str) -> ModelPredictions:
        if name in self.scored:
            return self.scored[name]
        if name not in self._wholes:
            self._wholes[name] = _mean_of([self.scored[member] for member in self.ensembles[name]])
        return self._wholes[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.scored
        yield from self.ensembles

    def __len__(self) -> int:
        return len(self.scored) + len(self.ensembles)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in order: the scored models, then the ensembles."""
        return tuple(self)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The models that are compared with each other: an ensemble stands for its members."""
        return tuple(name for name in self if name not in self.scored or self.scored[name].ensemble is None)

    def members(self, name: str) -> tuple[str, ...]:
        """The scored models behind a name: an ensemble's members, or the model itself."""
        return self.ensembles.get(name, (name,))


def _mean_of(members: list[ModelPredictions]) -> ModelPredictions:
    """Several seeds as one model: the mean probability, and of the rest what all of them share."""
    first = members[0]
    thresholds = [member.threshold for member in members if member.threshold is not None]
    visible = [member.visible for member in members if member.visible is not None]
    return replace(
        first,
        p=np.mean([member.p for member in members], axis=0),
        seen=np.any([member.seen for member in members], axis=0),
        threshold=float(np.mean(thresholds)) if len(thresholds) == len(members) else None,
        ensemble=None,
        visible=np.min(visible, axis=0) if len(visible) == len(members) else None,
        attributions=None,
        outcomes=None,
    )


class Audit(Protocol):
    """Two pure steps. An audit is a frozen dataclass: its fields are its configuration and its saved spec.

    >>> from palpate import Performance
    >>> hasattr(Performance(), "plan") and hasattr(Performance(), "analyse")
    True
    """

    @property
    def name(self) -> str:
        """The audit's one word: its folder, its key in the configuration, its section of the report."""
        ...

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[Any]:
        """Say what must be scored."""
        ...

    def analyse(self, plan: Plan[Any], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Turn the predictions into estimates."""
        ...


class KnownWords(NamedTuple):
    """Whole words that models know, sorted."""

    general: tuple[str, ...]
    """Words of a language: a tokenizer's."""
    learned: tuple[str, ...]
    """Words of the notes that a model was fitted on: a rare one may be a name."""


class ModelKnowledge(Protocol):
    """What the runner lets a plan ask of the models: things that only models know."""

    def vocabulary(self) -> KnownWords:
        """The whole words that any model of the run knows; empty where no model says."""
        ...

    def context_model(self, source: str, options: Mapping[str, Any] | None = None) -> ContextModel:
        """A masked language model, by its `scheme:target`; `options` say where it computes."""
        ...


@runtime_checkable
class PlansWithModels(Protocol):
    """An audit whose plan needs something that only models know; the runner calls this instead of `plan`."""

    def plan_with(self, cohort: Cohort, rng: np.random.Generator, knowledge: ModelKnowledge) -> Plan[Any]:
        """Say what must be scored."""
        ...


@runtime_checkable
class ChecksOptions(Protocol):
    """An audit that can tell by itself that its options name something that does not exist."""

    def check_options(self) -> None:
        """Refuse them before anything is read."""
        ...


@runtime_checkable
class ChecksCohort(Protocol):
    """An audit that can tell, from the cohort alone, that its options do not fit."""

    def check_cohort(self, cohort: Cohort) -> None:
        """Refuse them before any model is loaded."""
        ...


@runtime_checkable
class ChecksModels(Protocol):
    """An audit that can tell, from what models declare, that its options do not fit, or what they need not score."""

    def check_models(self, plan: Plan[Any], models: Predictions) -> Plan[Any] | None:
        """Refuse them before anything is scored: the models have made no prediction yet.

        A plan that is returned stands for the given one: it may ask less of some models (`ModelRequests.only`).
        """
        ...


@runtime_checkable
class AdaptiveAudit(Protocol):
    """An audit that may want more once it has seen predictions (a budget with a stopping rule)."""

    def plan_again(self, plan: Plan[Any], predictions: Predictions, rng: np.random.Generator) -> Plan[Any] | None:
        """The plan with more variants, the earlier ones among them; None when it has seen enough."""
        ...

    def without_turns(self) -> Audit:
        """The audit that asks for everything at once, for models that can be asked only once."""
        ...
