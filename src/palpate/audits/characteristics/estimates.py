"""The characteristics audit's numbers as rows of the long table.

`group` is `gender=female`, and `gender` for numbers about the whole characteristic. `reference` names the group that a
paired difference or a flip is against. Rows of the model `training data` are what the training split shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.analysis import ArmAnalysis
from palpate.audits.characteristics.measures import Measures, Spread
from palpate.audits.characteristics.observed import FEWEST_OBSERVED, ObservedRates
from palpate.audits.kit.measured import FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST, Correction
from palpate.results import Estimate, finite
from palpate.stats import adjust

AUDIT = "characteristics"
TRAINING = "training data"
ALL_LABELS = "all labels"
NO_NOTE = "no note could be altered to every group"
NO_THRESHOLD = "no threshold"
TOO_FEW_OBSERVED = f"fewer than two groups have {FEWEST_OBSERVED} training cases"
NOT_ABOVE_CHANCE = "the groups differ no more in the training data than chance makes them"
FEW_PATIENTS = f"no interval: fewer than {FEWEST_FOR_INTERVAL} patients"
UNTESTED = f"not tested: fewer than {FEWEST_FOR_TEST} patients"


class Facts(NamedTuple):
    """What the rows of all arms share."""

    labels: tuple[str, ...]
    level: float
    correction: Correction
    no_threshold: NDArray[np.bool_]
    """[model of the predictions, label]"""
    models: tuple[str, ...]
    """The models of the predictions, in order."""
    families: Mapping[str, Sequence[str]]
    """Models with several checkpoints, and which these are."""
    n_arms: int = 1
    """How many arms are tested. They share the level evenly, so that age with its many groups costs others little."""


def arm_rows(found: ArmAnalysis, n_positive: NDArray[np.int64], facts: Facts, why_not_observed: str) -> list[Estimate]:
    """All rows of an arm; `n_positive` counts the positive notes of each label."""
    rows: list[Estimate] = []
    if not len(found.arm.rows):
        return [_missing(found, model, label) for model in facts.models for label in facts.labels]
    for model, measures in found.measures.items():
        rows += _levels(found, model, measures, n_positive, facts)
        rows += _differences(found, model, measures, n_positive, facts)
        rows += _flips(found, model, measures, facts)
        rows += _rough(found, model, facts)
        rows += _slopes(found, model, facts, why_not_observed)
    for model, seen in found.seen.items():
        share = seen.n_outside / seen.n_altered if seen.n_altered else None
        why = None if seen.n_altered else "no note was altered"
        rows.append(_row(model, "outside_window", "", found.arm.name, share, n=seen.n_altered, reason=why))
    if found.observed is not None:
        rows += _observed(found, found.observed, facts)
    return rows


def _row(
    model: str, metric: str, label: str, group: str, value: float | None, *, n: int, reason: str | None = None
) -> Estimate:
    return Estimate(audit=AUDIT, model=model, metric=metric, label=label, group=group, value=value, n=n, reason=reason)


def _missing(found: ArmAnalysis, model: str, label: str) -> Estimate:
    return _row(model, "difference", label, found.arm.name, None, n=0, reason=NO_NOTE)


def _cells(spread: Spread, g: int, j: int) -> dict[str, float | None]:
    return {"value": finite(spread.value[g, j]), "low": finite(spread.low[g, j]), "high": finite(spread.high[g, j])}


def _levels(
    found: ArmAnalysis, model: str, measures: Measures, n_positive: NDArray[np.int64], facts: Facts
) -> Iterator[Estimate]:
    arm, few = found.arm, found.n_units < FEWEST_FOR_INTERVAL
    parts = [
        ("mean_probability", measures.mean_probability, [arm.group_name(g) for g in range(len(arm.groups))]),
        ("mean_probability", measures.as_written, [arm.as_written]),
        ("deviation", measures.deviation, [arm.group_name(g) for g in range(len(arm.groups))]),
    ]
    for metric, spread, groups in parts:
        for g, group in enumerate(groups):
            for j, label in enumerate(facts.labels):
                yield Estimate(
                    audit=AUDIT,
                    model=model,
                    metric=metric,
                    label=label,
                    group=group,
                    **_cells(spread, g, j),  # type: ignore[arg-type]
                    level=facts.level,
                    n=len(arm.rows),
                    n_positive=int(n_positive[j]),
                    reason=FEW_PATIENTS if few else None,
                )


def _differences(
    found: ArmAnalysis, model: str, measures: Measures, n_positive: NDArray[np.int64], facts: Facts
) -> Iterator[Estimate]:
    """Paired differences to the reference group, corrected over all groups and labels of the model's arm, and arms."""
    arm = found.arm
    corrected = np.minimum(adjust(measures.p_value, method=facts.correction) * facts.n_arms, 1.0)
    why = FEW_PATIENTS if found.n_units < FEWEST_FOR_INTERVAL else UNTESTED if found.n_units < FEWEST_FOR_TEST else None
    for g in range(len(arm.groups)):
        for j, label in enumerate(facts.labels):
            if g == arm.reference:
                continue
            p = finite(corrected[g, j])
            yield Estimate(
                audit=AUDIT,
                model=model,
                metric="difference",
                label=label,
                group=arm.group_name(g),
                reference=arm.group_name(arm.reference),
                **_cells(measures.difference, g, j),
                level=facts.level,
                p_value=p,
                significant=None if p is None else p < 1 - facts.level,
                n=len(arm.rows),
                n_positive=int(n_positive[j]),
                reason=why,
            )


