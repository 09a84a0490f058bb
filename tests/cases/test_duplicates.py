"""Near-identical texts against the obvious way: every pair compared."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.duplicates import first_identical, nearest, shared_runs, sketch

WORDS = np.asarray([f"{first}{second}{third}" for first in "bdgkm" for second in "aeiou" for third in "lnrst"])


def notes(n: int, *, words: int = 120, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, words)) for _ in range(n)]


def altered(text: str, n: int, rng: np.random.Generator) -> str:
    words = text.split()
    for at in rng.choice(len(words), n, replace=False):
        words[at] = "other"
    return " ".join(words)


def compare(texts: list[str], others: list[str], similarity: float = 0.8) -> np.ndarray:
    return nearest(texts, sketch(texts), others, sketch(others), similarity=similarity)


def obvious(text: str, other: str) -> float:
    """Jaccard's index of the runs of five words, written out."""
    sets = []
    for each in (text, other):
        words = ["".join("0" if c.isdigit() else c for c in word) for word in each.lower().split()]
        size = min(5, len(words))
        sets.append({tuple(words[k : k + size]) for k in range(len(words) - size + 1)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def identical(a: str, b: str) -> bool:
    return bool(first_identical(sketch([a]), sketch([b]))[0] == 0)


@given(st.lists(st.sampled_from(WORDS[:6].tolist()), min_size=1, max_size=30), st.data())
def test_shared_runs_are_jaccards_index(words: list[str], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.sampled_from([*words, "new"]), min_size=1, max_size=30))
    text, second = " ".join(words), " ".join(other)
    assert shared_runs(text, second) == obvious(text, second)
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
    assert shared_runs(text, moved) == 1.0


def test_what_every_pair_shows_is_found() -> None:
    rng = np.random.default_rng(1)
    others = notes(150)
    changes = np.arange(64) % 8
    texts = [altered(others[k], int(changes[k]), rng) for k in range(64)] + notes(16, seed=2)
    found = compare(texts, others)
    for k, text in enumerate(texts):
        best = max(range(len(others)), key=lambda j: obvious(text, others[j]))
        assert (found[k] >= 0) == (obvious(text, others[best]) >= 0.8), k
        if found[k] >= 0:
            assert obvious(text, others[int(found[k])]) >= 0.8


def test_a_template_that_all_notes_share_hides_nothing() -> None:
    """Every note has 60% in common with every other; the copies among them are found all the same."""
    rng = np.random.default_rng(3)
    template = " ".join(rng.choice(WORDS, 300))
    others = [f"{template} {own}" for own in notes(500, words=100, seed=4)]
    texts = [altered(others[5 * k], 3, rng) for k in range(100)] + [
        f"{template} {own}" for own in notes(50, words=100, seed=5)
    ]
    found = compare(texts, others, similarity=0.85)
    assert found[:100].tolist() == [5 * k for k in range(100)]
    assert (found[100:] < 0).all()


def test_the_answer_is_the_same_every_time_and_nothing_is_fine() -> None:
    texts, others = notes(30), notes(30)
    assert np.array_equal(compare(texts, others), compare(texts, others))
    assert compare([], others).tolist() == []
    assert compare(texts[:2], []).tolist() == [-1, -1]
    assert first_identical(sketch(texts[:2]), sketch([])).tolist() == [-1, -1]
    assert compare(["", "\U0001f600 \ud800"], others).tolist() == [-1, -1]
