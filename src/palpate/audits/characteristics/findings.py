"""What the characteristics audit has to say, in words: findings for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from palpate.audits.characteristics.ages import sharpest_step
from palpate.audits.characteristics.analysis import ArmAnalysis
from palpate.audits.characteristics.arms import ObservedGroups
from palpate.audits.characteristics.estimates import ALL_LABELS
from palpate.audits.characteristics.shifts import Shift
from palpate.results import Estimate, Finding

Tone = Literal["good", "neutral", "warning"]
MATTERS = 0.01
"""A mean difference, or a share of flipped decisions, from which a reader is warned."""
_ROUGH = 0.10
"""A share of noise in the age curve from which a reader is warned."""
_MUCH_SKIPPED = 0.20


@dataclass(frozen=True, eq=False)
class Story:
    """What is told: the estimates, and what they are about."""

    rows: Sequence[Estimate]
    arms: Sequence[ArmAnalysis]
    observed: Sequence[ObservedGroups]
    models: Sequence[str]
    families: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    level: float
    correction: str
    threshold_origin: Mapping[str, str]
    shifts: Sequence[Shift]
    index: Mapping[tuple[str, str, str, str, str | None], Estimate]

    @property
    def single(self) -> bool:
        """Whether the task has one label (mortality, readmission)."""
        return len(self.labels) == 1

    def find(self, metric: str, model: str, label: str, group: str, reference: str | None = None) -> Estimate | None:
        """One estimate."""
        return self.index.get((metric, model, label, group, reference))

    def differences(self, model: str, found: ArmAnalysis) -> list[Estimate]:
        """All paired differences of a model in an arm that were computed, the largest first."""
        arm = found.arm
        reference = arm.group_name(arm.reference)
        rows = [
            self.find("difference", model, label, arm.group_name(g), reference)
            for g in range(len(arm.groups))
            for label in self.labels
        ]
        return sorted((row for row in rows if row and row.value is not None), key=lambda row: -abs(row.value or 0.0))

    def flips(self, row: Estimate) -> float | None:
        """The share of decisions that flip where a difference was measured."""
        found = self.find("flip_rate", row.model, row.label, row.group, row.reference)
        return None if found is None else found.value

    def outside(self, model: str, found: ArmAnalysis) -> float | None:
        """The share of altered notes that lie outside the model's window; the mean over checkpoints."""
        rows = [self.find("outside_window", name, "", found.arm.name) for name in self.families.get(model, [model])]
        shares = [row.value for row in rows if row is not None and row.value is not None]
        return float(np.mean(shares)) if shares else None


def index_of(rows: Sequence[Estimate]) -> dict[tuple[str, str, str, str, str | None], Estimate]:
    """Estimates by what they are."""
    return {(row.metric, row.model, row.label, row.group, row.reference): row for row in rows}


def findings_of(story: Story) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    told: list[Finding] = []
    for found in story.arms:
        if not len(found.arm.rows):
            told.append(_nothing_altered(found))
            continue
        for model in story.models:
            told.append(
                _age_told(story, model, found) if found.arm.name == "age" else _effect_told(story, model, found)
            )
            told += _rough_told(story, model, found)
    return (*told, *_amplified(story), *_unseen(story), *_skipped(story))


def number(value: float | None, *, signed: bool = False) -> str:
    """Three digits, or as many as a small number needs, with a real minus sign where there is a sign."""
    if value is None:
        return "unknown"
    digits = 3 if value == 0 or abs(value) >= 0.0095 else 4
    return f"{value:+.{digits}f}".replace("-", "−") if signed else f"{value:.{digits}f}".replace("-", "−")


def percent(value: float | None) -> str:
    """A share, with a digit where it is small."""
    return "unknown" if value is None else f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def instead(found: ArmAnalysis, group: str) -> str:
    """What was done to the note, in words: `female instead of male`."""
    arm = found.arm
    name, reference = group.partition("=")[2], arm.groups[arm.reference]
    if arm.name == "gender":
        return f"naming the patient {name} instead of {reference}"
    if arm.name == "age":
        return f"age {name} instead of {reference}"
    if reference == "none":
        return f"mentioning '{name}' instead of no {arm.name}"
    if name == "none":
        return f"leaving out {arm.name} '{reference}'"
    return f"{arm.name} {name} instead of {reference}"


def _span(row: Estimate) -> str:
    if row.low is None:
        return row.reason or "no interval"
    return f"{row.level or 0.95:.0%} interval {number(row.low, signed=True)} to {number(row.high, signed=True)}"


def _risk(story: Story, label: str) -> str:
    return "the predicted risk" if story.single else f"the predicted risk of '{label}'"


def _effect_told(story: Story, model: str, found: ArmAnalysis) -> Finding:
    """A characteristic without an order: its largest significant difference, and how many there are."""
    rows = story.differences(model, found)
    name = found.arm.name
    if all(row.significant is None for row in rows):
        return _untested(model, name, rows)
    told = [row for row in rows if row.significant]
    if not told:
        return _nothing_told(story, model, name, rows)
    row = told[0]
    verb = "raises" if (row.value or 0) > 0 else "lowers"
    flips = story.flips(row)
    flipped = "" if flips is None else f"; {percent(flips)} of decisions flip"
    size = f"by {number(abs(row.value or 0))} ({_span(row)}; significant{flipped})"
    sentence = f"{model}: {instead(found, row.group)} {verb} {_risk(story, row.label)} {size}."
    if len(rows) > 1:
        sentence += f" {len(told)} of {len(rows)} differences are significant."
    worst = max([abs(row.value or 0.0), *(story.flips(each) or 0.0 for each in told)])
    return Finding(sentence=sentence, tone="warning" if worst >= MATTERS else "neutral")


