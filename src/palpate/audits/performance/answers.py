"""What the performance audit knows about its four questions: the cells of the scorecard, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST, Family
from palpate.audits.kit.risks import BenefitRange
from palpate.audits.kit.rows import EstimateIndex, pairs_of
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.kit.wording import counted, listed
from palpate.audits.performance.measures import DrawnCurve, OddScores
from palpate.audits.performance.risks import CoreCurves
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect

CHANCE = 0.5
ERROR = "adaptive_calibration_error"


_RIGHT, _COMPARED = "Are its risks right?", "Is it as good as the other models?"


def separation_question(required: float) -> Question:
    """Is it good enough?"""
    asks = "Does it separate patients better than chance?"
    if required != CHANCE:
        asks = f"Does it separate patients as required (AUROC {required:g})?"
    return Question("separation", asks, "auroc", 0.0, harm=-1, origin=required)


def travel_question(margins: Mapping[str, float], populations: Sequence[str]) -> Question:
    """Is it as good elsewhere?"""
    return Question("travel", f"Does it travel to {listed(populations[1:])}?", "auroc", margins["auroc"], harm=-1)


def questions_of(
    required: float, margins: Mapping[str, float], populations: Sequence[str], n_models: int
) -> list[Question]:
    """All that is asked about a model."""
    found = [separation_question(required), Question("calibration", _RIGHT, "calibration", margins["calibration"])]
    if len(populations) > 1:
        found.append(travel_question(margins, populations))
    if n_models > 1:
        found.append(Question("comparison", _COMPARED, "auroc", margins["auroc"], harm=-1))
    return found


@dataclass(frozen=True)
class PerformanceAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of the overall label in the first population."""
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    populations: Sequence[str]
    labels: Sequence[str]
    judged: Sequence[str]
    """The labels that are judged one by one: all, or of many the most frequent ones."""
    averaged: Sequence[str]
    """The labels that the macro average is over."""
    level: float
    specificity: float
    correction: str
    thresholds: Thresholds
    n_patients: Mapping[str, int]
    """In each population."""
    curves: Sequence[DrawnCurve]
    core: CoreCurves
    net_benefit: BenefitRange
    odd_scores: Sequence[OddScores]
    margins: Mapping[str, float]
    required: float
    """The AUROC that is asked for."""
    family: Family

    @property
    def auroc(self) -> str:
        """What the headline number is called in a sentence."""
        if len(self.averaged) == 1:
            return "AUROC" if len(self.labels) == 1 else f"AUROC for '{self.averaged[0]}'"
        return f"mean AUROC over {len(self.averaged):,} labels"

    @property
    def separation(self) -> Question:
        """Is it good enough?"""
        return separation_question(self.required)

    @property
    def calibration(self) -> Question:
        """Are its risks right?"""
        return Question("calibration", _RIGHT, "calibration", self.margins["calibration"])

    @property
    def travel(self) -> Question:
        """Is it as good elsewhere?"""
        return travel_question(self.margins, self.populations)

    @property
    def comparison(self) -> Question:
        """Is it as good as the others?"""
        return Question("comparison", _COMPARED, "auroc", self.margins["auroc"], harm=-1)

    @cached_property
    def n_tests(self) -> int:
        """How many comparisons the run made."""
        return sum(row.p_value is not None for row in self.estimates)

    @cached_property
    def n_testable(self) -> int:
        """How many of the judged labels have an interval: those that have none do not widen the others'."""
        rows = [self.estimates.find("auroc", self.models[0], label=label) for label in self.judged]
        return max(1, sum(row is not None and row.low is not None for row in rows))

    def family_of(self, n_each: int) -> int:
        """How many effects share one correction: those of the question on all labels, or the run's comparisons."""
        n_question = n_each * self.n_testable
        return n_question if self.family == "question" else max(n_question, self.n_tests)

    def odd(self, model: str, label: str) -> str | None:
        """Why nothing can be judged by a model's scores, as its alarm says; None where they are probabilities."""
        for member in self.ensembles.get(model, [model]):
            if (constant := self._odd.get((member, label))) is not None:
                return f"{member} gives {'every case the same score' if constant else 'only 0 and 1'}"
        return None

    @cached_property
    def _odd(self) -> dict[tuple[str, str], bool]:
        return {(each.model, each.label): each.constant for each in self.odd_scores}

    def all_odd(self, model: str) -> bool:
        """Whether the alarm is all that can be said about a model."""
        return all(self.odd(model, label) for label in self.labels)

    def named(self, what: str, label: str) -> str:
        """`to away`, and for which label where there are several."""
        return what if len(self.labels) == 1 else f"{what} for '{label}'"

    def level_effects(self, question: Question, metric: str, model: str) -> dict[str, Effect]:
        """How far a model is from what is asked, for each label."""
        found = {}
        n_patients, n_family = self.n_patients[self.populations[0]], self.family_of(len(self.models))
        for label in self.judged:
            row = self.estimates.find(metric, model, label=label)
            few = None if row is None or row.value is None else too_few(row)
            asked = question if metric != ERROR or row is None else question._replace(margin=_visible(question, row))
            effect = asked.effect(row, n_patients, n_family=n_family, reason=few)
            if effect is not None:
                found[label] = self._judged(effect, label, model)
        return found

    def _judged(self, effect: Effect, label: str, *models: str) -> Effect:
        """The effect, unless a model's scores are such that nothing can be judged by them."""
        odd = next(filter(None, (self.odd(model, label) for model in models)), None)
        return effect if odd is None else effect.not_judged(odd)

    def drop_effects(self, model: str, population: str) -> dict[str, Effect]:
        """What a model loses from the first population to another one, for each label."""
        found, main = {}, self.populations[0]
        n_family = self.family_of(len(self.models) * (len(self.populations) - 1))
        smaller = min((population, main), key=self.n_patients.__getitem__)
        for label in self.judged:
            row = self.estimates.find("auroc", model, label=label, group=population, reference=main)
            untested = row.reason if row is not None and row.p_value is None else None
            effect = self.travel.effect(row, self.n_patients[smaller], n_family=n_family, reason=untested)
            if effect is not None:
                effect = effect._replace(label=self.named(f"to {population}", label), where=smaller)
                found[label] = self._judged(effect, label, model)
        return found

    def pair_effects(self, model: str, other: str) -> dict[str, Effect]:
        """This model less the other, for each label."""
        found = {}
        n_patients, n_family = self.n_patients[self.populations[0]], self.family_of(len(pairs_of(self.models)))
        for label in self.judged:
            row = self.difference(model, other, label)
            untested = row.reason if row is not None and row.p_value is None else None
            effect = self.comparison.effect(row, n_patients, n_family=n_family, reason=untested)
            if effect is not None:
                effect = effect._replace(label=self.named(f"against {other}", label))
                found[label] = self._judged(effect, label, model, other)
        return found

    def difference(self, model: str, other: str, label: str | None = None) -> Estimate | None:
        """This model's AUROC less the other's, whichever way round the estimate is."""
        turned = self.estimates.find("auroc", other, label=label, reference=model)
        return self.estimates.find("auroc", model, label=label, reference=other) if turned is None else turned.negated()


def _visible(calibration: Question, row: Estimate) -> float:
    """The margin, but at most half of the rarer outcome's share: risks of 0 are off by no more than it."""
    rarer = min(row.n_positive or 0, row.n - (row.n_positive or 0)) / max(row.n, 1)
    return min(calibration.margin, float(f"{rarer / 2.0:.2g}")) or calibration.margin


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
        level = analysis.level_effects(analysis.separation, "auroc", model)
        risks = analysis.level_effects(analysis.calibration, ERROR, model)
        answers.append(analysis.separation.answer(model, list(level.values())))
        answers.append(analysis.calibration.answer(model, list(risks.values())))
        drops = [analysis.drop_effects(model, name) for name in analysis.populations[1:]]
        answers.append(analysis.travel.answer(model, [effect for each in drops for effect in each.values()]))
        others = [name for name in analysis.models if name != model]
        sound = [name for name in others if not analysis.all_odd(name)]
        pairs = [analysis.pair_effects(model, name) for name in sound or others]
        answers.append(analysis.comparison.answer(model, [effect for each in pairs for effect in each.values()]))
    return tuple(answer for answer in answers if answer is not None)
