"""Stays with hourly predictions, and the operating audit on them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from palpate.audits.operating import Operating
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions

QUICK: dict[str, Any] = {"n_replicates": 200}
START = datetime(2024, 3, 1)


def cases(n: int = 800, *, seed: int = 0, split: bool = True) -> tuple[Cohort, np.ndarray]:
    """One case a patient, five a day; a third of them in the validation split."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    score = rng.normal(size=n) + 1.4 * y
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in range(n)],
            "time": [START + timedelta(days=k // 5, hours=k % 5) for k in range(n)],
            "ill": y.astype(int),
        }
    )
    if split:
        frame = frame.with_columns(pl.Series("split", ["validation" if k % 3 == 0 else "test" for k in range(n)]))
    return Cohort.from_frame(frame, labels=["ill"]), 1 / (1 + np.exp(1.5 - score))


def stays(n: int = 200, *, seed: int = 0) -> tuple[Cohort, np.ndarray, pl.DataFrame]:
    """Stays of one to six predictions, four hours apart, in shuffled rows; risks rise towards the event."""
    rng = np.random.default_rng(seed)
    rows = []
    for stay in range(n):
        ill = rng.random() < 0.35
        length = int(rng.integers(1, 7))
        event = START + timedelta(hours=4 * length - 2) if ill and rng.random() < 0.9 else None
        for k in range(length):
            rows.append(
                {
                    "case_id": f"c{stay}-{k}",
                    "patient_id": f"p{stay // 2}",
                    "stay_id": f"s{stay}",
                    "time": START + timedelta(hours=4 * k),
                    "event": None if event is None else event.isoformat(),
                    "ill": int(ill),
                    "risk": float(1 / (1 + np.exp(1.0 - rng.normal() - ill * 0.4 * k))),
                }
            )
    frame = pl.DataFrame(rows).sample(fraction=1.0, shuffle=True, seed=seed)
    cohort = Cohort.from_frame(frame.drop("risk"), labels=["ill"], attributes=["event"])
    return cohort, frame["risk"].to_numpy(), frame


def run(
    audit: Operating,
    cohort: Cohort,
    scores: dict[str, np.ndarray],
    *,
    ensembles: dict[str, str] | None = None,
    own: float | None = None,
) -> AuditResult:
    """The audit on given scores, [case] or [case, label]; `ensembles` says which model a score is a seed of."""
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    answers = {
        name: ModelPredictions(
            plan.labels,
            np.asarray(p, float).reshape(len(p), -1)[rows],
            np.ones(len(rows), bool),
            threshold=own,
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
