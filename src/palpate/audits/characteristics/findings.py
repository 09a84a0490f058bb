"""The characteristics audit's findings: one sentence per question and model, with the answer's verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from palpate.audits.characteristics.answers import CharacteristicsAnalysis, JudgedArm, asked, limits
from palpate.audits.characteristics.arm_measures import ArmMeasures
from palpate.audits.characteristics.arms import NONE, Arm
from palpate.audits.characteristics.contrasts import altered_gender
from palpate.audits.characteristics.estimates import STEPS
from palpate.audits.kit.altered import (
    change_words,
    effect_words,
    labels_left_out,
    open_words,
    shown_words,
    unseen_findings,
)
from palpate.audits.kit.wording import counted, interval, listed, number
from palpate.results import ALL_LABELS, Estimate, Finding

_MUCH_SKIPPED = 0.20
_MOST_REASONS = 2
_EACH_AGE = "Each comparison is over the notes that can have the ages that it compares."


def characteristics_findings(
    analysis: CharacteristicsAnalysis, judged: Sequence[tuple[str, JudgedArm]]
) -> tuple[Finding, ...]:
    """The sentences, question by question."""
    findings = [_verdict(analysis, model, arm) for model, arm in judged]
    for found in analysis.arms:
        findings += [*_amplified(analysis, found), *_unseen(analysis, found), *_skipped(found)]
    return (*findings, *labels_left_out(analysis))


def _verdict(analysis: CharacteristicsAnalysis, model: str, judged: JudgedArm) -> Finding:
    """What is known about one characteristic and model, and no more than that."""
    answer, arm = judged.answer, judged.found.arm
    if answer.verdict == "acceptable":
        sentence = f"{model}: {_excluded(analysis, judged)}"
    elif answer.verdict == "unsettled":
        changes = f"whether {'a single year of age' if arm.name == 'age' else arm.name} changes the answer"
        sentence = f"{model}: {changes} cannot be told from these data{_open(analysis, judged)}"
    else:
        effects = effect_words(analysis, judged.worst, judged.judged, partial(_alteration, arm), _beyond)
        sentence = f"{model}: {shown_words(answer, judged.worst, effects)}"
    if arm.name == "age" and judged.found.models:
        sentence += _slope(analysis, model, judged.found)
    return Finding(sentence=sentence, kind=answer.verdict, question=answer.question)


def _open(analysis: CharacteristicsAnalysis, judged: JudgedArm) -> str:
    """Why a question is open: nothing could be seen, or harm is still possible."""
    worst = judged.worst
    measured = [each.row for each in judged.judged if each.question.metric == worst.question.metric]

    def seen(row: Estimate) -> str:
        if all(each is not None and each.value == 0.0 for each in measured):
            none = "no decision flipped" if worst.question.percent else "no predicted risk changed"
            return f"{none} in {counted(len(judged.found.arm.rows), 'note')}"
        changed = change_words(analysis, row, flips=worst.question.percent, how=_beyond(row))
        return f"{_alteration(judged.found.arm, row)} {changed}"

    return open_words(judged.answer, worst, seen)


def _beyond(row: Estimate) -> str:
    return " more than the years around it do" if row.metric == STEPS else ""


def _share(value: float) -> str:
    return f"{100 * value:g}%"


def _alteration(arm: Arm, row: Estimate) -> str:
    """What was done to the note, in words: `naming the patient female instead of male`."""
    name, reference = row.group.partition("=")[2], (row.reference or arm.reference_name).partition("=")[2]
    if arm.name == "age":
        around = (row.reference or "").partition("=")[2].replace(", ", " and ")
        if row.metric == STEPS:
            return f"age {name} instead of {around}"
        return f"age {name}, compared with the neighbouring ages {around},"
    if arm.name == "gender":
        return altered_gender(name, reference)
    if reference == NONE:
        return f"mentioning '{name}' instead of no {arm.name}"
    if name == NONE:
        return f"leaving out {arm.name} '{reference}'"
    return f"{arm.name} {name} instead of {reference}"


def _excluded(analysis: CharacteristicsAnalysis, judged: JudgedArm) -> str:
    """Both margins are excluded, for every label and group."""
    name = judged.found.arm.name
    over = "" if analysis.single else f" and each of {len(analysis.labels)} labels"
    every = judged.found.ages_compared if name == "age" else "every group"
    effects = f"effects of {name} beyond the margins are excluded for {every}{over}"
    against = ", against the neighbouring ages" if name == "age" else ""
    shift, flips = analysis.margins["shift"], _share(analysis.margins["flips"])
    bounds = f"the mean risk changes by less than {shift:g}, and less than {flips} of decisions flip{against}"
    bounds += " or beyond what the years around it flip" if name == "age" else ""
    same = all(each.row is not None and each.row.value == 0.0 for each in judged.judged)
    none = f" No prediction changed in {counted(len(judged.found.arm.rows), 'note')}." if same else ""
    return f"{effects}: {bounds}.{none}"


def _slope(analysis: CharacteristicsAnalysis, model: str, found: ArmMeasures) -> str:
    """How far age moves the prediction: a fact, because age is a real risk factor."""
    groups = [found.arm.groups[g] for g in found.curve]
    mean = found.models[model].mean_probability.value[found.curve]
    ranges = np.ptp(mean, axis=0) if groups else np.zeros(1)
    j = int(ranges.argmax())
    if ranges[j] == 0.0:
        return ""
    low, high = int(mean[:, j].argmin()), int(mean[:, j].argmax())
    if number(mean[low, j]) == number(mean[high, j]):
        return ""
    most = "" if analysis.single else ", the largest change of all labels"
    over = "Over all ages" if len(groups) == len(found.arm.groups) else f"From age {groups[0]} to {groups[-1]}"
    ends = f"{number(mean[low, j])} at {groups[low]} to {number(mean[high, j])} at {groups[high]}"
    return f" {over}, {analysis.risk(analysis.labels[j])} goes from {ends}{most}; age may rightly change a risk."


def _amplified(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> list[Finding]:
    """Where the model surely amplifies what the training data show."""
    label = analysis.labels[0] if analysis.single else ALL_LABELS
    findings = []
    for model in analysis.models:
        row = analysis.estimates.find("amplification", model, label=label, group=found.arm.name)
        if row is not None and row.low is not None and row.low > 1:
            size = f"{number(row.value)} times ({interval(row)})"
            sentence = f"{model} amplifies the differences by {found.arm.name} in the training data: {size}."
            findings.append(Finding(sentence=sentence, question=asked(found.arm)[0]))
    return findings


def _unseen(analysis: CharacteristicsAnalysis, found: ArmMeasures) -> list[Finding]:
    edits, question = f"the {found.arm.name} edits", asked(found.arm)[0]
    return unseen_findings(analysis, found, edits, question, lambda model: limits(analysis, model, found))


def _skipped(found: ArmMeasures) -> list[Finding]:
    """Notes that could not be altered, or not to all ages, and why."""
    arm = found.arm
    n_skipped, n_partly = arm.n_notes - len(arm.rows), sum(arm.partly.values())
    question = asked(arm)[0]
    findings = []
    if n_partly > _MUCH_SKIPPED * arm.n_notes:
        most = list(arm.partly.items())[:_MOST_REASONS]
        why = listed([f"{reason.removeprefix('contradictory: ')} ({n:,})" for reason, n in most])
        sentence = f"{n_partly:,} of {arm.n_notes:,} notes contradict some ages, mostly because {why}. "
        findings.append(Finding(sentence=sentence + _EACH_AGE, kind="caveat", question=question))
    if not arm.n_notes or n_skipped <= _MUCH_SKIPPED * arm.n_notes:
        return findings
    why = max(arm.reasons.items(), key=lambda item: int(item[1].max()))[0] if arm.reasons else ""
    mostly = f", mostly because: {why}" if why else ""
    sentence = f"{n_skipped:,} of {arm.n_notes:,} notes could not be altered for {arm.name}{mostly}."
    return [*findings, Finding(sentence=sentence, kind="caveat", question=question)]
