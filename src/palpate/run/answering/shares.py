"""Shares of refusals and of answers that say nothing, by arm and by group, and how they differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.missing.shares import rate_by_patient
from palpate.cases.edits import Ints
from palpate.results import Estimate
from palpate.results.plan import AnswerKind
from palpate.run.answering.arms import AskedArms, AskedGroups
from palpate.stats.score_intervals import student_quantile

REFUSED, UNREADABLE = "refusal_share", "unreadable_share"
OUTCOMES = (REFUSED, UNREADABLE)
MASS, NOISE = "choice_mass", "answer_standard_error"
OTHERS = "all others"
MOST_SHOWN = 60
"""Arms in a table of the report."""
_MOST_COUNTED = 20_000
"""Arms times labels that all get a share."""
_MOST_COMPARED = 2_000
"""Arms that are compared with the first one, those with the largest shares first."""
_REPLICATES = 2000
_LEVEL = 0.95


def outcome_shares(asked: AskedArms) -> Iterator[Estimate]:
    """The shares of refusals and of answers that say nothing, in each arm and in each group of patients."""
    hits = {(metric, j): asked.hit(metric, j) for metric in OUTCOMES for j in range(len(asked.labels))}
    groups = [each for division in asked.groups for each in division.rows.items()]
    for arm, rows in (*_counted(asked), *groups):
        for j, label in enumerate(asked.labels):
            for metric in OUTCOMES:
                cases = asked.cases(rows, hits[metric, j])
                rate = rate_by_patient(cases.missing, cases.positive, cases, _LEVEL)
                ends = (rate.low, rate.high)
                yield asked.writer.row(
                    asked.model, metric, label, arm, rate.value, n=rate.n, interval=ends, reason=rate.reason
                )


def arm_differences(asked: AskedArms) -> Iterator[Estimate]:
    """How much more often each arm is refused, or answered unreadably, than the first one.

    The intervals of a metric hold for all arms and labels at once.
    """
    arms = asked.altered
    compared = (len(arms) - 1) * len(asked.labels)
    for metric, (j, label) in product(OUTCOMES, enumerate(asked.labels)):
        hit = asked.hit(metric, j)
        told = [arm for arm in arms[1:] if hit[asked.arms[arm]].any() or hit[asked.arms[arms[0]]].any()]
        if len(told) > _MOST_COMPARED:
            told = sorted(told, key=lambda arm: -float(hit[asked.arms[arm]].mean()))[:_MOST_COMPARED]
        for arm in told:
            value, low, high, n = _difference(asked, hit, asked.arms[arm], asked.arms[arms[0]], compared)
            yield asked.writer.row(asked.model, metric, label, arm, value, n=n, interval=(low, high), reference=arms[0])


def _difference(
    asked: AskedArms, hit: NDArray[np.bool_], rows: Ints, reference: Ints, compared: int
) -> tuple[float, float, float, int]:
    """The difference of two shares of the same patients, from how far each patient moves it."""
    n_patients = int(asked.patient.max()) + 1
    moves, value = np.zeros(n_patients), 0.0
    for part, sign in ((rows, 1.0), (reference, -1.0)):
        weight = asked.weight[part]
        sums = np.bincount(asked.patient[part], weight * hit[part], n_patients)
        masses = np.bincount(asked.patient[part], weight, n_patients)
        share = float(sums.sum() / masses.sum())
        moves += sign * (sums - share * masses) / masses.sum()
        value += sign * share
    level = 1 - (1 - _LEVEL) / compared
    known = max(len(np.unique(asked.patient[np.concatenate([rows, reference])])), 2)
    reach = float(student_quantile(known - 1, level))
    spread = reach * float(np.sqrt((moves**2).sum() * known / (known - 1)))
    # Where hardly anybody is answered differently, so may be somebody else: as much as a share of none leaves open.
    nobody = asked.cases(rows, np.zeros(len(hit), bool))
    spread = max(spread, rate_by_patient(nobody.missing, nobody.positive, nobody, level).high)
    return value, max(value - spread, -1.0), min(value + spread, 1.0), len(rows)


def group_differences(asked: AskedArms) -> Iterator[Estimate]:
    """How much more often each group is refused, or answered unreadably, than its reference, or than all others.

    These are different patients, so the ends of the two shares are combined (Newcombe); for all groups and labels at
    once.
    """
    compared = sum(_n_compared(division) for division in asked.groups) * len(asked.labels)
    for division in asked.groups:
        for group, rows in division.rows.items():
            others = _others(division, group)
            if group == division.reference or not len(rows) or not len(others):
                continue
            for metric, (j, label) in product(OUTCOMES, enumerate(asked.labels)):
                hit = asked.hit(metric, j)
                if not hit[rows].any() and not hit[others].any():
                    continue
                value, low, high, reason = _apart(asked, hit, rows, others, 1 - (1 - _LEVEL) / compared)
                yield asked.writer.row(
                    *(asked.model, metric, label, group, value),
                    n=len(rows),
                    interval=(low, high),
                    reference=division.reference or OTHERS,
                    reason=reason,
                )


def _n_compared(division: AskedGroups) -> int:
    """Comparisons that are different ones: two groups without a reference make one."""
    n = sum(len(rows) > 0 for rows in division.rows.values())
    return max(n - 1 if division.reference is not None or n == 2 else n, 1)


def _others(division: AskedGroups, group: str) -> Ints:
    if division.reference is not None:
        return division.rows[division.reference]
    return np.concatenate([rows for name, rows in division.rows.items() if name != group])


def _apart(
    asked: AskedArms, hit: NDArray[np.bool_], rows: Ints, others: Ints, level: float
) -> tuple[float, float, float, str | None]:
    own, rest = (
        rate_by_patient(cases.missing, cases.positive, cases, level)
        for cases in (asked.cases(rows, hit), asked.cases(others, hit))
    )
    value = own.value - rest.value
    low = value - float(np.hypot(own.value - own.low, rest.high - rest.value))
    high = value + float(np.hypot(own.high - own.value, rest.value - rest.low))
    return value, max(low, -1.0), min(high, 1.0), own.reason or rest.reason


def _counted(asked: AskedArms) -> Iterator[tuple[str, Ints]]:
    """The arms that get a share; of very many, those in which some answer is missing."""
    silent = (asked.outcomes.kind != AnswerKind.ANSWERED).any(axis=1)
    few = len(asked.arms) * len(asked.labels) <= _MOST_COUNTED
    for k, (arm, rows) in enumerate(asked.arms.items()):
        if few or k < 2 or silent[rows].any():
            yield arm, rows


def answer_means(asked: AskedArms) -> Iterator[Estimate]:
    """The mass of the choices, and the standard error of several answers, in the arms that are shown."""
    for metric, values in ((MASS, asked.outcomes.mass), (NOISE, asked.outcomes.noise)):
        for arm in asked.shown(MOST_SHOWN):
            rows = asked.arms[arm]
            for j, label in enumerate(asked.labels):
                known = rows[~np.isnan(values[rows, j])]
                if len(known):
                    yield asked.writer.mean(
                        *(asked.model, metric, label, arm, values[known, j], asked.patient[known]),
                        rng=0,
                        n_replicates=_REPLICATES,
                    )
