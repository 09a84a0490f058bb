"""The matched bootstrap against the slow way: resample rows, match them, and ask scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from palpate import stats
from palpate.stats import METRICS, NOISE, bootstrap, matched_bootstrap, matched_share, resample_counts

BINS, SPECIFICITY, THRESHOLD = 7, 0.8, 0.4


def cohort(seed, n=80, labels=3, models=2, n_patients=30, decimals=17):
    """The first label is near one half, so the smaller class changes between replicates; the last one is rare."""
    g = np.random.default_rng(seed)
    p = np.clip(g.beta(2, 2, (n, labels)) * np.linspace(1.0, 0.15, labels), 0, 1).round(decimals)
    y = g.random((n, labels)) < p
    y[0], y[1] = True, False
    s = np.clip(0.5 * p + 0.2 * y + g.normal(0.1, 0.2, (models, n, labels)), 0, 1)
    s[:, :, 0] = s[:, :, 0].round(1)
    return y, s, p, g.integers(0, n_patients, n), g


def metrics_of(y, s):
    """By scikit-learn where it has the metric, by the plain functions elsewhere; order of `METRICS`."""
    if y.size == 0:
        return np.full(len(METRICS), math.nan)
    at = {"threshold": THRESHOLD}
    scores = stats.precision_recall_f1(y, s >= THRESHOLD)
    brier = brier_score_loss(y, s)
    return np.array(
        [
            roc_auc_score(y, s),
            average_precision_score(y, s),
            brier,
            1 - brier / (y.mean() * (1 - y.mean())),
            stats.adaptive_calibration_error(y, s, n_bins=BINS),
            stats.sensitivity_at_specificity(y, s, specificity=SPECIFICITY),
            stats.sensitivity_at_threshold(y, s, **at),
            stats.specificity_at_threshold(y, s, **at),
            stats.ppv(y, s, **at),
            stats.npv(y, s, **at),
            scores.precision[0],
            scores.recall[0],
            scores.f1[0],
            scores.precision[1],
            scores.recall[1],
            scores.f1[1],
            y.mean(),
            s.mean(),
        ]
    )


def scipy_pairs(p, y):
    positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
    rows, columns = linear_sum_assignment(np.abs(p[positives][:, None] - p[negatives][None, :]))
    return positives[rows], negatives[columns]


def options(**more):
    return {"metrics": METRICS, "threshold": THRESHOLD, "specificity": SPECIFICITY, "n_bins": BINS, **more}


WEIGHTED = {
    "auroc": lambda y, s, w: roc_auc_score(y, s, sample_weight=w),
    "auprc": lambda y, s, w: average_precision_score(y, s, sample_weight=w),
    "brier": lambda y, s, w: brier_score_loss(y, s, sample_weight=w),
    "sensitivity": lambda y, s, w: np.average(s[y] >= THRESHOLD, weights=w[y]),
    "specificity": lambda y, s, w: np.average(s[~y] < THRESHOLD, weights=w[~y]),
    "adaptive_calibration_error": lambda y, s, w: stats.adaptive_calibration_error(y, s, n_bins=BINS, weight=w),
    "sensitivity_at_specificity": lambda y, s, w: stats.sensitivity_at_specificity(
        y, s, specificity=SPECIFICITY, weight=w
    ),
}


@pytest.mark.parametrize("unit", ["patient", "case"])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize(("decimals", "caliper"), [(17, None), (1, None), (2, 0.03), (1, 0.1)])
def test_every_replicate_is_the_average_matching_of_the_rows_drawn(unit, restricted, decimals, caliper):
    y, s, p, patient, g = cohort(1, decimals=decimals)
    rows = g.random(y.shape) < 0.7 if restricted else np.ones(y.shape, bool)
    call = options(unit=unit, patient=patient, rows=rows, caliper=caliper, n_replicates=7, rng=5)
    found = matched_bootstrap(y, s, np.where(rows, p, math.nan), **{**call, "metrics": tuple(WEIGHTED)})
    for label in range(y.shape[1]):
        counts = resample_counts(rng=5, unit=unit, patient=patient, y_true=y[:, label], n_replicates=7)
        for i, count in enumerate([np.ones(len(y), int), *counts]):
            drawn = np.repeat(np.arange(len(y)), count * rows[:, label])
            share = matched_share(p[drawn, label], y[drawn, label], caliper=caliper)
            for model in range(len(s)):
                got = found.point[model, :, label] if i == 0 else found.values[model, :, label, i - 1]
                values = y[drawn, label], s[model, drawn, label], share
                want = [metric(*values) if share.any() else math.nan for metric in WEIGHTED.values()]
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_names_and_the_order_of_cases_do_not_matter():
    """Before, one of the best matchings was taken, by the names of the cases: an AUROC of 0.65 or 0.70."""
    y, s, p, patient, g = cohort(6, n=300, labels=1, models=1, decimals=1)
    found = matched_bootstrap(y, s, p, patient=patient, n_replicates=0, rng=1).point
    moved = g.permutation(len(y))
    again = matched_bootstrap(y[moved], s[:, moved], p[moved], patient=patient[moved], n_replicates=0, rng=1).point
    assert again == pytest.approx(found, abs=1e-13)


@pytest.mark.parametrize("unit", ["patient", "case"])
def test_without_ties_it_is_what_linear_sum_assignment_gives(unit):
    y, s, p, patient, _ = cohort(2, n=150)
    found = matched_bootstrap(y, s, p, **options(unit=unit, patient=patient, n_replicates=10, rng=6))
    for label in range(y.shape[1]):
        counts = resample_counts(rng=6, unit=unit, patient=patient, y_true=y[:, label], n_replicates=10)
        for i, count in enumerate(counts):
            drawn = np.repeat(np.arange(len(y)), count)
            matched = drawn[np.concatenate(scipy_pairs(p[drawn, label], y[drawn, label]))]
            want = metrics_of(y[matched, label], s[0, matched, label])
            np.testing.assert_allclose(found.values[0, :, label, i], want, rtol=0, atol=1e-12)


def test_patients_of_very_different_sizes():
    """One patient has most rows: some replicates hold far more rows than the data."""
    y, s, p, _, g = cohort(3, n=200, labels=1, models=1)
    patient = np.where(g.random(200) < 0.8, 0, g.integers(1, 20, 200))
    found = matched_bootstrap(y, s, p, **options(patient=patient, n_replicates=30, rng=8))
    counts = resample_counts(rng=8, patient=patient, n_replicates=30)
    assert counts.sum(axis=1).max() > 500
    for i, count in enumerate(counts):
        drawn = np.repeat(np.arange(200), count)
        matched = drawn[np.concatenate(scipy_pairs(p[drawn, 0], y[drawn, 0]))]
        want = metrics_of(y[matched, 0], s[0, matched, 0])
        np.testing.assert_allclose(found.values[0, :, 0, i], want, rtol=0, atol=1e-12)


def test_threads_and_slices_of_labels_change_nothing():
    y, s, p, patient, _ = cohort(4)
    all_of_it = matched_bootstrap(y, s, p, **options(patient=patient, n_replicates=20, rng=9, n_threads=1))
    again = matched_bootstrap(y, s, p, **options(patient=patient, n_replicates=20, rng=9, n_threads=2))
    one = matched_bootstrap(y[:, 1], s[:, :, 1], p[:, 1], **options(patient=patient, n_replicates=20, rng=9))
    np.testing.assert_array_equal(all_of_it.values, again.values)
    np.testing.assert_array_equal(all_of_it.values[:, :, 1:2], one.values)


def planted(g, baseline, n=6000):
    """A history that tells much of the label, a model that reads only it, and one that reads only the image."""
    history = g.normal(size=n)
    p = 1 / (1 + np.exp(baseline - history))
    y = g.random(n) < p
    context_only = 1 / (1 + np.exp(-history - 0.2 * g.normal(size=n)))
    image_only = 1 / (1 + np.exp(-1.5 * y - g.normal(size=n)))
    return y, np.stack([context_only, image_only]), p


def test_a_model_of_the_context_falls_to_one_half_and_one_of_the_image_stays():
    y, s, p = planted(np.random.default_rng(10), baseline=3.0)
    patient = np.arange(y.size)
    whole = bootstrap(y, s, patient=patient, n_replicates=200, rng=11)
    matched = matched_bootstrap(y, s, p, patient=patient, n_replicates=200, rng=11)
    low, high = stats.percentile_interval(matched.values[:, 0, 0] - whole.values[:, 0, 0])
    assert whole.point[0, 0, 0] > 0.7
    assert abs(matched.point[0, 0, 0] - 0.5) < 0.03
    assert high[0] < -0.15
    assert low[1] < 0 < high[1]
    assert high[1] - low[1] < 0.1


def test_where_positives_outnumber_negatives_only_a_caliper_balances():
    """At p above one half there are fewer negatives than positives, so some positives must go far for theirs."""
    y, s, p = planted(np.random.default_rng(10), baseline=0.5)
    patient = np.arange(y.size)
    free = matched_bootstrap(y, s, p, patient=patient, n_replicates=2, rng=11)
    near = matched_bootstrap(y, s, p, caliper=0.01, patient=patient, n_replicates=2, rng=11)
    assert free.point[0, 0, 0] > 0.58
    assert stats.balance(p, y, weight=matched_share(p, y)).auroc > 0.58
    assert abs(near.point[0, 0, 0] - 0.5) < 0.03
    assert matched_share(p, y, caliper=0.01).sum() < matched_share(p, y).sum()


def seen(g, n, reads_history):
    history = g.normal(size=n)
    p = 1 / (1 + np.exp(2 - history))
    y = g.random(n) < p
    return y, 1 / (1 + np.exp(1 - reads_history * history - 1.2 * y - g.normal(size=n))), p


@pytest.mark.slow
@pytest.mark.parametrize("reads_history", [0.8, 0.0])
def test_intervals_cover_and_nothing_is_found_where_nothing_is(reads_history):
    """The truth is that of two million rows. Rows shared by matched and whole make their difference's interval wide."""
    g, n_sets, n = np.random.default_rng(5), 300, 2_000
    y, s, p = seen(g, 2_000_000, reads_history)
    call = {"patient": np.arange(y.size), "rng": 1, "n_replicates": 0}
    truth = matched_bootstrap(y, s, p, **call).point[0, 0, 0]
    fall = truth - bootstrap(y, s, **call).point[0, 0, 0]
    covered, fall_covered, found = 0, 0, 0
    for seed in range(n_sets):
        y, s, p = seen(g, n, reads_history)
        call = {"patient": np.arange(n), "rng": seed, "n_replicates": 400}
        matched = matched_bootstrap(y, s, p, **call).values[0, 0, 0]
        low, high = stats.percentile_interval(matched)
        covered += low <= truth <= high
        low, high = stats.percentile_interval(matched - bootstrap(y, s, **call).values[0, 0, 0])
        fall_covered += low <= fall <= high
        found += not low <= 0 <= high
    assert 0.92 <= covered / n_sets <= 0.98
    assert fall_covered / n_sets >= 0.93
    assert found / n_sets > 0.95 if reads_history else found / n_sets < 0.05


