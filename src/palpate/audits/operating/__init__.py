"""Operating: what does flagging at a threshold mean for the ward?

The thresholds that a vendor or a committee fixed, and those that a capacity leaves ("we can see 20 patients a day"):
how many alerts there are, how many must be looked at to find one patient with the outcome, what is found and what is
missed, and net benefit. Where a stay has several predictions: alerts per stay, the first alert, and how long before the
event it comes. Intervals are by patient; models are compared on the same resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from palpate.audits.kit.metrics import member_places
from palpate.audits.kit.missing.apart import LabelPart, joined_thresholds
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import EstimateIndex, RowWriter, corrected, one_family
from palpate.audits.kit.scope import Count, Level, Recall, Replicates, Threshold, Unit
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, thresholds_on
from palpate.audits.operating.answers import REQUIREMENTS, AlertAnalysis, operating_answers
from palpate.audits.operating.blocks import operating_blocks
from palpate.audits.operating.estimates import DECISIONS, PointRows, timed_rows
from palpate.audits.operating.findings import operating_findings
from palpate.audits.operating.measures import (
    MOST_CURVES,
    AlertCurve,
    AlertSampling,
    Decided,
    alert_curves,
    measure_points,
)
from palpate.audits.operating.plan import AlertPlan, plan_alerts
from palpate.audits.operating.points import AlertPoint, PointRules, check_days, choose_points, joined_points
from palpate.audits.operating.stays import TIMED, timed_alerts
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import ConfigError, closest
from palpate.results import AuditResult, Estimate, Plan, Predictions, estimates_frame
from palpate.stats.precision import n_distinct


class _PointsOfPart(NamedTuple):
    """What was measured of some labels."""

    own: Thresholds
    points: list[AlertPoint]
    patient: Ints
    levels: list[Estimate]
    differences: list[Estimate]
    curves: list[AlertCurve]
    timed: list[str]


@dataclass(frozen=True)
class Operating:
    """Alerts, yield and workload at the thresholds that are used.

    >>> Operating(thresholds={"vendor": 0.3}).thresholds
    {'vendor': 0.3}
    """

    name: ClassVar[str] = "operating"
    unweighted_because: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = (*DECISIONS, *TIMED)
    questions: ClassVar[tuple[str, ...]] = tuple(REQUIREMENTS)

    thresholds: dict[str, float] = field(default_factory=dict)
    """Fixed thresholds by name, such as `{vendor: 0.3}`."""
    capacity: dict[Literal["flag", "per_day"], float | tuple[float, ...]] = field(default_factory=dict)
    """How many can be looked at: `{flag: 0.05}` is a share, `{per_day: 20}` a number a day (needs the cohort's `time`);
    several in a list."""
    threshold: Threshold = "auto"
    """Each model's own, as in `performance`; the point `own`."""
    target_recall: Recall = 0.70
    combine: Literal["max", "first"] = "max"
    """Which prediction of a stay decides: the highest (any that reaches the threshold), or the first alone."""
    event_time: str | None = None
    """The attribute that says when the event of a stay was; with it, lead times are measured."""
    required: dict[str, float] = field(default_factory=dict)
    """What the scorecard asks, such as `{sensitivity: 0.8, alerts_per_100: 10}`; nothing by default."""
    required_at: tuple[str, ...] = ()
    """At which points; by default at those of `thresholds` and `capacity`, or at `own` where there are none."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 5
    cohort: str | None = None
    """Which cohort; the first by default."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons share one correction: the points, pairs and labels of a metric, or all that the audit makes."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The questions of this audit as it is configured: those that are required."""
        return tuple(self.required)

    def check_options(self) -> None:
        """Refuse thresholds, capacities and requirements that cannot be meant."""
        rules = self._rules
        for metric in self.required:
            if metric not in REQUIREMENTS:
                problem = f"audit '{self.name}', option 'required': '{metric}' cannot be required"
                hint = closest(metric, REQUIREMENTS, all_are="what can be required is")
                raise ConfigError(problem, hint=hint, at=("required",))
        for point in self.required_at:
            if point not in rules.names:
                problem = f"audit '{self.name}', option 'required_at': there is no point '{point}'"
                raise ConfigError(problem, hint=closest(point, rules.names, all_are="they are"), at=("required_at",))

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[AlertPlan]:  # noqa: ARG002  (nothing is random)
        """The held-out cases with their stays, and the validation split for thresholds."""
        self.check_options()
        check_rule(ThresholdRule(self.threshold, self.target_recall), cohort)
        plan = plan_alerts(
            cohort,
            name=self.cohort,
            split=self.split,
            labels=self.labels,
            most_common=self.most_common,
            event_time=self.event_time,
            first_alone=self.combine == "first",
        )
        check_days(self._rules, plan.memory.per_day, plan.memory.least_weight)
        return plan

    def decisions(self, plan: Plan[AlertPlan]) -> tuple[str, Ints]:
        """What is decided, and the first counted case of each: a stay is one decision."""
        rows = plan.memory.audited
        return plan.memory.unit, plan.variants.parent[rows.order[rows.start]]

    def analyse(self, plan: Plan[AlertPlan], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Every point of every model and label, and models against each other."""
        return self.analyse_apart(plan, [LabelPart(plan, predictions)], rng)

    def analyse_apart(
        self, plan: Plan[AlertPlan], parts: Sequence[LabelPart[AlertPlan]], rng: np.random.Generator
    ) -> AuditResult:
        """The points of each label on the stays or cases of its part."""
        predictions, planned = parts[0].predictions, parts[0].plan.memory if len(parts) == 1 else plan.memory
        how = AlertSampling(self.unit, self.n_replicates, int(rng.integers(2**63)))
        found = [self._part(part, how) for part in parts]
        own, points = joined_thresholds([each.own for each in found]), joined_points([each.points for each in found])
        family = one_family(self.family) or (lambda row: row.metric)
        differences = [row for each in found for row in each.differences]
        rows = [row for each in found for row in each.levels]
        rows += corrected(differences, self.correction, self.level, family_of=family)
        analysis = AlertAnalysis(
            estimates=EstimateIndex(rows, label=plan.labels[0], group=points[0].name),
            points=points,
            models=predictions.compared,
            scored=tuple(predictions.scored),
            ensembles=predictions.ensembles,
            labels=plan.labels,
            left_out=[label for label in plan.cohort.labels if label not in plan.labels] if not self.labels else [],
            n_patients=n_distinct(np.concatenate([each.patient for each in found])),
            planned=planned,
            own=own,
            on_validation=len(planned.validation.start) > 0,
            curves=[curve for each in found for curve in each.curves if curve.label in plan.labels[:MOST_CURVES]],
            timed=found[0].timed,
            required=self.required,
            judged=self.required_at or self._rules.named,
            level=self.level,
            correction=self.correction,
            combine=self.combine,
        )
        answers = operating_answers(analysis)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=operating_blocks(analysis),
            findings=operating_findings(analysis, answers),
            answers=answers,
            provenance={
                "points": {point.name: dict(point.how) for point in points},
                "unit": self.unit,
                "n_replicates": self.n_replicates,
                "per_day": planned.per_day,
            },
        )

    def _points(
        self, plan: Plan[AlertPlan], predictions: Predictions, decided: Decided
    ) -> tuple[Thresholds, list[AlertPoint]]:
        """Thresholds from the validation split, at which stays are decided as in the audited cases."""
        on_validation = len(plan.memory.validation.start) > 0
        if on_validation:
            decided = Decided.of(plan, predictions, plan.memory.validation, self.combine)
        rule = ThresholdRule(self.threshold, self.target_recall)
        own = thresholds_on(
            predictions.scored,
            decided.y_true,
            decided.y_score,
            rule=rule,
            on_validation=on_validation,
            weight=decided.weight,
        )
        points = choose_points(
            self._rules,
            own,
            decided.y_score,
            tuple(predictions.scored),
            on_validation=on_validation,
            per_day=plan.memory.per_day,
            weight=decided.weight,
        )
        return own, points

    def _part(self, part: LabelPart[AlertPlan], how: AlertSampling) -> _PointsOfPart:
        """Levels, differences that are not corrected yet, curves, and which metrics about time there are."""
        plan, predictions = part
        decided = Decided.of(plan, predictions, plan.memory.audited, self.combine)
        own, points = self._points(plan, predictions, decided)
        writer, models = RowWriter(self.name, self.level), predictions.compared
        places, scored = member_places(predictions), list(predictions.scored)
        members = {name: places.get(name) or [scored.index(name)] for name in predictions.names}
        per_day = plan.memory.per_day if self._rules.per_day else None
        levels: list[Estimate] = []
        differences: list[Estimate] = []
        timed: list[str] = []
        for j, measured in enumerate(measure_points(decided, points, plan.labels, predictions, how)):
            for point, each in zip(points, measured, strict=True):
                made = PointRows(writer, each, point.threshold[:, j], members)
                levels += made.levels(per_day)
                differences += made.differences(models)
                alerts = timed_alerts(plan, predictions, point, j, decided)
                timed = list(alerts.values)
                over_time = timed_rows(writer, alerts, plan.labels[j], point, predictions.names, models, how)
                levels += over_time[0]
                differences += over_time[1]
        curves = alert_curves(decided, plan.labels, predictions)
        return _PointsOfPart(own, points, decided.patient, levels, differences, curves, timed)

    @property
    def _rules(self) -> PointRules:
        return PointRules.of(self.thresholds, self.capacity)
