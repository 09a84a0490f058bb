"""Ranked words against scikit-learn and against a slow count over all orders of equal scores."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from palpate.stats.evidence import Spans, spans, tokenise
from palpate.stats.evidence.ranking import rank_words

TEXTS = ("alpha beta gamma delta", "one", "alpha beta gamma delta epsilon zeta eta theta")
AT = (1, 2, 5)
WORD_AND_CODE = st.tuples(st.integers(0, 12), st.integers(0, 1))


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_every_pair_is_the_slow_count(data: st.DataObject) -> None:
    words = tokenise(TEXTS)
    gold_words = data.draw(st.sets(WORD_AND_CODE, min_size=1))
    scored = data.draw(st.dictionaries(WORD_AND_CODE, st.sampled_from([0.0, 0.5, 1.0])))
    rows = [(int(words.note[w]), int(words.begin[w]), int(words.end[w]), c) for w, c in sorted(gold_words)]
    gold = spans(*(np.array(column) for column in zip(*rows, strict=True)))
    keys = sorted(scored)
    columns = [np.array(column, dtype=np.int64) for column in (zip(*keys, strict=True) if keys else ([], []))]
    found = rank_words(words, gold, *columns, np.array([scored[key] for key in keys], dtype=np.float64), at=AT)
    expected_pairs = sorted({(int(words.note[w]), c) for w, c in gold_words})
    assert list(zip(found.note.tolist(), found.code.tolist(), strict=True)) == expected_pairs
    for k, (note, code) in enumerate(expected_pairs):
        own = range(int(words.first[note]), int(words.first[note + 1]))
        y = np.array([(w, code) in gold_words for w in own], dtype=int)
        score = np.array([scored.get((w, code), -1.0) for w in own])
        assert found.average_precision[k] == pytest.approx(average_precision_score(y, score))
        orders = _orders(score)
        for j, at in enumerate(AT):
            hits = np.mean([sum(y[list(order[:at])]) for order in orders])
            assert found.precision[k, j] == pytest.approx(hits / at)
            assert found.recall[k, j] == pytest.approx(hits / y.sum())


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_part_of_the_evidence_is_ranked_among_its_words(data: st.DataObject) -> None:
    """Words outside are not ranked; words of other gold evidence for the code are left out, too."""
    words = tokenise(TEXTS)
    gold_words = data.draw(st.sets(WORD_AND_CODE, min_size=1))
    others = data.draw(st.sets(WORD_AND_CODE))
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=13, max_size=13)))
    scored = data.draw(st.dictionaries(WORD_AND_CODE, st.sampled_from([0.0, 0.5, 1.0])))

    def side(some: set[tuple[int, int]]) -> Spans:
        rows = [(int(words.note[w]), int(words.begin[w]), int(words.end[w]), c) for w, c in sorted(some)]
        return spans(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    keys = sorted(scored)
    columns = [np.array(column, dtype=np.int64) for column in (zip(*keys, strict=True) if keys else ([], []))]
    values = np.array([scored[key] for key in keys], dtype=np.float64)
    found = rank_words(words, side(gold_words), *columns, values, at=AT, within=inside, besides=side(others))
    expected = sorted({(int(words.note[w]), c) for w, c in gold_words if inside[w]})
    assert list(zip(found.note.tolist(), found.code.tolist(), strict=True)) == expected
    for k, (note, code) in enumerate(expected):
        own = [
            w
            for w in range(int(words.first[note]), int(words.first[note + 1]))
            if inside[w] and ((w, code) in gold_words or (w, code) not in others)
        ]
        y = np.array([(w, code) in gold_words for w in own], dtype=int)
        score = np.array([scored.get((w, code), -1.0) for w in own])
        assert found.average_precision[k] == pytest.approx(average_precision_score(y, score))
        for j, at in enumerate(AT):
            hits = np.mean([sum(y[list(order[:at])]) for order in _orders(score)])
            assert found.recall[k, j] == pytest.approx(hits / y.sum())
    with pytest.raises(ValueError, match="a boolean for each word"):
        rank_words(words, side(gold_words), *columns, values, at=AT, within=inside[:3])


def _orders(score: np.ndarray) -> list[tuple[int, ...]]:
    """Some orders by falling score that give equal scores every place equally often: rotations of each group."""
    groups = [np.flatnonzero(score == value).tolist() for value in sorted(set(score.tolist()), reverse=True)]
    longest = int(np.lcm.reduce([len(group) for group in groups]))
    return [
        tuple(w for group in groups for w in group[shift % len(group) :] + group[: shift % len(group)])
        for shift in range(longest)
    ]


def test_rotations_give_what_all_orders_give() -> None:
    y = np.array([1, 0, 0, 1])
    for at in (1, 2, 3):
        slow = np.mean([sum(y[list(order[:at])]) for order in permutations(range(4))])
        assert np.mean([sum(y[list(order[:at])]) for order in _orders(np.zeros(4))]) == pytest.approx(slow)


def test_a_word_covered_in_part_is_gold_and_nothing_scored_is_chance() -> None:
    words = tokenise(["pneumonia and sepsis and fever"])
    gold = spans([0], [0], [4], [0])
    none = np.zeros(0)
    found = rank_words(words, gold, none, none, none, at=(1,))
    assert found.average_precision.tolist() == pytest.approx([0.2])
    assert found.precision[0, 0] == pytest.approx(0.2)
    best = rank_words(words, gold, [0], [0], [0.1], at=(1, 9))
    assert best.average_precision.tolist() == [1.0]
    assert best.recall[0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="same length"):
        rank_words(words, gold, [0], [0, 1], [0.1], at=(1,))
