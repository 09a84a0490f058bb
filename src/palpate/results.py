"""What an audit gives back: estimates in one long table, blocks for the report, and findings in words.

Results are data. Nothing here draws, prints or writes; `report/` and `rundir` do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from palpate.attributions import Attributions
from palpate.cohort import Cohort
from palpate.edits import Skip, Variants

if TYPE_CHECKING:
    from palpate.perturb.substitutes import ContextModel

ESTIMATE_SCHEMA: dict[str, Any] = {
    "audit": pl.String,
    "model": pl.String,
    "metric": pl.String,
    "label": pl.String,
    "group": pl.String,
    "reference": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "p_value": pl.Float64,
    "significant": pl.Boolean,
    "n": pl.Int64,
    "n_positive": pl.Int64,
    "reason": pl.String,
}


@dataclass(frozen=True)
class Estimate:
    """One number. A number that can't be computed is None, and `reason` says why.

    A row with `reference` is a difference, this less that; `reference` names a model, a group or a cohort. A row
    without it is a level. `p_value` is corrected for the family of comparisons it belongs to.
    """

    audit: str
    model: str
    metric: str
    label: str
    group: str
    value: float | None
    n: int
    reference: str | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    p_value: float | None = None
    significant: bool | None = None
    n_positive: int | None = None
    reason: str | None = None


def finite(value: Any) -> float | None:
    """A float, or None where it is undefined."""
    return None if value is None or not math.isfinite(value) else float(value)


def estimates_frame(rows: Sequence[Estimate]) -> pl.DataFrame:
    """Estimates as the long table."""
    return pl.DataFrame([vars(row) for row in rows], schema=ESTIMATE_SCHEMA, orient="row")


class Block(BaseModel):
    """A piece of a report section."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    caption: str = ""


class Column(BaseModel):
    """A table's column: `kind` says how its cells are set; a `percent` is a fraction of 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: Literal["text", "number", "integer", "percent", "p_value", "interval", "flag"] = "text"
    hint: str = ""


Cell = str | int | float | bool | None | tuple[float | None, float | None, float | None]


class Table(Block):
    """Rows of cells; a cell of an `interval` column is (value, low, high)."""

    type: Literal["table"] = "table"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    collapsed: bool = False
    """Long tables start closed."""


class Axis(BaseModel):
    """Which field is drawn along an axis, and what it is called there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str
    title: str
    low: float | None = None
    high: float | None = None
    percent: bool = False


class Chart(Block):
    """Data to draw, and how.

    forest: one row a (`y` category, series) with fields value, low, high, n and, if wanted, `significant`.
    line: x and y numbers, with a band where rows have low and high. bar: y categories, x numbers, intervals
    where given. scatter: x and y numbers, `text` for the tooltip, intervals along both axes where rows have x_low,
    x_high, low and high. heatmap: x and y categories, `value`.
    histogram: rows are bins with start, end and count.
    """

    type: Literal["chart"] = "chart"
    kind: Literal["forest", "line", "bar", "scatter", "heatmap", "histogram"]
    description: str
    """What a person who can't see the chart should know."""
    x: Axis
    y: Axis
    data: tuple[dict[str, Any], ...]
    series: str | None = None
    """The field that tells lines or colours apart."""
    facet: str | None = None
    """The field that makes small multiples."""
    reference: float | None = None
    """Where a reference line stands (0 for differences)."""
    diagonal: bool = False


class Examples(Block):
    """Cases worth reading. `text` rows hold note text, and are made only with `include_text`."""

    type: Literal["examples"] = "examples"
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_note_text: bool = False


AnyBlock = Annotated[Table | Chart | Examples, Field(discriminator="type")]


class Finding(BaseModel):
    """One sentence for the first screen. `tone`: whether a reader should worry."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sentence: str
    tone: Literal["good", "neutral", "warning"] = "neutral"


@dataclass(frozen=True)
class AuditResult:
    """What one audit found."""

    audit: str
    estimates: pl.DataFrame
    blocks: tuple[Table | Chart | Examples, ...] = ()
    findings: tuple[Finding, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    replicates: pl.DataFrame | None = None
    """Bootstrap replicates of the headline numbers (model, metric, group, values): with them a later run of the
    same cohort and seed can be compared as paired."""


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
