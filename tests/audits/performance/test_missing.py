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
    assert any("score no case together" in finding.sentence for finding in result.findings)
    nothing = run(AUDIT, cohort, {"a": p * np.nan})
    assert any("a has no score for any audited case" in finding.sentence for finding in nothing.findings)
    assert value(nothing, "missing_share", model="a", group="home")["value"] == 1.0


def test_an_ensemble_lacks_a_score_where_a_member_does() -> None:
    cohort, p = simulated()
    one, two = np.arange(600) % 10 == 0, np.arange(600) % 10 == 1
    more = {"m[1]": {"ensemble": "m"}, "m[2]": {"ensemble": "m"}}
    result = run(AUDIT, cohort, {"m[1]": with_gaps(p, one), "m[2]": with_gaps(p, two)}, **more)
    assert value(result, "missing_share", model="m", group="home")["value"] == pytest.approx(0.2)
    assert value(result, "auroc", model="m")["n"] == 320


def test_a_score_that_is_missing_for_one_label_takes_nothing_from_the_others() -> None:
    cohort, p = simulated(1200, n_labels=2)
    rng, q = np.random.default_rng(6), p.copy()
    gone = rng.random(1200) < 0.3
    q[gone, 1] = np.nan
    result = run(AUDIT, cohort, {"a": q, "b": p})
    y, test = cohort.y.toarray(), np.arange(1200) >= 400
    known = {"label0": test, "label1": test & ~gone}
    for j, (label, rows) in enumerate(known.items()):
        for model in ("a", "b"):
            found = value(result, "auroc", model=model, label=label)
            assert (found["n"], found["n_positive"]) == (rows.sum(), y[rows, j].sum())
            assert found["value"] == pytest.approx(sk.roc_auc_score(y[rows, j], p[rows, j]), abs=1e-12)
            assert found["low"] < found["value"] < found["high"]  # type: ignore[operator]
            ratio = value(result, "oe_ratio", model=model, label=label)
            assert ratio["value"] == pytest.approx(y[rows, j].sum() / p[rows, j].sum(), abs=1e-9)
            assert ratio["n"] == rows.sum()
        shares = value(result, "missing_share", model="a", label=label, group="home")
        assert shares["value"] == pytest.approx(0.0 if label == "label0" else gone[test].mean(), abs=1e-12)
    each = [sk.roc_auc_score(y[rows, j], p[rows, j]) for j, rows in enumerate(known.values())]
    assert value(result, "auroc", model="a", label="macro")["value"] == pytest.approx(np.mean(each), abs=1e-12)
    pooled = np.stack(list(known.values()), axis=1)
    wanted = sk.roc_auc_score(y[pooled], p[pooled])
    micro = value(result, "auroc", model="a", label="micro")
    assert (micro["value"], micro["n"]) == (pytest.approx(wanted, abs=1e-12), pooled.sum())
    same = value(result, "auroc", model="b", label="label1", reference="a")
    assert (same["value"], same["low"], same["high"]) == (0.0, 0.0, 0.0), "paired on the same cases"
    said = " ".join(finding.sentence for finding in result.findings)
    n = int(known["label1"].sum())
    assert f"{n:,} of 800 cases of home for 'label1'" in said
    check_declared(AUDIT, result)


def test_thresholds_are_found_on_the_cases_that_have_the_labels_score() -> None:
    cohort, p = simulated(1200, n_labels=2)
    q = p.copy()
    q[::4, 1] = np.nan
    audit = Performance(n_replicates=50)
    found, other = (run(audit, cohort, {"a": each}) for each in (q, p))
    for metric in ("sensitivity", "auroc", "net_benefit"):
        rows = [value(each, metric, model="a", label="label0")["value"] for each in (found, other)]
        assert rows[0] == rows[1], "the first label lacks nothing"
    assert value(found, "sensitivity", model="a", label="label1")["value"] is not None


def test_a_model_that_lacks_one_label_wholly_has_rows_with_a_reason() -> None:
    cohort, p = simulated(900, n_labels=2)
    q = p.copy()
    q[:, 1] = np.nan
    result = run(AUDIT, cohort, {"a": q, "b": p})
    assert value(result, "auroc", model="b", label="label1")["n"] == 600
    for metric in ("auroc", "sensitivity", "calibration_slope", "net_benefit"):
        row = value(result, metric, model="a", label="label1")
        assert row["value"] is None
        assert "no score" in str(row["reason"])
        assert value(result, metric, model="a", label="label0")["value"] is not None
    row = value(result, "auroc", model="b", label="label1", reference="a")
    assert row["value"] is None
    assert "a has no score" in str(row["reason"])
    answers = {answer.question: answer for answer in result.answers if answer.model == "a"}
    assert answers["separation"].verdict == "unsettled"
    assert "no score" in str(answers["separation"].reason)


@pytest.mark.parametrize("other", [True, False])
def test_a_model_without_any_score_is_unsettled(other: bool) -> None:
    cohort, p = simulated(n_labels=2)
    scores = {"silent": p * np.nan} | ({"b": p} if other else {})
    result = run(AUDIT, cohort, scores)
    for label in cohort.labels:
        for metric in ("auroc", "sensitivity", "calibration_slope", "ici", "net_benefit"):
            row = value(result, metric, model="silent", label=label)
            assert (row["value"], row["low"], row["n"]) == (None, None, 400)
            assert row["reason"] == "silent has no score for any audited case"
    answers = {answer.question: answer for answer in result.answers if answer.model == "silent"}
    wanted = {"separation", "calibration"} | ({"comparison"} if other else set())
    assert set(answers) == wanted
    assert {answer.verdict for answer in answers.values()} == {"unsettled"}
    assert answers["separation"].reason == "silent has no score for any audited case"
    check_declared(AUDIT, result)
