"""The slices audit on planted slices: found, confirmed on other patients, told once; silent where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.metrics import brier_score_loss, roc_auc_score

from palpate.audits.slices import Slices
from palpate.cases.cohort import Cohort
from palpate.errors import CohortError, ConfigError
from palpate.results import AuditResult, Table
from tests.audits.slices.planted import WORSE, differences, planted, run

FAST = {"n_replicates": 200}


@pytest.fixture(scope="module")
def result() -> AuditResult:
    cohort, p = planted()
    return run(Slices(n_replicates=300), cohort, {"m": p})


def test_a_planted_slice_is_found_confirmed_and_told_once(result: AuditResult) -> None:
    rows = differences(result)
    assert rows[0]["group"] == WORSE
    assert rows[0]["significant"]
    assert rows[0]["high"] < -0.1
    assert not any(set(row["group"].split(", ")) < set(WORSE.split(", ")) for row in rows[1:] if row["significant"])
    (answer,) = result.answers
    assert (answer.question, answer.verdict, answer.where) == ("worse", "concern", WORSE)
    assert answer.reason is None
    assert "on patients on whom it was not found" in result.findings[0].sentence
    assert WORSE in result.findings[0].sentence


def test_numbers_are_those_of_the_other_half(result: AuditResult) -> None:
    cohort, p = planted()
    plan = Slices().plan(cohort, np.random.default_rng(0))
    other = ~plan.memory.search
    inside = ((pl.col("gender") == "f") & (pl.col("ward") == "b")).fill_null(False)
    mask = cohort.cases.select(inside).to_series().to_numpy()
    y = cohort.y.toarray().ravel()
    here, rest = other & mask, other & ~mask
    wanted = roc_auc_score(y[here], p[here]) - roc_auc_score(y[rest], p[rest])
    row = differences(result)[0]
    assert row["value"] == pytest.approx(wanted)
    assert (row["n"], row["n_positive"]) == (here.sum(), y[here].sum())
    patients = cohort.patients
    assert not set(patients[other]) & set(patients[plan.memory.search])
    assert len(set(patients[other])) == len(set(patients)) // 2
    block = next(block for block in result.blocks if isinstance(block, Table))
    assert block.rows[0][3] == len(set(patients[here]))
    found = roc_auc_score(y[~other & mask], p[~other & mask])
    assert block.rows[0][6] == pytest.approx(found)


def test_equal_patients_are_unsettled_with_what_could_be_seen() -> None:
    cohort, p = planted(worse=1.6)
    result = run(Slices(**FAST), cohort, {"m": p})  # type: ignore[arg-type]
    assert not any(row["significant"] for row in differences(result))
    (answer,) = result.answers
    assert answer.verdict == "unsettled"
    assert "may be worse" in (answer.reason or "")
    assert any("a slice of a tenth of them" in finding.sentence for finding in result.findings)


def test_harm_is_excluded_where_there_are_patients_enough() -> None:
    cohort, p = planted(60_000, worse=1.6, notes=1)
    result = run(Slices(by=("gender", "shift"), **FAST), cohort, {"m": p})  # type: ignore[arg-type]
    (answer,) = result.answers
    assert answer.verdict == "acceptable"
    assert answer.high is not None
    assert "for all slices at once" in result.findings[0].sentence


@pytest.mark.parametrize("metric", ["sensitivity", "brier", "calibration"])
def test_other_metrics(metric: Any) -> None:
    cohort, p = planted(6000)
    mask = ((cohort.cases["gender"] == "f") & (cohort.cases["ward"] == "b")).fill_null(False).to_numpy()
    if metric == "calibration":
        p = np.where(mask, p * 0.3, p)
    result = run(Slices(metric=metric, threshold=0.3, **FAST), cohort, {"m": p})  # type: ignore[arg-type]
    rows = [row for row in differences(result) if row["significant"]]
    assert WORSE in [row["group"] for row in rows]
    row = next(row for row in rows if row["group"] == WORSE)
    plan = Slices().plan(cohort, np.random.default_rng(0))
    y, other = cohort.y.toarray().ravel(), ~plan.memory.search
    slow = {
        "sensitivity": lambda rows: (p[rows & (y == 1)] >= 0.3).mean(),
        "brier": lambda rows: brier_score_loss(y[rows], p[rows]),
        "calibration": lambda rows: (y - p)[rows].mean(),
    }[metric]
    assert row["value"] == pytest.approx(slow(other & mask) - slow(other & ~mask))
    assert result.answers[0].verdict == "concern"


def test_words_of_the_notes() -> None:
    cohort, p = planted(5000, word=True)
    listed = run(Slices(words=("interpreter", "zebra"), **FAST), cohort, {"m": p})  # type: ignore[arg-type]
    assert differences(listed)[0]["group"] == "note says 'interpreter'"
    assert any("'zebra'" in finding.sentence for finding in listed.findings)
    own = run(Slices(words=True, by=("gender",), **FAST), cohort, {"m": p})  # type: ignore[arg-type]
    assert differences(own)[0]["group"] == "note says 'interpreter'"
    assert own.answers[0].verdict == "concern"
    alone = run(
        Slices(words=True, **FAST),  # type: ignore[arg-type]
        Cohort(cohort.cases, cohort.labels, cohort.y),
        {"m": p},
    )
    assert differences(alone)[0]["group"] == "note says 'interpreter'"


def test_several_models_and_labels_share_one_correction() -> None:
    cohort, p = planted(3000)
    result = run(Slices(**FAST), cohort, {"a": p, "b[0]": p, "b[1]": p})  # type: ignore[arg-type]
    rows = differences(result)
    assert {row["model"] for row in rows} == {"a", "b"}
    assert {row["n_family"] for row in rows if row["p_value"] is not None} == {len(rows)}
    assert [answer.model for answer in result.answers] == ["a", "b"]


def test_labels_that_were_not_searched_are_named() -> None:
    cohort, p = planted(2000)
    rarer = sparse.csc_array(np.arange(len(cohort))[:, None] % 20 == 0).astype(np.uint8)
    two = replace(cohort, labels=(*cohort.labels, "rare"), y=sparse.csc_array(sparse.hstack([cohort.y, rarer])))
    told = [finding.sentence for finding in run(Slices(**FAST), two, {"m": p}).findings]  # type: ignore[arg-type]
    assert any(f"searched for '{cohort.labels[0]}' only, not for 'rare'" in sentence for sentence in told)
    told = [finding.sentence for finding in run(Slices(**FAST), cohort, {"m": p}).findings]  # type: ignore[arg-type]
    assert not any("only, not for" in sentence for sentence in told)


def test_the_same_seed_gives_the_same_slices() -> None:
    cohort, p = planted(2000)
    first, second = (run(Slices(**FAST), cohort, {"m": p}) for _ in range(2))  # type: ignore[arg-type]
    assert first.estimates.equals(second.estimates)
    other = run(Slices(**FAST), cohort, {"m": p}, seed=5)  # type: ignore[arg-type]
    assert not first.estimates.equals(other.estimates)


def test_too_few_patients_are_said_to_be() -> None:
    cohort, p = planted(60)
    result = run(Slices(**FAST), cohort, {"m": p})  # type: ignore[arg-type]
    (answer,) = result.answers
    assert answer.verdict == "unsettled"
    assert "no slice has 30 patients and 10 events" in (answer.reason or "")


def test_what_is_refused() -> None:
    cohort, _ = planted(200)
    with pytest.raises(ConfigError, match="no attribute 'sex'"):
        Slices(by=("sex",)).check_cohort(cohort)
    with pytest.raises(ConfigError, match="has no attributes"):
        Slices().check_cohort(Cohort(cohort.cases, cohort.labels, cohort.y))
    without = Cohort(cohort.cases.drop("text"), cohort.labels, cohort.y, cohort.attributes)
    with pytest.raises(CohortError, match="has no text"):
        Slices(words=True).check_cohort(without)
    beds = cohort.cases.with_columns(bed=pl.Series([f"b{k}" for k in range(200)]))
    with pytest.raises(ConfigError, match="'bed' has 200 different values"):
        Slices().plan(Cohort(beds, cohort.labels, cohort.y, ("bed",)), np.random.default_rng(0))


def test_an_attribute_with_one_value_is_named() -> None:
    cohort, p = planted(2000)
    cases = cohort.cases.with_columns(country=pl.lit("here"))
    result = run(
        Slices(**FAST),  # type: ignore[arg-type]
        Cohort(cases, cohort.labels, cohort.y, (*cohort.attributes, "country")),
        {"m": p},
    )
    assert any("'country'" in finding.sentence for finding in result.findings)


def test_sampling_weights_count_where_slices_are_confirmed() -> None:
    cohort, p = planted(3000)
    rng = np.random.default_rng(3)
    weight = rng.uniform(0.5, 2.0, 3000)
    cases = cohort.cases.with_columns(sampling_weight=pl.Series(weight))
    result = run(
        Slices(**FAST),  # type: ignore[arg-type]
        Cohort(cases, cohort.labels, cohort.y, cohort.attributes),
        {"m": p},
    )
    row = differences(result)[0]
    assert row["group"] == WORSE
    other = ~Slices().plan(cohort, np.random.default_rng(0)).memory.search
    mask = ((cohort.cases["gender"] == "f") & (cohort.cases["ward"] == "b")).fill_null(False).to_numpy()
    y = cohort.y.toarray().ravel()
    here, rest = other & mask, other & ~mask
    first, second = (roc_auc_score(y[r], p[r], sample_weight=weight[r]) for r in (here, rest))
    assert row["value"] == pytest.approx(first - second)
