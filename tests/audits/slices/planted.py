"""A cohort with a slice for whom a model is worse, and the audit on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from palpate.audits.slices import Slices
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions

WORSE = "gender=f, ward=b"


def planted(
    n: int = 4000, *, seed: int = 0, worse: float = 0.0, notes: int = 2, word: bool = False
) -> tuple[Cohort, np.ndarray]:
    """`notes` cases a patient; among women on ward b (a tenth), scores tell positives apart by `worse`, else by 1.6.

    With `word`, it is where the note has the word "interpreter" instead, a fifth of the notes.
    """
    rng = np.random.default_rng(seed)
    n_patients = n // notes
    patient = np.arange(n) // notes
    gender = rng.choice(["f", "m"], n_patients)[patient]
    ward = rng.choice(["a", "b", "c", ""], n_patients, p=[0.5, 0.2, 0.27, 0.03])[patient]
    said = rng.random(n) < 0.2
    y = rng.random(n) < 0.3
    inside = said if word else (gender == "f") & (ward == "b")
    score = rng.normal(size=n) + np.where(inside, worse, 1.6) * y
    fillers = np.asarray(["cough", "fever", "rash", "pain", "chills", "nausea"])
    text = [" ".join([*rng.choice(fillers, 3), *(["via Interpreter."] if has else []), "seen today"]) for has in said]
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in patient],
            "gender": gender,
            "ward": ward,
            "age": rng.integers(18, 95, n_patients)[patient],
            "shift": rng.choice(["day", "night"], n),
            "text": text,
            "ill": y.astype(int),
        }
    ).with_columns(pl.col("ward").replace("", None))
    cohort = Cohort.from_frame(frame, labels=["ill"], name="home", attributes=["gender", "ward", "age", "shift"])
    return cohort, 1 / (1 + np.exp(2.0 - 1.3 * score))


def run(audit: Slices, cohort: Cohort, scores: dict[str, np.ndarray], seed: int = 0) -> AuditResult:
    """The audit on scores of every case; `m[1]` is a member of the ensemble m."""
    plan = audit.plan(cohort, np.random.default_rng(seed))
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
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(seed + 1))


def differences(result: AuditResult, **where: Any) -> list[dict[str, Any]]:
    """The tested slices."""
    return result.estimates.filter(pl.col("reference").is_not_null()).filter(**where).to_dicts()
