"""A cohort with groups and a model that is worse for one of them; and the audit on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from palpate.audits.subgroups import Subgroups
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions


def planted(n: int = 1200, *, seed: int = 0, worse: float = 1.5) -> tuple[Cohort, np.ndarray]:
    """Two cases a patient; in race b scores tell positives apart by `worse`, elsewhere by 1.5; 3% have no race."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // 2
    gender = rng.choice(["f", "m"], n // 2)[patient]
    race = rng.choice(["a", "b", "c", ""], n // 2, p=[0.5, 0.3, 0.17, 0.03])[patient]
    y = rng.random(n) < 0.3
    score = rng.normal(size=n) + np.where(race == "b", worse, 1.5) * y
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in patient],
            "gender": gender,
            "race": race,
            "age": rng.integers(18, 95, n // 2)[patient],
            "ill": y.astype(int),
        }
    ).with_columns(pl.col("race").replace("", None))
    cohort = Cohort.from_frame(frame, labels=["ill"], name="home", attributes=["gender", "race", "age"])
    return cohort, 1 / (1 + np.exp(1.8 - 1.2 * score))


def run(audit: Subgroups, cohort: Cohort, scores: dict[str, np.ndarray]) -> AuditResult:
    """The audit on scores of every case, [case] or [case, label]; `m[1]` is a member of the ensemble m."""
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {
        name: ModelPredictions(
            plan.labels,
            p.reshape(len(p), -1)[rows],
            np.ones(len(rows), bool),
            ensemble=name.partition("[")[0] if "[" in name else None,
        )
        for name, p in scores.items()
    }
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(1))


def find(result: AuditResult, metric: str, group: str, **where: str | None) -> dict[str, Any]:
    """One estimate."""
    rows = result.estimates.filter(metric=metric, group=group)
    for column, wanted in {"reference": None, **where}.items():
        rows = rows.filter(pl.col(column).is_null() if wanted is None else pl.col(column) == wanted)
    assert rows.height == 1, rows
    return rows.row(0, named=True)
