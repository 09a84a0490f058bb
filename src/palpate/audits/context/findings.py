"""The context audit's answers and findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from palpate.audits.context.balance import BalanceRow
from palpate.audits.context.cases import AuditedCases, ContextMeasuring
from palpate.audits.context.groups import MATCHED, MENTIONED, PRETEST, REWEIGHTED, WHOLE, CaseGroup, LabelStrata
from palpate.audits.context.incremental import OVER_CONTEXT
from palpate.audits.context.measures import ContextMeasures
from palpate.audits.context.pretest import PretestProbabilities
from palpate.audits.kit.answers import Question
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import counted, interval, listed, number, quoted
from palpate.results import MACRO, Estimate, Finding
from palpate.results.verdicts import Answer, Effect

WARNINGS = {
    "effective_size": "the weights reduce the effective sample size of a class to {value:.0%}",
    "extreme_weight": "a single case holds {value:.0%} of the weight of its class",
    "no_overlap": "{value:.0%} of a class have a pre-test probability that no case of the other class has",
    "unbalanced": "after weighting, the history still tells the classes apart (its AUROC is {value:.2f} from 0.5)",
}
_NO_PROOF = (
    "A fall among matched cases is an association. It does not prove that a model reads the history off the test: "
    "cases that look alike on paper may be harder to tell apart."
)
_AS_GIVEN = (
    "The pre-test probabilities are columns of the cohort. Intervals take them as given, so the uncertainty of the "
    "model that made them is not included."
)
_CHANCE = 0.5
_ALIKE = 1.1
"""How many times the mean weight of a class may be that of the other without a word."""
_QUESTIONS = ("held_equal", "high_risk")
_MATCHED_WORDS = "Among cases with a similar pre-test probability (matched{within}), the AUROC of {model}"
_RISK_WORDS = (
    "From patients at low risk ({low} of the pre-test probability) to those at high risk ({high}), the AUROC of {model}"
)
_TALLY = {
    "concern": "lower by more than the margin",
    "caution": "lower by an open amount",
    "unsettled": "not settled",
    "acceptable": "not lower by more than the margin",
}
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class ContextAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of all cases."""
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    groups: Sequence[CaseGroup]
    strata: Sequence[LabelStrata]
    cases: AuditedCases
    pretest: PretestProbabilities
    measures: ContextMeasures
    measuring: ContextMeasuring
    include_text: bool
    n_left_out: int
    left_out: str

    def tested(self, model: str, group: str, reference: str, metric: str = "auroc") -> list[Estimate]:
        """The labels' differences that were tested, the lowest first."""
        rows = (
            self.estimates.find(metric, model, label=label, group=group, reference=reference) for label in self.labels
        )
        found = [row for row in rows if row is not None and row.significant is not None]
        return sorted(found, key=lambda row: row.value or 0.0)

    def names(self, kind: str) -> list[str]:
        """The names of the groups of a kind."""
        return [group.name for group in self.groups if group.kind == kind]


class ContextQuestion(NamedTuple):
    """A question of the scorecard about one model: one group less another, in AUROC, for each label."""

    question: Question
    group: str
    reference: str
    model: str
    effects: Sequence[Effect]
    answer: Answer


def context_questions(analysis: ContextAnalysis, margin: float) -> list[ContextQuestion]:
    """The audit's questions, with the answer for each model."""
    strata = analysis.names("stratum")
    held_equal = "What is left when the history is held equal?"
    high_risk = "Is it worse for patients at high risk?"
    wanted = (
        (Question("held_equal", held_equal, "auroc", margin, harm=-1), MATCHED, WHOLE),
        (Question("high_risk", high_risk, "auroc", margin, harm=-1), strata[-1], strata[0]),
    )
    asked = (_ask(analysis, *each, model) for each in wanted for model in analysis.models)
    return [each for each in asked if each is not None]


def _ask(
    analysis: ContextAnalysis, question: Question, group: str, reference: str, model: str
) -> ContextQuestion | None:
    effects = []
    for j, label in enumerate(analysis.labels):
        row = analysis.estimates.find("auroc", model, label=label, group=group, reference=reference)
        n_patients = np.unique(analysis.cases.patient[analysis.cases.known[:, j]]).size
        # What was not tested has a pointwise interval: widened, as that of all the others is.
        n_family = None if row is None or row.p_value is not None else len(analysis.labels) * len(analysis.models)
        effect = question.effect(row, n_patients, n_family=n_family, reason=_untested(row))
        effect = effect or Effect(label, None, None, None, question.margin, n_patients, "not measured")
        silent = (
            _silent_history(analysis, label) or _turned(analysis, label, group) if effect.harm is not None else None
        )
        effects.append(effect if silent is None else effect.not_judged(silent))
    answer = question.answer(model, effects)
    return None if answer is None else ContextQuestion(question, group, reference, model, effects, answer)


