"""Point estimates against fairlearn's MetricFrame and fairness metrics, on the public readmission table."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.subgroups import Subgroups
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult
from tests.audits.subgroups.planted import find, run
from tests.data.published import READMISSION

pytestmark = pytest.mark.skipif(not READMISSION.exists(), reason="the public readmission table is not on this machine")
fairlearn: Any = pytest.importorskip("fairlearn.metrics", reason="fairlearn is not installed")
THRESHOLD = 0.5


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    frame = pl.read_csv(READMISSION, infer_schema_length=None, null_values=["?"])
    # A risk from the numbers of earlier visits, so that its quality differs between groups as it happens.
    visits = frame["number_inpatient"] + 0.5 * frame["number_emergency"] + 0.3 * frame["number_diagnoses"]
    risk = 1 / (1 + np.exp(-(visits.to_numpy() - 2.5)))
    return frame.select(
        pl.col("encounter_id").alias("case_id"),
        pl.col("patient_nbr").alias("patient_id"),
        "gender",
        "race",
        "age",
        (pl.col("readmitted") != "NO").cast(pl.Int64).alias("readmitted"),
        pl.Series("risk", risk),
    )


@pytest.fixture(scope="module")
def result(table: pl.DataFrame) -> AuditResult:
    cohort = Cohort.from_frame(table.drop("risk"), labels=["readmitted"], attributes=["gender", "race", "age"])
    audit = Subgroups(by=("gender", "race", "age", ("gender", "race")), threshold=THRESHOLD, n_replicates=100)
    return run(audit, cohort, {"visits": table["risk"].to_numpy()})


def told(table: pl.DataFrame, by: list[str]) -> dict[str, np.ndarray]:
    return {name: table[name].fill_null("missing").to_numpy() for name in by}


@pytest.mark.parametrize("by", [["gender"], ["race"], ["age"], ["gender", "race"]], ids=" × ".join)
def test_every_group_of_metric_frame(table: pl.DataFrame, result: AuditResult, by: list[str]) -> None:
    y, score = table["readmitted"].to_numpy(), table["risk"].to_numpy()
    groups, flagged = told(table, by), score >= THRESHOLD
    decided = fairlearn.MetricFrame(
        metrics={
            "sensitivity": fairlearn.true_positive_rate,
            "specificity": fairlearn.true_negative_rate,
            "ppv": sk.precision_score,
            "flag_rate": fairlearn.selection_rate,
            "n": fairlearn.count,
        },
        y_true=y,
        y_pred=flagged,
        sensitive_features=groups,
    ).by_group
    seen = 0
    for key, row in decided.iterrows():
        values = key if isinstance(key, tuple) else (key,)
        name = ", ".join(f"{attribute}={value}" for attribute, value in zip(by, values, strict=True))
        if np.isnan(row["n"]):
            continue  # fairlearn lists combinations that do not occur
        ours = find(result, "auroc", name)
        assert ours["n"] == row["n"]
        if (ours["reason"] or "").startswith("not enough"):
            continue
        seen += 1
        rows = np.all([groups[attribute] == value for attribute, value in zip(by, values, strict=True)], axis=0)
        assert ours["value"] == pytest.approx(sk.roc_auc_score(y[rows], score[rows]), abs=1e-12)
        for metric in ("sensitivity", "specificity", "ppv", "flag_rate"):
            assert find(result, metric, name)["value"] == pytest.approx(row[metric], abs=1e-12), (name, metric)
    assert seen >= 2


def test_fairness_summaries_are_fairlearns(table: pl.DataFrame, result: AuditResult) -> None:
    """For race, all of whose groups have enough patients; predictive parity has no function in fairlearn."""
    y, flagged = table["readmitted"].to_numpy(), table["risk"].to_numpy() >= THRESHOLD
    races = told(table, ["race"])["race"]
    for name in ("demographic_parity", "equalized_odds", "equal_opportunity"):
        for kind in ("difference", "ratio"):
            theirs = getattr(fairlearn, f"{name}_{kind}")(y, flagged, sensitive_features=races)
            row = find(result, f"{name}_{kind}", "race")
            assert row["value"] == pytest.approx(theirs, abs=1e-12), (name, kind)
            assert row["low"] <= row["value"] <= row["high"], (name, kind)
    precision = fairlearn.MetricFrame(metrics=sk.precision_score, y_true=y, y_pred=flagged, sensitive_features=races)
    assert find(result, "predictive_parity_difference", "race")["value"] == pytest.approx(precision.difference())
    assert find(result, "predictive_parity_ratio", "race")["value"] == pytest.approx(precision.ratio())


def test_missing_races_are_a_group(table: pl.DataFrame, result: AuditResult) -> None:
    assert find(result, "auroc", "race=missing")["n"] == table["race"].null_count()
