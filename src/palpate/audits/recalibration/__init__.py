"""Recalibration: would its risks be right after a simple correction, and is that shown?

Three maps from a model's risk to another one (a shift of the log odds, a shift and a stretch, a rising step function)
are fitted on the validation split and tested on the held-out cases: calibration, Brier score and net benefit before and
after, with paired differences and intervals by patient. Offered, not imposed: no other audit sees the new risks.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl

from palpate.audits.kit.differences import population_differences
from palpate.audits.kit.metrics import MetricReplicates, level_rows
from palpate.audits.kit.missing.apart import LabelPart, joined_thresholds
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.risks import BenefitRange, check_range
from palpate.audits.kit.rows import EstimateIndex, RowWriter, corrected, one_family
from palpate.audits.kit.scope import Count, Level, Recall, Replicates, Threshold
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, decide_thresholds
from palpate.audits.recalibration.blocks import formula, recalibration_blocks
from palpate.audits.recalibration.findings import RecalibrationAnalysis, recalibration_findings
from palpate.audits.recalibration.measures import (
    BEFORE,
    METRICS,
    Offer,
    SplitCases,
    Testing,
    fit_offers,
    measure_maps,
    with_known_changes,
)
from palpate.audits.recalibration.plan import AUDIT, FitAndTest, RecalibrationScope, plan_recalibration
from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError
from palpate.results import AuditResult, Estimate, Plan, Predictions, estimates_frame
from palpate.stats.risks.recalibration import METHODS, Method

MAPS = "maps"
"""The table that is kept with the run."""


class _FittedPart(NamedTuple):
    """What was fitted for some labels, and the cases that it is tested on."""

    testing: SplitCases
    offers: list[Offer]
    thresholds: Thresholds
    seed: int


@dataclass(frozen=True)
class Recalibration:
    """What a correction of the risks would change.

    >>> Recalibration(methods=("slope",)).methods
    ('slope',)
    """

    name: ClassVar[str] = AUDIT
    unweighted_because: ClassVar[str] = ""
    metrics: ClassVar[tuple[str, ...]] = METRICS
    questions: ClassVar[tuple[str, ...]] = ()

    methods: tuple[Method, ...] = METHODS
    """Which maps: `intercept` shifts all log odds, `slope` shifts and stretches them, `isotonic` is a rising step
    function."""
    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; by default the `most_common`."""
    most_common: Count = 5
    cohort: str | None = None
    """Which cohort; the first by default. It needs a validation split."""
    split: str = "test"
    """Which split is held out."""
    threshold: Threshold = "auto"
    """As in `performance`; the same before and after."""
    target_recall: Recall = 0.70
    net_benefit: BenefitRange = (0.01, 0.5)
    """The thresholds over which net benefit is averaged."""
    n_replicates: Replicates = 10_000
    level: Level = 0.95
    correction: Correction = "bonferroni"
    family: Family = "question"
    """Which comparisons share one correction: the models, labels and methods of a metric, or all that the audit
    makes."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[FitAndTest]:  # noqa: ARG002  (nothing is random)
        """The held-out cases, and the validation split that maps are fitted on."""
        if not self.methods or len(set(self.methods)) < len(self.methods):
            problem = f"audit '{self.name}', option 'methods': name at least one method, each once"
            raise ConfigError(problem, hint=f"they are: {', '.join(METHODS)}", at=("methods",))
        check_range(self.name, self.net_benefit)
        check_rule(self._threshold_rule, cohort)
        return plan_recalibration(cohort, RecalibrationScope(self.cohort, self.split, self.labels, self.most_common))

    def analyse(self, plan: Plan[FitAndTest], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        """Fit on the validation split, measure on the held-out cases, as it is and after each method."""
        return self.analyse_apart(plan, [LabelPart(plan, predictions)], rng)

    def analyse_apart(
        self, plan: Plan[FitAndTest], parts: Sequence[LabelPart[FitAndTest]], rng: np.random.Generator
    ) -> AuditResult:
        """Fit and measure each label on the cases of its part."""
        models = parts[0].predictions.compared
        fits = [self._fitted(part, deepcopy(rng)) for part in parts]  # each label as if it were alone
        offers = sorted((offer for fit in fits for offer in fit.offers), key=lambda each: models.index(each.model))
        measured: dict[str, list[MetricReplicates]] = {}
        for part, fit in zip(parts, fits, strict=True):
            how = Testing(fit.thresholds.values, self.net_benefit, self.n_replicates, fit.seed)
            for method, found in measure_maps(fit.testing, fit.offers, models, part.plan.labels, how).items():
                measured.setdefault(method, []).extend(found)
        rows, thresholds = self._rows(measured, models, offers), joined_thresholds([fit.thresholds for fit in fits])
        tested = np.unique(np.concatenate([part.plan.variants.parent[part.plan.memory.test] for part in parts]))
        analysis = RecalibrationAnalysis(
            estimates=EstimateIndex(rows, label=plan.labels[0], group=BEFORE),
            offers=offers,
            models=models,
            labels=plan.labels,
            methods=(BEFORE, *self.methods),
            left_out=[label for label in plan.cohort.labels if label not in plan.labels] if not self.labels else [],
            level=self.level,
            cohort=plan.memory.cohort,
            split=self.split,
            n_test=len(tested),
            n_shared=parts[0].plan.memory.n_shared if len(parts) == 1 else plan.memory.n_shared,
            thresholds=thresholds.origin,
            benefit=self.net_benefit,
        )
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=recalibration_blocks(analysis),
            findings=recalibration_findings(analysis),
            provenance=self._provenance(analysis, thresholds, len(np.unique(plan.cohort.patients[tested]))),
            tables={MAPS: maps_frame(offers)},
        )

    def _fitted(self, part: LabelPart[FitAndTest], rng: np.random.Generator) -> _FittedPart:
        plan, predictions, split = part.plan, part.predictions, part.plan.memory
        models = predictions.compared
        fitting = SplitCases.of(plan, predictions, split.validation)
        return _FittedPart(
            SplitCases.of(plan, predictions, split.test),
            fit_offers(fitting, models, plan.labels, self.methods, rng),
            decide_thresholds(
                plan,
                {name: predictions[name] for name in models},
                rule=self._threshold_rule,
                validation=split.validation,
                main=split.test,
            ),
            int(rng.integers(2**63)),
        )

    def _rows(
        self, measured: dict[str, list[MetricReplicates]], models: tuple[str, ...], offers: list[Offer]
    ) -> list[Estimate]:
        writer = RowWriter(self.name, self.level)
        levels = [row for parts in measured.values() for part in parts for row in level_rows(writer, part)]
        changes = [
            row
            for method, parts in measured.items()
            if method != BEFORE
            for part, before in zip(parts, measured[BEFORE], strict=True)
            for row in population_differences(writer, part, before, models)
        ]
        family, changes = one_family(self.family), with_known_changes(changes, levels, offers)
        return [*levels, *corrected(changes, self.correction, self.level, family_of=family)]

    def _provenance(
        self, analysis: RecalibrationAnalysis, thresholds: Thresholds, n_patients: int
    ) -> dict[str, object]:
        return {
            "cohort": analysis.cohort,
            "split": analysis.split,
            "n_test": analysis.n_test,
            "n_test_patients": n_patients,
            "n_shared_patients": analysis.n_shared,
            "threshold": thresholds.origin,
            "level": self.level,
            "n_replicates": self.n_replicates,
            "net_benefit": list(self.net_benefit),
        }

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)


def maps_frame(offers: list[Offer]) -> pl.DataFrame:
    """Every map with who it was fitted on, one row each; no case is in it."""
    rows = [
        {
            "model": offer.model,
            "label": offer.label,
            "method": each.name,
            "chosen": each.name == offer.chosen,
            "formula": formula(each),
            "intercept": each.map.intercept if each.why_not is None else None,
            "slope": each.map.slope if each.why_not is None else None,
            "risk": each.map.risk.tolist(),
            "recalibrated": each.map.recalibrated.tolist(),
            "reason": each.why_not,
            "n": offer.n,
            "n_patients": offer.n_patients,
            "n_positive": offer.n_positive,
        }
        for offer in offers
        for each in offer.maps
    ]
    numbers = {"intercept": pl.Float64, "slope": pl.Float64, "reason": pl.String}
    lists = dict.fromkeys(("risk", "recalibrated"), pl.List(pl.Float64))
    return pl.DataFrame(rows, schema_overrides={**numbers, **lists})
