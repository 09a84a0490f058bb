"""Estimate rows: what is not finite is null, too few units have no interval, and a mean is resampled by patient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from palpate.audits.kit.resampling import Correction
from palpate.kit import Estimate, EstimateIndex, RowWriter, corrected, mean_with_interval, pairs_of
from palpate.stats import resample_counts

WRITER = RowWriter("toy", level=0.9)


def test_what_is_not_finite_is_null_and_has_no_interval() -> None:
    row = WRITER.row("m", "change", "l", "g", np.nan, n=3, interval=(0.1, 0.2), p_value=0.5, reason="nothing")
    assert (row.value, row.low, row.high, row.p_value, row.level, row.reason) == (None,) * 4 + (0.9, "nothing")
    half = WRITER.row("m", "change", "l", "g", 1.0, n=3, interval=(np.nan, 0.2))
    assert (half.value, half.low, half.high) == (1.0, None, None)
    assert WRITER.row("m", "change", "l", "g", 1.0, n=3).level is None


def test_too_few_units_have_neither_interval_nor_test() -> None:
    row = WRITER.row("m", "change", "l", "g", 1.0, n=3, interval=(0.5, 1.5), p_value=0.01)
    assert WRITER.enough(row, 10, tested=True) == row
    tested = WRITER.enough(row, 9, "templates", tested=True)
    assert (tested.low, tested.p_value, tested.reason) == (0.5, None, "not tested: fewer than 10 templates")
    alone = WRITER.enough(row, 1)
    assert (alone.low, alone.high, alone.reason) == (None, None, "no interval: fewer than 2 patients")


def test_a_mean_is_that_of_rows_resampled_by_patient() -> None:
    rng = np.random.default_rng(0)
    patients = rng.integers(0, 30, 200)
    values = rng.normal(size=200) + patients / 10
    values[::7] = np.nan
    found = mean_with_interval(values, patients, rng=5, n_replicates=500, level=0.9)
    known = ~np.isnan(values)
    names, code = np.unique(patients, return_inverse=True)
    counts = resample_counts(rng=5, n_replicates=500, patient=np.arange(len(names)))
    slow = [np.repeat(values[known], drawn[code[known]]).mean() for drawn in counts]
    k = len(names)
    t, error = stats.t.ppf(0.95, k - 1), np.std(slow, ddof=1) * np.sqrt(k / (k - 1))
    tail = stats.skew(slow) * (1 + 2 * t * t) / 6
    assert found.value == pytest.approx(np.nanmean(values))
    assert found.low == pytest.approx(found.value - error * (t + max(-tail, 0)), abs=1e-9)
    assert found.high == pytest.approx(found.value + error * (t + max(tail, 0)), abs=1e-9)
    assert (found.n, found.n_patients) == (int(known.sum()), len(np.unique(patients[known])))


def test_a_mean_of_one_patient_or_of_nothing_says_why() -> None:
    alone = mean_with_interval([1.0, 2.0], ["a", "a"], rng=0)
    assert (alone.value, alone.reason) == (1.5, "no interval: fewer than 2 patients")
    assert np.isnan(alone.low)
    row = WRITER.mean("m", "change", "l", "g", [np.nan], ["a"], rng=0)
    assert (row.value, row.n, row.reason) == (None, 0, "no case")


def test_shares_that_are_all_alike_have_a_width_and_other_values_no_interval() -> None:
    patients = np.arange(12)
    share = mean_with_interval(np.ones(12), patients, rng=0, n_replicates=100)
    assert (share.value, share.high) == (1.0, 1.0)
    assert 0.6 < share.low < 0.85
    alike = mean_with_interval(np.full(12, 0.3), patients, rng=0, n_replicates=100)
    assert np.isnan(alike.low)
    assert alike.reason == "no interval: all patients are alike"


def test_the_interval_of_a_mean_covers_it() -> None:
    """Clustered values: an interval that took cases for independent would cover far less."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        centre = rng.normal(size=40)
        patients = np.repeat(np.arange(40), 5)
        values = centre[patients] + 0.3 * rng.normal(size=200)
        found = mean_with_interval(values, patients, rng=rng, n_replicates=400)
        covered += found.low <= 0 <= found.high
    assert 0.90 <= covered / 300 <= 0.98