def _untested(model: str, name: str, rows: Sequence[Estimate]) -> Finding:
    why = (rows[0].reason or "").removeprefix("not tested: ") if rows else "nothing to compare"
    return Finding(sentence=f"{model}: the effect of {name} was not tested ({why}).")


def _nothing_told(story: Story, model: str, name: str, rows: Sequence[Estimate]) -> Finding:
    """No difference is significant. For age that is no praise: risks do change with it."""
    over = "" if story.single else f" on any of {len(story.labels)} labels"
    tone: Tone = "neutral" if name == "age" else "good"
    if all(row.value == 0.0 for row in rows):
        return Finding(sentence=f"{model}: changing {name} changes no prediction{over}.", tone=tone)
    return Finding(sentence=f"{model}: no significant effect of {name}{over}.", tone=tone)


def _age_told(story: Story, model: str, found: ArmAnalysis) -> Finding:
    """Age is a real risk factor: told is how far it moves the prediction, not how many ages differ."""
    rows = story.differences(model, found)
    if all(row.significant is None for row in rows):
        return _untested(model, "age", rows)
    if not any(row.significant for row in rows):
        return _nothing_told(story, model, "age", rows)
    mean = found.measures[model].mean_probability.value
    j = int(np.argmax(mean.max(axis=0) - mean.min(axis=0)))
    low, high = int(mean[:, j].argmin()), int(mean[:, j].argmax())
    most = "" if story.single else ", the most of all labels"
    sentence = (
        f"{model}: with nothing but the age changed, {_risk(story, story.labels[j])} goes from {number(mean[low, j])} "
        f"at {found.arm.groups[low]} to {number(mean[high, j])} at {found.arm.groups[high]}{most}."
    )
    return Finding(sentence=sentence)


def _rough_told(story: Story, model: str, found: ArmAnalysis) -> list[Finding]:
    """The label whose age curve is the noisiest, if it is surely noisy."""
    if found.run is None or model not in found.roughness:
        return []
    rows = [story.find("roughness", model, label, "age") for label in story.labels]
    sure = [(row.low, j, row) for j, row in enumerate(rows) if row and row.low is not None and row.low > _ROUGH]
    if not sure:
        return []
    _, j, row = max(sure, key=lambda each: each[0])
    step = sharpest_step(found.measures[model].mean_probability.value, found.run)[j]
    groups = found.arm.groups
    several = "" if story.single else f" ('{story.labels[j]}'; {len(sure)} of {len(rows)} labels are rough)"
    sentence = (
        f"{model}: {percent(min(row.value or 0.0, 1.0))} of the variation of its age curve is noise between "
        f"neighbouring ages{several}; "
        f"from {groups[step.group]} to {groups[step.next_group]} the risk changes by "
        f"{number(step.change, signed=True)}."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _amplified(story: Story) -> list[Finding]:
    """Where the model surely amplifies what the training data show."""
    told = []
    label = story.labels[0] if story.single else ALL_LABELS
    for found in story.arms:
        for model in story.models:
            row = story.find("amplification", model, label, found.arm.name)
            if row is None or row.value is None or row.low is None:
                continue
            sure = row.low > 1
            size = (
                f"{number(row.value)} times ({row.level or 0.95:.0%} interval {number(row.low)} to {number(row.high)})"
            )
            if sure:
                sentence = f"{model} amplifies the differences by {found.arm.name} in the training data: {size}."
                told.append(Finding(sentence=sentence, tone="warning"))
    return told


def _unseen(story: Story) -> list[Finding]:
    told = []
    for model in story.models:
        shares = [(found.arm.name, story.outside(model, found)) for found in story.arms]
        missed = [f"{percent(share)} of the edits of {name}" for name, share in shares if share]
        if missed:
            sentence = f"{model} never saw {', '.join(missed)}: they lie outside its window and change nothing."
            told.append(Finding(sentence=sentence, tone="warning"))
    return told


def _nothing_altered(found: ArmAnalysis) -> Finding:
    why = _main_reason(found)
    return Finding(sentence=f"No note could be altered for {found.arm.name}{why}.", tone="warning")


def _main_reason(found: ArmAnalysis) -> str:
    if not found.arm.reasons:
        return ""
    return f", mostly because: {max(found.arm.reasons.items(), key=lambda item: int(item[1].max()))[0]}"


def _skipped(story: Story) -> list[Finding]:
    told = []
    for found in story.arms:
        n, n_in = found.arm.n_notes, len(found.arm.rows)
        if n_in and n - n_in > _MUCH_SKIPPED * n:
            sentence = f"{n - n_in:,} of {n:,} notes could not be altered for {found.arm.name}{_main_reason(found)}."
            told.append(Finding(sentence=sentence, tone="warning"))
    return told
