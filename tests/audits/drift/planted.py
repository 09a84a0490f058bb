"""Cases over two years, and the drift audit on them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from palpate.audits.drift import Drift
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions

QUICK: dict[str, Any] = {"n_replicates": 200, "threshold": 0.3}
START = datetime(2023, 1, 1)


def drifting(
    n: int = 2400, *, seed: int = 0, lost: float = 0.0, shift: float = 0.0, months: int = 24
) -> tuple[Cohort, np.ndarray]:
    """Two cases a patient, a month apart; in the second half, scores tell less by `lost`, and risks shift."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // 2
    month = np.minimum(rng.integers(0, months, n // 2)[patient] + np.arange(n) % 2, months - 1)
    time = [
        START + timedelta(days=30.4 * int(m) + 3 + int(d)) for m, d in zip(month, rng.integers(0, 20, n), strict=True)
    ]
    late = month >= months // 2
    y = rng.random(n) < 0.3
    score = rng.normal(size=n) + np.where(late, 1.4 - lost, 1.4) * y
    risk = 1 / (1 + np.exp(1.8 - 1.4 * score - np.where(late, shift, 0.0)))
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in patient],
            "time": time,
            "ill": y.astype(int),
        }
    )
    return Cohort.from_frame(frame, labels=["ill"]), risk


def run(
    audit: Drift, cohort: Cohort, scores: dict[str, np.ndarray], *, ensembles: dict[str, str] | None = None
) -> AuditResult:
    """The audit on given scores, [case] or [case, label]."""
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {
        name: ModelPredictions(
            plan.labels,
            np.asarray(p, float).reshape(len(p), -1)[rows],
            np.ones(len(rows), bool),
            ensemble=(ensembles or {}).get(name),
        )
        for name, p in scores.items()
    }
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(1))


def find(result: AuditResult, metric: str, group: str, **more: Any) -> dict[str, Any]:
    """One estimate; a level unless a reference is named."""
    rows = result.estimates.filter(metric=metric, group=group)
    reference = more.pop("reference", None)
    rows = rows.filter(pl.col("reference").is_null() if reference is None else pl.col("reference") == reference)
    rows = rows.filter(**more) if more else rows
    assert rows.height == 1, rows
    return rows.row(0, named=True)