def test_estimates_are_found_by_what_they_are() -> None:
    rows = [
        WRITER.row("m", "auroc", "l", "home", 0.7, n=1),
        WRITER.row("m", "auroc", "l", "away", -0.1, n=1, reference="home"),
    ]
    index = EstimateIndex(rows, label="l", group="home")
    assert index.find("auroc", "m") is rows[0]
    assert index.find("auroc", "m", group="away", reference="home") is rows[1]
    assert index.find("auroc", "m", group="away") is None
    assert index.value("auroc", "m") == 0.7
    assert index.value("auroc", "n") is None
    assert list(index) == rows
    assert len(index) == 2
    assert index[1] is rows[1]


def test_the_headline_label_is_a_family_of_its_own() -> None:
    rows = [WRITER.row("m", "auroc", f"l{k}", "g", 0.1, n=1, p_value=0.02) for k in range(9)]
    rows.append(WRITER.row("m", "auroc", "macro", "g", 0.1, n=1, p_value=0.02))
    fixed = corrected(rows, "bonferroni", 0.95, headline="macro")
    assert [row.significant for row in fixed] == [False] * 9 + [True]
    assert fixed[0].p_value == pytest.approx(0.18)


def test_a_family_may_be_what_an_audit_asks_for() -> None:
    rows = [
        WRITER.row("m", metric, "l", "g", 0.1, n=1, p_value=p) for metric, p in (("a", 0.01), ("b", 0.03), ("b", None))
    ]
    together = corrected(rows, "bonferroni", 0.95, family_of=lambda _: None)
    assert [row.p_value for row in together] == [pytest.approx(0.02), pytest.approx(0.06), None]
    assert [row.significant for row in together] == [True, False, None]


def test_questions_share_the_level_evenly() -> None:
    rows = [WRITER.row("m", "a", "l", "g", 0.1, n=1, p_value=p) for p in (0.004, 0.4)]
    shared = corrected(rows, "holm", 0.95, n_questions=3)
    assert [row.p_value for row in shared] == [pytest.approx(0.024), 1.0]


@pytest.mark.parametrize(("metric", "least"), [("pass_rate", -1.0), ("brier_skill_score", -1.35)])
def test_a_difference_of_shares_stays_one_in_a_large_family(metric: str, least: float) -> None:
    rows = [
        WRITER.row("m", metric, "l", str(k), 0.0, n=9, interval=(-0.9, 0.9), reference="r", p_value=1.0)
        for k in range(20)
    ]
    for row in corrected(rows, "bonferroni", 0.95):
        assert row.low is not None
        assert row.low == least or (least < -1 and row.low < least)
        assert row.pointwise_low == -0.9


def test_every_pair_of_models_is_compared_once() -> None:
    assert pairs_of(["a", "b", "c"]) == [("b", "a"), ("c", "a"), ("c", "b")]


@given(
    st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0.001, 0.4), st.floats(0.001, 0.4)), min_size=1, max_size=6),
    st.sampled_from(["bonferroni", "holm", "benjamini-hochberg"]),
)
def test_a_test_and_its_interval_agree_for_the_whole_family(
    arms: list[tuple[float, float, float]], correction: Correction
) -> None:
    rows = [
        Estimate("a", "m", "auroc", f"label {k}", "g", v, 9, low=v - below, high=v + above, reference="r", p_value=1.0)
        for k, (v, below, above) in enumerate(arms)
    ]
    for row, given_row in zip(corrected(rows, correction, 0.95), rows, strict=True):
        assert row.low is not None and row.high is not None and row.n_family == len(rows)  # noqa: PT018
        assert (row.pointwise_low, row.pointwise_high) == (given_row.low, given_row.high)
        assert row.low <= row.pointwise_low + 1e-12 and row.high >= row.pointwise_high - 1e-12  # noqa: PT018
        if min(abs(row.low), abs(row.high)) > 1e-9:
            assert row.significant == (row.low > 0 or row.high < 0)