def _flips(found: ArmAnalysis, model: str, measures: Measures, facts: Facts) -> Iterator[Estimate]:
    arm = found.arm
    own = [facts.models.index(name) for name in facts.families.get(model, [model])]
    undecided = np.asarray(facts.no_threshold[own].any(axis=0))
    few = FEW_PATIENTS if found.n_units < FEWEST_FOR_INTERVAL else None
    parts = [
        (measures.flip_rate, arm.group_name(arm.reference)),
        (measures.flip_rate_from_written, arm.as_written),
    ]
    for spread, against in parts:
        for g in range(len(arm.groups)):
            for j, label in enumerate(facts.labels):
                if against == arm.group_name(g):
                    continue
                none = bool(undecided[j])
                yield Estimate(
                    audit=AUDIT,
                    model=model,
                    metric="flip_rate",
                    label=label,
                    group=arm.group_name(g),
                    reference=against,
                    **({"value": None} if none else _cells(spread, g, j)),
                    level=facts.level,
                    n=len(arm.rows),
                    reason=NO_THRESHOLD if none else few,
                )


def _rough(found: ArmAnalysis, model: str, facts: Facts) -> Iterator[Estimate]:
    if found.arm.name != "age":
        return
    if model not in found.roughness:
        few_ages = "fewer than 10 equally spaced ages"
        yield from (
            _row(model, "roughness", label, "age", None, n=len(found.arm.rows), reason=few_ages)
            for label in facts.labels
        )
        return
    rough = found.roughness[model]
    few = found.n_units < FEWEST_FOR_INTERVAL
    for metric, spread in zip(("roughness", "age_jump"), rough.spreads(facts.level), strict=True):
        for j, label in enumerate(facts.labels):
            value = finite(spread.value[j])
            low, high = (None, None) if value is None or few else (finite(spread.low[j]), finite(spread.high[j]))
            why: str | None = rough.reason[j] if value is None else None
            if value is not None and low is None:
                why = FEW_PATIENTS if few else "no interval: in more than 5% of the resamples the curve is flat"
            yield Estimate(
                audit=AUDIT,
                model=model,
                metric=metric,
                label=label,
                group="age",
                value=value,
                low=low,
                high=high,
                level=facts.level,
                n=len(found.arm.rows),
                reason=why,
            )


def _slopes(found: ArmAnalysis, model: str, facts: Facts, why_not: str) -> Iterator[Estimate]:
    labels: Sequence[str] = facts.labels if len(facts.labels) == 1 else (*facts.labels, ALL_LABELS)
    n = 0 if found.observed is None else int(found.observed.n.sum())
    slopes = found.slopes.get(model)
    for j, label in enumerate(labels):
        value = None if slopes is None else finite(slopes[j].value)
        why = None
        if value is None:
            why = why_not or (TOO_FEW_OBSERVED if slopes is None else NOT_ABOVE_CHANCE)
        yield Estimate(
            audit=AUDIT,
            model=model,
            metric="amplification",
            label=label,
            group=found.arm.name,
            value=value,
            low=None if value is None or slopes is None else finite(slopes[j].low),
            high=None if value is None or slopes is None else finite(slopes[j].high),
            level=facts.level,
            n=n,
            reason=why,
        )


def _observed(found: ArmAnalysis, rates: ObservedRates, facts: Facts) -> Iterator[Estimate]:
    place = {int(g): k for k, g in enumerate(rates.known)}
    compared = len(rates.known) > 1
    for g in range(len(found.arm.groups)):
        for j, label in enumerate(facts.labels):
            k = place.get(g) if compared else None
            counts = {"n": int(rates.n[g]), "n_positive": int(rates.n_positive[g, j])}
            named = {"audit": AUDIT, "model": TRAINING, "label": label, "group": found.arm.group_name(g)}
            yield Estimate(
                **named,  # type: ignore[arg-type]
                **counts,  # type: ignore[arg-type]
                metric="observed_rate",
                value=finite(rates.rate[g, j]),
                low=finite(rates.low[g, j]),
                high=finite(rates.high[g, j]),
                level=facts.level,
                reason=None if rates.n[g] else "no training case",
            )
            yield Estimate(
                **named,  # type: ignore[arg-type]
                **counts,  # type: ignore[arg-type]
                metric="observed_deviation",
                value=None if k is None else finite(rates.deviation[k, j]),
                low=None if k is None else finite(rates.deviation_low[k, j]),
                high=None if k is None else finite(rates.deviation_high[k, j]),
                level=facts.level,
                reason=None if k is not None else _why_not_compared(rates, g),
            )


def _why_not_compared(rates: ObservedRates, group: int) -> str:
    few = int(rates.n[group]) < FEWEST_OBSERVED
    return f"fewer than {FEWEST_OBSERVED} training cases" if few else TOO_FEW_OBSERVED
