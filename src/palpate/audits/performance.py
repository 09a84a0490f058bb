"""Performance: how good is the model on held-out cases, and how sure are we?

Per label, macro and micro: discrimination, calibration, and decisions at a threshold, with bootstrap intervals by
patient; every pair of models as a paired difference; several cohorts and the drop between them (vocabulary paper,
Table 3); several checkpoints of one model as mean and standard deviation (its Table 1). The default threshold is the
one that reaches 70% recall on the validation split (its Section 2.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.audits.checkpoints import families_of, members_of, spread, with_families
from palpate.audits.measured import (
    Correction,
    Measured,
    corrected,
    levels,
    model_differences,
    population_differences,
    replicates_frame,
)
from palpate.audits.performance_blocks import blocks_of
from palpate.audits.performance_story import Story, findings_of
from palpate.cohort import Cohort
from palpate.edits import Ints, Variants
from palpate.errors import CohortError, ConfigError
from palpate.results import AuditResult, Estimate, ModelPredictions, Plan, estimates_frame, finite
from palpate.stats import (
    THRESHOLD_METRICS,
    CalibrationCurve,
    bootstrap,
    calibration_curve,
    macro_average,
    recall_threshold,
    youden_threshold,
)

RANKING = ("auroc", "auprc", "sensitivity_at_specificity")
PROBABILITY = ("brier", "brier_skill_score", "adaptive_calibration_error")
METRICS = (*RANKING, *PROBABILITY, *THRESHOLD_METRICS)
_MOST_WORK = 1e10
"""Resamples x cases x labels x models that averages over thousands of labels may cost: about a minute."""
_FEWEST_REPLICATES = 200


class _Memory(NamedTuple):
    """Where the plan's rows come from: the rows of each cohort in the plan, and those of the validation split."""

    cohorts: Mapping[str, slice]
    validation: slice


