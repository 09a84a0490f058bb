"""The context audit's numbers as rows of the long table; differences are in `context_differences`.

`group` is `all`, a stratum (`top 25%`), `prior mention`, `matched` or `re-weighted`; `reference` names the group that a
difference is against, or `pre-test probability` where a model is compared with what the history alone tells. That is
also the name under which the pre-test probability is measured, as a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from palpate.audits.context.differences import AUDIT, Facts
from palpate.audits.context.groups import REWEIGHTED, WHOLE, percent
from palpate.audits.context.incremental import Beyond
from palpate.audits.context.measures import MACRO, PRETEST
from palpate.audits.kit.measured import Measured, levels
from palpate.results import Estimate, finite
from palpate.stats import percentile_interval


def level_rows(parts: Sequence[Measured], facts: Facts) -> list[Estimate]:
    """One row a group, model, metric and label."""
    return [_explained(row, part, facts) for part in parts for row in levels(AUDIT, part, level=facts.level)]


def _explained(row: Estimate, part: Measured, facts: Facts) -> Estimate:
    if row.value is not None or row.label not in part.labels or row.label == MACRO:
        return row
    own = facts.reasons.get(part.population)
    reason = None if own is None else own[part.labels.index(row.label)]
    return replace(row, reason=reason) if reason is not None and row.n == 0 else row


def beyond_rows(beyond: Beyond, facts: Facts, labels: Sequence[str]) -> list[Estimate]:
    """What the model adds to the context, what acting on it is worth, and how far weights and pairs can be trusted."""
    return [*_joined_rows(beyond, facts, labels), *_benefit_rows(beyond, facts, labels), *_balance_rows(beyond)]


def _joined_rows(beyond: Beyond, facts: Facts, labels: Sequence[str]) -> Iterator[Estimate]:
    """AUROC of model and context together."""
    for name in (name for name in facts.models if name in beyond.gains):
        point, values = beyond.gains[name].auroc_with_context
        low, high = percentile_interval(values, level=facts.level)
        for j, label in enumerate(labels):
            value = finite(point[j])
            nothing = facts.reasons[WHOLE][j] or "too few cases of one class to combine model and context"
            yield Estimate(
                audit=AUDIT,
                model=name,
                metric="auroc_with_context",
                label=label,
                group=WHOLE,
                value=value,
                low=None if value is None else finite(low[j]),
                high=None if value is None else finite(high[j]),
                level=facts.level,
                n=int(beyond.n[j]),
                n_positive=int(beyond.n_positive[j]),
                reason=nothing if value is None else None,
            )


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
                    group=f"acting at {percent(threshold, digits=6)}",
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
