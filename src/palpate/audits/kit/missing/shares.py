"""How often scores are missing, in whom, and within which bounds that leaves AUROC and sensitivity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.rows import RowWriter
from palpate.cases.edits import Ints
from palpate.results import Estimate, Plan, Predictions
from palpate.stats import auroc
from palpate.stats.score_intervals import rate_interval, student_quantile

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SHARE, IN_POSITIVES, IN_NEGATIVES = "missing_share", "missing_share_positive", "missing_share_negative"
DIFFERENCE = "missing_share_difference"
WORST, BEST, FOUND = "auroc_if_worst", "auroc_if_best", "sensitivity_if_not_flagged"
MISSING_METRICS = (SHARE, IN_POSITIVES, IN_NEGATIVES, DIFFERENCE, WORST, BEST, FOUND)
"""What an audit that reports missing scores adds to its metrics."""


class LabelCases(NamedTuple):
    """The cases of one population and label."""

    name: str
    missing: Mask
    positive: Mask
    patient: Ints
    weight: Floats

    @classmethod
    def of(cls, plan: Plan[Any], name: str, variants: Ints, lacking: Mask, label: str) -> LabelCases:
        """Those of some variants that are cases; `lacking` is of every variant."""
        rows = plan.variants.parent[variants]
        weight = plan.cohort.weights
        return cls(
            name,
            lacking[variants],
            plan.cohort.y_true(rows, [label])[:, 0] > 0,
            np.unique(plan.cohort.patients[rows], return_inverse=True)[1].astype(np.int64),
            np.ones(len(rows)) if weight is None else weight[rows],
        )


class _ByPatient(NamedTuple):
    """A weighted share, and how far each patient moves it."""

    value: float
    low: float
    high: float
    moves: Floats
    n: int
    reason: str | None = None


def rate_by_patient(hit: Mask, among: Mask, cases: LabelCases, level: float) -> _ByPatient:
    """The weighted share of `hit` among some cases, with an interval by patient; from the patients' own sums."""
    weight = np.where(among, cases.weight, 0.0)
    total, n = float(weight.sum()), int(among.sum())
    sums, masses = np.bincount(cases.patient, weight * hit), np.bincount(cases.patient, weight)
    if total <= 0:
        return _ByPatient(np.nan, np.nan, np.nan, np.zeros(len(sums)), n, "no case")
    value = float(sums.sum()) / total
    moves = (sums - value * masses) / total
    n_patients = int((masses > 0).sum())
    if n_patients < 2:
        return _ByPatient(value, np.nan, np.nan, moves, n, "no interval: fewer than 2 patients")
    squares = float((weight**2).sum())
    error = float(np.sqrt((moves**2).sum() * n_patients / (n_patients - 1.0)))
    ends = rate_interval(value, error, total**2 / squares, max(float((masses**2).sum()) / squares, 1.0), level=level)
    return _ByPatient(value, float(ends.low), float(ends.high), moves, n)


def share_rows(writer: RowWriter, cases: LabelCases, model: str, label: str) -> Iterator[Estimate]:
    """The share of missing scores in all, in those with and in those without the label, and the difference."""
    everyone = np.ones(len(cases.missing), bool)
    sides = {SHARE: everyone, IN_POSITIVES: cases.positive, IN_NEGATIVES: ~cases.positive}
    found = {metric: rate_by_patient(cases.missing, among, cases, writer.level) for metric, among in sides.items()}
    for metric, rate in found.items():
        n_positive = int((sides[metric] & cases.positive).sum())
        ends = (rate.low, rate.high)
        yield writer.row(
            *(model, metric, label, cases.name, rate.value),
            n=rate.n,
            n_positive=n_positive,
            interval=ends,
            reason=rate.reason,
        )
    ups, downs = found[IN_POSITIVES], found[IN_NEGATIVES]
    n_patients = max(len(ups.moves), 2)
    spread = float(np.sqrt(((ups.moves - downs.moves) ** 2).sum() * n_patients / (n_patients - 1.0)))
    reach = float(
        student_quantile(max(min(int(cases.positive.sum()), int((~cases.positive).sum())) - 1, 1), writer.level)
    )
    below = max(reach * spread, float(np.hypot(ups.value - ups.low, downs.high - downs.value)))
    above = max(reach * spread, float(np.hypot(ups.high - ups.value, downs.value - downs.low)))
    value = ups.value - downs.value
    yield writer.row(
        *(model, DIFFERENCE, label, cases.name, value),
        n=len(cases.missing),
        n_positive=int(cases.positive.sum()),
        interval=(value - below, value + above),
        reason=ups.reason or downs.reason,
    )


def bound_rows(
    writer: RowWriter, cases: LabelCases, model: str, label: str, p: Floats, threshold: float | None
) -> Iterator[Estimate]:
    """AUROC with the missing cases ranked as badly, or as well, as possible; sensitivity if they are not flagged."""
    n, n_positive = len(p), int(cases.positive.sum())
    for metric, high in ((WORST, ~cases.positive), (BEST, cases.positive)):
        filled = np.where(cases.missing, np.where(high, 2.0, -1.0), p)
        value = auroc(cases.positive, filled, weight=cases.weight)
        why = None if value == value else "one class"
        yield writer.row(model, metric, label, cases.name, value, n=n, n_positive=n_positive, reason=why)
    if threshold is not None and threshold == threshold:
        flagged = np.where(cases.missing, -1.0, p) >= threshold
        rate = rate_by_patient(flagged, cases.positive, cases, writer.level)
        yield writer.row(
            *(model, FOUND, label, cases.name, rate.value),
            n=n,
            n_positive=n_positive,
            interval=(rate.low, rate.high),
            reason=rate.reason,
        )


def arm_shares(audit: str, plan: Plan[Any], predictions: Predictions, model: str) -> Iterator[Estimate]:
    """The share of the scores of each arm of an audit (a group of its variants) that a model lacks, for each label."""
    writer, variants, n_cases = RowWriter(audit), plan.variants, len(plan.cohort)
    lacking = np.any([np.isnan(predictions.scored[each].p) for each in predictions.members(model)], axis=0)
    # A text that the audit made up is a patient of its own.
    codes = np.unique(plan.cohort.patients, return_inverse=True)[1]
    patient = np.concatenate([codes, np.arange(len(variants.made)) + n_cases])[variants.parent]
    given = plan.cohort.weights
    weight = np.concatenate([np.ones(n_cases) if given is None else given, np.ones(len(variants.made))])[
        variants.parent
    ]
    asked = np.any(
        [plan.requests.only.get(each, np.ones(len(variants), bool)) for each in predictions.members(model)], 0
    )
    for k, arm in enumerate(variants.group_names):
        rows = np.flatnonzero((variants.group == k) & asked)
        own = np.unique(patient[rows], return_inverse=True)[1].astype(np.int64)
        everyone = np.ones(len(rows), bool)
        for j, label in enumerate(plan.labels):
            cases = LabelCases(arm, lacking[rows, j], everyone, own, weight[rows])
            rate = rate_by_patient(cases.missing, everyone, cases, writer.level)
            ends = (rate.low, rate.high)
            yield writer.row(model, SHARE, label, arm, rate.value, n=rate.n, interval=ends, reason=rate.reason)
