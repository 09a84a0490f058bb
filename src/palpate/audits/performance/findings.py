"""The performance audit's findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.rows import EstimateIndex, pairs_of
from palpate.audits.kit.thresholds import Thresholds
from palpate.audits.kit.wording import counted, interval, number, p_value
from palpate.results import Estimate, Finding
from palpate.results.verdicts import Answer, Effect
from palpate.stats import CalibrationCurve

CHANCE = 0.5
_FEW_POSITIVE = 100
_MOST_PAIRS = 6


@dataclass(frozen=True)
class PerformanceAnalysis:
    """What findings and blocks are made from."""

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
    curves: Sequence[tuple[str, str, str, CalibrationCurve]]
    """Calibration: (population, model, label, curve)."""

    @property
    def auroc(self) -> str:
        """What the headline number is called in a sentence."""
        return "AUROC" if len(self.labels) == 1 else f"mean AUROC over {self.n_averaged} labels"


def performance_answers(
    analysis: PerformanceAnalysis, margins: Mapping[str, float], required: float
) -> tuple[Answer, ...]:
    """The audit's cells of the scorecard: is it good enough, are its risks right, does it travel, is it the better?"""
    asks = "Does it separate patients better than chance?"
    asks = asks if required == CHANCE else f"Does it separate patients as required (AUROC {required:g})?"
    level = Question("separation", asks, "auroc", 0.0, harm=-1, origin=required)
    risks = Question("calibration", "Are its risks right?", "calibration", margins["calibration"])
    travel = Question("travel", "Does it travel to {}?", "auroc", margins["auroc"], harm=-1)
    better = Question("comparison", "Is it as good as the other models?", "auroc", margins["auroc"], harm=-1)
    answers = []
    for model in analysis.models:
        answers.append(level.answer(model, [_level_effect(analysis, level, "auroc", model)]))
        answers.append(risks.answer(model, [_level_effect(analysis, risks, "adaptive_calibration_error", model)]))
        for name in analysis.populations[1:]:
            asked = travel._replace(asks=travel.asks.format(name))
            answers.append(asked.answer(model, [_drop_effect(analysis, asked, model, name)]))
        if len(analysis.models) > 1:
            others = [name for name in analysis.models if name != model]
            answers.append(better.answer(model, [_pair_effect(analysis, better, model, name) for name in others]))
    return tuple(answer for answer in answers if answer is not None)


def _level_effect(analysis: PerformanceAnalysis, question: Question, metric: str, model: str) -> Effect | None:
    row = analysis.estimates.find(metric, model)
    if row is None:
        return None
    fewest = min(row.n_positive or 0, row.n - (row.n_positive or 0))
    few = f"only {counted(fewest, 'case')} of one class" if fewest < FEWEST_FOR_TEST else None
    n_patients = analysis.n_patients[analysis.populations[0]]
    return question.effect(row, n_patients, n_family=len(analysis.models), reason=few)


def _drop_effect(analysis: PerformanceAnalysis, question: Question, model: str, population: str) -> Effect | None:
    row = analysis.estimates.find("auroc", model, group=population, reference=analysis.populations[0])
    n_family = len(analysis.models) * (len(analysis.populations) - 1)
    why = row.reason if row is not None and row.p_value is None else None
    return question.effect(row, analysis.n_patients[population], n_family=n_family, reason=why)


def _pair_effect(analysis: PerformanceAnalysis, question: Question, model: str, other: str) -> Effect | None:
    """This model less the other, whichever way round the estimate is."""
    row = analysis.estimates.find("auroc", model, reference=other)
    if row is None and (turned := analysis.estimates.find("auroc", other, reference=model)) is not None:
        row = turned.negated()
    if row is None:
        return None
    why = row.reason if row.p_value is None else None
    n_patients = analysis.n_patients[analysis.populations[0]]
    n_family = len(pairs_of(analysis.models))
    effect = question.effect(row, n_patients, n_family=n_family, reason=why)
    return None if effect is None else effect._replace(label=f"against {other}")


def performance_findings(analysis: PerformanceAnalysis) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    return (*_levels(analysis), *_pairs(analysis), *_drops(analysis), *_warnings(analysis))


