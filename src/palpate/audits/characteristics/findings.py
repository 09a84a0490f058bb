"""The characteristics audit's findings: one sentence per question and model, with the answer's verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palpate.audits.characteristics.answers import CharacteristicsAnalysis, JudgedArm, asked, limits
from palpate.audits.characteristics.arm_measures import ArmMeasures
from palpate.audits.characteristics.arms import NONE, Arm
from palpate.audits.characteristics.contrasts import altered_gender
from palpate.audits.characteristics.estimates import STEPS
from palpate.audits.kit.answers import JudgedEffect
from palpate.audits.kit.wording import counted, interval, listed, number, percent, quoted
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
    return (*findings, *_left_out(analysis))


def _verdict(analysis: CharacteristicsAnalysis, model: str, judged: JudgedArm) -> Finding:
    """What is known about one characteristic and model, and no more than that."""
    answer, arm = judged.answer, judged.found.arm
    if answer.verdict == "acceptable":
        sentence = f"{model}: {_excluded(analysis, judged)}"
    elif answer.verdict == "unsettled":
        changes = f"whether {'a single year of age' if arm.name == 'age' else arm.name} changes the answer"
        sentence = f"{model}: {changes} cannot be told from these data{_open(analysis, judged)}"
    else:
        shown = (
            "an effect beyond the {} is shown"
            if answer.verdict == "concern"
            else "whether that is beyond the {} is open"
        )
        sentence = f"{model}: {_effects(analysis, judged)}: {shown.format(_margin(judged.worst))}."
    if arm.name == "age" and judged.found.models:
        sentence += _slope(analysis, model, judged.found)
    return Finding(sentence=sentence, kind=answer.verdict, question=answer.question)


def _open(analysis: CharacteristicsAnalysis, judged: JudgedArm) -> str:
    """Why a question is open: nothing could be seen, or harm is still possible."""
    worst, answer, row = judged.worst, judged.answer, judged.worst.row
    if answer.reason or row is None or worst.effect.high is None:
        return f" ({answer.reason or 'no estimate'})."
    end = worst.effect.sign * (worst.most if worst.most == worst.effect.high else -worst.most)
    most = f"{percent(end)} are" if worst.question.percent else f"{number(end, signed=True)} is"
    needed = "" if answer.needed is None else f" About {answer.needed:,} patients would settle it."
    measured = [each.row for each in judged.judged if each.question.metric == worst.question.metric]
    if all(each is not None and each.value == 0.0 for each in measured):
        none = "no decision flipped" if worst.question.percent else "no predicted risk changed"
        what = f"{none} in {counted(len(judged.found.arm.rows), 'note')}"
    else:
        what = f"{_alteration(judged.found.arm, row)} {_change(analysis, row, percent_of=worst.question.percent)}"
    return f": {what}, but {most} possible ({_margin(worst)}).{needed}"


def _effects(analysis: CharacteristicsAnalysis, judged: JudgedArm) -> str:
    """The effect that decides and, for the same label and group, the other measure, with their intervals."""
    worst = judged.worst
    if worst.row is None:  # never: an effect that is shown has an estimate
        return ""
    told = [_change(analysis, worst.row, percent_of=worst.question.percent, with_interval=True)]
    for each in judged.judged:
        other = each.row
        if other is None or other.value is None or each.question.metric == worst.question.metric:
            continue
        if (other.label, other.group, other.reference) == (worst.row.label, worst.row.group, worst.row.reference):
            told.append(_change(analysis, other, percent_of=each.question.percent, with_interval=True))
    return f"{_alteration(judged.found.arm, worst.row)} {listed(told)}"


def _margin(judged: JudgedEffect) -> str:
    size = judged.question.margin
    return f"margin of {_share(size) if judged.question.percent else f'{size:g}'}"


def _share(value: float) -> str:
    return f"{100 * value:g}%"


def _change(analysis: CharacteristicsAnalysis, row: Estimate, *, percent_of: bool, with_interval: bool = False) -> str:
    """What an alteration does to decisions or to the risk."""
    if percent_of:
        of = "" if analysis.single else f" about '{row.label}'"
        held = row.reason if row.low is None else f"{row.level:.0%} interval {percent(row.low)} to {percent(row.high)}"
        beyond = " more than the years around it do" if row.metric == STEPS else ""
        return f"flips {percent(row.value)} of decisions{of}{beyond}{f' ({held})' if with_interval else ''}"
    value = row.value or 0.0
    moves = f"{'raises' if value > 0 else 'lowers'} {analysis.risk(row.label)} by {number(abs(value))}"
    held = f" ({interval(row, signed=True)})" if with_interval else ""
    return f"{moves if value else f'does not move {analysis.risk(row.label)}'}{held}"


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
    """Edits that a model did not see, where the answer does not say so itself."""
    shares = [(model, analysis.window(model, found).share) for model in analysis.models]
    missed = [
        f"{model} never saw {percent(share)} of the {found.arm.name} edits"
        for model, share in shares
        if share and not (limits(analysis, model, found) or "").endswith("window")
    ]
    if not missed:
        return []
    sentence = f"{listed(missed)}: they lie outside the window and change nothing."
    return [Finding(sentence=sentence, kind="caveat", question=asked(found.arm)[0])]


def _skipped(found: ArmMeasures) -> list[Finding]:
    """Notes that could not be altered, or not to all ages, and why."""
    arm = found.arm
    n_skipped, n_partly = arm.n_notes - len(arm.rows), sum(arm.partly.values())
    question = asked(arm)[0]
    findings = []
    if n_partly > _MUCH_SKIPPED * arm.n_notes:
        why = listed([f"{reason} ({n:,})" for reason, n in list(arm.partly.items())[:_MOST_REASONS]])
        sentence = f"{n_partly:,} of {arm.n_notes:,} notes contradict some ages, mostly because {why}. "
        findings.append(Finding(sentence=sentence + _EACH_AGE, kind="caveat", question=question))
    if not arm.n_notes or n_skipped <= _MUCH_SKIPPED * arm.n_notes:
        return findings
    why = max(arm.reasons.items(), key=lambda item: int(item[1].max()))[0] if arm.reasons else ""
    mostly = f", mostly because: {why}" if why else ""
    sentence = f"{n_skipped:,} of {arm.n_notes:,} notes could not be altered for {arm.name}{mostly}."
    return [*findings, Finding(sentence=sentence, kind="caveat", question=question)]


def _left_out(analysis: CharacteristicsAnalysis) -> list[Finding]:
    """Labels of the cohort that nothing is said about."""
    names = analysis.left_out
    if not names:
        return []
    n = len(names) + len(analysis.labels)
    sentence = f"{len(names)} of {n} labels were not tested, and the answers say nothing about them: {quoted(names)}."
    return [Finding(sentence=sentence, kind="caveat")]
