"""The filter families, each against an obvious way."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.errors import InputError
from palpate.perturb.words import find_words
from palpate.perturb.words.inflections import gives_away
from palpate.perturb.words.ngrams import NgramModel
from palpate.perturb.words.substitutes import (
    context_substitutes,
    match_case,
    own_substitutes,
    uniform_substitutes,
    unigram_substitutes,
    whole_words,
)

WORDS = ["fever", "fevers", "cough", "rash", "pain", "stable", "home", "nausea"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- vocabularies -------------------------------------------------------------------------------------------


def test_whole_words_of_a_wordpiece_vocabulary() -> None:
    listed = ["[PAD]", "[unused1]", "<s>", "##ing", "fever", "Fever", "x", "98", "5mg", "a\u0000b", "chest pain", "!"]
    assert whole_words([*listed, "naïve", "non-smoker", "_", "ab_c", "fever.", " cough"]) == (
        "fever",
        "naïve",
        "non-smoker",
    )


def test_whole_words_of_vocabularies_that_mark_beginnings() -> None:
    assert whole_words(["<s>", "Ġfever", "ish", "Ġnon", "Ã©", "ĠÃ©tat", "Ġ98"]) == ("fever", "non")
    assert whole_words(["</s>", "▁fever", "ish", "▁état"]) == ("fever", "état")


def test_phrases_and_letters_if_asked_for() -> None:
    assert whole_words(["chest pain", "chest 5", "a"], phrases=True, min_letters=1) == ("chest pain", "a")


# --- uniform ------------------------------------------------------------------------------------------------


def test_uniform_gives_different_words_and_never_the_target() -> None:
    drawn = uniform_substitutes(WORDS[:3], WORDS, 5, rng())
    for row, word in enumerate(WORDS[:3]):
        mine = drawn.of(row)
        assert len(set(mine)) == len(mine) == 5
        assert not any(gives_away(other, word) for other in mine)


def test_uniform_is_uniform() -> None:
    counts = Counter(uniform_substitutes(["fever"] * 6000, WORDS, 1, rng()).choice[:, 0].tolist())
    assert sorted(counts) == [2, 3, 4, 5, 6, 7]
    expected = 1000
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < 25.7  # chi-squared, 5 df, p = 0.0001


def test_uniform_repeats_itself_and_does_not_look_at_later_targets() -> None:
    one, more = (uniform_substitutes(words, WORDS, 3, rng(7)) for words in (["fever"], ["fever", "rash"]))
    assert one.of(0) == more.of(0)
    assert uniform_substitutes(["fever"], WORDS, 3, rng(8)).of(0) != one.of(0)


def test_uniform_with_too_few_words_gives_fewer_or_none() -> None:
    few = uniform_substitutes(["fever", "pain"], ["fever", "fevers", "cough"], 5, rng())
    assert few.of(0) == ["cough"]
    assert sorted(few.of(1)) == ["cough", "fever", "fevers"]
    none = uniform_substitutes(["fever"], ["fever", "fevers"], 5, rng())
    assert none.of(0) == []
    assert uniform_substitutes(["fever"], [], 5, rng()).of(0) == []


def test_uniform_looks_further_when_the_spare_draws_give_the_word_away() -> None:
    many = [*(f"non-fever-{chr(97 + k)}x" for k in range(26)), *(f"fever-{chr(97 + k)}y" for k in range(26)), "cough"]
    assert uniform_substitutes(["fever"], many, 2, rng()).of(0) == ["cough"]


# --- unigram ------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.sampled_from([*WORDS, "the", "98.6", "5mg", "x"]), max_size=12).map(" ".join), max_size=8),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_unigram_gives_the_most_frequent_words_of_the_notes_with_the_word(
    texts: list[str], n: int, min_texts: int
) -> None:
    targets = ["fever", "pain", "the", "absent"]
    hits = find_words(texts, targets)
    in_texts = Counter(word for text in texts for word in set(text.split()))
    given_words = unigram_substitutes(targets, hits, texts, n, allowed=lambda word: in_texts[word] >= min_texts)
    for row, target in enumerate(targets):
        with_it = [text.split() for text in texts if target in text.split()]
        counts = Counter(w for words in with_it for w in words if w.isalpha() and len(w) > 1)
        allowed = [w for w in counts if not gives_away(w, target) and in_texts[w] >= min_texts]
        assert given_words.of(row) == sorted(allowed, key=lambda word: (-counts[word], word))[:n]


# --- context and own ----------------------------------------------------------------------------------------


def test_context_gives_words_for_each_place_but_no_form_of_the_target() -> None:
    train = ["has severe pain today", "has severe pains today", "has severe cough today", "a mild rash at home"] * 5
    texts = ["has severe pain today", "a mild pain at home"]
    hits = find_words(texts, ["pain"])
    offered = context_substitutes(["pain"], hits, texts, NgramModel.fit(train), 2)
    assert offered.of(0)[0] == "cough"
    assert offered.of(1)[0] == "rash"
    assert not {"pain", "pains"} & {*offered.of(0), *offered.of(1)}


def test_context_without_another_word_gives_none() -> None:
    model = NgramModel.fit(["pain pain", "pain"], min_texts=1)
    offered = context_substitutes(["pain"], find_words(["pain"], ["pain"]), ["pain"], model, 5)
    assert offered.of(0) == []


def test_own_replacements_are_taken_as_they_are() -> None:
    own = own_substitutes(
        ["Smoker", "fever", "pain"], {"smoker": ["non-smoker", "non-smoker", "drinker"], "pain": ["x"]}
    )
    assert own.of(0) == ["non-smoker", "drinker"]
    assert own.of(2) == ["x"]
    assert own.of(1) == []
    with pytest.raises(InputError, match="the word itself"):
        own_substitutes(["fever"], {"fever": ["FEVER"]})


# --- at their place -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replacement", "original", "wanted"),
    [
        ("cough", "fever", "cough"),
        ("cough", "Fever", "Cough"),
        ("cough", "FEVER", "COUGH"),
        ("cough", "I", "Cough"),
        ("cough", "pH", "cough"),
        ("cough", "McBurney", "cough"),
        ("COPD", "fever", "COPD"),
        ("heart failure", "Chest pain", "Heart failure"),
        ("straße", "FEVER", "STRASSE"),
        ("élan", "Fever", "Élan"),
        ("cough", "98.6", "cough"),
        ("ǆa", "Fever", "ǅa"),
    ],
)
def test_a_replacement_follows_the_case(replacement: str, original: str, wanted: str) -> None:
    assert match_case(replacement, original) == wanted
