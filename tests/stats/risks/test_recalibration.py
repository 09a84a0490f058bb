"""Recalibration against statsmodels and scikit-learn, and on planted truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from palpate.stats import auroc
from palpate.stats.risks.recalibration import METHODS, fit_map
from tests.stats.risks.test_core import drawn, sm


def test_logistic_maps_are_those_of_statsmodels() -> None:
    y, p, _, weight = drawn()
    family = sm.families.Binomial()
    line = sm.GLM(y, sm.add_constant(logit(p)), family=family, freq_weights=weight).fit()
    found = fit_map(y, p, method="slope", weight=weight)
    assert (found.intercept, found.slope) == pytest.approx(tuple(line.params), abs=1e-7)
    assert found.apply(p) == pytest.approx(line.fittedvalues, abs=1e-7)
    large = sm.GLM(y, np.ones_like(y), family=family, offset=logit(p)).fit()
    moved = fit_map(y, p, method="intercept")
    assert (moved.intercept, moved.slope) == pytest.approx((large.params[0], 1.0), abs=1e-7)


def test_isotonic_is_scikit_learns() -> None:
    y, p, _, weight = drawn()
    new = np.linspace(0, 1, 101)
    expected = IsotonicRegression(out_of_bounds="clip").fit(p, y, sample_weight=weight).predict(new)
    expected = np.clip(expected, 1 / (y.size + 2), 1 - 1 / (y.size + 2))  # never a certainty
    assert fit_map(y, p, method="isotonic", weight=weight).apply(new) == pytest.approx(expected, abs=1e-12)


def test_planted_miscalibration_is_undone() -> None:
    g = np.random.default_rng(0)
    truth = g.normal(size=100_000) - 1
    y, p = (g.random(truth.size) < expit(truth)).astype(float), expit(2.0 * truth + 0.5)
    found = fit_map(y, p, method="slope")
    assert (found.intercept, found.slope) == pytest.approx((-0.25, 0.5), abs=0.02)
    for method in ("slope", "isotonic"):
        assert np.abs(fit_map(y, p, method=method).apply(p) - expit(truth)).mean() < 0.01


@pytest.mark.parametrize("method", ["intercept", "slope"])
def test_logistic_maps_keep_the_order(method: str) -> None:
    y, p, _, _ = drawn(500)
    assert auroc(y, fit_map(y, p, method=method).apply(p)) == auroc(y, p)  # type: ignore[arg-type]


def test_no_map_without_both_outcomes() -> None:
    _, p, _, _ = drawn(100)
    assert not any(fit_map(np.zeros(100), p, method=method).known for method in METHODS)


def test_an_unknown_method_is_refused() -> None:
    y, p, _, _ = drawn(100)
    with pytest.raises(ValueError, match="the methods are intercept, slope, isotonic"):
        fit_map(y, p, method="magic")  # type: ignore[arg-type]
