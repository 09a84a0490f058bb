"""Metrics of (models x labels) on a population, with bootstrap replicates: their levels and intervals as rows.

Shared by the audits whose numbers are such metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST
from palpate.audits.kit.rows import RowWriter
from palpate.results import MACRO, Estimate, Predictions, finite
from palpate.stats import NOISE, CalibrationCurve, calibration_curve, macro_average
from palpate.stats.intervals import Interval
from palpate.stats.score_intervals import (
    ERROR,
    Counts,
    Spread,
    Weighing,
    calibration_interval,
    class_units,
    cluster_sizes,
    contrast_interval,
    defined_error,
    mean_interval,
    metric_intervals,
    weighing,
)

__all__ = [
    "BY_CHANCE",
    "ERROR",
    "MetricReplicates",
    "append_ensembles",
    "class_units",
    "cluster_sizes",
    "curve_of_members",
    "ensemble_spread",
    "incomparable_scores",
    "level_rows",
    "member_places",
    "replicates_frame",
    "spread_rows",
    "weighing",
    "with_derived",
]
Floats = NDArray[np.float64]
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


def curve_of_members(
    y_true: NDArray[np.uint8],
    y_score: Floats,
    members: Sequence[int],
    *,
    n_bins: int,
    per_unit: float,
    weight: Floats | None = None,
) -> CalibrationCurve:
    """The calibration of a model; of an ensemble, the mean of its members' curves in the widest of their bands.

    `y_score` is [model, case], and `members` are the places of the ensemble's members in it, or that of the model.
    """
    curves = [calibration_curve(y_true, y_score[m], n_bins=n_bins, per_unit=per_unit, weight=weight) for m in members]
    x, y, n, low, high = (np.stack(each) for each in zip(*curves, strict=True))
    return CalibrationCurve(x.mean(0), y.mean(0), n.mean(0), low.min(0), high.max(0))


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
    sizes: Floats | None = None
    """Cases of a class per patient (`cluster_sizes`), [2, label]."""
    weighing: Weighing | None = None
    """What sampling weights leave of the cases' precision."""
    why_no_interval: str = ""
    why_undefined: str = ""
    averaged: tuple[str, ...] = ()
    """Of a mean over labels: the labels that it is over."""
    over: MetricReplicates | None = None
    """Of a mean over labels: their own metrics, where they were resampled one by one."""
    kept: NDArray[np.bool_] | None = None
    """Which of them each metric is averaged over, [metric, label]."""
    members: tuple[tuple[int, ...], ...] = ()
    """Of each ensemble, which stand last among the models: the places of its members."""
    unscored: NDArray[np.bool_] | None = None
    """Which models have no score for which label, [model, label]; None where all have."""
    _spreads: dict[float, Spread] = field(default_factory=dict, init=False, repr=False)

    def reason(self, label: int, *, value: float | None, low: float | None, metric: str = "") -> str | None:  # noqa: ARG002
        """Why a number or its interval is missing; None if both are there. `metric` is for kinds of metrics that have
        reasons of their own (`RiskReplicates`)."""
        n, n_positive = int(self.n[label]), int(self.n_positive[label])
        if value is None:
            if n == 0:
                return "no case"
            if n_positive == 0:
                return "no positive case"
            if n_positive == n:
                return "no negative case"
            return self.why_undefined or "undefined: a denominator is 0"
        if low is None and (self.why_no_interval or self.values.shape[-1] == 0):
            return self.why_no_interval or "no interval: nothing was resampled"
        if low is None and int(self.n_units[:, label].min()) < FEWEST_FOR_INTERVAL:
            return f"no interval: fewer than {FEWEST_FOR_INTERVAL} patients with or without the label"
        return None if low is not None else f"no interval: a share of fewer than {FEWEST_FOR_INTERVAL} patients"

    def without_score(self, model: str, label: int) -> str | None:
        """Why a model has no number for a label; None where it has scores."""
        if self.unscored is None or not self.unscored[self.models.index(model), label]:
            return None
        return f"{model} has no score for '{self.labels[label]}' in a case that the others scored"

    def untested(self, label: int) -> bool:
        """Whether there are too few patients for a test."""
        return int(self.n_units[:, label].min()) < FEWEST_FOR_TEST

    @property
    def reported(self) -> range:
        """The indices of the metrics that are reported."""
        return range(len(self.metrics) - (NOISE in self.metrics))

    @property
    def counts(self) -> Counts:
        """Rows and patients of each label."""
        return Counts(self.n, self.n_positive, self.n_units, self.sizes, self.weighing)

    def spread(self, level: float) -> Spread:
        """Interval and standard error of every number in `point`."""
        if level not in self._spreads:
            n_scored = len(self.models) - len(self.members)
            scored = replace(self, point=self.point[:n_scored], values=self.values[:n_scored], members=())
            found = scored._scored_spread(level)
            means = [self._ensemble_spread(k, found, level) for k in range(len(self.members))]
            self._spreads[level] = Spread(*(np.concatenate(parts) for parts in zip(found, *means, strict=True)))
        return self._spreads[level]

    def _scored_spread(self, level: float) -> Spread:
        if self.values.shape[-1] == 0:
            return Spread(*[np.full(self.point.shape, np.nan)] * 3)
        if self.labels != (MACRO,):
            return self._label_spread(level)
        low, high, error = mean_interval(self.point, self.values, self.counts, level=level)
        if self.over is not None and self.kept is not None:
            parts, kept = self.over.spread(level), self.kept & ~np.isnan(self.over.point).any(axis=0)
            weight = kept / np.maximum(kept.sum(axis=1, keepdims=True), 1)
            columns = [np.where(kept, part, 0.0) for part in (self.over.point, *parts)]
            each = [[part[:, :, j] for part in columns] for j in range(kept.shape[1])]
            ends = contrast_interval(
                [part[0] for part in each],
                [Interval(part[1], part[2]) for part in each],
                [part[3] for part in each],
                list(weight.T),
                error[:, :, 0],
            )
            low, high = (np.where(np.isnan(self.point), np.nan, end[:, :, None]) for end in ends)
        allow_for_bias(self.metrics, Interval(low, high), self.point, self.values)
        return self._with_error_interval(Spread(low, high, error), level)

    def _label_spread(self, level: float) -> Spread:
        return metric_intervals(self.metrics, self.point, self.values, self.counts, level=level)

    def _ensemble_spread(self, k: int, scored: Spread, level: float) -> Spread:
        """Of the mean over an ensemble's members."""
        at, places = len(self.models) - len(self.members) + k, self.members[k]
        error = defined_error(self.values[at : at + 1])
        ends = contrast_interval(
            [self.point[m] for m in places],
            [Interval(scored.low[m], scored.high[m]) for m in places],
            [scored.error[m] for m in places],
            [1.0 / len(places)] * len(places),
            error[0],
        )
        one = replace(self, models=self.models[at : at + 1], point=self.point[at : at + 1], members=(), over=None)
        one = replace(one, values=self.values[at : at + 1])
        return one._with_error_interval(Spread(ends.low[None], ends.high[None], error), level)

    def _with_error_interval(self, spread: Spread, level: float) -> Spread:
        """A mean of calibration errors is as biased as they are, so its interval is not made from theirs."""
        if NOISE in self.metrics and self.values.shape[-1]:
            k, noise = self.metrics.index(ERROR), self.metrics.index(NOISE)
            ends = calibration_interval(
                self.point[:, k], self.values[:, k], self.values[:, noise], self.counts, level=level
            )
            for own, end in zip(spread[:2], ends, strict=True):
                own[:, k] = np.where(np.isnan(own[:, k]), np.nan, end)
        return spread

    def with_ensembles(self, predictions: Predictions) -> MetricReplicates:
        """The same with each ensemble, the mean over its members, as a further model."""
        if not predictions.ensembles:
            return self
        return replace(
            self,
            models=predictions.names,
            point=append_ensembles(self.point, predictions),
            values=append_ensembles(self.values, predictions),
            members=tuple(map(tuple, member_places(predictions).values())),
            unscored=None
            if self.unscored is None
            else np.stack(
                [
                    *self.unscored,
                    *(self.unscored[place].any(axis=0) for place in member_places(predictions).values()),
                ]
            ),
        )


