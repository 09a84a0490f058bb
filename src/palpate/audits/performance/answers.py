"""What the performance audit knows about its four questions: the cells of the scorecard, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST, Family
from palpate.audits.kit.rows import EstimateIndex, pairs_of
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.kit.wording import counted, listed
from palpate.audits.performance.measures import DrawnCurve, OddScores
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect

CHANCE = 0.5


@dataclass(frozen=True)
class PerformanceAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of the overall label in the first population."""
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    populations: Sequence[str]
    labels: Sequence[str]
    n_averaged: int
    """How many labels the macro average is over."""
    level: float
    specificity: float
    correction: str
    thresholds: Thresholds
    n_patients: Mapping[str, int]
    """In each population."""
    curves: Sequence[DrawnCurve]
    odd_scores: Sequence[OddScores]
    margins: Mapping[str, float]
    required: float
    """The AUROC that is asked for."""
    family: Family

    @property
    def auroc(self) -> str:
        """What the headline number is called in a sentence."""
        return "AUROC" if len(self.labels) == 1 else f"mean AUROC over {self.n_averaged} labels"

    @property
    def separation(self) -> Question:
        """Is it good enough?"""
        asks = "Does it separate patients better than chance?"
        if self.required != CHANCE:
            asks = f"Does it separate patients as required (AUROC {self.required:g})?"
        return Question("separation", asks, "auroc", 0.0, harm=-1, origin=self.required)

    @property
    def calibration(self) -> Question:
        """Are its risks right?"""
        return Question("calibration", "Are its risks right?", "calibration", self.margins["calibration"])

    @property
    def travel(self) -> Question:
        """Is it as good elsewhere?"""
        asks = f"Does it travel to {listed(self.populations[1:])}?"
        return Question("travel", asks, "auroc", self.margins["auroc"], harm=-1)

    @property
    def comparison(self) -> Question:
        """Is it as good as the others?"""
        asks = "Is it as good as the other models?"
        return Question("comparison", asks, "auroc", self.margins["auroc"], harm=-1)

    @cached_property
    def n_tests(self) -> int:
        """How many comparisons the run made."""
        return sum(row.p_value is not None for row in self.estimates)

    def family_of(self, n_question: int) -> int:
        """How many effects share one correction: those of the question, or all comparisons of the run."""
        return n_question if self.family == "question" else max(n_question, self.n_tests)

    def level_effect(self, question: Question, metric: str, model: str, label: str | None = None) -> Effect | None:
        """How far a model is from what is asked, on the overall label or on another one."""
        row = self.estimates.find(metric, model, label=label)
        n_labels = 1 if label is None else len(self.labels)
        few = None if row is None or row.value is None else too_few(row)
        n_patients = self.n_patients[self.populations[0]]
        return question.effect(row, n_patients, n_family=self.family_of(len(self.models) * n_labels), reason=few)

    def drop_effect(self, model: str, population: str, label: str | None = None) -> Effect | None:
        """What a model loses from the first population to another one."""
        row = self.estimates.find("auroc", model, label=label, group=population, reference=self.populations[0])
        n_family = self.family_of(
            len(self.models) * (len(self.populations) - 1) * (1 if label is None else len(self.labels))
        )
        why = row.reason if row is not None and row.p_value is None else None
        smaller = min((population, self.populations[0]), key=self.n_patients.__getitem__)
        effect = self.travel.effect(row, self.n_patients[smaller], n_family=n_family, reason=why)
        return None if effect is None else effect._replace(label=f"to {population}", where=smaller)

    def pair_effect(self, model: str, other: str) -> Effect | None:
        """This model less the other, whichever way round the estimate is."""
        row = self.estimates.find("auroc", model, reference=other)
        if row is None and (turned := self.estimates.find("auroc", other, reference=model)) is not None:
            row = turned.negated()
        if row is None:
            return None
        why = row.reason if row.p_value is None else None
        n_patients = self.n_patients[self.populations[0]]
        n_family = self.family_of(len(pairs_of(self.models)))
        effect = self.comparison.effect(row, n_patients, n_family=n_family, reason=why)
        return None if effect is None else effect._replace(label=f"against {other}")


def too_few(row: Estimate) -> str | None:
    """Why nothing can be settled about a level: too few cases of one class; None if there are enough."""
    fewest = min(row.n_positive or 0, row.n - (row.n_positive or 0))
    if fewest == 0:
        return "no case of one class"
    return f"only {counted(fewest, 'case')} of one class" if fewest < FEWEST_FOR_TEST else None


def performance_answers(analysis: PerformanceAnalysis) -> tuple[Answer, ...]:
    """Is it good enough, are its risks right, does it travel, is it as good as the others?"""
    answers: list[Answer | None] = []
    for model in analysis.models:
        level = analysis.level_effect(analysis.separation, "auroc", model)
        risks = analysis.level_effect(analysis.calibration, "adaptive_calibration_error", model)
        answers += [analysis.separation.answer(model, [level]), analysis.calibration.answer(model, [risks])]
        drops = [analysis.drop_effect(model, name) for name in analysis.populations[1:]]
        answers.append(analysis.travel.answer(model, drops) if drops else None)
        pairs = [analysis.pair_effect(model, name) for name in analysis.models if name != model]
        answers.append(analysis.comparison.answer(model, pairs) if pairs else None)
    return tuple(answer for answer in answers if answer is not None)
