"""Agreement of annotators who mark words with codes, perhaps several per word (evidence paper, Section 3.4 and Table
2).

Punctuation is ignored, because only words count: make the marks with `evidence.cover` on notes tokenised by
`evidence.tokenise`. Krippendorff's alpha and Fleiss' kappa are computed over units, which are one of two kinds:

pairs   a unit is a word with a code that any annotator used in that document; it is marked or not
        (a character with a code, where there is no text: `character_agreement`)
sets    a unit is a word; its value is the set of its codes, and only equal sets agree

Hooper's consistency is about index terms, so it uses the codes of each document or chart, wherever they were marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.agreement import fleiss_kappa, hooper_consistency, krippendorff_alpha
from palpate.stats.evidence.words import EvidenceWords, Ints, Spans, cover
from palpate.stats.inputs import Floats

Units = Literal["pairs", "sets"]
Kind = Literal["same code elsewhere", "other extent", "other code here", "missing"]
KINDS: tuple[Kind, ...] = ("other extent", "same code elsewhere", "other code here", "missing")


class Marks(NamedTuple):
    """What one annotator marked: words by number, each with a code; a pair counts once."""

    word: Ints
    code: Ints


class CodeAgreement(NamedTuple):
    """Table 2: the number of marked (word, code) pairs of all annotators, and three measures; nan if undefined."""

    n_marks: int
    n_units: int
    alpha: float
    kappa: float
    hooper: float


class Disagreement(NamedTuple):
    """Consecutive words that `annotator` marked with a code and `other` did not, and what `other` did instead."""

    annotator: int
    other: int
    document: int
    first_word: int
    last_word: int
    code: int
    kind: Kind


def marks_of(words: EvidenceWords, annotated: Spans) -> Marks:
    """The words that spans cover, whole or in part, each with the span's code."""
    covered = cover(words, annotated)
    code = np.repeat(annotated.code, np.diff(covered.first))
    pairs = np.unique(np.stack([covered.word, code], axis=1), axis=0)
    return Marks(pairs[:, 0], pairs[:, 1])


def code_agreement(
    marks: Sequence[Marks],
    document: ArrayLike,
    *,
    chart: ArrayLike | None = None,
    seen: ArrayLike | None = None,
    units: Units = "pairs",
) -> CodeAgreement:
    """Agreement of two or more annotators; `document` is the document of each word.

    `chart` is the chart of each document; Hooper's consistency is then computed by chart, otherwise by document.
    `seen`, [annotator, document] of booleans, says who looked at what. Alpha copes with unseen documents; kappa and
    Hooper's consistency use only those that all annotators have seen.
    """
    return _measured(marks, document, None, chart=chart, seen=seen, units=units)


def _measured(
    marks: Sequence[Marks],
    document: ArrayLike,
    size: Ints | None,
    *,
    chart: ArrayLike | None,
    seen: ArrayLike | None,
    units: Units,
) -> CodeAgreement:
    """Table 2; `size` is how many units of the same kind each word stands for, one if None."""
    of_word, table = _checked(marks, document, seen)
    pairs = [_distinct(mark) for mark in marks]
    for who, mark in enumerate(pairs):
        if not bool(table[who, of_word[mark[:, 0]]].all()):
            raise ValueError(f"annotator {who} marked a document that they have not seen according to `seen`")
    data, unit = _pair_units(pairs, of_word, table) if units == "pairs" else _set_units(pairs, of_word, table)
    sizes = np.ones(of_word.size, np.int64) if size is None else size
    alpha = krippendorff_alpha(data, weight=sizes[unit]) if data.size else float("nan")
    all_saw = np.asarray(table.all(axis=0))
    by_all = all_saw[of_word[unit]]
    shared = data[:, by_all]
    values = np.unique(shared)
    counts = np.stack([(shared == value).sum(axis=0) for value in values], axis=1) if shared.size else np.empty((0, 0))
    kappa = fleiss_kappa(counts, weight=sizes[unit][by_all]) if counts.size else float("nan")
    group = np.arange(table.shape[1]) if chart is None else np.asarray(chart, np.int64)
    if group.shape != (table.shape[1],):
        raise ValueError("chart must have a value for each document")
    terms = [
        {(int(group[d]), int(c)) for d, c in zip(of_word[m[:, 0]], m[:, 1], strict=True) if all_saw[d]} for m in pairs
    ]
    n_marks = sum(int(sizes[mark[:, 0]].sum()) for mark in pairs)
    return CodeAgreement(n_marks, int(sizes[unit].sum()), alpha, kappa, hooper_consistency(terms))


