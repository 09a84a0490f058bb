"""The context audit's numbers as rows of the long table.

`group` is `all`, a stratum (`top 25%`), `prior mention`, `matched` or `re-weighted`; `reference` names the group that a
difference is against, or `pre-test probability` where a model is compared with what the history alone says. That is
also the name under which the pre-test probability is measured, as a model of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from palpate.audits.context.balance import BalanceRow, unreliable
from palpate.audits.context.cases import ContextMeasuring
from palpate.audits.context.differences import (
    TOO_FEW_TO_COMBINE,
    DifferenceRules,
    comparisons,
    difference_rows,
    gain_differences,
    group_differences,
)
from palpate.audits.context.groups import PRETEST, REWEIGHTED, WHOLE, CaseGroup, share_name
from palpate.audits.context.incremental import BOTH, GAINS, WITH_CONTEXT, IncrementalValue
from palpate.audits.context.measures import ContextMeasures
from palpate.audits.kit.metrics import MetricReplicates, level_rows, spread_rows
from palpate.audits.kit.rows import RowWriter
from palpate.results import MACRO, Estimate, Predictions, finite
from palpate.stats import percentile_interval

OTHER_METRICS = (
    *GAINS,
    *("net_benefit", "context_smd", "context_ks", "effective_positives", "effective_negatives"),
)
"""Beside those of each group."""
Reasons = tuple[str | None, ...]
NO_RELIABLE_INTERVAL = "no interval: the weights are not reliable"


def context_rows(
    writer: RowWriter,
    measures: ContextMeasures,
    groups: Sequence[CaseGroup],
    predictions: Predictions,
    measuring: ContextMeasuring,
) -> list[Estimate]:
    """All rows: levels, differences, the history alone, what models add to it, balance, and spread over seeds."""
    parts, averages, found = measures.parts, measures.averages, measures.incremental
    rules = DifferenceRules(
        predictions.compared, writer.level, measuring.specificity, measures.reasons, unreliable(measures.balance)
    )
    wanted, labels = comparisons(groups), parts[WHOLE].labels
    differences = [
        *group_differences(parts, wanted, rules),
        *group_differences(averages, wanted, rules),
        *gain_differences(found, rules, labels),
    ]
    return [
        *_levels(writer, [*parts.values(), *averages.values()], measures.reasons, rules.unreliable),
        *difference_rows(writer, differences, rules.models, measuring.resampling.correction, measuring.family),
        *_levels(writer, measures.history, measures.reasons),
        *_joint_rows(writer, found, rules.models, labels, measures.reasons[WHOLE]),
        *_benefit_rows(writer, found, labels, measures.reasons[WHOLE]),
        *_balance_rows(writer, measures.balance),
        *spread_rows(writer, parts.values(), predictions),
    ]


def _levels(
    writer: RowWriter,
    parts: Iterable[MetricReplicates],
    reasons: Mapping[str, Reasons],
    unreliable: Collection[tuple[str, str]] = (),
) -> Iterator[Estimate]:
    """One row per group, model, metric and label; an empty group has the reason for that.

    Under weights that are not reliable, no interval holds the truth as often as it should, so there is none.
    """
    for part in parts:
        own = dict(zip(part.labels, reasons[part.population], strict=True)) if part.labels != (MACRO,) else {}
        for row in level_rows(writer, part):
            bad = not {(REWEIGHTED, label) for label in part.averaged or (row.label,)}.isdisjoint(unreliable)
            if part.population == REWEIGHTED and row.low is not None and bad:
                row = replace(row, low=None, high=None, reason=NO_RELIABLE_INTERVAL)
            why = own.get(row.label)
            yield replace(row, reason=why) if row.value is None and row.n == 0 and why is not None else row


def _joint_rows(
    writer: RowWriter, found: IncrementalValue, models: Sequence[str], labels: Sequence[str], why: Reasons
) -> Iterator[Estimate]:
    """AUROC of model and history together."""
    k = GAINS.index(WITH_CONTEXT)
    low, high = found.auroc(models, BOTH, writer.level).ends
    for i, name in enumerate(models):
        for j, label in enumerate(labels):
            value = finite(found.point[found.models.index(name), k, j])
            yield writer.row(
                name,
                WITH_CONTEXT,
                label,
                WHOLE,
                value,
                n=int(found.n[j]),
                n_positive=int(found.n_positive[j]),
                interval=(low[i, j], high[i, j]),
                reason=(why[j] or TOO_FEW_TO_COMBINE) if value is None else None,
            )


def _benefit_rows(
    writer: RowWriter, found: IncrementalValue, labels: Sequence[str], why: Reasons
) -> Iterator[Estimate]:
    """What acting on a model, on the history or on both is worth."""
    for curve in found.curves:
        for k, name in enumerate(curve.names):
            low, high = percentile_interval(curve.values[k], level=writer.level)
            for t, threshold in enumerate(curve.thresholds):
                value = finite(curve.point[k, t])
                yield writer.row(
                    name,
                    "net_benefit",
                    labels[curve.label],
                    f"acting at {share_name(threshold, digits=6)}",
                    value,
                    n=int(found.n[curve.label]),
                    n_positive=int(found.n_positive[curve.label]),
                    interval=(low[t], high[t]),
                    reason=(why[curve.label] or "no case") if value is None else None,
                )


def _balance_rows(writer: RowWriter, balance: Iterable[BalanceRow]) -> Iterator[Estimate]:
    """How far pairs and weights can be relied on."""
    for row in balance:
        numbers = {"context_smd": row.found.smd, "context_ks": row.found.ks}
        if row.group == REWEIGHTED:
            numbers |= {"effective_positives": row.effective[0], "effective_negatives": row.effective[1]}
        for metric, number in numbers.items():
            reason = row.reason if finite(number) is None else None
            yield writer.row(
                PRETEST, metric, row.label, row.group, number, n=row.n, n_positive=row.n_positive, reason=reason
            )
