"""Estimate rows: written in one place, looked up in one place, corrected for multiple comparisons in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.audits.kit.resampling import (
    FEWEST_FOR_INTERVAL,
    FEWEST_FOR_TEST,
    Correction,
    Family,
    mean_with_interval,
    no_interval,
    not_tested,
)
from palpate.results import Estimate, finite
from palpate.stats import adjust, interval_p_value, widen_interval
from palpate.stats.risks.core import UNBOUNDED as UNBOUNDED_RISKS

Ends = tuple[float | None, float | None]
"""The lower and upper end of an interval; None or NaN where there is none."""


@dataclass(frozen=True)
class RowWriter:
    """Writes the estimates of one audit; what is not finite becomes null, and null numbers have no interval."""

    audit: str
    level: float = 0.95

    def row(
        self,
        model: str,
        metric: str,
        label: str,
        group: str,
        value: float | None,
        *,
        n: int,
        interval: Ends | None = None,
        reference: str | None = None,
        p_value: float | None = None,
        n_positive: int | None = None,
        reason: str | None = None,
    ) -> Estimate:
        """One number. `interval` is left out for numbers that have none by nature; `p_value` is not corrected yet."""
        number = finite(value)
        low, high = (finite(end) for end in interval) if interval is not None and number is not None else (None, None)
        return Estimate(
            audit=self.audit,
            model=model,
            metric=metric,
            label=label,
            group=group,
            value=number,
            n=n,
            reference=reference,
            low=low,
            high=high if low is not None else None,
            level=None if interval is None else self.level,
            p_value=finite(p_value) if number is not None else None,
            n_positive=n_positive,
            reason=reason,
        )

    def mean(
        self,
        model: str,
        metric: str,
        label: str,
        group: str,
        values: ArrayLike,
        patients: ArrayLike,
        *,
        rng: np.random.Generator | int,
        n_replicates: int = 10_000,
        reference: str | None = None,
        weight: NDArray[np.float64] | None = None,
    ) -> Estimate:
        """The mean of a measure (one value per case, with its weight), with its interval by patient."""
        found = mean_with_interval(
            values, patients, rng=rng, n_replicates=n_replicates, level=self.level, weight=weight
        )
        ends = (found.low, found.high)
        return self.row(
            model, metric, label, group, found.value, n=found.n, interval=ends, reference=reference, reason=found.reason
        )

    def enough(self, row: Estimate, n_units: int, unit: str = "patients", *, tested: bool = False) -> Estimate:
        """The row without the interval, or without the p-value, that too few units cannot support."""
        if row.value is None:
            return row
        if n_units < FEWEST_FOR_INTERVAL:
            row = replace(row, low=None, high=None, reason=row.reason or no_interval(n_units, unit))
        if tested and n_units < FEWEST_FOR_TEST:
            row = replace(row, p_value=None, reason=row.reason or not_tested(unit))
        return row


class EstimateIndex(Sequence[Estimate]):
    """The estimates of one audit, found by what they are; `label` and `group` are what `find` takes by default."""

    def __init__(self, rows: Sequence[Estimate], *, label: str = "", group: str = "") -> None:
        self.rows, self.label, self.group = tuple(rows), label, group
        self._index = {(row.metric, row.model, row.label, row.group, row.reference): row for row in self.rows}

    def find(
        self,
        metric: str,
        model: str,
        *,
        label: str | None = None,
        group: str | None = None,
        reference: str | None = None,
    ) -> Estimate | None:
        """One estimate, or None."""
        label, group = self.label if label is None else label, self.group if group is None else group
        return self._index.get((metric, model, label, group, reference))

    def value(self, metric: str, model: str, **where: str | None) -> float | None:
        """Its number, or None; `where` as for `find`."""
        row = self.find(metric, model, **where)
        return None if row is None else row.value

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        return self.rows[k]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.rows)


def pairs_of(models: Sequence[str]) -> list[tuple[str, str]]:
    """(model, reference) for every comparison of two models."""
    return [(model, reference) for k, model in enumerate(models) for reference in models[:k]]


_UNBOUNDED = (
    "brier_skill_score",
    "amplification",
    "alerts_per_100",
    "alerts_per_day",
    "number_needed_to_evaluate",
    "alerts_per_stay",
    "alerts_per_flagged_stay",
    "hours_to_alert",
    "lead_time_hours",
    *UNBOUNDED_RISKS,
)
"""Metrics that may lie below -1 or above 1."""


def corrected(
    rows: Sequence[Estimate],
    correction: Correction,
    level: float,
    *,
    headline: str = "",
    family_of: Callable[[Estimate], Hashable] | None = None,
    n_questions: int = 1,
) -> list[Estimate]:
    """The rows with p-values and intervals that hold for the family of each, and whether each is significant.

    A row is tested if it has a p-value. Where it also has an interval, the p-value is the one that the interval
    implies, so that the two always agree; otherwise the audit's own p-value stands.

    All rows of one metric are one family; the headline label is a family of its own, so that a hundred rare labels do
    not decide what is said about all of them together. `family_of` names another family for each row.
    `n_questions` sets of families share the level evenly: a question with many comparisons costs the others little.
    """
    out = [_with_own_p(row, level) for row in rows]
    families: dict[Hashable, list[int]] = {}
    for k, row in enumerate(out):
        family = (row.metric, row.label == headline) if family_of is None else family_of(row)
        families.setdefault(family, []).append(k)
    for places in families.values():
        raw = np.asarray([math.nan if (p := out[k].p_value) is None else p for k in places])
        adjusted = np.minimum(adjust(raw, method=correction) * n_questions, 1.0)
        n_family = int((~np.isnan(raw)).sum()) * n_questions
        for k, p, own in zip(places, adjusted, raw, strict=True):
            if not math.isnan(p):
                out[k] = _for_family(out[k], float(p), float(own), n_family, level)
    return out


def one_family(family: Family) -> Callable[[Estimate], Hashable] | None:
    """What `corrected` takes as `family_of` for the audit's option `family`: with `run`, all tests are one family."""
    return (lambda _: None) if family == "run" else None


