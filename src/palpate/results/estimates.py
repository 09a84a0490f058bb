"""Estimates: every number of an audit as one row of one long table, and what its metrics and labels are called."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
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
    "pointwise_low": pl.Float64,
    "pointwise_high": pl.Float64,
    "n_family": pl.Int64,
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
    without it is a level. Where a difference is tested, `p_value`, `low` and `high` hold for the family of `n_family`
    comparisons that it belongs to, and agree with each other; `pointwise_low` and `pointwise_high` are for it alone.

    >>> drop = Estimate("performance", "lr", "auroc", "sick", "away", -0.25, n=100, reference="home")
    >>> drop.negated().value
    0.25
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
    pointwise_low: float | None = None
    pointwise_high: float | None = None
    n_family: int | None = None

    def negated(self) -> Estimate:
        """A difference the other way round: its number and intervals; what is compared keeps its name."""
        turned = (None if end is None else -end for end in (self.value, self.high, self.low))
        value, low, high = turned
        ends = (None if end is None else -end for end in (self.pointwise_high, self.pointwise_low))
        pointwise_low, pointwise_high = ends
        return replace(
            self, value=value, low=low, high=high, pointwise_low=pointwise_low, pointwise_high=pointwise_high
        )


def finite(value: Any) -> float | None:
    """A float, or None where it is undefined."""
    return None if value is None or not math.isfinite(value) else float(value)


def estimates_frame(rows: Sequence[Estimate]) -> pl.DataFrame:
    """Estimates as the long table."""
    return pl.DataFrame([vars(row) for row in rows], schema=ESTIMATE_SCHEMA, orient="row")


MACRO = "macro"
MICRO = "micro"
ALL_LABELS = "all labels"
"""What stands in `label` where a number is about several labels: their mean, all case–label pairs pooled, or a measure
of all of them together."""
METRIC_NAMES = {
    "auroc": "AUROC",
    "auroc_drop": "Change of AUROC between cohorts",
    "auprc": "AUPRC",
    "sensitivity_at_specificity": "Sensitivity at fixed specificity",
    "sensitivity_at_local_specificity": "Sensitivity, local threshold",
    "sensitivity_at_global_specificity": "Sensitivity, global threshold",
    "specificity_at_global_threshold": "Specificity, global threshold",
    "brier": "Brier score",
    "brier_skill_score": "Brier skill",
    "adaptive_calibration_error": "Calibration error",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "ppv": "PPV",
    "npv": "NPV",
    "flag_rate": "Flagged",
    "prevalence": "Prevalence",
    "mean_score": "Mean risk",
    "oe_ratio": "O:E",
    "calibration_in_the_large": "Observed − predicted",
    "calibration_intercept": "Calibration intercept",
    "calibration_slope": "Calibration slope",
    "ici": "ICI",
    "e50": "E50",
    "e90": "E90",
    "emax": "Emax",
    "mean_net_benefit": "Mean net benefit",
    "threshold": "Threshold",
    "alerts_per_100": "Alerts per 100",
    "alerts_per_day": "Alerts per day",
    "number_needed_to_evaluate": "Number needed to evaluate",
    "net_benefit": "Net benefit",
    "alerts_per_stay": "Alerts per stay",
    "alerts_per_flagged_stay": "Alerts per flagged stay",
    "hours_to_alert": "Hours to the first alert",
    "lead_time_hours": "Lead time in hours",
    "precision_0": "Precision, class 0",
    "recall_0": "Recall, class 0",
    "f1_0": "F1, class 0",
    "precision_1": "Precision, class 1",
    "recall_1": "Recall, class 1",
    "f1_1": "F1, class 1",
}
LOWER_IS_BETTER = frozenset({"brier", "adaptive_calibration_error", "ici", "e50", "e90", "emax"})
"""All other metrics of performance are better when higher."""


def headline_label(labels: Collection[str]) -> str | None:
    """The label that stands for all of them: the only one, or the name of an average; None where there is neither."""
    if len(labels) == 1:
        return next(iter(labels))
    return next((name for name in (MACRO, ALL_LABELS, MICRO) if name in labels), None)
