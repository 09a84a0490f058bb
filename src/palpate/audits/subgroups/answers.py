"""What the subgroups audit knows about its three questions: the cells of the scorecard, made from its estimates.

A group without enough patients is left out of an answer and named in a caveat; where no group has enough, the answer
is "unsettled".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from palpate.audits.kit.answers import Question, visible_margin
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.kit.wording import listed
from palpate.audits.subgroups.estimates import AS_QUESTIONS
from palpate.audits.subgroups.measures import Contrast, GroupCurve
from palpate.audits.subgroups.plan import Partition
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect

LARGE = "calibration_in_the_large"
NO_GROUP = "no group has enough patients to compare"
NO_OTHER = "there is no second group with enough patients to compare with"


def questions_of(margins: Mapping[str, float]) -> list[Question]:
    """All that is asked about a model: is it worse for some, does it miss more of some, are its risks right?"""
    missed = "Does it miss more of the patients with the outcome in some groups?"
    risks = "Are its risks right on average in every group?"
    return [
        Question("worse", "Is it worse for some patients?", "auroc", margins["auroc"], harm=-1),
        Question("missed", missed, "sensitivity", margins["sensitivity"], harm=-1, percent=True),
        Question("risks", risks, LARGE, margins["calibration"], harm=0),
    ]


@dataclass(frozen=True)
class SubgroupAnalysis:
    """What answers, findings and blocks are made from."""

    estimates: EstimateIndex
    partitions: Sequence[Partition]
    contrasts: Sequence[Contrast]
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    left_out: Sequence[str]
    """Labels of the cohort that are not audited."""
    n_patients: Mapping[str, int]
    """In each group."""
    few: Mapping[tuple[str, str], str]
    """(label, group): why nothing can be said."""
    level: float
    correction: str
    family: str
    """Which comparisons are corrected together: those of a question, or all of the run."""
    thresholds: Thresholds
    margins: Mapping[str, float]
    odd: Mapping[tuple[str, str], str]
    """(model, label) where groups cannot be compared by a model's scores, and why."""
    curves: Sequence[GroupCurve]
    """Calibration by group, of the first label."""
    unscored: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(model, label) where a model has no score, and how that is said."""

    @property
    def worse(self) -> Question:
        """Is it worse for some patients?"""
        return questions_of(self.margins)[0]

    @property
    def missed(self) -> Question:
        """Does it miss more in some groups?"""
        return questions_of(self.margins)[1]

    @property
    def risks(self) -> Question:
        """Are its risks right in each group?"""
        return questions_of(self.margins)[2]

    @cached_property
    def groups(self) -> list[str]:
        """Every group once, partition by partition."""
        return list(dict.fromkeys(group for each in self.partitions for group in each.groups))

    def named(self, group: str, label: str) -> str:
        """The group, and the label where there are several."""
        return group if len(self.labels) == 1 else f"{group}, '{label}'"

    def compared(self, metric: str, model: str) -> list[tuple[Contrast, Estimate]]:
        """A model's differences between groups and what they are compared with, where there are enough patients."""
        rows = [
            (
                contrast,
                self.estimates.find(metric, model, label=label, group=contrast.group, reference=contrast.reference),
            )
            for label in self.labels
            for contrast in self.contrasts
        ]
        return [(contrast, row) for contrast, row in rows if row is not None and row.value is not None]

    def difference_effects(self, question: Question, model: str) -> list[Effect]:
        """How much worse a model is in each group than in its reference."""
        found = []
        for contrast, row in self.compared(question.metric, model):
            untested = row.reason if row.p_value is None else None
            effect = question.effect(row, self.n_patients[contrast.group], reason=untested)
            if effect is not None:
                odd = self.odd.get((model, row.label))
                effect = effect if odd is None else effect.not_judged(odd)
                found.append(effect._replace(label=self.named(contrast.group, row.label), where=contrast.group))
        levels = [self.estimates.find(question.metric, model, label=self.labels[0], group=each) for each in self.groups]
        alone = any(each is not None and each.value is not None for each in levels)
        why = NO_OTHER if alone else NO_GROUP
        return [*found, *self.open_effects(question, model)] or [_nothing(question)._replace(reason=why)]

    def open_effects(self, question: Question, model: str) -> list[Effect]:
        """The labels about which nothing can be told, because the model has no score."""
        return [
            _nothing(question)._replace(label=label, reason=why)
            for (name, label), why in self.unscored.items()
            if name == model
        ]

    def risk_effects(self, model: str) -> list[Effect]:
        """How far the mean risk of each group is from what was observed there, for all groups at once."""
        rows = [
            (group, self.estimates.find(LARGE, model, label=label, group=group))
            for label in self.labels
            for group in self.groups
        ]
        known = [(group, row) for group, row in rows if row is not None and row.value is not None]
        found = []
        for group, row in known:
            asked = self.risks._replace(margin=visible_margin(self.risks.margin, row))
            n_family = len(known) * len(self.models) * AS_QUESTIONS
            effect = asked.effect(row, self.n_patients[group], n_family=n_family)
            if effect is not None:
                found.append(effect._replace(label=self.named(group, row.label), where=group))
        return [*found, *self.open_effects(self.risks, model)] or [_nothing(self.risks)]

    def effects(self, question: str, model: str) -> list[Effect]:
        """Everything that is judged about a question and a model."""
        if question == "risks":
            return self.risk_effects(model)
        return self.difference_effects(self.worse if question == "worse" else self.missed, model)

    def against(self, group: str) -> str:
        """What a group is compared with, in words."""
        found = next((contrast for contrast in self.contrasts if contrast.group == group), None)
        return "the reference" if found is None else found.reference


def _nothing(question: Question) -> Effect:
    return Effect("", None, None, None, question.margin, 0, NO_GROUP)


def subgroup_answers(analysis: SubgroupAnalysis) -> tuple[Answer, ...]:
    """Is it worse for some, does it miss more of some, are its risks right for all?"""
    answers = []
    for model in analysis.models:
        for question in (analysis.worse, analysis.missed, analysis.risks):
            answer = question.answer(model, analysis.effects(question.name, model))
            if answer is not None:
                answers.append(answer)
    return tuple(answers)


def comparison_words(analysis: SubgroupAnalysis) -> str:
    """What groups are compared with: `all others`, or the reference groups."""
    return listed(list(dict.fromkeys(contrast.reference for contrast in analysis.contrasts))) or "nothing"
