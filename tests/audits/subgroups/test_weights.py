"""Sampling weights in the subgroups audit: scikit-learn's `sample_weight` group by group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.subgroups import Subgroups
from palpate.audits.subgroups.measures import METRICS
from palpate.stats import adaptive_calibration_error
from tests.audits.subgroups.planted import find, planted, run


def test_every_metric_of_a_group_is_weighted() -> None:
    cohort, p = planted(worse=0.3)
    weight = np.random.default_rng(2).lognormal(0, 1, len(p))
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    result = run(Subgroups(by=("race",), n_replicates=200, threshold=0.4), weighted, {"m": p})
    for group, rows in {"all": None, "race=b": cohort.cases["race"] == "b"}.items():
        mask = np.ones(len(p), bool) if rows is None else rows.fill_null(False).to_numpy()
        y, score, w = cohort.y.toarray()[mask, 0], p[mask], weight[mask]
        tn, fp, fn, tp = sk.confusion_matrix(y, score >= 0.4, sample_weight=w).ravel()
        observed, predicted = np.average(y, weights=w), np.average(score, weights=w)
        expected = {
            "auroc": sk.roc_auc_score(y, score, sample_weight=w),
            "auprc": sk.average_precision_score(y, score, sample_weight=w),
            "sensitivity": tp / (tp + fn),
            "specificity": tn / (tn + fp),
            "ppv": tp / (tp + fp),
            "npv": tn / (tn + fn),
            "flag_rate": (tp + fp) / w.sum(),
            "brier": sk.brier_score_loss(y, score, sample_weight=w),
            "oe_ratio": observed / predicted,
            "calibration_in_the_large": observed - predicted,
            "adaptive_calibration_error": adaptive_calibration_error(y, score, weight=w),
            "prevalence": observed,
            "mean_score": predicted,
        }
        assert set(expected) <= set(METRICS)
        for metric, wanted in expected.items():
            row = find(result, metric, group, model="m")
            assert row["value"] == pytest.approx(wanted, abs=1e-9), metric
            assert row["low"] <= row["value"] <= row["high"], metric
            assert row["n"] == mask.sum(), "cases are counted, not weighed"


def test_cases_of_weight_0_are_not_counted_as_patients_or_events() -> None:
    cohort, p = planted()
    few = np.flatnonzero((cohort.cases["race"].fill_null("") == "c").to_numpy())
    weight = np.ones(len(cohort))
    weight[few[3:]] = 0.0
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    result = run(Subgroups(by=("race",), n_replicates=100, threshold=0.4), weighted, {"m": p})
    row = find(result, "auroc", "race=c", model="m")
    assert (row["value"], row["n"]) == (None, 3)
    assert "at least 10 are needed" in row["reason"]
    weight[few] = 0.0
    without = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    result = run(Subgroups(by=("race",), n_replicates=100, threshold=0.4), without, {"m": p})
    assert "race=c" not in result.estimates["group"].unique().to_list(), "nobody of the population is in it"
