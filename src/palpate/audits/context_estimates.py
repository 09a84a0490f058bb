"""The context audit's numbers as rows of the long table.

`group` is `all`, a stratum (`top 25%`), `prior mention`, `matched` or `re-weighted`; `reference` names the group that a
difference is against, or `pre-test probability` where a model is compared with what the history alone tells. That is
also the name under which the pre-test probability is measured, as a model of its own.

One question and one metric, over all labels and models, are a family. p-values are corrected over it; they are of the
difference of log-odds, whose bootstrap is nearer to normal in small groups. The intervals of differences are widened so
that they hold for the whole family at once (Bonferroni, context paper, Section 3.5). Metrics that change with how
common the label is in a group (AUPRC, calibration error, Brier skill) are not tested, nor are decisions at a threshold
where it divides too few patients, or under weights: there the bootstrap is too sure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context_beyond import Beyond
from palpate.audits.context_groups import MATCHED, REWEIGHTED, WHOLE, Group
from palpate.audits.context_measures import FEWEST_TESTED, MACRO, METRICS, PRETEST
from palpate.audits.measured import Correction, Measured, levels
from palpate.results import Estimate, finite
from palpate.stats import adjust, bootstrap_p_value, percentile_interval

AUDIT = "context"
TESTED = (
    "auroc",
    "sensitivity_at_local_specificity",
    "sensitivity_at_global_specificity",
    "specificity_at_global_threshold",
)
PREVALENCE = "not tested: this number changes with how common the label is in the group"
UNTESTED = f"not tested: fewer than {FEWEST_TESTED} patients with or without the label"
FEWEST_DECIDED = 10
"""Patients of a class that should lie on each side of a threshold; 13 out of 13 has no spread to test with."""
ONE_SIDED = f"not tested: fewer than {FEWEST_DECIDED} patients are to be expected on one side of the threshold"
HEAVY = "not tested: under weights a few heavy cases decide on which side of a threshold the weight lies"
_FURTHEST = 1e-6
Floats = NDArray[np.float64]


class Comparison(NamedTuple):
    """One group less another; those of one question are corrected together."""

    question: str
    group: str
    reference: str


class Facts(NamedTuple):
    """What all rows share."""

    models: tuple[str, ...]
    """Those that are compared: models with several checkpoints, not the checkpoints."""
    level: float
    correction: Correction
    specificity: float
    reasons: Mapping[str, tuple[str | None, ...]]
    """By group, for each label: why nothing is there."""


def comparisons(groups: Sequence[Group]) -> list[Comparison]:
    """To the whole set, and between the groups of a division."""
    found = [Comparison(MATCHED, MATCHED, WHOLE), Comparison(REWEIGHTED, REWEIGHTED, WHOLE)]
    for kind in ("stratum", "mention"):
        names = [group.name for group in groups if group.kind == kind]
        found += [Comparison(f"{kind} against all", name, WHOLE) for name in names]
        pairs = [(b, a) for k, b in enumerate(names) for a in names[:k]]
        # Mentioned less not mentioned, high less low.
        found += [Comparison(f"between {kind}s", *((a, b) if kind == "mention" else (b, a))) for b, a in pairs]
    return found


def level_rows(parts: Sequence[Measured], facts: Facts) -> list[Estimate]:
    """One row a group, model, metric and label."""
    return [_explained(row, part, facts) for part in parts for row in levels(AUDIT, part, level=facts.level)]


def _explained(row: Estimate, part: Measured, facts: Facts) -> Estimate:
    if row.value is not None or row.label not in part.labels or row.label == MACRO:
        return row
    own = facts.reasons.get(part.population)
    reason = None if own is None else own[part.labels.index(row.label)]
    return replace(row, reason=reason) if reason is not None and row.n == 0 else row


def difference_rows(parts: Mapping[str, Measured], wanted: Sequence[Comparison], facts: Facts) -> list[Estimate]:
    """All comparisons, family by family."""
    rows: list[Estimate] = []
    for question in dict.fromkeys(each.question for each in wanted):
        asked = [each for each in wanted if each.question == question]
        asked = [each for each in asked if each.group in parts and each.reference in parts]
        for k, metric in enumerate(METRICS):
            rows += _family([_Difference(parts, each, k, facts) for each in asked], metric, facts)
    return rows


class _Difference:
    """One comparison in one metric: [model, label]."""

    def __init__(self, parts: Mapping[str, Measured], asked: Comparison, metric: int, facts: Facts) -> None:
        self.asked, self.a, self.b = asked, parts[asked.group], parts[asked.reference]
        index = [self.a.models.index(name) for name in facts.models]
        self.point = self.a.point[index, metric] - self.b.point[index, metric]
        self.values = self.a.values[index, metric] - self.b.values[index, metric]
        few = np.minimum(self.a.n_units.min(axis=0), self.b.n_units.min(axis=0)) < FEWEST_TESTED
        self.why = np.full(self.point.shape, None, dtype=object)
        if METRICS[metric] not in TESTED:
            self.why[:] = PREVALENCE
        elif METRICS[metric] != "auroc" and asked.group == REWEIGHTED:
            self.why[:] = HEAVY
        elif METRICS[metric] != "auroc":
            self.why[self._one_sided(self.b.point[index, metric], METRICS[metric], facts.specificity)] = ONE_SIDED
        self.why[np.broadcast_to(few, self.why.shape)] = UNTESTED
        silent = np.isnan(self.point) | (self.why != None)  # noqa: E711  (an array of objects)
        apart = _logit(self.a.values[index, metric]) - _logit(self.b.values[index, metric])
        self.p = np.where(silent, np.nan, bootstrap_p_value(apart, tail="normal"))

    def _one_sided(self, share: Floats, metric: str, specificity: float) -> NDArray[np.bool_]:
        """Where a threshold divides too few patients; `share` is the reference's, [model, label]."""
        n = np.minimum(self.a.n_units, self.b.n_units)
        if metric == "specificity_at_global_threshold":
            return np.asarray(n[1] * np.minimum(share, 1 - share) < FEWEST_DECIDED)
        divided = n[0] * np.minimum(share, 1 - share) < FEWEST_DECIDED
        if metric == "sensitivity_at_local_specificity":
            divided |= n[1] * (1 - specificity) < FEWEST_DECIDED
        return np.asarray(divided)


