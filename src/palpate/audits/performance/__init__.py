"""Performance: how good is the model on held-out cases, and how sure are we?

Per label, macro and micro: discrimination, calibration, and decisions at a threshold, with bootstrap intervals by
patient; every pair of models as a paired difference; several cohorts and the drop between them (vocabulary paper,
Table 3); several checkpoints of one model as mean and standard deviation (its Table 1). The default threshold is the
one that reaches 70% recall on the validation split (its Section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.audits.kit.ensembles import families_of, members_of, spread, with_families
from palpate.audits.kit.measured import (
    Correction,
    Measured,
    corrected,
    levels,
    model_differences,
    population_differences,
    replicates_frame,
)
from palpate.audits.kit.scope import validation_rows
from palpate.audits.kit.thresholds import ThresholdRule, check_rule, decide_thresholds
from palpate.audits.performance.blocks import blocks_of
from palpate.audits.performance.findings import Story, findings_of
from palpate.audits.performance.measures import (
    PROBABILITY,
    RANKING,
    Labels,
    Measuring,
    Population,
    measure,
    most_frequent,
)
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import CohortError, ConfigError
from palpate.results import AuditResult, Estimate, ModelPredictions, Plan, estimates_frame, finite
from palpate.stats import CalibrationCurve, calibration_curve


class _Memory(NamedTuple):
    """Where the plan's rows come from: the rows of each cohort in the plan, and those of the validation split."""

    cohorts: Mapping[str, slice]
    validation: slice


