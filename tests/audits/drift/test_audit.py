"""The drift audit against scikit-learn, period by period, and what it says about planted changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn import metrics as sk

from palpate.audits.drift import Drift
from palpate.audits.drift.plan import FIRST, LATEST
from palpate.cases.cohort import Cohort
from palpate.errors import CohortError, ConfigError
from tests.audits.drift.planted import QUICK, drifting, find, run


def test_every_period_has_the_numbers_of_its_cases() -> None:
    cohort, p = drifting()
    result = run(Drift(every="month", **QUICK), cohort, {"m": p})
    y = cohort.y.toarray()[:, 0]
    month = cohort.cases["time"].dt.strftime("%Y-%m").to_numpy()
    for name in ("2023-03", "2024-01"):
        rows = month == name
        flag = p[rows] >= 0.3
        expected = {
            "auroc": sk.roc_auc_score(y[rows], p[rows]),
            "sensitivity": sk.recall_score(y[rows], flag),
            "specificity": sk.recall_score(1 - y[rows], ~flag),
            "ppv": sk.precision_score(y[rows], flag),
            "brier": sk.brier_score_loss(y[rows], p[rows]),
            "prevalence": y[rows].mean(),
            "mean_score": p[rows].mean(),
            "flag_rate": flag.mean(),
            "calibration_in_the_large": y[rows].mean() - p[rows].mean(),
            "oe_ratio": y[rows].sum() / p[rows].sum(),
        }
        for metric, value in expected.items():
            row = find(result, metric, name)
            assert row["value"] == pytest.approx(value), metric
            assert row["low"] < value < row["high"], metric
            assert row["n"] == rows.sum()
        patients = cohort.cases.filter(pl.Series(rows))["patient_id"].n_unique()
        assert find(result, "patients", name)["value"] == patients


@pytest.mark.slow
def test_sampling_weights_weigh_every_period() -> None:
    cohort, p = drifting()
    weight = np.random.default_rng(6).lognormal(0, 0.8, len(p))
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    result = run(Drift(every="year", **QUICK), weighted, {"m": p})
    rows = (cohort.cases["time"].dt.year() == 2024).to_numpy()
    y, score, w = cohort.y.toarray()[rows, 0], p[rows], weight[rows]
    expected = {
        "auroc": sk.roc_auc_score(y, score, sample_weight=w),
        "sensitivity": sk.recall_score(y, score >= 0.3, sample_weight=w),
        "prevalence": np.average(y, weights=w),
        "mean_score": np.average(score, weights=w),
    }
    for metric, value in expected.items():
        row = find(result, metric, "2024")
        assert row["value"] == pytest.approx(value), metric
        assert row["low"] < value < row["high"], metric
        assert row["n"] == rows.sum()


@pytest.mark.parametrize(("every", "names"), [("quarter", ["2023-Q1", "2024-Q4"]), ("year", ["2023", "2024"])])
def test_longer_periods(every: str, names: list[str]) -> None:
    cohort, p = drifting()
    result = run(Drift(every=every, **QUICK), cohort, {"m": p})
    found = result.estimates.filter(metric="auroc", model="m", label="ill")["group"].to_list()
    periods = [name for name in found if name not in ("all", "first", "latest")]
    assert periods[0] == names[0]
    assert [name for name in names if name not in periods] == []


def test_the_latest_periods_against_the_first() -> None:
    cohort, p = drifting(lost=0.8)
    result = run(Drift(every="quarter", compared=2, **QUICK), cohort, {"m": p})
    y = cohort.y.toarray()[:, 0]
    time = cohort.cases["time"]
    first, latest = (time < datetime(2023, 7, 1)).to_numpy(), (time >= datetime(2024, 7, 1)).to_numpy()
    row = find(result, "auroc", "latest", reference="first")
    levels = [sk.roc_auc_score(y[rows], p[rows]) for rows in (latest, first)]
    assert row["value"] == pytest.approx(levels[0] - levels[1])
    assert row["significant"]
    verdicts = {answer.question: answer.verdict for answer in result.answers}
    assert verdicts["worse"] == "concern"
    assert result.provenance["latest"] == ["2024-Q3", "2024-Q4"]


def test_a_change_is_found_where_it_was_planted() -> None:
    cohort, p = drifting(6000, lost=1.0)
    result = run(Drift(every="quarter", **QUICK), cohort, {"m": p})
    row = result.estimates.filter(metric="auroc_change").row(0, named=True)
    assert row["group"] in ("2023-Q4", "2024-Q1", "2024-Q2")
    assert row["significant"]
    assert row["high"] < 0
    told = [f for f in result.findings if f.sentence.startswith("The AUROC of m has changed, by most from")]
    assert [finding.kind for finding in told] == ["caution"]


def test_calibration_drift_is_no_loss_of_discrimination() -> None:
    cohort, p = drifting(6000, shift=1.0)
    result = run(Drift(every="quarter", **QUICK), cohort, {"m": p})
    assert result.estimates.filter(metric="calibration_in_the_large_change")["significant"].to_list() == [True]
    assert result.estimates.filter(metric="auroc_change")["significant"].to_list() == [False]
    verdicts = {answer.question: answer.verdict for answer in result.answers}
    assert verdicts["risks"] == "concern"
    assert verdicts["worse"] in ("acceptable", "unsettled")


def test_without_a_change_none_is_told() -> None:
    alarms = 0
    for seed in range(10):
        cohort, p = drifting(800, seed=seed)
        result = run(Drift(every="quarter", **QUICK), cohort, {"m": p, "n": np.clip(p * 0.9, 0, 1)})
        rows = result.estimates.filter(pl.col("metric").str.ends_with("_change"))
        alarms += bool(rows["significant"].any())
        assert rows["n_family"].n_unique() == 1
    assert alarms <= 1


def test_a_trend_is_told() -> None:
    cohort, p = drifting(6000, lost=1.2)
    result = run(Drift(every="month", **QUICK), cohort, {"m": p})
    row = find(result, "auroc_trend", "all")
    assert row["value"] < 0
    assert row["significant"]
    assert any("has a trend of −" in finding.sentence for finding in result.findings)


def test_periods_with_few_patients_are_shown_with_the_reason() -> None:
    cohort, p = drifting(600)
    time = cohort.cases["time"]
    sparse = (time.dt.strftime("%Y-%m") != "2023-05").to_numpy() | (np.arange(600) < 40)
    hole = (time.dt.strftime("%Y-%m") != "2023-08").to_numpy()
    frame = cohort.cases.drop("cohort").with_columns(pl.Series("ill", cohort.y.toarray()[:, 0]))
    kept = Cohort.from_frame(frame.filter(pl.Series(sparse & hole)), labels=["ill"])
    result = run(Drift(every="month", **QUICK), kept, {"m": p[sparse & hole]})
    few = find(result, "auroc", "2023-05")
    assert few["value"] is None
    assert few["reason"].startswith("not enough")
    assert few["n"] > 0
    empty = find(result, "auroc", "2023-08")
    assert (empty["n"], empty["value"]) == (0, None)
    assert any("too few patients or events" in finding.sentence for finding in result.findings)


def test_cases_without_a_time_are_left_out_and_counted() -> None:
    cohort, p = drifting(600)
    frame = cohort.cases.drop("cohort").with_columns(
        pl.Series("ill", cohort.y.toarray()[:, 0]),
        pl.when(pl.int_range(pl.len()) >= 30).then(pl.col("time")).alias("time"),
    )
    result = run(Drift(**QUICK), Cohort.from_frame(frame, labels=["ill"]), {"m": p})
    assert find(result, "auroc", "all")["n"] == 570
    assert any("30 cases (5.0%) without a time are left out" in finding.sentence for finding in result.findings)


def test_models_are_compared_in_the_latest_periods() -> None:
    cohort, p = drifting()
    weak = np.clip(p + np.random.default_rng(0).normal(0, 0.3, len(p)), 0, 1)
    result = run(Drift(**QUICK), cohort, {"good": p, "weak": weak})
    row = find(result, "auroc", "latest", model="weak", reference="good")
    levels = [find(result, "auroc", "latest", model=name)["value"] for name in ("weak", "good")]
    assert row["value"] == pytest.approx(levels[0] - levels[1])


def test_seeds_are_averaged() -> None:
    cohort, p = drifting()
    seeds = {"m[1]": p, "m[2]": np.clip(p * 0.9, 0, 1)}
    result = run(Drift(**QUICK), cohort, seeds, ensembles=dict.fromkeys(seeds, "m"))
    whole = find(result, "sensitivity", "2024-Q1", model="m")["value"]
    assert whole == pytest.approx(np.mean([find(result, "sensitivity", "2024-Q1", model=m)["value"] for m in seeds]))
    changes = result.estimates.filter(metric="sensitivity_change")
    assert changes["model"].to_list() == ["m"]
    assert changes["value"].is_not_null().all()


def test_a_model_that_scores_everybody_alike_is_not_judged() -> None:
    cohort, p = drifting(600)
    result = run(Drift(**QUICK), cohort, {"flat": np.full(len(p), 0.3)})
    verdicts = {answer.question: answer.verdict for answer in result.answers}
    assert verdicts["worse"] == "unsettled"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": "month", "most_periods": 12}, "there are 24 months, more than 12; choose a longer one"),
        (
            {"every": "quarter", "compared": 5},
            "5 periods at each end are more than the 8 that there are; use at most 4",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict, said: str) -> None:
    cohort, _ = drifting()
    with pytest.raises(ConfigError) as error:
        Drift(**options).plan(cohort, np.random.default_rng(0))
    assert said in str(error.value)


def test_a_cohort_without_times_is_one_sentence() -> None:
    cohort, _ = drifting(200)
    frame = cohort.cases.drop("cohort", "time").with_columns(pl.Series("ill", cohort.y.toarray()[:, 0]))
    with pytest.raises(ConfigError, match=r"needs to know when each case was; set `time:` of the cohort\.$"):
        Drift().plan(Cohort.from_frame(frame, labels=["ill"]), np.random.default_rng(0))
    nothing = frame.with_columns(pl.lit(None, dtype=pl.Datetime("us")).alias("time"))
    with pytest.raises(CohortError, match="no case of split 'test' has a time"):
        Drift().plan(Cohort.from_frame(nothing, labels=["ill"]), np.random.default_rng(0))
    one = frame.with_columns(pl.lit(datetime(2024, 3, 5)).alias("time"))
    with pytest.raises(ConfigError, match="all cases are of one month, 2024-03"):
        Drift(every="month").plan(Cohort.from_frame(one, labels=["ill"]), np.random.default_rng(0))


def test_the_same_seed_gives_the_same_numbers() -> None:
    cohort, p = drifting(400)
    first, second = (run(Drift(**QUICK), cohort, {"m": p}).estimates for _ in range(2))
    assert first.equals(second)


def test_a_change_for_the_better_is_a_fact() -> None:
    cohort, p = drifting(6000, lost=-1.0)
    result = run(Drift(every="quarter", **QUICK), cohort, {"m": p})
    told = [f for f in result.findings if f.sentence.startswith("The AUROC of m has changed, by most from")]
    assert [finding.kind for finding in told] == ["fact"]


def test_risks_that_become_too_extreme_lose_their_slope() -> None:
    """Right on average in both halves; in the second, the log odds are twice too far apart."""
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    cohort, _ = drifting(4800)
    rng = np.random.default_rng(5)
    late = (cohort.cases["time"] >= datetime(2024, 1, 1)).to_numpy()
    logit = rng.normal(-1.0, 1.2, len(cohort))
    ill = rng.random(len(cohort)) < 1 / (1 + np.exp(-logit))
    shown = 1 / (1 + np.exp(-np.where(late, 2 * logit + 0.75, logit)))
    changed = replace(cohort, y=sparse.csc_array(ill.astype(np.uint8)[:, None]))
    result = run(Drift(every="quarter", **QUICK), changed, {"m": shown})
    whole = find(result, "calibration_slope", "all")["value"]
    fit = sm.Logit(ill.astype(float), sm.add_constant(np.log(shown / (1 - shown)))).fit(disp=0)
    assert whole == pytest.approx(fit.params[1], abs=1e-6)
    row = find(result, "calibration_slope", LATEST, reference=FIRST)
    assert row["value"] == pytest.approx(-0.5, abs=0.2)
    assert row["significant"]
    assert any("more extreme than the outcomes bear out" in each.sentence for each in result.findings)
    steady = run(Drift(every="quarter", **QUICK), changed, {"m": 1 / (1 + np.exp(-logit))})
    assert not any("calibration slope" in each.sentence for each in steady.findings)
