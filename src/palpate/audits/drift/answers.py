"""What the drift audit knows about its three questions: the latest periods against the first, by margin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palpate.audits.drift.plan import FIRST, LATEST, Periods
from palpate.audits.kit.answers import Question, visible_margin
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.thresholds import Thresholds
from palpate.results.verdicts import Answer, Effect

LARGE = "calibration_in_the_large"
ASKS = {
    "worse": "Has it become worse over time?",
    "missed": "Does it miss more of the patients with the outcome than it did at first?",
    "risks": "Are its risks still as right on average as at first?",
}
"""The questions in a clinician's words."""


@dataclass(frozen=True)
class DriftAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    periods: Periods
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    left_out: Sequence[str]
    """Labels of the cohort that are not audited."""
    n_patients: Mapping[str, int]
    """In each period, and in those that are compared."""
    few: Mapping[tuple[str, str], str]
    """(label, period): why nothing can be said."""
    level: float
    correction: str
    thresholds: Thresholds
    margins: Mapping[str, float]
    odd: Mapping[tuple[str, str], str]
    """(model, label) where periods cannot be compared by a model's scores, and why."""
    n_untimed: int

    @property
    def worse(self) -> Question:
        """Has it become worse?"""
        return Question("worse", ASKS["worse"], "auroc", self.margins["auroc"], harm=-1)

    @property
    def missed(self) -> Question:
        """Does it miss more than it did?"""
        return Question("missed", ASKS["missed"], "sensitivity", self.margins["sensitivity"], harm=-1, percent=True)

    @property
    def risks(self) -> Question:
        """Are its risks as right as they were?"""
        return Question("risks", ASKS["risks"], LARGE, self.margins["calibration"], harm=0)

    @property
    def questions(self) -> tuple[Question, ...]:
        """In their order."""
        return self.worse, self.missed, self.risks

    def effects(self, question: Question, model: str) -> list[Effect]:
        """How much worse the latest periods are than the first, for each label."""
        found = []
        smaller = min((LATEST, FIRST), key=self.n_patients.__getitem__)
        for label in self.labels:
            row = self.estimates.find(question.metric, model, label=label, group=LATEST, reference=FIRST)
            asked = question
            if question.metric == LARGE and row is not None:
                asked = question._replace(margin=visible_margin(question.margin, row))
            untested = None if row is None or row.p_value is not None else row.reason
            effect = asked.effect(row, self.n_patients[smaller], reason=untested)
            if effect is None:
                continue
            odd = self.odd.get((model, label))
            effect = effect if odd is None else effect.not_judged(odd)
            where = f"the {smaller} periods"
            found.append(effect._replace(label="" if len(self.labels) == 1 else f"'{label}'", where=where))
        return found


def drift_answers(analysis: DriftAnalysis) -> tuple[Answer, ...]:
    """Has it become worse, does it miss more, are its risks still right?"""
    answers = []
    for model in analysis.models:
        for question in analysis.questions:
            answer = question.answer(model, analysis.effects(question, model))
            if answer is not None:
                answers.append(answer)
    return tuple(answers)


def span(ends: tuple[str, str]) -> str:
    """`2024-01–2024-03`, or the only one."""
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"
