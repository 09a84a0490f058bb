"""Re-weighting against its formula, against scikit-learn on the rows drawn, and against samples of the target."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from palpate import stats
from palpate.stats import (
    METRICS,
    NOISE,
    WeightLimits,
    balance,
    bootstrap,
    context_weights,
    effective_size,
    error_interval,
    percentile_interval,
    resample_counts,
    reweighted_bootstrap,
    weight_warnings,
)

BINS, SPECIFICITY, THRESHOLD = 6, 0.8, 0.4
LOW, HIGH = 0.05, 0.9


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cohort(seed, n=90, labels=3, models=2, n_patients=35):
    g = np.random.default_rng(seed)
    p = sigmoid(g.normal(-0.8, 1.2, (n, labels)))
    y = g.random((n, labels)) < p
    y[0], y[1] = True, False
    s = np.clip(0.5 * p + 0.2 * y + g.normal(0.1, 0.2, (models, n, labels)), 0, 1)
    s[:, :, 0] = s[:, :, 0].round(1)
    return y, s, p, g.integers(0, n_patients, n), g


def metrics_of(y, s, w):
    """By scikit-learn where it has the metric, by the plain functions elsewhere; order of `METRICS`."""
    at = {"threshold": THRESHOLD, "weight": w}
    scores = stats.precision_recall_f1(y, s >= THRESHOLD, weight=w)
    brier, prevalence = brier_score_loss(y, s, sample_weight=w), np.average(y, weights=w)
    return np.array(
        [
            roc_auc_score(y, s, sample_weight=w),
            average_precision_score(y, s, sample_weight=w),
            brier,
            1 - brier / (prevalence * (1 - prevalence)),
            stats.adaptive_calibration_error(y, s, n_bins=BINS, weight=w),
            stats.sensitivity_at_specificity(y, s, specificity=SPECIFICITY, weight=w),
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
            prevalence,
            np.average(s, weights=w),
        ]
    )


def options(**more):
    return {"metrics": METRICS, "threshold": THRESHOLD, "specificity": SPECIFICITY, "n_bins": BINS, **more}


def test_weights_are_the_ratio_row_by_row():
    p, y = np.array([0.2, 0.5, 0.0, 1.0]), np.array([1, 0, 1, 1])
    found = context_weights(p, y)
    raw = np.array([0.75 / 0.2, 0.25 / 0.5, 0.75 / 0.001, 0.75 / 0.999])
    np.testing.assert_allclose(found.weight, raw * 4 / raw.sum(), rtol=1e-14)
    assert found.weight.sum() == pytest.approx(4)
    assert found.prevalence == 0.75
    assert found.n_clipped == 2
    assert found.effective_size == pytest.approx(raw.sum() ** 2 / (raw**2).sum())
    assert found.effective_positives == pytest.approx(raw[y == 1].sum() ** 2 / (raw[y == 1] ** 2).sum())
    assert found.effective_negatives == pytest.approx(1.0)


def test_prevalence_of_the_training_set():
    p, y = np.array([0.2, 0.5, 0.4]), np.array([1, 0, 1])
    raw = np.array([0.1 / 0.2, 0.9 / 0.5, 0.1 / 0.4])
    np.testing.assert_allclose(context_weights(p, y, prevalence=0.1).weight, raw * 3 / raw.sum(), rtol=1e-14)


def test_a_context_that_says_nothing_gives_equal_weights():
    y = np.array([1, 0, 0, 0])
    found = context_weights(np.full(4, 0.25), y)
    np.testing.assert_allclose(found.weight, 1.0)
    assert found.effective_size == pytest.approx(4)


def test_no_rows_and_one_class():
    empty = context_weights([], [])
    assert empty.weight.size == 0
    assert math.isnan(empty.effective_size)
    one = context_weights([0.5, 0.2], [0, 0])
    assert np.isfinite(one.weight).all()
    assert math.isnan(one.effective_positives)
    assert weight_warnings([0.5, 0.2], [0, 0], one.weight) == ()


def test_effective_size_is_the_number_of_equal_weights():
    assert effective_size(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_size([1.0, 0.0, 0.0]) == 1.0
    assert math.isnan(effective_size([0.0, 0.0]))


@pytest.mark.parametrize("unit", ["patient", "case"])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("prevalence", [None, 0.2])
def test_every_replicate_has_the_weights_of_the_rows_drawn(unit, restricted, prevalence):
    y, s, p, patient, g = cohort(1)
    rows = g.random(y.shape) < 0.8 if restricted else np.ones(y.shape, bool)
    found = reweighted_bootstrap(
        y,
        s,
        np.where(rows, p, math.nan),
        **options(
            unit=unit,
            patient=patient,
            rows=rows,
            clip=(LOW, HIGH),
            prevalence=prevalence,
            n_replicates=7,
            rng=5,
        ),
    )
    for label in range(y.shape[1]):
        counts = resample_counts(rng=5, unit=unit, patient=patient, y_true=y[:, label], n_replicates=7)
        for i, count in enumerate([np.ones(len(y), int), *counts]):
            drawn = np.repeat(np.arange(len(y)), count * rows[:, label])
            weight = context_weights(p[drawn, label], y[drawn, label], clip=(LOW, HIGH), prevalence=prevalence).weight
            for model in range(len(s)):
                got = found.point[model, :, label] if i == 0 else found.values[model, :, label, i - 1]
                want = metrics_of(y[drawn, label], s[model, drawn, label], weight)
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_by_cases_it_is_the_weighted_bootstrap():
    """Cases are drawn within the classes, so P(Y) does not change and the weights may be fixed beforehand."""
    y, s, p, _, _ = cohort(2)
    weight = np.column_stack([context_weights(p[:, k], y[:, k]).weight for k in range(3)])
    fixed = bootstrap(y, s, weight=weight, **options(unit="case", n_replicates=20, rng=3))
    found = reweighted_bootstrap(y, s, p, **options(unit="case", n_replicates=20, rng=3))
    np.testing.assert_allclose(found.values, fixed.values, rtol=0, atol=1e-12)


SPREAD = 0.8  # of the histories: the wider, the heavier the weights' tails


def observed(g, n):
    """P: the history raises the label, and the model reads the history too."""
    history = g.normal(-1.2, SPREAD, n)
    p = sigmoid(history)
    y = g.random(n) < p
    return y, image(g, y, history), p


def target(g, n):
    """Q: the same histories, labels of the same prevalence that do not depend on them, the same images."""
    history = g.normal(-1.2, SPREAD, n)
    y = g.random(n) < sigmoid(g.normal(-1.2, SPREAD, 2_000_000)).mean()
    return y, image(g, y, history)


def image(g, y, history):
    """Too high a probability, so that the calibration error is more than what noise makes of none."""
    return sigmoid(0.2 + 0.9 * history + 1.2 * y + 0.8 * g.normal(size=y.size))


NAMES = ("auroc", "sensitivity", "specificity", "adaptive_calibration_error", "brier_skill_score", "auprc")


def truth_of_target():
    y, s = target(np.random.default_rng(77), 2_000_000)
    at = {"threshold": THRESHOLD}
    return np.array(
        [
            stats.auroc(y, s),
            stats.sensitivity_at_threshold(y, s, **at),
            stats.specificity_at_threshold(y, s, **at),
            stats.adaptive_calibration_error(y, s),
            stats.brier_skill_score(y, s),
            stats.auprc(y, s),
        ]
    )


def test_weighted_metrics_converge_to_those_of_the_target():
    truth = truth_of_target()
    y, s, p = observed(np.random.default_rng(7), 400_000)
    call = {"metrics": NAMES, "threshold": THRESHOLD, "patient": np.arange(y.size), "n_replicates": 0, "rng": 1}
    found = reweighted_bootstrap(y, s, p, **call).point[0, :, 0]
    plain = bootstrap(y, s, **call).point[0, :, 0]
    np.testing.assert_allclose(found, truth, atol=0.012)
    # The calibration error happens to be alike in both; everything else must really have been corrected.
    assert (np.delete(np.abs(plain - truth), NAMES.index("adaptive_calibration_error")) > 0.03).all()
    after = balance(p, y, weight=context_weights(p, y).weight)
    assert balance(p, y).auroc > 0.7
    assert abs(after.auroc - 0.5) < 0.01
    assert abs(after.smd) < 0.05


def test_a_calibration_error_that_only_the_target_has():
    """A model that leans on the history is calibrated while the history tells the label, and not when it does not."""
    g = np.random.default_rng(11)
    n = 200_000
    history = g.normal(-1.2, 1.2, n)
    p = sigmoid(history)

    def lean(y):
        return sigmoid(-0.4 + 1.3 * history + 1.2 * y + 0.8 * g.normal(size=n))

    y, y_target = g.random(n) < p, g.random(n) < p.mean()
    s, truth = lean(y), stats.adaptive_calibration_error(y_target, lean(y_target))
    call = {"metrics": ("adaptive_calibration_error",), "patient": np.arange(n), "n_replicates": 0, "rng": 1}
    assert reweighted_bootstrap(y, s, p, **call).point.item() == pytest.approx(truth, abs=0.006)
    assert abs(bootstrap(y, s, **call).point.item() - truth) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("n", [1_500, 4_000])
def test_intervals_cover_the_truth_of_the_target(n):
    truth, g, n_sets = truth_of_target(), np.random.default_rng(8), 400
    inside, error = np.zeros(len(NAMES)), NAMES.index("adaptive_calibration_error")
    for _ in range(n_sets):
        y, s, p = observed(g, n)
        call = {"metrics": (*NAMES, NOISE), "threshold": THRESHOLD, "patient": np.arange(n), "n_replicates": 500}
        found = reweighted_bootstrap(y, s, p, rng=g, **call)
        point, values = found.point[0, :, 0], found.values[0, :, 0]
        low, high = percentile_interval(values[:-1])
        low[error], high[error] = error_interval(point[error], values[error], values[-1])
        inside += (low <= truth) & (truth <= high)
    assert (inside / n_sets >= 0.91).all(), dict(zip(NAMES, inside / n_sets, strict=True))
    assert (np.delete(inside, error) / n_sets <= 0.985).all(), dict(zip(NAMES, inside / n_sets, strict=True))


def test_noise_is_measured_against_the_bins_of_the_weighted_data():
    y, s, p, patient, _ = cohort(5)
    call = {"metrics": (NOISE, "adaptive_calibration_error"), "patient": patient, "rng": 2, "n_replicates": 5}
    found = reweighted_bootstrap(y, s, p, **call)
    assert (found.point[:, 0] == 0).all()
    error = found.values[:, 1] - found.point[:, 1, :, None]
    assert (found.values[:, 0] >= np.abs(error) - 1e-12).all()


def kinds(p, y, **more):
    return {w.kind for w in weight_warnings(p, y, context_weights(p, y).weight, **more)}


def test_no_warning_where_all_is_well():
    y, _, p = observed(np.random.default_rng(9), 5_000)
    assert kinds(np.clip(p, 0.05, 0.9), y) == set()


def test_a_context_that_decides_the_label_has_no_overlap():
    p = np.concatenate([np.linspace(0.01, 0.2, 50), np.linspace(0.8, 0.99, 50)])
    assert "no_overlap" in kinds(p, np.repeat([0, 1], 50))


def test_one_surprising_row_holds_the_weight():
    p = np.append(np.full(400, 0.5), [0.001])
    y = np.append(np.tile([0, 1], 200), [1])
    assert {"extreme_weight", "effective_size"} <= kinds(p, y)


def test_an_uncalibrated_context_is_unbalanced():
    g = np.random.default_rng(10)
    history = g.normal(size=4000)
    y = g.random(4000) < sigmoid(2 * history)
    assert "unbalanced" in kinds(sigmoid(0.3 * history), y)
    assert "unbalanced" not in kinds(sigmoid(0.3 * history), y, limits=WeightLimits(unbalanced=0.5))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clip": (0.0, 0.9)}, "clip"),
        ({"clip": (0.9, 0.1)}, "clip"),
        ({"prevalence": 1.0}, "prevalence"),
        ({"p_context": [0.5]}, "same number of rows"),
        ({"p_context": [0.5, math.nan]}, "finite"),
        ({"p_context": [0.5, 2.0]}, r"\[0, 1\]"),
    ],
)
def test_wrong_input_is_a_value_error(change, words):
    call = {"p_context": [0.5, 0.4], "y_true": [0, 1], **change}
    with pytest.raises(ValueError, match=words):
        context_weights(call.pop("p_context"), call.pop("y_true"), **call)


def test_wrong_prevalences_of_the_bootstrap():
    y, s, p, patient, _ = cohort(11)
    with pytest.raises(ValueError, match="prevalence has shape"):
        reweighted_bootstrap(y, s, p, patient=patient, rng=1, n_replicates=1, prevalence=[0.1, 0.2])
    with pytest.raises(ValueError, match="p_context has shape"):
        reweighted_bootstrap(y, s, p[:, :2], patient=patient, rng=1, n_replicates=1)
