"""The characteristics audit's findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from palpate.audits.characteristics.arms import NONE, Arm
from palpate.audits.characteristics.measures import ArmMeasures, WindowCount
from palpate.audits.characteristics.shifts import Shift
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import interval, listed, number, p_value, percent
from palpate.results import ALL_LABELS, Estimate, Finding
from palpate.stats.curves import AgeStep, sharpest_steps

MATTERS = 0.01
"""A mean difference, or a share of flipped decisions, from which a reader is warned."""
_ROUGH = 0.10
"""A share of noise in the age curve from which a reader is warned."""
_MUCH_SKIPPED = 0.20


@dataclass(frozen=True, eq=False)
class CharacteristicsAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    arms: Sequence[ArmMeasures]
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    level: float
    correction: str
    threshold_origin: Mapping[str, str]
    """By scored model."""
    shifts: Sequence[Shift]

    @property
    def single(self) -> bool:
        """Whether the task has one label (mortality, readmission)."""
        return len(self.labels) == 1

    def compared(self, metric: str, model: str, arm: Arm) -> list[Estimate]:
        """The computed estimates of a model in an arm that compare a group with the reference group."""
        rows = [
            self.estimates.find(metric, model, label=label, group=group, reference=arm.reference_name)
            for group in arm.group_names
            for label in self.labels
        ]
        return [row for row in rows if row is not None and row.value is not None]

    def flips(self, row: Estimate) -> float | None:
        """The share of decisions that flip where a difference was measured."""
        return self.estimates.value("flip_rate", row.model, label=row.label, group=row.group, reference=row.reference)

    def window(self, model: str, found: ArmMeasures) -> WindowCount:
        """How many altered notes lie outside a model's window; for an ensemble, over all of its members."""
        each = [found.windows[member] for member in self.ensembles.get(model, [model])]
        return WindowCount(*(sum(counts) for counts in zip(*each, strict=True)))

    def steps(self, model: str, found: ArmMeasures) -> list[AgeStep]:
        """For each label, the neighbouring ages between which the prediction changes most; none without a curve."""
        return [] if found.run is None else sharpest_steps(found.models[model].mean_probability.value, found.run)

    def risk(self, label: str) -> str:
        """What is predicted, in a sentence."""
        return "the predicted risk" if self.single else f"the predicted risk of '{label}'"


def characteristics_findings(analysis: CharacteristicsAnalysis) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    findings: list[Finding] = []
    for found in analysis.arms:
        if not len(found.arm.rows):
            sentence = f"No note could be altered for {found.arm.name}{_main_reason(found.arm)}."
            findings.append(Finding(sentence=sentence, kind="caveat"))
            continue
        for model in analysis.models:
            findings.append(_effect(analysis, model, found))
            findings += _roughness(analysis, model, found)
    return (*findings, *_amplified(analysis), *_unseen(analysis), *_skipped(analysis))


def _effect(analysis: CharacteristicsAnalysis, model: str, found: ArmMeasures) -> Finding:
    """What a characteristic does to a model's predictions."""
    name = found.arm.name
    rows = sorted(analysis.compared("difference", model, found.arm), key=lambda row: -abs(row.value or 0.0))
    if all(row.significant is None for row in rows):
        why = (rows[0].reason or "").removeprefix("not tested: ") if rows else "nothing to compare"
        return Finding(sentence=f"{model}: the effect of {name} was not tested ({why}).")
    significant = [row for row in rows if row.significant]
    if not significant:
        over = "" if analysis.single else f" on any of {len(analysis.labels)} labels"
        nothing = f"changing {name} changes no prediction" if all(row.value == 0.0 for row in rows) else ""
        sentence = f"{model}: {nothing or f'no significant effect of {name}'}{over}."
        # For age that is no praise: risks do change with it.
        return Finding(sentence=sentence, kind="fact")
    if name == "age":
        return _age_effect(analysis, model, found)
    return _largest_difference(analysis, found.arm, rows, significant)


def _largest_difference(
    analysis: CharacteristicsAnalysis, arm: Arm, rows: Sequence[Estimate], significant: Sequence[Estimate]
) -> Finding:
    """The largest significant difference of an unordered characteristic, and how many there are."""
    row = significant[0]
    verb = "raises" if (row.value or 0) > 0 else "lowers"
    flips = analysis.flips(row)
    flipped = "" if flips is None else f"; {percent(flips)} of decisions flip"
    size = f"by {number(abs(row.value or 0))} ({interval(row, signed=True)}{p_value(row)}{flipped})"
    sentence = f"{row.model}: {_alteration(arm, row.group)} {verb} {analysis.risk(row.label)} {size}."
    if len(rows) > 1:
        sentence += (
            f" {len(significant)} of {len(rows)} differences {'is' if len(significant) == 1 else 'are'} significant."
        )
    worst = max([abs(row.value or 0.0), *(analysis.flips(each) or 0.0 for each in significant)])
    return Finding(sentence=sentence, kind="caveat" if worst >= MATTERS else "fact")


