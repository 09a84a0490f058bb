"""Slices: is there a group of patients that nobody named for whom the model is worse?

All combinations of attributes (and, by choice, of words in the notes) are searched on one half of the patients; the
slices that look worst there, each told once, are measured against all others on the other half, with intervals by
patient that hold for all of them at once. What is found by searching is never tested on the patients that it was found
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from palpate.audits.kit.attributes import Cutting, check_attributes
from palpate.audits.kit.missing.apart import LabelPart, joined_thresholds
from palpate.audits.kit.resampling import Correction
from palpate.audits.kit.rows import EstimateIndex, RowWriter, corrected
from palpate.audits.kit.scope import Count, Level, Recall, Replicates, Threshold, Unit, require_text
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, decide_thresholds
from palpate.audits.slices.answers import ASKS, SliceAnalysis, slice_answers
from palpate.audits.slices.blocks import slice_blocks
from palpate.audits.slices.findings import slice_findings
from palpate.audits.slices.measures import NAMES, WHOLE, SliceFound, SliceResampling, examine
from palpate.audits.slices.plan import AUDIT, Sliced, SliceScope, Words, plan_slices, slice_attributes
from palpate.audits.slices.search import Metric, Searching
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Estimate, Plan, Predictions, estimates_frame
from palpate.results.verdicts import margins_with


@dataclass(frozen=True)
class Slices:
    """Groups of patients, found by search, for whom the model is worse.

    >>> Slices(depth=3, metric="sensitivity").most
    10
    """

    name: ClassVar[str] = AUDIT
    unweighted_because: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = tuple(NAMES.values())
    questions: ClassVar[tuple[str, ...]] = ("worse",)
    asks: ClassVar[Mapping[str, str]] = ASKS

    by: tuple[str, ...] = ()
    """Attributes that are combined, as in `subgroups`; by default all of the cohort."""
    words: Words = False
    """Also words in the notes: `true` for the notes' own, or a list."""
    metric: Metric = "auroc"
    """What is worse: `auroc`, `sensitivity` at the threshold, `calibration` (observed less predicted risk, either way)
    or the `brier` score."""
    depth: Annotated[int, Field(ge=1, le=3)] = 2
    """How many conditions a slice has at most."""
    smallest: Annotated[int, Field(ge=10)] = 30
    """Patients that a slice has at least on the half that is searched."""
    fewest_events: Annotated[int, Field(ge=5)] = 10
    """Cases with the outcome, and without it, that it has there at least."""
    most: Annotated[int, Field(ge=1, le=100)] = 10
    """How many slices are tested on the other half, and reported."""
    cuts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    n_quantiles: Annotated[int, Field(ge=2, le=20)] = 4
    most_groups: Annotated[int, Field(ge=2, le=500)] = 50
    """An attribute with more values than that is refused."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 1
    cohort: str | None = None
    """Which cohort; the first by default, and all where `by` names `cohort`."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    threshold: Threshold = "auto"
    """As in `performance`; for `metric: sensitivity`."""
    target_recall: Recall = 0.70
    unit: Unit = "patient"
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    margins: dict[str, float] = field(default_factory=dict)
    """The smallest effects that matter, set for the whole run."""

    def check_cohort(self, cohort: Cohort) -> None:
        """Refuse attributes that the cohort does not have, and words without notes."""
        check_attributes(AUDIT, cohort, slice_attributes(cohort, self._scope))
        if self.words:
            require_text(AUDIT, cohort)

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[Sliced]:
        """The held-out cases with their attributes, half of the patients to search, and the validation split."""
        check_rule(self._threshold_rule, cohort)
        return plan_slices(cohort, self._scope, Cutting(self.cuts, self.n_quantiles, self.most_groups), rng)

    def analyse(self, plan: Plan[Sliced], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Search, confirm and judge, for each model and label."""
        return self.analyse_apart(plan, [LabelPart(plan, predictions)], rng)

    def analyse_apart(
        self, plan: Plan[Sliced], parts: Sequence[LabelPart[Sliced]], rng: np.random.Generator
    ) -> AuditResult:
        """Search and confirm each label on the cases of its part, and judge all together."""
        sliced = parts[0].plan.memory if len(parts) == 1 else plan.memory
        predictions, margin = parts[0].predictions, margins_with(self.margins)[self.metric]
        models, decided = predictions.compared, [self._thresholds(part) for part in parts]
        threshold = joined_thresholds(decided)
        resampling = SliceResampling(self.n_replicates, self.unit, int(rng.integers(2**63)))
        writer = RowWriter(self.name, self.level)
        rows: list[Estimate] = []
        found: dict[tuple[str, str], SliceFound] = {}
        for part, own in zip(parts, decided, strict=True):
            cases = part.plan.variants.parent[part.plan.memory.main]
            how = self._searching(margin, weighted=part.plan.cohort.weights_of(cases) is not None)
            more, known = examine(writer, part.plan, part.predictions, own.values, how, resampling)
            rows, found = [*rows, *more], found | known
        estimates = self._corrected(rows)
        analysis = SliceAnalysis(
            EstimateIndex(estimates, label=plan.labels[0], group=WHOLE),
            sliced,
            how,
            found,
            models,
            plan.labels,
            self.correction,
            threshold,
            predictions.ensembles,
            [label for label in plan.cohort.labels if label not in plan.labels],
        )
        answers = slice_answers(analysis)
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(estimates),
            blocks=slice_blocks(analysis),
            findings=slice_findings(analysis, answers),
            answers=answers,
            provenance={
                "metric": self.metric,
                "depth": self.depth,
                "n_slices": {f"{m}, {label}": each.searched.n_slices for (m, label), each in found.items()},
                "searched_cases": int(sliced.search.sum()),
                "confirmed_cases": int((~sliced.search).sum()),
            },
        )

    def _thresholds(self, part: LabelPart[Sliced]) -> Thresholds:
        return decide_thresholds(
            part.plan,
            {name: part.predictions[name] for name in part.predictions.compared},
            rule=self._threshold_rule,
            validation=part.plan.memory.validation,
            main=part.plan.memory.main,
        )

    def _searching(self, margin: float, *, weighted: bool) -> Searching:
        limits = (self.depth, self.smallest, self.fewest_events, self.most, self.level)
        return Searching(self.metric, *limits, margin, weighted)

    def _corrected(self, rows: list[Estimate]) -> list[Estimate]:
        """The differences of all models and labels are one family."""
        tested = corrected(
            [row for row in rows if row.reference is not None],
            self.correction,
            self.level,
            family_of=lambda row: row.metric,
        )
        return [*(row for row in rows if row.reference is None), *tested]

    @property
    def _scope(self) -> SliceScope:
        return SliceScope(self.cohort, self.split, self.labels, self.most_common, self.by, self.words, self.smallest)

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)
