"""Near-identical texts against the obvious way: every pair compared."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.duplicates import FEWEST_SHARED, KnownTexts, Wording, first_identical, runs_of, sketch

WORDS = np.asarray([f"{first}{second}{third}" for first in "bdgkm" for second in "aeiou" for third in "lnrst"])


def notes(n: int, *, words: int = 120, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, words)) for _ in range(n)]


def altered(text: str, n: int, rng: np.random.Generator) -> str:
    words = text.split()
    for at in rng.choice(len(words), n, replace=False):
        words[at] = "other"
    return " ".join(words)


def wording(texts: list[str]) -> Wording:
    distinct = list(dict.fromkeys(texts))
    return Wording.of(distinct, n_words=sum(len(text.split()) for text in distinct))


def compare(texts: list[str], others: list[str], similarity: float = 0.5) -> np.ndarray:
    return KnownTexts(others, wording([*texts, *others])).nearest(texts, similarity=similarity)


def obvious_runs(text: str) -> set[tuple[str, ...]]:
    words = ["".join("0" if c.isdigit() else c for c in word) for word in text.lower().split()]
    size = min(3, len(words))
    return {tuple(words[k : k + size]) for k in range(len(words) - size + 1)} if words else set()


def obvious(text: str, other: str, have: Counter[tuple[str, ...]]) -> tuple[float, float, float]:
    """What is shared and what each has, written out: a run that k others have counts 1/sqrt(1 + k)."""
    first, second = obvious_runs(text), obvious_runs(other)

    def weight(runs: set[tuple[str, ...]]) -> float:
        return float(sum((1 + have[run] - (run in first) - (run in second)) ** -0.5 for run in runs))

    return weight(first & second), weight(first), weight(second)


def obvious_counts(texts: list[str]) -> Counter[tuple[str, ...]]:
    return Counter(run for each in dict.fromkeys(texts) for run in obvious_runs(each))


def obvious_copy(text: str, other: str, have: Counter[tuple[str, ...]], similarity: float = 0.5) -> bool:
    both, first, second = obvious(text, other, have)
    contained = both >= similarity * second and both >= similarity / 2 * first
    return both >= FEWEST_SHARED and (both >= similarity * first or contained)


def identical(a: str, b: str) -> bool:
    return bool(first_identical(sketch([a]), sketch([b]))[0] == 0)


@given(st.lists(st.sampled_from(WORDS[:6].tolist()), min_size=1, max_size=30), st.data())
def test_what_two_texts_share_is_weighted_by_rarity(words: list[str], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.sampled_from([*words, "new"]), min_size=1, max_size=30))
    more = data.draw(st.lists(st.permutations(words).map(" ".join), max_size=4))
    text, second = " ".join(words), " ".join(other)
    texts = list(dict.fromkeys([text, second, *more]))
    if text != second:
        given_back = wording(texts).shared(runs_of(text), runs_of(second))
        assert given_back == pytest.approx(obvious(text, second, obvious_counts(texts)))
    assert identical(text, second) == (words == other)


def test_identical_means_the_same_words_in_order() -> None:
    assert identical("Fever, and\n\ncough.", "fever AND  cough")
    assert identical("Fiebre ÁLTA", "fiebre álta")
    assert not identical("fever and cough", "cough and fever")
    assert not identical("temp 98", "temp 99")
    assert not identical("a b", "ab")


def test_numbers_are_alike_only_for_near_identity() -> None:
    """De-identification moves dates: "2151-7-4" and "2162-11-23" are three numbers each."""
    text = "Seen on [**2151-7-4**] with fever and cough for 3 days and sent home"
    moved = text.replace("2151-7-4", "2162-11-23").replace("3 days", "12 days")
    assert not identical(text, moved)
    assert np.array_equal(runs_of(text), runs_of(moved))


def test_what_every_pair_shows_is_found() -> None:
    """Between none and half of the words changed, in notes of which some are contained in others."""
    rng = np.random.default_rng(1)
    others = notes(150)
    texts = [altered(others[k], 1 + k, rng) for k in range(64)] + notes(16, seed=2)
    texts += [f"{others[70]} {text}" for text in notes(4, words=200, seed=6)]
    texts += [f"{others[71]} {text}" for text in notes(4, words=600, seed=7)]
    found, have = compare(texts, others), obvious_counts([*texts, *others])
    expected = [[j for j, other in enumerate(others) if obvious_copy(text, other, have)] for text in texts]
    assert 20 < sum(map(bool, expected)) < 60
    for k, copies in enumerate(expected):
        assert found[k] in (copies or [-1]), k


EDITS = {
    "swapped words": lambda words, rng: [{"bal": "new", "ben": "other"}.get(w, w) for w in words],
    "typing errors": lambda words, rng: [w + "x" if rng.random() < 0.08 else w for w in words],
    "continued": lambda words, rng: [*words, *rng.choice(WORDS, len(words) * 3 // 10)],
    "cut": lambda words, rng: words[: len(words) * 3 // 4],
    "middle only": lambda words, rng: words[len(words) // 4 : len(words) * 3 // 4],
    "reordered": lambda words, rng: [*words[80:], *words[40:80], *words[:40]],
    "inserted": lambda words, rng: [w for k, w in enumerate(words) for w in ([w, "well"] if k % 12 == 0 else [w])],
}


@pytest.mark.parametrize("how", EDITS)
def test_a_copy_is_found_however_it_was_edited(how: str) -> None:
    rng = np.random.default_rng(8)
    others = notes(200)
    texts = [" ".join(EDITS[how](text.split(), rng)) for text in others]
    assert compare(texts, others).tolist() == list(range(200))
    assert (compare(texts, notes(200, seed=9)) < 0).all()


def test_a_template_that_all_notes_share_hides_nothing_and_makes_no_copies() -> None:
    """Every note has 75% in common with every other; the copies among them are found all the same."""
    rng = np.random.default_rng(3)
    template = " ".join(rng.choice(WORDS, 300))
    others = [f"{template} {own}" for own in notes(500, words=100, seed=4)]
    texts = [altered(others[5 * k], 8, rng) for k in range(100)] + [
        f"{template} {own}" for own in notes(50, words=100, seed=5)
    ]
    found = compare(texts, others)
    assert found[:100].tolist() == [5 * k for k in range(100)]
    assert (found[100:] < 0).all()


def test_sentences_of_a_stock_make_no_copies() -> None:
    """Notes of ten sentences out of sixty, as radiologists dictate them."""
    rng = np.random.default_rng(4)
    stock = notes(60, words=9, seed=10)
    written = [". ".join(rng.choice(stock, 10, replace=False)) for _ in range(600)]
    assert (compare(written[:300], written[300:]) < 0).all()


def test_the_answer_is_the_same_every_time_and_nothing_is_fine() -> None:
    texts, others = notes(30), notes(30)
    assert np.array_equal(compare(texts, others), compare(texts, others))
    assert compare([], others).tolist() == []
    assert compare(texts[:2], []).tolist() == [-1, -1]
    assert first_identical(sketch(texts[:2]), sketch([])).tolist() == [-1, -1]
    assert compare(["", "\U0001f600 \ud800"], others).tolist() == [-1, -1]
