"""The n-gram model's search for the best words, compiled; the result is that of a search through the vocabulary.

A word's score depends on four counts: with l1, with l2 l1, with r1, with r1 r2. It is enough to consider

1. words seen with a history of two words, which are few;
2. words seen with l1 and with r1: both lists are sorted, and walked side by side;
3. words seen on one side only: the other side is the same for all of them, so they are tried in the order of their one
   count, which is kept sorted, until one is worse than the n-th best;
4. words seen on neither side: they are tried in the order of P(w), which is that of their codes.

A word that comes up again without its counts of two words has at most its true score, so it changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from palpate.compiled import njit


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _find(word: Any, low: Any, high: Any, asked: Any) -> Any:
    """The index of `asked` in the sorted word[low:high], or -1."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if word[middle] < asked:
            low = middle + 1
        else:
            high = middle
    return low if low < end and word[low] == asked else -1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _ahead(word: Any, low: Any, high: Any, asked: Any) -> Any:
    """The first index in the sorted word[low:high] that is not below `asked`, found in doubling steps."""
    step = 1
    while low < high and word[low] < asked:
        if low + step < high and word[low + step] < asked:
            low += step
            step *= 2
        elif step > 1:
            step = 1
        else:
            low += 1
    return low


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _times(lists: Any, at: Any, high: Any, asked: Any) -> Any:
    """How often the word is in a list, in which `at` is the first index not below it."""
    return np.int64(lists.times[at]) if at < high and lists.word[at] == asked else np.int64(0)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _interpolated(p: Any, times_1: Any, times_2: Any, one: Any, two: Any) -> Any:
    """Witten and Bell: P(w | two words), which backs off to P(w | one word) and P(w), from (low, high, total)."""
    if one[2] > 0:
        p = (times_1 + (one[1] - one[0]) * p) / (one[2] + (one[1] - one[0]))
    if two[2] > 0:
        p = (times_2 + (two[1] - two[0]) * p) / (two[2] + (two[1] - two[0]))
    return p


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _score(p: Any, l_1: Any, l_2: Any, r_1: Any, r_2: Any, spans: Any) -> Any:
    """The score, rounded to 40 bits, so that scores that differ only by rounding errors are equal."""
    value = _interpolated(p, l_1, l_2, spans[0], spans[1]) * _interpolated(p, r_1, r_2, spans[2], spans[3]) / p
    shifted = value * 8193.0
    return shifted - (shifted - value)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _insert(best: Any, score: Any, barred: Any, code: Any, value: Any) -> None:
    """Keep the n best words, each once; ties go to the lower code."""
    last = best.size - 1
    if best[last] >= 0 and (value < score[last] or (value == score[last] and code >= best[last])):
        return
    if _find(barred, 0, barred.size, code) >= 0:
        return
    for k in range(best.size):
        if best[k] == code:
            return
    k = last
    while k > 0 and (best[k - 1] < 0 or value > score[k - 1] or (value == score[k - 1] and code < best[k - 1])):
        best[k], score[k] = best[k - 1], score[k - 1]
        k -= 1
    best[k], score[k] = code, value


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _span(lists: Any, row: Any) -> Any:
    """Where the words of a history begin and end, and how often it was seen."""
    if row < 0:
        return np.int64(0), np.int64(0), np.int64(0)
    return lists.first[row], lists.first[row + 1], lists.total[row]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _seen_with_two(left: Any, right: Any, spans: Any, p_word: Any, barred: Any, best: Any, score: Any) -> None:
    (k1, e1, _), (k2, e2, _), (k3, e3, _), (k4, e4, _) = spans
    while k2 < e2 or k4 < e4:
        w = min(left.two.word[k2] if k2 < e2 else p_word.size, right.two.word[k4] if k4 < e4 else p_word.size)
        if w >= p_word.size:
            return
        k1, k3 = _ahead(left.one.word, k1, e1, w), _ahead(right.one.word, k3, e3, w)
        l_1, l_2 = _times(left.one, k1, e1, w), _times(left.two, k2, e2, w)
        r_1, r_2 = _times(right.one, k3, e3, w), _times(right.two, k4, e4, w)
        _insert(best, score, barred, w, _score(p_word[w], l_1, l_2, r_1, r_2, spans))
        k2 += l_2 > 0
        k4 += r_2 > 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _seen_on_both(left: Any, right: Any, spans: Any, p_word: Any, barred: Any, best: Any, score: Any) -> None:
    (k1, e1, _), _, (k3, e3, _), _ = spans
    while k1 < e1 and k3 < e3:
        w = max(left.one.word[k1], right.one.word[k3])
        if w >= p_word.size:
            return
        k1, k3 = _ahead(left.one.word, k1, e1, w), _ahead(right.one.word, k3, e3, w)
        l_1, r_1 = _times(left.one, k1, e1, w), _times(right.one, k3, e3, w)
        if l_1 and r_1:
            _insert(best, score, barred, w, _score(p_word[w], l_1, 0, r_1, 0, spans))
            k1 += 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _seen_on_one(mine: Any, other: Any, is_left: Any, spans: Any, p_word: Any,
                 barred: Any, best: Any, score: Any) -> None:  # fmt: skip
    own, others = (spans[0], spans[2]) if is_left else (spans[2], spans[0])
    met = 0
    for k in range(own[0], own[1]):
        at = mine.order[k]
        w = np.int64(mine.word[at])
        if w >= p_word.size:
            continue
        times = np.int64(mine.times[at])
        l_1, r_1 = (times, np.int64(0)) if is_left else (np.int64(0), times)
        value = _score(p_word[w], l_1, 0, r_1, 0, spans)
        if best[-1] >= 0 and value < score[-1]:
            return
        if _find(other.word, others[0], others[1], w) < 0:
            _insert(best, score, barred, w, value)
            met += _find(barred, 0, barred.size, w) < 0
            if met == best.size:
                return


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _seen_on_neither(left: Any, right: Any, spans: Any, p_word: Any, barred: Any, best: Any, score: Any) -> None:
    one_l, _, one_r, _ = spans
    met = 0
    for w in range(p_word.size):
        value = _score(p_word[w], 0, 0, 0, 0, spans)
        if met == best.size or (best[-1] >= 0 and value < score[-1]):
            return
        if (
            _find(left.one.word, one_l[0], one_l[1], w) < 0
            and _find(right.one.word, one_r[0], one_r[1], w) < 0
            and _find(barred, 0, barred.size, w) < 0
        ):
            met += 1
            _insert(best, score, barred, w, value)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def likeliest_words(rows: Any, left_pair: Any, right_pair: Any, left: Any, right: Any,
                    p_word: Any, barred: Any, barred_first: Any, n: Any) -> Any:  # fmt: skip
    """The n best codes for each row (l2, l1, r1, r2, group), best first, then -1."""
    best = np.full((rows.shape[0], n), -1, np.int64)
    if n == 0:
        return best
    for i in range(rows.shape[0]):
        spans = (
            _span(left.one, rows[i, 1]),
            _span(left.two, left_pair[i]),
            _span(right.one, rows[i, 2]),
            _span(right.two, right_pair[i]),
        )
        mine = barred[barred_first[rows[i, 4]] : barred_first[rows[i, 4] + 1]]
        score = np.zeros(n)
        _seen_with_two(left, right, spans, p_word, mine, best[i], score)
        _seen_on_both(left, right, spans, p_word, mine, best[i], score)
        _seen_on_one(left.one, right.one, True, spans, p_word, mine, best[i], score)
        _seen_on_one(right.one, left.one, False, spans, p_word, mine, best[i], score)
        _seen_on_neither(left, right, spans, p_word, mine, best[i], score)
    return best
