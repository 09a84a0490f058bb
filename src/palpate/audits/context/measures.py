"""Every metric of every model and label: on all cases, in strata, by prior mention, matched, and re-weighted.

All groups share the resamples of patients, so groups are compared replicate by replicate. Matching is redone and
weights are made anew in each resample (context paper, Sections 3.4 and 3.5). The pre-test probability is measured as a
model of its own: on the matched and the re-weighted cases its AUROC shows what is left of the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.groups import CONSTANT, MATCHED, REWEIGHTED, WHOLE, Group, Mask, constant_labels
from palpate.audits.kit.measured import Measured
from palpate.cases.edits import Ints
from palpate.stats import (
    NOISE,
    bootstrap,
    context_weights,
    macro_average,
    match_pairs,
    matched_bootstrap,
    reweighted_bootstrap,
    threshold_at_specificity,
)

Floats = NDArray[np.float64]
PRETEST = "pre-test probability"
MACRO = "macro"
_STATS = (
    "auroc",
    "auprc",
    "sensitivity_at_specificity",
    "sensitivity",
    "specificity",
    "adaptive_calibration_error",
    "brier_skill_score",
    NOISE,
)
METRICS = (
    "auroc",
    "auprc",
    "sensitivity_at_local_specificity",
    "sensitivity_at_global_specificity",
    "specificity_at_global_threshold",
    "adaptive_calibration_error",
    "brier_skill_score",
)
FEWEST_TESTED = 30
"""Patients with, and without, a label that a test needs. At a level corrected for 13 labels and three strata, bootstrap
tests of AUROC cry wolf 13 times too often with 10 positive patients, 3 times with 20, and hardly with 30."""
NO_PAIRS = "no pair of a positive and a negative within the caliper"
NO_THRESHOLD = "undefined: no global threshold"


class Cases(NamedTuple):
    """The audited cases and every model's answers."""

    y_true: NDArray[np.uint8]
    y_score: Floats
    """[model, case, label]"""
    p: Floats
    """[case, label], finite everywhere; meant only where `known`."""
    known: Mask
    models: tuple[str, ...]
    labels: tuple[str, ...]
    patient: Ints
    tie_break: Ints
    """Which of equal cases is matched first; belongs to the case, not to its place in the table."""
    threshold: Floats
    """[model, label] global: at the wanted specificity on all cases with a pre-test probability."""


@dataclass(frozen=True)
class Measuring:
    """How metrics are computed and resampled."""

    specificity: float
    n_bins: int
    unit: Literal["patient", "case"]
    n_replicates: int
    caliper: float | None
    clip: tuple[float, float]
    seed: int

    def options(self, cases: Cases) -> dict[str, Any]:
        """What every bootstrap gets, so that all share their resamples."""
        return {
            "metrics": _STATS,
            "threshold": cases.threshold,
            "specificity": self.specificity,
            "n_bins": self.n_bins,
            "unit": self.unit,
            "patient": cases.patient,
            "rng": self.seed,
            "n_replicates": self.n_replicates,
        }


def global_thresholds(y_true: NDArray[np.uint8], y_score: Floats, known: Mask, specificity: float) -> Floats:
    """[model, label], found once, on the data."""
    out = np.full((len(y_score), y_true.shape[1]), np.nan)
    for m, j in np.ndindex(out.shape):
        rows = known[:, j]
        out[m, j] = threshold_at_specificity(y_true[rows, j], y_score[m, rows, j], specificity=specificity)
    return out


def measure(cases: Cases, groups: Sequence[Group], measuring: Measuring) -> dict[str, Measured]:
    """Every group's metrics, and those of the matched and the re-weighted cases."""
    options = measuring.options(cases)
    parts = {}
    for group in groups:
        found = bootstrap(cases.y_true, cases.y_score, rows=group.rows, **options)
        parts[group.name] = _measured(cases, group.name, group.rows, found.point, found.values, measuring)
    usable = cases.known & ~constant_labels(cases.p, cases.known)
    matched = matched_bootstrap(
        cases.y_true,
        cases.y_score,
        cases.p,
        rows=usable,
        caliper=measuring.caliper,
        tie_break=cases.tie_break,
        **options,
    )
    rows = matched_rows(cases, usable, measuring.caliper)
    parts[MATCHED] = _measured(cases, MATCHED, rows, matched.point, matched.values, measuring)
    weighted = reweighted_bootstrap(cases.y_true, cases.y_score, cases.p, rows=usable, clip=measuring.clip, **options)
    part = _measured(cases, REWEIGHTED, usable, weighted.point, weighted.values, measuring)
    parts[REWEIGHTED] = replace(part, n_units=np.minimum(part.n_units, _effective(cases, usable, measuring.clip)))
    return parts