class _Population(NamedTuple):
    """The cases of one cohort, and every checkpoint's answers."""

    name: str
    rows: Ints
    y_true: NDArray[np.uint8]
    y_score: NDArray[np.float64]
    threshold: NDArray[np.float64]
    patient: NDArray[np.int64]
    seed: int


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
        held_out: dict[str, Ints] = {}
        for name in cohort.names:
            held_out[name] = cohort.rows(cohort=name, split=self.split)
            if not len(held_out[name]):
                raise CohortError(
                    f"cohort '{name}' has no case in split '{self.split}'", hint="set `split:` of the audit"
                )
        validation = _validation_rows(cohort)
        if self.threshold == "recall" and not len(validation):
            raise CohortError(
                f"cohort '{cohort.names[0]}' has no validation split, which `threshold: recall` needs",
                hint="use `threshold: youden` or a number",
            )
        parts, slices, row = [], {}, 0
        for name, rows in held_out.items():
            parts.append(rows)
            slices[name] = slice(row, row + len(rows))
            row += len(rows)
        memory = _Memory(slices, slice(row, row + len(validation)))
        return Plan(cohort, Variants.of_cases(np.concatenate([*parts, validation])), tuple(labels), memory=memory)

    def analyse(self, plan: Plan, predictions: dict[str, ModelPredictions], rng: np.random.Generator) -> AuditResult:
        """Levels, differences between models, differences between cohorts, spread over checkpoints."""
        threshold, origin = self._thresholds(plan, predictions)
        families = families_of(predictions)
        populations = [
            self._population(plan, predictions, name, threshold, int(rng.integers(2**63)))
            for name in plan.memory.cohorts
        ]
        n_average = self._replicates_of_averages(populations)
        frequent = np.sort(_most_frequent(populations[0].y_true, self.labels_with_intervals))
        measured = [
            self._measure(plan.labels, frequent, population, tuple(predictions), families, n_average)
            for population in populations
        ]
        compared = [name for name in measured[0][0].models if name not in members_of(families)]
        rows = self._estimates(measured, compared)
        rows += spread(self.name, measured, families)
        story = Story(
            rows=rows,
            models=compared,
            families=families,
            populations=[population.name for population in populations],
            labels=plan.labels,
            overall=plan.labels[0] if len(plan.labels) == 1 else "macro",
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
                "n_replicates_of_averages": n_average,
            },
            replicates=replicates_frame(measured, compared, story.overall, (*RANKING, *PROBABILITY)),
        )

    def _thresholds(
        self, plan: Plan, predictions: Mapping[str, ModelPredictions]
    ) -> tuple[NDArray[np.float64], dict[str, str]]:
        """[model, label] thresholds (NaN: can't be found), and in words where each model's came from."""
        main = next(iter(plan.memory.cohorts.values()))
        validation: slice = plan.memory.validation
        on_validation = validation.stop > validation.start
        chosen = validation if on_validation else main
        y_true = plan.cohort.y_true(plan.variants.parent[chosen], plan.labels)
        where = "the validation split" if on_validation else "the audited cases themselves"
        out = np.full((len(predictions), len(plan.labels)), np.nan)
        origin = {}
        for m, (name, answers) in enumerate(predictions.items()):
            rule: float | str = self.threshold
            if rule == "auto":
                rule = answers.threshold if answers.threshold is not None else "recall" if on_validation else "youden"
                origin[name] = "stored with the model"
            if isinstance(rule, float | int):
                out[m] = rule
                origin.setdefault(name, "given")
                continue
            reaches = f"reaches {self.target_recall:.0%} recall" if rule == "recall" else "maximises Youden's index"
            origin[name] = f"{reaches} on {where}"
            for j in range(len(plan.labels)):
                y, p = y_true[:, j], answers.p[chosen, j]
                out[m, j] = (
                    recall_threshold(y, p, recall=self.target_recall) if rule == "recall" else youden_threshold(y, p)
                )
        return out, origin

    def _population(
        self,
        plan: Plan,
        predictions: Mapping[str, ModelPredictions],
        name: str,
        threshold: NDArray[np.float64],
        seed: int,
    ) -> _Population:
        part = plan.memory.cohorts[name]
        rows = plan.variants.parent[part]
        return _Population(
            name=name,
            rows=rows,
            y_true=plan.cohort.y_true(rows, plan.labels),
            y_score=np.stack([answers.p[part] for answers in predictions.values()]),
            threshold=threshold,
            patient=plan.cohort.patients[rows],
            seed=seed,
        )

    def _curves(
        self, plan: Plan, populations: Sequence[_Population], models: Sequence[str]
    ) -> list[tuple[str, str, str, CalibrationCurve]]:
        """Calibration of the most frequent labels: (population, model, label, curve)."""
        frequent = _most_frequent(populations[0].y_true, 4)
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

    def _replicates_of_averages(self, populations: Sequence[_Population]) -> int:
        """How many resamples macro and micro averages get: all, or what thousands of labels leave time for."""
        most = int(_MOST_WORK // max(population.y_score.size for population in populations))
        affordable = min(self.n_replicates, most)
        return affordable if affordable >= _FEWEST_REPLICATES or affordable == self.n_replicates else 0

    def _options(self, population: _Population) -> dict[str, Any]:
        return {
            "specificity": self.specificity,
            "n_bins": self.n_bins,
            "unit": self.unit,
            "patient": population.patient,
            "rng": population.seed,
        }

    def _measure(
        self,
        labels: Sequence[str],
        frequent: Ints,
        population: _Population,
        models: tuple[str, ...],
        families: Mapping[str, Sequence[str]],
        n_average: int,
    ) -> list[Measured]:
        """The labels with intervals, those without, and the averages."""
        rest = np.setdiff1d(np.arange(len(labels)), frequent)
        parts = [self._per_label(labels, population, models, frequent, self.n_replicates)]
        if len(rest):
            why = f"no interval: not among the {len(frequent)} most frequent labels"
            parts.append(self._per_label(labels, population, models, rest, 0, why))
        if len(labels) > 1:
            parts += [self._macro(population, models, parts, n_average), self._micro(population, models, n_average)]
        return [with_families(part, families) for part in parts]

    def _per_label(
        self,
        labels: Sequence[str],
        population: _Population,
        models: tuple[str, ...],
        columns: Ints,
        n_replicates: int,
        why_no_interval: str = "",
    ) -> Measured:
        threshold = population.threshold[:, columns]
        result = bootstrap(
            population.y_true[:, columns],
            population.y_score[:, :, columns],
            metrics=METRICS,
            threshold=threshold,
            n_replicates=n_replicates,
            **self._options(population),
        )
        return Measured(
            population=population.name,
            models=models,
            metrics=METRICS,
            labels=tuple(labels[int(j)] for j in columns),
            point=result.point,
            values=result.values,
            n=np.full(len(columns), len(population.rows)),
            n_positive=population.y_true[:, columns].sum(axis=0, dtype=np.int64),
            why_no_interval=why_no_interval,
            why_undefined="no threshold or no predicted case: a denominator is 0" if np.isnan(threshold).any() else "",
        )

    def _macro(
        self, population: _Population, models: tuple[str, ...], parts: Sequence[Measured], n_replicates: int
    ) -> Measured:
        """The mean over the labels for which a metric is defined, in each resample."""
        point = np.concatenate([part.point for part in parts], axis=2)
        if len(parts) == 1:
            values = macro_average(parts[0].values, axis=2)
        else:
            values = bootstrap(
                population.y_true,
                population.y_score,
                metrics=METRICS,
                threshold=population.threshold,
                average="macro",
                n_replicates=n_replicates,
                **self._options(population),
            ).values[:, :, 0]
        return _averaged("macro", population, models, macro_average(point, axis=2), values)

    def _micro(self, population: _Population, models: tuple[str, ...], n_replicates: int) -> Measured:
        """All (case, label) pairs in one heap; a case stays whole when it is resampled."""
        n, n_labels = population.y_true.shape
        unit = population.patient if self.unit == "patient" else np.arange(n)
        options = {
            **self._options(population),
            "unit": "patient",
            "patient": np.repeat(unit, n_labels),
            "n_replicates": n_replicates,
        }
        y_true = population.y_true.reshape(-1, 1)
        threshold = np.nan_to_num(population.threshold, nan=np.inf)[:, None, :]
        scores = population.y_score.reshape(len(models), -1, 1)
        decisions = (population.y_score >= threshold).astype(np.float64).reshape(len(models), -1, 1)
        ranked = bootstrap(y_true, scores, metrics=(*RANKING, *PROBABILITY), **options)
        decided = bootstrap(y_true, decisions, metrics=THRESHOLD_METRICS, threshold=0.5, **options)
        point = np.concatenate([ranked.point, decided.point], axis=1)[:, :, 0]
        values = np.concatenate([ranked.values, decided.values], axis=1)[:, :, 0]
        return _averaged("micro", population, models, point, values)

    def _estimates(self, measured: Sequence[Sequence[Measured]], compared: Sequence[str]) -> list[Estimate]:
        rows: list[Estimate] = []
        for parts in measured:
            for part in parts:
                rows += levels(self.name, part, level=self.level)
            pairs = [row for part in parts for row in model_differences(self.name, part, compared, level=self.level)]
            rows += corrected(pairs, self.correction, self.level)
        drops = [
            row
            for parts in measured[1:]
            for part, main in zip(parts, measured[0], strict=True)
            for row in population_differences(self.name, part, main, compared, level=self.level)
        ]
        return rows + corrected(drops, self.correction, self.level)


def _validation_rows(cohort: Cohort) -> Ints:
    if "split" not in cohort.cases.columns:
        return np.zeros(0, dtype=np.int64)
    main = cohort.rows(cohort=cohort.names[0])
    rows: Ints = main[(cohort.cases[main]["split"] == "validation").fill_null(False).to_numpy()]
    return rows


def _most_frequent(y_true: NDArray[np.uint8], n: int) -> Ints:
    """The n labels with most positive cases, ties by position."""
    return np.argsort(-y_true.sum(axis=0, dtype=np.int64), kind="stable")[:n]


def _averaged(
    name: str,
    population: _Population,
    models: tuple[str, ...],
    point: NDArray[np.float64],
    values: NDArray[np.float64],
) -> Measured:
    """An average as a label of its own; its n are cases (macro) or pairs of case and label (micro)."""
    y_true = population.y_true
    counted = y_true.any(axis=1) if name == "macro" else y_true
    return Measured(
        population=population.name,
        models=models,
        metrics=METRICS,
        labels=(name,),
        point=point[:, :, None],
        values=values[:, :, None, :],
        n=np.asarray([counted.size]),
        n_positive=np.asarray([counted.sum(dtype=np.int64)]),
        why_no_interval="no interval: too many labels and cases to resample",
    )
