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
AUDIT = Context(n_replicates=300, refits=8, decision_thresholds=(), margins={"auroc": 0.03})
N_TRUTH = 400_000
SAMPLED = 2.0 / 3.0
"""The share of the patients that is drawn where they are sampled."""
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
    sampled: bool = False
    """Whether about `n` patients are drawn from more: a third of those with a low first attribute, with weights."""

    @property
    def name(self) -> str:
        """In words, for the table."""
        share = "18%" if self.base > -2 else "8%"
        learned = "given history" if self.learned is None else f"history from {self.learned:,} patients"
        films = f", {self.films} films each" if self.films > 1 else ""
        drawn = ", drawn by history, with weights" if self.sampled else ""
        return f"{self.n:,} patients{films}, {share} positive, {learned}{drawn}"

    def draw(self, rng: np.random.Generator, *, exact: bool = False) -> tuple[Cohort, Floats]:
        """A cohort and the scores of a model; `exact`: the true probabilities come with it."""
        known = exact or self.learned is None
        n_learned = 0 if known else self.learned or 0
        n = (round(self.n / SAMPLED) if self.sampled else self.n + n_learned) * self.films
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
                **(ready := {f"pretest_{name}": expit(risk[:, j]) for j, name in enumerate(names)} if known else {}),
            }
        )
        attributes = [*(f"x{k}" for k in range(WEIGHTS.size)), *ready]
        scores = expit(self.reads * risk + effect * y + noise - 1.0)
        if self.sampled:
            chance = np.where(x[:, 0] > 0, 1.0, 1.0 / 3.0)
            taken = rng.random(n) < chance
            frame, scores = frame.with_columns(sampling_weight=1.0 / chance).filter(taken), scores[taken]
        return Cohort.from_frame(frame, labels=names, attributes=attributes), scores

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
    large = replace(hospital, n=N_TRUTH // hospital.films, labels=1, sampled=False)
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


def false_alarms(n_samples: int, seed: int) -> Iterator[Cell]:
    """How often a question marks any of eight labels, or a run anything, where the history is not read."""
    hospital = Hospital(n=800, learned=1000, reads=0.0, labels=8)
    marked: Counter[str] = Counter()
    for k in range(n_samples):
        found = hospital.audit(seed + k, replace(AUDIT, refits=2)).estimates.filter(pl.col("significant"))
        marked["matched against all"] += found.filter(metric="auroc", group="matched", reference="all").height > 0
        marked["high risk against low"] += (
            found.filter(metric="auroc", group="top 25%", reference="bottom 25%").height > 0
        )
        marked["re-weighted against all"] += (
            found.filter(metric="auroc", group="re-weighted", reference="all").height > 0
        )
    for question, n in marked.items():
        yield Cell(
            "family-wise false alarms", f"{hospital.name}, 8 labels: {question}", n / n_samples, n_samples,
            at_most=FALSE_ALARMS,
        )  # fmt: skip


def verdicts(hospital: Hospital, margin: float, n_samples: int, seed: int) -> Counter[tuple[str, str]]:
    """How often each question gets each verdict."""
    audit = replace(AUDIT, margins={"auroc": margin})
    return Counter(
        (answer.question, answer.verdict)
        for k in range(n_samples)
        for answer in hospital.audit(seed + k, audit).answers
    )


def wrong_verdicts(n_samples: int, seed: int) -> Iterator[Cell]:
    """Verdicts where the truth is the margin itself: the hardest case for both."""
    hospital = Hospital(n=1500, learned=300, harder=0.15)
    for question, key in (
        ("held_equal", ("auroc", "matched", "all")),
        ("high_risk", ("auroc", "top 25%", "bottom 25%")),
    ):
        margin = -truth(hospital)[key]
        found = verdicts(hospital, margin, n_samples, seed)
        where = f"{hospital.name}: {question}, true fall {margin:.2f} and the margin the same"
        for verdict in ("acceptable", "concern"):
            rate = found[question, verdict] / n_samples
            yield Cell(f'wrong "{verdict}"', where, rate, n_samples, at_most=WRONG_VERDICTS)


def useless_history(n_samples: int, seed: int) -> Cell:
    """A history that says nothing about the label must not reassure."""
    hospital = Hospital(n=800, learned=None, reads=0.0)
    settled = 0
    for k in range(n_samples):
        rng = np.random.default_rng([seed + k, 3])
        cohort, scores = hospital.draw(rng)
        shuffled = cohort.cases.with_columns(pretest_label0=pl.col("pretest_label0").shuffle(seed=k))
        plan = AUDIT.plan(replace(cohort, cases=shuffled), rng)
        answers = ModelPredictions(plan.labels, scores, np.ones(len(scores), bool))
        found = AUDIT.analyse(plan, Predictions({"model": answers}), rng)
        settled += any(answer.verdict == "acceptable" for answer in found.answers)
    return Cell('wrong "acceptable"', f"{hospital.name} that predicts nothing", settled / n_samples, n_samples,
                at_most=WRONG_VERDICTS)  # fmt: skip


def power(n_samples: int, seed: int) -> Iterator[Cell]:
    """How often falls as large as published (effusion 0.92 to 0.85; edema 0.90 to 0.81 at high risk) are shown."""
    hospital = Hospital(n=3000, learned=1000, reads=0.6, harder=0.2)
    found = verdicts(hospital, 0.03, n_samples, seed)
    for question, key in (
        ("held_equal", ("auroc", "matched", "all")),
        ("high_risk", ("auroc", "top 25%", "bottom 25%")),
    ):
        shown = sum(found[question, verdict] for verdict in ("concern", "caution")) / n_samples
        yield Cell("power", f"{hospital.name}: {question}, true fall {-truth(hospital)[key]:.2f}", shown, n_samples)


COVERED = (
    Hospital(n=1000, learned=300),
    Hospital(n=1000, learned=1000),
    Hospital(n=3000, learned=300),
    Hospital(n=2000, learned=1000, base=-3.0),
    Hospital(n=500, learned=300, films=3),
    Hospital(n=400, learned=None),
    Hospital(n=1000, learned=None, base=-3.0),
    Hospital(n=1500, learned=None, sampled=True),
)
"""Where a pre-test model is fitted, and fitted again, there are fewer data sets."""


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage in every hospital, false alarms, verdicts and power; whole audits of many labels on fewer data sets."""
    fewer = max(n_samples // 5, 100 if thin else 200)
    for hospital in (COVERED[0], COVERED[-1]) if thin else COVERED:
        yield from coverage(hospital, fewer if hospital.learned else n_samples, seed)
    if not thin:
        yield from false_alarms(fewer, seed)
        yield from wrong_verdicts(fewer, seed)
        yield from power(fewer, seed)
    yield useless_history(fewer, seed)
