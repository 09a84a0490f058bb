"""Scores of evidence against a slow obvious version, on all the spans that people and models draw."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palpate.stats import resample_counts
from palpate.stats.evidence import (
    AVERAGES,
    MATCHES,
    MEASURES,
    Spans,
    Stratum,
    count_matches,
    cover,
    evidence_threshold,
    merged_spans,
    span_scores,
    spans,
    strata_by_group,
    strata_by_length,
    strata_by_window,
    token_runs,
    tokenise,
    words_in,
)
from tests.stats.evidence import evidence_by_sets as slow

Mark = slow.Mark
# Few letters, so that spans say the same in different places; case, marks, wide and astral characters, and digits.
TEXT = st.text(st.sampled_from("abBÉe\u0301éßİ🫀٣ 1029.,-_\n"), max_size=14)


def columns(marks: list[Mark]) -> Spans:
    table = np.array(marks, np.int64).reshape(-1, 4)
    return spans(*table.T)


@st.composite
def evidence(draw: st.DrawFn) -> tuple[list[str], list[int], list[Mark], list[Mark]]:
    """Notes of a few charts; gold and predicted spans that overlap, nest, touch, are empty or there twice."""
    texts = draw(st.lists(TEXT, min_size=1, max_size=4))
    chart = [draw(st.integers(0, 2)) for _ in texts]

    def mark() -> st.SearchStrategy[Mark]:
        def within(note: int) -> st.SearchStrategy[Mark]:
            place = st.integers(0, len(texts[note]))
            return st.tuples(st.just(note), place, place, st.integers(0, 2)).map(
                lambda m: (m[0], min(m[1], m[2]), max(m[1], m[2]), m[3])
            )

        return st.integers(0, len(texts) - 1).flatmap(within)

    gold = draw(st.lists(mark(), max_size=6))
    predicted = draw(st.lists(mark() | (st.sampled_from(gold) if gold else mark()), max_size=6))
    return texts, chart, gold, predicted


def same(ours: Any, theirs: Any) -> bool:
    return bool(np.array_equal(np.asarray(ours), np.asarray(theirs), equal_nan=True))


@given(st.lists(TEXT, max_size=4), st.sampled_from([None, 0, 10, 100]))
@example(["007 10 11 0011 ٣٣ 3٣ 12a 98.6 ___ _a \u0301 a\u0301"], 10)
@example(["9" * 40 + " " + "0" * 40], 10)
def test_words(texts: list[str], largest: int | None) -> None:
    words = tokenise(texts, largest_number=largest)
    found = [list(zip(words.begin[a:b], words.end[a:b], strict=True)) for a, b in pairwise(words.first)]
    assert found == [slow.words_of(text, largest) for text in texts]
    assert words.note.tolist() == [k for k, row in enumerate(found) for _ in row]


@settings(max_examples=100)
@given(evidence(), st.sampled_from([None, 10]))
@example((["pneumonia"], [0], [(0, 0, 9, 0)], [(0, 0, 4, 0)]), 10)
@example((["a b c"], [0], [(0, 0, 5, 0), (0, 2, 3, 0)], [(0, 2, 3, 0)]), 10)
@example((["a b", "b a"], [0, 0], [(0, 0, 1, 0)], [(1, 2, 3, 0)]), 10)
@example((["a b c d"], [0], [(0, 0, 3, 0), (0, 2, 5, 0)], [(0, 2, 3, 0), (0, 0, 1, 0)]), 10)
def test_counts_and_scores_are_those_of_sets(
    case: tuple[list[str], list[int], list[Mark], list[Mark]], largest: int | None
) -> None:
    texts, chart, gold, predicted = case
    words = tokenise(texts, largest_number=largest)
    counts = count_matches(words, columns(gold), columns(predicted), chart=chart, n_codes=3, n_charts=3)
    result = span_scores(counts, rng=3, n_replicates=4)
    drawn = resample_counts(rng=3, n_replicates=4, patient=np.arange(3))
    for m, match in enumerate(MATCHES):
        expected = slow.cells(match, texts, chart, gold, predicted, largest)
        rows = slice(counts.first[m], counts.first[m + 1])
        keys = zip(counts.chart[rows].tolist(), counts.code[rows].tolist(), strict=True)
        values = zip(counts.tp[rows].tolist(), counts.fp[rows].tolist(), counts.fn[rows].tolist(), strict=True)
        assert dict(zip(keys, values, strict=True)) == expected
        assert same(result.point[0, m], slow.scores(expected, [1, 1, 1]))
        for r in range(4):
            assert same(result.values[0, m, :, :, r], slow.scores(expected, drawn[r].tolist()))


@settings(max_examples=40)
@given(evidence())
def test_perfect_is_exactly_one(case: tuple[list[str], list[int], list[Mark], list[Mark]]) -> None:
    texts, chart, gold, _ = case
    counts = count_matches(tokenise(texts), columns(gold), columns(gold), chart=chart, n_codes=3)
    point = span_scores(counts, n_replicates=0).point[0]
    some = any(slow.pieces(texts[note], begin, end) for note, begin, end, _ in gold)
    assert np.all(point == 1.0) if some else np.all(np.isnan(point))


@settings(max_examples=50)
@given(evidence())
def test_strata_are_the_scores_of_their_spans(case: tuple[list[str], list[int], list[Mark], list[Mark]]) -> None:
    texts, chart, gold, predicted = case
    ours, theirs, words = columns(gold), columns(predicted), tokenise(texts)
    category = ["Physician" if k % 2 else "" for k in range(len(texts))]
    system = ["ICD", "CPT", "ICD"]
    seen = [len(text) // 2 for text in texts]
    strata = [
        *strata_by_group("category", *([category[k] for k in side.note] for side in (ours, theirs))),
        *strata_by_group("system", *([system[k] for k in side.code] for side in (ours, theirs))),
        *strata_by_length(words, ours),
        *strata_by_window(seen, ours),
    ]
    counts = count_matches(words, ours, theirs, chart=chart, n_codes=3, n_charts=3, strata=strata)
    point = span_scores(counts, n_replicates=0).point

    def n_words(mark: Mark) -> int:
        return len(slow.pieces(texts[mark[0]], mark[1], mark[2]))

    kept: dict[str, tuple[Any, Any]] = {
        "category=Physician": (lambda m: category[m[0]] == "Physician",) * 2,
        "system=ICD": (lambda m: m[3] != 1,) * 2,
        "system=CPT": (lambda m: m[3] == 1,) * 2,
        "length=1 word": (lambda m: n_words(m) == 1, lambda m: True),
        "length=2 words": (lambda m: n_words(m) == 2, lambda m: True),
        "length=3+ words": (lambda m: n_words(m) > 2, lambda m: True),
        "window=within": (lambda m: m[2] <= seen[m[0]], lambda m: True),
        "window=beyond": (lambda m: m[2] > seen[m[0]], lambda m: True),
    }
    used = {f"system={system[m[3]]}" for m in (*gold, *predicted)}
    assert used <= set(counts.strata), "a group that only one side has stays"
    for s, name in enumerate(counts.strata[1:], start=1):
        of_gold, of_predicted = kept[name]
        for m, match in enumerate(MATCHES):
            part = slow.cells(match, texts, chart, list(filter(of_gold, gold)), list(filter(of_predicted, predicted)))
            expected = np.array(slow.scores(part, [1, 1, 1]))
            if counts.recall_only[s]:
                expected[:, [MEASURES.index("precision"), MEASURES.index("f1")]] = np.nan
            assert same(point[s, m], expected), (name, match)


def one(text: str, gold: list[tuple[int, int]], predicted: list[tuple[int, int]]) -> dict[str, list[int]]:
    """Found, false and missed of one note and one code."""
    marks = [columns([(0, b, e, 0) for b, e in part]) for part in (gold, predicted)]
    counts = count_matches(tokenise([text]), *marks, chart=[0], n_codes=1)
    return {match: counts.totals()[0, m].tolist() for m, match in enumerate(MATCHES)}


def test_a_piece_of_a_word_is_no_match_for_the_word() -> None:
    assert one("pneumonia", [(0, 9)], [(0, 4)]) == {match: [0, 1, 1] for match in MATCHES}
    assert one("pneumonia", [(0, 4)], [(0, 4)]) == {match: [1, 0, 0] for match in MATCHES}
    assert one("acute pneumonia", [(0, 15)], [(0, 10)])["token"] == [1, 1, 1]
    assert one("acute pneumonia", [(0, 15)], [(0, 10)])["span"] == [0, 1, 1]


def test_punctuation_and_blanks_at_the_ends_do_not_matter() -> None:
    assert one("has asthma, mild", [(4, 10)], [(3, 12)]) == {match: [1, 0, 0] for match in MATCHES}


def test_the_same_words_elsewhere_count_only_without_position() -> None:
    found = one("Chest pain. No\nchest\n pain", [(0, 10)], [(15, 26)])
    assert found["token"] == [0, 2, 2]
    assert found["span"] == [0, 1, 1]
    assert found["token_anywhere"] == [2, 0, 0]
    assert found["span_anywhere"] == [1, 0, 0]


def test_one_prediction_can_not_find_two_spans() -> None:
    found = one("a b c d", [(0, 3), (4, 7)], [(0, 7)])
    assert found["overlap"] == [1, 0, 1]
    assert found["iou"] == [1, 0, 1]
    assert one("a b c d e", [(0, 3)], [(0, 9)])["iou"] == [0, 1, 1]
    # The obvious greedy order pairs the first two and leaves the others alone; two pairs are possible.
    assert one("a b c d", [(0, 3), (0, 7)], [(2, 5), (4, 7)])["overlap"] == [2, 0, 0]


def test_a_chart_without_predictions_is_missed_and_one_without_gold_is_false() -> None:
    words = tokenise(["fever", "cough"])
    counts = count_matches(words, columns([(0, 0, 5, 0)]), columns([(1, 0, 5, 1)]), chart=[0, 1], n_codes=2)
    assert counts.totals()[0].tolist() == [[0, 1, 1]] * len(MATCHES)
    point = span_scores(counts, n_replicates=0).point[0]
    assert np.all(point[:, AVERAGES.index("micro")] == 0.0)
    nothing = count_matches(words, columns([(0, 0, 5, 0)]), columns([]), chart=[0, 1], n_codes=2)
    micro = span_scores(nothing, n_replicates=0).point[0, 0, 0]
    assert math.isnan(micro[0])
    assert micro[1:].tolist() == [0.0, 0.0]


def test_evidence_beyond_the_window_is_missed_and_told_apart() -> None:
    text = "fever and later cough"
    gold, predicted = columns([(0, 0, 5, 0), (0, 16, 21, 0)]), columns([(0, 0, 5, 0)])
    words = tokenise([text])
    strata = strata_by_window([10], gold)
    counts = count_matches(words, gold, predicted, chart=[0], n_codes=1, strata=strata)
    recall = span_scores(counts, n_replicates=0).point[:, 0, 0, MEASURES.index("recall")]
    assert dict(zip(counts.strata, recall.tolist(), strict=True)) == {
        "all": 0.5,
        "window=within": 1.0,
        "window=beyond": 0.0,
    }


def test_spans_without_words_count_nowhere() -> None:
    words = tokenise(["BMI 45, -"])
    counts = count_matches(words, columns([(0, 4, 6, 0)]), columns([(0, 7, 9, 0), (0, 1, 1, 0)]), chart=[0], n_codes=1)
    assert counts.totals().sum() == 0
    assert np.all(np.isnan(span_scores(counts, n_replicates=0).point))
    assert words_in(words, 0, [(0, 6), (4, 6)]) == [1, 0]
    assert words_in(tokenise(["BMI 45"], largest_number=None), 0, [(0, 6), (4, 5)]) == [2, 1]


def test_patients_keep_their_charts_together() -> None:
    marks = columns([(k, 0, 1, k % 2) for k in range(6)])
    words = tokenise(["a"] * 6)
    counts = count_matches(words, marks, columns([(k, 0, 1, 0) for k in range(6)]), chart=range(6), n_codes=2)
    patient = [0, 0, 1, 1, 2, 2]
    result = span_scores(counts, rng=9, n_replicates=20, patient=patient)
    # Each patient has one right and one wrong chart, so no resample changes anything.
    assert np.all(result.values[0, 0, 0, 0] == 0.5)
    assert len(np.unique(span_scores(counts, rng=9, n_replicates=20).values[0, 0, 0, 0])) > 1


def test_replicates_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    texts = ["a b c d e f g"] * 8
    table = [[(int(n), 2 * int(w), 2 * int(w) + 1, int(c)) for n, w, c in rng.integers(0, [8, 7, 3], (30, 3))]] * 2
    table[1] = [(n, b, e, (c + (n % 2)) % 3) for n, b, e, c in table[1]]
    counts = count_matches(tokenise(texts), columns(table[0]), columns(table[1]), chart=range(8), n_codes=3)
    whole = span_scores(counts, rng=5, n_replicates=50).values
    monkeypatch.setattr("palpate.stats.evidence._CELLS_PER_CHUNK", 7 * 18)
    assert same(span_scores(counts, rng=5, n_replicates=50).values, whole)
    generator = np.random.default_rng(4)
    assert not same(span_scores(counts, rng=generator, n_replicates=50).values, whole)


@settings(max_examples=50)
@given(evidence(), st.sampled_from([0.02, 0.05, 0.3]), st.integers(0, 2**32))
def test_threshold_is_that_of_trying_all(
    case: tuple[list[str], list[int], list[Mark], list[Mark]], step: float, seed: int
) -> None:
    texts, _, gold, predicted = case
    score = np.round(np.random.default_rng(seed).random(len(predicted)), 2)
    curve = evidence_threshold(tokenise(texts), columns(gold), columns(predicted), score, step=step)
    wanted = slow.elements("token", texts, [0] * len(texts), gold)
    assert curve.threshold[0] == step
    assert curve.threshold[-1] < 1.0 <= curve.threshold[-1] + step + 1e-9
    best: tuple[float, float] | None = None
    for k, threshold in enumerate(curve.threshold.tolist()):
        kept = [mark for mark, value in zip(predicted, score, strict=True) if value > threshold]
        marked = slow.elements("token", texts, [0] * len(texts), kept)
        expected = slow.measures(len(wanted & marked), len(marked - wanted), len(wanted - marked))
        assert same([curve.precision[k], curve.recall[k], curve.f1[k]], expected)
        if expected[2] > 0 and (best is None or expected[2] >= best[0]):
            best = expected[2], threshold
    assert curve.chosen == (None if best is None else best[1])


def test_a_score_equal_to_the_threshold_does_not_count() -> None:
    words = tokenise(["fever"])
    mark = columns([(0, 0, 5, 0)])
    curve = evidence_threshold(words, mark, mark, [0.3], step=0.02)
    # 15 * 0.02 is rounded to 0.3, which is not greater than 0.3.
    assert curve.recall[14] == 0.0
    assert curve.recall[13] == 1.0
    assert curve.chosen == 0.28


@given(st.lists(TEXT, min_size=1, max_size=3), st.data())
def test_runs_of_words(texts: list[str], data: st.DataObject) -> None:
    words = tokenise(texts)
    n = words.begin.size
    marked = data.draw(st.lists(st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, 1)), max_size=8 if n else 0))
    found = token_runs(words, [w for w, _ in marked], [c for _, c in marked])
    expected = []
    for note in range(len(texts)):
        here = [(w, c) for w, c in marked if words.note[w] == note]
        expected += [(note, words.begin[a], words.end[b], code) for code, a, b in slow.runs_of(here)]
    assert sorted(zip(*found, strict=True)) == sorted(expected)


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ((0, 0, 6, 0), "span 1 ends at 6, but its note has 5 characters"),
        ((2, 0, 1, 0), "span 1 is in a note that does not exist"),
        ((0, 3, 2, 0), "span 1 ends before it begins"),
        ((0, -1, 2, 0), "span 1 begins before its note"),
        ((0, 0, 2, -1), "span 1 has a negative code"),
    ],
)
def test_wrong_spans(mark: Mark, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cover(tokenise(["fever", "x"]), columns([(0, 0, 5, 0), mark]))


def test_wrong_arguments() -> None:
    words, mark = tokenise(["fever"]), columns([(0, 0, 5, 0)])
    with pytest.raises(ValueError, match="below n_codes"):
        count_matches(words, mark, mark, chart=[0], n_codes=0)
    with pytest.raises(ValueError, match="chart must have"):
        count_matches(words, mark, mark, chart=[0, 1], n_codes=1)
    with pytest.raises(ValueError, match="between 0 and n_charts"):
        count_matches(words, mark, mark, chart=[1], n_codes=1, n_charts=1)
    with pytest.raises(ValueError, match="mask"):
        count_matches(words, mark, mark, chart=[0], n_codes=1, strata=[Stratum("x", np.array([True, False]))])
    with pytest.raises(ValueError, match="must be whole numbers"):
        spans([0], [0.5], [1], [0])
    with pytest.raises(ValueError, match="step"):
        evidence_threshold(words, mark, mark, [0.5], step=0.0)
    counts = count_matches(words, mark, mark, chart=[0], n_codes=1)
    with pytest.raises(ValueError, match="patient"):
        span_scores(counts, patient=[1, 2])


def _start(text: str, at: int) -> int:
    """Where the word begins that holds a character."""
    while at > 0 and text[at - 1].isalpha():
        at -= 1
    return at


@given(
    texts=st.lists(st.text("ab ,.", max_size=14), min_size=1, max_size=3),
    marks=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 14), st.integers(0, 14), st.integers(0, 1)), max_size=8),
    borders=st.lists(st.integers(0, 14), min_size=3, max_size=3),
)
def test_merged_spans_are_runs_of_marked_words(
    texts: list[str], marks: list[tuple[int, int, int, int]], borders: list[int]
) -> None:
    """Against joining trimmed spans one by one, where the characters between them are of no word."""
    lengths = [len(text) for text in texts]
    rows = [
        (note % len(texts), min(a, b, lengths[note % len(texts)]), min(max(a, b), lengths[note % len(texts)]), code)
        for note, a, b, code in marks
    ]
    words = tokenise(texts, largest_number=None)
    of = np.array([int(begin >= borders[note]) for note, begin in zip(words.note, words.begin, strict=True)], np.int64)
    found = merged_spans(words, of, columns(rows))
    expected: list[tuple[int, int, int, int]] = []
    for note, code in {(row[0], row[3]) for row in rows}:
        text, run = texts[note], list[int]()
        trimmed = [
            (a + len(text[a:b]) - len(text[a:b].lstrip(" ,.")), a + len(text[a:b].rstrip(" ,.")))
            for n, a, b, c in rows
            if (n, c) == (note, code) and text[a:b].strip(" ,.")
        ]
        for a, b in sorted(trimmed):
            if run:
                between = text[run[1] : a]
                # A whole word before the gap and after it, and no border of notes in it.
                apart = _start(text, run[1] - 1) < borders[note] <= _start(text, a)
                if a <= run[1] or (not between.strip(" ,.") and not apart):
                    run = [run[0], max(run[1], b)]
                    continue
                expected.append((note, *run, code))
            run = [a, b]
        if run:
            expected.append((note, *run, code))
    spans_with_words = [
        each
        for each in zip(*(part.tolist() for part in found), strict=True)
        if any(words_in(words, each[0], [each[1:3]]))
    ]
    assert sorted(spans_with_words) == sorted(expected)
    n_without = sum(n == 0 for note, a, b, _ in rows for n in words_in(words, note, [(a, b)]))
    assert found.note.size - len(spans_with_words) == n_without