def _with_own_p(row: Estimate, level: float) -> Estimate:
    """The row with its interval kept as the pointwise one, and the p-value that it implies."""
    if row.low is None or row.high is None:
        return row
    kept = replace(row, pointwise_low=row.low, pointwise_high=row.high)
    if row.p_value is None or row.value is None:
        return kept
    p = finite(interval_p_value(row.value, row.low, row.high, level=row.level or level))
    return kept if p is None else replace(kept, p_value=p)


def _for_family(row: Estimate, p: float, own: float, n_family: int, level: float) -> Estimate:
    """The row with its corrected p-value and an interval of the same correction.

    Holm's and Benjamini's corrections differ from row to row, and so does the interval's; p-values cut off at 1
    get Bonferroni's.
    """
    row = replace(row, p_value=p, significant=bool(p < 1 - level), n_family=n_family)
    if row.value is None or row.low is None or row.high is None:
        return row
    factor = p / own if own > 0 and p < 1 else n_family
    low, high = wider_ends(row, factor, level)
    return replace(row, low=low, high=high)


def wider_ends(row: Estimate, n_family: float, level: float) -> tuple[float, float]:
    """The pointwise interval of a known number, widened to hold for a family; what is a share, or a difference of two,
    stays one."""
    if row.value is None or row.low is None or row.high is None:
        raise ValueError("a number without an interval")
    own_low = row.low if row.pointwise_low is None else row.pointwise_low
    own_high = row.high if row.pointwise_high is None else row.pointwise_high
    ends = widen_interval(row.value, own_low, own_high, n_family, level=row.level or level)
    least = -1.0 if row.reference is not None or own_low < 0 else 0.0
    if row.metric in _UNBOUNDED or own_low < least or own_high > 1.0:
        return float(ends.low), float(ends.high)
    return max(float(ends.low), least), min(float(ends.high), 1.0)