def _untested(row: Estimate | None) -> str | None:
    """Why a difference might not have been seen; None if it would have been. A fall that is shown counts all the
    same: pairs that are not alike make it smaller, not larger."""
    if row is None or row.value is None:
        return None if row is None else row.reason
    return (row.reason or "").removeprefix("not tested: ") or None if row.p_value is None else None


def _silent_history(analysis: ContextAnalysis, label: str) -> str | None:
    """Why holding the history equal says nothing about a label: the history does not predict it. None if it does."""
    history = analysis.estimates.find("auroc", PRETEST, label=label)
    if history is None or history.value is None or (history.low is not None and history.low > _CHANCE):
        return None
    return f"the history itself is not shown to predict it (AUROC {number(history.value)}; {interval(history)})"


def _turned(analysis: ContextAnalysis, label: str, group: str) -> str | None:
    """Why a fall among pairs may not be one: weights or odd probabilities have turned the history round in them."""
    rows = (row for row in analysis.measures.balance if row.label == label and row.group == group)
    return "in the pairs, the history speaks against it" if any(row.reversed for row in rows) else None


def context_findings(analysis: ContextAnalysis, asked: Sequence[ContextQuestion]) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them: those about a question first."""
    held_equal, high_risk = (tuple(each for each in asked if each.question.name == name) for name in _QUESTIONS)
    return (
        *(_answered(analysis, each, _MATCHED_WORDS) for each in held_equal),
        *(finding for each in held_equal for finding in _gain(analysis, each)),
        Finding(sentence=_NO_PROOF, kind="caveat", question="held_equal"),
        *_drawn_by_outcome(analysis),
        *_not_alike(analysis),
        *_weights(analysis),
        *(_answered(analysis, each, _RISK_WORDS) for each in high_risk),
        *(finding for each in high_risk for finding in _mentions(analysis, each)),
        *_few_values(analysis),
        *_history(analysis),
        *([_warning(_AS_GIVEN)] if analysis.pretest.refits is None else []),
        *_left_out(analysis),
    )


def _warning(sentence: str, question: str | None = None) -> Finding:
    return Finding(sentence=sentence, kind="caveat", question=question)


def _labels(rows: Sequence[Estimate] | Sequence[BalanceRow] | Sequence[Effect]) -> str:
    return quoted([row.label for row in rows], most=_MOST_NAMED)


def _lower(rows: Sequence[Estimate]) -> list[Estimate]:
    return [row for row in rows if row.significant and (row.value or 0) < 0]


def _higher(rows: Sequence[Estimate]) -> list[Estimate]:
    return [row for row in rows if row.significant and (row.value or 0) > 0]


def _size(row: Estimate | Answer, level: float) -> str:
    ends = (
        ""
        if row.low is None
        else f"; {level:.0%} interval {number(row.low, signed=True)} to {number(row.high, signed=True)}"
    )
    return f"{number(row.value, signed=True)}{ends}"


def _answered(analysis: ContextAnalysis, asked: ContextQuestion, opening: str) -> Finding:
    """One sentence with the answer's verdict, one that counts the labels, and the mean over labels."""
    answer, level = asked.answer, analysis.measuring.resampling.level
    label = answer.label or asked.effects[0].label
    margin, opening = f"{asked.question.margin:g}", opening.format(model=asked.model, **_described(analysis))
    change = f"changes from {_levels(analysis, asked, label)} for '{label}' ({_size(answer, level)})"
    every = "" if len(asked.effects) == 1 else f" for each of the {len(asked.effects)} labels"
    if answer.verdict == "concern":
        sentence = f"{opening} {change}: by more than the margin of {margin}."
    elif answer.verdict == "caution":
        sentence = f"{opening} {change}; whether by more than the margin of {margin} is open."
    elif answer.verdict == "acceptable":
        sentence = f"{opening} is not lower by more than the margin of {margin}{every}; the largest change is "
        sentence += f"{_size(answer, level)} ('{label}')." if every else f"{_size(answer, level)}."
    elif answer.reason is not None:
        sentence = f"{opening} cannot be judged{' for every label' if every else f': {answer.reason}'}."
    else:
        needed = f"; about {answer.needed:,} patients would tell" if answer.needed else ""
        sentence = f"{opening} {change}: these data cannot tell whether it is lower by more than {margin}{needed}."
    return asked.question.finding(answer, sentence + _tally(asked) + _also(analysis, asked))


