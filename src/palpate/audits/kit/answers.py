"""Answers for the scorecard: a question, the effects that answer it for one model, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palpate.audits.kit.rows import wider_ends
from palpate.results import Estimate, Finding
from palpate.results.verdicts import VERDICTS, Answer, Effect, rounded_up, worst


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
    """1: a higher value is harm; -1: a lower one is; 0: a change either way is."""
    percent: bool = False
    origin: float = 0.0
    """Where harm is counted from: 0 for differences, a required value for levels."""

    def effect(
        self, row: Estimate | None, n_patients: int, *, n_family: int | None = None, reason: str | None = None
    ) -> Effect | None:
        """An estimate as an effect with harm counted positive; None where there is no estimate.

        A tested difference has an interval that holds for its family already. For levels and for another family,
        `n_family` is how many effects the question judges at once: the pointwise interval is widened to hold for all.
        """
        if row is None:
            return None
        sign = self.harm or (-1 if (row.value or 0.0) < self.origin else 1)
        value = None if row.value is None else sign * (row.value - self.origin)
        low, high = self._ends(row, n_family, sign)
        why = reason or (row.reason if row.value is None or row.low is None else None)
        return Effect(row.label, value, low, high, self.margin, n_patients, why, sign, self.harm == 0)

    def _ends(self, row: Estimate, n_family: int | None, sign: int) -> tuple[float | None, float | None]:
        """The interval with harm positive, simultaneous over the family."""
        if row.value is None or row.low is None or row.high is None:
            return None, None
        low, high = row.low, row.high
        if n_family is not None:
            low, high = wider_ends(row, n_family, 0.95)
        ends = [sign * (end - self.origin) for end in (low, high)]
        return min(ends), max(ends)

    def answer(self, model: str, effects: Sequence[Effect | None]) -> Answer | None:
        """The answer for one model: the worst effect decides; None where nothing was asked."""
        known = [effect for effect in effects if effect is not None]
        if not known:
            return None
        decides = worst(known)
        sign = decides.sign
        ends = [None if end is None else self.origin + sign * end for end in (decides.low, decides.high)]
        low, high = ends if sign > 0 else ends[::-1]
        return Answer(
            question=self.name,
            asks=self.asks,
            model=model,
            verdict=decides.verdict,
            metric=self.metric,
            value=None if decides.harm is None else self.origin + sign * decides.harm,
            low=low,
            high=high,
            margin=self.origin + sign * decides.margin,
            required=self.origin != 0.0,
            percent=self.percent,
            label=decides.label if len(known) > 1 else None,
            n_labels=len(known),
            n_unsettled=sum(effect.verdict == "unsettled" for effect in known),
            needed=decides.needed,
            where=decides.where,
            reason=decides.reason,
        )

    def finding(self, answer: Answer, sentence: str) -> Finding:
        """A sentence about this question, with the answer's verdict."""
        return Finding(sentence=sentence, kind=answer.verdict, question=self.name)


def visible_margin(margin: float, row: Estimate) -> float:
    """A margin of mean risks, but at most half of the rarer outcome's share: risks of 0 are off by no more than it."""
    rarer = min(row.n_positive or 0, row.n - (row.n_positive or 0)) / max(row.n, 1)
    return min(margin, float(f"{rarer / 2.0:.2g}")) or margin


class JudgedEffect(NamedTuple):
    """One effect with its question and its estimate."""

    question: Question
    effect: Effect
    row: Estimate | None

    @property
    def most(self) -> float:
        """The largest harm, in either direction where both are, that the interval allows; 0 without one."""
        low, high = self.effect.low or 0.0, self.effect.high or 0.0
        return max(high, -low) if self.effect.two_sided else high

    @property
    def order(self) -> tuple[int, float]:
        """The worst first: the verdict and, among equals, the harm that is shown or still possible, in margins."""
        verdict, harm = self.effect.verdict, self.effect.harm or 0.0
        return VERDICTS.index(verdict), -(harm if verdict in ("concern", "caution") else self.most) / self.effect.margin


def judged_answer(model: str, worst: JudgedEffect, judged: Sequence[JudgedEffect], *, single: bool) -> Answer:
    """The answer that the worst effect gives, with the labels that are open."""
    answer = worst.question.answer(model, [worst.effect])
    if answer is None:  # never: there is an effect
        raise ValueError("no effect")
    by_label: dict[str, tuple[int, float]] = {}
    for each in judged:
        if each.row is not None:
            by_label[each.row.label] = min(each.order, by_label.get(each.row.label, each.order))
    unsettled = sum(VERDICTS[verdict] == "unsettled" for verdict, _ in by_label.values())
    n = len({each.row.group for each in judged if each.row is not None}) if single else len(by_label)
    needed, effect = answer.needed, worst.effect
    if effect.harm == 0.0 and needed is not None:
        # The interval of 0 of n shrinks with n, not with its root.
        needed = rounded_up(effect.n_patients * worst.most / effect.margin)
    return answer.model_copy(
        update={
            "label": effect.label or None,
            "n_labels": max(n, 1),
            "n_unsettled": 0 if single else unsettled,
            "needed": needed,
        }
    )
