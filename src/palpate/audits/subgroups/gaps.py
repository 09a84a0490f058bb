"""Between the groups of a partition: the largest gap of each metric, and the fairness summaries that people know.

Differences are the highest rate less the lowest, ratios the lowest over the highest, as fairlearn defines them; their
intervals, and the largest gaps, come from the differences of all pairs of groups (`stats.intervals.largest_gap`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.differences import ContrastTerm, difference_interval
from palpate.audits.kit.rows import RowWriter
from palpate.audits.subgroups.measures import METRICS, GroupMeasures
from palpate.audits.subgroups.plan import Partition
from palpate.results import Estimate
from palpate.stats.intervals import Interval, LargestGap, largest_gap
from palpate.stats.score_intervals import contrast_interval

Floats = NDArray[np.float64]
GAPS = ("auroc", "sensitivity", "specificity", "ppv", "npv", "flag_rate", "calibration_in_the_large")
FAIRNESS = {
    "demographic_parity": ("flag_rate",),
    "equal_opportunity": ("sensitivity",),
    "equalized_odds": ("sensitivity", "specificity"),
    "predictive_parity": ("ppv",),
}
"""Which rates are compared; of two, the worse one counts."""
GAP_METRICS = (
    *(f"{name}_gap" for name in GAPS),
    *(f"{name}_gap_seen" for name in GAPS),
    *(f"{name}_{kind}" for name in FAIRNESS for kind in ("difference", "ratio")),
)
TOO_FEW_GROUPS = "fewer than two groups with enough patients"
_UNDEFINED = "undefined in a group: a denominator is 0"
_NONE = "no interval: a rate of 0"


class _Pairs(NamedTuple):
    """Differences of all pairs of groups, [pair, metric], with their pointwise intervals."""

    value: Floats
    low: Floats
    high: Floats

    def of(self, metrics: Sequence[str]) -> tuple[Floats, Floats, Floats]:
        """Of some metrics, one after the other."""
        places = [METRICS.index(name) for name in metrics]
        value, low, high = (np.concatenate([part[:, k] for k in places]) for part in self)
        return value, low, high


def gap_rows(writer: RowWriter, found: GroupMeasures, partition: Partition, model: str) -> Iterator[Estimate]:
    """The largest gaps and the fairness summaries of one model."""
    groups = found.enough(partition)
    n = int(found.parts[0].n[0])
    n_positive = int(found.parts[0].n_positive[0])

    def row(metric: str, value: float | None, ends: Interval | None, reason: str | None) -> Estimate:
        given = None if ends is None else (float(ends.low), float(ends.high))
        return writer.row(
            model,
            metric,
            found.label,
            partition.name,
            value,
            n=n,
            n_positive=n_positive,
            interval=given,
            reason=reason,
        )

    if len(groups) < 2:
        for metric in GAP_METRICS:
            yield row(metric, None, None, TOO_FEW_GROUPS)
        return
    pairs = _pairs(found, groups, model, writer.level)
    for name in GAPS:
        gap = largest_gap(*pairs.of([name]), level=writer.level)
        reason = _UNDEFINED if np.isnan(gap.seen) else None
        yield row(f"{name}_gap", float(gap.value), Interval(gap.low, gap.high), reason)
        yield row(f"{name}_gap_seen", float(gap.seen), None, reason)
    for name, rates in FAIRNESS.items():
        gap = largest_gap(*pairs.of(rates), level=writer.level)
        reason = _UNDEFINED if np.isnan(gap.seen) else None
        yield row(f"{name}_difference", float(gap.seen), Interval(gap.low, gap.high), reason)
        yield row(f"{name}_ratio", *_ratio(found, groups, model, rates, writer.level))


def _pairs(found: GroupMeasures, groups: Sequence[str], model: str, level: float) -> _Pairs:
    values, lows, highs = [], [], []
    for first, second in combinations(groups, 2):
        terms = [ContrastTerm(found.part(first), model, 1.0), ContrastTerm(found.part(second), model, -1.0)]
        values.append(np.sum([term.weight * term.part.point[term.place, :, 0] for term in terms], axis=0))
        low, high, _ = difference_interval(terms, level)
        lows.append(low[:, 0])
        highs.append(high[:, 0])
    return _Pairs(np.stack(values), np.stack(lows), np.stack(highs))


def _ratio(
    found: GroupMeasures, groups: Sequence[str], model: str, metrics: Sequence[str], level: float
) -> tuple[float | None, Interval | None, str | None]:
    """The lowest rate over the highest, by the largest gap of their logarithms; of specificity, its complement's."""
    each: list[tuple[Floats, Floats, Floats]] = []
    least = 1.0
    for metric in metrics:
        rates = _rates(found, groups, model, metric, level)
        if np.isnan(rates[0]).any():
            return None, None, _UNDEFINED
        highest = float(rates[0].max())
        least = min(least, float(rates[0].min()) / highest if highest > 0 else 1.0)
        each.append(rates)
    if least == 0.0 or any((low <= 0).any() or np.isnan(low).any() for _, low, _ in each):
        return least, Interval(np.asarray(np.nan), np.asarray(np.nan)), _NONE
    pairs = [_log_pairs(*rates) for rates in each]
    gap = largest_gap(*(np.concatenate(part) for part in zip(*pairs, strict=True)), level=level)
    return least, _as_ratio(gap), None


def _as_ratio(gap: LargestGap) -> Interval:
    return Interval(np.exp(-gap.high), np.exp(-gap.low))


def _rates(
    found: GroupMeasures, groups: Sequence[str], model: str, metric: str, level: float
) -> tuple[Floats, Floats, Floats]:
    """A rate of every group with its interval; false positives in the place of specificity."""
    k, out = METRICS.index(metric), []
    for group in groups:
        part = found.part(group)
        m = part.models.index(model)
        spread = part.spread(level)
        out.append((part.point[m, k, 0], spread.low[m, k, 0], spread.high[m, k, 0]))
    value, low, high = np.asarray(out, np.float64).T
    return (1.0 - value, 1.0 - high, 1.0 - low) if metric == "specificity" else (value, low, high)


def _log_pairs(value: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Differences of logarithms for all pairs, as those of independent groups, with intervals."""
    first, second = np.asarray(list(combinations(range(len(value)), 2))).T
    point, below, above = np.log(value), np.log(low), np.log(high)
    reach = above - below
    ends = contrast_interval(
        [point[first], point[second]],
        [Interval(below[first], above[first]), Interval(below[second], above[second])],
        [reach[first], reach[second]],
        [1.0, -1.0],
        np.hypot(reach[first], reach[second]),
    )
    return point[first] - point[second], ends.low, ends.high
