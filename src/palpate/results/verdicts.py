"""Verdicts: what is known about one question, from an effect, its interval and a margin. One rule for all audits.

With harm counted positive, the interval from l to u (simultaneous over its family) and the margin m, the smallest
effect that matters:

    concern      l > m               harm beyond the margin is shown
    caution      0 < l <= m <= u     an effect is there; whether it matters is open
    unsettled    l <= 0 and u >= m   cannot be told from these data
    acceptable   u < m               harm beyond the margin is excluded

"Not significant" is never "acceptable": that takes an interval below the margin, and an audit that could have seen
harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

Verdict = Literal["concern", "caution", "unsettled", "acceptable"]
VERDICTS: tuple[Verdict, ...] = ("concern", "caution", "unsettled", "acceptable")
"""The worst first: a cell about several labels has the worst of their verdicts."""
MEANINGS: Mapping[Verdict, str] = {
    "concern": "harm beyond the margin is shown",
    "caution": "an effect is there; whether it matters is open",
    "unsettled": "cannot be told from these data",
    "acceptable": "harm beyond the margin is excluded",
}
_MOST_PATIENTS = 1_000_000


class Margin(NamedTuple):
    """The smallest effect that matters, and why."""

    value: float
    why: str


MARGINS: Mapping[str, Margin] = {
    "leakage": Margin(0.01, "1 of 100 audited notes or patients that the model has seen can move a rate by 1 point"),
    "constant_labels": Margin(0.10, "1 of 10 labels that nothing can be said about"),
    "auroc": Margin(0.03, "models that differ by less are rarely told apart in another hospital's data"),
    "calibration": Margin(
        0.05,
        "a risk that is wrong by 5 points changes few decisions at usual thresholds; for a "
        "label whose rarer outcome is below 10%, half of that share, because risks of 0 would pass otherwise",
    ),
    "brier": Margin(0.02, "a mean squared error of risks that is higher by less is hardly seen in any single decision"),
    "sensitivity": Margin(0.05, "1 of 20 patients with the outcome who is missed in one group and found in another"),
    "agreement": Margin(0.20, "a smaller gap to the clinicians' own agreement is within the noise of a few raters"),
    "shift": Margin(0.01, "a mean change of the risk by 1 point moves few patients across a threshold"),
    "flips": Margin(0.02, "2 of 100 decisions that change with the wording alone"),
    "pass_rate": Margin(0.10, "1 of 10 sentences more wrong than held-out cases"),
    "evidence_f1": Margin(0.05, "token F1 of two coders differs by about as much between charts"),
    "faithfulness": Margin(0.02, "a smaller fall of the probability is not visible to a reader"),
}
"""Defaults; `margins:` of audit.yaml sets others."""


def margins_with(given: Mapping[str, float]) -> dict[str, float]:
    """The margins of a run: the defaults, and those that are given."""
    return {**{name: margin.value for name, margin in MARGINS.items()}, **given}


def judge(low: float | None, high: float | None, margin: float) -> Verdict:
    """The verdict on an effect with harm counted positive; without an interval nothing is settled."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return "unsettled"
    if high < margin:
        return "acceptable"
    if low > margin:
        return "concern"
    return "caution" if low > 0 else "unsettled"


def patients_to_settle(value: float, low: float, high: float, margin: float, n_patients: int) -> int | None:
    """About how many patients would settle the question if the estimate stayed as it is; None where none would.

    The interval shrinks with the square root of the number of patients, so the side that faces the margin decides;
    where it was cut off at 0, as that of an error or a share is, the wider side does.
    """
    distance = value - margin
    reach = high - value if distance < 0 else max(value, high - value) if low == 0 else value - low
    if distance == 0 or reach <= 0:
        return None
    needed = n_patients * (reach / abs(distance)) ** 2
    return rounded_up(needed) if needed <= _MOST_PATIENTS else None


