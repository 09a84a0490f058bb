"""Differences of the context audit: which are tested, how, and how all of them are corrected together.

Tested are the questions of the context paper (Sections 3.3 to 3.5): matched and re-weighted against all cases, the
highest stratum of the pre-test probability against the lowest, a prior mention against none; and what a model adds to
the history. All other differences are reported with pointwise intervals only. **A family is one comparison in one
metric**, over all labels and models, as in the paper; the means over labels are a family of their own. With `family:
run`, everything that one run of the audit tests is one family.

An interval is made from those of the two levels, and how they vary together over the resamples
(`stats.score_intervals`). Tests follow from the intervals.

Not tested are metrics that change with the prevalence of the label in a group (AUPRC, calibration error, Brier skill),
groups of few patients, decisions at a threshold that divides too few patients, or under weights, and anything under
unreliable weights or among pairs that are not alike. A difference of calibration errors has no interval either: by
chance alone, the error is larger in the smaller group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.groups import MATCHED, PRETEST, REWEIGHTED, WHOLE, CaseGroup
from palpate.audits.context.incremental import (
    BOTH,
    GAINS,
    HISTORY,
    MODEL,
    MODEL_OVER_CONTEXT,
    OVER_CONTEXT,
    IncrementalValue,
)
from palpate.audits.context.measures import FEWEST_TESTED, METRICS
from palpate.audits.kit.metrics import BY_CHANCE, ERROR, MetricReplicates
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, Correction, Family
from palpate.audits.kit.rows import RowWriter, corrected, one_family, pairs_of
from palpate.cases.edits import Ints
from palpate.results import MACRO, Estimate
from palpate.stats import Interval, standard_error
from palpate.stats.score_intervals import contrast_interval

TESTED = (
    "auroc",
    "sensitivity_at_local_specificity",
    "sensitivity_at_global_specificity",
    "specificity_at_global_threshold",
)
PREVALENCE = "not tested: this number changes with the prevalence of the label in the group"
FEW_PATIENTS = f"not tested: fewer than {FEWEST_TESTED} patients with or without the label"
_ABOUT = {"sensitivity_at_global_specificity": (0, "with"), "specificity_at_global_threshold": (1, "without")}
"""At one threshold for all, sensitivity is about the cases with the label only, specificity about those without."""
NOT_ASKED = "not tested: only the highest and the lowest group are tested against each other"
FEWEST_DECIDED = 10
"""Patients of a class that should lie on each side of a threshold; 13 out of 13 has no spread to test with."""
_FEW_OF = f"not tested: fewer than {FEWEST_TESTED} patients {{side}} the label"
ONE_SIDED = f"not tested: fewer than {FEWEST_DECIDED} patients are expected on one side of the threshold"
HEAVY = "not tested: under weights, a few heavy cases decide on which side of a threshold the weight lies"
SAME_POSITIVES = "not tested: every positive case is in a pair, so sensitivity at one threshold can't change"
UNRELIABLE = {
    REWEIGHTED: "not tested, and no interval: the weights are not reliable",
    MATCHED: "not tested: the matched pairs are not alike",
}
_GAIN_PARTS = {OVER_CONTEXT: (BOTH, HISTORY), MODEL_OVER_CONTEXT: (MODEL, HISTORY)}
OFTEN_UNDEFINED = "no interval: the metric is undefined in more than 5% of the resamples"
TOO_FEW_TO_COMBINE = "too few cases of one class to combine model and history"
Floats = NDArray[np.float64]
Objects = NDArray[np.object_]


class GroupComparison(NamedTuple):
    """One group less another."""

    group: str
    reference: str
    tested: bool


class DifferenceRules(NamedTuple):
    """What decides which differences are reported and tested."""

    models: tuple[str, ...]
    """The models that are compared: ensembles, not their members."""
    level: float
    specificity: float
    reasons: Mapping[str, tuple[str | None, ...]]
    """By group, for each label: why there is nothing to measure."""
    unreliable: frozenset[tuple[str, str]]
    """(group, label) where the history is not held equal."""


class MetricDifference(NamedTuple):
    """One comparison in one metric; arrays are [model, label]."""

    metric: str
    group: str
    reference: str
    labels: tuple[str, ...]
    point: Floats
    low: Floats
    """The pointwise interval; NaN where there is none."""
    high: Floats
    tested: NDArray[np.bool_]
    why: Objects
    """Why there is no number, no interval or no test."""
    n: Ints
    n_positive: Ints


def comparisons(groups: Sequence[CaseGroup]) -> list[GroupComparison]:
    """Each group less all cases; within strata the higher less the lower, and mentioned less not mentioned."""
    found = [GroupComparison(MATCHED, WHOLE, True), GroupComparison(REWEIGHTED, WHOLE, True)]
    for kind in ("stratum", "mention"):
        names = [group.name for group in groups if group.kind == kind]
        names = names if kind == "stratum" else names[::-1]
        found += [GroupComparison(name, WHOLE, False) for name in names]
        found += [GroupComparison(high, low, (high, low) == (names[-1], names[0])) for high, low in pairs_of(names)]
    return found


def group_differences(
    parts: Mapping[str, MetricReplicates], wanted: Sequence[GroupComparison], rules: DifferenceRules
) -> list[MetricDifference]:
    """All comparisons of groups that were measured, in all metrics."""
    return [
        _difference(parts[asked.group], parts[asked.reference], asked, metric, rules)
        for asked in wanted
        if asked.group in parts and asked.reference in parts
        for metric in METRICS
    ]


def _difference(
    a: MetricReplicates, b: MetricReplicates, asked: GroupComparison, metric: str, rules: DifferenceRules
) -> MetricDifference:
    k, places = METRICS.index(metric), [a.models.index(name) for name in rules.models]
    high, low = a.point[places, k], b.point[places, k]
    point = high - low
    ends = _interval(a, b, k, places, rules.level)
    most = np.inf if metric == "brier_skill_score" else 1.0  # shares differ by at most 1
    if asked.group == REWEIGHTED:
        # Under such weights no interval holds the truth as often as it should.
        bad = np.asarray(_unreliable_labels(REWEIGHTED, a, rules))
        ends = Interval(*(np.where(bad, np.nan, end) for end in ends))
    no_interval = BY_CHANCE if metric == ERROR else OFTEN_UNDEFINED
    why = _missing(a, b, point, ends.low, rules, no_interval)
    untested = _untested(asked, metric, (a, b), (high + low) / 2, rules)
    if _cannot_change(asked, metric):
        ends = Interval(*(np.where(a.n_positive == b.n_positive, point, end) for end in ends))
    known = why == None  # noqa: E711  (an array of objects)
    return MetricDifference(
        metric=metric,
        group=asked.group,
        reference=asked.reference,
        labels=a.labels,
        point=point,
        low=np.maximum(ends.low, -most),
        high=np.minimum(ends.high, most),
        tested=known & (untested == None),  # noqa: E711
        why=np.where(known, untested, why),
        n=a.n,
        n_positive=a.n_positive,
    )


def _cannot_change(asked: GroupComparison, metric: str) -> bool:
    """Whether matching leaves a metric as it is where every positive case is in a pair."""
    return asked.group == MATCHED and metric == "sensitivity_at_global_specificity"


def _interval(a: MetricReplicates, b: MetricReplicates, k: int, places: Sequence[int], level: float) -> Interval:
    """Of a metric in one group less in the other; NaN where more than 5% of the resamples lack it."""
    error = standard_error(a.values[places, k] - b.values[places, k])
    spreads = [part.spread(level) for part in (a, b)]
    found = contrast_interval(
        [part.point[places, k] for part in (a, b)],
        [Interval(spread.low[places, k], spread.high[places, k]) for spread in spreads],
        [spread.error[places, k] for spread in spreads],
        [1.0, -1.0],
        error,
        n_units=_units(METRICS[k], a, b),
    )
    unknown = np.isnan(error) | (_units(METRICS[k], a, b) < FEWEST_FOR_INTERVAL) | (METRICS[k] == ERROR)
    return Interval(*(np.where(unknown, np.nan, end) for end in found))


def _units(metric: str, a: MetricReplicates, b: MetricReplicates) -> Floats:
    """[label] the patients of the smallest class that the metric is about, in either group, as far as weights leave
    them."""
    n = np.minimum(a.counts.units, b.counts.units)
    return np.asarray(n[_ABOUT[metric][0]] if metric in _ABOUT else n.min(axis=0))


def _untested(
    asked: GroupComparison,
    metric: str,
    parts: tuple[MetricReplicates, MetricReplicates],
    share: Floats,
    rules: DifferenceRules,
) -> Objects:
    """Why a difference is not tested, [model, label]; None if it is. `share` is the mean of the two levels."""
    n = np.minimum(parts[0].counts.units, parts[1].counts.units)
    why = np.full(share.shape, None, dtype=object)
    if metric not in TESTED:
        why[:] = PREVALENCE
    elif not asked.tested:
        why[:] = NOT_ASKED
    elif metric != "auroc" and asked.group == REWEIGHTED:
        why[:] = HEAVY
    elif metric != "auroc":
        side = n[1] if metric == "specificity_at_global_threshold" else n[0]
        divided = side * np.minimum(share, 1 - share) < FEWEST_DECIDED
        if metric == "sensitivity_at_local_specificity":
            divided |= n[1] * (1 - rules.specificity) < FEWEST_DECIDED
        why[divided] = ONE_SIDED
        if _cannot_change(asked, metric):
            why[:, parts[0].n_positive == parts[1].n_positive] = SAME_POSITIVES
    if metric in TESTED:
        unreliable = np.broadcast_to(_unreliable_labels(asked.group, parts[0], rules), why.shape)
        why[unreliable & (why == None)] = UNRELIABLE.get(asked.group)  # noqa: E711  (an array of objects)
        few = _FEW_OF.format(side=_ABOUT[metric][1]) if metric in _ABOUT else FEW_PATIENTS
        why[np.broadcast_to(_units(metric, *parts) < FEWEST_TESTED, why.shape)] = few
    return why


def _unreliable_labels(group: str, part: MetricReplicates, rules: DifferenceRules) -> list[bool]:
    """For which labels the history is not held equal; a mean over labels is as unreliable as the worst of them."""
    bad = {label for name, label in rules.unreliable if name == group}
    return [not bad.isdisjoint(part.averaged or (label,)) for label in part.labels]


def _missing(
    a: MetricReplicates, b: MetricReplicates, point: Floats, low: Floats, rules: DifferenceRules, no_interval: str
) -> Objects:
    """Why there is no number or no interval, [model, label]; None if both are there."""
    why = np.full(point.shape, None, dtype=object)
    for m, j in np.ndindex(point.shape):
        if np.isnan(point[m, j]):
            found = (_no_number(part, j, rules) for part in (a, b))
            why[m, j] = next((each for each in found if each), None) or a.reason(j, value=None, low=None)
        elif np.isnan(low[m, j]):
            few = (part for part in (a, b) if part.n_units[:, j].min() < FEWEST_FOR_INTERVAL)
            bad = a.population == REWEIGHTED and _unreliable_labels(REWEIGHTED, a, rules)[j]
            own = UNRELIABLE[REWEIGHTED] if bad and no_interval != BY_CHANCE else no_interval
            why[m, j] = next((part.reason(j, value=0.0, low=None) for part in few), own)
    return why


def _no_number(part: MetricReplicates, j: int, rules: DifferenceRules) -> str | None:
    """Why a group has no number for a label; None if it has both classes."""
    n, n_positive = int(part.n[j]), int(part.n_positive[j])
    if 0 < n_positive < n:
        return None
    own = rules.reasons.get(part.population)
    why = own[j] if own is not None and n == 0 and part.labels != (MACRO,) else None
    return why or f"{part.reason(j, value=None, low=None)} in '{part.population}'"


def gain_differences(
    found: IncrementalValue, rules: DifferenceRules, labels: tuple[str, ...]
) -> list[MetricDifference]:
    """What the model adds to the history, and the model alone less the history alone."""
    return [_gain(found, metric, rules, labels) for metric in (OVER_CONTEXT, MODEL_OVER_CONTEXT)]


def _gain(found: IncrementalValue, metric: str, rules: DifferenceRules, labels: tuple[str, ...]) -> MetricDifference:
    k, places = GAINS.index(metric), [found.models.index(name) for name in rules.models]
    point, error = found.point[places, k], standard_error(found.values[places, k])
    terms = [found.auroc(rules.models, part, rules.level) for part in _GAIN_PARTS[metric]]
    n_units = found.counts.units.min(axis=0)
    low, high = contrast_interval(
        [term.point for term in terms],
        [term.ends for term in terms],
        [term.error for term in terms],
        [1.0, -1.0],
        error,
        n_units=n_units,
    )
    if metric == OVER_CONTEXT:
        # Together with the model, the history can't say less: below 0 lies only the price of fitting two slopes.
        high = np.maximum(high, -point)
    few = np.broadcast_to(n_units < FEWEST_TESTED, point.shape)
    nothing = np.asarray([reason or TOO_FEW_TO_COMBINE for reason in rules.reasons[WHOLE]], dtype=object)
    why = np.where(few, FEW_PATIENTS, np.full(point.shape, None, dtype=object))
    return MetricDifference(
        metric=metric,
        group=WHOLE,
        reference=PRETEST,
        labels=labels,
        point=point,
        low=low,
        high=high,
        tested=~few & ~np.isnan(error),
        why=np.where(np.isnan(point), nothing, why),
        n=found.n,
        n_positive=found.n_positive,
    )


def difference_rows(
    writer: RowWriter, found: Sequence[MetricDifference], models: Sequence[str], correction: Correction, family: Family
) -> list[Estimate]:
    """One row per difference, model and label; p-values and intervals hold for the family of each."""
    rows = []
    for each in found:
        rows += [
            writer.row(
                models[m],
                each.metric,
                each.labels[j],
                each.group,
                each.point.item(m, j),
                n=int(each.n[j]),
                n_positive=int(each.n_positive[j]),
                interval=(each.low.item(m, j), each.high.item(m, j)),
                reference=each.reference,
                p_value=1.0 if each.tested[m, j] else None,  # the interval says it
                reason=each.why.item(m, j),
            )
            for m, j in np.ndindex(each.point.shape)
        ]
    return corrected(rows, correction, writer.level, family_of=one_family(family) or _family_of)


def _family_of(row: Estimate) -> tuple[str, str, str | None, bool]:
    """One comparison in one metric, over all labels and models."""
    return row.metric, row.group, row.reference, row.label == MACRO
