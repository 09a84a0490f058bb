"""What the performance audit has to say, in words: findings for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palpate.results import Estimate, Finding
from palpate.stats import CalibrationCurve

METRIC_NAMES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "sensitivity_at_specificity": "Sensitivity at fixed specificity",
    "brier": "Brier score",
    "brier_skill_score": "Brier skill",
    "adaptive_calibration_error": "Calibration error",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "ppv": "PPV",
    "npv": "NPV",
    "precision_0": "Precision, class 0",
    "recall_0": "Recall, class 0",
    "f1_0": "F1, class 0",
    "precision_1": "Precision, class 1",
    "recall_1": "Recall, class 1",
    "f1_1": "F1, class 1",
}
HEADLINE = tuple(METRIC_NAMES)[:6]
DECISIONS = tuple(METRIC_NAMES)[6:]
_FEW_POSITIVE = 100
_MOST_TOLD = 6


@dataclass(frozen=True)
class Story:
    """What is told: the estimates, and what they are about."""

    rows: Sequence[Estimate]
    models: Sequence[str]
    families: Mapping[str, Sequence[str]]
    populations: Sequence[str]
    labels: Sequence[str]
    overall: str
    n_averaged: int
    """How many labels the macro average is over."""
    level: float
    specificity: float
    correction: str
    threshold: Mapping[str, float | None]
    threshold_origin: Mapping[str, str]
    curves: Sequence[tuple[str, str, str, CalibrationCurve]]

    def find(
        self,
        metric: str,
        *,
        model: str,
        label: str | None = None,
        group: str | None = None,
        reference: str | None = None,
    ) -> Estimate | None:
        """One estimate, by default of the overall label in the first population."""
        key = (metric, model, label or self.overall, group or self.populations[0], reference)
        return self._index.get(key)

    @property
    def _index(self) -> dict[tuple[str, str, str, str, str | None], Estimate]:
        cached: dict[tuple[str, str, str, str, str | None], Estimate] | None = self.__dict__.get("_by_key")
        if cached is None:
            cached = {(row.metric, row.model, row.label, row.group, row.reference): row for row in self.rows}
            object.__setattr__(self, "_by_key", cached)
        return cached

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, reference) of every comparison."""
        return [(b, a) for k, b in enumerate(self.models) for a in self.models[:k]]


def findings_of(story: Story) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    return (*_levels_told(story), *_pairs_told(story), *_drops_told(story), *_warnings(story))


def number(value: float | None, *, signed: bool = False) -> str:
    """Three digits, with a real minus sign where there is a sign."""
    return "unknown" if value is None else f"{value:+.3f}".replace("-", "−") if signed else f"{value:.3f}"


def _span(row: Estimate, *, signed: bool = False) -> str:
    if row.low is None:
        return row.reason or "no interval"
    low, high = number(row.low, signed=signed), number(row.high, signed=signed)
    return f"{row.level or 0.95:.0%} interval {low} to {high}"


def _p(row: Estimate) -> str:
    if row.p_value is None:
        return ""
    return ", corrected p < 0.001" if row.p_value < 0.001 else f", corrected p = {row.p_value:.3f}"


def _of(story: Story) -> str:
    return "AUROC" if len(story.labels) == 1 else f"mean AUROC over {story.n_averaged} labels"


def _levels_told(story: Story) -> list[Finding]:
    """A single model's AUROC (of several, the sentences about pairs have it), and where there is none, why."""
    told = []
    for population in story.populations:
        row = story.find("auroc", model=story.models[0], group=population)
        if row is not None and row.value is None:
            sentence = f"{_of(story)} in {population} can't be computed: {row.reason}."
            told.append(Finding(sentence=sentence, tone="warning"))
        elif row is not None and len(story.models) == 1:
            sentence = f"{row.model}: {_of(story)} {number(row.value)} in {population} ({_span(row)}; n = {row.n:,})."
            told.append(Finding(sentence=sentence))
    return told


def _pairs_told(story: Story) -> list[Finding]:
    """The first cohort's pairs, and of the others those that differ significantly."""
    main = story.populations[0]
    rows = [
        row
        for population in story.populations
        for model, reference in story.pairs
        if (row := story.find("auroc", model=model, group=population, reference=reference)) and row.value is not None
        if population == main or row.significant
    ]
    rows.sort(key=lambda row: (row.group != main, not row.significant))
    told = [Finding(sentence=_pair_told(story, row)) for row in rows[:_MOST_TOLD]]
    if len(rows) > _MOST_TOLD:
        told.append(Finding(sentence=f"{len(rows) - _MOST_TOLD} more pairs of models are in the table of differences."))
    return told


def _pair_told(story: Story, row: Estimate) -> str:
    model, reference = row.model, row.reference or ""
    found = (story.find("auroc", model=name, group=row.group) for name in (model, reference))
    levels = " against ".join(number(level.value if level else None) for level in found)
    size = f"{levels}, difference {number(row.value, signed=True)}, {_span(row, signed=True)}{_p(row)}"
    where = f" in {row.group}" if len(story.populations) > 1 else ""
    if row.significant is None:
        return f"{model} and {reference} were not tested{where}: {size} ({row.reason})."
    if row.significant:
        verb = "higher" if (row.value or 0) > 0 else "lower"
        return f"{model} has a {verb} {_of(story)} than {reference}{where}: {size}."
    return f"{model} and {reference} do not differ significantly in {_of(story)}{where}: {size}."


def _drops_told(story: Story) -> list[Finding]:
    told = []
    main = story.populations[0]
    for population in story.populations[1:]:
        for model in story.models:
            row = story.find("auroc", model=model, group=population, reference=main)
            if row is None or row.value is None:
                continue
            size = f"{_span(row, signed=True)}{_p(row)}"
            if row.significant:
                verb, tone = ("loses", "warning") if row.value < 0 else ("gains", "good")
                sentence = f"{model} {verb} {abs(row.value):.3f} {_of(story)} from {main} to {population} ({size})."
                told.append(Finding.model_validate({"sentence": sentence, "tone": tone}))
            else:
                change = number(row.value, signed=True)
                sentence = (
                    f"{model}: no significant change of {_of(story)} from {main} to {population} ({change}; {size})."
                )
                told.append(Finding(sentence=sentence))
    return told


def _few(row: Estimate) -> bool:
    return (row.n_positive or 0) < _FEW_POSITIVE


def _warnings(story: Story) -> list[Finding]:
    told = []
    for population in story.populations:
        row = story.find("auroc", model=story.models[0], group=population)
        if row is not None and row.value is not None and len(story.labels) == 1 and _few(row):
            sentence = f"{population} has only {row.n_positive} positive cases: expect wide intervals."
            told.append(Finding(sentence=sentence, tone="warning"))
    for model in story.models:
        found = [story.find("brier_skill_score", model=model, group=population) for population in story.populations]
        bad = [skill for skill in found if skill is not None and skill.high is not None and skill.high < 0]
        if bad:
            where = " and ".join(f"{skill.group} (Brier skill {number(skill.value, signed=True)})" for skill in bad)
            sentence = (
                f"The probabilities of {model} are worse than always predicting the prevalence in {where}: "
                "recalibrate before use."
            )
            told.append(Finding(sentence=sentence, tone="warning"))
    return told
