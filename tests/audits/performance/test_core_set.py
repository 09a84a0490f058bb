"""The core set in the performance audit: against plain computations, on planted truth, and with wrong options."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit

from palpate.audits.performance import Performance
from palpate.cases.cohort import Cohort, stack
from palpate.errors import ConfigError
from palpate.results import AuditResult, Chart, Table
from palpate.stats.risks.core import CORE
from palpate.stats.risks.net_benefit import net_benefit
from tests.audits.performance.test_audit import run, simulated, value

QUICK = Performance(n_replicates=300, threshold=0.3)


def calibrated(n: int = 3_000, seed: int = 0, **more: object) -> tuple[Cohort, np.ndarray]:
    """A cohort, and risks that come true: the outcome is drawn from them."""
    cohort, p = simulated(n, seed=seed, **more)  # type: ignore[arg-type]
    y = (np.random.default_rng(seed + 100).random(p.shape) < p).astype(np.uint8)
    from scipy import sparse

    return Cohort(cohort.cases, cohort.labels, sparse.csc_array(y)), p


def titled(result: AuditResult, title: str) -> Table | Chart:
    found = [block for block in result.blocks if block.title == title]
    assert len(found) == 1, [block.title for block in result.blocks]
    return found[0]  # type: ignore[return-value]


def test_intervals_of_many_patients_are_those_of_statsmodels() -> None:
    """The draw is one of twenty: 0 lies just outside of both."""
    cohort, p = calibrated()
    result = run(QUICK, cohort, {"m": p})
    y, score = cohort.y.toarray()[1000:, 0].astype(float), p[1000:, 0]
    sm = pytest.importorskip("statsmodels.api")
    binomial = sm.families.Binomial()
    large = sm.GLM(y, np.ones_like(y), family=binomial, offset=logit(score)).fit().conf_int()[0]
    row = value(result, "calibration_intercept", model="m")
    assert (row["low"], row["high"]) == pytest.approx(tuple(large), abs=0.03 * (large[1] - large[0]))


def test_every_measure_has_a_row_and_an_interval_around_right_risks() -> None:
    cohort, p = calibrated(seed=1)
    result = run(QUICK, cohort, {"m": p})
    right = {"calibration_intercept": 0.0, "calibration_slope": 1.0, "oe_ratio": 1.0}
    for metric in CORE:
        row = value(result, metric, model="m")
        assert row["low"] <= row["value"] <= row["high"], metric  # type: ignore[operator]
        if metric in right:
            assert row["low"] < right[metric] < row["high"], metric  # type: ignore[operator]
    assert value(result, "ici")["low"] == 0.0
    y, score = cohort.y.toarray()[1000:, 0], p[1000:, 0]
    assert value(result, "net_benefit")["value"] == pytest.approx(net_benefit(y, score, threshold=0.3), abs=1e-12)
    assert value(result, "oe_ratio")["value"] == pytest.approx(y.sum() / score.sum(), abs=1e-12)


def test_planted_miscalibration_is_found_and_told() -> None:
    cohort, p = calibrated()
    result = run(QUICK, cohort, {"right": p, "extreme": expit(2.0 * logit(p) + 0.8)})
    slope = value(result, "calibration_slope", model="extreme")
    assert slope["low"] < 0.5 < slope["high"]  # type: ignore[operator]
    difference = value(result, "calibration_slope", model="extreme", reference="right")
    assert difference["significant"] is True
    assert value(result, "ici", model="extreme", reference="right")["low"] > 0  # type: ignore[operator]
    timid = run(QUICK, cohort, {"right": p, "low": expit(logit(p) - 2.5)})
    worth = value(timid, "mean_net_benefit", model="low", reference="right")
    assert worth["significant"] is True
    assert worth["high"] < 0  # type: ignore[operator]
    told = " ".join(each.sentence for each in result.findings)
    assert "The risks of extreme are too extreme" in told
    assert "The risks of extreme are too high on average" in told
    assert "The risks of right are too" not in told
    assert "Acting on right is shown to be worth more than acting on all patients or on none" in told


def test_net_benefits_at_different_thresholds_are_not_compared() -> None:
    cohort, p = calibrated(900)
    result = run(Performance(n_replicates=200), cohort, {"a": p, "b": p**2}, a={"threshold": 0.2}, b={"threshold": 0.4})
    row = value(result, "net_benefit", model="b", reference="a")
    assert row["value"] is None
    assert "different thresholds" in str(row["reason"])
    assert value(result, "mean_net_benefit", model="b", reference="a")["value"] is not None
    same = run(QUICK, cohort, {"a": p, "b": p**2})
    assert value(same, "net_benefit", model="b", reference="a")["value"] is not None


def test_drops_between_cohorts() -> None:
    home, p_home = calibrated(1_500, seed=1, name="home")
    away, p_away = calibrated(1_500, seed=2, name="away", split=False)
    both = stack([home, away])
    scores = np.concatenate([p_home, expit(logit(p_away) - 1.0)])
    result = run(QUICK, both, {"m": scores})
    row = value(result, "calibration_intercept", group="away", reference="home")
    assert row["significant"] is True
    assert row["low"] < 1.0 < row["high"]  # type: ignore[operator]
    for metric in CORE:
        assert value(result, metric, group="away", reference="home")["value"] is not None, metric


def test_labels_have_it_one_by_one_and_their_mean_where_that_makes_sense() -> None:
    cohort, p = simulated(1_500, n_labels=3)
    result = run(QUICK, cohort, {"m": p})
    each = [value(result, "ici", label=f"label{k}")["value"] for k in range(3)]
    assert value(result, "ici", label="macro")["value"] == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    assert value(result, "ici", label="macro")["low"] is not None
    slope = value(result, "calibration_slope", label="macro")
    assert slope["value"] is None
    assert "cancel out" in str(slope["reason"])


def test_of_many_labels_only_those_with_intervals_have_it() -> None:
    cohort, p = simulated(900, n_labels=4)
    result = run(Performance(n_replicates=200, threshold=0.3, labels_with_intervals=2), cohort, {"m": p})
    rows = result.estimates.filter(pl.col("metric") == "ici")
    assert set(rows["label"]) == {"label0", "label1", "macro"}
    assert "only the 2 most frequent" in str(value(result, "ici", label="macro")["reason"])


def test_scores_that_are_no_risks_have_reasons() -> None:
    cohort, p = simulated(600)
    result = run(QUICK, cohort, {"same": np.full_like(p, 0.3)})
    row = value(result, "calibration_slope")
    assert row["value"] is None
    assert "all the same" in str(row["reason"])


def test_a_rare_outcome_has_numbers_with_reasons_instead_of_intervals() -> None:
    from scipy import sparse

    cohort, p = simulated(300)
    y = np.zeros((300, 1), np.uint8)
    y[[150, 200, 250]] = 1
    result = run(QUICK, Cohort(cohort.cases, cohort.labels, sparse.csc_array(y)), {"m": p})
    row = value(result, "calibration_slope")
    assert row["low"] is None
    assert "fewer than 5 patients" in str(row["reason"])
    assert value(result, "oe_ratio")["low"] is not None


def test_blocks() -> None:
    cohort, p = calibrated(900)
    result = run(QUICK, cohort, {"a": p, "b": p**1.3})
    smooth = titled(result, "Smooth calibration curve")
    assert isinstance(smooth, Chart)
    assert {row["model"] for row in smooth.data} == {"a", "b"}
    assert all(row["low"] <= row["y"] <= row["high"] for row in smooth.data)
    worth = titled(result, "Net benefit")
    assert isinstance(worth, Chart)
    assert {row["strategy"] for row in worth.data} == {"a", "b", "act on all", "act on none"}
    assert max(row["x"] for row in worth.data) == pytest.approx(0.5)
    titled(result, "Net benefit of one model less another")
    shares = titled(result, "Who has which risk")
    assert isinstance(shares, Chart)
    for cases in ("with the outcome", "without it"):
        total = sum(row["count"] for row in shares.data if row["cases"] == cases and row["panel"].startswith("a"))
        assert total == pytest.approx(100)
    closed = titled(result, "F1, precision and recall of both classes")
    shown = titled(result, "Decisions at the threshold")
    assert isinstance(closed, Table)
    assert isinstance(shown, Table)
    assert closed.collapsed
    assert not shown.collapsed
    assert not any("F1" in column.name for column in shown.columns)
    assert any("F1" in column.name for column in closed.columns)


def test_the_range_of_thresholds_is_an_option() -> None:
    cohort, p = calibrated(600)
    narrow = run(Performance(n_replicates=200, threshold=0.3, net_benefit=(0.2, 0.4)), cohort, {"m": p})
    worth = titled(narrow, "Net benefit")
    assert isinstance(worth, Chart)
    assert (worth.x.low, worth.x.high) == (0.2, 0.4)
    assert "from 20% to 40%" in worth.caption


def test_a_range_that_does_not_rise_is_refused_in_one_sentence() -> None:
    cohort, _ = simulated(100)
    with pytest.raises(ConfigError, match=r"option 'net_benefit': the range must rise, and 0\.5 is not below 0\.1"):
        Performance(net_benefit=(0.5, 0.1)).plan(cohort, np.random.default_rng(0))


def test_seeds_of_one_model() -> None:
    cohort, p = calibrated(900)
    noisy = {f"s{k}": expit(logit(p) + 0.3 * np.random.default_rng(k).normal(size=p.shape)) for k in range(3)}
    result = run(QUICK, cohort, noisy, **{name: {"ensemble": "m"} for name in noisy})
    each = [value(result, "ici", model=name)["value"] for name in noisy]
    row = value(result, "ici", model="m")
    assert row["value"] == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    assert row["low"] <= row["value"] <= row["high"]  # type: ignore[operator]
    assert value(result, "calibration_slope_sd", model="m")["value"] > 0  # type: ignore[operator]
