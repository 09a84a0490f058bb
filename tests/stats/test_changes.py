"""Changes and trends against slow versions: metrics of both sides, multipliers drawn one by one, least squares."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.linear_model import LinearRegression

from palpate.stats.changes import Excesses, auroc_excesses, change_test, ratio_excesses, trends


def drawn(n: int = 900, n_periods: int = 6, *, seed: int = 0, lost: float = 0.0):  # type: ignore[no-untyped-def]
    """From the middle on, positives score lower by `lost`."""
    rng = np.random.default_rng(seed)
    period = np.sort(rng.integers(0, n_periods, n))
    y = (rng.random(n) < 0.3).astype(np.uint8)
    score = rng.normal(size=n) + y * np.where(period >= n_periods // 2, 1.3 - lost, 1.3)
    return y, score, period, np.arange(n) // 2


def within(y: np.ndarray, score: np.ndarray, period: np.ndarray, rows: np.ndarray) -> float:
    """The mean of the periods' AUROCs, weighted by what each tells."""
    values, weights = [], []
    for k in np.unique(period[rows]):
        here = rows & (period == k)
        m, n = int(y[here].sum()), int((1 - y[here]).sum())
        values.append(sk.roc_auc_score(y[here], score[here]))
        weights.append(m * n / (m + n))
    return float(np.average(values, weights=weights))


def test_a_change_is_the_difference_of_both_sides() -> None:
    y, score, period, patient = drawn(lost=1.3)
    flag = (score > 0.8).astype(float)
    found = change_test(
        [auroc_excesses(y, score, period), ratio_excesses(y * flag, y.astype(float))],
        period,
        patient,
        6,
        rng=np.random.default_rng(0),
        n_draws=2000,
    )
    assert found.after.tolist() == [3, 3]
    after = period >= 3
    expected = within(y, score, period, after) - within(y, score, period, ~after)
    assert found.difference[0] == pytest.approx(expected)
    rates = [sk.recall_score(y[side], flag[side]) for side in (after, ~after)]
    assert found.difference[1] == pytest.approx(rates[0] - rates[1])
    assert (found.p_value < 0.01).all()
    assert (found.high < 0).all()


def test_the_p_value_is_that_of_multipliers_drawn_patient_by_patient() -> None:
    y, score, period, patient = drawn(seed=4)
    metrics = [ratio_excesses(y.astype(float), np.ones(len(y))), ratio_excesses(score, np.ones(len(y)))]
    found = change_test(metrics, period, patient, 6, rng=np.random.default_rng(0), n_draws=20_000)
    rng = np.random.default_rng(1)
    sums = np.zeros((patient.max() + 1, 2 * 5))
    seen = np.zeros(10)
    for k, metric in enumerate(metrics):
        for date in range(1, 6):
            after = period >= date
            weight = np.where(after, 1 / metric.size[after].sum(), -1 / metric.size[~after].sum())
            np.add.at(sums[:, 5 * k + date - 1], patient, metric.excess * weight)
            pooled = np.zeros(patient.max() + 1)
            np.add.at(pooled, patient, metric.excess)
            variance = (pooled**2).sum() / metric.size.sum()
            variance *= 1 / metric.size[after].sum() + 1 / metric.size[~after].sum()
            error = np.sqrt(max((sums[:, 5 * k + date - 1] ** 2).sum(), variance))
            seen[5 * k + date - 1] = abs((metric.excess * weight).sum()) / error
    standard = sums / np.sqrt((sums**2).sum(axis=0))
    highest = np.abs(rng.normal(size=(20_000, len(sums))) @ standard).max(axis=1)
    for k in range(2):
        slow = (highest >= seen[5 * k : 5 * k + 5].max()).mean()
        assert found.p_value[k] == pytest.approx(slow, abs=0.02)


