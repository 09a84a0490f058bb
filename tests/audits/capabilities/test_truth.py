"""The capabilities audit on planted models with known pass rates, on palpate's suite and on small ones."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.pipeline import make_pipeline

from palpate.cases.edits import Inputs
from palpate.models import Model, Probabilities
from palpate.perturb.suites import load_suite, read_suite_yaml
from palpate.testing import KeywordModel
from tests.audits.capabilities.capability_runs import (
    MIRRORED,
    PAIRS,
    RNG,
    Fitted,
    NegationRule,
    ask,
    audit,
    cohort_of,
    quick,
    rows,
    sigmoid,
    tweets,
    values,
    warnings,
)
from tests.perturb.suites.small import write


def test_the_default_run_asks_the_papers_sentences_and_the_held_out_cases() -> None:
    cohort = tweets()
    plan = quick().plan(cohort, RNG(0))
    sizes = dict(zip(plan.variants.group_names, np.bincount(plan.variants.group, minlength=4).tolist(), strict=True))
    assert sizes == {"held out": 60, "validation": 30, "template": 11_265, "changed": 0}
    examined = plan.memory.examined
    found = {test.group: len(test.cases) for test in examined.tests}
    assert found["temporal_order/temporal_standard: no ADE"] == 1_050
    assert found["temporal_order/temporal_double: ADE"] == 1_575
    assert found["positive_sentiment/positive_sentiment: ADE"] == 2_700
    assert sorted(found.values()) == sorted([1050, 900, 1050, 1050, 1575, 1575, 2700, 120, 120, 825, 300])
    assert plan.labels == ("ADE",)
    assert len(set(plan.variants.made)) == 11_265


def test_a_model_that_always_says_ade_gets_exactly_0_and_1() -> None:
    result = audit(quick(), tweets(), always=KeywordModel({}, bias=3.0, labels=("ADE",)))
    found = values(result, "pass_rate")
    assert len(found) == 11
    for group, value in found.items():
        assert value == (0.0 if group.endswith(": no ADE") else 1.0)
    assert set(values(result, "balanced_pass_rate").values()) == {0.5}
    assert values(result, "recall") == {"held-out: ADE": 1.0, "held-out: no ADE": 0.0}
    for reference in ("held-out: ADE", "held-out: no ADE"):
        differences = rows(result, "pass_rate", reference=reference)
        assert set(differences["value"].to_list()) == {0.0}
        assert differences["significant"].drop_nulls().to_list() == [False] * len(
            differences["significant"].drop_nulls()
        )
    assert "can't tell the two sides apart" in warnings(result)
    # Certain about these sentences, not about all others: 14 templates are not the world.
    standard = rows(result, "pass_rate").filter(pl.col("group") == "temporal_order/temporal_standard: no ADE")
    assert standard["low"][0] == 0.0
    assert 0.15 < standard["high"][0] < 0.3


def test_a_rule_written_for_negation_passes_negation_only() -> None:
    result = audit(quick(), tweets(), rule=NegationRule())
    found = values(result, "pass_rate")
    balanced = values(result, "balanced_pass_rate")
    assert found["negation/negation: no ADE"] == 1.0
    assert found["negation/negation: ADE"] == 1.0
    assert values(result, "capability_pass_rate")["negation"] == 1.0
    others = {name: value for name, value in balanced.items() if name != "negation/negation"}
    assert len(others) == 4
    assert all(abs(value - 0.5) < 0.06 for value in others.values()), others
    told = warnings(result)
    assert "Temporal order" in told
    assert "Negation" not in told


def test_a_bag_of_words_passes_exactly_one_side_of_each_mirrored_pair(tmp_path: Path) -> None:
    suite = write(tmp_path, MIRRORED)
    cases = read_suite_yaml(suite).default_cases(RNG(0))
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression(C=1e6, max_iter=5000)).fit(cases.texts, cases.label)
    result = audit(quick(suite=suite), tweets(), words=Fitted(pipeline))
    found = values(result, "pass_rate")
    # Both sides have the same words, so the same probability: one of the two is wrong, always.
    assert found["order/order: ADE"] + found["order/order: no ADE"] == pytest.approx(1.0, abs=1e-12)
    assert values(result, "balanced_pass_rate")["order/order"] == pytest.approx(0.5, abs=1e-12)
    bigrams = make_pipeline(CountVectorizer(ngram_range=(1, 3)), LogisticRegression(C=1e6, max_iter=5000))
    reads_order = audit(quick(suite=suite), tweets(), words=Fitted(bigrams.fit(cases.texts, cases.label)))
    assert values(reads_order, "balanced_pass_rate")["order/order"] == 1.0


def test_a_bag_of_words_trained_on_everything_else_fails_a_side_of_temporal_order() -> None:
    others = ("positive_sentiment", "beneficial_effect", "negation")
    cases = load_suite("ade").sample(3_000, RNG(0), capabilities=others, balance="template")
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression(max_iter=2000)).fit(cases.texts, cases.label)
    result = audit(quick(), tweets(), words=Fitted(pipeline))
    found = values(result, "pass_rate")
    assert min(found["negation/negation: ADE"], found["negation/negation: no ADE"]) > 0.8
    for test in ("standard", "single", "double"):
        sides = [found[f"temporal_order/temporal_{test}: {label}"] for label in ("ADE", "no ADE")]
        assert min(sides) < 0.5, (test, sides)


def test_pairs_have_the_keyword_models_closed_form(tmp_path: Path) -> None:
    suite = write(tmp_path, PAIRS)
    weights = {"pain": 1.0, "severe": 2.0, "please": 0.3, "urgent": 1.0, "denies": -1.5}
    model = KeywordModel(weights, labels=("ill",))
    cohort = cohort_of(["Pain.", "Well.", "Severe pain.", "Fine."], [1, 0, 1, 0], label="ill")
    result = audit(quick(suite=suite, threshold=0.7), cohort, toy=model)
    moves = {
        "please": [sigmoid(1.3) - sigmoid(1.0), sigmoid(3.3) - sigmoid(3.0)],
        "urgent": [sigmoid(2.0) - sigmoid(1.0), sigmoid(4.0) - sigmoid(3.0)],
        "denied": [sigmoid(1.0) - sigmoid(-0.5), sigmoid(3.0) - sigmoid(1.5)],
    }
    # 0.1 is crossed by "urgent" without "severe" alone, and 0.25 by a denial without "severe" alone.
    assert [max(moves["please"]) < 0.1, moves["urgent"][0] > 0.1 > moves["urgent"][1]] == [True, True]
    assert moves["denied"][0] > 0.25 > moves["denied"][1]
    passed = values(result, "pass_rate")
    assert passed == {
        "shorthand/polite: ill": 0.75,
        "denial/denied": 0.5,
        "denial/any": 0.5,
    }
    changes = values(result, "change_pass_rate")
    assert changes == {
        "shorthand/polite: ill | please in front": 1.0,
        "shorthand/polite: ill | urgent behind": 0.5,
    }
    movement = values(result, "movement")
    assert movement["shorthand/polite: ill"] == pytest.approx(np.mean(moves["please"] + moves["urgent"]), abs=1e-12)
    assert movement["denial/denied"] == pytest.approx(np.mean(moves["denied"]), abs=1e-12)
    assert movement["denial/any"] == pytest.approx((sigmoid(1.0) - 0.5) / 2, abs=1e-12)
    # sigmoid(1) is 0.731: a denial takes it below 0.7, and 0.953 becomes 0.818; nothing else crosses.
    flips = values(result, "flip_rate")
    assert flips == {"shorthand/polite: ill": 0.0, "denial/denied": 0.5, "denial/any": 0.5}
    capability = values(result, "capability_pass_rate")
    assert capability == {"shorthand": 0.75, "denial": 0.5}


def test_a_change_of_exactly_the_tolerance_passes_and_no_movement_is_no_direction(tmp_path: Path) -> None:
    suite = write(tmp_path, PAIRS)
    still = audit(quick(suite=suite), tweets(), still=KeywordModel({}, labels=("ADE",)))
    assert values(still, "pass_rate") == {"shorthand/polite: ill": 1.0, "denial/denied": 0.0, "denial/any": 0.0}

    class Steps(Model):
        labels, fingerprint = ("ADE",), "steps"

        def predict(self, inputs: Inputs) -> Probabilities:
            return np.array([[0.8 if re.search("Please|Urgent", text) else 0.7] for text in inputs.texts])

    exact = audit(quick(suite=suite), tweets(), steps=Steps())
    assert 0.8 - 0.7 > 0.1  # in binary
    assert values(exact, "pass_rate")["shorthand/polite: ill"] == 1.0


def test_rates_and_baseline_are_the_slow_obvious_ones() -> None:
    cohort = tweets()
    model = KeywordModel({"nausea": 3.0, "before": -2.0, "not": -1.0, "i": 0.4}, bias=-0.7, labels=("ADE",))
    plan = quick().plan(cohort, RNG(3))
    answers = ask(plan, {"toy": model})
    result = quick().analyse(plan, answers, RNG(1))
    p = answers["toy"].p[:, 0]
    cases = load_suite("ade").default_cases(RNG(3))
    frame = pl.DataFrame(
        {
            "group": [f"{case.capability}/{case.test}: {'ADE' if case.label else 'no ADE'}" for case in cases],
            "template": [case.template for case in cases],
            "passed": (p[90:] >= 0.5) == (cases.label == 1),
        }
    )
    slow = dict(frame.group_by("group").agg(pl.col("passed").mean()).iter_rows())
    assert values(result, "pass_rate") == pytest.approx(slow)
    by_template = dict(frame.group_by("template").agg(pl.col("passed").mean()).iter_rows())
    assert values(result, "template_pass_rate") == pytest.approx(by_template)
    held_out = cohort.rows(split="test")
    y, decided = cohort.y_true(held_out)[:, 0], p[:60] >= 0.5
    recalls = {"held-out: ADE": recall_score(y, decided), "held-out: no ADE": recall_score(y, decided, pos_label=0)}
    assert values(result, "recall") == pytest.approx(recalls)
    for reference, recall in recalls.items():
        for group, gap in values(result, "pass_rate", reference=reference).items():
            assert gap == pytest.approx(slow[group] - recall)
            assert group.endswith(reference.removeprefix("held-out"))
