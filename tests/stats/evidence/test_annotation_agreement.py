"""Agreement on words with several codes: against the `krippendorff` package and the measures written out."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from palpate.stats.evidence import EvidenceWords, Spans, spans, tokenise
from palpate.stats.evidence.annotation_agreement import (
    Marks,
    character_agreement,
    code_agreement,
    disagreements,
    marks_of,
)

Pairs = set[tuple[int, int]]
DOCUMENT = [0, 0, 0, 1, 1, 2]


def columns(pairs: Pairs) -> Marks:
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Marks(table[:, 0], table[:, 1])


def marked() -> st.SearchStrategy[list[Pairs]]:
    one = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=8)
    return st.lists(one, min_size=2, max_size=4)


def dense(who: list[Pairs], units: str, seen: list[list[bool]]) -> list[list[float]]:
    """[annotator][unit] by looking at every word and code."""
    used = {(DOCUMENT[w], c) for pairs in who for w, c in pairs}
    names: dict[frozenset[int], int] = {}
    table = []
    for k, pairs in enumerate(who):
        row: list[float] = []
        for word, document in enumerate(DOCUMENT):
            unseen = not seen[k][document]
            if units == "sets":
                codes = frozenset(c for w, c in pairs if w == word)
                row.append(math.nan if unseen else names.setdefault(codes, len(names)))
            else:
                row += [
                    math.nan if unseen else float((word, code) in pairs)
                    for code in range(3)
                    if (document, code) in used
                ]
        table.append(row)
    return table


def kappa(table: list[list[float]]) -> float:
    """Fleiss (1971), written out."""
    n, values = len(table), sorted({v for row in table for v in row})
    units = list(zip(*table, strict=True))
    if not units:
        return math.nan
    share = {v: sum(row.count(v) for row in table) / (n * len(units)) for v in values}
    agreed = [sum(unit.count(v) * (unit.count(v) - 1) for v in values) / (n * (n - 1)) for unit in units]
    chance = sum(p * p for p in share.values())
    return (sum(agreed) / len(units) - chance) / (1 - chance) if chance < 1 else math.nan


@given(marked(), st.sampled_from(["pairs", "sets"]))
@example([{(0, 0), (0, 1), (1, 0)}, {(0, 0), (1, 0), (5, 2)}], "pairs")
def test_alpha_and_kappa(who: list[Pairs], units: str) -> None:
    package = pytest.importorskip("krippendorff")
    everything = [[True] * 3 for _ in who]
    table = dense(who, units, everything)
    result = code_agreement([columns(p) for p in who], DOCUMENT, units=units)  # type: ignore[arg-type]
    assert result.n_units == len(table[0])
    assert result.n_marks == sum(map(len, who))
    if len({v for row in table for v in row}) < 2:
        assert math.isnan(result.alpha)
        assert math.isnan(result.kappa)
        return
    expected = package.alpha(reliability_data=np.array(table), level_of_measurement="nominal")
    assert result.alpha == pytest.approx(expected, abs=1e-12)
    assert result.kappa == pytest.approx(kappa(table), abs=1e-12)


@given(marked(), st.data(), st.sampled_from(["pairs", "sets"]))
def test_unseen_documents_are_missing_values(who: list[Pairs], data: st.DataObject, units: str) -> None:
    package = pytest.importorskip("krippendorff")
    seen = [data.draw(st.lists(st.booleans(), min_size=3, max_size=3)) for _ in who]
    kept = [{(w, c) for w, c in pairs if seen[k][DOCUMENT[w]]} for k, pairs in enumerate(who)]
    table = np.array(dense(kept, units, seen))
    pairable = table[:, (~np.isnan(table)).sum(axis=0) >= 2] if table.size else table
    assume(pairable.size and len(np.unique(pairable[~np.isnan(pairable)])) > 1)
    result = code_agreement([columns(p) for p in kept], DOCUMENT, seen=seen, units=units)  # type: ignore[arg-type]
    expected = package.alpha(reliability_data=pairable, level_of_measurement="nominal")
    assert result.alpha == pytest.approx(expected, abs=1e-12)
    all_seen = [k for k in range(table.shape[1]) if not np.isnan(table[:, k]).any()]
    expected_kappa = kappa(table[:, all_seen].tolist()) if all_seen else math.nan
    assert result.kappa == pytest.approx(expected_kappa, abs=1e-12, nan_ok=True)


@given(marked())
def test_hooper_is_about_codes_not_places(who: list[Pairs]) -> None:
    terms = [{(DOCUMENT[w], c) for w, c in pairs} for pairs in who]
    shares = [len(a & b) / len(a | b) for a, b in combinations(terms, 2) if a | b]
    expected = sum(shares) / len(shares) if shares else math.nan
    assert code_agreement([columns(p) for p in who], DOCUMENT).hooper == pytest.approx(expected, nan_ok=True)
    by_chart = [{c for _, c in pairs} for pairs in who]
    shares = [len(a & b) / len(a | b) for a, b in combinations(by_chart, 2) if a | b]
    expected = sum(shares) / len(shares) if shares else math.nan
    result = code_agreement([columns(p) for p in who], DOCUMENT, chart=[0, 0, 0])
    assert result.hooper == pytest.approx(expected, nan_ok=True)


def test_krippendorffs_own_example_for_two_observers() -> None:
    # Krippendorff, Computing Krippendorff's alpha-reliability (2011), section A: binary, ten units, alpha = 0.095.
    first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    marks = [columns({(k, 0) for k, v in enumerate(row) if v}) for row in (first, second)]
    assert code_agreement(marks, [0] * 10).alpha == pytest.approx(0.095, abs=5e-4)


def test_punctuation_does_not_matter() -> None:
    texts = ["Asthma, mild. No fever (today)."]
    words = tokenise(texts)
    one = marks_of(words, spans([0, 0], [0, 17], [6, 22], [0, 1]))
    other = marks_of(words, spans([0, 0], [0, 16], [7, 24], [0, 1]))
    result = code_agreement([one, other], words.note)
    assert (result.alpha, result.kappa, result.hooper) == (1.0, 1.0, 1.0)
    assert disagreements([one, other], words.note) == []


def kinds(who: list[Pairs], chart: list[int] | None = None) -> list[tuple[int, int, int, int, str]]:
    found = disagreements([columns(p) for p in who], DOCUMENT, chart=chart)
    return [(d.annotator, d.first_word, d.last_word, d.code, d.kind) for d in found]


def test_kinds_of_disagreement() -> None:
    assert kinds([{(0, 0)}, set()]) == [(0, 0, 0, 0, "missing")]
    assert kinds([{(0, 0)}, {(0, 1)}]) == [(0, 0, 0, 0, "other code here"), (1, 0, 0, 1, "other code here")]
    assert kinds([{(0, 0)}, {(2, 0)}]) == [(0, 0, 0, 0, "same code elsewhere"), (1, 2, 2, 0, "same code elsewhere")]
    assert kinds([{(0, 0), (1, 0), (2, 0)}, {(1, 0)}]) == [
        (0, 0, 0, 0, "other extent"),
        (0, 2, 2, 0, "other extent"),
    ]
    assert kinds([{(0, 0)}, {(1, 0)}]) == [(0, 0, 0, 0, "other extent"), (1, 1, 1, 0, "other extent")]
    # Word 2 and word 3 are neighbours in the column, but of two documents.
    assert kinds([{(2, 0)}, {(3, 0)}]) == [(0, 2, 2, 0, "missing"), (1, 3, 3, 0, "missing")]
    assert kinds([{(2, 0)}, {(3, 0)}], [7, 7, 8]) == [
        (0, 2, 2, 0, "same code elsewhere"),
        (1, 3, 3, 0, "same code elsewhere"),
    ]


@given(marked())
def test_every_difference_is_listed_once(who: list[Pairs]) -> None:
    found = disagreements([columns(p) for p in who], DOCUMENT)
    for one in range(len(who)):
        for other in range(len(who)):
            if one != other:
                listed = [
                    (w, d.code)
                    for d in found
                    if (d.annotator, d.other) == (one, other)
                    for w in range(d.first_word, d.last_word + 1)
                ]
                assert sorted(listed) == sorted(who[one] - who[other])
    assert all(d.document == DOCUMENT[d.first_word] == DOCUMENT[d.last_word] for d in found)


def test_a_document_that_the_other_has_not_seen_is_no_disagreement() -> None:
    marks = [columns({(0, 0), (5, 1)}), columns(set())]
    found = disagreements(marks, DOCUMENT, seen=[[True] * 3, [True, True, False]])
    assert [(d.document, d.kind) for d in found] == [(0, "missing")]


def test_wrong_arguments() -> None:
    none = columns(set())
    with pytest.raises(ValueError, match="at least two"):
        code_agreement([none], DOCUMENT)
    with pytest.raises(ValueError, match="no word with the number"):
        code_agreement([none, columns({(9, 0)})], DOCUMENT)
    with pytest.raises(ValueError, match="annotator 1 marked"):
        code_agreement([none, columns({(0, 0)})], DOCUMENT, seen=[[True] * 3, [False] * 3])
    with pytest.raises(ValueError, match="each document"):
        code_agreement([none, none], DOCUMENT, chart=[0])


def span_columns(rows: list[tuple[int, int, int, int]]) -> Spans:
    return spans(*(zip(*rows, strict=True) if rows else ((), (), (), ())))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(1, 4), st.integers(0, 2)), max_size=6),
        min_size=2,
        max_size=3,
    ),
    st.booleans(),
)
def test_characters_are_words_of_one_character(who: list[list[tuple[int, int, int, int]]], by_chart: bool) -> None:
    length = np.array([12, 12, 15])
    marked = [span_columns([(d, begin, begin + n, code) for d, begin, n, code in rows]) for rows in who]
    first = np.cumsum([0, *length])
    begin = np.concatenate([np.arange(n) for n in length])
    words = EvidenceWords(("x" * 12, "x" * 12, "x" * 15), np.repeat(np.arange(3), length), begin, begin + 1, first)
    chart = [0, 0, 1] if by_chart else None
    seen = [[True, True, True], *[[d != 2 or any(row[0] == 2 for row in rows) for d in range(3)] for rows in who[1:]]]
    slow = code_agreement([marks_of(words, each) for each in marked], words.note, chart=chart, seen=seen)
    fast = character_agreement(marked, length, chart=chart, seen=seen)
    assert fast == pytest.approx(slow, abs=1e-12, nan_ok=True)


def test_characters_of_a_long_document_are_not_listed() -> None:
    far = [span_columns([(0, 10**8, 10**9, 0)]), span_columns([(0, 10**8, 9 * 10**8, 0)])]
    found = character_agreement(far, [10**9])
    assert (found.n_marks, found.n_units) == (17 * 10**8, 10**9)
    assert 0 < found.alpha < 1
    for wrong in ((0, 5, 5, 0), (0, 5, 11, 0), (0, -1, 3, 0)):
        with pytest.raises(ValueError, match="document 0"):
            character_agreement([span_columns([wrong]), span_columns([])], [10])