def level_rows(writer: RowWriter, part: MetricReplicates) -> Iterator[Estimate]:
    """One row per model, metric and label."""
    low, high, _ = part.spread(writer.level)
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
            reason=part.without_score(part.models[m], j)
            or part.reason(j, value=value, low=below if value is not None else None, metric=part.metrics[k]),
        )


def allow_for_bias(metrics: Sequence[str], ends: Interval, point: Floats, values: Floats) -> None:
    """Lengthen, in place, the interval of a mean over labels towards where its estimates are drawn away from.

    With few positives an AUPRC is too high, and a mean over labels is too high by as much, however many there are. The
    resamples are too high once more, by at least half as much.
    """
    if "auprc" in metrics and values.shape[-1]:
        k = metrics.index("auprc")
        bias = 2.0 * (macro_average(values[:, k], axis=-1) - point[:, k])
        ends.low[:, k] -= np.maximum(bias, 0.0)
        ends.high[:, k] -= np.minimum(bias, 0.0)


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
                    reason=part.without_score(name, j)
                    or part.reason(j, value=finite(spread[k, j]), low=0.0, metric=part.metrics[k]),
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


def with_derived(resampled: Floats, have: Sequence[str], wanted: Sequence[str]) -> Floats:
    """[model, metric, ...] of what the bootstrap computes, with what follows from it: flag rate, O:E, observed less
    predicted. `have` needs sensitivity, specificity, prevalence and mean score."""
    known = {name: resampled[:, k] for k, name in enumerate(have)}
    positive, predicted = known["prevalence"], known["mean_score"]
    hits = np.where(positive > 0, known["sensitivity"] * positive, 0.0)
    false = np.where(positive < 1, (1.0 - known["specificity"]) * (1.0 - positive), 0.0)
    known["flag_rate"] = np.where(np.isnan(positive), np.nan, np.clip(hits + false, 0.0, 1.0))
    ratio = np.full(positive.shape, np.nan)
    known["oe_ratio"] = np.divide(positive, predicted, out=ratio, where=predicted > 0)
    known["calibration_in_the_large"] = positive - predicted
    return np.stack([known[name] for name in wanted], axis=1)


def incomparable_scores(
    y_score: Floats,
    labels: Sequence[str],
    predictions: Predictions,
    *,
    decisions_count: bool,
    known: NDArray[np.bool_] | None = None,
) -> dict[tuple[str, str], str]:
    """(model, label) where parts of the cases cannot be compared by a model's scores, [model, case, label], and why.

    Scores of 0 and 1 alone tell nothing about risks, unless `decisions_count` says that decisions are what is compared.
    `known`, [case, label], says which cases count; by default all.
    """
    places, scored = member_places(predictions), list(predictions.scored)
    found = {}
    for model in predictions.compared:
        for j, label in enumerate(labels):
            scores = y_score[places.get(model) or [scored.index(model)], :, j]
            scores = scores if known is None else scores[:, known[:, j]]
            if not scores.size:
                continue
            if bool((scores == scores[:, :1]).all(axis=1).any()):
                found[model, label] = f"{model} gives every case the same score"
            elif not decisions_count and bool(np.isin(scores, (0.0, 1.0)).all(axis=1).any()):
                found[model, label] = f"{model} gives only 0 and 1"
    return found
