"""Which words are forms of each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.perturb.words.inflections import Forms, gives_away


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fever", "Fevers"),
        ("biopsy", "biopsies"),
        ("mass", "masses"),
        ("smokes", "smoked"),
        ("smoke", "smoking"),
        ("smoking", "smokes"),
        ("stop", "stopped"),
        ("stopping", "stops"),
        ("carry", "carried"),
        ("mimic", "mimicked"),
        ("patient", "patient's"),
        ("patients'", "patient"),
        ("big", "bigger"),
        ("healthy", "healthiest"),
        ("ECG", "ECGs"),
        ("diagnosis", "diagnoses"),
        ("metastases", "metastasis"),
        ("bacterium", "bacteria"),
        ("bronchus", "bronchi"),
        ("vertebra", "vertebrae"),
        ("apex", "apices"),
        ("was", "be"),
        ("is", "were"),
        ("fell", "falling"),
        ("woman", "women"),
        ("feet", "foot"),
        ("died", "dying"),
        ("heart failure", "heart failures"),
        ("café", "CAFE\u0301S"),
    ],
)
def test_forms_of_one_word(one: str, other: str) -> None:
    assert gives_away(one, other)
    assert gives_away(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("fever", "cough"),
        ("ring", "red"),
        ("patient", "impatient"),
        ("pain", "paint"),
        ("heart failure", "renal failure"),
        ("cardiac", "cardiology"),
        ("asthma", "asthmatic"),
        ("sepsis", "septic"),
        ("is", "as"),
        ("mass", "mas"),
    ],
)
def test_other_words(one: str, other: str) -> None:
    assert not gives_away(one, other)
    assert not gives_away(other, one)


def test_a_replacement_that_has_the_word_within() -> None:
    assert gives_away("non-smokers", "smoker")
    assert gives_away("chronic heart failures", "heart failure")
    assert gives_away("ex_smoker", "smoker")
    assert gives_away("heart", "heart failure")
    assert not gives_away("heart", "heart-healthy")
    assert not gives_away("failure of the heart", "heart failure")
    assert not gives_away("feverfew", "fever")


VOCABULARY = [
    "fever",
    "fevers",
    "feverish",
    "non-fever",
    "heart",
    "heart failure",
    "renal failure",
    "failing",
    "be",
    "was",
]


@given(st.sampled_from([*VOCABULARY, "fail", "hearts failures", "is", "unknown"]))
def test_the_index_finds_what_comparing_all_finds(word: str) -> None:
    wanted = [k for k, other in enumerate(VOCABULARY) if gives_away(other, word)]
    assert Forms(VOCABULARY).of(word).tolist() == wanted


@given(st.text(alphabet="abdeginrsty", min_size=1, max_size=9), st.text(alphabet="abdeginrsty", min_size=1, max_size=9))
def test_of_two_words_it_does_not_matter_which_comes_first(one: str, other: str) -> None:
    assert gives_away(one, one)
    assert gives_away(one, other) == gives_away(other, one)
