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
    words: EvidenceWords, gold: Spans, word: ArrayLike, code: ArrayLike, score: ArrayLike, *, at: Sequence[int]
) -> RankedPairs:
    """`word`, `code` and `score` are columns of scored words, each pair of word and code once.

    A word that gold evidence covers in part is gold evidence.
    """
    numbers, codes, scores = np.asarray(word, np.int64), np.asarray(code, np.int64), finite(score, name="score")
    if not numbers.shape == codes.shape == scores.shape:
        raise ValueError("word, code and score must have the same length")
    n_codes = int(max(gold.code.max(initial=0), codes.max(initial=0))) + 1
    covered = cover(words, gold)
    span = np.repeat(np.arange(gold.note.size), np.diff(covered.first))
    marked = np.unique(covered.word * n_codes + gold.code[span])
    gold_pair = words.note[marked // n_codes] * n_codes + marked % n_codes
    pairs = np.unique(gold_pair)
    n_gold = np.bincount(np.searchsorted(pairs, gold_pair), minlength=pairs.size)
    scored = numbers * n_codes + codes
    right = np.isin(scored, marked)
    pair = words.note[numbers] * n_codes + codes
    order = np.lexsort((-scores, pair))
    low, high = (np.searchsorted(pair[order], pairs, side=side) for side in ("left", "right"))
    n_words = np.diff(words.first)[pairs // n_codes]
    out = np.empty((pairs.size, 1 + 2 * len(at)))
    for k in range(pairs.size):
        mine = order[low[k] : high[k]]
        out[k] = _ranked(scores[mine], right[mine], int(n_gold[k]), int(n_words[k]), at)
    columns = out[:, 0], out[:, 1 : 1 + len(at)], out[:, 1 + len(at) :]
    return RankedPairs(pairs // n_codes, pairs % n_codes, *columns)


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