def _alteration(arm: Arm, group: str) -> str:
    """What was done to the note, in words: `naming the patient female instead of male`."""
    name, reference = group.partition("=")[2], arm.groups[arm.reference]
    if arm.name == "gender":
        return f"naming the patient {name} instead of {reference}"
    if reference == NONE:
        return f"mentioning '{name}' instead of no {arm.name}"
    if name == NONE:
        return f"leaving out {arm.name} '{reference}'"
    return f"{arm.name} {name} instead of {reference}"


def _age_effect(analysis: CharacteristicsAnalysis, model: str, found: ArmMeasures) -> Finding:
    """Age is a real risk factor: what matters is how far it moves the prediction, not how many ages differ."""
    mean = found.models[model].mean_probability.value
    j = int(np.argmax(mean.max(axis=0) - mean.min(axis=0)))
    low, high = int(mean[:, j].argmin()), int(mean[:, j].argmax())
    most = "" if analysis.single else ", the largest change of all labels"
    risk, groups = analysis.risk(analysis.labels[j]), found.arm.groups
    ends = f"{number(mean[low, j])} at {groups[low]} to {number(mean[high, j])} at {groups[high]}"
    return Finding(sentence=f"{model}: with nothing but the age changed, {risk} goes from {ends}{most}.")


def _roughness(analysis: CharacteristicsAnalysis, model: str, found: ArmMeasures) -> list[Finding]:
    """The label whose age curve is the noisiest, if it is surely noisy."""
    if model not in found.roughness:
        return []
    rows = [analysis.estimates.find("roughness", model, label=label, group="age") for label in analysis.labels]
    sure = [(row.low, j, row) for j, row in enumerate(rows) if row and row.low is not None and row.low > _ROUGH]
    if not sure:
        return []
    _, j, row = max(sure, key=lambda each: each[0])
    step, groups = analysis.steps(model, found)[j], found.arm.groups
    several = "" if analysis.single else f" ('{row.label}'; {len(sure)} of {len(rows)} labels have a rough curve)"
    sentence = (
        f"{model}: {percent(min(row.value or 0.0, 1.0))} of the variation of its age curve is noise between "
        f"neighbouring ages{several}; from {groups[step.group]} to {groups[step.next_group]} the risk changes by "
        f"{number(step.change, signed=True)}."
    )
    return [Finding(sentence=sentence, kind="caveat")]


def _amplified(analysis: CharacteristicsAnalysis) -> list[Finding]:
    """Where the model surely amplifies what the training data show."""
    label = analysis.labels[0] if analysis.single else ALL_LABELS
    findings = []
    for found in analysis.arms:
        for model in analysis.models:
            row = analysis.estimates.find("amplification", model, label=label, group=found.arm.name)
            if row is not None and row.low is not None and row.low > 1:
                size = f"{number(row.value)} times ({interval(row)})"
                sentence = f"{model} amplifies the differences by {found.arm.name} in the training data: {size}."
                findings.append(Finding(sentence=sentence, kind="caveat"))
    return findings


def _unseen(analysis: CharacteristicsAnalysis) -> list[Finding]:
    findings = []
    for model in analysis.models:
        shares = [(found.arm.name, analysis.window(model, found).share) for found in analysis.arms]
        missed = [f"{percent(share)} of the {name} edits" for name, share in shares if share]
        if missed:
            sentence = f"{model} never saw {listed(missed)}: they lie outside its window and change nothing."
            findings.append(Finding(sentence=sentence, kind="caveat"))
    return findings


def _main_reason(arm: Arm) -> str:
    if not arm.reasons:
        return ""
    return f", mostly because: {max(arm.reasons.items(), key=lambda item: int(item[1].max()))[0]}"


def _skipped(analysis: CharacteristicsAnalysis) -> list[Finding]:
    findings = []
    for arm in (found.arm for found in analysis.arms if len(found.arm.rows)):
        n_skipped = arm.n_notes - len(arm.rows)
        if n_skipped > _MUCH_SKIPPED * arm.n_notes:
            share = f"{n_skipped:,} of {arm.n_notes:,} notes"
            sentence = f"{share} could not be altered for {arm.name}{_main_reason(arm)}."
            findings.append(Finding(sentence=sentence, kind="caveat"))
    return findings
