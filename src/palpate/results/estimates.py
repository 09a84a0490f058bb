"""Estimates: every number of an audit as one row of one long table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

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
