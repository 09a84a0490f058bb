"""From bootstrap replicates to estimates: levels, paired differences, and why a number is not there.

Shared by the audits whose numbers are metrics of (models x labels) on some population.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.results import Estimate, finite
from palpate.stats import NOISE, adjust, bootstrap_p_value, error_interval, percentile_interval

Correction = Literal["bonferroni", "holm", "benjamini-hochberg"]
FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST = 2, 10
ERROR = "adaptive_calibration_error"
BY_CHANCE = "no interval: chance makes a calibration error larger in the smaller group"
HIGHER_IS_BETTER = {"brier": False, "adaptive_calibration_error": False}
"""Metrics are better when higher, except these."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Metrics of every model and label on one population, on the data and on its resamples.

    `point` is [model, metric, label] and `values` [model, metric, label, replicate]; `values` has 0 replicates
    where an interval was not asked for. NaN is undefined. Metrics may end with `NOISE`, which is not
    told: the interval of the calibration error needs it.
    """

    population: str
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    labels: tuple[str, ...]
    point: NDArray[np.float64]
    values: NDArray[np.float64]
    n: NDArray[np.int64]
    """Cases, for each label."""
    n_positive: NDArray[np.int64]
    n_units: NDArray[np.int64]
    """Patients (or cases) that can be drawn: with a positive case, and with a negative one; [2, label]."""
    why_no_interval: str = ""
    why_undefined: str = ""
    averaged: tuple[str, ...] = ()
    """Of a mean over labels, which ones."""

    def reason(self, label: int, *, value: float | None, low: float | None) -> str | None:
        """Why a number or its interval is not there; None if both are."""
        n, n_positive = int(self.n[label]), int(self.n_positive[label])
        if value is None:
            if n == 0:
                return "no case"
            if n_positive == 0:
                return "no positive case"
            if n_positive == n:
                return "no negative case"
            return self.why_undefined or "undefined: a denominator is 0"
        if low is None and int(self.n_units[:, label].min()) < FEWEST_FOR_INTERVAL:
            return f"no interval: fewer than {FEWEST_FOR_INTERVAL} patients with or without the label"
        if low is None:
            return self.why_no_interval or "no interval: the metric is undefined in more than 5% of the resamples"
        return None

    def untested(self, label: int) -> bool:
        """Whether there are too few patients for a test: the bootstrap of a handful is too sure of itself."""
        return int(self.n_units[:, label].min()) < FEWEST_FOR_TEST

    @property
    def told(self) -> range:
        """The metrics that are told, by their place."""
        return range(len(self.metrics) - (NOISE in self.metrics))

    def level_interval(self, level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The interval of `point`; of a calibration error not by percentiles, which chance makes too high."""
        low, high = self.interval(self.values, level)
        if NOISE in self.metrics and self.values.shape[-1]:
            k, noise = self.metrics.index(ERROR), self.metrics.index(NOISE)
            ends = error_interval(self.point[:, k], self.values[:, k], self.values[:, noise], level=level)
            few = np.isnan(low[:, k])
            low[:, k], high[:, k] = (np.where(few, np.nan, end) for end in ends)
        return low, high

    def interval(self, values: NDArray[np.float64], level: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Percentile interval of [..., label, replicate]; NaN where there are too few patients to resample."""
        if values.shape[-1] == 0:
            nothing = np.full(values.shape[:-1], np.nan)
            return nothing, nothing
        few = self.n_units.min(axis=0) < FEWEST_FOR_INTERVAL
        low, high = percentile_interval(values, level=level)
        return np.where(few, np.nan, low), np.where(few, np.nan, high)


def levels(audit: str, measured: Measured, *, level: float) -> Iterator[Estimate]:
    """One row a model, metric and label."""
    low, high = measured.level_interval(level)
    for m, k, j in product(range(len(measured.models)), measured.told, range(len(measured.labels))):
        value, below, above = finite(measured.point[m, k, j]), finite(low[m, k, j]), finite(high[m, k, j])
        if value is None:
            below = above = None
        yield Estimate(
            audit=audit,
            model=measured.models[m],
            metric=measured.metrics[k],
            label=measured.labels[j],
            group=measured.population,
            value=value,
            low=below,
            high=above,
            level=level,
            n=int(measured.n[j]),
            n_positive=int(measured.n_positive[j]),
            reason=measured.reason(j, value=value, low=below),
        )


def model_differences(audit: str, measured: Measured, models: Sequence[str], *, level: float) -> list[Estimate]:
    """Every pair of models, paired on the same resamples; p is not corrected yet (see `corrected`)."""
    index = [measured.models.index(name) for name in models]
    rows: list[Estimate] = []
    for second in range(1, len(index)):
        for first in range(second):
            a, b = index[second], index[first]
            rows += _differences(
                audit,
                measured,
                model=measured.models[a],
                reference=measured.models[b],
                point=measured.point[a] - measured.point[b],
                values=measured.values[a] - measured.values[b],
                level=level,
            )
    return rows


def population_differences(
    audit: str,
    measured: Measured,
    reference: Measured,
    models: Sequence[str],
    *,
    level: float,
) -> list[Estimate]:
    """One population less another, for each model; p is not corrected yet (see `corrected`)."""
    rows: list[Estimate] = []
    for name in models:
        m = measured.models.index(name)
        rows += _differences(
            audit,
            measured,
            model=name,
            reference=reference.population,
            point=measured.point[m] - reference.point[m],
            values=measured.values[m] - reference.values[m],
            level=level,
            other=reference,
        )
    return rows


def _differences(
    audit: str,
    measured: Measured,
    *,
    model: str,
    reference: str,
    point: NDArray[np.float64],
    values: NDArray[np.float64],
    level: float,
    other: Measured | None = None,
) -> Iterator[Estimate]:
    low, high = measured.interval(values, level)
    p_value = bootstrap_p_value(values, tail="normal") if values.shape[-1] else np.full(point.shape, np.nan)
    for k, j in product(measured.told, range(len(measured.labels))):
        value, below, above = finite(point[k, j]), finite(low[k, j]), finite(high[k, j])
        by_chance = other is not None and measured.metrics[k] == ERROR
        untested = by_chance or measured.untested(j) or (other is not None and other.untested(j))
        below, above = (None, None) if by_chance else (below, above)
        reason = BY_CHANCE if by_chance and value is not None else measured.reason(j, value=value, low=below)
        if untested and reason is None:
            reason = f"not tested: fewer than {FEWEST_FOR_TEST} patients with or without the label"
        if value is None and other is not None and int(other.n_positive[j]) in (0, int(other.n[j])):
            reason = f"{other.reason(j, value=None, low=None)} in {other.population}"
        yield Estimate(
            audit=audit,
            model=model,
            metric=measured.metrics[k],
            label=measured.labels[j],
            group=measured.population,
            reference=reference,
            value=value,
            low=below if value is not None else None,
            high=above if value is not None else None,
            level=level,
            p_value=finite(p_value[k, j]) if value is not None and not untested else None,
            n=int(measured.n[j]),
            n_positive=int(measured.n_positive[j]),
            reason=reason,
        )


def corrected(rows: Sequence[Estimate], correction: Correction, level: float, *, headline: str) -> list[Estimate]:
    """The rows with p corrected, and whether each is significant.

    A family is all rows of one metric; the headline label is a family of its own, so that a hundred rare labels do not
    decide what is said of the whole.
    """
    out = list(rows)
    families: dict[tuple[str, bool], list[int]] = {}
    for k, row in enumerate(rows):
        families.setdefault((row.metric, row.label == headline), []).append(k)
    for family in families.values():
        raw = [math.nan if (p := out[k].p_value) is None else p for k in family]
        for k, p in zip(family, adjust(raw, method=correction), strict=True):
            if not math.isnan(p):
                out[k] = replace(out[k], p_value=float(p), significant=bool(p < 1 - level))
    return out


def replicates_frame(
    measured: Sequence[Sequence[Measured]], models: Sequence[str], label: str, metrics: Sequence[str]
) -> pl.DataFrame:
    """Replicates of the headline numbers: with them a later run can be compared as paired."""
    rows = [
        (model, metric, label, part.population, part.values[m, k, part.labels.index(label)].tolist())
        for part in (part for parts in measured for part in parts if label in part.labels)
        for m, model in ((part.models.index(name), name) for name in models)
        for k, metric in enumerate(part.metrics)
        if metric in metrics
    ]
    schema = dict.fromkeys(("model", "metric", "label", "group"), pl.String)
    return pl.DataFrame(rows, schema={**schema, "values": pl.List(pl.Float64)}, orient="row")
