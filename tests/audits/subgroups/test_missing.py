"""Missing scores in the subgroups audit: counted by group, and left out for all models."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.subgroups import Subgroups
from palpate.cases.cohort import Cohort
from palpate.testing import check_declared
from tests.audits.subgroups.planted import find, planted, run


def test_missing_scores_by_group() -> None:
    cohort, p = planted()
    race = cohort.cases["race"].fill_null("").to_numpy()
    gone = np.random.default_rng(1).random(len(p)) < np.where(race == "b", 0.3, 0.02)
    audit = Subgroups(by=("race",), n_replicates=200, threshold=0.4)
    result = run(audit, cohort, {"m": np.where(gone, np.nan, p), "whole": p})
    check_declared(audit, result)
    for group, rows in {"all": race == race, "race=b": race == "b", "race=a": race == "a"}.items():
        share = find(result, "missing_share", group, model="m")
        assert share["value"] == pytest.approx(gone[rows].mean(), abs=1e-12)
        assert share["low"] <= share["value"] <= share["high"]
        kept = rows & ~gone
        level = find(result, "auroc", group, model="whole")
        assert level["n"] == kept.sum()
        assert level["value"] == pytest.approx(sk.roc_auc_score(cohort.y.toarray()[kept, 0], p[kept]), abs=1e-12)
    assert (
        find(result, "missing_share", "race=b", model="m")["low"]
        > find(result, "missing_share", "all", model="m")["high"]
    )
    assert any("m has no score" in finding.sentence for finding in result.findings)


def two_labels() -> tuple[Cohort, np.ndarray]:
    cohort, p = planted()
    y = cohort.y.toarray()[:, 0]
    frame = cohort.cases.with_columns(ill=pl.Series(y), dead=pl.Series(np.roll(y, 7))).drop("cohort")
    both = Cohort.from_frame(frame, labels=["ill", "dead"], name="home", attributes=["gender", "race", "age"])
    return both, np.stack([p, np.roll(p, 7)], axis=1)


def test_a_score_that_is_missing_for_one_label_takes_nothing_from_the_others() -> None:
    cohort, p = two_labels()
    gone = np.random.default_rng(2).random(len(p)) < 0.2
    q = p.copy()
    q[gone, 1] = np.nan
    audit = Subgroups(by=("gender",), n_replicates=200, threshold=0.4)
    result = run(audit, cohort, {"m": q})
    check_declared(audit, result)
    y, gender = cohort.y.toarray(), cohort.cases["gender"].to_numpy()
    for group, rows in {"all": gender == gender, "gender=f": gender == "f"}.items():
        for j, (label, kept) in enumerate({"ill": rows, "dead": rows & ~gone}.items()):
            level = find(result, "auroc", group, label=label)
            assert level["n"] == kept.sum()
            assert level["value"] == pytest.approx(sk.roc_auc_score(y[kept, j], p[kept, j]), abs=1e-12)
            slope = find(result, "net_benefit", group, label=label)
            assert (slope["n"], slope["reason"]) == (kept.sum(), None)
            patients = find(result, "patients", group, label=label)["value"]
            assert patients == len(np.unique(cohort.patients[kept]))


def test_a_model_without_scores_is_unsettled() -> None:
    cohort, p = two_labels()
    half = p.copy()
    half[:, 1] = np.nan
    audit = Subgroups(by=("gender",), n_replicates=100, threshold=0.4)
    result = run(audit, cohort, {"silent": p * np.nan, "half": half, "whole": p})
    check_declared(audit, result)
    for group in ("all", "gender=f", "gender=m"):
        row = find(result, "auroc", group, model="silent", label="ill")
        assert (row["value"], row["reason"]) == (None, "silent has no score for any audited case")
        assert find(result, "auroc", group, model="half", label="dead")["value"] is None
        assert find(result, "auroc", group, model="half", label="ill")["value"] is not None
        assert find(result, "auroc", group, model="whole", label="dead")["value"] is not None
    for model in ("silent", "half"):
        answers = {answer.question: answer for answer in result.answers if answer.model == model}
        assert set(answers) == {"worse", "missed", "risks"}
        assert answers["worse"].verdict == "unsettled"
        assert ("no score" in str(answers["worse"].reason)) == (model == "silent")
        assert answers["worse"].n_labels == (1 if model == "silent" else 3), "two groups, and the label without scores"
