"""The characteristics audit's answers: one question per characteristic, judged over its labels and groups.

Harm is a change of the mean risk in either direction, or decisions that flip. Gender, ethnicity and the like are
compared with the reference group. Age may change a risk, so its slope is not judged: an age is compared with its two
neighbours instead, and a year with the years around it. Ages that fewer than half of the notes can have count only
where harm is seen. What could not be altered, or was never seen by the model, leaves the answer unsettled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palpate.audits.characteristics.arm_measures import MOST_YEARS_APART, ArmMeasures
from palpate.audits.characteristics.arms import Arm
from palpate.audits.characteristics.estimates import DIFFERENCE, FLIPS, GAP, NO_NOTE, REVERSALS, STEPS
from palpate.audits.kit.altered import AlteredAnalysis
from palpate.audits.kit.answers import JudgedEffect, Question, judged_answer
from palpate.audits.kit.paired import FEWEST_PATIENTS
from palpate.audits.kit.wording import counted, percent
from palpate.results import Estimate
from palpate.results.verdicts import Answer, Effect
from palpate.stats.curves import AgeStep, sharpest_steps

MOST_LOST = 0.5
"""Of the notes that could not be altered: above it nothing is acceptable."""
NO_NEIGHBOURS = f"no three ages that are equally spaced and at most {MOST_YEARS_APART} years apart"


@dataclass(frozen=True, eq=False)
class CharacteristicsAnalysis(AlteredAnalysis):
    """What answers, findings and blocks are made from."""

    arms: Sequence[ArmMeasures]

    def compared(self, metric: str, model: str, found: ArmMeasures) -> list[Estimate]:
        """A model's estimates that compare the groups of an arm: with the reference group, with both neighbours, or
        with the age before."""
        arm = found.arm
        by_year = {GAP: found.neighbours, REVERSALS: found.neighbours, STEPS: found.inner_years}.get(metric)
        pairs = zip(*by_year, strict=True) if by_year else zip(arm.group_names, arm.against_names, strict=True)
        rows = [
            self.estimates.find(metric, model, label=label, group=group, reference=reference)
            for group, reference in pairs
            for label in self.labels
        ]
        return [row for row in rows if row is not None]

    def by_effect(self, found: ArmMeasures) -> list[str]:
        """The labels, those with the largest difference of any model and group first."""
        sizes = dict.fromkeys(self.labels, 0.0)
        for model in self.models:
            for row in self.compared(DIFFERENCE, model, found):
                sizes[row.label] = max(sizes[row.label], abs(row.value or 0.0))
        return sorted(self.labels, key=lambda label: -sizes[label])

    def steps(self, model: str, found: ArmMeasures) -> list[AgeStep]:
        """For each label, the neighbouring ages between which the prediction changes most; none without a curve."""
        return [] if found.run is None else sharpest_steps(found.models[model].mean_probability.value, found.run)


class JudgedArm(NamedTuple):
    """Everything that was judged about one model and characteristic, and the answer."""

    found: ArmMeasures
    worst: JudgedEffect
    answer: Answer
    judged: Sequence[JudgedEffect]


def question_name(arm: str) -> str:
    """The question about an arm, in one word for the gate: `gender_ethnicity` for both together."""
    return re.sub(r"\W+", "_", arm)


def asked(arm: Arm) -> tuple[str, str]:
    """The question about an arm: its name for the gate, and in words."""
    name = question_name(arm.name)
    if arm.name == "age":
        return name, "Does a single year of age change the answer?"
    if arm.name == "wording":
        return name, "Does the wording about the patient change the answer?"
    if "+" in arm.name:
        return name, f"Do the patient's {' and '.join(arm.name.split('+'))} together change the answer?"
    return name, f"Does the patient's {arm.name} change the answer?"


def judge_arms(analysis: CharacteristicsAnalysis) -> list[tuple[str, JudgedArm]]:
    """Every model's answer about every characteristic: (model, judged)."""
    return [(model, _judge_arm(analysis, model, found)) for found in analysis.arms for model in analysis.models]


def _judge_arm(analysis: CharacteristicsAnalysis, model: str, found: ArmMeasures) -> JudgedArm:
    name, asks = asked(found.arm)
    shift = Question(name, asks, "shift", analysis.margins["shift"], harm=0)
    flips = Question(name, asks, "flips", analysis.margins["flips"], percent=True)
    limit = limits(analysis, model, found)
    asked_of = {DIFFERENCE: shift, FLIPS: flips}
    if found.arm.name == "age":
        asked_of = {GAP: shift, REVERSALS: flips, STEPS: flips}
    judged = [
        each
        for metric, question in asked_of.items()
        for row in analysis.compared(metric, model, found)
        if (each := _judged(question, row, found, limit, single=analysis.single)) is not None
    ]
    judged = judged or [JudgedEffect(shift, Effect("", None, None, None, shift.margin, found.n_units, limit), None)]
    worst = min(judged, key=lambda each: each.order)
    return JudgedArm(found, worst, judged_answer(model, worst, judged, single=analysis.single), judged)


def _judged(
    question: Question, row: Estimate, found: ArmMeasures, limit: str | None, *, single: bool
) -> JudgedEffect | None:
    """None for an age that few notes can have, unless harm is seen all the same."""
    notes = _Compared.of(found, row)
    effect = question.effect(row, notes.n_patients, reason=limit)
    if effect is None:  # never: there is a row
        raise ValueError("no estimate")
    if not notes.usual and effect.verdict not in ("concern", "caution"):
        return None
    group = row.group.replace("=", " ") if found.arm.name == "age" else row.group.partition("=")[2]
    return JudgedEffect(question, effect._replace(label=group if single else f"{row.label}, {group}"), row)


class _Compared(NamedTuple):
    """The notes behind an estimate."""

    n_patients: int
    usual: bool
    """Whether they are enough for the answer to be about them."""

    @classmethod
    def of(cls, found: ArmMeasures, row: Estimate) -> _Compared:
        sets = found.sets
        if sets is None:
            return cls(found.n_units, usual=True)
        groups, notes = (
            (found.inner_years[0], sets.years) if row.metric == STEPS else (found.neighbours[0], sets.neighbours)
        )
        k = groups.index(row.group)
        return cls(int(notes.n_units[k]), bool(notes.usual[k]))


def limits(analysis: CharacteristicsAnalysis, model: str, found: ArmMeasures) -> str | None:
    """Why harm could not have been seen, if it could not."""
    arm = found.arm
    if not len(arm.rows):
        return NO_NOTE
    if found.n_units < FEWEST_PATIENTS:
        few = f"only {counted(found.n_units, 'patient')} with a note that could be altered"
        return f"{few}, and {FEWEST_PATIENTS} are needed"
    if arm.name == "age" and not len(found.years):
        return NO_NEIGHBOURS
    skipped = 1.0 - len(arm.rows) / arm.n_notes if arm.n_notes else 0.0
    if skipped > MOST_LOST:
        return f"{percent(skipped)} of the notes could not be altered"
    if found.sets is not None and found.sets.neighbours.usual.mean() < 1.0 - MOST_LOST:
        usual = found.sets.neighbours.usual
        return f"half of the notes can have only {usual.sum()} of the {len(usual)} ages that have neighbours"
    return analysis.unseen(model, found)
