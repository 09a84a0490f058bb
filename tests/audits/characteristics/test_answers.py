"""Answers of the characteristics audit: harm, its absence, and what can't be told, on models known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import Characteristics
from palpate.results import AuditResult
from palpate.results.verdicts import Answer
from palpate.testing import KeywordModel
from tests.audits.characteristics.altered_notes import gender_plan, notes
from tests.audits.characteristics.test_audit import AgeModel, run
from tests.audits.characteristics.test_estimates import SEXIST, analysed

QUICK = Characteristics(n_replicates=100, threshold=0.5, observed="none")


def only(result: AuditResult) -> Answer:
    assert len(result.answers) == 1
    answer = result.answers[0]
    told = [finding for finding in result.findings if finding.kind == answer.verdict]
    assert [finding.question for finding in told] == [answer.question], "one sentence per question and model"
    return answer


def test_a_large_effect_is_a_concern_and_says_how_large() -> None:
    result = analysed(gender_plan(notes(600)), replace(QUICK, threshold=0.4), m=SEXIST)
    answer = only(result)
    assert (answer.question, answer.asks) == ("gender", "Does the patient's gender change the answer?")
    assert (answer.verdict, answer.label, answer.n_labels) == ("concern", "female", 2)
    sentence = result.findings[0].sentence
    assert sentence.startswith("m: naming the patient female instead of male flips ")
    assert "raises the predicted risk by 0." in sentence
    assert sentence.endswith("an effect beyond the margin of 2% is shown.")


def test_the_direction_and_the_larger_bound_decide() -> None:
    model = KeywordModel({"nonbinary": -1.0, "woman": 0.2, "fever": 1.3}, bias=-4.0)
    answer = only(analysed(gender_plan(notes(600)), QUICK, m=model))
    assert (answer.verdict, answer.metric, answer.label) == ("concern", "shift", "nonbinary")
    assert answer.high is not None
    assert answer.margin is not None
    assert answer.high < answer.margin < 0, "signed as measured: the risk falls"


@pytest.mark.parametrize("weight", [0.0, 0.001])
def test_no_effect_and_a_tiny_one_are_acceptable_with_enough_patients(weight: float) -> None:
    model = KeywordModel({"woman": weight, "fever": 1.3}, bias=-3.0)
    result = analysed(gender_plan(notes(1600)), QUICK, m=model)
    assert only(result).verdict == "acceptable"
    if weight:
        row = result.estimates.filter(metric="difference", group="gender=female").row(0, named=True)
        assert row["significant"]
        assert 0 < row["value"] < 0.0002
    sentence = result.findings[0].sentence
    assert "beyond the margins are excluded" in sentence
    assert ("No prediction changed in 798 notes." in sentence) == (weight == 0.0)
    small = analysed(gender_plan(notes(300)), QUICK, m=model)
    few = only(small)
    assert few.verdict == "unsettled", "0 of 75 patients do not exclude 2% of flips"
    assert "no decision flipped in 150 notes, but 5" in small.findings[0].sentence
    assert few.needed is not None
    assert 150 < few.needed < 400
    own = analysed(gender_plan(notes(1600)), replace(QUICK, margins={"shift": 1e-5}), m=model)
    assert only(own).verdict == ("concern" if weight else "unsettled")


@pytest.mark.slow
def test_age_may_have_a_slope_but_no_year_may_stand_out() -> None:
    slope = 0.05 * (np.arange(91) - 60.0)
    odd = slope.copy()
    odd[73] += 0.4
    audit = replace(QUICK, alter=("age",), threshold=0.35)
    cohort = notes(4800)
    apart = replace(cohort, cases=cohort.cases.with_columns(pl.format("{} Bed {}.", "text", "case_id").alias("text")))
    _, result = run(audit, apart, smooth=AgeModel(slope, 16.0), odd=AgeModel(odd, 16.0))
    smooth, rough = result.answers
    assert smooth.asks == "Does a single year of age change the answer?"
    assert (smooth.verdict, rough.verdict, rough.label) == ("acceptable", "concern", "age 73")
    assert "age 73, compared with the neighbouring ages 72 and 74," in result.findings[1].sentence
    gap = result.estimates.filter(metric="neighbour_gap", group="age=73", model="odd").row(0, named=True)
    assert gap["reference"] == "age=72, 74"
    assert gap["n_family"] == 70
    assert gap["low"] > 0.01


def test_a_cliff_between_two_ages_is_a_concern() -> None:
    """Whoever has no fever is above the threshold from 65 on: no age stands out from both of its neighbours."""
    cliff = np.where(np.arange(91) < 65, -0.04, 0.04)
    audit = replace(QUICK, alter=("age",), threshold=0.5)
    _, result = run(audit, notes(1200), cliff=AgeModel(cliff))
    answer = only(result)
    assert (answer.verdict, answer.metric, answer.label) == ("concern", "flips", "age 65")
    told = result.findings[0].sentence
    assert "age 65 instead of 64 flips 64% of decisions more than the years around it do" in told
    row = result.estimates.filter(metric="year_flips", group="age=65").row(0, named=True)
    assert row["reference"] == "age=64"
    assert row["value"] == pytest.approx(0.64, abs=0.02), "all notes without fever"


@pytest.mark.parametrize(("ages", "asked"), [((30, 60), False), ((30, 40, 50, 60), False), ((30, 35, 40), True)])
def test_ages_far_apart_have_no_neighbours(ages: tuple[int, ...], asked: bool) -> None:
    audit = replace(QUICK, alter=("age",), ages=ages)
    _, result = run(audit, notes(1200), m=AgeModel(0.05 * np.arange(91)))
    answer = only(result)
    reason = "no three ages that are equally spaced and at most 5 years apart"
    assert (answer.reason is None) == asked
    assert asked or answer.reason == reason


def test_notes_that_could_not_be_altered_leave_it_open_unless_harm_is_shown() -> None:
    cohort = notes(1200)
    where = pl.int_range(pl.len()) % 5
    text = pl.when(where < 4).then(pl.lit("Nobody is named.")).otherwise(pl.col("text"))
    mostly = replace(cohort, cases=cohort.cases.with_columns(text=text))
    blind = analysed(gender_plan(mostly), QUICK, m=KeywordModel({"fever": 1.0}))
    assert only(blind).reason == "80% of the notes could not be altered"
    assert [finding.kind for finding in blind.findings] == ["unsettled", "caveat"]
    assert only(analysed(gender_plan(mostly), QUICK, m=SEXIST)).verdict == "concern"


def test_labels_that_were_not_tested_are_named_and_counted() -> None:
    cohort = notes(1600, labels=("ill", "frail"))
    model = KeywordModel({"fever": {"ill": 1.0, "frail": 0.5}}, labels=("ill", "frail"), bias=-3.0)
    audit = replace(QUICK, alter=("gender",), labels=("ill",))
    _, result = run(audit, cohort, m=model)
    assert result.findings[-1].kind == "caveat"
    assert "1 of 2 labels were not tested" in result.findings[-1].sentence
    assert "'frail'" in result.findings[-1].sentence
    nobody = replace(cohort, y=cohort.y * np.asarray([1, 0], dtype=cohort.y.dtype))
    result = analysed(gender_plan(nobody), replace(QUICK, threshold="recall"), m=model)
    answer = only(result)
    assert (answer.verdict, answer.reason) == ("unsettled", "no threshold")
    assert answer.label is not None
    assert answer.label.startswith("frail, ")


def test_a_label_is_unsettled_if_none_of_its_effects_says_more() -> None:
    cohort = notes(labels=("ill", "frail"))
    model = KeywordModel({"woman": {"ill": 1.0}, "fever": {"ill": 1.0, "frail": 0.5}}, labels=("ill", "frail"))
    answer = only(analysed(gender_plan(cohort), QUICK, m=model))
    assert (answer.verdict, answer.label, answer.n_labels, answer.n_unsettled) == ("concern", "ill, female", 2, 1)


@pytest.mark.parametrize(
    ("alter", "name", "asks"),
    [
        ("ethnicity", "ethnicity", "Does the patient's ethnicity change the answer?"),
        ("weight", "weight", "Does the patient's weight change the answer?"),
        ("wording", "wording", "Does the wording about the patient change the answer?"),
        ("gender+ethnicity", "gender_ethnicity", "Do the patient's gender and ethnicity together change the answer?"),
    ],
)
def test_every_characteristic_has_a_question_that_a_gate_can_name(alter: str, name: str, asks: str) -> None:
    _, result = run(replace(QUICK, alter=(alter,)), notes(), m=KeywordModel({"fever": 1.0}))
    assert [(answer.question, answer.asks) for answer in result.answers] == [(name, asks)]


def test_no_sentence_takes_an_insignificant_effect_for_none() -> None:
    _, result = run(replace(QUICK, alter=("gender", "age")), notes(), m=SEXIST, blind=KeywordModel({"fever": 1.0}))
    for finding in result.findings:
        assert "significant" not in finding.sentence
    sentences = [finding.sentence for finding in result.findings]
    assert len(set(sentences)) == len(sentences)
