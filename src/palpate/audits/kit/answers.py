"""Answers for the scorecard: a question, the effects that answer it for one model, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect, worst


class Question(NamedTuple):
    """One row of the scorecard."""

    name: str
    """One word within the audit, for the gate."""
    asks: str
    """In a clinician's words."""
    metric: str
    """Whose margin decides."""
    margin: float
    harm: int = 1
    """1: a higher value is harm; -1: a lower one is."""
    percent: bool = False
    origin: float = 0.0
    """Where harm is counted from: 0 for differences, a required value for levels."""

    def effect(
        self, row: Estimate | None, n_patients: int, *, n_family: int = 1, reason: str | None = None
    ) -> Effect | None:
        """An estimate as an effect with harm counted positive; None where there is no estimate.

        `n_family` is how many effects the question judges at once: the interval is widened by the ratio of the normal
        quantiles, so that it holds for all of them (Bonferroni).
        """
        if row is None:
            return None
        value = None if row.value is None else self.harm * (row.value - self.origin)
        low, high = self._ends(row, n_family)
        why = reason or (row.reason if row.value is None or row.low is None else None)
        return Effect(row.label, value, low, high, self.margin, n_patients, why)

    def _ends(self, row: Estimate, n_family: int) -> tuple[float | None, float | None]:
        """The interval with harm positive, simultaneous over the family."""
        if row.value is None or row.low is None or row.high is None:
            return None, None
        outside = (1 - (row.level or 0.95)) / 2
        wider = NormalDist().inv_cdf(1 - outside / n_family) / NormalDist().inv_cdf(1 - outside)
        low, high = row.value - wider * (row.value - row.low), row.value + wider * (row.high - row.value)
        if row.reference is None and row.low >= 0 and row.high <= 1:
            low, high = max(low, 0.0), min(high, 1.0)  # levels of shares stay shares
        ends = [self.harm * (end - self.origin) for end in (low, high)]
        return min(ends), max(ends)

    def answer(self, model: str, effects: Sequence[Effect | None]) -> Answer | None:
        """The answer for one model: the worst effect decides; None where nothing was asked."""
        known = [effect for effect in effects if effect is not None]
        if not known:
            return None
        decides = worst(known)
        ends = [None if end is None else self.origin + self.harm * end for end in (decides.low, decides.high)]
        low, high = ends if self.harm > 0 else ends[::-1]
        return Answer(
            question=self.name,
            asks=self.asks,
            model=model,
            verdict=decides.verdict,
            metric=self.metric,
            value=None if decides.harm is None else self.origin + self.harm * decides.harm,
            low=low,
            high=high,
            margin=self.origin + self.harm * self.margin,
            required=self.origin != 0.0,
            percent=self.percent,
            label=decides.label if len(known) > 1 else None,
            n_labels=len(known),
            n_unsettled=sum(effect.verdict == "unsettled" for effect in known),
            needed=decides.needed,
            reason=decides.reason,
        )
