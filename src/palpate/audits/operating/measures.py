"""Decisions at every operating point, for one label, on the data and on the same resamples of patients.

Operating points take the place of labels in one bootstrap: a resample is drawn once, so that models and points are
compared on the same patients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import MetricReplicates, class_units, cluster_sizes, member_places, weighing
from palpate.audits.kit.scope import Unit
from palpate.audits.operating.plan import AlertPlan, StayRows
from palpate.audits.operating.points import AlertPoint
from palpate.results import Plan, Predictions
from palpate.stats import bootstrap

Floats = NDArray[np.float64]
RATES = ("sensitivity", "specificity", "ppv", "npv", "flag_rate")
ALERTS = ("true_alerts", "false_alerts")
"""Shares of all decisions, which net benefit is made of; not reported."""
_RESAMPLED = ("sensitivity", "specificity", "ppv", "npv", "prevalence")
MOST_CURVES = 4
"""Labels whose curves are drawn."""
_CURVE = np.unique(np.concatenate([np.geomspace(0.002, 1.0, 45), np.linspace(0.02, 1.0, 50)]))
"""Shares that are flagged along a curve."""


class Decided(NamedTuple):
    """The decisions to be made, one per stay or case, and every scored model's risk for each."""

    y_true: NDArray[np.uint8]
    """[decision, label]"""
    y_score: Floats
    """[model, decision, label]"""
    patient: NDArray[np.int64]
    weight: Floats | None = None

    @classmethod
    def of(cls, plan: Plan[AlertPlan], predictions: Predictions, rows: StayRows, combine: str) -> Decided:
        """A stay's risk is the highest of its predictions, or the first; its sampling weight is its cases' largest."""
        cases, stays = plan.variants.parent, plan.cohort.stays
        # Of all rows: those at the event, which may be the only ones with the label, have no decision any more, and
        # some have no score or no weight.
        known, whole = np.unique(stays[cases]), np.flatnonzero(np.isin(stays, stays[cases]))
        y_true = np.zeros((len(known), len(plan.labels)), np.uint8)
        np.maximum.at(y_true, np.searchsorted(known, stays[whole]), plan.cohort.y_true(whole, plan.labels))
        y_score = np.stack([answers.p for answers in predictions.scored.values()])
        scores = rows.highest(y_score) if combine == "max" else rows.first(y_score)
        first = rows.order[rows.start]
        stay = np.searchsorted(known, stays[cases[first]])
        return cls(y_true[stay], scores, rows.patient, plan.cohort.weights_of(cases[first], by_stay=True))


class AlertSampling(NamedTuple):
    """How decisions are resampled."""

    unit: Unit
    n_replicates: int
    seed: int


def measure_points(
    decided: Decided,
    points: Sequence[AlertPoint],
    labels: Sequence[str],
    predictions: Predictions,
    how: AlertSampling,
) -> Iterator[list[MetricReplicates]]:
    """Label by label, one part for each point."""
    n_models, n = decided.y_score.shape[:2]
    shape = (n, len(points))
    for j, label in enumerate(labels):
        y_true = np.broadcast_to(decided.y_true[:, j, None], shape)
        threshold = np.stack([point.threshold[:, j] for point in points], axis=1)
        found = bootstrap(
            y_true,
            np.broadcast_to(decided.y_score[:, :, j, None], (n_models, *shape)),
            metrics=_RESAMPLED,
            threshold=threshold,
            unit=how.unit,
            patient=decided.patient,
            weight=decided.weight,
            n_replicates=how.n_replicates,
            rng=how.seed,
            method="auto",
        )
        counts: dict[str, Any] = {
            "n": np.asarray([n]),
            "n_positive": y_true[:, :1].sum(axis=0, dtype=np.int64),
            "n_units": class_units(y_true[:, :1], decided.patient, how.unit),
            "sizes": cluster_sizes(y_true[:, :1], decided.patient, how.unit, weight=decided.weight),
            "weighing": weighing(y_true[:, :1], decided.weight),
        }
        point, values = with_shares(found.point), with_shares(found.values)
        yield [
            MetricReplicates(
                population=each.name,
                models=tuple(predictions.scored),
                metrics=(*RATES, *ALERTS),
                labels=(label,),
                point=point[:, :, k : k + 1],
                values=values[:, :, k : k + 1],
                why_undefined="no threshold, or nobody on one side of it: a denominator is 0",
                **counts,
            ).with_ensembles(predictions)
            for k, each in enumerate(points)
        ]


def with_shares(resampled: Floats) -> Floats:
    """[model, metric, ...] of what the bootstrap computes, with the shares of all decisions that follow from it."""
    have = {name: resampled[:, k] for k, name in enumerate(_RESAMPLED)}
    positive = have["prevalence"]
    have["true_alerts"] = np.where(positive > 0, have["sensitivity"] * positive, 0.0)
    have["false_alerts"] = np.where(positive < 1, (1.0 - have["specificity"]) * (1.0 - positive), 0.0)
    have["flag_rate"] = np.clip(have["true_alerts"] + have["false_alerts"], 0.0, 1.0)
    return np.stack([have[name] for name in (*RATES, *ALERTS)], axis=1)


class AlertCurve(NamedTuple):
    """What a model finds as more and more are flagged."""

    model: str
    label: str
    flagged: Floats
    sensitivity: Floats
    ppv: Floats


def alert_curves(decided: Decided, labels: Sequence[str], predictions: Predictions) -> list[AlertCurve]:
    """Of every model that is compared; that of an ensemble is the mean of its members' curves."""
    places, scored = member_places(predictions), list(predictions.scored)
    weight = np.ones(len(decided.patient)) if decided.weight is None else decided.weight
    found = []
    for j, label in enumerate(labels[:MOST_CURVES]):
        y_true = decided.y_true[:, j]
        if not 0 < int(y_true.sum()) < len(y_true):
            continue
        for model in predictions.compared:
            members = places.get(model) or [scored.index(model)]
            curves = [flag_curve(y_true, decided.y_score[m, :, j], weight) for m in members]
            found.append(AlertCurve(model, label, *np.mean(curves, axis=0)))
    return found


def flag_curve(y_true: NDArray[np.uint8], y_score: Floats, weight: Floats) -> Floats:
    """Share flagged, sensitivity and PPV, [3, point]: at the scores next to given shares, tied ones together."""
    order = np.argsort(-y_score, kind="stable")
    score, mass = y_score[order], weight[order]
    flagged = np.cumsum(mass)
    hits = np.cumsum(mass * y_true[order])
    last = np.searchsorted(-score, -score, side="right") - 1  # the last of the rows that tie with each
    at = last[np.minimum(np.searchsorted(flagged, _CURVE * flagged[-1] * (1 - 1e-12)), len(score) - 1)]
    return np.stack([flagged[at] / flagged[-1], hits[at] / hits[-1], hits[at] / flagged[at]])
