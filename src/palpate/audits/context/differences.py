"""Differences of the context audit: which are tested, how, and how all of them are corrected together.

Tested are the questions of the context paper (Sections 3.3 to 3.5): matched and re-weighted against all cases, the
highest stratum of the pre-test probability against the lowest, a prior mention against none; and what a model adds to
the history. All other differences are told with their intervals only. **Everything that one run of the audit tests is
one family**: all labels, models, metrics and questions, and the means over labels. So the chance that a run marks
anything at all where nothing is there stays below 5%.

The test: a difference over its bootstrap standard error, against Student's distribution with as many degrees of freedom
as the smallest class involved has patients, less one; once for the difference and once for that of log-odds, whose
spread does not shrink near 1, and the larger p counts. Far out in the tails, where a corrected level lies, that is
honest where counting replicates is not. Intervals are made the same way and hold for the whole family at once
(Bonferroni); a percentile so far out would need millions of replicates. Those of differences that are not tested hold
for all of these at once.

Not tested: metrics that change with how common the label is in a group (AUPRC, calibration error, Brier skill), groups
of few patients, decisions at a threshold where it divides too few patients, or under weights, and anything under
weights that are not to be relied on, or among pairs that are not alike. A difference of calibration errors has no
interval either: chance makes the error larger in the smaller group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE, Group
from palpate.audits.context.incremental import Beyond, Spread
from palpate.audits.context.measures import FEWEST_TESTED, MACRO, METRICS, PRETEST
from palpate.audits.kit.measured import BY_CHANCE, ERROR, FEWEST_FOR_INTERVAL, Correction, Measured
from palpate.results import Estimate, finite
from palpate.stats import adjust

AUDIT = "context"
TESTED = (
    "auroc",
    "sensitivity_at_local_specificity",
    "sensitivity_at_global_specificity",
    "specificity_at_global_threshold",
)
GAINS = ("auroc_gain_over_context", "auroc_model_over_context")
PREVALENCE = "not tested: this number changes with how common the label is in the group"
UNTESTED = f"not tested: fewer than {FEWEST_TESTED} patients with or without the label"
ONLY_TOLD = "not tested: the highest and the lowest group are tested against each other"
FEWEST_DECIDED = 10
"""Patients of a class that should lie on each side of a threshold; 13 out of 13 has no spread to test with."""
ONE_SIDED = f"not tested: fewer than {FEWEST_DECIDED} patients are to be expected on one side of the threshold"
HEAVY = "not tested: under weights a few heavy cases decide on which side of a threshold the weight lies"
SAME_POSITIVES = "not tested: every positive case is in a pair, so sensitivity at one threshold can't change"
DOUBTFUL = {
    REWEIGHTED: "not tested: the weights are not to be relied on",
    MATCHED: "not tested: the matched pairs are not alike",
}
OFTEN_UNDEFINED = "no interval: the metric is undefined in more than 5% of the resamples"
_MOST_UNDEFINED = 0.05
Floats = NDArray[np.float64]
Objects = NDArray[np.object_]


class Comparison(NamedTuple):
    """One group less another."""

    group: str
    reference: str
    tested: bool


class Facts(NamedTuple):
    """What all rows share."""

    models: tuple[str, ...]
    """Those that are compared: models with several checkpoints, not the checkpoints."""
    level: float
    correction: Correction
    specificity: float
    reasons: Mapping[str, tuple[str | None, ...]]
    """By group, for each label: why nothing is there."""
    doubtful: frozenset[tuple[str, str]]
    """(group, label) where the history is not held equal."""


class Difference(NamedTuple):
    """One comparison in one metric; arrays are [model, label]."""

    metric: str
    group: str
    reference: str
    models: tuple[str, ...]
    labels: tuple[str, ...]
    point: Floats
    error: Floats
    """Bootstrap standard error; nan where there is no interval."""
    freedom: Floats
    p: Floats
    """Not corrected; nan where nothing is tested."""
    why: Objects
    """Why there is no number, no interval or no test."""
    n: NDArray[np.int64]
    n_positive: NDArray[np.int64]


def comparisons(groups: Sequence[Group]) -> list[Comparison]:
    """To the whole set, and between the groups of a division: high less low, mentioned less not mentioned."""
    found = [Comparison(MATCHED, WHOLE, True), Comparison(REWEIGHTED, WHOLE, True)]
    for kind in ("stratum", "mention"):
        names = [group.name for group in groups if group.kind == kind]
        names = names if kind == "stratum" else names[::-1]
        found += [Comparison(name, WHOLE, False) for name in names]
        pairs = [(high, low) for k, high in enumerate(names) for low in names[:k]]
        found += [Comparison(high, low, (high, low) == (names[-1], names[0])) for high, low in pairs]
    return found


def differences(
    parts: Mapping[str, Measured], averages: Mapping[str, Measured], wanted: Sequence[Comparison], facts: Facts
) -> list[Difference]:
    """All comparisons in all metrics, of the labels and of their mean."""
    return [
        _difference(measured, asked, k, facts)
        for measured in (parts, averages)
        for asked in wanted
        if asked.group in measured and asked.reference in measured
        for k in range(len(METRICS))
    ]


def _difference(measured: Mapping[str, Measured], asked: Comparison, metric: int, facts: Facts) -> Difference:
    a, b = measured[asked.group], measured[asked.reference]
    index = [a.models.index(name) for name in facts.models]
    high, low = (Spread(part.point[index, metric], part.values[index, metric]) for part in (a, b))
    n_units = np.minimum(a.n_units, b.n_units).min(axis=0)
    point = high.point - low.point
    error = np.where(n_units < FEWEST_FOR_INTERVAL, np.nan, standard_error(high.values - low.values))
    if METRICS[metric] == ERROR:
        error = np.full_like(error, np.nan)
    freedom = np.broadcast_to(np.maximum(n_units - 1.0, 1.0), point.shape)
    why = _missing(a, b, point, error, facts, BY_CHANCE if METRICS[metric] == ERROR else OFTEN_UNDEFINED)
    silent = _untested(asked, METRICS[metric], (a, b), (high.point + low.point) / 2, facts)
    nearest = 0.5 / np.maximum(n_units, 1)[:, None]
    apart = _logit(high.values, nearest) - _logit(low.values, nearest)
    nearest = nearest[:, 0]
    p = np.maximum(
        student_p(point, error, freedom),
        student_p(_logit(high.point, nearest) - _logit(low.point, nearest), standard_error(apart), freedom),
    )
    known = why == None  # noqa: E711  (an array of objects)
    return Difference(
        metric=METRICS[metric],
        group=asked.group,
        reference=asked.reference,
        models=facts.models,
        labels=a.labels,
        point=point,
        error=error,
        freedom=freedom,
        p=np.where(known & (silent == None), p, np.nan),  # noqa: E711
        why=np.where(known, silent, why),
        n=a.n,
        n_positive=a.n_positive,
    )


def standard_error(values: Floats) -> Floats:
    """The replicates' standard deviation; nan where more than 5% are undefined."""
    defined = ~np.isnan(values)
    n = defined.sum(axis=-1)
    mean = np.where(defined, values, 0.0).sum(axis=-1) / np.maximum(n, 1)
    square = (np.where(defined, values - mean[..., None], 0.0) ** 2).sum(axis=-1) / np.maximum(n - 1, 1)
    enough = (n > 1) & (n >= (1.0 - _MOST_UNDEFINED) * values.shape[-1])
    return np.where(enough, np.sqrt(square), np.nan)


