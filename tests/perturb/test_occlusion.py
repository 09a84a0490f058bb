"""Taking words out: pieces cover everything once, and what is taken out is what was asked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import Edit, splice
from palpate.perturb.occlusion import (
    Pieces,
    Removed,
    coarse_pieces,
    joined_gaps,
    only_words,
    pieces_that_matter,
    single_words,
    without_words,
)

ints = np.array


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5), st.integers(2, 8), st.integers(0, 20))
def test_pieces_cover_every_word_once(sizes: list[int], n_segments: int, at_once: int) -> None:
    stop = np.cumsum(sizes)
    first = stop - sizes
    pieces = coarse_pieces(np.arange(len(sizes)), first, stop, n_segments=n_segments, at_once=at_once)
    covered = [w for low, high in zip(pieces.first, pieces.stop, strict=True) for w in range(low, high)]
    assert covered == list(range(int(stop[-1])))
    for chart, n in enumerate(sizes):
        mine = int((pieces.chart == chart).sum())
        assert mine == (n if n <= max(at_once, n_segments) else n_segments)
    assert np.all(pieces.stop > pieces.first)


def test_the_pieces_that_matter_fit_the_budget_and_the_first_is_always_there() -> None:
    drop, size = np.array([0.5, 0.04, 0.3, -0.2, 0.2]), np.array([10, 10, 10, 10, 10])
    for most_words, expected in ((25, [0, 2]), (100, [0, 2, 4]), (1, [0])):
        chosen, is_cut = pieces_that_matter(drop, size, share=0.1, most_words=most_words)
        assert np.flatnonzero(chosen).tolist() == expected
        assert is_cut == (most_words < 30)
    one_word = np.array([10, 10, 10, 10, 1])
    assert not pieces_that_matter(drop, one_word, share=0.1, most_words=20).is_cut, "the last one is known already"
    for nothing in (np.array([-0.1, 0.0]), np.zeros(0)):
        found = pieces_that_matter(nothing, size[: nothing.size], share=0.1, most_words=9)
        assert not found.chosen.any()
        assert not found.is_cut


@given(st.lists(st.tuples(st.floats(-1, 1), st.integers(1, 30)), max_size=12), st.integers(1, 150), st.integers(1, 150))
def test_a_larger_budget_examines_the_same_words_and_more(pieces: list[tuple[float, int]], a: int, b: int) -> None:
    drop, size = np.array([d for d, _ in pieces]), np.array([n for _, n in pieces], np.int64)
    small, large = (pieces_that_matter(drop, size, share=0.1, most_words=n) for n in sorted((a, b)))
    assert not (small.chosen & ~large.chosen).any()
    assert small.is_cut or np.array_equal(small.chosen[size > 1], large.chosen[size > 1])


def test_single_words_are_those_of_the_chosen_wide_pieces() -> None:
    pieces = Pieces(ints([0, 0, 1]), ints([0, 3, 4]), ints([3, 4, 6]))
    words = single_words(pieces, np.array([True, True, True]))
    assert words.first.tolist() == [0, 1, 2, 4, 5]
    assert words.chart.tolist() == [0, 0, 0, 1, 1]
    assert np.all(words.stop == words.first + 1)
    assert len(single_words(pieces, np.array([False, True, False])).first) == 0


def edits(removed: Removed) -> list[Edit]:
    return [Edit(int(a), int(b), " ") for a, b in zip(removed.start, removed.end, strict=True)]


@given(st.lists(st.sampled_from(["one", "two", "7.5", "three", ",", "four", "\n"]), min_size=1), st.randoms())
def test_what_is_taken_out_and_what_is_kept_are_two_halves(parts: list[str], random: object) -> None:
    text = " ".join(parts)
    words = list(re.finditer(r"[a-z]+", text))
    begin, end = ints([m.start() for m in words], dtype=np.int64), ints([m.end() for m in words], dtype=np.int64)
    gaps = joined_gaps(text, begin, end)
    taken = sorted(random.sample(range(len(words)), random.randint(0, len(words))))  # type: ignore[attr-defined]
    rest = [words[k].group() for k in range(len(words)) if k not in taken]
    without = splice(text, edits(without_words(begin, end, gaps, ints(taken, dtype=np.int64))))
    only = splice(text, edits(only_words(begin, end, gaps, ints(taken, dtype=np.int64), len(text))))
    assert re.findall(r"[a-z]+", without) == rest
    assert re.findall(r"[a-z]+", only) == [words[k].group() for k in taken]
    # A number is no word: it stays when words go, and goes when only words stay.
    assert without.count("7.5") == text.count("7.5")
    assert "7.5" not in only


def test_neighbours_go_as_one_span() -> None:
    text = "a bb, ccc 12 d"
    begin, end = ints([0, 2, 6, 13]), ints([1, 4, 9, 14])
    gaps = joined_gaps(text, begin, end)
    assert gaps.tolist() == [True, True, False]
    assert without_words(begin, end, gaps, ints([0, 1, 2, 3])).start.tolist() == [0, 13]


@pytest.mark.parametrize("n", [0, 1])
def test_gaps_of_short_texts(n: int) -> None:
    assert joined_gaps("a", np.zeros(n, np.int64), np.ones(n, np.int64)).tolist() == []
