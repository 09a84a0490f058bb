"""Subgroups: for whom is the model worse, and by how much?

Groups are attributes of the cohort (categories, numbers cut into ranges) and their intersections; a missing value is a
group of its own. Per model, label and group: discrimination, decisions at a threshold and calibration, each against a
reference group or all others, with intervals by patient that hold for all groups at once; the largest gap among the
groups, with an interval that is not inflated by chance; and the fairness summaries that people know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from palpate.audits.kit.attributes import Cutting, check_attributes
from palpate.audits.kit.metrics import incomparable_scores
from palpate.audits.kit.missing import (
    MISSING_METRICS,
    CountedCases,
    Gaps,
    UnscoredModels,
    complete_cases,
    may_miss,
    missing_report,
    silent_models,
)
from palpate.audits.kit.resampling import INTERVALS, Correction, Family
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.scope import Count, Level, Recall, Replicates, Threshold, Unit
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, decide_thresholds
from palpate.audits.subgroups.answers import SubgroupAnalysis, questions_of, subgroup_answers
from palpate.audits.subgroups.blocks import subgroup_blocks
from palpate.audits.subgroups.estimates import MODEL_GAP, PATIENTS, subgroup_rows
from palpate.audits.subgroups.findings import subgroup_findings
from palpate.audits.subgroups.gaps import GAP_METRICS
from palpate.audits.subgroups.measures import (
    METRICS,
    WHOLE,
    Cases,
    Columns,
    Resampled,
    group_curves,
    measure_groups,
    unscored_labels,
)
from palpate.audits.subgroups.plan import AUDIT, By, Grouped, Scope, attribute_names, kept_cases, plan_groups
from palpate.audits.subgroups.risks import RISK_METRICS, with_risks
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with


@dataclass(frozen=True)
class Subgroups:
    """Performance, decisions and calibration in groups of patients.

    >>> Subgroups(by=("gender", ("gender", "race"))).by
    ('gender', ('gender', 'race'))
    """

    name: ClassVar[str] = "subgroups"
    unweighted_because: ClassVar[str] = ""
    handles_missing: ClassVar[bool] = True
    metrics: ClassVar[tuple[str, ...]] = (
        PATIENTS,
        *METRICS,
        *RISK_METRICS,
        *GAP_METRICS,
        MODEL_GAP,
        *MISSING_METRICS,
    )
    questions: ClassVar[tuple[str, ...]] = ("worse", "missed", "risks")

    by: tuple[By, ...] = ()
    """Attributes of the cohort, such as `[gender, age, [gender, race]]`; a list within the list is an intersection.
    `cohort` compares the cohorts of the run (sites), and `note:gender` reads what the notes say. By default all
    attributes, one by one."""
    cuts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Where numbers are cut, such as `{age: [40, 65, 80]}`; other numbers of more than ten values are cut at
    quantiles."""
    n_quantiles: Annotated[int, Field(ge=2, le=20)] = 4
    reference: tuple[str, ...] = ()
    """Groups that the others are compared with, such as `[gender=male]`; without one, a group is compared with all
    others together."""
    most_groups: Annotated[int, Field(ge=2, le=500)] = 50
    """An attribute or an intersection with more groups than that is refused."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 5
    cohort: str | None = None
    """Which cohort; the first by default, and all where `by` names `cohort`."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    threshold: Threshold = "auto"
    """As in `performance`."""
    target_recall: Recall = 0.70
    n_bins: Count = 10
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons share one correction: the groups, models and labels of a metric, or all that the audit makes
    (`run`)."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def check_cohort(self, cohort: Cohort) -> None:
        """Refuse attributes that the cohort does not have."""
        check_attributes(AUDIT, cohort, attribute_names(cohort, self.by))

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[Grouped]:  # noqa: ARG002  (nothing is random)
        """The held-out cases with their groups, and the validation split for the threshold."""
        check_rule(self._threshold_rule, cohort)
        scope = Scope(self.cohort, self.split, self.labels, self.most_common)
        cutting = Cutting(self.cuts, self.n_quantiles, self.most_groups)
        return plan_groups(cohort, scope, self.by, cutting, self.reference)

    def analyse(self, plan: Plan[Grouped], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """All numbers; where scores are missing, on the cases that every model scored, and in which groups they are."""
        if not may_miss(predictions):
            return self._measured(plan, predictions, rng)
        index, partitions = np.arange(len(plan.variants)), plan.memory.partitions
        main = index[plan.memory.main]
        complete = complete_cases(predictions, [main])
        left = kept_cases(plan, complete.keep)
        populations = [CountedCases(WHOLE, main)]
        for partition in partitions:
            groups = ((name, main[partition.rows(k)]) for k, name in enumerate(partition.groups))
            populations += [CountedCases(name, rows, bounded=False) for name, rows in groups]
        writer = RowWriter(self.name, self.level)
        report = missing_report(writer, plan, predictions, complete, populations, {})
        result = AuditResult(self.name, estimates_frame([]))
        if complete.keep[main].any():
            result = self._measured(left, complete.predictions, rng, complete.gaps)
        asked = questions_of(margins_with(self.margins))
        unscored = UnscoredModels(complete.left_out, silent_models(predictions), (*METRICS, *RISK_METRICS), asked)
        who = [(each.name, plan.variants.parent[each.rows]) for each in populations]
        return report.added_to(unscored.added_to(result, writer, plan, who))

    def _measured(
        self, plan: Plan[Grouped], predictions: Predictions, rng: np.random.Generator, gaps: Gaps | None = None
    ) -> AuditResult:
        """Levels, differences to the rest and between models, and the largest gaps, label by label."""
        grouped, threshold = plan.memory, self._thresholds(plan, predictions, gaps)
        resampled = Resampled(self.unit, self.n_bins, self.n_replicates, int(rng.integers(2**63)))
        cases = Cases.of(plan, predictions, grouped.main, threshold.values, resampled, gaps)
        columns = Columns.of(grouped.partitions, len(cases.patient))
        unscored = unscored_labels(cases, predictions, plan.labels)
        writer = RowWriter(self.name, self.level)
        models = predictions.compared
        measured = with_risks(measure_groups(cases, columns, plan.labels, predictions), cases, predictions)
        found = subgroup_rows(writer, measured, grouped.partitions, models, self.correction, self.family)
        analysis = SubgroupAnalysis(
            estimates=EstimateIndex(found.rows, label=plan.labels[0], group=WHOLE),
            partitions=grouped.partitions,
            contrasts=columns.contrasts,
            models=models,
            ensembles=predictions.ensembles,
            labels=plan.labels,
            left_out=[label for label in plan.cohort.labels if label not in plan.labels] if not self.labels else [],
            n_patients=found.n_patients,
            few=found.few,
            level=self.level,
            correction=self.correction,
            family=self.family,
            thresholds=threshold,
            margins=margins_with(self.margins),
            odd=incomparable_scores(cases.y_score, plan.labels, predictions, decisions_count=False, known=cases.known)
            | unscored,
            curves=group_curves(
                cases,
                grouped.partitions,
                predictions,
                [group for label, group in found.few if label == plan.labels[0]],
            ),
            unscored=unscored,
        )
        answers = subgroup_answers(analysis)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(found.rows),
            blocks=subgroup_blocks(analysis),
            findings=subgroup_findings(analysis, answers),
            answers=answers,
            provenance={
                "threshold": threshold.origin,
                "unit": self.unit,
                "n_replicates": self.n_replicates,
                "groups": {each.name: len(each.groups) for each in grouped.partitions},
                "intervals": INTERVALS,
            },
        )

    def _thresholds(self, plan: Plan[Grouped], predictions: Predictions, gaps: Gaps | None) -> Thresholds:
        return decide_thresholds(
            plan,
            predictions.scored,
            rule=self._threshold_rule,
            validation=plan.memory.validation,
            main=plan.memory.main,
            known=None if gaps is None else gaps.known,
        )

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)
