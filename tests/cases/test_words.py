"""What a word is made of is said once: the vocabulary's words and the evidence's words are cut at the same places."""

from __future__ import annotations

import re
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.cases.words import caseless, is_word_character, word_characters
from palpate.perturb.words import tokens
from palpate.stats.evidence import tokenise

JOINTS = "-'.,:/\u2019\u2010\u2011"


def test_the_pattern_and_the_function_agree_on_every_character() -> None:
    pattern = re.compile(word_characters())
    characters = map(chr, range(sys.maxunicode + 1))
    assert all((pattern.fullmatch(c) is not None) == is_word_character(c) for c in characters)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_characters=JOINTS) | st.sampled_from("ab1_ \n\u0301"), max_size=30))
def test_without_joints_both_audits_see_the_same_words(text: str) -> None:
    evidence = tokenise([text], largest_number=None)
    spans = list(zip(evidence.begin.tolist(), evidence.end.tolist(), strict=True))
    # A run without a letter or digit is a blank of de-identification: found as a word, but no evidence.
    found = [(token.start, token.end) for token in tokens(text) if any(map(str.isalnum, token.text))]
    assert spans == found


def test_with_joints_they_differ_as_their_docstrings_say() -> None:
    text = "non-smoker, 98.6 F, doesn't"
    evidence = tokenise([text])
    assert [text[a:b] for a, b in zip(evidence.begin, evidence.end, strict=True)] == [
        "non", "smoker", "6", "F", "doesn", "t",
    ]  # fmt: skip
    assert [token.text for token in tokens(text)] == ["non-smoker", "98.6", "F", "doesn't"]


def test_spellings_that_mean_the_same_compare_as_equal() -> None:
    assert caseless("\u00c9") == caseless("e\u0301")
    assert caseless("STRASSE") == caseless("stra\u00dfe")
    assert caseless("Fever") == "fever"
