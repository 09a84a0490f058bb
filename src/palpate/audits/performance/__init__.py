"""Performance: how good is the model on held-out cases, and how sure are we?

Per label, macro and micro: discrimination, calibration, net benefit, and decisions at a threshold, with intervals by
patient (the core set of Van Calster and colleagues 2025, and more); every pair of models as a paired difference;
several cohorts and the drop between them (vocabulary paper, Table 3); several seeds of one model as mean and standard
deviation (its Table 1). The default threshold is the one that reaches 70% recall on the validation split (its Section
2.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from palpate.audits.kit.metrics import replicates_frame
from palpate.audits.kit.missing import (
    MISSING_METRICS,
    Gaps,
    UnscoredModels,
    complete_cases,
    may_miss,
    missing_report,
    silent_models,
)
from palpate.audits.kit.resampling import INTERVALS, Correction, Family
from palpate.audits.kit.risks import CORE, BenefitRange, check_range
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.scope import Count, Level, Recall, Replicates, Share, Threshold, Unit, audited_labels
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, decide_thresholds
from palpate.audits.performance.answers import CHANCE, PerformanceAnalysis, performance_answers, questions_of
from palpate.audits.performance.blocks import performance_blocks
from palpate.audits.performance.estimates import SameThreshold, mean_of_one, performance_rows
from palpate.audits.performance.findings import performance_findings
from palpate.audits.performance.measures import Labels, calibration_curves, measure, odd_scores
from palpate.audits.performance.plan import HeldOut, counted_cases, kept_cases, plan_cases
from palpate.audits.performance.populations import METRICS, PROBABILITY, RANKING, Measuring, populations_of
from palpate.audits.performance.risks import core_curves, with_core
from palpate.cases.cohort import Cohort
from palpate.results import MACRO, MICRO, AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with
from palpate.stats.precision import n_distinct

_KEPT = (*RANKING, *PROBABILITY, *CORE)
"""Metrics whose replicates are kept with the run."""


@dataclass(frozen=True)
class Performance:
    """Discrimination, calibration and decisions on held-out cases.

    >>> Performance(target_recall=0.8).target_recall
    0.8
    """

    name: ClassVar[str] = "performance"
    unweighted_because: ClassVar[str] = ""
    handles_missing: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (*METRICS, *CORE, "auroc_drop", *MISSING_METRICS)
    questions: ClassVar[tuple[str, ...]] = ("separation", "calibration", "travel", "comparison")

    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; all by default."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    threshold: Threshold = "auto"
    """A number; `recall`: reaches `target_recall` on the validation split; `youden`; `auto`: the model's own, else
    `recall` where there is a validation split, else `youden`."""
    target_recall: Recall = 0.70
    specificity: Share = 0.95
    n_bins: Count = 10
    net_benefit: BenefitRange = (0.01, 0.5)
    """The thresholds over which net benefit is drawn and averaged."""
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons share one correction: those that answer one question (the pairs of models on a metric, the
    changes between cohorts), or all that the audit makes (`run`)."""
    labels_with_intervals: Annotated[int, Field(ge=1)] = 50
    """Of many labels, the most frequent ones get intervals; averages are over all."""
    required: dict[Literal["auroc"], Annotated[float, Field(ge=CHANCE, lt=1)]] = field(default_factory=dict)
    """What the scorecard asks of each model, such as `{auroc: 0.70}`; without it, to be better than chance."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[HeldOut]:  # noqa: ARG002  (nothing is random)
        """The held-out cases of every cohort, and the first cohort's validation split for the threshold."""
        labels = audited_labels(self.name, cohort, self.labels, reserved=(MACRO, MICRO))
        check_rule(self._threshold_rule, cohort)
        check_range(self.name, self.net_benefit)
        return plan_cases(self.name, cohort, labels, self.split)

    def analyse(self, plan: Plan[HeldOut], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """All numbers; where scores are missing, on the cases that every model scored, and what is missing."""
        if not may_miss(predictions):
            return self._measured(plan, predictions, rng)
        populations = counted_cases(plan)
        complete = complete_cases(predictions, [each.rows for each in populations if each.bounded])
        left = kept_cases(plan, complete.keep)
        limits = {}
        if left.memory.cohorts:
            found = self._thresholds(left, complete.predictions, complete.gaps)
            limits = dict(zip(complete.predictions.scored, found.values, strict=True))
        writer = RowWriter(self.name, self.level)
        report = missing_report(writer, plan, predictions, complete, populations, limits)
        result = AuditResult(self.name, estimates_frame([]))
        if left.memory.cohorts:
            result = self._measured(left, complete.predictions, rng, complete.gaps)
        asked = questions_of(
            self._required, margins_with(self.margins), tuple(plan.memory.cohorts), len(predictions.compared)
        )
        unscored = UnscoredModels(complete.left_out, silent_models(predictions), (*METRICS, *CORE), asked)
        groups = [(name, plan.variants.parent[part]) for name, part in plan.memory.cohorts.items()]
        return report.added_to(unscored.added_to(result, writer, plan, groups))

    def _measured(
        self, plan: Plan[HeldOut], predictions: Predictions, rng: np.random.Generator, gaps: Gaps | None = None
    ) -> AuditResult:
        """Levels, differences between models, differences between cohorts, spread over seeds."""
        threshold = self._thresholds(plan, predictions, gaps)
        populations = populations_of(plan, predictions, threshold.values, rng, gaps)
        measuring = Measuring(self.specificity, self.n_bins, self.unit, self.n_replicates)
        labels = Labels.choose(plan.labels, populations[0].y_true, self.labels_with_intervals)
        found = measure(populations, labels, tuple(predictions.scored), measuring)
        measured = with_core(found, populations, labels, predictions, measuring, self.net_benefit)
        overall = plan.labels[0] if len(plan.labels) == 1 else MACRO
        writer, alike = RowWriter(self.name, self.level), SameThreshold(plan.labels, threshold, predictions)
        rows = performance_rows(measured, predictions, writer, self.correction, self.family, overall, alike)
        rows = mean_of_one(rows, found.averaged)
        analysis = PerformanceAnalysis(
            estimates=EstimateIndex(rows, label=overall, group=populations[0].name),
            models=predictions.compared,
            ensembles=predictions.ensembles,
            populations=[population.name for population in populations],
            labels=plan.labels,
            judged=[plan.labels[int(j)] for j in labels.frequent],
            averaged=found.averaged,
            level=self.level,
            specificity=self.specificity,
            correction=self.correction,
            thresholds=threshold,
            n_patients={each.name: n_distinct(each.patient) for each in populations},
            curves=calibration_curves(populations, predictions, plan.labels, measuring),
            core=core_curves(populations, predictions, plan.labels, measuring, self.net_benefit, self.level),
            net_benefit=self.net_benefit,
            odd_scores=odd_scores(populations, tuple(predictions.scored), plan.labels),
            margins=margins_with(self.margins),
            required=self._required,
            family=self.family,
        )
        answers = performance_answers(analysis)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=performance_blocks(analysis),
            findings=performance_findings(analysis, answers),
            answers=answers,
            provenance={
                "threshold": threshold.origin,
                "unit": self.unit,
                "n_replicates": self.n_replicates,
                "n_replicates_of_averages": found.n_replicates_of_averages,
                "labels_in_macro": len(found.averaged),
                "intervals": INTERVALS,
            },
            replicates=replicates_frame(chain.from_iterable(measured), predictions.compared, overall, _KEPT),
        )

    def _thresholds(self, plan: Plan[HeldOut], predictions: Predictions, gaps: Gaps | None) -> Thresholds:
        return decide_thresholds(
            plan,
            predictions.scored,
            rule=self._threshold_rule,
            validation=plan.memory.validation,
            main=plan.memory.main,
            known=None if gaps is None else gaps.known,
        )

    @property
    def _required(self) -> float:
        return self.required.get("auroc", CHANCE)

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)
