"""Areas and operating points against scikit-learn, and against slow obvious versions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from palpate.stats import (
    auprc,
    auroc,
    operating_point,
    recall_threshold,
    sensitivity_at_specificity,
    sensitivity_at_threshold,
    specificity_at_threshold,
    threshold_at_specificity,
    youden_threshold,
)


@st.composite
def cases(draw, weighted=None):
    """Rows with both classes, many ties, and weights of which some are zero."""
    n = draw(st.integers(2, 40))
    y = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda v: 0 < sum(v) < len(v)))
    levels = draw(st.integers(1, 12))
    s = [v / levels for v in draw(st.lists(st.integers(0, levels), min_size=n, max_size=n))]
    w = None
    if weighted if weighted is not None else draw(st.booleans()):
        w = draw(st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.5, 7.0]), min_size=n, max_size=n))
        w = np.asarray(w)
        for label in (0, 1):
            w[y.index(label)] = 1.0
    return np.asarray(y), np.asarray(s), w


@settings(max_examples=150, deadline=None)
@given(cases())
def test_areas_equal_sklearn(case):
    y, s, w = case
    assert auroc(y, s, weight=w) == pytest.approx(roc_auc_score(y, s, sample_weight=w), abs=1e-12)
    assert auprc(y, s, weight=w) == pytest.approx(average_precision_score(y, s, sample_weight=w), abs=1e-12)


def slow_points(y, s, w):
    """Every threshold, highest first, with its sensitivity and specificity; nothing predicted comes first."""
    w = np.ones(len(y)) if w is None else w
    points = []
    for t in [math.inf, *sorted(set(s[w > 0]), reverse=True)]:
        hit = s >= t
        points.append((t, w[hit & (y == 1)].sum() / w[y == 1].sum(), w[~hit & (y == 0)].sum() / w[y == 0].sum()))
    return points


@settings(max_examples=150, deadline=None)
@given(cases(), st.sampled_from([0.0, 0.5, 0.8, 0.9, 0.95, 1.0]))
def test_operating_point_is_the_best_that_keeps_the_specificity(case, specificity):
    y, s, w = case
    allowed = [p for p in slow_points(y, s, w) if p[2] >= specificity - 1e-12]
    best = max(p[1] for p in allowed)
    assert sensitivity_at_specificity(y, s, specificity=specificity, weight=w) == pytest.approx(best, abs=1e-12)
    t = threshold_at_specificity(y, s, specificity=specificity, weight=w)
    assert t == next(p[0] for p in allowed if p[1] >= best - 1e-12)
    if math.isfinite(t):
        assert specificity_at_threshold(y, s, threshold=t, weight=w) >= specificity - 1e-12
        assert sensitivity_at_threshold(y, s, threshold=t, weight=w) == pytest.approx(best, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([0.0, 0.5, 0.7, 1.0]))
def test_youden_and_recall_thresholds(case, recall):
    y, s, w = case
    points = slow_points(y, s, w)[1:]
    best = max(p[1] + p[2] for p in points)
    assert youden_threshold(y, s, weight=w) == next(p[0] for p in points if p[1] + p[2] >= best - 1e-12)
    expected = next(p[0] for p in points if p[1] >= recall - 1e-12)
    assert recall_threshold(y, s, recall=recall, weight=w) == expected


@pytest.mark.parametrize("n_negative", range(1, 200))
def test_a_specificity_met_exactly_is_met(n_negative):
    """19 of 20 is 95%: no rounding of 0.95 * 20 may push the threshold away, nor let 94.9% through."""
    s = np.append(np.arange(n_negative) / 1000.0, 0.5)
    y = np.append(np.zeros(n_negative), 1)
    s[-1] = s[n_negative - 1 - n_negative // 20] - 0.0005 if n_negative >= 20 else 0.5
    # The positive lies just below the (n // 20 + 1)-th highest negative: reaching it costs one too many.
    assert sensitivity_at_specificity(y, s, specificity=0.95) == (0.0 if n_negative >= 20 else 1.0)
    if n_negative >= 20:
        s[-1] += 0.001  # just above it: n // 20 false positives, at most 5%
        assert sensitivity_at_specificity(y, s, specificity=0.95) == 1.0


def test_nearest_false_positive_rate_is_not_good_enough():
    """The published code takes the rate nearest to 5%, here 1 of 15 = 6.7%; ours may not exceed 5%."""
    y = np.array([0] * 15 + [1] * 2)
    s = np.append(np.linspace(0, 0.9, 15), [0.9, 0.95])
    fpr, tpr, _ = roc_curve(y, s, drop_intermediate=False)
    assert tpr[np.argmin(np.abs(fpr - 0.05))] == 1.0
    assert sensitivity_at_specificity(y, s, specificity=0.95) == 0.5


def test_undefined_is_nan():
    for y in ([0, 0, 0], [1, 1, 1]):
        s = [0.1, 0.2, 0.3]
        assert math.isnan(auroc(y, s))
        assert all(math.isnan(v) for v in operating_point(y, s))
        assert math.isnan(youden_threshold(y, s))
    assert math.isnan(auprc([0, 0], [0.1, 0.2]))
    assert math.isnan(recall_threshold([0, 0], [0.1, 0.2]))
    assert auprc([1, 1], [0.1, 0.2]) == 1.0
    assert math.isnan(auroc([], []))
    assert math.isnan(auroc([0, 1], [0.1, 0.2], weight=[0, 1]))


def test_no_score_keeps_the_specificity():
    point = operating_point([0, 1], [0.9, 0.1], specificity=0.95)
    assert point == (math.inf, 0.0, 1.0)


@pytest.mark.parametrize(
    ("y", "s", "w", "words"),
    [
        ([0, 1, 2], [0.1, 0.2, 0.3], None, "only 0 and 1"),
        ([0, 1, math.nan], [0.1, 0.2, 0.3], None, "only 0 and 1"),
        (["a", "b"], [0.1, 0.2], None, "only 0 and 1"),
        ([0, 1], [0.1, math.nan], None, "finite"),
        ([0, 1], [0.1, 0.2, 0.3], None, "2 rows but y_score has 3"),
        ([[0, 1]], [[0.1, 0.2]], None, "one dimension"),
        ([0, 1], [0.1, 0.2], [1, -1], "negative"),
        ([0, 1], [0.1, 0.2], [1, math.nan], "finite"),
        ([0, 1], [0.1, 0.2], [1], "shape"),
    ],
)
def test_wrong_input_is_a_value_error(y, s, w, words):
    with pytest.raises(ValueError, match=words):
        auroc(y, s, weight=w)


def test_wrong_fractions():
    with pytest.raises(ValueError, match="specificity"):
        operating_point([0, 1], [0.1, 0.2], specificity=95)
    with pytest.raises(ValueError, match="recall"):
        recall_threshold([0, 1], [0.1, 0.2], recall=-0.1)


@pytest.mark.parametrize("digits", [1, 2, 12])
def test_thresholds_without_weights_are_those_with_equal_ones(digits):
    rng = np.random.default_rng(digits)
    for share in (0.02, 0.3, 0.5, 0.97):
        for _ in range(25):
            y, p = rng.random(40) < share, rng.random(40).round(digits)
            np.testing.assert_equal(youden_threshold(y, p), youden_threshold(y, p, weight=np.ones(40)))