def _logit(share: Floats) -> Floats:
    """Log-odds of an AUROC or a share: near 1 its spread shrinks with its distance from 1, which fools a test."""
    inside = np.clip(share, _FURTHEST, 1.0 - _FURTHEST)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _family(found: Sequence[_Difference], metric: str, facts: Facts) -> Iterator[Estimate]:
    if not found:
        return
    adjusted = adjust(np.stack([each.p for each in found]), method=facts.correction)
    size = int(np.sum(~np.isnan(adjusted))) or sum(each.point.size for each in found)
    joint = 1.0 - (1.0 - facts.level) / size
    for each, p_values in zip(found, adjusted, strict=True):
        low, high = percentile_interval(each.values, level=joint)
        for m, j in np.ndindex(each.point.shape):
            yield _row(each, metric, facts, m, j, (float(low[m, j]), float(high[m, j])), finite(p_values[m, j]))


def _row(
    each: _Difference, metric: str, facts: Facts, m: int, j: int, span: tuple[float, float], p: float | None
) -> Estimate:
    value = finite(each.point[m, j])
    a, b = each.a, each.b
    low, high = (None, None) if value is None else (finite(span[0]), finite(span[1]))
    reason = a.reason(j, value=value, low=low)
    if value is None:
        reason = _missing(a, j, facts) or _missing(b, j, facts) or reason
    elif reason is None:
        reason = each.why[m, j]
    return Estimate(
        audit=AUDIT,
        model=facts.models[m],
        metric=metric,
        label=a.labels[j],
        group=each.asked.group,
        reference=each.asked.reference,
        value=value,
        low=low,
        high=high,
        level=facts.level,
        p_value=p,
        significant=None if p is None else p < 1.0 - facts.level,
        n=int(a.n[j]),
        n_positive=int(a.n_positive[j]),
        reason=reason,
    )