def character_agreement(
    annotated: Sequence[Spans],
    length: ArrayLike,
    *,
    chart: ArrayLike | None = None,
    seen: ArrayLike | None = None,
) -> CodeAgreement:
    """As `code_agreement`, where only offsets are known: a unit is a character with a code used in its document.

    `length` is the number of characters of each document. Characters that are all alike are counted, not listed, so a
    document may be of any length.
    """
    sizes = np.asarray(length, np.int64)
    cuts: list[set[int]] = [{0, int(size)} for size in sizes]
    for each in annotated:
        for d, begin, end in zip(each.note.tolist(), each.begin.tolist(), each.end.tolist(), strict=True):
            if not 0 <= begin < end <= sizes[d]:
                raise ValueError(f"a span of document {d} is empty or not inside it")
            cuts[d] |= {begin, end}
    places = [np.array(sorted(each), np.int64) for each in cuts]
    first = np.cumsum([0, *(each.size - 1 for each in places)])
    document = np.repeat(np.arange(sizes.size), np.diff(first))
    pieces = np.concatenate([np.zeros(0, np.int64), *(np.diff(each) for each in places)])
    marks = [_pieces(each, places, first) for each in annotated]
    return _measured(marks, document, pieces, chart=chart, seen=seen, units="pairs")


def _pieces(annotated: Spans, places: Sequence[Ints], first: Ints) -> Marks:
    """Which pieces spans cover, where the spans' own ends cut each document."""
    rows = {
        (int(first[d]) + k, code)
        for d, begin, end, code in zip(*(column.tolist() for column in annotated), strict=True)
        for k in range(*np.searchsorted(places[d], [begin, end]).tolist())
    }
    pairs = np.array(sorted(rows), np.int64).reshape(-1, 2)
    return Marks(pairs[:, 0], pairs[:, 1])


def disagreements(
    marks: Sequence[Marks], document: ArrayLike, *, chart: ArrayLike | None = None, seen: ArrayLike | None = None
) -> list[Disagreement]:
    """Every run of words that one annotator marked with a code and another, who saw the document, did not.

    The kind is the first that applies: "other extent", the other annotator has the code on a neighbouring word or on
    part of the run; "same code elsewhere", in the document, or in the chart if `chart` is given; "other code here", a
    different code on one of these words; "missing", none of these.
    """
    of_word, table = _checked(marks, document, seen)
    group = np.arange(table.shape[1]) if chart is None else np.asarray(chart, np.int64)
    if group.shape != (table.shape[1],):
        raise ValueError("chart must have a value for each document")
    sets = [{(int(w), int(c)) for w, c in _distinct(mark)} for mark in marks]
    codes_at: list[dict[int, set[int]]] = [{} for _ in sets]
    used: list[set[tuple[int, int]]] = [set() for _ in sets]
    for who, pairs in enumerate(sets):
        for word, code in pairs:
            codes_at[who].setdefault(word, set()).add(code)
            used[who].add((int(group[of_word[word]]), code))
    found: list[Disagreement] = []
    for one in range(len(sets)):
        for low, high, code in _runs(sets[one], of_word):
            where = int(of_word[low])
            for other in range(len(sets)):
                if other == one or not table[other, where]:
                    continue
                gone = [w for w in range(low, high + 1) if (w, code) not in sets[other]]
                in_chart = (int(group[where]), code) in used[other]
                for first, last in _consecutive(gone):
                    near = len(gone) < high + 1 - low or _beside(low, high, code, sets[other], of_word)
                    here = any(codes_at[other].get(w) for w in range(first, last + 1))
                    kind = _kind(near, in_chart, here)
                    found.append(Disagreement(one, other, where, first, last, code, kind))
    return sorted(found)


def _kind(near: bool, in_chart: bool, here: bool) -> Kind:
    if near:
        return "other extent"
    if in_chart:
        return "same code elsewhere"
    return "other code here" if here else "missing"


