"""Sampling weights in the context audit: repeated rows, the performance audit's numbers, and the population's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn import metrics as sk

from palpate.audits.context import Context
from palpate.audits.context.groups import PRETEST
from palpate.audits.context.incremental import EVERYBODY
from palpate.audits.context.measures import METRICS
from palpate.audits.performance import Performance
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult
from palpate.stats import matched_share
from tests.audits.context.context_cases import Planted, planted, row, run, sigmoid
from tests.audits.performance.test_audit import run as run_performance

QUICK = Context(n_replicates=100, caliper=0.05, decision_thresholds=(0.1, 0.3))
PAIRS = ("matched",)
TOGETHER = ("auroc_with_context", "auroc_gain_over_context")


def weighted(cohort: Cohort, weight: np.ndarray) -> Cohort:
    return replace(cohort, cases=cohort.cases.with_columns(sampling_weight=pl.Series(weight.astype(float))))


def chosen(cohort: Cohort, rows: np.ndarray) -> Cohort:
    cases = cohort.cases[rows].with_columns(pl.Series("case_id", [f"r{k}" for k in range(len(rows))]))
    return replace(cohort, cases=cases, y=cohort.y.tocsr()[rows].tocsc())


def points(result: AuditResult) -> dict[tuple[str, ...], float | None]:
    rows = result.estimates.filter(~pl.col("group").is_in(PAIRS)).fill_null("")
    return {
        tuple(row[:5]): row[5] for row in rows.select("model", "metric", "label", "group", "reference", "value").rows()
    }


@pytest.fixture(scope="module")
def known() -> Planted:
    return planted(600)


def test_whole_weights_are_repeated_rows(known: Planted) -> None:
    times = np.random.default_rng(4).integers(0, 4, 600)
    again = np.repeat(np.arange(600), times)
    scores = {name: p[again] for name, p in known.scores.items()}
    ours = points(run(QUICK, weighted(known.cohort, times), known.scores))
    theirs = points(run(QUICK, chosen(known.cohort, again), scores))
    plain = points(run(QUICK, known.cohort, known.scores))
    compared = {
        key: value
        for key, value in theirs.items()
        # Folds of model and history, and effective sizes, are about the cases as they are.
        if key[1] not in TOGETHER and not key[1].startswith("effective_") and " and history" not in key[0]
    }
    seen = {(key[1], key[3]) for key in compared}
    groups = ("all", "bottom 25%", "middle 50%", "top 25%", "re-weighted")
    assert {(metric, group) for metric in METRICS for group in groups} <= seen
    assert {("net_benefit", "acting at 30%"), ("context_smd", "all"), ("context_ks", "re-weighted")} <= seen
    for key, wanted in compared.items():
        assert ours[key] == pytest.approx(wanted, abs=1e-9), key
    moved = [key for key in compared if abs((plain[key] or 0.0) - (ours[key] or 0.0)) > 1e-6]
    assert len(moved) > 0.9 * len(compared), "or weights would not matter"
    assert {PRETEST, EVERYBODY} <= {key[0] for key in moved}


def test_equal_weights_change_nothing(known: Planted) -> None:
    plain = run(QUICK, known.cohort, known.scores)
    same = run(QUICK, weighted(known.cohort, np.full(600, 7.0)), known.scores)
    assert same.estimates.equals(plain.estimates)


def test_all_cases_have_the_numbers_of_performance(known: Planted) -> None:
    weight = np.random.default_rng(5).lognormal(0, 1, 600)
    cohort = weighted(known.cohort, weight)
    ours = run(QUICK, cohort, known.scores)
    theirs = run_performance(Performance(n_replicates=100, unit="patient"), cohort, known.scores)
    for model in known.scores:
        for metric in ("auroc", "auprc", "brier_skill_score", "adaptive_calibration_error"):
            other = theirs.estimates.filter(pl.col("reference").is_null(), model=model, metric=metric, label="a")
            assert row(ours, metric, model, "a")["value"] == pytest.approx(other["value"][0], abs=1e-12), metric
    y = cohort.y.toarray()[:, 0]
    expected = sk.roc_auc_score(y, known.scores["both"][:, 0], sample_weight=weight)
    assert row(ours, "auroc", "both", "a")["value"] == pytest.approx(expected, abs=1e-12)


def test_pairs_are_chosen_by_the_history_and_count_by_weight(known: Planted) -> None:
    weight = np.random.default_rng(6).lognormal(0, 1, 600)
    found = run(QUICK, weighted(known.cohort, weight), known.scores)
    y, p = known.cohort.y.toarray()[:, 0], known.cohort.cases["pretest_a"].to_numpy()
    share = matched_share(p, y, caliper=0.05)
    matched = row(found, "auroc", "both", "a", "matched")
    expected = sk.roc_auc_score(y, known.scores["both"][:, 0], sample_weight=share * weight)
    assert matched["value"] == pytest.approx(expected, abs=1e-12)
    assert (matched["n"], matched["n_positive"]) == (round(share.sum()), round(share[y == 1].sum())), (
        "pairs are counted"
    )
    assert not any("drawn by outcome" in each.sentence for each in found.findings), "both classes weigh alike"
    plain = row(run(QUICK, known.cohort, known.scores), "auroc", "both", "a", "matched")
    assert matched["high"] - matched["low"] > plain["high"] - plain["low"]  # type: ignore[operator]


def hospital(n: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    """A population in which 12% are ill, with a history that predicts it and a model that reads test and history."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    risk = -2.7 + x @ [0.9, 0.6, 0.3]
    ill = (rng.random(n) < sigmoid(risk)).astype(np.uint8)
    score = sigmoid(1.5 * ill + 0.5 * risk + rng.normal(size=n) - 1.0)
    frame = pl.DataFrame(
        {
            "case_id": range(n),
            "patient_id": range(n),
            "split": np.where(np.arange(n) % 2 == 0, "train", "test"),
            **{f"x{k}": x[:, k] for k in range(3)},
            "ill": ill,
        }
    )
    return frame, score[:, None]