def _described(analysis: ContextAnalysis) -> dict[str, str]:
    strata, caliper = analysis.names("stratum"), analysis.measuring.caliper
    within = "" if caliper is None else f", within {caliper:g}"
    return {"high": strata[-1], "low": strata[0], "within": within}


def _tally(asked: ContextQuestion) -> str:
    """How many labels have each verdict; those that are not settled by name, with the reason."""
    if len(asked.effects) == 1:
        return ""
    by = {verdict: [each for each in asked.effects if each.verdict == verdict] for verdict in _TALLY}
    unsettled: dict[str, list[Effect]] = {}
    for effect in by["unsettled"]:
        unsettled.setdefault(effect.reason or "the interval is too wide", []).append(effect)
    named = "; ".join(f"{_labels(effects)}: {reason}" for reason, effects in unsettled.items())
    names = {verdict: named if verdict == "unsettled" else _labels(found) for verdict, found in by.items()}
    parts = [f"{_TALLY[verdict]} for {len(found)} ({names[verdict]})" for verdict, found in by.items() if found]
    return f" Of {len(asked.effects)} labels: {listed(parts)}."


def _also(analysis: ContextAnalysis, asked: ContextQuestion) -> str:
    """The mean over labels, and the re-weighted numbers where they can be relied on."""
    if asked.group != MATCHED:
        return ""
    level, find = analysis.measuring.resampling.level, analysis.estimates.find
    label = asked.answer.label or asked.effects[0].label
    mean = find("auroc", asked.model, label=MACRO, group=MATCHED, reference=WHOLE)
    weighted = find("auroc", asked.model, label=label, group=REWEIGHTED, reference=WHOLE)
    said = ""
    if weighted is not None and weighted.significant is not None:
        said = f" Re-weighted, as if the history said nothing, '{label}' changes by {_size(weighted, level)}."
    if mean is not None and mean.significant is not None:
        said += f" On average over the labels: {_levels(analysis, asked, MACRO)} ({_size(mean, level)})."
    return said


def _levels(analysis: ContextAnalysis, asked: ContextQuestion, label: str) -> str:
    groups = (asked.reference, asked.group)
    values = (analysis.estimates.value("auroc", asked.model, label=label, group=name) for name in groups)
    return " to ".join(map(number, values))


def _history(analysis: ContextAnalysis) -> list[Finding]:
    """How well the history alone predicts the labels."""
    rows = (analysis.estimates.find("auroc", PRETEST, label=label) for label in analysis.labels)
    known = sorted((row for row in rows if row is not None and row.value is not None), key=lambda row: row.value or 0)
    if not known:
        why = next((reason for reason in analysis.pretest.reason if reason), "no pre-test probability")
        return [_warning(f"Nothing can be said about context: {why}.")]
    best, worst = known[-1], known[0]
    sentence = f"The history alone, without the test, predicts '{best.label}' with an AUROC of {number(best.value)}."
    if len(known) > 1:
        sentence = (
            "The history alone, without the test, predicts the labels with an AUROC from "
            f"{number(worst.value)} ('{worst.label}') to {number(best.value)} ('{best.label}')."
        )
    return [Finding(sentence=sentence), *_unknown(analysis)]


def _unknown(analysis: ContextAnalysis) -> list[Finding]:
    """Labels for which some cases, or all, have no pre-test probability."""
    n = len(analysis.cases.patient)
    found = []
    for j, label in enumerate(analysis.labels):
        known = int(analysis.cases.known[:, j].sum())
        if known == 0:
            found.append(_warning(f"Nothing can be said about '{label}': {analysis.pretest.reason[j]}."))
        elif known < n:
            sentence = f"For '{label}', {n - known:,} of {n:,} cases are left out: no pre-test probability."
            found.append(Finding(sentence=sentence))
    return found


def _mentions(analysis: ContextAnalysis, asked: ContextQuestion) -> list[Finding]:
    names = analysis.names("mention")
    rows = analysis.tested(asked.model, names[0], names[1]) if names else []
    lower = _lower(rows)
    if not lower:
        return []
    known = "mentioned in earlier notes" if names[0] == MENTIONED[0] else "found before"
    sentence = (
        f"Where the finding was {known}, {asked.model} has a lower AUROC, most of all for '{lower[0].label}' "
        f"({_size(lower[0], analysis.measuring.resampling.level)}); shown for {len(lower)} of "
        f"{counted(len(rows), 'tested label')}."
    )
    return [Finding(sentence=sentence, question=asked.question.name)]


