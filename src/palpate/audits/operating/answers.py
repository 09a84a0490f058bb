"""What the operating audit knows about the requirements that a user sets: one question each, asked at named points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.kit.wording import counted
from palpate.audits.operating.measures import AlertCurve
from palpate.audits.operating.plan import AlertPlan
from palpate.audits.operating.points import AlertPoint
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect


class Requirement(NamedTuple):
    """What can be required of a number, and how it is asked."""

    asks: str
    """With the required value in the place of {}."""
    harm: int
    """1: no more than the value; -1: no less."""
    percent: bool = False


REQUIREMENTS: Mapping[str, Requirement] = {
    "sensitivity": Requirement("Does it find at least {} of the {unit} with the outcome?", -1, percent=True),
    "specificity": Requirement("Does it leave at least {} of the {unit} without the outcome alone?", -1, percent=True),
    "ppv": Requirement("Do at least {} of those it flags have the outcome?", -1, percent=True),
    "npv": Requirement("Are at least {} of those it does not flag without the outcome?", -1, percent=True),
    "net_benefit": Requirement("Is its net benefit at least {}?", -1),
    "alerts_per_100": Requirement("Does it flag at most {} of 100 {unit}?", 1),
    "alerts_per_day": Requirement("Does it flag at most {} {unit} a day?", 1),
    "number_needed_to_evaluate": Requirement("Is one in {} of those it flags found to have the outcome?", 1),
    "alerts_per_stay": Requirement("Does it alert at most {} times a stay?", 1),
    "lead_time_hours": Requirement("Does half of its first alerts come at least {} hours before the event?", -1),
}


@dataclass(frozen=True)
class AlertAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    points: Sequence[AlertPoint]
    models: Sequence[str]
    scored: Sequence[str]
    """In the order of the points' thresholds."""
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    left_out: Sequence[str]
    """Labels of the cohort that are not audited."""
    n_patients: int
    planned: AlertPlan
    own: Thresholds
    on_validation: bool
    curves: Sequence[AlertCurve]
    timed: Sequence[str]
    """The metrics about a stay's time that the cohort's columns allow."""
    required: Mapping[str, float]
    judged: Sequence[str]
    """The points at which requirements are asked."""
    level: float
    correction: str
    combine: str

    def question(self, metric: str) -> Question:
        """One requirement."""
        required, value = REQUIREMENTS[metric], self.required[metric]
        shown = f"{100 * value:g}%" if required.percent else f"{value:g}"
        asks = required.asks.format(shown, unit=self.planned.unit)
        return Question(metric, asks, metric, 0.0, harm=required.harm, origin=value, percent=required.percent)

    def named(self, point: str, label: str) -> str:
        """`at vendor`, and for which label where there are several."""
        return f"at '{point}'" if len(self.labels) == 1 else f"at '{point}' for '{label}'"

    def effects(self, metric: str, model: str) -> list[Effect]:
        """How far a model is from a requirement, at each point and for each label."""
        question, found = self.question(metric), []
        n_family = len(self.models) * len(self.judged) * len(self.labels)
        for label in self.labels:
            for point in self.judged:
                row = self.estimates.find(metric, model, label=label, group=point)
                few = None if row is None or row.value is None else too_few(row)
                effect = question.effect(row, self.n_patients, n_family=n_family, reason=few)
                if effect is not None:
                    found.append(effect._replace(label=self.named(point, label)))
        return found


def too_few(row: Estimate) -> str | None:
    """Why nothing can be settled: too few of one class; None if there are enough."""
    if row.n_positive is None:
        return None if row.n >= FEWEST_FOR_TEST else f"only {counted(row.n, 'stay')}"
    fewest = min(row.n_positive, row.n - row.n_positive)
    return f"only {counted(fewest, 'case')} of one class" if fewest < FEWEST_FOR_TEST else None


def operating_answers(analysis: AlertAnalysis) -> tuple[Answer, ...]:
    """One for each requirement and model; none where nothing is required."""
    answers = []
    for metric in analysis.required:
        for model in analysis.models:
            answer = analysis.question(metric).answer(model, analysis.effects(metric, model))
            if answer is not None:
                answers.append(answer)
    return tuple(answers)
