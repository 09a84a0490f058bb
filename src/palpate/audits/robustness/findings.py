"""The robustness audit's findings: one sentence per question and model, doses in words, and what was not tested."""

from __future__ import annotations

from collections.abc import Sequence

from palpate.audits.kit.answers import JudgedEffect
from palpate.audits.kit.paired import FEWEST_PATIENTS
from palpate.audits.kit.wording import counted, interval, listed, number, percent, quoted
from palpate.audits.robustness.answers import JudgedQuestion, RobustnessAnalysis, limits, too_few
from palpate.audits.robustness.estimates import flips_of
from palpate.audits.robustness.measures import PerturbedMeasures
from palpate.results import Estimate, Finding

_OPEN = {
    "spelling": "whether misspelt words change the answer",
    "layout": "whether the layout of a note changes the answer",
    "wording": "whether other words for the same facts change the answer",
    "denials": "whether a denial is taken for a finding",
    "own": "whether your own perturbations change the answer",
}


def robustness_findings(
    analysis: RobustnessAnalysis, judged: Sequence[tuple[str, JudgedQuestion]]
) -> tuple[Finding, ...]:
    """The sentences, question by question."""
    findings = [_verdict(analysis, model, each) for model, each in judged]
    for found in analysis.measured:
        findings += [*_doses(analysis, found), *_unseen(analysis, found)]
    return (*findings, *_not_tested(analysis), *_left_out(analysis))


def _verdict(analysis: RobustnessAnalysis, model: str, judged: JudgedQuestion) -> Finding:
    """What is known about one question and model, and no more than that."""
    answer = judged.answer
    if answer.verdict == "acceptable":
        sentence = f"{model}: {_excluded(analysis, judged)}"
    elif answer.verdict == "unsettled":
        sentence = f"{model}: {_OPEN[judged.question]} cannot be told from these data{_open(analysis, judged)}"
    else:
        shown = "is shown" if answer.verdict == "concern" else "is open"
        rest = f"an effect beyond the {_margin(judged.worst)} is shown" if shown == "is shown" else ""
        rest = rest or f"whether that is beyond the {_margin(judged.worst)} is open"
        sentence = f"{model}: {_effects(analysis, judged)}: {rest}."
    return Finding(sentence=sentence, kind=answer.verdict, question=answer.question)


def _found(analysis: RobustnessAnalysis, row: Estimate) -> PerturbedMeasures:
    """The arm that an estimate is about."""
    return next(found for found in analysis.measured if row.group in found.arm.group_names)


def _writing(analysis: RobustnessAnalysis, row: Estimate) -> str:
    """What was done to the notes: `writing the note with typing errors (5% of words)`."""
    found = _found(analysis, row)
    group = row.group.partition("=")[2]
    if found.arm.perturbation.slips is not None:
        return f"writing the note {found.arm.perturbation.about} in {group} of its words"
    several = f" ({group})" if len(found.arm.groups) > 1 else ""
    return f"writing the note {found.arm.perturbation.about}{several}"


def _effects(analysis: RobustnessAnalysis, judged: JudgedQuestion) -> str:
    """The effect that decides and, for the same label and group, the other measure, with their intervals."""
    worst = judged.worst
    if worst.row is None:  # never: an effect that is shown has an estimate
        return ""
    told = [_change(analysis, worst, with_interval=True)]
    for each in judged.judged:
        other = each.row
        if other is None or other.value is None or each.question.metric == worst.question.metric:
            continue
        if (other.label, other.group) == (worst.row.label, worst.row.group):
            told.append(_change(analysis, each, with_interval=True))
    return f"{_writing(analysis, worst.row)} {listed(told)}"


def _change(analysis: RobustnessAnalysis, judged: JudgedEffect, *, with_interval: bool = False) -> str:
    """What a perturbation does to decisions or to the risk."""
    row = judged.row
    if row is None:  # never: there is an estimate
        return ""
    if judged.question.percent:
        of = "" if analysis.single else f" about '{row.label}'"
        against = "" if row.metric == "flip_rate" else " the wrong way"
        held = row.reason if row.low is None else f"{row.level:.0%} interval {percent(row.low)} to {percent(row.high)}"
        return f"flips {percent(row.value)} of decisions{of}{against}{f' ({held})' if with_interval else ''}"
    value = row.value or 0.0
    moves = f"{'raises' if value > 0 else 'lowers'} {analysis.risk(row.label)} by {number(abs(value))}"
    held = f" ({interval(row, signed=True)})" if with_interval else ""
    return f"{moves if value else f'does not move {analysis.risk(row.label)}'}{held}"


