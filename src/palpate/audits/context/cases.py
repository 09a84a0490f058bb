"""The audited cases: labels, predictions, pre-test probabilities and matched pairs; and how they are measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.groups import Mask, constant_labels
from palpate.audits.context.plan import KnownHistory
from palpate.audits.kit.resampling import Family, Resampling
from palpate.cases.edits import Ints
from palpate.results import Plan, Predictions
from palpate.stats import matched_share, threshold_at_specificity

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ContextMeasuring:
    """How metrics are computed, and how cases are matched, weighted and resampled."""

    resampling: Resampling
    specificity: float
    n_bins: int
    caliper: float | None
    clip: tuple[float, float]
    family: Family = "question"

    def options(self, cases: AuditedCases) -> dict[str, Any]:
        """What every bootstrap gets, so that all share their resamples."""
        return {
            "threshold": cases.threshold,
            "specificity": self.specificity,
            "n_bins": self.n_bins,
            "unit": self.resampling.unit,
            "patient": cases.patient,
            "rng": self.resampling.seed,
            "n_replicates": self.resampling.n_replicates,
            "weight": cases.weight,
        }


@dataclass(frozen=True, eq=False)
class AuditedCases:
    """The audited cases and the predictions of every scored model."""

    y_true: NDArray[np.uint8]
    y_score: Floats
    """[model, case, label]"""
    p: Floats
    """[case, label] pre-test probabilities, finite everywhere; meaningful only where `known`."""
    known: Mask
    models: tuple[str, ...]
    labels: tuple[str, ...]
    patient: Ints
    usable: Mask
    """[case, label] whether a case can be matched and weighted: its pre-test probability is known, and varies."""
    share: Floats
    """[case, label] in which share of the best matchings a case is used, on the data."""
    threshold: Floats
    """[model, label] the global threshold: at the wanted specificity on all cases with a pre-test probability."""
    weight: Floats | None = None
    """[case] sampling weights with a mean of 1; None where all cases count alike."""


def audited_cases(
    plan: Plan[KnownHistory], predictions: Predictions, p_pretest: Floats, measuring: ContextMeasuring
) -> AuditedCases:
    """The plan's cases with their labels, predictions and pre-test probabilities (NaN where there is none)."""
    rows = plan.variants.parent
    y_true = plan.cohort.y_true(rows, plan.labels)
    known = ~np.isnan(p_pretest)
    p = np.where(known, p_pretest, 0.5)
    usable = known & ~constant_labels(p, known)
    y_score = np.stack([answers.p for answers in predictions.scored.values()])
    weight = plan.cohort.weights_of(rows)
    return AuditedCases(
        y_true=y_true,
        y_score=y_score,
        p=p,
        known=known,
        models=tuple(predictions.scored),
        labels=plan.labels,
        patient=plan.cohort.patients[rows],
        usable=usable,
        share=matched_shares(y_true, p, usable, measuring.caliper),
        threshold=global_thresholds(y_true, y_score, known, measuring.specificity, weight),
        weight=weight,
    )


def with_pretest(cases: AuditedCases, p: Floats) -> AuditedCases:
    """The cases with other pre-test probabilities, of which only those of the same cases are known; not matched."""
    p = np.where(cases.known, p, 0.5)
    return replace(cases, p=p, usable=cases.known & ~constant_labels(p, cases.known))


def matched_shares(y_true: NDArray[np.uint8], p: Floats, usable: Mask, caliper: float | None) -> Floats:
    """[case, label] in which share of the best matchings a case is used."""
    out: Floats = np.zeros(usable.shape)
    for j in range(out.shape[1]):
        rows = usable[:, j]
        out[rows, j] = matched_share(p[rows, j], y_true[rows, j], caliper=caliper)
    return out


def global_thresholds(
    y_true: NDArray[np.uint8], y_score: Floats, known: Mask, specificity: float | Floats, weight: Floats | None
) -> Floats:
    """[model, label], found once, on the data; `specificity` may differ between them."""
    out = np.full((len(y_score), y_true.shape[1]), np.nan)
    wanted = np.broadcast_to(specificity, out.shape)
    for m, j in np.ndindex(out.shape):
        rows = known[:, j]
        out[m, j] = threshold_at_specificity(
            y_true[rows, j],
            y_score[m, rows, j],
            specificity=float(wanted[m, j]),
            weight=None if weight is None else weight[rows],
        )
    return out


def matched_mass(cases: AuditedCases) -> Floats:
    """[case, label] what matched cases count: their share, by sampling weight where there is one.

    Each class counts for as much as there are pairs, whatever its cases stand for.
    """
    if cases.weight is None:
        return cases.share
    mass = cases.share * cases.weight[:, None]
    for side in (cases.y_true > 0, cases.y_true == 0):
        pairs, own = (np.where(side, each, 0.0).sum(axis=0) for each in (cases.share, mass))
        mass = np.where(side, mass * (pairs / np.where(own > 0, own, 1.0)), mass)
    return mass