def measure_pretest(cases: Cases, measuring: Measuring) -> list[Measured]:
    """The pre-test probability as a model of its own: on all cases, and its AUROC matched and re-weighted."""
    score = cases.p[None]
    alone = cases._replace(
        y_score=score,
        models=(PRETEST,),
        threshold=global_thresholds(cases.y_true, score, cases.known, measuring.specificity),
    )
    options = measuring.options(alone)
    whole = bootstrap(cases.y_true, score, rows=cases.known, **options)
    usable = cases.known & ~constant_labels(cases.p, cases.known)
    options |= {"metrics": ("auroc",), "threshold": None, "rows": usable}
    matched = matched_bootstrap(
        cases.y_true, score, cases.p, caliper=measuring.caliper, tie_break=cases.tie_break, **options
    )
    weighted = reweighted_bootstrap(cases.y_true, score, cases.p, clip=measuring.clip, **options)
    rows = matched_rows(cases, usable, measuring.caliper)
    return [
        _measured(alone, WHOLE, cases.known, whole.point, whole.values, measuring),
        replace(_measured(alone, MATCHED, rows, matched.point, matched.values, measuring), metrics=("auroc",)),
        replace(_measured(alone, REWEIGHTED, usable, weighted.point, weighted.values, measuring), metrics=("auroc",)),
    ]


def special_reasons(cases: Cases, groups: Sequence[Group]) -> dict[str, tuple[str | None, ...]]:
    """Why a group has nothing to measure for a label, where more is known than that no case is in it."""
    same = constant_labels(cases.p, cases.known)
    everyone = groups[0].reason
    why = tuple(CONSTANT if same[j] else everyone[j] for j in range(len(cases.labels)))
    one_class = [_one_class(cases.y_true[cases.known[:, j], j]) for j in range(len(cases.labels))]
    paired = tuple(reason or missing or NO_PAIRS for reason, missing in zip(why, one_class, strict=True))
    return {group.name: group.reason for group in groups} | {MATCHED: paired, REWEIGHTED: why}


def _one_class(y_true: NDArray[np.uint8]) -> str | None:
    if not y_true.any():
        return "no positive case"
    return "no negative case" if y_true.all() else None


def matched_rows(cases: Cases, usable: Mask, caliper: float | None) -> Mask:
    """[case, label] who is in a pair, on the data."""
    out = np.zeros_like(usable)
    for j in range(usable.shape[1]):
        rows = np.flatnonzero(usable[:, j])
        pairs = match_pairs(cases.p[rows, j], cases.y_true[rows, j], caliper=caliper, tie_break=cases.tie_break[rows])
        out[rows[np.concatenate(pairs)], j] = True
    return out


def _measured(cases: Cases, name: str, rows: Mask, point: Floats, values: Floats, measuring: Measuring) -> Measured:
    positive = cases.y_true.astype(bool)
    return Measured(
        population=name,
        models=cases.models,
        metrics=(*METRICS, NOISE),
        labels=cases.labels,
        point=point,
        values=values,
        n=rows.sum(axis=0, dtype=np.int64),
        n_positive=(rows & positive).sum(axis=0, dtype=np.int64),
        n_units=np.stack([_units(cases, rows & side, measuring.unit) for side in (positive, ~positive)]),
        why_undefined=NO_THRESHOLD if np.isnan(cases.threshold).any() else "",
    )


def _units(cases: Cases, rows: Mask, unit: Literal["patient", "case"]) -> Ints:
    if unit == "case":
        counts: Ints = rows.sum(axis=0, dtype=np.int64)
        return counts
    return np.asarray([np.unique(cases.patient[rows[:, j]]).size for j in range(rows.shape[1])], dtype=np.int64)


def _effective(cases: Cases, usable: Mask, clip: tuple[float, float]) -> Ints:
    """[2, label] effective numbers of positives and negatives: of a hundred cases, two may hold all the weight."""
    out: Ints = np.zeros((2, usable.shape[1]), dtype=np.int64)
    for j in range(usable.shape[1]):
        rows = usable[:, j]
        found = context_weights(cases.p[rows, j], cases.y_true[rows, j], clip=clip)
        out[:, j] = np.nan_to_num([found.effective_positives, found.effective_negatives])
    return out


def macro_parts(parts: dict[str, Measured], names: Sequence[str]) -> dict[str, Measured]:
    """The mean over labels in some groups, over the labels that have enough patients in all of them."""
    labels = parts[names[0]].labels
    if len(labels) == 1:
        return {}
    chosen = [parts[name] for name in names]
    enough = np.all([part.n_units.min(axis=0) >= FEWEST_TESTED for part in chosen], axis=0)
    defined = np.all([~np.isnan(part.point).any(axis=(0, 1)) for part in chosen], axis=0)
    kept = np.flatnonzero(enough & defined)
    if len(kept) < 2:
        return {}
    return {part.population: _macro(part, kept) for part in chosen}


def _macro(part: Measured, kept: Ints) -> Measured:
    return Measured(
        population=part.population,
        models=part.models,
        metrics=part.metrics,
        labels=(MACRO,),
        point=macro_average(part.point[:, :, kept], axis=2)[:, :, None],
        values=macro_average(part.values[:, :, kept], axis=2)[:, :, None, :],
        # Counts are of pairs of a case and a label.
        n=part.n[kept].sum(keepdims=True),
        n_positive=part.n_positive[kept].sum(keepdims=True),
        n_units=part.n_units[:, kept].min(axis=1, keepdims=True),
        averaged=tuple(part.labels[int(j)] for j in kept),
    )