def test_a_shift_of_all_scores_is_no_change_of_the_auroc() -> None:
    y, score, period, patient = drawn(4000, seed=2)
    rng = np.random.default_rng(3)
    more = (period >= 3) & (rng.random(len(y)) < 0.3)
    y = np.where(more, 1, y).astype(np.uint8)  # more positives from the middle on, whose scores do not fit
    score = rng.normal(size=len(y)) + 1.3 * y + np.where(period >= 3, -1.0, 0.0)
    found = change_test([auroc_excesses(y, score, period)], period, patient, 6, rng=rng, n_draws=4000)
    assert found.p_value[0] > 0.05
    assert abs(found.difference[0]) < 0.03


def test_the_interval_excludes_0_exactly_where_the_change_is_significant() -> None:
    told = set()
    for seed in range(25):
        y, score, period, patient = drawn(600, seed=seed, lost=0.6)
        found = change_test(
            [auroc_excesses(y, score, period)], period, patient, 6, rng=np.random.default_rng(seed), n_draws=4000
        )
        outside = not found.low[0] <= 0 <= found.high[0]
        assert outside == (found.p_value[0] < 0.05) or 0.04 < found.p_value[0] < 0.06
        told.add(outside)
    assert told == {True, False}


def test_dates_with_few_patients_on_a_side_are_not_compared() -> None:
    _y, score, period, patient = drawn(60, seed=1)
    rare = np.zeros(60, np.uint8)
    rare[[3, 20, 40]] = 1
    found = change_test([auroc_excesses(rare, score, period)], period, patient, 6, rng=np.random.default_rng(0))
    assert found.after[0] == -1
    assert np.isnan(found.p_value[0])
    assert found.n_dates[0] == 0


def test_what_is_undefined_stays_so_beside_others() -> None:
    _y, score, period, patient = drawn(300)
    nothing = ratio_excesses(np.zeros(300), np.zeros(300))
    both = [nothing, ratio_excesses(score, np.ones(300))]
    found = change_test(both, period, patient, 6, rng=np.random.default_rng(0), n_draws=500)
    assert np.isnan(found.p_value[0])
    assert not np.isnan(found.p_value[1])
    assert np.isnan(trends(both, period.astype(float), patient).slope[0])


def test_a_trend_is_a_straight_line_by_least_squares() -> None:
    y, score, period, patient = drawn(800, seed=7)
    time = period / 4.0
    slow = LinearRegression().fit(time[:, None], score).coef_[0]
    flagged = (score > 0.5).astype(float)
    positive = y == 1
    rate = LinearRegression().fit(time[positive][:, None], flagged[positive]).coef_[0]
    found = trends([ratio_excesses(score, np.ones(800)), ratio_excesses(y * flagged, y.astype(float))], time, patient)
    assert found.slope == pytest.approx([slow, rate])
    assert (found.low < found.slope).all()


def test_the_error_of_a_trend_is_that_of_sandwiched_clusters() -> None:
    sm = pytest.importorskip("statsmodels.api")
    _y, score, period, patient = drawn(800, seed=8)
    fitted = sm.OLS(score, sm.add_constant(period.astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": patient, "use_correction": False}
    )
    found = trends([ratio_excesses(score, np.ones(800))], period.astype(float), patient)
    from scipy.stats import t

    n = 400
    arm = t.ppf(0.975, n - 2) * fitted.bse[1] * np.sqrt(n / (n - 2))
    assert found.high[0] - found.slope[0] == pytest.approx(arm, rel=1e-6)


def test_weights_count_as_copies() -> None:
    y, score, period, _patient = drawn(400, seed=9)
    weight = np.random.default_rng(0).integers(1, 4, 400)
    weighted = auroc_excesses(y, score, period, weight.astype(float))
    copied = auroc_excesses(*(np.repeat(each, weight) for each in (y, score, period)))
    first = np.cumsum(weight) - weight
    assert weighted.excess == pytest.approx(np.add.reduceat(copied.excess, first))
    assert weighted.size == pytest.approx(np.add.reduceat(copied.size, first))
    assert isinstance(weighted, Excesses)