def student_p(point: Floats, error: Floats, freedom: Floats) -> Floats:
    """Two-sided p of "no difference"; 1 where there is neither a difference nor spread."""
    z = np.divide(np.abs(point), error, out=np.zeros_like(point), where=error > 0)
    return np.where(np.isnan(point) | np.isnan(error), np.nan, 2.0 * stdtr(freedom, -z))


def _logit(share: Floats, nearest: Floats) -> Floats:
    """Log-odds of an AUROC or a share; nearer to 0 or 1 than half a patient nothing is known."""
    inside = np.clip(share, nearest, 1.0 - nearest)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _untested(asked: Comparison, metric: str, parts: tuple[Measured, Measured], share: Floats, facts: Facts) -> Objects:
    """Why a difference is not tested, [model, label]; None if it is. `share` is the mean of the two levels."""
    n = np.minimum(parts[0].n_units, parts[1].n_units)
    why = np.full(share.shape, None, dtype=object)
    if metric not in TESTED:
        why[:] = PREVALENCE
    elif not asked.tested:
        why[:] = ONLY_TOLD
    elif metric != "auroc" and asked.group == REWEIGHTED:
        why[:] = HEAVY
    elif metric != "auroc":
        side = n[1] if metric == "specificity_at_global_threshold" else n[0]
        divided = side * np.minimum(share, 1 - share) < FEWEST_DECIDED
        if metric == "sensitivity_at_local_specificity":
            divided |= n[1] * (1 - facts.specificity) < FEWEST_DECIDED
        why[divided] = ONE_SIDED
        if asked.group == MATCHED and metric == "sensitivity_at_global_specificity":
            why[:, parts[0].n_positive == parts[1].n_positive] = SAME_POSITIVES
    if metric in TESTED:
        doubtful = np.broadcast_to(_doubtful(asked.group, parts[0], facts), why.shape)
        why[doubtful & (why == None)] = DOUBTFUL.get(asked.group)  # noqa: E711  (an array of objects)
        why[np.broadcast_to(n.min(axis=0) < FEWEST_TESTED, why.shape)] = UNTESTED
    return why


