"""The cases of one cohort with every model's scores, and how they are measured.

Scores are read label by label: of thousands of labels there is no second copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.missing import Gaps
from palpate.audits.kit.scope import Unit
from palpate.audits.performance.plan import HeldOut
from palpate.cases.edits import Ints
from palpate.results import Plan, Predictions
from palpate.stats import NOISE, THRESHOLD_METRICS
from palpate.stats.bootstrap import Method

RANKING = ("auroc", "auprc", "sensitivity_at_specificity")
PROBABILITY = ("brier", "brier_skill_score", "adaptive_calibration_error")
METRICS = (*RANKING, *PROBABILITY, *THRESHOLD_METRICS)
MEASURED = (*METRICS, NOISE)
_MOST_WORK = 5e9
"""Resamples x cases x labels x models that averages over thousands of labels may cost: about a minute."""
_FEWEST_REPLICATES = 200
Floats = NDArray[np.float64]
_AT_ONCE = 4_000_000
"""Scores that are copied at a time."""


class ScoreTable(NamedTuple):
    """The scores of several models for the same cases and labels."""

    by_model: Sequence[Floats]
    """[case, label] for each model, as predicted."""

    @property
    def size(self) -> int:
        """How many scores there are."""
        return sum(p.size for p in self.by_model)

    def of(self, labels: Ints) -> Floats:
        """Those of some labels, [model, case, label]; in memory, those of a label are side by side."""
        n_cases = len(self.by_model[0])
        out = np.empty((len(self.by_model), len(labels), n_cases))
        for own, p in zip(out, self.by_model, strict=True):
            np.copyto(own, p[:, labels].T)
        return out.transpose(0, 2, 1)

    def label(self, label: int) -> Floats:
        """Those of one label, [model, case]."""
        return np.stack([p[:, label] for p in self.by_model])

    def every(self) -> Floats:
        """A copy of them all, [model, case, label]."""
        return np.stack(self.by_model)

    def blocks(self, labels: Ints) -> Iterator[Ints]:
        """The labels, as many at a time as can be copied."""
        step = max(1, _AT_ONCE // max(len(self.by_model) * len(self.by_model[0]), 1))
        yield from (labels[low : low + step] for low in range(0, len(labels), step))


class Population(NamedTuple):
    """The cases of one cohort, and every scored model's predictions."""

    name: str
    y_true: NDArray[np.uint8]
    y_score: ScoreTable
    threshold: NDArray[np.float64]
    """[model, label]; NaN where none could be found."""
    patient: NDArray[np.int64]
    seed: int
    weight: NDArray[np.float64] | None = None
    """Sampling weights with a mean of 1; None where all cases count alike."""
    gaps: Gaps | None = None
    """Which cases count for which label, where scores are missing; None where all do."""

    def rows(self, labels: Ints | slice = slice(None)) -> NDArray[np.bool_] | None:
        """Which cases count for some labels, [case, label]; None where all do."""
        return None if self.gaps is None else self.gaps.known[:, labels]

    def scored(self, models: Sequence[int], label: int) -> bool:
        """Whether there are cases that count for a label, and scores of some models, all of them, for it."""
        if self.gaps is None:
            return True
        return bool(self.gaps.known[:, label].any()) and not self.gaps.unscored[list(models), label].any()

    @property
    def any_positive(self) -> NDArray[np.bool_]:
        """The cases with any label that counts."""
        rows = self.rows()
        return np.asarray((self.y_true if rows is None else self.y_true * rows).any(axis=1))

    def undefined(self, values: Floats, labels: Ints | slice = slice(None)) -> Floats:
        """Values, [model, metric, label, ...], without those of models that have no score for the label."""
        if self.gaps is not None and self.gaps.unscored.any():
            gone = self.gaps.unscored[:, labels]
            values = np.where(gone.reshape(len(gone), 1, -1, *[1] * (values.ndim - 3)), np.nan, values)
        return values

    def label(self, label: int) -> Population:
        """The cases that count for one label; only that label's columns are of use."""
        if self.gaps is None:
            return self
        rows = np.flatnonzero(self.gaps.known[:, label])
        return self._replace(
            y_true=self.y_true[rows],
            y_score=ScoreTable([p[rows] for p in self.y_score.by_model]),
            patient=self.patient[rows],
            weight=None if self.weight is None else self.weight[rows],
            gaps=None,
        )


def populations_of(
    plan: Plan[HeldOut],
    predictions: Predictions,
    threshold: NDArray[np.float64],
    rng: np.random.Generator,
    gaps: Gaps | None = None,
) -> list[Population]:
    """The held-out cases of every cohort, each with a seed for its resamples."""
    populations = []
    for name, part in plan.memory.cohorts.items():
        rows = plan.variants.parent[part]
        populations.append(
            Population(
                name=name,
                y_true=plan.cohort.y_true(rows, plan.labels),
                y_score=ScoreTable([answers.p[part] for answers in predictions.scored.values()]),
                threshold=threshold,
                patient=plan.cohort.patients[rows],
                seed=int(rng.integers(2**63)),
                weight=plan.cohort.weights_of(rows),
                gaps=None if gaps is None else gaps.at(part),
            )
        )
    return populations


@dataclass(frozen=True)
class Measuring:
    """How metrics are computed and resampled."""

    specificity: float
    n_bins: int
    unit: Unit
    n_replicates: int
    method: Method = "auto"

    def options(self, population: Population) -> dict[str, Any]:
        """What every call of `bootstrap` for a population gets, so that all share its resamples."""
        return {
            "specificity": self.specificity,
            "n_bins": self.n_bins,
            "unit": self.unit,
            "patient": population.patient,
            "rng": population.seed,
            "weight": population.weight,
            "method": self.method,
        }

    def n_replicates_of_averages(self, populations: Sequence[Population]) -> int:
        """How many resamples macro and micro averages get: all, or what thousands of labels leave time for."""
        most = int(_MOST_WORK // max(population.y_score.size for population in populations))
        affordable = min(self.n_replicates, most)
        return affordable if affordable >= _FEWEST_REPLICATES or affordable == self.n_replicates else 0