def _gain(analysis: ContextAnalysis, asked: ContextQuestion) -> list[Finding]:
    """What the model adds for someone who knows the history."""
    rows = analysis.tested(asked.model, WHOLE, PRETEST, OVER_CONTEXT)
    useful = _higher(rows)
    opening = f"For someone who knows the history, {asked.model}"
    if not rows:
        return []
    if not useful:
        sentence = f"{opening} is not shown to add anything, for {'any of ' if len(rows) > 1 else ''}{_labels(rows)}."
    else:
        least, most = useful[0], useful[-1]
        size = f"{number(least.value)} to the AUROC for '{least.label}' ({interval(least, signed=True)})"
        if len(useful) > 1:
            ends = (f"{number(row.value)} ('{row.label}'; {interval(row, signed=True)})" for row in (least, most))
            size = f"between {' and '.join(ends)} to the AUROC"
        useless = [row for row in rows if row not in useful]
        sentence = f"{opening} adds {size}{f'; for {_labels(useless)} that is not shown' if useless else ''}."
    return [Finding(sentence=sentence, question=asked.question.name)]


def _not_alike(analysis: ContextAnalysis) -> list[Finding]:
    """Where matching could not balance the history: more positives than negatives at high risk."""
    bad = [row for row in analysis.measures.balance if row.unlike]
    if not bad:
        return []
    worst = number(max((row.found.auroc for row in bad), key=lambda value: abs(value - 0.5)))
    sentence = (
        f"The matched pairs are not alike for {_labels(bad)}: the history still tells them apart (AUROC {worst}), so "
        "they are not tested. Set a `caliper`, for example 0.01."
    )
    return [_warning(sentence, "held_equal")]


def _drawn_by_outcome(analysis: ContextAnalysis) -> list[Finding]:
    """Where cases with and without a label stand for different numbers of patients: pairs have fewer partners."""
    weight, found = analysis.cases.weight, {}
    for j, label in enumerate(analysis.labels if weight is not None else ()):
        positive = (analysis.cases.y_true[:, j] > 0) & analysis.cases.known[:, j]
        negative = (analysis.cases.y_true[:, j] == 0) & analysis.cases.known[:, j]
        if weight is not None and weight[positive].any() and weight[negative].any():
            found[label] = float(weight[negative].mean() / weight[positive].mean())
    apart = {label: ratio for label, ratio in found.items() if max(ratio, 1 / ratio) > _ALIKE}
    if not apart:
        return []
    first = max(apart, key=lambda label: max(apart[label], 1 / apart[label]))
    ratio = f"a case without '{first}' stands for {number(apart[first], digits=1)} times as many as one with it"
    return [
        _warning(
            f"Cases were drawn by outcome ({quoted(list(apart), most=_MOST_NAMED)}; {ratio}), and pairs are chosen "
            "among the cases that were drawn, which leave fewer partners than the population has: matched AUROCs may "
            "be too high. The re-weighted ones are about the population.",
            "held_equal",
        )
    ]


def _weights(analysis: ContextAnalysis) -> list[Finding]:
    bad = [row for row in analysis.measures.balance if row.warnings]
    if not bad:
        return []
    first = bad[0].warnings[0]
    why = WARNINGS[first.kind].format(value=first.value)
    return [_warning(f"Do not rely on the re-weighted numbers for {_labels(bad)}: {why}.", "held_equal")]


def _few_values(analysis: ContextAnalysis) -> list[Finding]:
    """Pre-test probabilities that do not vary, or have too few values for the strata."""
    known = [(label, strata) for label, strata in zip(analysis.labels, analysis.strata, strict=True) if strata.n_values]
    constant = [label for label, strata in known if strata.n_values == 1]
    bad = [(label, strata) for label, strata in known if strata.n_values > 1 and (strata.uneven or 0 in strata.size)]
    found = []
    if constant:
        names = quoted(constant, most=_MOST_NAMED)
        why = "is the same for all cases, so it can't divide, match or weight them"
        found.append(_warning(f"The pre-test probability of {names} {why}.", "high_risk"))
    if bad:
        (label, strata), others = bad[0], len(bad) - 1
        sentence = (
            f"The strata of '{label}' do not have the sizes asked for ({', '.join(f'{n:,}' for n in strata.size)} "
            f"cases), because the pre-test probability has only {strata.n_values:,} distinct values."
            + (f" The same is true of {counted(others, 'more label')}." if others else "")
        )
        empty = any(0 in strata.size for _, strata in bad)
        found.append(Finding(sentence=sentence, kind="caveat" if empty else "fact", question="high_risk"))
    return found


def _left_out(analysis: ContextAnalysis) -> list[Finding]:
    n = len(analysis.cases.patient) + analysis.n_left_out
    sentence = f"{analysis.n_left_out:,} of {n:,} cases are left out: {analysis.left_out}."
    return [Finding(sentence=sentence)] if analysis.n_left_out else []