def rounded_up(n: float) -> int:
    """Two digits: all that a guess of how many patients are needed is worth."""
    whole = math.ceil(n - 1e-6)
    step = int(10 ** max(0, len(str(whole)) - 2))
    return -(-whole // step) * step


class Answer(BaseModel):
    """One cell of the scorecard: what is known about one question for one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    """One word within the audit, for the gate: `travel` of `performance`."""
    asks: str
    """The question in a clinician's words."""
    model: str
    verdict: Verdict
    metric: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    """In the unit of the value, with its sign: harm lies beyond it."""
    required: bool = False
    """Whether the margin is a required value rather than the smallest effect that matters."""
    percent: bool = False
    label: str | None = None
    """The label that decides, where there are several."""
    n_labels: int = 1
    n_unsettled: int = 0
    needed: int | None = None
    """About how many patients would settle it, to two digits."""
    where: str | None = None
    """In which cohort they would be needed, where there are several."""
    reason: str | None = None
    """Why it is unsettled, where more patients alone would not help."""


class Effect(NamedTuple):
    """One judged effect; harm is positive in `harm`, `low` and `high`."""

    label: str
    harm: float | None
    low: float | None
    high: float | None
    margin: float
    n_patients: int
    reason: str | None = None
    """Why harm might not have been seen, if it might not: nothing is acceptable then, but harm that is shown counts."""
    sign: int = 1
    """The measured value is this times the harm."""
    two_sided: bool = False
    """Whether a change the other way would be harm too; both must then be excluded."""
    where: str | None = None
    """Whose patients are counted, where the effect is one between cohorts."""

    @property
    def verdict(self) -> Verdict:
        """By the rule; where harm might not have been seen, nothing is acceptable."""
        if self.harm is None or self.low is None or self.high is None:
            return "unsettled"
        verdict = judge(self.low, max(self.high, -self.low) if self.two_sided else self.high, self.margin)
        return "unsettled" if self.reason is not None and verdict == "acceptable" else verdict

    def not_judged(self, reason: str) -> Effect:
        """The effect where nothing at all can be said by its interval."""
        return self._replace(low=None, high=None, reason=reason)

    @property
    def needed(self) -> int | None:
        """About how many patients would settle it."""
        if self.reason is not None or self.harm is None or self.low is None or self.high is None:
            return None
        return patients_to_settle(self.harm, self.low, self.high, self.margin, self.n_patients)


def worst(effects: Sequence[Effect]) -> Effect:
    """The effect that decides: the worst verdict; among those one that has a number, and then one that more patients
    would settle (a group too small for a test leads no sentence); of these the largest harm."""
    return min(
        effects,
        key=lambda effect: (
            VERDICTS.index(effect.verdict),
            effect.harm is None,
            effect.verdict == "unsettled" and effect.reason is not None,
            -(effect.harm or 0.0),
        ),
    )


class ScorecardRow(NamedTuple):
    """One question with its answer for each model."""

    audit: str
    question: str
    asks: str
    answers: Mapping[str, Answer]

    @property
    def rank(self) -> int:
        """The worst verdict."""
        return min(VERDICTS.index(answer.verdict) for answer in self.answers.values())


def scorecard_rows(answers: Mapping[str, Iterable[Answer]]) -> list[ScorecardRow]:
    """The questions that decide first, by the worst verdict of any model; equal ones in the order of the audits.

    The page, the terminal and `scorecard.json` all have this order.
    """
    rows: dict[tuple[str, str], dict[str, Answer]] = {}
    for audit, given in answers.items():
        for answer in given:
            rows.setdefault((audit, answer.question), {})[answer.model] = answer
    made = [ScorecardRow(*key, next(iter(row.values())).asks, row) for key, row in rows.items()]
    return sorted(made, key=lambda row: row.rank)


def scorecard(answers: Mapping[str, Iterable[Answer]], models: Sequence[str]) -> list[dict[str, Any]]:
    """Questions x models, as JSON: one row per question, in the order of `scorecard_rows`."""
    return [
        {
            "audit": row.audit,
            "question": row.question,
            "asks": row.asks,
            "models": dict.fromkeys(models)
            | {
                model: answer.model_dump(mode="json", exclude={"question", "asks", "model"})
                for model, answer in row.answers.items()
            },
        }
        for row in scorecard_rows(answers)
    ]