def _doubtful(group: str, part: Measured, facts: Facts) -> list[bool]:
    """Of which labels the history is not held equal in a group; a mean over labels is as doubtful as the worst."""
    bad = {label for name, label in facts.doubtful if name == group}
    return [not bad.isdisjoint(part.averaged or (label,)) for label in part.labels]


def _missing(a: Measured, b: Measured, point: Floats, error: Floats, facts: Facts, no_interval: str) -> Objects:
    """Why there is no number or no interval, [model, label]; None if both are there."""
    why = np.full(point.shape, None, dtype=object)
    for m, j in np.ndindex(point.shape):
        if np.isnan(point[m, j]):
            told = (_no_number(part, j, facts) for part in (a, b))
            why[m, j] = next((each for each in told if each), None) or a.reason(j, value=None, low=None)
        elif np.isnan(error[m, j]):
            few = (part.reason(j, value=0.0, low=None) for part in (a, b) if part.n_units[:, j].min() < 2)
            why[m, j] = next(few, no_interval)
    return why


def _no_number(part: Measured, j: int, facts: Facts) -> str | None:
    """Why a group has no number for a label; None if it has both classes."""
    n, n_positive = int(part.n[j]), int(part.n_positive[j])
    if 0 < n_positive < n:
        return None
    own = facts.reasons.get(part.population)
    why = own[j] if own is not None and n == 0 and part.labels != (MACRO,) else None
    return why or f"{part.reason(j, value=None, low=None)} in '{part.population}'"


def gains(beyond: Beyond, facts: Facts, labels: Sequence[str]) -> list[Difference]:
    """What the model adds to the context, and the model alone less the context alone."""
    names = tuple(name for name in facts.models if name in beyond.gains)
    return [_gain(beyond, metric, names, tuple(labels), facts) for metric in GAINS if names]


def _gain(beyond: Beyond, metric: str, names: tuple[str, ...], labels: tuple[str, ...], facts: Facts) -> Difference:
    found: list[Spread] = [getattr(beyond.gains[name], metric) for name in names]
    point = np.stack([each.point for each in found])
    error = standard_error(np.stack([each.values for each in found]))
    freedom = np.broadcast_to(np.maximum(beyond.n_units - 1.0, 1.0), point.shape)
    p = student_p(point, error, freedom)
    if metric == "auroc_gain_over_context":
        # Joined with the model the context can't tell less: below 0 lies only the price of fitting two slopes.
        p = np.where(point <= 0, 1.0, p)
    few = np.broadcast_to(beyond.n_units < FEWEST_TESTED, point.shape)
    nothing = [reason or "too few cases of one class to combine model and context" for reason in facts.reasons[WHOLE]]
    why = np.where(few, UNTESTED, np.full(point.shape, None, dtype=object))
    why = np.where(np.isnan(point), np.asarray(nothing, dtype=object), why)
    return Difference(
        metric=metric,
        group=WHOLE,
        reference=PRETEST,
        models=names,
        labels=labels,
        point=point,
        error=error,
        freedom=freedom,
        p=np.where(few | np.isnan(point), np.nan, p),
        why=why,
        n=beyond.n,
        n_positive=beyond.n_positive,
    )


def difference_rows(found: Sequence[Difference], facts: Facts) -> Iterator[Estimate]:
    """One row a difference; p-values and intervals are those of one family."""
    if not found:
        return
    p = np.concatenate([each.p.ravel() for each in found])
    adjusted = adjust(p, method=facts.correction)
    # Tested or not, an interval is one of many: each kind holds at once.
    n_tested = int(np.sum(~np.isnan(p)))
    n_told = sum(int(np.sum(~np.isnan(each.error))) for each in found) - n_tested
    share = (1.0 - facts.level) / 2.0
    at = 0
    for each in found:
        mine = adjusted[at : at + each.p.size].reshape(each.p.shape)
        at += each.p.size
        outside = share / np.where(np.isnan(each.p), max(1, n_told), max(1, n_tested))
        reach = each.error * stdtrit(each.freedom, 1.0 - outside)
        yield from _rows(each, mine, reach, facts.level)


def _rows(each: Difference, p_values: Floats, reach: Floats, level: float) -> Iterable[Estimate]:
    for m, j in np.ndindex(each.point.shape):
        value, p, half = finite(each.point[m, j]), finite(p_values[m, j]), finite(reach[m, j])
        low, high = (None, None) if value is None or half is None else (value - half, value + half)
        if low is not None and high is not None and each.metric != "brier_skill_score":
            low, high = max(-1.0, low), min(1.0, high)  # shares differ by 1 at most
        yield Estimate(
            audit=AUDIT,
            model=each.models[m],
            metric=each.metric,
            label=each.labels[j],
            group=each.group,
            reference=each.reference,
            value=value,
            low=low,
            high=high,
            level=level,
            p_value=p,
            significant=None if p is None else p < 1.0 - level,
            n=int(each.n[j]),
            n_positive=int(each.n_positive[j]),
            reason=each.why.item(m, j),
        )