@dataclass(frozen=True)
class Performance:
    """Discrimination, calibration and decisions on held-out cases."""

    name: ClassVar[str] = "performance"

    labels: tuple[str, ...] | None = None
    """Which labels of the cohort; all by default."""
    split: str = "test"
    """Which split is held out; a cohort without splits is used whole."""
    threshold: Annotated[float, Field(ge=0, le=1)] | Literal["auto", "recall", "youden"] = "auto"
    """A number; `recall`: reaches `target_recall` on the validation split; `youden`; `auto`: the model's own, else
    `recall` where there is a validation split, else `youden`."""
    target_recall: Annotated[float, Field(gt=0, le=1)] = 0.70
    specificity: Annotated[float, Field(gt=0, lt=1)] = 0.95
    n_bins: Annotated[int, Field(ge=1)] = 10
    unit: Literal["patient", "case"] = "patient"
    n_replicates: Annotated[int, Field(ge=100)] = 10_000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    correction: Correction = "bonferroni"
    labels_with_intervals: Annotated[int, Field(ge=1)] = 50
    """Of many labels, the most frequent ones get intervals; averages are over all."""

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan:  # noqa: ARG002  (nothing is random here)
        """The held-out cases of every cohort, and the first cohort's validation split for the threshold."""
        labels = self.labels or cohort.labels
        unknown = [label for label in labels if label not in cohort.labels]
        if unknown:
            raise ConfigError(f"audit 'performance': the cohort has no label '{unknown[0]}'")
        if len(labels) > 1 and {"macro", "micro"} & set(labels):
            raise ConfigError("audit 'performance': 'macro' and 'micro' name the averages; give the label another name")
        held_out: dict[str, Ints] = {}
        for name in cohort.names:
            held_out[name] = cohort.rows(cohort=name, split=self.split)
            if not len(held_out[name]):
                raise CohortError(
                    f"cohort '{name}' has no case in split '{self.split}'", hint="set `split:` of the audit"
                )
        check_rule(self._threshold_rule, cohort)
        validation = validation_rows(cohort)
        parts, slices, row = [], {}, 0
        for name, rows in held_out.items():
            parts.append(rows)
            slices[name] = slice(row, row + len(rows))
            row += len(rows)
        memory = _Memory(slices, slice(row, row + len(validation)))
        return Plan(
            cohort,
            Variants.of_cases(np.concatenate([*parts, validation])),
            tuple(labels),
            cases=np.concatenate(parts),
            memory=memory,
        )

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Levels, differences between models, differences between cohorts, spread over checkpoints."""
        threshold, origin = decide_thresholds(
            plan,
            predictions,
            rule=self._threshold_rule,
            validation=plan.memory.validation,
            main=next(iter(plan.memory.cohorts.values())),
        )
        families = families_of(predictions)
        populations = [
            self._population(plan, predictions, name, threshold, int(rng.integers(2**63)))
            for name in plan.memory.cohorts
        ]
        measuring = Measuring(self.specificity, self.n_bins, self.unit, self.n_replicates)
        labels = Labels.choose(plan.labels, populations[0].y_true, self.labels_with_intervals)
        found = measure(populations, labels, tuple(predictions), measuring)
        measured = [[with_families(part, families) for part in parts] for parts in found.parts]
        compared = [name for name in measured[0][0].models if name not in members_of(families)]
        overall = plan.labels[0] if len(plan.labels) == 1 else "macro"
        rows = self._estimates(measured, compared, overall)
        rows += spread(self.name, measured, families)
        story = Story(
            rows=rows,
            models=compared,
            families=families,
            populations=[population.name for population in populations],
            labels=plan.labels,
            overall=overall,
            n_averaged=found.n_averaged,
            level=self.level,
            specificity=self.specificity,
            correction=self.correction,
            threshold={name: finite(value[0]) for name, value in zip(predictions, threshold, strict=True)},
            threshold_origin=origin,
            curves=self._curves(plan, populations, tuple(predictions)),
        )
        return AuditResult(
            audit=self.name,
            estimates=estimates_frame(rows),
            blocks=blocks_of(story),
            findings=findings_of(story),
            provenance={
                "threshold": origin,
                "unit": self.unit,
                "n_replicates": self.n_replicates,
                "n_replicates_of_averages": found.n_replicates_of_averages,
                "labels_in_macro": found.n_averaged,
            },
            replicates=replicates_frame(measured, compared, story.overall, (*RANKING, *PROBABILITY)),
        )

    @property
    def _threshold_rule(self) -> ThresholdRule:
        return ThresholdRule(self.threshold, self.target_recall)

    def _population(
        self,
        plan: Plan,
        predictions: Mapping[str, ModelPredictions],
        name: str,
        threshold: NDArray[np.float64],
        seed: int,
    ) -> Population:
        part = plan.memory.cohorts[name]
        rows = plan.variants.parent[part]
        return Population(
            name=name,
            y_true=plan.cohort.y_true(rows, plan.labels),
            y_score=np.stack([answers.p[part] for answers in predictions.values()]),
            threshold=threshold,
            patient=plan.cohort.patients[rows],
            seed=seed,
        )

    def _curves(
        self, plan: Plan, populations: Sequence[Population], models: Sequence[str]
    ) -> list[tuple[str, str, str, CalibrationCurve]]:
        """Calibration of the most frequent labels: (population, model, label, curve)."""
        frequent = most_frequent(populations[0].y_true, 4)
        return [
            (
                population.name,
                model,
                plan.labels[int(j)],
                calibration_curve(population.y_true[:, j], population.y_score[m, :, j], n_bins=self.n_bins),
            )
            for population in populations
            for m, model in enumerate(models)
            for j in frequent
        ]

    def _estimates(
        self, measured: Sequence[Sequence[Measured]], compared: Sequence[str], overall: str
    ) -> list[Estimate]:
        rows: list[Estimate] = []
        for parts in measured:
            for part in parts:
                rows += levels(self.name, part, level=self.level)
            pairs = [row for part in parts for row in model_differences(self.name, part, compared, level=self.level)]
            rows += corrected(pairs, self.correction, self.level, headline=overall)
        drops = [
            row
            for parts in measured[1:]
            for part, main in zip(parts, measured[0], strict=True)
            for row in population_differences(self.name, part, main, compared, level=self.level)
        ]
        return rows + corrected(drops, self.correction, self.level, headline=overall)
