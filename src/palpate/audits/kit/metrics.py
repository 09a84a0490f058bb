"""Metrics of (models x labels) on a population, with bootstrap replicates: their levels and paired differences as rows.

Shared by the audits whose numbers are such metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST, not_tested
from palpate.audits.kit.rows import RowWriter, pairs_of
from palpate.audits.kit.scope import Unit
from palpate.cases.edits import Ints
from palpate.results import Estimate, Predictions, finite
from palpate.stats import NOISE, bootstrap_p_value, error_interval, percentile_interval

Floats = NDArray[np.float64]
ERROR = "adaptive_calibration_error"
BY_CHANCE = "no interval: by chance alone, a calibration error is larger in the smaller group"


def append_ensembles(values: Floats, predictions: Predictions) -> Floats:
    """Measures of the scored models, [model, ...], with the mean of each ensemble's members appended.

    The result's first axis is `predictions.names`.
    """
    means = [values[place].mean(axis=0, keepdims=True) for place in member_places(predictions).values()]
    return np.concatenate([values, *means]) if means else values


def ensemble_spread(values: Floats, predictions: Predictions) -> dict[str, Floats]:
    """The standard deviation over each ensemble's members, of measures [model, ...] of the scored models."""
    return {name: values[place].std(axis=0, ddof=1) for name, place in member_places(predictions).items()}


def member_places(predictions: Predictions) -> Mapping[str, list[int]]:
    """Where each ensemble's members stand among the scored models."""
    scored = list(predictions.scored)
    return {name: [scored.index(member) for member in members] for name, members in predictions.ensembles.items()}


@dataclass(frozen=True, eq=False)
class MetricReplicates:
    """Metrics of every model and label on one population, on the data and on its resamples.

    `point` is [model, metric, label] and `values` [model, metric, label, replicate]; `values` has 0 replicates
    where no interval was asked for. NaN is undefined. Metrics may end with `NOISE`, which is not reported: the
    interval of the calibration error needs it.
    """

    population: str
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    labels: tuple[str, ...]
    point: Floats
    values: Floats
    n: NDArray[np.int64]
    """Cases, for each label."""
    n_positive: NDArray[np.int64]
    n_units: NDArray[np.int64]
    """Patients (or cases) that can be drawn: with a positive case, and with a negative one; [2, label]."""
    why_no_interval: str = ""
    why_undefined: str = ""
    averaged: tuple[str, ...] = ()
    """Of a mean over labels: the labels that it is over."""

    def reason(self, label: int, *, value: float | None, low: float | None) -> str | None:
        """Why a number or its interval is missing; None if both are there."""
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
        """Whether there are too few patients for a test."""
        return int(self.n_units[:, label].min()) < FEWEST_FOR_TEST

    @property
    def reported(self) -> range:
        """The indices of the metrics that are reported."""
        return range(len(self.metrics) - (NOISE in self.metrics))

    def level_interval(self, level: float) -> tuple[Floats, Floats]:
        """The interval of `point`; for a calibration error not percentiles, which chance biases upwards."""
        low, high = self.interval(self.values, level)
        if NOISE in self.metrics and self.values.shape[-1]:
            k, noise = self.metrics.index(ERROR), self.metrics.index(NOISE)
            ends = error_interval(self.point[:, k], self.values[:, k], self.values[:, noise], level=level)
            few = np.isnan(low[:, k])
            low[:, k], high[:, k] = (np.where(few, np.nan, end) for end in ends)
        return low, high

    def interval(self, values: Floats, level: float) -> tuple[Floats, Floats]:
        """Percentile interval of [..., label, replicate]; NaN where there are too few patients to resample."""
        if values.shape[-1] == 0:
            nothing = np.full(values.shape[:-1], np.nan)
            return nothing, nothing
        few = self.n_units.min(axis=0) < FEWEST_FOR_INTERVAL
        low, high = percentile_interval(values, level=level)
        return np.where(few, np.nan, low), np.where(few, np.nan, high)

    def with_ensembles(self, predictions: Predictions) -> MetricReplicates:
        """The same with each ensemble, the mean over its members, as a further model."""
        if not predictions.ensembles:
            return self
        return replace(
            self,
            models=predictions.names,
            point=append_ensembles(self.point, predictions),
            values=append_ensembles(self.values, predictions),
        )


def class_units(y_true: NDArray[np.uint8], patient: Ints, unit: Unit, rows: NDArray[np.bool_] | None = None) -> Ints:
    """How many patients (or cases) have a positive case of each label, and how many a negative one: [2, label].

    `rows`, [case, label], says which cases count; by default all.
    """
    positive = y_true.astype(bool)
    sides = (positive, ~positive) if rows is None else (positive & rows, ~positive & rows)
    if unit == "case":
        return np.stack([side.sum(axis=0, dtype=np.int64) for side in sides])
    names, code = np.unique(patient, return_inverse=True)
    found = np.zeros((2, len(names), y_true.shape[1]), dtype=bool)
    for k, side in enumerate(sides):
        case, label = np.nonzero(side)
        found[k, code[case], label] = True
    counts: Ints = found.sum(axis=1, dtype=np.int64)
    return counts