def _beside(low: int, high: int, code: int, other: set[tuple[int, int]], of_word: Ints) -> bool:
    """Whether the other annotator has the code on the word before or after a run, in the same document."""
    return any(
        (word, code) in other and of_word[word] == of_word[low]
        for word in (low - 1, high + 1)
        if 0 <= word < of_word.size
    )


def _runs(pairs: set[tuple[int, int]], of_word: Ints) -> list[tuple[int, int, int]]:
    """First word, last word and code of consecutive words of a document with one code."""
    runs: list[tuple[int, int, int]] = []
    for code, word in sorted((c, w) for w, c in pairs):
        if runs and runs[-1][1:] == (word - 1, code) and of_word[word] == of_word[word - 1]:
            runs[-1] = (runs[-1][0], word, code)
        else:
            runs.append((word, word, code))
    return runs


def _consecutive(words: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for word in words:
        if runs and runs[-1][1] == word - 1:
            runs[-1] = (runs[-1][0], word)
        else:
            runs.append((word, word))
    return runs


def _checked(marks: Sequence[Marks], document: ArrayLike, seen: ArrayLike | None) -> tuple[Ints, NDArray[np.bool_]]:
    of_word = np.asarray(document, np.int64)
    if len(marks) < 2:
        raise ValueError("marks must come from at least two annotators")
    if of_word.ndim != 1 or (of_word.size and of_word.min() < 0):
        raise ValueError("document must have a number of at least 0 for each word")
    for mark in marks:
        if mark.word.size and not 0 <= mark.word.min() <= mark.word.max() < of_word.size:
            raise ValueError("there is no word with the number of a mark")
    n_documents = int(of_word.max(initial=-1)) + 1
    if seen is None:
        return of_word, np.ones((len(marks), n_documents), np.bool_)
    table = np.asarray(seen, np.bool_)
    if table.ndim != 2 or table.shape[0] != len(marks) or table.shape[1] < n_documents:
        raise ValueError("seen must be [annotator, document]")
    return of_word, table


def _distinct(mark: Marks) -> Ints:
    return np.unique(np.stack([mark.word, mark.code], axis=1), axis=0).astype(np.int64).reshape(-1, 2)


def _pair_units(pairs: list[Ints], of_word: Ints, seen: NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """[annotator, unit] of 0, 1 and nan, and the word of each unit: a word with a code used in its document."""
    both = np.concatenate(pairs)
    used = np.unique(np.stack([of_word[both[:, 0]], both[:, 1]], axis=1), axis=0)
    n_words = np.bincount(of_word, minlength=seen.shape[1])
    words = np.argsort(of_word, kind="stable")
    first = np.concatenate([[0], np.cumsum(n_words)])
    rank = np.empty(of_word.size, np.int64)
    rank[words] = np.arange(of_word.size) - first[of_word[words]]
    start = np.concatenate([[0], np.cumsum(n_words[used[:, 0]])]).astype(np.int64)
    block = {(int(d), int(c)): k for k, (d, c) in enumerate(used)}
    within = np.arange(start[-1]) - np.repeat(start[:-1], n_words[used[:, 0]])
    unit = words[np.repeat(first[used[:, 0]], n_words[used[:, 0]]) + within]
    data = np.where(seen[:, of_word[unit]], 0.0, np.nan)
    for who, mark in enumerate(pairs):
        blocks = np.array([block[int(of_word[w]), int(c)] for w, c in mark], np.int64)
        data[who, start[blocks] + rank[mark[:, 0]]] = 1.0
    return data, unit


def _set_units(pairs: list[Ints], of_word: Ints, seen: NDArray[np.bool_]) -> tuple[Floats, Ints]:
    """[annotator, word], a number for each distinct set of codes, 0 for none, nan for unseen."""
    numbers: dict[tuple[int, ...], int] = {(): 0}
    data = np.where(seen[:, of_word], 0.0, np.nan)
    for who, mark in enumerate(pairs):
        codes: dict[int, list[int]] = {}
        for word, code in mark.tolist():
            codes.setdefault(word, []).append(code)
        for word, some in codes.items():
            data[who, word] = numbers.setdefault(tuple(sorted(some)), len(numbers))
    return data, np.arange(of_word.size)