def _missing(part: Measured, j: int, facts: Facts) -> str | None:
    """Why a group has no number for a label; None if it has both classes."""
    n, n_positive = int(part.n[j]), int(part.n_positive[j])
    if 0 < n_positive < n:
        return None
    own = facts.reasons.get(part.population)
    why = own[j] if own is not None and n == 0 and part.labels != (MACRO,) else None
    return why or f"{part.reason(j, value=None, low=None)} in '{part.population}'"


def beyond_rows(beyond: Beyond, facts: Facts, labels: Sequence[str]) -> list[Estimate]:
    """What the model adds to the context, what acting on it is worth, and how far weights and pairs can be trusted."""
    return [*_gain_rows(beyond, facts, labels), *_benefit_rows(beyond, facts, labels), *_balance_rows(beyond)]


def _gain_rows(beyond: Beyond, facts: Facts, labels: Sequence[str]) -> Iterator[Estimate]:
    names = [name for name in facts.models if name in beyond.gains]
    measures = (
        ("auroc_with_context", None),
        ("auroc_gain_over_context", PRETEST),
        ("auroc_model_over_context", PRETEST),
    )
    for metric, reference in measures:
        points = np.stack([getattr(beyond.gains[name], metric).point for name in names])
        values = np.stack([getattr(beyond.gains[name], metric).values for name in names])
        p = bootstrap_p_value(values, tail="normal") if reference else np.full(points.shape, np.nan)
        if metric == "auroc_gain_over_context":
            # Joined with the model the context can't tell less: below 0 lies only the price of fitting two slopes.
            p = np.where(points <= 0, 1.0, p)
        p = np.where(beyond.few | np.isnan(points), np.nan, p)
        adjusted = adjust(p, method=facts.correction)
        size = int(np.sum(~np.isnan(adjusted))) or 1
        low, high = percentile_interval(values, level=1.0 - (1.0 - facts.level) / size)
        for m, j in np.ndindex(points.shape):
            value, p_value = finite(points[m, j]), finite(adjusted[m, j])
            yield Estimate(
                audit=AUDIT,
                model=names[m],
                metric=metric,
                label=labels[j],
                group=WHOLE,
                reference=reference,
                value=value,
                low=None if value is None else finite(low[m, j]),
                high=None if value is None else finite(high[m, j]),
                level=facts.level,
                p_value=p_value,
                significant=None if p_value is None else p_value < 1.0 - facts.level,
                n=int(beyond.n[j]),
                n_positive=int(beyond.n_positive[j]),
                reason=_why_no_gain(facts, j, value=value, tested=p_value is not None or reference is None),
            )


def _why_no_gain(facts: Facts, j: int, *, value: float | None, tested: bool) -> str | None:
    if value is None:
        return facts.reasons[WHOLE][j] or "too few cases of one class to combine model and context"
    return None if tested else UNTESTED


def _benefit_rows(beyond: Beyond, facts: Facts, labels: Sequence[str]) -> Iterator[Estimate]:
    for curve in beyond.curves:
        for k, name in enumerate(curve.names):
            low, high = percentile_interval(curve.values[k], level=facts.level)
            for t, threshold in enumerate(curve.thresholds):
                value = finite(curve.point[k, t])
                yield Estimate(
                    audit=AUDIT,
                    model=name,
                    metric="net_benefit",
                    label=labels[curve.label],
                    group=f"acting at {threshold:.0%}",
                    value=value,
                    low=None if value is None else finite(low[t]),
                    high=None if value is None else finite(high[t]),
                    level=facts.level,
                    n=int(beyond.n[curve.label]),
                    n_positive=int(beyond.n_positive[curve.label]),
                    reason=None if value is not None else facts.reasons[WHOLE][curve.label] or "no case",
                )


def _balance_rows(beyond: Beyond) -> Iterator[Estimate]:
    for row in beyond.balance:
        numbers = {"context_smd": row.found.smd, "context_ks": row.found.ks}
        if row.group == REWEIGHTED:
            numbers |= {"effective_positives": row.effective[0], "effective_negatives": row.effective[1]}
        for metric, number in numbers.items():
            value = finite(number)
            yield Estimate(
                audit=AUDIT,
                model=PRETEST,
                metric=metric,
                label=row.label,
                group=row.group,
                value=value,
                n=row.n,
                n_positive=row.n_positive,
                reason=None if value is not None else row.reason,
            )
