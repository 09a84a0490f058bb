"""What is decided without a pattern is what the pattern would say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.perturb.characteristics import Alterer
from palpate.perturb.characteristics.grammar import article_before

NOTES = (
    "A 58-year-old man, DOB 3/4/1952, seen on 5/6/2010. He has smoked for 30 years and quit in 2001.",
    "This elderly 81 year old woman retired. Her daughter is 50. She was pregnant 20 years ago.",
    "A 24 yo student, seen 1/2/2015. Appendectomy at age 12. Lives with his parents.",
    "63 year old man who fell.",
)


@given(st.text(alphabet=" \n\taAnNtx-", max_size=12), st.integers(0, 12))
def test_an_article_is_seen_wherever_the_pattern_sees_it(text: str, position: int) -> None:
    position = min(position, len(text))
    match = re.compile(r"\b([Aa]n?|AN?)(\s+)$").search(text, max(0, position - 8), position)
    assert article_before(text, position) == (match.span(1) if match else None)


@pytest.mark.parametrize("note", NOTES)
def test_an_age_within_the_bounds_contradicts_nothing_and_one_outside_has_its_reason(note: str) -> None:
    alterer = Alterer(["age"])
    found = alterer.plan(note).by_name["age"]
    for years in range(18, 91):
        told = [found.youngest <= years]
        told += [low <= years <= high for _, low, high in (*found.fits, *found.limits)]
        assert (found.against(years) is None) == all(told), years
