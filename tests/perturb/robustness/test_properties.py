"""What every perturbation guarantees, on made texts and on any."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.cases.edits import splice
from palpate.perturb.robustness import BUILT_IN, DOSES, WrittenNote, perturbed
from palpate.perturb.robustness.formats import read_dates
from palpate.perturb.robustness.reading import TAG
from palpate.perturb.robustness.typos import real_words

from .made_notes import ANY_TEXTS, NOTE, TEXTS, changed, perturb

LAYOUT = ("case", "punctuation", "spaces", "wrapping", "one_line")


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXTS, seed=st.integers(0, 3))
def test_edits_are_sorted_inside_the_text_and_change_it_in_every_group(name: str, text: str, seed: int) -> None:
    found = perturb(name, text, seed)
    if isinstance(found, str):
        assert found
        return
    assert len(found) == len(BUILT_IN[name].groups(DOSES))
    for edits in found:
        position = 0
        for edit in edits:
            assert position <= edit.start <= edit.end <= len(text)
            position = edit.end
        assert splice(text, edits) != text
    again = perturb(name, text, seed)
    assert again == found


@settings(max_examples=80, deadline=None)
@given(text=ANY_TEXTS)
def test_white_space_keeps_all_other_characters(text: str) -> None:
    for name in ("spaces", "wrapping", "one_line"):
        assert "".join(changed(name, text).split()) == "".join(text.split())
    assert text.count("\n") == changed("spaces", text).count("\n")
    assert "\n" not in changed("one_line", text).strip() or "\n" in TAG.sub("", text)


@settings(max_examples=80, deadline=None)
@given(text=ANY_TEXTS)
def test_punctuation_keeps_letters_and_digits(text: str) -> None:
    kept = [c for c in text if c.isalnum() or c.isspace()]
    assert [c for c in changed("punctuation", text) if c.isalnum() or c.isspace()] == kept


@settings(max_examples=80, deadline=None)
@given(text=ANY_TEXTS)
def test_case_changes_plain_letters_only(text: str) -> None:
    for group in (0, 1):
        new = changed("case", text, group=group)
        assert len(new) == len(text)
        assert all(a == b or (a.isascii() and a.swapcase() == b) for a, b in zip(text, new, strict=True))


@settings(max_examples=80, deadline=None)
@given(text=TEXTS)
def test_sections_move_as_whole_lines(text: str) -> None:
    assert Counter(changed("section_order", text).split("\n")) == Counter(text.split("\n"))


@settings(max_examples=80, deadline=None)
@given(text=TEXTS)
def test_dates_stay_the_same_dates(text: str) -> None:
    before = [date for _, date, _ in sorted(read_dates(text))]
    after = [date for _, date, _ in sorted(read_dates(changed("dates", text)))]
    assert before == after


@settings(max_examples=80, deadline=None)
@given(text=TEXTS)
def test_brand_names_and_back_are_the_same_note_but_for_capitals(text: str) -> None:
    there = changed("brands", text)
    if "furosemide" not in there.lower() and not re.search(r"(?i)\blasix\b", text):
        assert changed("generics", there).lower() == text.lower()


@settings(max_examples=80, deadline=None)
@given(text=TEXTS)
def test_british_and_american_spelling_are_inverse_where_a_note_has_one_of_them(text: str) -> None:
    american = changed("american", text)
    assert changed("american", changed("british", american)) == american


@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXTS, seed=st.integers(0, 5))
def test_slips_are_nested_and_leave_numbers_and_turning_words_alone(text: str, seed: int) -> None:
    for name in ("typos", "ocr"):
        found = perturb(name, text, seed)
        if isinstance(found, str):
            continue
        sets = [set(edits) for edits in found]
        assert sets[0] <= sets[1] <= sets[2]
        n_words = len(text.split())
        assert [len(each) for each in sets] == [max(1, int(np.ceil(dose * n_words - 1e-9))) for dose in DOSES]
        for edit in found[-1]:
            low, high = edit.start, edit.end
            while text[low - 1 : low].isalpha() and low > 0:
                low -= 1
            while text[high : high + 1].isalpha():
                high += 1
            word = text[low:high]
            assert len(word) >= 4
            assert word.isalpha()
            assert word.lower() not in ("denies", "without", "left", "negative", "never")
            after = text[low : edit.start] + edit.text + text[edit.end : high]
            assert after.lower() not in real_words()
            assert after.lower() not in text.lower().split()


def test_tags_and_addresses_are_never_edited_by_others() -> None:
    text = NOTE + "\nSeen with [**Doctor Last Name 77**] at ___, reach us: clinic.desk@example.org\n"
    for name in BUILT_IN:
        if name == "tags":
            continue
        new = changed(name, text)
        for kept in ("[**Doctor Last Name 77**]", "clinic.desk@example.org"):
            assert kept in new, name


def test_a_note_gets_the_same_edits_whatever_else_is_asked() -> None:
    first = perturb("typos", NOTE, 7)
    perturb("ocr", NOTE, 7)
    assert perturb("typos", NOTE, 7) == first
    assert perturb("typos", NOTE, 8) != first


def test_a_slip_makes_no_word_that_the_notes_know() -> None:
    text = "Swelling of the ankle. " * 30
    note = WrittenNote(text)
    every = {
        splice("Swelling", [edit._replace(start=edit.start % 23, end=edit.end % 23)])
        for seed in range(60)
        for edit in perturbed(BUILT_IN["typos"], note, np.random.default_rng(seed))[-1]  # type: ignore[union-attr]
        if edit.start % 23 < 8 and edit.end % 23 <= 8
    }
    one = sorted(word for word in every if word != "Swelling")[0]
    forbidden = perturbed(BUILT_IN["typos"], note, np.random.default_rng(0), known={word.lower() for word in every})
    assert one not in ("" if isinstance(forbidden, str) else splice(text, forbidden[-1]))
