"""What the audit answers: verdicts on agreement and on words that no clinician would use, and why one is unsettled."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from palpate.models import Model
from palpate.perturb.words import Ratings
from palpate.results import AuditResult, Table
from palpate.results.verdicts import Answer
from palpate.testing import KeywordModel
from tests.audits.vocabulary.test_blocks import MODELS, SPURIOUS, WORDS, block, rated, run, sentences
from tests.audits.vocabulary.vocabulary_cases import Case, build, hospital, random_notes

ODD: dict[str, Model] = {"odd": KeywordModel(SPURIOUS, bias=-1.0)}


@pytest.fixture(scope="module")
def case() -> Case:
    """Many patients for twelve words, seven of whom have 'unicorn' in a note."""
    notes = random_notes(400, WORDS, chance=0.4)
    notes = [f"unicorn {note}" if 390 <= k < 397 else note for k, note in enumerate(notes)]
    return build(hospital(notes, per_patient=1), (*WORDS, "unicorn"), both_schemes=False)


def answer(result: AuditResult, question: str, model: str = "odd") -> Answer:
    (found,) = (each for each in result.answers if (each.question, each.model) == (question, model))
    return found


def told(result: AuditResult, question: str) -> str:
    return " ".join(each.sentence for each in result.findings if each.question == question and each.kind != "fact")


def test_a_word_that_no_clinician_would_use_is_a_concern_with_its_margin(case: Case) -> None:
    result = run(case, ODD, rated())
    found = answer(result, "spurious")
    assert (found.verdict, found.label, found.n_labels) == ("concern", "larkspur", 6)
    assert found.margin == 0.01
    assert "odd hangs on 'larkspur'" in told(result, "spurious")
    assert answer(run(case, ODD, rated(), margins={"shift": 0.5}), "spurious").verdict == "acceptable"


def test_harm_is_excluded_only_where_the_intervals_of_all_words_lie_below_the_margin(case: Case) -> None:
    model: dict[str, Model] = {"odd": KeywordModel({"sepsis": 0.1, "larkspur": 0.01}, bias=-2.0)}
    result = run(case, model, rated())
    assert answer(result, "spurious").verdict == "acceptable"
    assert "None of the 6 words that no clinician would use moves odd by more than 1 point" in told(result, "spurious")


def test_a_word_of_few_patients_keeps_it_from_being_settled_and_is_named(case: Case) -> None:
    ratings = Ratings((*WORDS, "unicorn"), ("r0", "r1", "r2"), np.vstack([rated().scores, [1, 1, 1]]))
    quiet: dict[str, Model] = {"odd": KeywordModel({"sepsis": 0.1}, bias=-2.0)}
    result = run(case, quiet, ratings)
    found = answer(result, "spurious")
    assert (found.verdict, found.n_unsettled) == ("unsettled", 1)
    assert found.reason == "no interval: fewer than 10 patients have the word"
    assert "is not settled for 1 of 6 such words: 'unicorn' (no interval: fewer than 10" in told(result, "spurious")
    assert answer(run(case, ODD, ratings), "spurious").verdict == "concern", "what is shown is shown"
    assert "1 of 13 words are in the notes of fewer than 10 patients" in sentences(result, "caveat")


def test_words_can_be_listed_instead_of_rated(case: Case) -> None:
    result = run(case, ODD, unwanted=("Larkspur", "window"))
    assert (answer(result, "spurious").verdict, answer(result, "spurious").label) == ("concern", "larkspur")
    assert answer(result, "agreement").verdict == "unsettled"
    assert answer(run(case, ODD, rated(), unwanted=("sepsis",)), "spurious").verdict == "concern"


def test_important_words_in_the_lower_half_are_no_unwanted_words(case: Case) -> None:
    lenient = Ratings(WORDS, ("r0", "r1"), np.clip(rated(raters=2).scores + 2, 1, 5))
    assert "think none of the audited words unimportant" in str(answer(run(case, ODD, lenient), "spurious").reason)


def test_agreement_is_judged_against_the_clinicians_own(case: Case) -> None:
    result = run(case, {**MODELS, **ODD}, rated())
    assert answer(result, "agreement", "logistic").verdict == "acceptable"
    assert answer(result, "agreement").verdict in ("concern", "caution")
    assert answer(result, "agreement").needed is None
    gap = result.estimates.filter(metric="rater_agreement", model="odd", reference="clinicians").row(0, named=True)
    assert gap["n_family"] == 3
    assert gap["low"] < gap["pointwise_low"] <= gap["value"]


def test_clinicians_who_hardly_agree_settle_nothing(case: Case) -> None:
    noise = np.random.default_rng(0).integers(1, 6, size=(len(WORDS), 3)).astype(float)
    result = run(case, ODD, Ratings(WORDS, ("a", "b", "c"), noise))
    assert answer(result, "agreement").verdict == "unsettled"
    assert "hardly agree with each other (Krippendorff's alpha" in str(answer(result, "agreement").reason)
    one = answer(run(case, ODD, rated(raters=1)), "agreement")
    assert (one.verdict, one.reason) == ("unsettled", "with one rater, the clinicians' own agreement is unknown")


def test_a_model_that_reacts_to_nothing_or_sees_nothing_is_not_acceptable(case: Case) -> None:
    still = run(case, {"odd": KeywordModel({})}, rated())
    assert [each.verdict for each in still.answers] == ["unsettled", "unsettled"]
    assert answer(still, "spurious").reason == "the model reacts to none of the words"
    blind = run(case, {"odd": KeywordModel(SPURIOUS, window_words=1)}, rated())
    assert answer(blind, "spurious").verdict != "acceptable"
    assert "could not see most of the swaps" in str(answer(blind, "spurious").reason)


def test_families(case: Case) -> None:
    by_question, by_run = (
        run(
            case,
            {**MODELS, "odd": KeywordModel(dict(zip(WORDS, np.linspace(0.1, 1.2, 12), strict=True)))},
            rated(),
            family=family,
        ).estimates.filter(pl.col("n_family").is_not_null())
        for family in ("question", "run")
    )
    n = {metric: rows["n_family"].unique().to_list() for (metric,), rows in by_question.group_by("metric")}
    assert n["clinician_agreement"] == [3]
    assert n["rank"] == [36]
    assert by_run["n_family"].unique().to_list() == [by_question.height]


def test_a_test_and_its_interval_agree(case: Case) -> None:
    rows = run(case, {**MODELS, **ODD}, rated()).estimates.filter(pl.col("significant").is_not_null())
    outside = (rows["low"] > 0) | (rows["high"] < 0)
    assert (outside == rows["significant"]).all()
    assert rows["significant"].any()
    assert not rows["significant"].all()


def test_differences_are_sorted_by_effect(case: Case) -> None:
    table = block(run(case, MODELS, rated()), "Words that two models treat differently")
    assert isinstance(table, Table)
    sizes = [abs(float(str(row[5]).split(" ")[0].replace("−", "-"))) for row in table.rows]
    assert sizes == sorted(sizes, reverse=True)


def test_no_sentence_calls_what_is_not_significant_the_same(case: Case) -> None:
    twins: dict[str, Model] = {"a": MODELS["logistic"], "b": KeywordModel({"sepsis": 2.0, "fall": 1.9, "stroke": 1.0})}
    said = sentences(run(case, twins, rated()))
    assert "significant" not in said
    assert "agrees better with the clinicians is open" in said or "agrees better with the clinicians than" in said
