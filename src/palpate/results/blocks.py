"""Report blocks as data (tables, charts, examples) and findings in words; `report/` draws them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from palpate.privacy import hides
from palpate.results.verdicts import Answer


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
    labels: tuple[str, ...] | None = None
    """What 0, 1, 2, ... are called along the axis: the periods of a time line."""


class Chart(Block):
    """Data to draw, and how.

    forest: one row per (`y` category, series) with fields value, low, high, n and, if wanted, `significant`.
    line: x and y numbers, with a band where rows have low and high; `marked` rows are points beside it, with their
    `text`. bar: y categories, x numbers, intervals where given. scatter: x and y numbers, `text` for the tooltip,
    intervals along both axes where rows have x_low, x_high, low and high. heatmap: x and y categories, `value`.
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


@hides("rows")
class Examples(Block):
    """Cases worth reading. `text` rows hold note text, and are made only with `include_text`."""

    type: Literal["examples"] = "examples"
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_note_text: bool = False


AnyBlock = Annotated[Table | Chart | Examples, Field(discriminator="type")]


FindingKind = Literal["concern", "caution", "unsettled", "acceptable", "caveat", "fact"]


ONE_COHORT = "This audit is about {one} alone, not about {others} (its option `cohort`)."
"""The finding of an audit that is about one of several cohorts."""


class Finding(BaseModel):
    """One sentence for the first screen.

    `kind` is the verdict on the effect that the sentence is about; `caveat` limits what an answer is worth (notes that
    could not be altered, raters who disagree); `fact` is all else. `question` names the answer that it belongs to; a
    concern without one is about the data or the model as a whole and is read before everything else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sentence: str
    kind: FindingKind = "fact"
    question: str | None = None


@dataclass(frozen=True)
class AuditResult:
    """What one audit found.

    >>> AuditResult("performance", estimates=pl.DataFrame()).findings
    ()
    """

    audit: str
    estimates: pl.DataFrame
    blocks: tuple[Table | Chart | Examples, ...] = ()
    findings: tuple[Finding, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    replicates: pl.DataFrame | None = None
    """Bootstrap replicates of the headline numbers (model, metric, group, values): with them a later run of the
    same cohort and seed can be compared as paired."""
    answers: tuple[Answer, ...] = ()
    """The audit's cells of the scorecard."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """What else is kept with the run, by name, for commands that read it; note text only with `include_text`."""
