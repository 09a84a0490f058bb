"""What the audit says in sentences."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from palpate.models.protocol import Model
from palpate.perturb.words import Ratings
from palpate.results import AuditResult, Table
from palpate.testing import KeywordModel
from tests.audits.vocabulary.audited_words import (
    MODELS,
    WORDS,
    block,
    rated,
    run,
    sentences,
    value,
)
from tests.audits.vocabulary.vocabulary_cases import Case, build, hospital, random_notes


def test_the_spurious_word_is_named_with_its_ranks(result: AuditResult) -> None:
    assert value(result, "rank", model="xgboost", group="larkspur")["value"] == 1
    warned = sentences(result, "warning")
    assert "xgboost reacts most to 'larkspur' (rank 1 of 12), which clinicians rank" in warned
    told = "logistic reacts most to 'sepsis', 'stroke' and 'tumour', of 12 words; clinicians rank them 1st, 2nd and"
    assert told in sentences(result, "neutral")
    assert "1 of 13 words could not be scored (in no note): 'absent'." in sentences(result)


def test_the_model_that_agrees_less_with_the_clinicians_is_named(result: AuditResult) -> None:
    row = value(result, "clinician_agreement", model="xgboost", reference="logistic")
    assert row["significant"] is True
    assert "logistic agrees better with the clinicians than xgboost: " in sentences(result)
    assert "can't be told from chance" in sentences(result, "warning")
    assert "no better than they agree with each other: Krippendorff's alpha" in sentences(result)


def test_rated_words_that_are_not_audited_are_named(audited: Case) -> None:
    more = Ratings((*WORDS, "Larkspur hill"), ("r",), np.append(rated(raters=1).scores, [[3.0]], axis=0))
    told = sentences(run(audited, MODELS, more, n_replicates=100))
    assert "1 rated word is not audited: 'Larkspur hill'." in told


def test_a_model_that_does_not_see_many_swaps_is_named() -> None:
    texts = ["fever rest rest rest.", "rest rest rest fever."] * 20
    small = build(hospital(texts), ["fever", "rest"], both_schemes=False)
    found = run(small, {"bert": KeywordModel({"fever": 1.0}, window_words=1)})
    row = value(found, "outside_window", model="bert", group="fever")
    assert (row["value"], row["n"]) == (0.5, 128)
    assert "bert never saw" in sentences(found, "warning")


def test_a_model_that_reacts_to_nothing(audited: Case) -> None:
    found = run(audited, {"dull": KeywordModel({"nothing": 1.0})}, rated())
    assert "dull reacts to none of the 12 words." in sentences(found, "warning")
    assert value(found, "clinician_agreement", model="dull")["reason"] == "every word moves the model alike"


def test_findings_speak_of_an_ensemble_as_one_model(audited: Case) -> None:
    members: dict[str, Model] = {f"x[{k}]": KeywordModel({"larkspur": 1.0 + k}) for k in range(2)}
    found = run(audited, {**members, "solo": MODELS["logistic"]}, rated(), dict.fromkeys(members, "x"))
    each = [value(found, "sensitivity", model=name, group="larkspur")["value"] for name in members]
    assert value(found, "sensitivity", model="x", group="larkspur")["value"] == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    sd = value(found, "sensitivity_sd", model="x", group="larkspur")["value"]
    assert sd == pytest.approx(np.std(each, ddof=1))  # type: ignore[arg-type]
    assert "x[0]" not in sentences(found)
    assert found.estimates.filter(pl.col("reference") == "x[0]").is_empty()
    assert value(found, "clinician_agreement", model="x", reference=None)["value"] is not None


def test_no_word_in_any_note() -> None:
    small = build(hospital(random_notes(20, WORDS)), ["absent", "nowhere"])
    found = run(small, {"m": MODELS["logistic"]}, rated())
    assert "No word could be scored for m" in sentences(found, "warning")
    assert found.estimates.filter(pl.col("metric") == "sensitivity")["value"].is_null().all()


def test_several_labels_lead_with_their_average() -> None:
    labels = ("early", "late", "never")
    small = build(hospital(random_notes(60, WORDS), labels=labels), WORDS, both_schemes=False)
    models: dict[str, Model] = {"m": KeywordModel({"larkspur": {"early": 2.0}, "fall": {"late": 0.5}}, labels=labels)}
    found = run(small, models, rated(), labels_shown=2, n_replicates=100)
    assert "larkspur" in sentences(found)
    assert "averaged over 3 labels" in sentences(found)
    assert set(found.estimates.filter(pl.col("metric") == "sensitivity")["label"]) > {"macro"}
    assert found.estimates.filter(pl.col("metric") == "sensitivity")["label"].n_unique() == 3
    assert isinstance(block(found, "Every label"), Table)


def test_without_ratings_clinicians_are_not_mentioned(audited: Case) -> None:
    alone = run(audited, {"xgboost": MODELS["xgboost"]})
    assert "clinician" not in sentences(alone)
    assert "xgboost reacts most to 'larkspur', 'table' and 'sepsis', of 12 words." in sentences(alone)
    titles = [each.title for each in alone.blocks]
    assert "Who agrees with whom" not in titles
    assert "Words that two models treat differently" not in titles
    assert "Rank and frequency" in titles
