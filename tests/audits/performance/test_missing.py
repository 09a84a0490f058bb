"""Missing scores in the performance audit: counted, bounded, and the rest measured on the same cases for all models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.performance import Performance
from palpate.results import AuditResult, ModelPredictions, Predictions, Table
from palpate.results.plan import ModelFacts
from palpate.testing import check_declared
from tests.audits.performance.test_audit import run, simulated, value

AUDIT = Performance(n_replicates=200, threshold=0.4)


def with_gaps(p: np.ndarray, rows: np.ndarray) -> np.ndarray:
    out = p.copy()
    out[rows] = np.nan
    return out


@pytest.fixture(scope="module")
def made() -> dict[str, object]:
    cohort, p = simulated(1200)
    y = cohort.y.toarray()[:, 0]
    rng = np.random.default_rng(3)
    gone = rng.random(1200) < np.where(y == 1, 0.25, 0.05)
    other = rng.random(1200) < 0.03
    q = np.clip(p + rng.normal(0, 0.05, p.shape), 0, 1)
    result = run(AUDIT, cohort, {"a": with_gaps(p, gone), "b": with_gaps(q, other)})
    check_declared(AUDIT, result)
    return {"result": result, "y": y, "p": p[:, 0], "gone": gone, "other": other, "cohort": cohort, "q": q}


def test_metrics_are_over_the_cases_that_all_models_scored(made: dict[str, object]) -> None:
    result, y, p = made["result"], made["y"], made["p"]
    test = np.arange(1200) >= 400
    both = test & ~made["gone"] & ~made["other"]
    found = value(result, "auroc", model="a")
    assert found["value"] == pytest.approx(sk.roc_auc_score(y[both], p[both]), abs=1e-12)
    assert (found["n"], found["n_positive"]) == (both.sum(), y[both].sum())
    complete = run(AUDIT, made["cohort"], {"a": made["p"][:, None], "b": made["q"]})
    assert not complete.estimates["metric"].str.starts_with("missing").any(), "nothing is said where nothing is missing"


def test_shares_are_counted_and_told_by_outcome(made: dict[str, object]) -> None:
    result, y, gone = made["result"], made["y"], made["gone"]
    test = np.arange(1200) >= 400
    for metric, rows in {
        "missing_share": test,
        "missing_share_positive": test & (y == 1),
        "missing_share_negative": test & (y == 0),
    }.items():
        row = value(result, metric, model="a", group="home")
        assert row["value"] == pytest.approx(gone[rows].mean(), abs=1e-12)
        assert row["low"] < row["value"] < row["high"]  # type: ignore[operator]
    gap = value(result, "missing_share_difference", model="a", group="home")
    assert gap["value"] == pytest.approx(gone[test & (y == 1)].mean() - gone[test & (y == 0)].mean(), abs=1e-12)
    assert gap["low"] > 0  # type: ignore[operator]
    assert value(result, "missing_share", model="a", group="validation split")["n"] == 400
    sentences = [finding.sentence for finding in result.findings if finding.kind == "caveat"]
    assert any("a has no score" in each and "more often in those with 'label0'" in each for each in sentences)
    n = int((test & ~gone & ~made["other"]).sum())
    assert any(f"{n:,} of 800 cases of home" in each for each in sentences)
    assert any(isinstance(block, Table) and block.title == "Missing scores" for block in result.blocks)


def test_bounds_are_those_of_the_worst_and_the_best_ranks(made: dict[str, object]) -> None:
    y, p, gone = (made[name][400:] for name in ("y", "p", "gone"))
    worst = sk.roc_auc_score(y, np.where(gone, np.where(y == 1, -1, 2), p))
    best = sk.roc_auc_score(y, np.where(gone, np.where(y == 1, 2, -1), p))
    assert value(made["result"], "auroc_if_worst", model="a")["value"] == pytest.approx(worst, abs=1e-12)
    assert value(made["result"], "auroc_if_best", model="a")["value"] == pytest.approx(best, abs=1e-12)
    found = value(made["result"], "sensitivity_if_not_flagged", model="a")
    assert found["value"] == pytest.approx(sk.recall_score(y, ~gone & (p >= 0.4)), abs=1e-12)
    assert worst < value(made["result"], "auroc", model="a")["value"] < best  # type: ignore[operator]


def test_weights_weigh_the_missing_too() -> None:
    cohort, p = simulated(600)
    weight = np.random.default_rng(4).lognormal(0, 1, 600)
    weighted = replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight)))
    gone = np.random.default_rng(5).random(600) < 0.2
    result = run(AUDIT, weighted, {"a": with_gaps(p, gone)})
    wanted = np.average(gone[200:], weights=weight[200:])
    assert value(result, "missing_share", model="a", group="home")["value"] == pytest.approx(wanted, abs=1e-12)


def answered(cohort: object, scores: dict[str, np.ndarray], **facts: bool) -> AuditResult:
    plan = AUDIT.plan(cohort, np.random.default_rng(0))  # type: ignore[arg-type]
    rows = plan.variants.parent
    given = {
        name: ModelPredictions(plan.labels, p[rows], np.ones(len(rows), bool), facts=ModelFacts(**facts))
        for name, p in scores.items()
    }
    return AUDIT.analyse(plan, Predictions(given), np.random.default_rng(1))


def test_a_model_that_might_lack_scores_and_does_not_has_a_share_of_0() -> None:
    cohort, p = simulated()
    result = answered(cohort, {"a": p}, may_miss=True)
    row = value(result, "missing_share", model="a", group="home")
    assert row["value"] == 0.0
    assert 0 < row["high"] < 0.03  # type: ignore[operator]
    assert not any("no score" in finding.sentence for finding in result.findings)


def test_models_without_common_cases_are_not_fatal() -> None:
    cohort, p = simulated()
    first, second = np.arange(600) < 450, np.arange(600) >= 450
    result = run(AUDIT, cohort, {"a": with_gaps(p, first), "b": with_gaps(p, second), "c": p})
    assert value(result, "auroc", model="c")["n"] > 0
    assert any("has no number here" in finding.sentence for finding in result.findings)
    nothing = run(AUDIT, cohort, {"a": p * np.nan})
    assert any("No model has a score for any audited case" in finding.sentence for finding in nothing.findings)
    assert value(nothing, "missing_share", model="a", group="home")["value"] == 1.0


def test_an_ensemble_lacks_a_score_where_a_member_does() -> None:
    cohort, p = simulated()
    one, two = np.arange(600) % 10 == 0, np.arange(600) % 10 == 1
    more = {"m[1]": {"ensemble": "m"}, "m[2]": {"ensemble": "m"}}
    result = run(AUDIT, cohort, {"m[1]": with_gaps(p, one), "m[2]": with_gaps(p, two)}, **more)
    assert value(result, "missing_share", model="m", group="home")["value"] == pytest.approx(0.2)
    assert value(result, "auroc", model="m")["n"] == 320
