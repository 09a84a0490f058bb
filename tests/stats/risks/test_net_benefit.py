"""Net benefit against published values, row-by-row sums and resampled patients."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.stats import decision_curves
from palpate.stats.risks.net_benefit import benefit_curves, net_benefit
from palpate.stats.risks.smooth import risk_distribution
from tests.stats.risks.test_core import REFERENCE, drawn, published


@published
def test_values_that_dcurves_states() -> None:
    table = pl.read_csv(REFERENCE / "dcurves_df_binary.csv")
    y = table["cancer"].cast(pl.Float64).to_numpy()
    p = table["cancerpredmarker"].to_numpy()
    assert net_benefit(y, np.ones_like(p), threshold=0.25) == pytest.approx(-0.1466667, abs=1e-6)
    assert net_benefit(y, p, threshold=0.25) == pytest.approx(0.0640000, abs=1e-6)
    found = benefit_curves(y, p, thresholds=[0.25], patient=np.arange(len(y)))
    assert found.benefit.value[:, 0] == pytest.approx([0.064, -0.1466667], abs=1e-6)
    assert found.over_all.value[0, 0] == pytest.approx(0.064 + 0.1466667, abs=1e-6)


@published
def test_dcurves_case_control_by_weights() -> None:
    """A prevalence of 15% in the population, told by weights of cases and controls."""
    table = pl.read_csv(REFERENCE / "dcurves_df_case_control.csv")
    y = table["casecontrol"].cast(pl.Float64).to_numpy()
    p = table["cancerpredmarker"].to_numpy()
    share = y.mean()
    weight = np.where(y == 1, 0.15 / share, 0.85 / (1 - share))
    assert net_benefit(y, np.ones_like(p), threshold=0.25, weight=weight) == pytest.approx(-0.13333333, abs=1e-6)
    assert net_benefit(y, p, threshold=0.25, weight=weight) == pytest.approx(0.01495671, abs=1e-6)


def test_curves_are_those_of_resampled_patients() -> None:
    y, p, patient, _ = drawn(900, notes=3)
    other = np.clip(p + np.random.default_rng(1).normal(scale=0.1, size=p.size), 0, 1)
    at = np.asarray([0.1, 0.3, 0.5])
    fast = benefit_curves(y, np.stack([p, other]), thresholds=at, patient=patient)
    slow = decision_curves(y, np.stack([p, other]), patient=patient, rng=1, thresholds=at, n_replicates=4_000)
    assert fast.benefit.value == pytest.approx(np.vstack([slow.net_benefit, slow.treat_all]), abs=1e-12)
    apart = slow.values[1] - slow.values[0]
    assert fast.pairs[1, 0].value == pytest.approx(slow.net_benefit[1] - slow.net_benefit[0], abs=1e-12)
    width = (fast.pairs[1, 0].high - fast.pairs[1, 0].low) / 2 / 1.96
    assert width == pytest.approx(apart.std(axis=-1), rel=0.15)
    over = (fast.over_all.high - fast.over_all.low)[0] / 2 / 1.96
    assert over == pytest.approx((slow.values[0] - slow.treat_all_values).std(axis=-1), rel=0.2)


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    y, p, patient, _ = drawn(300)
    both = np.stack([p, p**2])
    found = benefit_curves(y, both, thresholds=[0.2, 0.4], patient=patient, members=[[0], [0, 1]])
    alone = benefit_curves(y, both, thresholds=[0.2, 0.4], patient=patient)
    assert found.benefit.value[1] == pytest.approx(alone.benefit.value[:2].mean(axis=0))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.floats(0.1, 5)), min_size=1, max_size=30),
    st.floats(0, 0.99),
)
def test_net_benefit_row_by_row(rows: list[tuple[bool, float, float]], threshold: float) -> None:
    total = sum(
        weight * (1.0 if positive else -threshold / (1 - threshold))
        for positive, risk, weight in rows
        if risk >= threshold
    )
    y, p, weight = (np.asarray(each, float) for each in zip(*rows, strict=True))
    wanted = total / weight.sum()
    assert net_benefit(y, p, threshold=threshold, weight=weight) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("threshold", [-0.1, 1.5])
def test_a_threshold_outside_0_and_1_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold must lie in"):
        net_benefit([0, 1], [0.2, 0.8], threshold=threshold)


def test_nothing_has_a_price_at_a_threshold_of_1() -> None:
    assert np.isnan(net_benefit([0, 1], [0.2, 0.8], threshold=1.0))


def test_distributions_sum_to_one_and_count_rows() -> None:
    y, p, _, weight = drawn(500)
    found = risk_distribution(y, p, n_bins=10, weight=weight)
    assert found.with_outcome.sum() == pytest.approx(1.0)
    assert found.without_outcome.sum() == pytest.approx(1.0)
    first = (p < 0.1) & (y == 1)
    assert found.with_outcome[0] == pytest.approx(weight[first].sum() / weight[y == 1].sum())
    assert np.isnan(risk_distribution([0, 0], [0.1, 0.2]).with_outcome).all()
