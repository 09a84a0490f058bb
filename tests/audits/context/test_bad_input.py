"""The context audit on odd input: every number that is not there has its reason, and the run goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.audits.context import Context
from palpate.audits.context.groups import PRETEST
from palpate.cases.cohort import Cohort
from palpate.errors import CohortError
from tests.audits.context.context_cases import cohort_of, column_of, frame_of, planted, row, run

QUICK = Context(n_replicates=200, caliper=0.01)


def test_few_distinct_probabilities_are_said_and_not_hidden() -> None:
    frame, score = frame_of()
    tree = frame.with_columns(pretest_ill=pl.when(pl.col("pretest_ill") > 0.35).then(0.6).otherwise(0.2))
    found = run(QUICK, cohort_of(tree), {"m": score})
    empty = row(found, "auroc", "m", "ill", "top 25%")
    assert (empty["value"], empty["n"]) == (None, 0)
    assert empty["reason"] == "empty stratum: the pre-test probability has only 2 distinct values"
    against = row(found, "auroc", "m", "ill", "top 25%", "bottom 25%")
    assert against["value"] is None
    assert "2 distinct values" in str(against["reason"])
    assert any("2 distinct values" in finding.sentence for finding in found.findings)


def test_a_constant_probability_gives_reasons_and_the_rest_goes_on() -> None:
    frame, score = frame_of()
    found = run(QUICK, cohort_of(frame.with_columns(pretest_ill=pl.lit(0.3))), {"m": score})
    assert row(found, "auroc", "m", "ill")["value"] > 0.8  # type: ignore[operator]
    for group in ("matched", "re-weighted", "bottom 25%", "top 25%"):
        assert "the same for all cases" in str(row(found, "auroc", "m", "ill", group)["reason"])
        assert "the same for all cases" in str(row(found, "auroc", "m", "ill", group, "all")["reason"])
    assert row(found, "auroc", PRETEST, "ill")["value"] == 0.5
    told = [finding.sentence for finding in found.findings]
    assert (
        "The pre-test probability of 'ill' is the same for all cases, so it can't divide, match or weight them." in told
    )
    assert not any("distinct values" in sentence for sentence in told)
    for group, n in (("all", frame.height), ("matched", 0), ("re-weighted", 0)):
        balance = row(found, "context_smd", PRETEST, "ill", group)
        assert (balance["value"], balance["n"]) == (None, n)
        assert "does not vary" in str(balance["reason"])


def test_a_label_of_one_class_has_no_pairs_whatever_the_caliper() -> None:
    frame, score = frame_of()
    for value, reason in ((0, "no positive case"), (1, "no negative case")):
        ill = frame.with_columns(ill=pl.lit(value))
        found = run(replace(QUICK, caliper=None), cohort_of(ill), {"m": score})
        assert row(found, "auroc", "m", "ill", "matched")["reason"] == reason
        assert row(found, "auroc", "m", "ill", "matched", "all")["reason"] == reason


def test_no_sentence_is_sure_of_weights_that_are_not_to_be_relied_on() -> None:
    frame, score = frame_of(1200)
    history = frame["pretest_ill"].to_numpy()
    decided = (history > np.quantile(history, 0.7)).astype(np.uint8)  # by the history alone: no overlap
    two = frame.with_columns(sure=pl.Series(decided), pretest_sure=pl.col("pretest_ill"))
    cohort = Cohort.from_frame(two, labels=("ill", "sure"), attributes=("pretest_ill", "pretest_sure"))
    scores = np.hstack([score, column_of(3 * decided + np.random.default_rng(0).normal(size=1200))])
    found = run(QUICK, cohort, {"m": scores})
    told = [finding.sentence for finding in found.findings]
    fall = row(found, "auroc", "m", "sure", "re-weighted", "all")
    assert fall["value"] is not None
    assert (fall["significant"], fall["p_value"]) == (None, None)
    assert fall["reason"] == "not tested, and no interval: the weights are not reliable"
    assert (fall["low"], fall["pointwise_low"]) == (None, None)
    level = row(found, "auroc", "m", "sure", "re-weighted")
    assert (level["low"], level["reason"]) == (None, "no interval: the weights are not reliable")
    assert any("Do not rely on the re-weighted numbers for" in each and "'sure'" in each for each in told)
    assert not any("(re-weighted)" in each and ("'sure'" in each or "On average" in each) for each in told)


def test_too_few_patients_for_any_test_are_said() -> None:
    frame, score = frame_of()
    told = {
        n: " ".join(finding.sentence for finding in run(QUICK, cohort_of(frame[:n]), {"m": score[:n]}).findings)
        for n in (60, frame.height)
    }
    assert "cannot be judged: fewer than 30 patients with or without the label." in told[60]
    assert "cannot be judged" not in told[frame.height].split("risk")[0]


def test_near_thresholds_of_decisions_are_told_apart() -> None:
    frame, score = frame_of()
    thresholds = (0.001, 0.005, 0.015, 0.02, 0.1)
    found = run(replace(QUICK, decision_thresholds=thresholds), cohort_of(frame), {"m": score}).estimates
    groups = found.filter(metric="net_benefit", model="m")["group"].to_list()
    assert groups == [f"acting at {share}" for share in ("0.1%", "0.5%", "1.5%", "2%", "10%")]
    assert found.select("metric", "model", "label", "group", "reference").is_unique().all()


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_cases_without_a_probability_are_left_out_and_counted(missing: float | None) -> None:
    frame, score = frame_of()
    p = pl.when(pl.col("case_id") < 100).then(pl.lit(missing, pl.Float64)).otherwise(pl.col("pretest_ill"))
    some = frame.with_columns(pretest_ill=p)
    audit = QUICK
    cohort = cohort_of(some)
    plan = audit.plan(cohort, np.random.default_rng(0))
    assert len(plan.variants) == 300
    assert {skip.reason for skip in plan.skips} == {"no pre-test probability"}
    found = run(audit, cohort, {"m": score})
    assert row(found, "auroc", "m", "ill")["n"] == 300
    assert any("100 of 400 cases are left out" in finding.sentence for finding in found.findings)
    with pytest.raises(
        CohortError, match=r"nothing was known before about any audited case \(no pre-test probability\)"
    ):
        audit.plan(cohort_of(frame.with_columns(pretest_ill=pl.lit(missing, pl.Float64))), np.random.default_rng(0))


def test_a_label_whose_column_is_empty_has_the_true_reason_and_another_goes_on() -> None:
    frame, score = frame_of()
    two = frame.with_columns(
        other=pl.col("ill"),
        holes=pl.col("ill"),
        pretest_other=pl.lit(float("nan")),
        pretest_holes=pl.when(pl.col("case_id") < 90).then(float("nan")).otherwise(pl.col("pretest_ill")),
    )
    labels = ("ill", "other", "holes")
    cohort = Cohort.from_frame(two, labels=labels, attributes=[f"pretest_{label}" for label in labels])
    found = run(QUICK, cohort, {"m": np.repeat(score, 3, axis=1)})
    why = "its column of pre-test probabilities is empty"
    for group in ("all", "matched", "re-weighted", "top 25%"):
        assert row(found, "auroc", "m", "other", group)["reason"] == why
    assert row(found, "auroc_gain_over_context", "m", "other", reference=PRETEST)["reason"] == why
    assert row(found, "auroc", "m", "ill")["value"] is not None
    told = [finding.sentence for finding in found.findings]
    assert f"Nothing can be said about 'other': {why}." in told
    assert "For 'holes', 90 of 400 cases are left out: no pre-test probability." in told


def test_untested_differences_have_intervals_of_their_own() -> None:
    """Calibration errors have none, as they are larger in smaller groups by chance."""
    frame, score = frame_of(1200)
    found = run(QUICK, cohort_of(frame), {"m": score}).estimates.filter(pl.col("reference").is_not_null())
    told = found.filter(pl.col("p_value").is_null() & pl.col("low").is_not_null())
    middle = told.filter(metric="auroc", group="middle 50%", reference="all").row(0, named=True)
    assert told.height > 20
    assert middle["reason"].startswith("not tested")
    assert (middle["low"], middle["high"]) == (middle["pointwise_low"], middle["pointwise_high"]), "for it alone"
    assert -0.2 < middle["low"] < 0 < middle["high"] < 0.2
    errors = found.filter(metric="adaptive_calibration_error")
    assert errors["low"].null_count() == errors.height
    assert errors["value"].null_count() == 0
    assert errors["reason"].str.starts_with("no interval: by chance").all()


@pytest.mark.slow
def test_cases_without_an_earlier_note_are_left_out_and_counted() -> None:
    frame, score = frame_of(1000)
    notes = pl.when(pl.col("case_id") < 50).then(None).when(pl.col("case_id") < 80).then(pl.lit("  "))
    noted = frame.drop("pretest_ill").with_columns(
        prior=notes.when(ill=1).then(pl.lit("was ill")).otherwise(pl.lit("was well once")),
    )
    cohort = Cohort.from_frame(noted, labels=("ill",))
    plan = QUICK.plan(cohort, np.random.default_rng(0))
    assert len(plan.variants) == 920
    found = run(replace(QUICK, mentions="none"), cohort, {"m": score})
    told = [finding.sentence for finding in found.findings]
    assert "80 of 1,000 cases are left out: no earlier note." in told
    assert (found.provenance["left_out"], found.provenance["left_out_because"]) == (80, "no earlier note")


def test_a_stratum_with_one_class_is_null_with_its_reason() -> None:
    frame, score = frame_of()
    none_low = frame.with_columns(pretest_ill=pl.when(ill=1).then(0.9).otherwise(pl.col("pretest_ill") * 0.5))
    found = run(replace(QUICK, caliper=0.001), cohort_of(none_low), {"m": score})
    assert row(found, "auroc", "m", "ill", "bottom 25%")["reason"] == "no positive case"
    assert row(found, "auroc", "m", "ill", "bottom 25%", "all")["reason"] == "no positive case in 'bottom 25%'"
    assert "within the caliper" in str(row(found, "auroc", "m", "ill", "matched")["reason"])
    assert any("Do not rely on the re-weighted" in finding.sentence for finding in found.findings)
    one_class = frame.with_columns(ill=pl.lit(0))
    found = run(QUICK, cohort_of(one_class), {"m": score})
    assert row(found, "auroc", "m", "ill")["reason"] == "no positive case"


def test_pairs_that_are_not_alike_are_warned_of_and_not_tested() -> None:
    likely = planted(1500, base=1.0)
    found = run(replace(QUICK, caliper=None), likely.cohort, likely.scores)
    assert any("The matched pairs are not alike" in finding.sentence for finding in found.findings)
    for label in ("a", "macro"):
        still = row(found, "auroc", "context", label, "matched", "all")
        assert (still["significant"], still["p_value"]) == (None, None)
        assert still["reason"] == "not tested: the matched pairs are not alike"
    for answer in found.answers:
        if answer.question == "held_equal":
            assert answer.reason == "the matched pairs are not alike"
            assert answer.verdict == ("concern" if answer.model in ("context", "both") else "unsettled"), answer
    found = run(QUICK, likely.cohort, likely.scores)
    assert not any("The matched pairs are not alike" in finding.sentence for finding in found.findings)
    assert row(found, "auroc", "context", "a", "matched")["value"] == pytest.approx(0.5, abs=0.03)