def test_nothing_to_match_is_nan():
    y, s, p, patient, _ = cohort(12)
    one_class = matched_bootstrap(np.zeros(80), s[0, :, 0], p[:, 0], patient=patient, n_replicates=3, rng=1)
    assert np.isnan(one_class.values).all()
    no_rows = matched_bootstrap(y, s, p, rows=np.zeros(80, bool), patient=patient, n_replicates=3, rng=1)
    assert np.isnan(no_rows.values).all()
    assert np.isnan(no_rows.point).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p_context": np.zeros((80, 2))}, "p_context has shape"),
        ({"p_context": np.full(80, math.nan)}, "finite"),
        ({"p_context": np.full(80, 1.2)}, r"\[0, 1\]"),
        ({"caliper": 2.0}, "caliper"),
        ({"metrics": ("accuracy",)}, "unknown metric"),
        ({"metrics": ("ppv",)}, "needs a threshold"),
        ({"patient": None}, "needs patient"),
        ({"n_bins": 0}, "n_bins"),
        ({"specificity": 95}, "specificity"),
    ],
)
def test_wrong_input_is_a_value_error(change, words):
    y, s, p, patient, _ = cohort(14)
    call = {"p_context": p, "patient": patient, "rng": 1, "n_replicates": 2, **change}
    with pytest.raises(ValueError, match=words):
        matched_bootstrap(y, s[0], call.pop("p_context"), **call)


def test_noise_is_measured_against_the_bins_of_the_matched_data():
    y, s, p, patient, _ = cohort(5)
    call = {"metrics": (NOISE, "adaptive_calibration_error"), "patient": patient, "rng": 2, "n_replicates": 5}
    found = matched_bootstrap(y, s, p, **call)
    assert (found.point[:, 0] == 0).all()
    error = found.values[:, 1] - found.point[:, 1, :, None]
    assert (found.values[:, 0] >= np.abs(error) - 1e-12).all()
