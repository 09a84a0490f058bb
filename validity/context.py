"""The context audit on simulated hospitals: attributes known before the test, a label that depends on them, and a model
that sees the label, the history, or both.

The truth is that of a very large hospital whose history is known exactly, so an interval has to allow for the audited
cases and for a pre-test model that learned from 300 or 1,000 patients. Fitted models, and ready-made probabilities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit

from palpate.audits.context import Context
from palpate.audits.context.groups import PRETEST
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
Key = tuple[str, str, str | None]
WEIGHTS = np.array([0.8, 0.5, 0.4, 0.3, 0.0, 0.0])
"""How much each attribute says about the label; the last two are noise."""
AUDIT = Context(n_replicates=400, decision_thresholds=(), margins={"auroc": 0.03})
N_TRUTH = 600_000
REPORTED: Mapping[str, tuple[Key, ...]] = {
    "matched AUROC": (("auroc", "matched", None),),
    "re-weighted AUROC": (("auroc", "re-weighted", None),),
    "AUROC of a stratum": (("auroc", "bottom 25%", None), ("auroc", "top 25%", None)),
    "AUROC of model and history": (("auroc_with_context", "all", None),),
    "fall when matched": (("auroc", "matched", "all"),),
    "fall when re-weighted": (("auroc", "re-weighted", "all"),),
    "high risk less low risk": (("auroc", "top 25%", "bottom 25%"),),
    "gain over the history": (("auroc_gain_over_context", "all", PRETEST),),
    "sensitivity at its own threshold": (("sensitivity_at_local_specificity", "top 25%", None),),
    "sensitivity at one threshold": (("sensitivity_at_global_specificity", "top 25%", None),),
    "specificity at one threshold": (("specificity_at_global_threshold", "top 25%", None),),
    "sensitivity, high risk less low": (("sensitivity_at_global_specificity", "top 25%", "bottom 25%"),),
    "specificity, high risk less low": (("specificity_at_global_threshold", "top 25%", "bottom 25%"),),
    "specificity, matched less all": (("specificity_at_global_threshold", "matched", "all"),),
}


@dataclass(frozen=True)
class Hospital:
    """What is simulated; a patient has `films` cases with the same history."""

    n: int = 1000
    """Audited patients."""
    learned: int | None = 1000
    """Patients that the pre-test model learns from; None: the cohort brings true probabilities."""
    base: float = -1.8
    """Log-odds of the label without history: 18% positive at -1.8, 8% at -3."""
    reads: float = 0.6
    """How much of the history the model reads off the test."""
    harder: float = 0.0
    """How much less the test shows for each unit of risk."""
    films: int = 1
    labels: int = 1

    @property
    def name(self) -> str:
        """In words, for the table."""
        share = "18%" if self.base > -2 else "8%"
        learned = "given history" if self.learned is None else f"history from {self.learned:,} patients"
        films = f", {self.films} films each" if self.films > 1 else ""
        return f"{self.n:,} patients{films}, {share} positive, {learned}"

    def draw(self, rng: np.random.Generator, *, exact: bool = False) -> tuple[Cohort, Floats]:
        """A cohort and the scores of a model; `exact`: the true probabilities come with it."""
        n_learned = 0 if exact or self.learned is None else self.learned
        n = (self.n + n_learned) * self.films
        patient = np.arange(n) // self.films
        x = rng.normal(size=(n // self.films, WEIGHTS.size))[patient]
        risk = np.stack([self.base + np.roll(x, j, axis=1) @ WEIGHTS for j in range(self.labels)], axis=1)
        y = rng.random(risk.shape) < expit(risk)
        own = rng.normal(size=(n // self.films, self.labels))[patient]
        noise = rng.normal(size=risk.shape) if self.films == 1 else 0.6 * own + 0.8 * rng.normal(size=risk.shape)
        effect = np.maximum(1.5 - self.harder * (risk - self.base), 0.0)
        names = [f"label{j}" for j in range(self.labels)]
        frame = pl.DataFrame(
            {
                "case_id": np.arange(n),
                "patient_id": patient,
                "split": np.where(patient < n_learned, "train", "test"),
                **{f"x{k}": x[:, k] for k in range(WEIGHTS.size)},
                **{name: y[:, j].astype(np.uint8) for j, name in enumerate(names)},
                **{f"pretest_{name}": expit(risk[:, j]) for j, name in enumerate(names)},
            }
        )
        ready = [f"pretest_{name}" for name in names] if exact or self.learned is None else []
        attributes = [*(f"x{k}" for k in range(WEIGHTS.size)), *ready]
        return Cohort.from_frame(frame, labels=names, attributes=attributes), expit(
            self.reads * risk + effect * y + noise - 1.0
        )

    def audit(self, seed: int, audit: Context = AUDIT, *, exact: bool = False) -> AuditResult:
        """The audit of one hospital."""
        rng = np.random.default_rng([seed, self.n])
        cohort, scores = self.draw(rng, exact=exact)
        if not exact and self.learned is not None:
            audit = replace(audit, attributes=tuple(f"x{k}" for k in range(WEIGHTS.size)))
        plan = audit.plan(cohort, rng)
        rows = plan.variants.parent
        answers = ModelPredictions(plan.labels, scores[rows], np.ones(len(rows), bool))
        return audit.analyse(plan, Predictions({"model": answers}), rng)


@cache
def truth(hospital: Hospital) -> dict[Key, float]:
    """The numbers of a very large hospital whose history is known."""
    large = replace(hospital, n=N_TRUTH // hospital.films, labels=1)
    found = large.audit(1, replace(AUDIT, n_replicates=2), exact=True)
    return {key: row["value"] for key, row in by_key(found).items()}


def by_key(result: AuditResult, label: str = "label0") -> dict[Key, dict[str, float]]:
    """The model's estimates of one label, by metric, group and reference."""
    rows = result.estimates.filter(model="model", label=label).to_dicts()
    return {(row["metric"], row["group"], row["reference"]): row for row in rows}


def coverage(hospital: Hospital, n_samples: int, seed: int) -> Iterator[Cell]:
    """How often the pointwise intervals hold the truth."""
    true = truth(hospital)
    held: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for k in range(n_samples):
        rows = by_key(hospital.audit(seed + k))
        for what, keys in REPORTED.items():
            for key in keys:
                low = rows[key]["pointwise_low"] if key[2] is not None else rows[key]["low"]
                high = rows[key]["pointwise_high"] if key[2] is not None else rows[key]["high"]
                if low is not None:
                    seen[what] += 1
                    held[what] += low <= true[key] <= high
    for what in REPORTED:
        if seen[what]:
            yield Cell(f"coverage: {what}", hospital.name, held[what] / seen[what], seen[what], at_least=COVERAGE)
