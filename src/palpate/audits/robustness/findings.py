"""The robustness audit's findings: one sentence per question and model, doses in words, and what was not tested."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from palpate.audits.kit.altered import (
    change_words,
    effect_words,
    labels_left_out,
    open_words,
    shown_words,
    unseen_findings,
)
from palpate.audits.kit.paired import FEWEST_PATIENTS
from palpate.audits.kit.wording import counted, listed, percent
from palpate.audits.robustness.answers import JudgedQuestion, RobustnessAnalysis, limits, too_few
from palpate.audits.robustness.estimates import flips_of
from palpate.audits.robustness.measures import PerturbedMeasures
from palpate.results import Estimate, Finding

_MUCH_MORE = 1.5
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
    return (*findings, *_not_tested(analysis), *labels_left_out(analysis))


def _verdict(analysis: RobustnessAnalysis, model: str, judged: JudgedQuestion) -> Finding:
    """What is known about one question and model, and no more than that."""
    answer = judged.answer
    if answer.verdict == "acceptable":
        sentence = f"{model}: {_excluded(analysis, judged)}"
    elif answer.verdict == "unsettled":
        sentence = f"{model}: {_OPEN[judged.question]} cannot be told from these data{_open(analysis, judged)}"
    else:
        effects = effect_words(analysis, judged.worst, judged.judged, partial(_writing, analysis), _wrong_way)
        sentence = f"{model}: {shown_words(answer, judged.worst, effects)}"
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


def _wrong_way(row: Estimate) -> str:
    return "" if row.metric == "flip_rate" else " the wrong way"


def _open(analysis: RobustnessAnalysis, judged: JudgedQuestion) -> str:
    """Why a question is open: nothing could be seen, or harm is still possible."""

    def seen(row: Estimate) -> str:
        changed = change_words(analysis, row, flips=judged.worst.question.percent, how=_wrong_way(row))
        return f"{_writing(analysis, row)} {changed}"

    return open_words(judged.answer, judged.worst, seen)


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


def _realised(analysis: RobustnessAnalysis, found: PerturbedMeasures) -> str:
    """What the doses were in short notes, in which one word is more than asked for."""
    shares = found.arm.shares
    if not any(share > _MUCH_MORE * dose for share, dose in zip(shares, analysis.doses, strict=False)):
        return ""
    were = listed([percent(share) for share in shares])
    return f"; a dose is at least one word, and these notes are short: it was {were} of their words on average"


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
        sentence = f"{model}: {_name(found)} in {doses} of the words flip {flips} of decisions{of}"
        sentence += f"{_realised(analysis, found)}."
        findings.append(Finding(sentence=sentence, question=found.arm.perturbation.question))
    return findings


def _unseen(analysis: RobustnessAnalysis, found: PerturbedMeasures) -> list[Finding]:
    if too_few(found):
        return []
    edits, question = f"the edits of {_name(found)}", found.arm.perturbation.question
    return unseen_findings(analysis, found, edits, question, lambda model: limits(analysis, model, found))


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
