"""Suites in other languages: data like the English ones, checked by what holds in every language."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.perturb.suites import Suite, find_flaws, list_suites, load_suite, read_suite_yaml
from palpate.perturb.suites.grouping import group_variations
from tests.perturb.suites.small import HEAD, ONE_TEST, write

OTHERS = {"notes_de": ("befund", "Pneumonie"), "notes_es": ("hallazgo", "neumonía")}


@pytest.fixture(scope="module", params=OTHERS)
def suite(request: pytest.FixtureRequest) -> Suite:
    return load_suite(request.param)


def test_they_are_listed() -> None:
    assert set(OTHERS) <= set(list_suites())


def test_every_sentence_is_well_formed_and_both_labels_are_asked_for(suite: Suite) -> None:
    assert suite.language in suite.name
    assert find_flaws(suite) == []
    for capability in suite.capabilities:
        labels = {t.label for test in capability.tests if test.type == "MFT" for t in test.templates}
        assert labels == {True, False}, capability.id
    english = {capability.id for capability in load_suite("notes").capabilities}
    assert {capability.id for capability in suite.capabilities} <= english


def test_every_sentence_names_the_chosen_finding(suite: Suite) -> None:
    slot, value = OTHERS[suite.name]
    chosen = suite.with_slots({slot: [value]})
    assert chosen.dropped == ()
    cases = chosen.default_cases(np.random.default_rng(0))
    assert len(cases) > 40
    assert all(value.lower() in text.lower() for text in cases.texts)


def test_cues_of_other_languages_part_base_templates() -> None:
    texts = ["Vor {drug} hatte ich {pain}.", "Nach {drug} hatte ich {pain}.", "Nach {drug} bekam ich {pain}."]
    assert group_variations(texts, [0] * 3) == [0, 1, 1]
    texts = ["Tengo {pain} con {drug}.", "No tengo {pain} con {drug}.", "No siento {pain} con {drug}."]
    assert group_variations(texts, [0] * 3) == [0, 1, 1]


def test_rules_of_english_writing_are_for_english(tmp_path: object) -> None:
    body = (HEAD + ONE_TEST).replace("without", "a on")
    english = read_suite_yaml(write(tmp_path, body, "en.yaml"))  # type: ignore[arg-type]
    other = read_suite_yaml(write(tmp_path, "language: pt\n" + body, "pt.yaml"))  # type: ignore[arg-type]
    assert any("'a on'" in flaw.problem for flaw in find_flaws(english))
    assert not any("'a on'" in flaw.problem for flaw in find_flaws(other))