def level_rows(writer: RowWriter, part: MetricReplicates) -> Iterator[Estimate]:
    """One row per model, metric and label."""
    low, high = part.level_interval(writer.level)
    for m, k, j in product(range(len(part.models)), part.reported, range(len(part.labels))):
        value, below = finite(part.point[m, k, j]), finite(low[m, k, j])
        yield writer.row(
            part.models[m],
            part.metrics[k],
            part.labels[j],
            part.population,
            value,
            n=int(part.n[j]),
            n_positive=int(part.n_positive[j]),
            interval=(below, high[m, k, j]),
            reason=part.reason(j, value=value, low=below if value is not None else None),
        )


def model_differences(writer: RowWriter, part: MetricReplicates, models: Sequence[str]) -> list[Estimate]:
    """Every pair of models, paired on the same resamples; p-values are not corrected yet (see `corrected`)."""
    rows: list[Estimate] = []
    for model, reference in pairs_of(models):
        a, b = part.models.index(model), part.models.index(reference)
        point, values = part.point[a] - part.point[b], part.values[a] - part.values[b]
        rows += _difference_rows(writer, part, model, reference, point, values)
    return rows


def population_differences(
    writer: RowWriter, part: MetricReplicates, reference: MetricReplicates, models: Sequence[str]
) -> list[Estimate]:
    """One population less another, for each model; p-values are not corrected yet (see `corrected`)."""
    rows: list[Estimate] = []
    for model in models:
        m = part.models.index(model)
        point, values = part.point[m] - reference.point[m], part.values[m] - reference.values[m]
        rows += _difference_rows(writer, part, model, reference.population, point, values, other=reference)
    return rows


def _difference_rows(
    writer: RowWriter,
    part: MetricReplicates,
    model: str,
    reference: str,
    point: Floats,
    values: Floats,
    other: MetricReplicates | None = None,
) -> Iterator[Estimate]:
    low, high = part.interval(values, writer.level)
    p_value = bootstrap_p_value(values, tail="normal") if values.shape[-1] else np.full(point.shape, np.nan)
    for k, j in product(part.reported, range(len(part.labels))):
        value, below = finite(point[k, j]), finite(low[k, j])
        by_chance = other is not None and part.metrics[k] == ERROR
        untested = by_chance or part.untested(j) or (other is not None and other.untested(j))
        below = None if by_chance else below
        reason = BY_CHANCE if by_chance and value is not None else part.reason(j, value=value, low=below)
        if untested and reason is None:
            reason = f"{not_tested()} with or without the label"
        if value is None and other is not None and int(other.n_positive[j]) in (0, int(other.n[j])):
            reason = f"{other.reason(j, value=None, low=None)} in {other.population}"
        yield writer.row(
            model,
            part.metrics[k],
            part.labels[j],
            part.population,
            value,
            n=int(part.n[j]),
            n_positive=int(part.n_positive[j]),
            interval=(below, high[k, j]),
            reference=reference,
            p_value=None if untested else p_value[k, j],
            reason=reason,
        )


def spread_rows(writer: RowWriter, parts: Iterable[MetricReplicates], predictions: Predictions) -> list[Estimate]:
    """The standard deviation over the members of each ensemble, one row per metric (`auroc_sd`)."""
    rows = []
    for part in parts:
        for name, spread in ensemble_spread(part.point[: len(predictions.scored)], predictions).items():
            rows += [
                writer.row(
                    name,
                    f"{part.metrics[k]}_sd",
                    part.labels[j],
                    part.population,
                    spread[k, j],
                    n=int(part.n[j]),
                    n_positive=int(part.n_positive[j]),
                    reason=part.reason(j, value=finite(spread[k, j]), low=0.0),
                )
                for k, j in product(part.reported, range(len(part.labels)))
            ]
    return rows


def replicates_frame(
    parts: Iterable[MetricReplicates], models: Sequence[str], label: str, metrics: Sequence[str]
) -> pl.DataFrame:
    """Replicates of the headline numbers: with them, a later run can be compared as paired."""
    rows = [
        (model, metric, label, part.population, part.values[m, k, part.labels.index(label)].tolist())
        for part in parts
        if label in part.labels
        for m, model in ((part.models.index(name), name) for name in models)
        for k, metric in enumerate(part.metrics)
        if metric in metrics
    ]
    schema = dict.fromkeys(("model", "metric", "label", "group"), pl.String)
    return pl.DataFrame(rows, schema={**schema, "values": pl.List(pl.Float64)}, orient="row")
