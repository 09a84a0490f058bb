"""What is decided without a pattern is what the pattern would say."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import Edit, splice
from palpate.perturb.characteristics import NAMES, Alterer
from palpate.perturb.characteristics.age.template import write
from palpate.perturb.characteristics.grammar import article_before, with_articles
from palpate.perturb.characteristics.reading import TriggerWords, headings
from palpate.perturb.characteristics.reading.patient import DescribedPatient

from .sentences import read_sentences

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


SENTENCES = [
    "A boy of 17, DOB 3/4/1993, seen on 5/6/2010. An 11 year old picture shows him.",
    "Sex: M. Mrs. Jones is a 63-year-old woman. He lives alone.",
    "[**2102-3-4**] A [**Age over 90 **] year old fe male, Hispanic woman. Her mother was White.",
    *NOTES,
    *(sentence.write(**sentence.start) for sentence in read_sentences()[::7]),
]


def test_the_edits_of_an_age_are_those_that_are_made_for_it_alone() -> None:
    changed = 0
    alterer = Alterer(["age"], contradictory="alter", sure="normal")
    for text in SENTENCES:
        found = alterer.plan(text).by_name["age"]
        for years in (18, 63, 80, 90) if found.ages else ():
            edits = list(found.nouns)
            for age in found.ages:
                old = text[age.start : age.end]
                new = write(years, age.style, old, found.masked)
                edits += [Edit(age.start, age.end, new)] if new != old else []
            edits += [Edit(birth.start, birth.end, birth.at_age(years)) for birth in found.births if edits]
            assert found.template.edits(years) == (with_articles(text, edits) if edits else ()), (text, years)
            changed += len(edits)
    assert changed > 100


def test_what_is_read_again_says_what_all_of_a_note_says() -> None:
    alterer = Alterer()
    told = set()
    for text in SENTENCES:
        plan = alterer.plan(text)
        for name, one in alterer._by_name.items():
            again: Any = one.reread(DescribedPatient(alterer._lexicon.scan(text)))
            assert one.present(again) == one.present(plan.by_name[name]), (text, name)
            told.add(one.present(again))
            if name == "gender":
                left = [swap for swap in plan.by_name[name].left if swap.weight]
                assert again.left == left, text
    assert {"female", "male", "63", "Hispanic", "none"} < told


@given(st.text(alphabet="aA zZ\u0130\u212a\u017f[]*.-éß1_\n", max_size=30))
def test_trigger_words_are_found_where_the_pattern_finds_them(text: str) -> None:
    words = [a + b for a in ("", "a", "z", "k", "s", "i") for b in ("a", "z", "k", "s", "i")]
    hits = [(hit.start, hit.end, hit.word) for hit in TriggerWords({"any": words}).scan(text).hits("any")]
    matches = re.finditer(r"[A-Za-z]+|\[\*\*[^\]]*\]", text)
    assert hits == [(*match.span(), match.group().lower()) for match in matches if match.group().lower() in words]


PIECES = [
    "A",
    "ab",
    "OF",
    "PLAN:",
    "HISTORY",
    "Mr",
    "y.o.",
    " ",
    "  ",
    "\t",
    "\n",
    ".",
    "..",
    ",",
    ";",
    ":",
    "?",
    ")",
    "•",
    "1.",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_sentences_begin_where_one_pattern_for_all_breaks_says(text: str) -> None:
    whole = re.compile(
        r"[.!?]+[\"')\]]*(?=\s|,)|;|\n[ \t]*\n"
        r"|\n(?=[ \t]*(?:[-*•#–—→]|\d{1,2}[.)][ \t]|[A-Z][A-Za-z/&() -]{1,40}:|[A-Z][A-Z /&-]{3,45}[ \t]*\n))"
        rf"|,(?=[ \t]*{headings._CAPITALS}:)|[ \t](?={headings._LONG_TITLE}:)"
    )
    starts = [0, *headings._after_title(text, 0)]
    for match in whole.finditer(text):
        start, end = match.span()
        if text[start] == "." and not headings._ends(text, start, end, small=text.islower()):
            continue
        starts += [end, *(headings._after_title(text, end) if text[start] != "\n" else [])]
    assert headings.sentence_starts(text) == starts


def test_sentences_that_were_read_before_give_the_same_outcome() -> None:
    used = Alterer(NAMES)
    for text in SENTENCES[:40] * 2:
        fresh = Alterer(NAMES)
        found, again = fresh.plan(text), used.plan(text)
        for name in NAMES:
            for group in fresh.groups(name)[:6]:
                outcome = used.edits(again, (name, group))
                assert outcome == fresh.edits(found, (name, group)), (text, name, group)
                assert splice(text, outcome.edits) == text or outcome.edits
    assert any(check._known for check in used._checks.values())


def test_an_alterer_that_is_sent_twice_is_kept_and_alters_as_before() -> None:
    alterer = Alterer(["gender", "age"], contradictory="alter")
    first, second = pickle.loads(pickle.dumps(alterer)), pickle.loads(pickle.dumps(alterer))
    assert first is second
    assert first is not pickle.loads(pickle.dumps(Alterer(["gender"])))
    for text in NOTES:
        sent, own = first.plan(text), alterer.plan(text)
        for group in (("gender", "female"), ("age", "63"), ("age", "20")):
            assert first.edits(sent, group) == alterer.edits(own, group)


def test_a_header_in_letters_that_only_look_alike_is_none() -> None:
    """The pattern takes a long s for an s, and the value was then in no group: a crash."""
    alterer = Alterer(["ethnicity"])
    assert alterer.detection(alterer.plan("Race: Hi\u017fpanic")).present["ethnicity"] == "none"