def _margin(judged: JudgedEffect) -> str:
    size = judged.question.margin
    return f"margin of {f'{100 * size:g}%' if judged.question.percent else f'{size:g}'}"


def _open(analysis: RobustnessAnalysis, judged: JudgedQuestion) -> str:
    """Why a question is open: nothing could be seen, or harm is still possible."""
    worst, answer, row = judged.worst, judged.answer, judged.worst.row
    if answer.reason or row is None or worst.effect.high is None:
        return f" ({answer.reason or 'no estimate'})."
    end = worst.effect.sign * (worst.most if worst.most == worst.effect.high else -worst.most)
    most = f"{percent(end)} are" if worst.question.percent else f"{number(end, signed=True)} is"
    needed = "" if answer.needed is None else f" About {answer.needed:,} patients would settle it."
    what = f"{_writing(analysis, row)} {_change(analysis, worst)}"
    return f": {what}, but {most} possible ({_margin(worst)}).{needed}"


def _excluded(analysis: RobustnessAnalysis, judged: JudgedQuestion) -> str:
    """Both margins are excluded, for every perturbation, group and label."""
    names = listed([_name(found) for found in judged.tested])
    over = "" if analysis.single else f" and each of {len(analysis.labels)} labels"
    sizes = sorted({analysis.tolerance(found) for found in judged.tested})
    shift = f"less than {sizes[0]:g}" if len(sizes) == 1 else f"less than its tolerance ({sizes[0]:g} to {sizes[-1]:g})"
    flips = f"{100 * analysis.margins['flips']:g}%"
    one_way = all(found.arm.perturbation.expects != "same" for found in judged.tested)
    how = " the wrong way" if one_way else ""
    bounds = f"the mean risk changes{how} by {shift}, and less than {flips} of decisions flip{how}"
    same = all(each.row is not None and each.row.value == 0.0 for each in judged.judged)
    none = " No prediction changed." if same else ""
    return f"effects beyond the margins are excluded for {names}{over}: {bounds}.{none}"


def _name(found: PerturbedMeasures) -> str:
    return found.arm.name.replace("_", " ")


def _doses(analysis: RobustnessAnalysis, found: PerturbedMeasures) -> list[Finding]:
    """How decisions flip with the dose, for the label with most of them."""
    if found.arm.perturbation.slips is None or too_few(found) or len(analysis.doses) < 2:
        return []
    findings = []
    for model in analysis.models:
        rows = [row for row in analysis.compared(flips_of(found), model, found) if row.value is not None]
        if not rows or not any(row.value for row in rows):
            continue
        label = max(rows, key=lambda row: row.value or 0.0).label
        own = [row for row in rows if row.label == label]
        of = "" if analysis.single else f" about '{label}'"
        doses = listed([row.group.partition("=")[2] for row in own])
        flips = listed([percent(row.value) for row in own])
        sentence = f"{model}: {_name(found)} in {doses} of the words flip {flips} of decisions{of}."
        findings.append(Finding(sentence=sentence, question=found.arm.perturbation.question))
    return findings


def _unseen(analysis: RobustnessAnalysis, found: PerturbedMeasures) -> list[Finding]:
    """Edits that a model did not see, where the answer does not say so itself."""
    shares = [(model, analysis.window(model, found).share) for model in analysis.models if not too_few(found)]
    missed = [
        f"{model} never saw {percent(share)} of the edits of {_name(found)}"
        for model, share in shares
        if share and not (limits(analysis, model, found) or "").endswith("window")
    ]
    if not missed:
        return []
    sentence = f"{listed(missed)}: they lie outside the window and change nothing."
    return [Finding(sentence=sentence, kind="caveat", question=found.arm.perturbation.question)]


def _not_tested(analysis: RobustnessAnalysis) -> list[Finding]:
    """Perturbations that too few notes allow, and that nobody asked for by name."""
    findings = []
    for question in analysis.questions:
        few = [found for found in analysis.asking(question) if too_few(found) and not found.arm.asked]
        if few:
            each = listed([f"{_name(found)} ({counted(found.n_units, 'patient')})" for found in few])
            sentence = f"Not tested, because fewer than {FEWEST_PATIENTS} patients have a note for it: {each}."
            findings.append(Finding(sentence=sentence, kind="caveat", question=question))
    return findings


def _left_out(analysis: RobustnessAnalysis) -> list[Finding]:
    """Labels of the cohort that nothing is said about."""
    names = analysis.left_out
    if not names:
        return []
    n = len(names) + len(analysis.labels)
    sentence = f"{len(names)} of {n} labels were not tested, and the answers say nothing about them: {quoted(names)}."
    return [Finding(sentence=sentence, kind="caveat")]
