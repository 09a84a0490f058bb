"""How well scores rank the words of a chart, without a threshold: average precision, and precision and recall at k.

For each pair of a chart and a code with gold evidence, all words of the chart are ranked by their score for the code;
words without a score come last, all equal. Words of equal score are in random order, of which the expectation is taken:
a model that scores nothing has the precision of chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.evidence.words import EvidenceWords, Ints, Spans, cover
from palpate.stats.inputs import Floats, finite


class RankedPairs(NamedTuple):
    """One row per chart and code with gold evidence; `precision` and `recall` are [pair, k]."""

    note: Ints
    code: Ints
    average_precision: Floats
    precision: Floats
    recall: Floats


def rank_words(
    words: EvidenceWords,
    gold: Spans,
    word: ArrayLike,
    code: ArrayLike,
    score: ArrayLike,
    *,
    at: Sequence[int],
    within: ArrayLike | None = None,
    besides: Spans | None = None,
) -> RankedPairs:
    """`word`, `code` and `score` are columns of scored words, each pair of word and code once.

    A word that gold evidence covers in part is gold evidence. For a part of the evidence, `within` are the words that
    are ranked at all (a mask), and `besides` is gold evidence that is not asked about: neither right nor wrong, its
    words are left out of the ranking for its code.
    """
    numbers, codes, scores = np.asarray(word, np.int64), np.asarray(code, np.int64), finite(score, name="score")
    if not numbers.shape == codes.shape == scores.shape:
        raise ValueError("word, code and score must have the same length")
    n_codes = int(max(side.max(initial=0) for side in (gold.code, codes, *([besides.code] if besides else [])))) + 1
    ranked = np.ones(words.begin.size, np.bool_) if within is None else np.asarray(within, np.bool_)
    if ranked.shape != words.begin.shape:
        raise ValueError("within must have a boolean for each word")
    marked = _marked(words, gold, n_codes)
    marked = marked[ranked[marked // n_codes]]
    other = np.zeros(0, np.int64) if besides is None else np.setdiff1d(_marked(words, besides, n_codes), marked)
    other = other[ranked[other // n_codes]]
    gold_pair, other_pair = (words.note[some // n_codes] * n_codes + some % n_codes for some in (marked, other))
    pairs = np.unique(gold_pair)
    n_gold = np.bincount(np.searchsorted(pairs, gold_pair), minlength=pairs.size)
    kept = ranked[numbers] & ~np.isin(numbers * n_codes + codes, other)
    numbers, codes, scores = numbers[kept], codes[kept], scores[kept]
    scored = numbers * n_codes + codes
    right = np.isin(scored, marked)
    pair = words.note[numbers] * n_codes + codes
    order = np.lexsort((-scores, pair))
    low, high = (np.searchsorted(pair[order], pairs, side=side) for side in ("left", "right"))
    n_words = np.bincount(words.note[ranked], minlength=len(words.texts))[pairs // n_codes]
    of_pairs = np.searchsorted(pairs, other_pair[np.isin(other_pair, pairs)])
    n_words = n_words - np.bincount(of_pairs, minlength=pairs.size)
    out = np.empty((pairs.size, 1 + 2 * len(at)))
    for k in range(pairs.size):
        mine = order[low[k] : high[k]]
        out[k] = _ranked(scores[mine], right[mine], int(n_gold[k]), int(n_words[k]), at)
    columns = out[:, 0], out[:, 1 : 1 + len(at)], out[:, 1 + len(at) :]
    return RankedPairs(pairs // n_codes, pairs % n_codes, *columns)


def _marked(words: EvidenceWords, marked: Spans, n_codes: int) -> Ints:
    """Distinct words of spans, each with its code: word * n_codes + code, sorted."""
    covered = cover(words, marked)
    span = np.repeat(np.arange(marked.note.size), np.diff(covered.first))
    return np.unique(covered.word * n_codes + marked.code[span])


def _ranked(score: Floats, right: NDArray[np.bool_], n_gold: int, n_words: int, at: Sequence[int]) -> list[float]:
    """Average precision, then precision and recall at each k, of one pair; scores fall."""
    ends = np.append(np.flatnonzero(np.diff(score)) + 1, score.size) if score.size else np.zeros(0, np.int64)
    hits = np.cumsum(right)[ends - 1] if score.size else np.zeros(0, np.int64)
    if n_words > score.size:  # all others are one more group
        ends, hits = np.append(ends, n_words), np.append(hits, n_gold)
    new = np.diff(hits, prepend=0)
    average = float((new / n_gold * hits / ends).sum())
    starts, before = np.append(0, ends[:-1]), np.append(0, hits[:-1])
    found = []
    for k in at:
        group = min(int(np.searchsorted(ends, k)), ends.size - 1)
        share = min((k - starts[group]) / (ends[group] - starts[group]), 1.0)
        found.append(float(before[group] + share * new[group]))
    return [average, *(hit / k for hit, k in zip(found, at, strict=True)), *(hit / n_gold for hit in found)]
