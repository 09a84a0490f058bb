"""Robustness: does it hold when the same note is written differently?

Notes are misspelt, laid out differently, told in other words, or get a denial more or less; each is compared with
itself as it was written (the invariance and directional tests of CheckList, Ribeiro et al. 2020, on one's own notes
instead of templates). What says the same must leave the prediction where it is; an added denial must not raise a risk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from palpate.audits.kit.altered import altered_thresholds
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import RowWriter
from palpate.audits.kit.scope import (
    Count,
    Level,
    Recall,
    Share,
    Threshold,
    Unit,
    audited_cohort,
    audited_labels,
    audited_rows,
    require_text,
    sample_patients,
)
from palpate.audits.kit.thresholds import ThresholdRule, check_rule
from palpate.audits.robustness.answers import QUESTIONS, RobustnessAnalysis, judge_questions
from palpate.audits.robustness.blocks import robustness_blocks
from palpate.audits.robustness.estimates import METRICS, robustness_rows
from palpate.audits.robustness.findings import robustness_findings
from palpate.audits.robustness.measures import measure_perturbation
from palpate.audits.robustness.plan import PerturbedNotes, chosen_perturbations, perturb_notes
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError
from palpate.perturb.robustness import BUILT_IN, DOSES, Expectation, Perturbation
from palpate.results import ALL_LABELS, AuditResult, Plan, Predictions, estimates_frame


@dataclass(frozen=True)
class Robustness:
    """The same notes, misspelt, laid out differently, in other words, with a denial more or less.

    >>> Robustness().name
    'robustness'
    """

    name: ClassVar[str] = "robustness"
    unweighted_because: ClassVar[str] = ""
    weighted_except: ClassVar[str] = "shares of edits outside a window"
    metrics: ClassVar[tuple[str, ...]] = METRICS

    perturb: tuple[str, ...] | None = None
    """Which of palpate's own perturbations; by default all that the notes of 30 patients allow."""
    perturbations: tuple[Perturbation, ...] = field(default=(), metadata={"files": "perturbation"})
    """Your own: YAML files, and functions as `{python: "module:function"}`."""
    doses: tuple[Share, ...] = DOSES
    """Which shares of the words are misspelt."""
    expects: dict[str, Expectation] = field(default_factory=dict)
    """What a perturbation may do to the prediction, where that differs from its default."""
    tolerance: dict[str, Share] = field(default_factory=dict)
    """The largest change of the mean risk that does not matter, by perturbation; by default the margin `shift`."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 24
    """How many labels are audited where `labels` does not say which: those with most positive audited notes."""
    split: str = "test"
    """Which split is audited; a cohort without splits is used whole."""
    cohort: str | None = None
    """Which cohort's notes are perturbed; by default the first."""
    max_notes: Count | None = None
    """Audit a random sample of patients with at most so many notes, for slow models."""
    threshold: Threshold = "auto"
    """As in the performance audit; decisions are compared at this threshold."""
    target_recall: Recall = 0.70
    unit: Unit = "patient"
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """What intervals and p-values are corrected over: the perturbations, groups and labels of a question (`question`),
    or all that the audit compares (`run`)."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, of the run; the others have their defaults."""
    examples: Annotated[int, Field(ge=0)] = 3
    """How many of the largest single shifts are listed for each model and perturbation."""
    include_text: bool = False
    """Show excerpts of the notes with the largest shifts."""

    @property
    def questions(self) -> tuple[str, ...]:
        """Those that the chosen perturbations ask."""
        names = tuple(BUILT_IN) if self.perturb is None else self.perturb
        if any(name not in BUILT_IN for name in names):
            return tuple(QUESTIONS)  # the plan says what is wrong
        asked = {BUILT_IN[name].question for name in names} | {each.question for each in self.perturbations}
        return tuple(name for name in QUESTIONS if name in asked)

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[PerturbedNotes]:
        """Every audited note in every way, as it was written, and the validation split for the threshold."""
        require_text(self.name, cohort)
        main = audited_cohort(self.name, cohort, self.cohort)
        check_rule(self._threshold_rule, cohort)
        chosen = chosen_perturbations(self.perturb, self.perturbations, self.expects, self.tolerance)
        if not self.doses or list(self.doses) != sorted(set(self.doses)):
            raise ConfigError("audit 'robustness', option 'doses': give shares of the words, the smallest first")
        seed = int(rng.integers(2**63))
        audited = audited_rows(self.name, cohort, main, self.split)
        rows = sample_patients(self.name, cohort, audited, self.max_notes, rng)
        labels = audited_labels(
            self.name, cohort, self.labels, rows=rows, most_common=self.most_common, reserved=(ALL_LABELS,)
        )
        return perturb_notes(
            cohort,
            rows,
            labels,
            perturbations=chosen,
            asked=self.perturb is not None,
            doses=self.doses,
            seed=seed,
            private=not self.include_text,
        )

    def analyse(self, plan: Plan[PerturbedNotes], predictions: Predictions, rng: np.random.Generator) -> AuditResult:  # noqa: ARG002
        """Measures of every perturbation, as rows, blocks and sentences; nothing is drawn at random."""
        memory = plan.memory
        threshold = altered_thresholds(plan, predictions, self._threshold_rule)
        measured = [measure_perturbation(plan, predictions, threshold.values, arm, self.unit) for arm in memory.arms]
        rows = robustness_rows(
            measured,
            plan,
            predictions,
            RowWriter(self.name, self.level),
            threshold.values,
            correction=self.correction,
            family=self.family,
        )
        analysis = RobustnessAnalysis.of(
            self,
            plan,
            predictions,
            rows,
            threshold.origin,
            measured=measured,
            doses=self.doses,
            family="all comparisons of the audit" if self.family == "run" else "all comparisons of the question",
        )
        judged = judge_questions(analysis)
        excerpts = analysis.excerpts(self, plan)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=robustness_blocks(analysis, excerpts),
            findings=robustness_findings(analysis, judged),
            answers=tuple(each.answer for _, each in judged),
            provenance=self._provenance(plan, threshold.origin),
        )

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _provenance(self, plan: Plan[PerturbedNotes], origin: Mapping[str, str]) -> dict[str, Any]:
        arms = plan.memory.arms
        return {
            "threshold": dict(origin),
            "unit": self.unit,
            "labels": list(plan.labels),
            "notes": {arm.name: {"tried": arm.n_notes, "perturbed": len(arm.rows)} for arm in arms},
            "perturbations": {arm.name: str(arm.perturbation) for arm in arms},
        }
