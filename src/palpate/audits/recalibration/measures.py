"""Maps from risks to recalibrated risks, fitted on the validation split, and what they change on the held-out cases.

Which method would be taken is told by the validation split alone (log loss in cross-validation by patient), so that the
held-out cases stay a fair test of it. Before and after are measured on the same replicates of patients, with the map
held fixed: they are about this map, on other patients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.metrics import MetricReplicates
from palpate.audits.kit.risks import CORE, BenefitRange, CaseRisks, measure_risks
from palpate.audits.recalibration.plan import FitAndTest
from palpate.results import Estimate, Plan, Predictions
from palpate.stats import bootstrap
from palpate.stats.risks.recalibration import Method, RiskMap, fit_map
from palpate.stats.score_intervals import class_units

Floats = NDArray[np.float64]
BEFORE = "as it is"
FEWEST: Mapping[Method, int] = {"intercept": 10, "slope": 20, "isotonic": 50}
"""Patients with and patients without the outcome that a method needs in the validation split."""
_EXACT = 1e-6
SQUARES = ("brier", "auroc")
METRICS = (*CORE, *SQUARES)
_FOLDS = 5
_LEAST_RISK = 1e-6


class SplitCases(NamedTuple):
    """The cases of one split with the risks of every model."""

    y_true: NDArray[np.uint8]
    """[case, label]"""
    y_score: Floats
    """[model, case, label]"""
    patient: NDArray[np.int64]
    weight: Floats | None

    @classmethod
    def of(cls, plan: Plan[FitAndTest], predictions: Predictions, part: slice) -> SplitCases:
        """Of a plan; an ensemble has the mean risk of its members."""
        rows = plan.variants.parent[part]
        risks = np.stack([predictions[name].p[part] for name in predictions.compared])
        return cls(
            plan.cohort.y_true(rows, plan.labels), risks, plan.cohort.patients[rows], plan.cohort.weights_of(rows)
        )


class FittedMap(NamedTuple):
    """One method for one model and label."""

    model: str
    label: str
    map: RiskMap
    why_not: str | None
    """Why there is none."""
    log_loss: float
    """On patients of the validation split that it was not fitted on; nan without a map."""

    @property
    def name(self) -> str:
        """The method."""
        return self.map.method


class Offer(NamedTuple):
    """What is offered for one model and label."""

    model: str
    label: str
    maps: tuple[FittedMap, ...]
    chosen: str
    """The method with the least log loss in cross-validation, or `BEFORE`."""
    n: int
    n_patients: int
    n_positive: int
    """Of the validation split."""


def fit_offers(
    cases: SplitCases, models: Sequence[str], labels: Sequence[str], methods: Sequence[Method], rng: np.random.Generator
) -> list[Offer]:
    """Every method for every model and label."""
    units = class_units(cases.y_true, cases.patient, "patient").min(axis=0)
    names, code = np.unique(cases.patient, return_inverse=True)
    fold = rng.permutation(len(names))[code] % _FOLDS
    offers = []
    for m, model in enumerate(models):
        for j, label in enumerate(labels):
            y, p = cases.y_true[:, j].astype(np.float64), cases.y_score[m, :, j]
            maps = tuple(_fitted(model, label, method, y, p, cases.weight, fold, int(units[j])) for method in methods)
            losses = {BEFORE: _log_loss(y, p, cases.weight)}
            losses |= {each.name: each.log_loss for each in maps if each.why_not is None}
            chosen = min(losses, key=losses.__getitem__)
            offers.append(Offer(model, label, maps, chosen, len(y), len(names), int(y.sum())))
    return offers


def _fitted(
    model: str,
    label: str,
    method: Method,
    y: Floats,
    p: Floats,
    weight: Floats | None,
    fold: NDArray[np.int64],
    n_rarer: int,
) -> FittedMap:
    fitted = fit_map(y, p, method=method, weight=weight)
    if n_rarer < FEWEST[method]:
        why = f"not fitted: fewer than {FEWEST[method]} patients with or without '{label}' in the validation split"
        return FittedMap(model, label, fitted, why, float("nan"))
    if not fitted.known:
        why = "not fitted: the risks are all the same, or separate the outcomes completely"
        return FittedMap(model, label, fitted, why, float("nan"))
    held = np.full(len(y), np.nan)
    for k in range(_FOLDS):
        out = fold == k
        own = None if weight is None else weight[~out]
        held[out] = fit_map(y[~out], p[~out], method=method, weight=own).apply(p[out])
    loss = _log_loss(y, held, weight) if np.isfinite(held).all() else float("inf")
    return FittedMap(model, label, fitted, None, loss)


def _log_loss(y: Floats, p: Floats, weight: Floats | None) -> float:
    risk = np.clip(p, _LEAST_RISK, 1.0 - _LEAST_RISK)
    return float(-np.average(y * np.log(risk) + (1.0 - y) * np.log1p(-risk), weights=weight))


@dataclass(frozen=True)
class Testing:
    """How the held-out cases are measured."""

    threshold: Floats
    """[model, label], the same before and after."""
    benefit: BenefitRange
    n_replicates: int
    seed: int


def measure_maps(
    cases: SplitCases, offers: Sequence[Offer], models: Sequence[str], labels: Sequence[str], how: Testing
) -> dict[str, list[MetricReplicates]]:
    """Before and after each method: the core set, and Brier score and AUROC; `BEFORE` first."""
    methods = [BEFORE, *(each.name for each in offers[0].maps)]
    risks = np.stack([_applied(cases, offers, method, models, labels) for method in methods])
    undefined: NDArray[np.bool_] = np.asarray(np.isnan(risks).any(axis=2))  # [method, model, label]
    shape = (-1, *risks.shape[2:])
    filled = np.where(undefined[:, :, None], cases.y_score, risks).reshape(shape)
    pseudo = [f"{method}/{model}" for method in methods for model in models]
    threshold = np.tile(how.threshold, (len(methods), 1))
    whole = CaseRisks(BEFORE, cases.y_true, filled, threshold, cases.patient, how.seed, weight=cases.weight)
    core = measure_risks(whole, pseudo, labels, how.benefit, how.n_replicates)
    squares = bootstrap(
        cases.y_true,
        filled,
        metrics=SQUARES,
        patient=cases.patient,
        weight=cases.weight,
        n_replicates=how.n_replicates,
        rng=how.seed,
    )
    # One part for each metric: a difference is known to be 0 where all numbers of its part are the same.
    others = [
        MetricReplicates(
            BEFORE,
            tuple(pseudo),
            (name,),
            tuple(labels),
            squares.point[:, at : at + 1],
            squares.values[:, at : at + 1],
            **whole.counts,
        )
        for at, name in enumerate(SQUARES)
    ]
    return {
        method: [_of_method(part, k, method, models, undefined[k]) for part in (core, *others)]
        for k, method in enumerate(methods)
    }


def _applied(
    cases: SplitCases, offers: Sequence[Offer], method: str, models: Sequence[str], labels: Sequence[str]
) -> Floats:
    """The risks [model, case, label] after a method; nan where there is no map."""
    if method == BEFORE:
        return cases.y_score
    out = np.full(cases.y_score.shape, np.nan)
    for offer in offers:
        m, j = models.index(offer.model), labels.index(offer.label)
        found = next(each for each in offer.maps if each.name == method)
        if found.why_not is None:
            out[m, :, j] = found.map.apply(cases.y_score[m, :, j])
    return out


def _of_method(
    part: MetricReplicates, k: int, method: str, models: Sequence[str], undefined: NDArray[np.bool_]
) -> MetricReplicates:
    """The models after one method, as a population of its own."""
    own = slice(k * len(models), (k + 1) * len(models))
    blank = undefined[:, None, :]
    own_part = replace(
        part,
        population=method,
        models=tuple(models),
        point=np.where(blank, np.nan, part.point[own]),
        values=np.where(blank[..., None], np.nan, part.values[own]),
    )
    if not undefined.any():
        return own_part
    few = f"no map, or no finite curve: a method needs {FEWEST.get(method, 0)} patients with and without the outcome"  # type: ignore[call-overload]
    return replace(own_part, why_undefined=few)


def with_known_changes(rows: Sequence[Estimate], levels: Sequence[Estimate], offers: Sequence[Offer]) -> list[Estimate]:
    """Changes of slope and intercept with what is known of them, whoever the patients are.

    A shift of the log odds moves the intercept by its size and keeps the slope: there is no doubt, and nothing is
    tested. A stretch by b divides the slope by b, so that its change is as sure as the slope is.
    """
    maps = {
        (offer.model, offer.label, each.name): each.map
        for offer in offers
        for each in offer.maps
        if each.why_not is None
    }
    before = {
        (row.model, row.label): row for row in levels if row.group == BEFORE and row.metric == "calibration_slope"
    }
    out = []
    for row in rows:
        own, slope = maps.get((row.model, row.label, row.group)), before.get((row.model, row.label))
        if own is None or slope is None or row.value is None:
            out.append(row)
        elif row.group == "intercept":
            out.append(_shifted(row, own.intercept))
        else:
            out.append(_stretched(row, slope, own.slope) if row.group == "slope" else row)
    return out


def _shifted(row: Estimate, shift: float) -> Estimate:
    if row.metric not in ("calibration_slope", "calibration_intercept"):
        return row
    change = -shift if row.metric == "calibration_intercept" else 0.0
    if abs((row.value or 0.0) - change) > _EXACT:  # risks of 0 or 1 do not move
        return row
    known = "the same in any patients, so not tested"
    return replace(row, value=change, low=change, high=change, p_value=None, reason=known)


def _stretched(row: Estimate, before: Estimate, stretch: float) -> Estimate:
    if row.metric != "calibration_slope" or None in (row.low, before.value, before.low, before.high) or stretch == 0:
        return row
    share = 1.0 / stretch - 1.0
    value, low, high = (share * (each or 0.0) for each in (before.value, before.low, before.high))
    if abs((row.value or 0.0) - value) > _EXACT:
        return row
    return replace(row, low=min(low, high), high=max(low, high))
