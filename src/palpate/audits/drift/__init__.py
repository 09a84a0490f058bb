"""Drift: has the model changed over time?

Discrimination, decisions and calibration by month, quarter or year, with intervals by patient; the latest periods
against the first, judged by margin; a test for a change at any date that the search for it does not fool; and trends.
What changes with the patients alone (prevalence, mean risk, share flagged) is there beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from palpate.audits.drift.answers import ASKS, DriftAnalysis, drift_answers
from palpate.audits.drift.blocks import drift_blocks
from palpate.audits.drift.estimates import (
    CHANGES,
    PATIENTS,
    TRENDS,
    change_estimates,
    difference_estimates,
    family,
    level_estimates,
    trend_estimates,
)
from palpate.audits.drift.findings import drift_findings
from palpate.audits.drift.measures import (
    METRICS,
    PeriodSampling,
    Series,
    TimedCases,
    all_series,
    measure_periods,
    placed_series,
)
from palpate.audits.drift.plan import WHOLE, DriftPlan, Every, plan_periods
from palpate.audits.drift.risks import RISKS, risk_rows
from palpate.audits.kit.metrics import incomparable_scores
from palpate.audits.kit.missing.apart import LabelPart, joined_thresholds
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import EstimateIndex, RowWriter, corrected, one_family
from palpate.audits.kit.scope import Count, Level, Recall, Replicates, Threshold, Unit
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, decide_thresholds
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Estimate, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with


class _PeriodsOfPart(NamedTuple):
    """What was measured of some labels."""

    thresholds: Thresholds
    levels: list[Estimate]
    tested: list[Estimate]
    """Not corrected yet."""
    few: dict[tuple[str, str], str]
    n_patients: dict[str, int]
    series: list[Series]
    odd: dict[tuple[str, str], str]


@dataclass(frozen=True)
class Drift:
    """Performance, decisions and calibration over time.

    >>> Drift(every="month").every
    'month'
    """

    name: ClassVar[str] = "drift"
    unweighted_because: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = (PATIENTS, *METRICS, *RISKS, *CHANGES.values(), *TRENDS.values())
    questions: ClassVar[tuple[str, ...]] = ("worse", "missed", "risks")
    asks: ClassVar[Mapping[str, str]] = ASKS

    every: Every = "quarter"
    """How long a period is: `month`, `quarter` or `year`; the cohort's `time` says when a case was."""
    compared: Count | None = None
    """How many periods at each end are compared with each other; by default a third of them."""
    most_periods: Annotated[int, Field(ge=2, le=500)] = 120
    """More periods than that are refused."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 5
    cohort: str | None = None
    """Which cohort; the first by default."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    threshold: Threshold = "auto"
    """As in `performance`; the same in all periods."""
    target_recall: Recall = 0.70
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons of the latest periods share one correction: the models and labels of a metric, or all that the
    audit makes (`run`). The test for a change is always corrected over everything it looks at."""
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[DriftPlan]:  # noqa: ARG002  (nothing is random)
        """The held-out cases with their periods, and the validation split for the threshold."""
        check_rule(self._rule, cohort)
        return plan_periods(
            cohort,
            name=self.cohort,
            split=self.split,
            labels=self.labels,
            most_common=self.most_common,
            every=self.every,
            compared=self.compared,
            most_periods=self.most_periods,
        )

    def analyse(self, plan: Plan[DriftPlan], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Levels by period, the latest against the first, changes and trends."""
        return self.analyse_apart(plan, [LabelPart(plan, predictions)], rng)

    def analyse_apart(
        self, plan: Plan[DriftPlan], parts: Sequence[LabelPart[DriftPlan]], rng: np.random.Generator
    ) -> AuditResult:
        """The periods of all cases, with each label on the cases of its part."""
        if len(parts) == 1:
            plan = replace(parts[0].plan, labels=plan.labels)
        predictions, planned = parts[0].predictions, plan.memory
        how = PeriodSampling(self.unit, self.n_replicates, int(rng.integers(2**63)))
        found = [self._part(plan, part, how) for part in parts]
        threshold = joined_thresholds([each.thresholds for each in found])
        rows, few = self._rows(plan, found, predictions.compared, rng)
        n_patients = {name: max(each.n_patients[name] for each in found) for name in found[0].n_patients}
        analysis = DriftAnalysis(
            estimates=EstimateIndex(rows, label=plan.labels[0], group=WHOLE),
            periods=planned.periods,
            models=predictions.compared,
            ensembles=predictions.ensembles,
            labels=plan.labels,
            left_out=[label for label in plan.cohort.labels if label not in plan.labels] if not self.labels else [],
            n_patients=n_patients,
            few=few,
            level=self.level,
            correction=self.correction,
            thresholds=threshold,
            margins=margins_with(self.margins),
            odd={pair: why for each in found for pair, why in each.odd.items()},
            n_untimed=planned.n_untimed,
        )
        answers = drift_answers(analysis)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=drift_blocks(analysis),
            findings=drift_findings(analysis, answers),
            answers=answers,
            provenance={
                "threshold": threshold.origin,
                "unit": self.unit,
                "n_replicates": self.n_replicates,
                "periods": list(planned.periods.names),
                "first": list(planned.periods.first),
                "latest": list(planned.periods.latest),
            },
        )

    def _part(self, plan: Plan[DriftPlan], part: LabelPart[DriftPlan], how: PeriodSampling) -> _PeriodsOfPart:
        """Some labels in the periods of all cases."""
        own, predictions = part.plan, part.predictions
        periods, labels = own.memory.periods.within(plan.memory.periods), own.labels
        threshold = decide_thresholds(
            own, predictions.scored, rule=self._rule, validation=own.memory.validation, main=own.memory.main
        )
        cases, writer = TimedCases.of(own, predictions, threshold.values), RowWriter(self.name, self.level)
        levels: list[Estimate] = []
        tested: list[Estimate] = []
        few: dict[tuple[str, str], str] = {}
        n_patients: dict[str, int] = {}
        for j, found in enumerate(measure_periods(cases, periods, labels, predictions, how)):
            risks = risk_rows(writer, cases, periods, found, j, predictions, how)
            levels += [*level_estimates(writer, found), *risks.levels]
            tested += [*difference_estimates(writer, found, predictions.compared), *risks.tested]
            n_patients = dict(found.n_patients)
            few |= {(found.label, name): why for name in found.parts if (why := found.lacking(name)) is not None}
        every, main = plan.variants.parent[plan.memory.main], own.variants.parent[own.memory.main]
        series = placed_series(
            all_series(cases, periods, labels, predictions), np.searchsorted(every, main), len(every)
        )
        odd = incomparable_scores(cases.y_score, labels, predictions, decisions_count=True)
        return _PeriodsOfPart(threshold, levels, tested, few, n_patients, series, odd)

    def _rows(
        self, plan: Plan[DriftPlan], parts: Sequence[_PeriodsOfPart], models: tuple[str, ...], rng: np.random.Generator
    ) -> tuple[list[Estimate], dict[tuple[str, str], str]]:
        """All rows, and the periods without enough cases."""
        writer, periods = RowWriter(self.name, self.level), plan.memory.periods
        patient = plan.cohort.patients[plan.variants.parent[plan.memory.main]]
        series = [each for part in parts for each in part.series]
        tested = [row for part in parts for row in part.tested]
        tested += trend_estimates(writer, series, patient, periods)
        changes = change_estimates(writer, series, patient, periods, rng)
        chosen = one_family(self.family) or (lambda row: family(row, models))
        levels = [row for part in parts for row in part.levels]
        rows = [*levels, *corrected(tested, self.correction, self.level, family_of=chosen), *changes]
        return rows, {key: why for part in parts for key, why in part.few.items()}

    @property
    def _rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)
