"""Decision rules against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from palpate.stats import (
    confusion,
    npv,
    ppv,
    precision_recall_f1,
    sensitivity_at_threshold,
    specificity_at_threshold,
)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_equal_sklearn(seed, weighted):
    g = np.random.default_rng(seed)
    y, s = g.integers(0, 2, 60), g.random(60).round(1)
    w = g.random(60) if weighted else None
    pred = (s >= 0.4).astype(int)
    tn, fp, fn, tp = confusion_matrix(y, pred, sample_weight=w).ravel()
    assert confusion(y, pred, weight=w) == pytest.approx((tp, fp, tn, fn), abs=1e-12)
    precision, recall, f1, support = precision_recall_fscore_support(y, pred, sample_weight=w)
    ours = precision_recall_f1(y, pred, weight=w)
    np.testing.assert_allclose(ours.precision, precision, atol=1e-12)
    np.testing.assert_allclose(ours.recall, recall, atol=1e-12)
    np.testing.assert_allclose(ours.f1, f1, atol=1e-12)
    np.testing.assert_allclose(ours.support, support, atol=1e-12)
    assert ppv(y, s, threshold=0.4, weight=w) == pytest.approx(precision[1], abs=1e-12)
    assert npv(y, s, threshold=0.4, weight=w) == pytest.approx(precision[0], abs=1e-12)
    assert sensitivity_at_threshold(y, s, threshold=0.4, weight=w) == pytest.approx(recall[1], abs=1e-12)
    assert specificity_at_threshold(y, s, threshold=0.4, weight=w) == pytest.approx(recall[0], abs=1e-12)


def test_a_score_on_the_threshold_is_positive():
    assert confusion([1, 0], np.array([0.5, 0.4]) >= 0.5) == (1, 0, 1, 0)
    assert sensitivity_at_threshold([1, 0], [0.5, 0.4], threshold=0.5) == 1.0
    assert specificity_at_threshold([1, 0], [0.5, 0.5], threshold=0.5) == 0.0


def test_undefined_is_nan_and_a_perfect_f1_is_1():
    scores = precision_recall_f1([0, 0], [0, 0])
    assert np.isnan([scores.precision[1], scores.recall[1], scores.f1[1]]).all()
    assert (scores.precision[0], scores.recall[0], scores.f1[0]) == (1.0, 1.0, 1.0)
    assert precision_recall_f1([1, 0], [0, 0]).f1[1] == 0.0
    assert math.isnan(ppv([1, 0], [0.1, 0.2], threshold=0.5))
    assert math.isnan(npv([1, 0], [0.1, 0.2], threshold=0.0))
    assert math.isnan(ppv([1, 0], [0.1, 0.2], threshold=math.nan))


def test_predictions_must_be_0_or_1():
    with pytest.raises(ValueError, match="y_pred"):
        confusion([0, 1], [0.2, 0.7])
