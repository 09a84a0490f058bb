"""Net benefit against a count of every row, on the data and on the rows drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from palpate.stats import decision_curves, percentile_interval, resample_counts
from palpate.stats.curves import curve_variance

AT = np.array([0.0, 0.1, 0.25, 0.5, 0.9])


def slow(y, p, t):
    if y.size == 0:
        return math.nan
    tp, fp = np.sum(y & (p >= t)), np.sum(~y & (p >= t))
    return tp / y.size - fp / y.size * t / (1 - t)


def cohort(seed, n=200):
    g = np.random.default_rng(seed)
    p = g.random((2, n)).round(2)
    y = g.random(n) < p[0]
    return y, p, g.integers(0, 60, n), g


@pytest.mark.parametrize("restricted", [False, True])
def test_every_replicate_is_the_net_benefit_of_the_rows_drawn(restricted):
    y, p, patient, g = cohort(1)
    rows = g.random(y.size) < 0.5 if restricted else None
    found = decision_curves(y, p, patient=patient, rng=4, thresholds=AT, rows=rows, n_replicates=6)
    used = np.ones(y.size, bool) if rows is None else rows
    counts = resample_counts(rng=4, patient=patient, n_replicates=6)
    for i, count in enumerate([np.ones(y.size, int), *counts]):
        drawn = np.repeat(np.arange(y.size), count * used)
        for k, t in enumerate(AT):
            for model in range(2):
                got = found.net_benefit[model, k] if i == 0 else found.values[model, k, i - 1]
                assert got == pytest.approx(slow(y[drawn], p[model, drawn], t), abs=1e-12)
            everybody = found.treat_all[k] if i == 0 else found.treat_all_values[k, i - 1]
            assert everybody == pytest.approx(slow(y[drawn], np.ones(drawn.size), t), abs=1e-12)


def test_a_perfect_model_is_worth_the_prevalence():
    y = np.array([1, 0, 0, 1, 0])
    found = decision_curves(y, y.astype(float), patient=np.arange(5), rng=1, n_replicates=1)
    assert found.thresholds.size == 99
    np.testing.assert_allclose(found.net_benefit[0], 0.4)


def test_acting_on_a_chance_below_every_probability_is_acting_on_all():
    y, p, patient, _ = cohort(2)
    found = decision_curves(y, p[0], patient=patient, rng=1, thresholds=[0.0], n_replicates=3)
    np.testing.assert_allclose(found.net_benefit[0], found.treat_all)
    np.testing.assert_allclose(found.treat_all, y.mean())


def test_a_model_that_knows_more_than_the_context_is_worth_more():
    g = np.random.default_rng(3)
    history, picture = g.normal(size=(2, 5000))
    both = 1 / (1 + np.exp(1.5 - history - 1.5 * picture))
    y = g.random(5000) < both
    context = np.array([both[np.abs(history - h) < 0.2].mean() for h in history])
    found = decision_curves(y, [both, context], patient=np.arange(5000), rng=5, thresholds=[0.2, 0.4], n_replicates=300)
    low, _ = percentile_interval(found.values[0] - found.values[1])
    assert (low > 0).all()


def test_no_rows_are_nan():
    found = decision_curves([0, 1], [0.2, 0.3], patient=[1, 2], rows=[False, False], rng=1, n_replicates=2)
    assert np.isnan(found.net_benefit).all()
    assert np.isnan(found.values).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"thresholds": [1.0]}, "thresholds"),
        ({"thresholds": [-0.1]}, "thresholds"),
        ({"p_model": [0.1, 1.2]}, r"\[0, 1\]"),
        ({"p_model": [0.1]}, "p_model"),
        ({"rows": [True]}, "rows"),
        ({"patient": [1]}, "patient"),
    ],
)
def test_wrong_input_is_a_value_error(change, words):
    call = {"p_model": [0.1, 0.2], "patient": [1, 2], "rng": 1, "n_replicates": 1, **change}
    with pytest.raises(ValueError, match=words):
        decision_curves([0, 1], call.pop("p_model"), **call)


def test_noise_of_known_curves() -> None:
    ages = np.arange(18.0, 90)
    share = lambda curve: np.divide(*curve_variance(curve))  # noqa: E731
    assert share(0.1 + 0.004 * ages) == pytest.approx(0, abs=1e-20)
    assert share(1 / (1 + np.exp(-(ages - 60) / 8))) < 1e-4
    assert share(np.where(ages < 60, 0.1, 0.3)) == pytest.approx(4 / (3 * 72), rel=0.1)
    assert share(np.where(ages % 2 == 0, 0.1, 0.2)) == pytest.approx(8 / 3, rel=0.02)
    noise = np.random.default_rng(0).normal(size=(4000, 72))
    assert curve_variance(noise).noise.mean() == pytest.approx(1, abs=0.02)
    assert share(noise).mean() == pytest.approx(1, abs=0.02)
    with pytest.raises(ValueError, match="3 points"):
        curve_variance([1.0, 2.0])
