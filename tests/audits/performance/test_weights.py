"""Sampling weights in the performance audit: scikit-learn's `sample_weight`, and repeated rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.performance import Performance
from palpate.cases.cohort import Cohort, stack
from palpate.results import AuditResult
from tests.audits.performance.test_audit import run, simulated, value


def weighted(cohort: Cohort, weight: np.ndarray) -> Cohort:
    return replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight.astype(float))))


def levels(result: AuditResult) -> dict[tuple[str, str], float | None]:
    rows = result.estimates.filter(pl.col("reference").is_null())
    return {(row["metric"], row["label"]): row["value"] for row in rows.iter_rows(named=True)}


def test_values_are_scikit_learns_with_sample_weight() -> None:
    cohort, p = simulated()
    weight = np.random.default_rng(3).lognormal(0, 1.2, 600)
    result = run(Performance(n_replicates=200, threshold=0.4), weighted(cohort, weight), {"m": p})
    y, score, w = cohort.y.toarray()[200:, 0], p[200:, 0], weight[200:]
    decided, share = score >= 0.4, np.average(y, weights=w)
    expected = {
        "auroc": sk.roc_auc_score(y, score, sample_weight=w),
        "auprc": sk.average_precision_score(y, score, sample_weight=w),
        "brier": sk.brier_score_loss(y, score, sample_weight=w),
        "brier_skill_score": 1 - sk.brier_score_loss(y, score, sample_weight=w) / (share * (1 - share)),
        "sensitivity": sk.recall_score(y, decided, sample_weight=w),
        "specificity": sk.recall_score(y, decided, pos_label=0, sample_weight=w),
        "ppv": sk.precision_score(y, decided, sample_weight=w),
        "npv": sk.precision_score(y, decided, pos_label=0, sample_weight=w),
        "f1_1": sk.f1_score(y, decided, sample_weight=w),
        "f1_0": sk.f1_score(y, decided, pos_label=0, sample_weight=w),
    }
    plain = run(Performance(n_replicates=200, threshold=0.4), cohort, {"m": p})
    for metric, wanted in expected.items():
        found = value(result, metric, model="m")
        assert found["value"] == pytest.approx(wanted, abs=1e-12), metric
        assert found["n"] == 400, "cases are counted, not weighed"
        assert found["low"] < found["value"] < found["high"]  # type: ignore[operator]
        without = value(plain, metric, model="m")
        width, narrow = (each["high"] - each["low"] for each in (found, without))  # type: ignore[operator]
        assert width > narrow, "unequal weights leave less precision"


@pytest.mark.parametrize("threshold", [0.4, "recall", "youden"])
def test_whole_weights_are_repeated_rows(threshold: float | str) -> None:
    cohort, p = simulated(n_labels=3)
    times = np.random.default_rng(4).integers(0, 4, 600)
    again = np.repeat(np.arange(600), times)
    cases = cohort.cases[again].with_columns(pl.Series("case_id", [f"r{k}" for k in range(len(again))]))
    repeated = replace(cohort, cases=cases, y=cohort.y.tocsr()[again].tocsc())
    audit = Performance(n_replicates=100, threshold=threshold)  # type: ignore[arg-type]
    ours = levels(run(audit, weighted(cohort, times), {"m": p}))
    theirs = levels(run(audit, repeated, {"m": p[again]}))
    assert ours.keys() == theirs.keys()
    for key, wanted in theirs.items():
        assert ours[key] == pytest.approx(wanted, abs=1e-9), key


def test_equal_weights_are_none_and_scale_does_not_matter() -> None:
    cohort, p = simulated(n_labels=2)
    audit = Performance(n_replicates=100)
    plain = run(audit, cohort, {"m": p}).estimates
    assert run(audit, weighted(cohort, np.full(600, 7.0)), {"m": p}).estimates.equals(plain)
    weight = np.random.default_rng(5).lognormal(0, 1, 600)
    one, other = (run(audit, weighted(cohort, weight * k), {"m": p}).estimates for k in (1.0, 1e-6))
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(one[column].to_numpy(), other[column].to_numpy(), rtol=1e-9)


def test_a_cohort_without_weights_beside_one_with() -> None:
    home, p = simulated()
    away, q = simulated(name="away", seed=9, split=False)
    weight = np.random.default_rng(6).lognormal(0, 1, 600)
    both = stack([home, weighted(away, weight)])
    result = run(Performance(n_replicates=100, threshold=0.4), both, {"m": np.concatenate([p, q])})
    alone = run(Performance(n_replicates=100, threshold=0.4), home, {"m": p})
    assert value(result, "auroc", group="home")["value"] == value(alone, "auroc")["value"]
    wanted = sk.roc_auc_score(away.y.toarray()[:, 0], q[:, 0], sample_weight=weight)
    assert value(result, "auroc", group="away")["value"] == pytest.approx(wanted, abs=1e-12)
