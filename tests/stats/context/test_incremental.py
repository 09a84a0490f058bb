"""What a model adds to the context: planted truths, and no gain from fitting alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from palpate.stats import combine_logits, context_gain, percentile_interval, resample_counts
from palpate.stats.context.incremental import patient_folds


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cohort(seed, n=1500, picture=1.2):
    """A label of history and picture; the scores know one each."""
    g = np.random.default_rng(seed)
    history, image = g.normal(size=(2, n))
    y = g.random(n) < sigmoid(-1 + history + picture * image)
    return y, sigmoid(image - 1), sigmoid(history - 1), g.integers(0, n // 3, n), g


def test_folds_keep_patients_whole_and_share_out_the_positives():
    g = np.random.default_rng(1)
    patient, positive = g.integers(0, 90, 300), g.random(300) < 0.03
    fold = patient_folds(patient, positive, n_folds=5, rng=g)
    for one in np.unique(patient):
        assert np.unique(fold[patient == one]).size == 1
    with_positive = [np.unique(patient[positive & (fold == k)]).size for k in range(5)]
    assert max(with_positive) - min(with_positive) <= 1


def test_both_is_the_out_of_fold_logistic_regression():
    y, s, p, patient, _ = cohort(2, n=300)
    found = combine_logits(y, s, p, patient=patient, rng=np.random.default_rng(3))
    fold = patient_folds(patient, y, n_folds=5, rng=np.random.default_rng(3))
    x = np.column_stack([logit(s), logit(p)])
    for k in range(5):
        known = fold != k
        mean, spread = x[known].mean(axis=0), x[known].std(axis=0)
        fit = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit((x[known] - mean) / spread, y[known])
        want = fit.predict_proba((x[~known] - mean) / spread)[:, 1]
        np.testing.assert_allclose(found[~known], want, atol=1e-5)


def test_replicates_are_aurocs_of_the_rows_drawn():
    y, s, p, patient, _ = cohort(4, n=300)
    found = context_gain(y, s, p, patient=patient, rng=6, n_replicates=4)
    counts = resample_counts(rng=6, patient=patient, n_replicates=4)
    for i, count in enumerate(counts):
        drawn = np.repeat(np.arange(300), count)
        for k, score in enumerate([p, s, found.p_both[:, 0]]):
            assert found.values[k, 0, i] == pytest.approx(roc_auc_score(y[drawn], score[drawn]), abs=1e-12)
    np.testing.assert_array_equal(found.gain_values, found.values[2] - found.values[0])
    np.testing.assert_array_equal(found.gain, found.point[2] - found.point[0])


def test_a_model_of_the_image_adds_and_a_model_of_the_context_does_not():
    y, s, p, patient, g = cohort(7)
    found = context_gain(y, s, p, patient=patient, rng=8, n_replicates=400)
    low, _ = percentile_interval(found.gain_values)
    assert low[0] > 0.05
    assert found.point[2, 0] > found.point[:2, 0].max()
    copy = sigmoid(logit(p) + 0.3 * g.normal(size=p.size))
    nothing = context_gain(y, copy, p, patient=patient, rng=8, n_replicates=400)
    low, high = percentile_interval(nothing.gain_values)
    assert low[0] < 0.003
    assert abs(nothing.gain[0]) < 0.01
    assert high[0] < 0.02


def test_noise_does_not_gain_by_being_fitted():
    """Fitted and judged on the same 60 rows, noise would gain 0.02 on average."""
    gains, optimistic = [], []
    for seed in range(40):
        y, _, p, _, g = cohort(100 + seed, n=60, picture=0.0)
        noise = g.random(60)
        if y.sum() < 5:
            continue
        gains.append(context_gain(y, noise, p, patient=np.arange(60), rng=seed, n_replicates=0).gain[0])
        x = np.column_stack([logit(noise), logit(p)])
        fit = LogisticRegression(solver="newton-cholesky").fit(x, y)
        optimistic.append(roc_auc_score(y, fit.decision_function(x)) - roc_auc_score(y, p))
    assert np.mean(optimistic) > 0.005
    assert np.mean(gains) < 0.0


def test_labels_and_rows():
    y, s, p, patient, g = cohort(9, n=400)
    two_y, two_s, two_p = np.stack([y, np.zeros(400, bool)], 1), np.stack([s, s], 1), np.stack([p, p], 1)
    rows = g.random(400) < 0.7
    two_p[~rows] = np.nan
    found = context_gain(two_y, two_s, two_p, patient=patient, rows=rows, rng=1, n_replicates=3)
    assert np.isnan(found.values[:, 1]).all()
    assert np.isfinite(found.values[:, 0]).all()
    assert (np.isnan(found.p_both[:, 0]) == ~rows).all()
    assert found.point[0, 0] == pytest.approx(roc_auc_score(y[rows], p[rows]))


def test_too_few_positives_to_fit_leave_both_undefined():
    _y, s, p, patient, _ = cohort(10, n=60)
    alone = np.zeros(60, bool)
    alone[3] = True
    found = context_gain(alone, s, p, patient=patient, rng=1, n_replicates=2)
    assert np.isfinite(found.point[:2, 0]).all()
    assert np.isnan(found.point[2, 0])
    assert np.isnan(found.gain[0])


def test_classes_told_apart_without_error_can_be_fitted():
    y = np.tile([True, False], 30)
    found = context_gain(y, np.where(y, 1.0, 0.0), np.full(60, 0.5), patient=np.arange(60), rng=1, n_replicates=2)
    assert found.point[:, 0].tolist() == [0.5, 1.0, 1.0]


def test_wrong_input_is_a_value_error():
    y, s, p, patient, _ = cohort(11, n=60)
    with pytest.raises(ValueError, match="one model"):
        context_gain(y, np.stack([s, s]), p, patient=patient, rng=1)
    with pytest.raises(ValueError, match="n_folds"):
        context_gain(y, s, p, patient=patient, rng=1, n_folds=1)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        context_gain(y, s * 3, p, patient=patient, rng=1)
