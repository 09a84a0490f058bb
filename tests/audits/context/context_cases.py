"""Cohorts with a known context: two labels in closed form, and the synthetic hospital's X-rays without its files."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from palpate.audits.context import Context
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, ModelPredictions, Predictions
from palpate.synthetic.calibrate import calibrate, probability
from palpate.synthetic.dice import stream
from palpate.synthetic.patients import simulate
from palpate.synthetic.patients.findings import cxr_table, findings, labels
from palpate.synthetic.plants import Plants


class Planted(NamedTuple):
    """A cohort with ready pre-test probabilities, and models whose behaviour is known."""

    cohort: Cohort
    scores: dict[str, np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def planted(n: int = 3000, *, seed: int = 0, base: float = -1.2) -> Planted:
    """Labels `a` and `b`; models that read only the context, only the image, and both."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(size=(n // 2, 2)), 2, axis=0)
    p = sigmoid(base + 1.2 * (0.6 * shared + 0.8 * rng.normal(size=(n, 2))))
    y = (rng.random((n, 2)) < p).astype(np.uint8)
    signal = 1.5 * y + rng.normal(size=(n, 2))
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k // 2}" for k in range(n)],
            "pretest_a": p[:, 0],
            "pretest_b": p[:, 1],
            "a": y[:, 0],
            "b": y[:, 1],
        }
    )
    cohort = Cohort.from_frame(frame, labels=("a", "b"), attributes=("pretest_a", "pretest_b"))
    logit = np.log(p / (1 - p))
    scores = {"context": p, "image": sigmoid(1.5 * signal - 2), "both": sigmoid(signal + logit)}
    return Planted(cohort, scores)


def hospital(n_patients: int, *, seed: int, plants: Plants) -> Planted:
    """Studies of stays after the first: labels, pre-test probabilities and the two models of the synthetic hospital."""
    made = findings(plants, "a")
    intercepts = calibrate(plants, "a").intercepts
    patients = simulate(n_patients, seed=seed, site="a", source="iv", plants=plants, intercepts=intercepts)
    found = [
        (f"{patient.number}", sorted(stay.history), made.pretest(set(stay.history)))
        for patient in patients
        for stay in patient.stays
        if stay.index > 0
    ]
    pretest = np.stack([logit for _, _, logit in found])
    rng = stream(seed, 0, 1, 0, 99)
    y = rng.random(pretest.shape) < probability(pretest)
    signal = made.signal * y + rng.standard_normal(y.shape)
    seen = made.shortcut_signal * y + rng.standard_normal(y.shape)
    standard = np.stack([made.standard(row) for row in pretest])
    p = probability(pretest)
    frame = pl.DataFrame(
        {
            "case_id": [f"s{k}" for k in range(len(found))],
            "patient_id": [patient for patient, _, _ in found],
            "prior": [f"Earlier: {', '.join(history) or 'nothing'}." for _, history, _ in found],
            **{f"pretest_{label}": p[:, j] for j, label in enumerate(labels())},
            **{label: y[:, j].astype(np.uint8) for j, label in enumerate(labels())},
        }
    )
    cohort = Cohort.from_frame(frame, labels=labels(), attributes=[f"pretest_{label}" for label in labels()])
    return Planted(cohort, {"honest": made.honest(signal), "shortcut": made.leaning(seen, standard)})


def told_by_history() -> dict[str, tuple[str, ...]]:
    """What an earlier note of `hospital` may say that makes a label likelier."""
    return {label: tuple(row["history"]) for label, row in cxr_table()["labels"].items()}


def run(audit: Context, cohort: Cohort, scores: dict[str, np.ndarray], seed: int = 1, **ensemble: str) -> AuditResult:
    """The audit on models that are known by their predictions, [row of the cohort, label of the cohort]."""
    plan = audit.plan(cohort, np.random.default_rng(0))
    rows = plan.variants.parent
    columns = [cohort.labels.index(label) for label in plan.labels]
    answers = {
        name: ModelPredictions(
            plan.labels, p[np.ix_(rows, columns)], np.ones(len(rows), bool), ensemble=ensemble.get(name)
        )
        for name, p in scores.items()
    }
    return audit.analyse(plan, Predictions(answers), np.random.default_rng(seed))


def row(
    result: AuditResult, metric: str, model: str, label: str, group: str = "all", reference: str | None = None
) -> dict[str, object]:
    """One estimate."""
    is_reference = pl.col("reference").is_null() if reference is None else pl.col("reference") == reference
    found = result.estimates.filter(is_reference, metric=metric, model=model, label=label, group=group)
    assert found.height == 1, found
    return found.row(0, named=True)


def frame_of(n: int = 400, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray]:
    """One label, a good model, room for odd columns."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.3).astype(np.uint8)
    p = np.clip(0.3 + 0.2 * y + 0.2 * rng.normal(size=n), 0.01, 0.99)
    frame = pl.DataFrame({"case_id": range(n), "patient_id": range(n), "pretest_ill": p, "ill": y})
    return frame, column_of(2 * y + rng.normal(size=n))


def column_of(x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x)))[:, None]


def cohort_of(frame: pl.DataFrame, **more: object) -> Cohort:
    attributes = [name for name in frame.columns if name.startswith(("pretest_", "age", "sex"))]
    return Cohort.from_frame(frame, labels=("ill",), attributes=attributes, **more)  # type: ignore[arg-type]
