"""Finding words, against one regular expression per word and note; counting and choosing, against plain loops."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import chi2_contingency

from palpate.cases.edits import Edit, splice
from palpate.errors import InputError
from palpate.perturb.words import (
    STOP_WORDS,
    check_words,
    choose_words,
    count_words,
    find_words,
    normalise_word,
    tokens,
)
from palpate.perturb.words.tokens import pieces, tokenise

LETTERS = "ab ABéÉe\u0301ßİıſΣς1 2.,-'’\n_/+()x\u0300"
texts_ = st.text(alphabet=LETTERS, max_size=40)
words_ = st.text(alphabet=LETTERS, max_size=6).filter(lambda word: len(pieces(" ".join(word.split()))) >= 3)


def found(text: str, *words: str, **options: str) -> list[str]:
    """What is found of each word, as it stands in the text."""
    hits = find_words([text], words, **options)
    return [text[start:end] for start, end in zip(hits.start, hits.end, strict=True)]


@pytest.mark.parametrize(
    ("text", "word", "surfaces"),
    [
        ("fever", "fever", ["fever"]),
        ("Fever today", "fever", ["Fever"]),
        ("no FEVER", "fever", ["FEVER"]),
        ("(fever), fever; fever.", "fever", ["fever"] * 3),
        ("-fever\n- fever\nfever--fever", "fever", ["fever"] * 4),
        ("fever/chills", "fever", ["fever"]),
        ("feverish, hayfever, fever_1, fever2, 2fever", "fever", []),
        ("a non-smoker", "smoker", []),
        ("a non-smoker", "Non-Smoker", ["non-smoker"]),
        ("a non\u2011smoker", "non-smoker", ["non\u2011smoker"]),
        ("patient-controlled", "patient", ["patient"]),
        ("right-sided, Right\u2011Sided", "right", ["right", "Right"]),
        ("right-sided, Right\u2011Sided", "sided", ["sided", "Sided"]),
        ("right-sided, Right\u2011Sided, right sided", "right-sided", ["right-sided", "Right\u2011Sided"]),
        ("open-heart surgery", "heart", ["heart"]),
        ("240-mg tablets", "mg", ["mg"]),
        ("240-mg tablets", "240", ["240"]),
        ("a 63-year-old", "year", ["year"]),
        ("Non-insulin-dependent", "insulin", []),
        ("NON-SMOKER, ex-smoker, ANTI-smoker", "smoker", []),
        ("non-smokers", "non-smokers", ["non-smokers"]),
        ("canon-smoker", "smoker", ["smoker"]),  # "non" is only the end of this word
        ("pain-free, Pain-Free", "pain", []),
        ("pain-freedom", "pain", ["pain"]),
        ("x-ray, T-cell", "ray", []),
        ("COVID-19, PHQ-9, IL-6", "covid", []),
        ("COVID-19", "COVID-19", ["COVID-19"]),
        ("IL-6", "6", []),
        ("grade-2, GRADE-3, stage-4", "grade", ["grade", "GRADE"]),
        ("type-2 diabetes", "type", ["type"]),
        ("low-grade fever", "grade", ["grade"]),
        ("insulin-dependent", "insulin", ["insulin"]),
        ("end-stage", "stage", ["stage"]),
        ("2020-01-05", "01", []),
        ("pre- and post-op", "pre", ["pre"]),
        ("the patient's bed", "patient", ["patient"]),
        ("the patient\u2019s bed", "patient", ["patient"]),
        ("PATIENT'S", "patient", ["PATIENT"]),
        ("the patients' beds", "patients", ["patients"]),
        ("Crohn\u2019s disease", "crohn's", ["Crohn\u2019s"]),
        ("Crohn's  Disease", "Crohn's disease", ["Crohn's  Disease"]),
        ("didn't", "didn", []),
        ("didn't", "did", []),
        ("temp 98.6", "98", []),
        ("temp 98.6", "6", []),
        ("temp 98.6", "98.6", ["98.6"]),
        ("1,000 at 10:30, 120/80, .5, 98.", "98", ["98"]),
        ("1,000 at 10:30, 120/80, .5", "5", []),
        ("1,000 at 10:30, 120/80, .5", "80", []),
        ("5mg of it, 5 mg", "mg", ["mg"]),
        ("heart failure", "heart failure", ["heart failure"]),
        ("Heart \n\t failure", "heart  failure", ["Heart \n\t failure"]),
        ("heart\u00a0failure", "heart failure", ["heart\u00a0failure"]),
        ("heart, failure; heart-failure; heart failures", "heart failure", []),
        ("bid b.i.d. b.i.d.x b.i.d", "b.i.d.", ["b.i.d."]),
        ("CD4+ cd4 xCD4+ CD4+x", "CD4+", ["CD4+"]),
        ("w/o w /o w/ow", "w/o", ["w/o"]),
        ("Stra\u00dfe STRASSE", "strasse", ["Stra\u00dfe", "STRASSE"]),
        ("\u0130\u0130 fever", "fever", ["fever"]),
        ("caf\u00e9 cafe\u0301 CAFE\u0301 cafe", "caf\u00e9", ["caf\u00e9", "cafe\u0301", "CAFE\u0301"]),
        ("fever\u0301 \u0301fever fe\u0301ver", "fever", []),
        ("на боль жалоб", "БОЛЬ", ["боль"]),
        ("", "fever", []),
        ("...", "fever", []),
    ],
)
def test_what_a_clinician_expects(text: str, word: str, surfaces: list[str]) -> None:
    assert found(text, word) == surfaces


def test_targets_do_not_disturb_each_other() -> None:
    hits = find_words(["heart failure, heart"], ["heart failure", "heart", "failure"])
    assert list(zip(hits.word, hits.start, hits.end, strict=True)) == [(0, 0, 13), (1, 0, 5), (1, 15, 20), (2, 6, 13)]


def test_hits_of_a_phrase_do_not_overlap() -> None:
    assert found("na na na na na", "na na") == ["na na"] * 2


def test_first_keeps_one_hit_of_each_word_in_each_text() -> None:
    texts = ["b a a", "", "a b b"]
    hits = find_words(texts, ["a", "b"], occurrences="first")
    assert [column.tolist() for column in hits] == [[0, 0, 2, 2], [0, 1, 0, 1], [2, 0, 0, 2], [3, 1, 1, 3]]
    assert all(column.dtype == np.int64 for column in hits)


def test_no_hit_gives_empty_columns() -> None:
    hits = find_words(["x"], ["fever"])
    assert [len(column) for column in hits] == [0] * 4
    assert all(column.dtype == np.int64 for column in hits)


WORDY = "".join(
    character
    for character in map(chr, [*range(0x250), *range(0x300, 0x500)])
    if character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
)


def slow_find(text: str, word: str) -> list[tuple[int, int]]:
    """One search per word, for words of letters: look-arounds in place of tokens."""
    character = f"[{re.escape(WORDY)}]"
    one = r"\s+".join(map(re.escape, word.split()))
    before = rf"(?<!{character})(?<!{character}')"
    behind = rf"(?!{character})(?!'(?!s(?!{character})){character})"
    found = [match.span("hit") for match in re.finditer(rf"{before}(?P<hit>{one}){behind}", text, re.IGNORECASE)]
    kept: list[tuple[int, int]] = []
    for start, end in found:
        if not joins(text, start - 1) and not joins(text, end) and (not kept or kept[-1][1] <= start):
            kept.append((start, end))
    return kept


def joins(text: str, place: int) -> bool:
    """Whether there is a hyphen here that makes one word of what is on both sides."""
    if not 0 < place < len(text) - 1 or text[place] != "-":
        return False
    left, right = text[:place], text[place + 1 :]
    run = left[len(left.rstrip(WORDY)) :].lower()
    follows = right[: len(right) - len(right.lstrip(WORDY))].lower()
    if not run or not follows:
        return False
    if follows[0].isdigit() and (run[-1].isdigit() or (len(run) == 2 and run.isalpha())):
        return True
    return (len(run) == 1 and run.isalpha()) or run == "non" or follows == "free"


@given(
    st.lists(
        st.sampled_from(
            ["a", "B", "ab", "a b", " ", "\n", "-", "-", "'", "'s", ".", "é", "A", "non", "free", "cd", "1"]
        ),
        max_size=25,
    ),
    st.lists(
        st.sampled_from(["a", "b", "ab", "a b", "b a", "é", "a b a", "cd", "non", "free"]), unique=True, min_size=1
    ),
)
def test_one_pass_finds_what_one_search_per_word_finds(parts: list[str], words: list[str]) -> None:
    text = "".join(parts)
    # A possessive ends a word, which look-arounds of fixed width can't say.
    assume(not re.search(r"'s['-]|''", text))
    hits = find_words([text], words)
    for k, word in enumerate(words):
        mine = hits.take(hits.word == k)
        assert list(zip(mine.start.tolist(), mine.end.tolist(), strict=True)) == slow_find(text, word)


def is_wordy(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")


@given(texts_, st.lists(words_, min_size=1, max_size=4, unique_by=normalise_word))
def test_a_hit_is_the_word_whole_and_a_swap_leaves_the_rest(text: str, words: list[str]) -> None:
    hits = find_words([text, text], words)
    assert hits.text.tolist() == sorted(hits.text.tolist())
    for word, start, end in zip(hits.word, hits.start, hits.end, strict=True):
        surface = text[start:end]
        assert normalise_word(surface) == normalise_word(words[word])
        assert not (start and is_wordy(text[start - 1]) and is_wordy(surface[0]))
        assert not (end < len(text) and is_wordy(text[end]) and is_wordy(surface[-1]))
        replacement = f"so {surface} too"  # holds the word itself
        swapped = splice(text, [Edit(int(start), int(end), replacement)])
        assert swapped[:start].encode() == text[:start].encode()
        assert swapped[start + len(replacement) :].encode() == text[end:].encode()
        assert swapped[start : start + len(replacement)] == replacement


@given(words_, st.sampled_from(["", " ", "\n", "(", ", "]), st.sampled_from(["", " ", "\n", ")", ", "]))
def test_every_target_is_found_where_it_stands_alone(word: str, before: str, behind: str) -> None:
    word = " ".join(word.split())
    before, behind = before and before + " ", behind and " " + behind
    hits = find_words([before + word + behind], [word])
    assert (len(before), len(before) + len(word)) in zip(hits.start.tolist(), hits.end.tolist(), strict=True)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([" ", ", "])), min_size=1, max_size=30))
def test_all_hits_can_be_swapped_at_once(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"w{k}{gap}" for k, gap in parts)
    hits = find_words([text], ["w3"])
    edits = [Edit(int(s), int(e), "X") for s, e in zip(hits.start, hits.end, strict=True)]
    assert splice(text, edits) == text.replace("w3", "X")


@given(texts_)
def test_tokens_and_pieces_say_the_same(text: str) -> None:
    cut = pieces(text)
    assert "".join(cut) == text
    listed = list(tokens(text))
    assert [token.text for token in listed] == cut[1::2]
    assert all(text[token.start : token.end] == token.text for token in listed)
    assert not any(is_wordy(character) for gap in cut[::2] for character in gap)


@given(texts_)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise_word(normalise_word(text)) == normalise_word(text)


def test_wrong_lists_are_refused() -> None:
    with pytest.raises(InputError, match="'Fever' is given twice, once as 'fever'"):
        check_words(["fever", "Fever"])
    with pytest.raises(InputError, match=r"'heart failure' is given twice;"):
        find_words([], ["heart failure", "heart  failure"])
    with pytest.raises(InputError, match="has neither letters nor digits"):
        check_words(["++"])
    assert check_words([" heart   failure ", "Fever"]) == ("heart failure", "Fever")


# --- counting and choosing ----------------------------------------------------------------------------------


@given(st.lists(texts_, max_size=5))
def test_counts_are_those_of_a_loop(texts: list[str]) -> None:
    listed = [[normalise_word(token.text) for token in tokens(text)] for text in texts]
    n, n_texts = Counter(w for ws in listed for w in ws), Counter(w for ws in listed for w in set(ws))
    wanted = {w: (n[w], n_texts[w]) for w in sorted(n) if w[0].isalpha() and "_" not in w}
    counted = count_words(texts)
    assert dict(counted) == wanted
    assert list(counted) == list(wanted)
    everything = tokenise(texts)
    assert [everything.words[code] for code in everything.codes] == [w for ws in listed for w in ws]


def test_the_most_frequent_words_without_grammar_and_numbers() -> None:
    texts = ["the fever the cough 98.6 fever", "the cough of fever 12 5mg 12", "the rash ___ ___ the cough"]
    chosen = choose_words(texts, how="frequent", n=2, min_texts=1)
    assert chosen.words == ("cough", "fever")  # a tie, by the alphabet
    assert chosen.n.tolist() == [3, 3]
    assert chosen.n_texts.tolist() == [3, 2]
    assert np.isnan(chosen.statistic).all()
    assert choose_words(texts, how="vocabulary", n=1, min_texts=2).words == ("cough", "fever")
    assert "the" in choose_words(texts, how="vocabulary", stop_words=(), min_texts=1).words


def test_negation_is_no_stop_word() -> None:
    assert not {"no", "not", "without", "denies", "before", "after"} & STOP_WORDS


@pytest.mark.parametrize("form", ["flat", "dense", "sparse"])
def test_the_most_predictive_words_by_chi_squared(form: str) -> None:
    rng = np.random.default_rng(3)
    names = [f"word{chr(97 + k)}" for k in range(8)]
    has = rng.random((120, 8)) < rng.random(8)
    has[:, 7] = True  # no table: every note has it
    y = (rng.random((120, 3)) < 0.2 + 0.5 * has[:, :3]).astype(int)
    y[:, 2] = 0  # a label that no case has
    texts = [" ".join(np.asarray(names)[row].tolist() * 2) for row in has]
    given_y = {"flat": y[:, 0], "dense": y, "sparse": sparse.csc_array(y)}[form]
    labels = [0] if form == "flat" else [0, 1]
    wanted = {}
    for k in range(7):
        tables = [[[np.sum((has[:, k] == a) & (y[:, j] == b)) for b in (0, 1)] for a in (0, 1)] for j in labels]
        wanted[names[k]] = max(chi2_contingency(table, correction=False).statistic for table in tables)
    chosen = choose_words(texts, given_y, how="predictive", n=5, min_texts=1)
    assert list(chosen.words) == sorted(wanted, key=lambda word: -wanted[word])[:5]
    np.testing.assert_allclose(chosen.statistic, [wanted[word] for word in chosen.words], rtol=1e-12)


def test_a_choice_that_cannot_be_made_is_told() -> None:
    with pytest.raises(InputError, match="lower `min_texts`"):
        choose_words(["fever"], how="frequent", min_texts=2)
    with pytest.raises(InputError, match="no label varies"):
        choose_words(["fever", "cough"], np.zeros(2), how="predictive", min_texts=1)
    with pytest.raises(InputError, match="2 notes, but labels for 0"):
        choose_words(["fever", "cough"], how="predictive", min_texts=1)