def _levels(analysis: PerformanceAnalysis) -> list[Finding]:
    """A single model's AUROC (for several, the sentences about pairs say it), and where there is none, why."""
    found = []
    for population in analysis.populations:
        row = analysis.estimates.find("auroc", analysis.models[0], group=population)
        if row is not None and row.value is None:
            sentence = f"{analysis.auroc} in {population} cannot be computed: {row.reason}."
            found.append(Finding(sentence=sentence, kind="caveat"))
        elif row is not None and len(analysis.models) == 1:
            size = f"{number(row.value)} in {population} ({interval(row)}; n = {row.n:,})"
            found.append(Finding(sentence=f"{row.model}: {analysis.auroc} {size}."))
    return found


def _pairs(analysis: PerformanceAnalysis) -> list[Finding]:
    """The first cohort's pairs, and those of other cohorts that differ significantly."""
    main = analysis.populations[0]
    rows = [
        row
        for population in analysis.populations
        for model, reference in pairs_of(analysis.models)
        if (row := analysis.estimates.find("auroc", model, group=population, reference=reference))
        if row.value is not None and (population == main or row.significant)
    ]
    rows.sort(key=lambda row: (row.group != main, not row.significant))
    found = [Finding(sentence=_pair(analysis, row)) for row in rows[:_MOST_PAIRS]]
    if len(rows) > _MOST_PAIRS:
        more = len(rows) - _MOST_PAIRS
        found.append(Finding(sentence=f"{more} more pairs of models are in the table of differences."))
    return found


def _pair(analysis: PerformanceAnalysis, row: Estimate) -> str:
    model, reference = row.model, row.reference or ""
    values = (analysis.estimates.value("auroc", name, group=row.group) for name in (model, reference))
    levels = " against ".join(map(number, values))
    size = f"{levels}, difference {number(row.value, signed=True)}, {interval(row, signed=True)}{p_value(row)}"
    where = f" in {row.group}" if len(analysis.populations) > 1 else ""
    if row.significant is None:
        return f"{model} and {reference} were not tested{where}: {size} ({row.reason})."
    if row.significant:
        direction = "higher" if (row.value or 0) > 0 else "lower"
        return f"{model} has a {direction} {analysis.auroc} than {reference}{where}: {size}."
    return f"{model} and {reference} do not differ significantly in {analysis.auroc}{where}: {size}."


def _drops(analysis: PerformanceAnalysis) -> list[Finding]:
    """What changes from the first cohort to the others."""
    found = []
    main = analysis.populations[0]
    for population in analysis.populations[1:]:
        for model in analysis.models:
            row = analysis.estimates.find("auroc", model, group=population, reference=main)
            if row is None or row.value is None:
                continue
            size, where = f"{interval(row, signed=True)}{p_value(row)}", f"from {main} to {population}"
            if row.significant:
                loses = row.value < 0
                change = f"{'loses' if loses else 'gains'} {number(abs(row.value))} {analysis.auroc}"
                sentence = f"{model} {change} {where} ({size})."
                found.append(Finding(sentence=sentence, kind="caution" if loses else "fact"))
            else:
                change = f"no significant change of {analysis.auroc} {where}"
                found.append(Finding(sentence=f"{model}: {change} ({number(row.value, signed=True)}; {size})."))
    return found


def _warnings(analysis: PerformanceAnalysis) -> list[Finding]:
    found = []
    for population in analysis.populations:
        row = analysis.estimates.find("auroc", analysis.models[0], group=population)
        if row is None or row.value is None or len(analysis.labels) > 1:
            continue
        if (row.n_positive or 0) < _FEW_POSITIVE:
            sentence = f"{population} has only {row.n_positive} positive cases: expect wide intervals."
            found.append(Finding(sentence=sentence, kind="caveat"))
    for model in analysis.models:
        skills = [analysis.estimates.find("brier_skill_score", model, group=name) for name in analysis.populations]
        bad = [skill for skill in skills if skill is not None and skill.high is not None and skill.high < 0]
        if bad:
            where = " and ".join(f"{skill.group} (Brier skill {number(skill.value, signed=True)})" for skill in bad)
            sentence = (
                f"The probabilities of {model} are worse than always predicting the prevalence in {where}: "
                "recalibrate before use."
            )
            found.append(Finding(sentence=sentence, kind="caveat"))
    return found