def test_a_case_control_sample_tells_about_the_population() -> None:
    frame, score = hospital(24_000, seed=1)
    audit = Context(n_replicates=100, attributes=("x0", "x1", "x2"), refits=2, decision_thresholds=(0.1,))
    ill = frame["ill"].to_numpy() == 1
    drawn = np.flatnonzero(ill | (np.random.default_rng(2).random(len(ill)) < 0.2))
    weight = np.where(ill, 1.0, 5.0)[drawn]
    attributes = ["x0", "x1", "x2"]
    whole, part = (Cohort.from_frame(each, labels=["ill"], attributes=attributes) for each in (frame, frame[drawn]))
    truth, biased = run(audit, whole, {"m": score}), run(audit, part, {"m": score[drawn]})
    found = run(audit, weighted(part, weight), {"m": score[drawn]})
    keys = [
        ("brier_skill_score", "m", "all", 0.02),
        ("auprc", "m", "all", 0.03),
        ("net_benefit", "m", "acting at 10%", 0.01),
        ("brier_skill_score", PRETEST, "all", 0.02),
        ("brier_skill_score", "m", "re-weighted", 0.08),
        ("auroc", "m", "all", 0.015),
        ("auroc", "m", "top 25%", 0.03),
        ("auroc", "m", "re-weighted", 0.03),
    ]
    for k, (metric, model, group, apart) in enumerate(keys):
        want, ours, theirs = (row(each, metric, model, "ill", group)["value"] for each in (truth, found, biased))
        assert ours == pytest.approx(want, abs=apart), (metric, group)
        if k < 3:
            assert abs(theirs - want) > 2 * apart, "without weights, another answer"  # type: ignore[operator]
    assert row(found, "context_smd", PRETEST, "ill", "re-weighted")["value"] == pytest.approx(0.0, abs=0.1)
    # Two negatives for each positive are too few to find partners: said, not hidden.
    assert any("matched pairs are not alike" in each.sentence for each in found.findings)
    told = [each.sentence for each in found.findings if "drawn by outcome" in each.sentence]
    assert len(told) == 1
    assert "a case without 'ill' stands for 5.0 times as many as one with it" in told[0]
    assert "matched AUROCs may be too high" in told[0]
    assert not any("drawn by outcome" in each.sentence for each in biased.findings), "there are no weights"


def test_training_cases_of_weight_0_teach_nothing() -> None:
    frame, score = hospital(1200, seed=3)
    audit = Context(n_replicates=100, attributes=("x0", "x1", "x2"), refits=1, decision_thresholds=())
    weight = np.random.default_rng(4).integers(0, 3, 1200).astype(float)
    kept = np.flatnonzero(weight > 0)
    cohorts = [
        Cohort.from_frame(each, labels=["ill"], attributes=["x0", "x1", "x2"])
        for each in (frame.with_columns(sampling_weight=weight), frame.with_columns(sampling_weight=weight)[kept])
    ]
    ours, theirs = run(audit, cohorts[0], {"m": score}), run(audit, cohorts[1], {"m": score[kept]})
    assert ours.estimates.equals(theirs.estimates)


def test_weights_that_turn_the_pairs_round_are_warned_of_and_nothing_is_judged() -> None:
    known = planted(1200)
    y, p = known.cohort.y.toarray()[:, 0], known.cohort.cases["pretest_a"].to_numpy()
    weight = np.exp(np.where(y == 1, -1.0, 1.0) * p)
    found = run(replace(QUICK, labels=("a",)), weighted(known.cohort, weight), {"image": known.scores["image"]})
    history = row(found, "auroc", PRETEST, "a", "matched")["value"]
    assert history < 0.45  # type: ignore[operator]
    assert row(found, "auroc", "image", "a", "matched", "all")["p_value"] is None
    assert any("matched pairs are not alike for 'a'" in each.sentence for each in found.findings)
    (answer,) = (each for each in found.answers if each.question == "held_equal")
    assert answer.verdict == "unsettled"
    assert answer.reason == "in the pairs, the history speaks against it"
