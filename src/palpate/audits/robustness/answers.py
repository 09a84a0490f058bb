"""The robustness audit's answers: up to five questions, each judged over its perturbations, groups and labels.

Harm is a change of the mean risk, or decisions that change: either way where the note says the same, and only against
the expected direction where a denial is added or removed. A perturbation that few notes allow is left out by name,
unless the user asked for it: then it leaves its question unsettled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palpate.audits.kit.altered import AlteredAnalysis
from palpate.audits.kit.answers import JudgedEffect, Question, judged_answer
from palpate.audits.kit.paired import FEWEST_PATIENTS
from palpate.audits.kit.wording import counted
from palpate.audits.robustness.estimates import DIFFERENCE, NO_NOTE, flips_of
from palpate.audits.robustness.measures import PerturbedMeasures
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect

QUESTIONS = {
    "spelling": "Does it hold when words are misspelt?",
    "layout": "Does it hold when the same note is laid out differently?",
    "wording": "Does it hold when the same facts are told in other words?",
    "denials": "Does it take a denial for what it is?",
    "own": "Does it hold under your own perturbations?",
}
_HARM = {"same": 0, "down only": 1, "up only": -1}


@dataclass(frozen=True, eq=False)
class RobustnessAnalysis(AlteredAnalysis):
    """What answers, findings and blocks are made from."""

    measured: Sequence[PerturbedMeasures]
    doses: Sequence[float]

    @property
    def questions(self) -> list[str]:
        """The questions that some perturbation asks, in order."""
        asked = {found.arm.perturbation.question for found in self.measured}
        return [name for name in QUESTIONS if name in asked]

    def asking(self, question: str) -> list[PerturbedMeasures]:
        """The perturbations that ask a question."""
        return [found for found in self.measured if found.arm.perturbation.question == question]

    def compared(self, metric: str, model: str, found: PerturbedMeasures) -> list[Estimate]:
        """A model's estimates that compare the groups of an arm with the notes as written, group by group."""
        arm = found.arm
        rows = [
            self.estimates.find(metric, model, label=label, group=group, reference=arm.as_written)
            for group in arm.group_names
            for label in self.labels
        ]
        return [row for row in rows if row is not None]

    def tolerance(self, found: PerturbedMeasures) -> float:
        """The largest change of the mean risk that does not matter."""
        own = found.arm.perturbation.tolerance
        return self.margins["shift"] if own is None else own


class JudgedQuestion(NamedTuple):
    """Everything that was judged about one model and question, and the answer."""

    question: str
    worst: JudgedEffect
    answer: Answer
    judged: Sequence[JudgedEffect]
    tested: Sequence[PerturbedMeasures]
    """The perturbations that the answer is about."""


def too_few(found: PerturbedMeasures) -> bool:
    """Whether too few patients have a note that could be written so."""
    return found.n_units < FEWEST_PATIENTS


def judge_questions(analysis: RobustnessAnalysis) -> list[tuple[str, JudgedQuestion]]:
    """Every model's answer to every question: (model, judged)."""
    return [
        (model, _judge_question(analysis, model, question))
        for question in analysis.questions
        for model in analysis.models
    ]


def _judge_question(analysis: RobustnessAnalysis, model: str, question: str) -> JudgedQuestion:
    arms = analysis.asking(question)
    tested = [found for found in arms if found.arm.asked or not too_few(found)]
    judged = [each for found in tested for each in _judge_arm(analysis, model, found)]
    if not judged:
        largest = max(arms, key=lambda found: found.n_units)
        judged = [_nothing(analysis, largest, _few(largest))]
    worst = min(judged, key=lambda each: each.order)
    return JudgedQuestion(question, worst, judged_answer(model, worst, judged, single=analysis.single), judged, tested)


def _judge_arm(analysis: RobustnessAnalysis, model: str, found: PerturbedMeasures) -> list[JudgedEffect]:
    limit = limits(analysis, model, found)
    if not found.models:
        return [_nothing(analysis, found, limit or NO_NOTE)]
    return [
        _judged(question, row, found, limit, single=analysis.single)
        for question, metric in zip(_asked(analysis, found), (DIFFERENCE, flips_of(found)), strict=True)
        for row in analysis.compared(metric, model, found)
    ]


def _asked(analysis: RobustnessAnalysis, found: PerturbedMeasures) -> tuple[Question, Question]:
    """The two effects of a perturbation: on the mean risk, and on decisions."""
    perturbation = found.arm.perturbation
    name, harm = perturbation.question, _HARM[perturbation.expects]
    shift = Question(name, QUESTIONS[name], "shift", analysis.tolerance(found), harm=harm)
    return shift, Question(name, QUESTIONS[name], "flips", analysis.margins["flips"], percent=True)


def _nothing(analysis: RobustnessAnalysis, found: PerturbedMeasures, reason: str) -> JudgedEffect:
    shift = _asked(analysis, found)[0]
    return JudgedEffect(shift, Effect("", None, None, None, shift.margin, found.n_units, reason), None)


def _judged(
    question: Question, row: Estimate, found: PerturbedMeasures, limit: str | None, *, single: bool
) -> JudgedEffect:
    effect = question.effect(row, found.n_units, reason=limit)
    if effect is None:  # never: there is a row
        raise ValueError("no estimate")
    group = row.group.replace("=", ", ").replace("_", " ")
    return JudgedEffect(question, effect._replace(label=group if single else f"{row.label}, {group}"), row)


def limits(analysis: RobustnessAnalysis, model: str, found: PerturbedMeasures) -> str | None:
    """Why harm could not have been seen, if it could not."""
    if too_few(found):
        return _few(found)
    return analysis.unseen(model, found)


def _few(found: PerturbedMeasures) -> str:
    about = found.arm.perturbation.about
    return f"only {counted(found.n_units, 'patient')} with a note that could be written {about}"
