"""Thresholds by every rule, against scikit-learn's recall and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import recall_score

from palpate.audits.kit.scope import validation_rows
from palpate.audits.kit.thresholds import ThresholdRule, check_rule, decide_thresholds
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Variants
from palpate.errors import CohortError
from palpate.results import ModelPredictions, Plan
from palpate.stats import youden_threshold
from tests.conftest import notes_frame


@pytest.fixture
def plan(cohort: Cohort) -> tuple[Plan, slice, slice]:
    test, validation = cohort.rows(split="test"), validation_rows(cohort)
    plan = Plan(cohort, Variants.of_cases(np.concatenate([test, validation])), cohort.labels)
    return plan, slice(0, len(test)), slice(len(test), len(test) + len(validation))


def answers_of(plan: Plan, threshold: float | None = None) -> ModelPredictions:
    p = np.random.default_rng(0).random((len(plan.variants), 1))
    return ModelPredictions(plan.labels, p, np.ones(len(p), bool), threshold)


def test_auto_is_the_models_own_and_else_the_recall_on_the_validation_split(plan) -> None:
    made, main, validation = plan
    predictions = {"own": answers_of(made, 0.35), "none": answers_of(made)}
    found = decide_thresholds(made, predictions, rule=ThresholdRule(), validation=validation, main=main)
    y, p = made.cohort.y_true(made.variants.parent[validation])[:, 0], predictions["none"].p[validation, 0]
    assert found.values[0, 0] == 0.35
    assert recall_score(y, p >= found.values[1, 0]) >= 0.70 > recall_score(y, p > found.values[1, 0])
    assert found.origin == {
        "own": "stored with the model",
        "none": "reaches 70% recall on the validation split",
    }


def test_without_a_validation_split_auto_is_youdens_on_the_audited_cases(plan) -> None:
    made, main, _ = plan
    rows = np.arange(len(made.variants))[main]  # rows may come as an array too
    predictions = {"m": answers_of(made)}
    found = decide_thresholds(made, predictions, rule=ThresholdRule(), validation=slice(0, 0), main=rows)
    y = made.cohort.y_true(made.variants.parent[rows])[:, 0]
    assert found.values[0, 0] == youden_threshold(y, predictions["m"].p[rows, 0])
    assert found.origin["m"] == "maximises Youden's index on the audited cases themselves"


def test_a_number_beats_the_models_own(plan) -> None:
    made, main, validation = plan
    found = decide_thresholds(
        made, {"m": answers_of(made, 0.9)}, rule=ThresholdRule(0.2), validation=validation, main=main
    )
    assert (found.values[0, 0], found.origin["m"]) == (0.2, "given")


def test_a_label_without_positives_has_no_threshold(plan) -> None:
    made, main, _ = plan
    negative = np.flatnonzero(made.cohort.y_true(made.variants.parent)[:, 0] == 0)
    found = decide_thresholds(
        made, {"m": answers_of(made)}, rule=ThresholdRule("recall"), validation=negative, main=main
    )
    assert np.isnan(found.values[0, 0])


def test_recall_without_a_validation_split_is_refused_before_any_work(cohort: Cohort) -> None:
    check_rule(ThresholdRule("recall"), cohort)
    plain = Cohort.from_frame(notes_frame().drop("split"), labels=["ill"])
    assert len(validation_rows(plain)) == 0
    check_rule(ThresholdRule("youden"), plain)
    with pytest.raises(CohortError, match="no validation split"):
        check_rule(ThresholdRule("recall"), plain)
