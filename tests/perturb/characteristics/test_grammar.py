"""Articles, what a removed word leaves behind, and numbers in words."""

from __future__ import annotations

import pytest

from palpate.cases.edits import Edit, splice
from palpate.perturb.characteristics.grammar import in_words, taken_out, takes_an, with_articles
from palpate.perturb.characteristics.reading import TriggerWords


def test_numbers_in_words() -> None:
    assert [in_words(n) for n in (18, 20, 63, 89)] == ["eighteen", "twenty", "sixty-three", "eighty-nine"]


@pytest.mark.parametrize(
    ("word", "an"),
    [
        ("85", True), ("8", True), ("11", True), ("18", True), ("81M", True), ("63", False), ("118", False),
        ("Asian", True), ("White", False), ("MI", True), ("unmarried", True), ("uninsured", True),
        ("unilateral", False), ("European", False), ("hour", True), ("homeless", False), ("one", False), ("", False),
        ("urinary", False), ("UTI", False), ("uterine", False), ("ulcer", True), ("urgent", True), ("utter", True),
    ],
)  # fmt: skip
def test_a_or_an(word: str, an: bool) -> None:
    assert takes_an(word) is an


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a 63 year old", "63", "85", "an 85 year old"),
        ("An 85 year old", "85", "63", "A 63 year old"),
        ("AN 85 YEAR OLD", "85", "63", "A 63 YEAR OLD"),
        ("a White man", "White ", "", "a man"),
        ("a White old man", "White ", "", "an old man"),
        ("the 63 year old", "63", "85", "the 85 year old"),
    ],
)
def test_an_article_follows_what_an_edit_writes(text: str, old: str, new: str, expected: str) -> None:
    at = text.index(old)
    assert splice(text, with_articles(text, [Edit(at, at + len(old), new)])) == expected


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("63 yo obese man.", "obese", "63 yo man."),
        ("63 yo man, homeless, with cough.", "homeless", "63 yo man, with cough."),
        ("He is thin and frail.", "frail", "He is thin."),
        ("Obese and tired man.", "Obese", "Tired man."),
        ("63 yo thin, cachectic man.", "cachectic", "63 yo thin man."),
        ("She is old, thin, and obese.", "obese", None),
    ],
)
def test_a_word_that_is_taken_out_leaves_nothing_behind(text: str, word: str, expected: str | None) -> None:
    start = text.index(word)
    edit = taken_out(TriggerWords({}).scan(text), start, start + len(word))
    assert (edit if edit is None else splice(text, [edit])) == expected
