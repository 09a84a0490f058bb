"""Optimal 1:1 matching on a line, on multiplicities, and the metrics of every matched replicate.

Rows come sorted by their place, which is the probability in fixed point. The state d is the number of rows of the
smaller class seen minus the number of rows of the larger class used; f(d), the least cost so far, is convex. Walking
up:

    a gap g between places     f(d) += g |d|
    a row of the larger class  f(d) <- min(f(d), f(d + 1)): left out, or used
    a row of the smaller class f(d) <- min(f(d - 1), f(d) + penalty): used, or left out

Only slopes of f are kept, with lazy offsets. With m the leftmost argmin, the stack `left` holds the slopes at d < 0, up
to slopes of 0, and the stack `middle` those at 0 <= d < m, which are negative. Slopes to the right of both only grow
and are never needed. A slope below -penalty at d < 0 belongs to states that are never best, so it is forgotten. Where m
< 0, the top -m slopes of `left` are 0: these are rows of the larger class at the present place, and the next gap makes
m 0 again. So in the simplest case `left` is a stack of rows that are still free, and a row of the smaller class takes
the nearest one.

The walk back from d = 0 needs one number per row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from palpate.stats.kernels import draw_counts
from palpate.stats.kernels.walks import evaluate

_CHUNK = 8


class MatchingOrder(NamedTuple):
    """The rows of all labels, concatenated, each label from low place to high.

    Label k has the rows start[k] to start[k + 1] - 1. `position[r]` says for row r of `Ranked` where it is among its
    label's rows here; `group[r]` numbers the groups of equal scores.
    """

    start: NDArray[np.int64]
    unit: NDArray[np.uint32]
    positive: NDArray[np.bool_]
    place: NDArray[np.int64]
    position: NDArray[np.int32]
    group: NDArray[np.int32]
    penalty: int


class Space(NamedTuple):
    """Working space of one matching: see `workspace`. A slope of `left` has a number of copies."""

    mark: NDArray[np.int32]
    left: NDArray[np.int64]
    copies: NDArray[np.int32]
    middle: NDArray[np.int64]


class Matched(NamedTuple):
    """The matched rows of one problem in one replicate."""

    mass: NDArray[np.int64]
    positive: NDArray[np.bool_]
    score: NDArray[np.float64]
    last: NDArray[np.bool_]
    rank: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _matched_space(n_rows: Any) -> Any:
    # One row more than there are: a row that is not matched is written and then overwritten.
    n = n_rows + 1
    return Matched(
        np.empty(n, np.int64),
        np.empty(n, np.bool_),
        np.empty(n, np.float64),
        np.empty(n, np.bool_),
        np.empty(n, np.int64),
    )


@njit(cache=True, nogil=True)
def workspace(n_rows: Any, n_copies: Any) -> Any:
    """Space for a matching of `n_rows` rows that occur `n_copies` times in all."""
    size = 2 * n_copies + 2
    return Space(
        np.empty(n_rows, np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int32),
        np.empty(n_copies + 1, np.int64),
    )


@njit(cache=True, nogil=True)
def _walk_up(count: Any, place: Any, positive: Any, rarer: Any, n_rarer: Any, penalty: Any, space: Any) -> None:
    """Fill space.mark: the argmin before each row of the larger class, the least d before each of the smaller.

    A row that does not occur (count 0) is treated like any other, which is faster than a branch.
    """
    mark, left, copies, middle = space
    # A slope of left[front:top] is the stored number - gone, one of middle[head:end] the stored number + gone.
    front, top, n_left = n_rarer, n_rarer, 0
    head, end, m = 0, 0, 0
    gone = place.dtype.type(0)
    for i in range(count.size):
        if place[i] - place[0] > gone:
            gone = place[i] - place[0]
            m = max(m, 0)
            while m > 0 and middle[head] + gone >= 0:
                head += 1
                m -= 1
        c = count[i]
        if positive[i] == rarer:
            while front < top and left[front] - gone < -penalty:
                n_left -= copies[front]
                front += 1
            mark[i] = -n_left
            left[front - 1], copies[front - 1] = gone - penalty, c
            front -= c > 0
            for _ in range(c):
                if m >= 0:
                    middle[end] = left[top - 1] - 2 * gone
                    end += 1
                m += 1
                copies[top - 1] -= 1
                top -= copies[top - 1] == 0
        else:
            mark[i] = m
            n_left += c
            while c > 0 and m > 0:
                end -= 1
                m -= 1
                c -= 1
                left[top], copies[top] = middle[end] + 2 * gone, 1
                top += 1
            left[top], copies[top] = gone, c
            top += c > 0
            m -= c


@njit(cache=True, nogil=True)
def choose(count: Any, place: Any, positive: Any, penalty: Any, space: Any, used: Any) -> Any:
    """Fill used[i], how many of the count[i] copies of row i are matched, and return the number of pairs."""
    n_positive, n_negative = 0, 0
    for i in range(count.size):
        n_positive += count[i] * positive[i]
        n_negative += count[i] * (not positive[i])
    if n_positive == 0 or n_negative == 0:
        used[:] = 0
        return 0
    rarer = n_positive <= n_negative
    _walk_up(count, place, positive, rarer, min(n_positive, n_negative), penalty, space)
    d, n_pairs = np.int32(0), 0
    for i in range(count.size - 1, -1, -1):
        if positive[i] == rarer:
            used[i] = min(count[i], d - space.mark[i])
            d -= used[i]
            n_pairs += used[i]
        else:
            used[i] = min(count[i], max(np.int32(0), space.mark[i] - d))
            d += used[i]
    return n_pairs


@njit(cache=True, nogil=True)
def _gather(j: Any, used: Any, ordered: Any, ranked: Any, row: Any) -> Any:
    """The matched rows of problem j by score, high to low: how many rows, and how many of them are above."""
    low, high, above = ranked.start[j], ranked.start[j + 1], ranked.above[j]
    n = 0
    for k in range(low, high):
        copies = used[ordered.position[k]]
        row.mass[n] = copies
        row.rank[n] = k
        n += copies > 0
    n_above = 0 if above >= 0 else -1
    for i in range(n):
        k = row.rank[i]
        row.positive[i] = ranked.positive[k]
        row.score[i] = ranked.score[k]
        row.last[i] = i + 1 == n or ordered.group[k] != ordered.group[row.rank[i + 1]]
        n_above += k - low < above
    return n, n_above


@njit(cache=True, nogil=True)
def _match_label(label: Any, counts: Any, ordered: Any, space: Any, count: Any, used: Any) -> Any:
    """Match the rows of one label in one replicate; returns the number of pairs and the space, perhaps enlarged."""
    low, high = ordered.start[label], ordered.start[label + 1]
    total = 0
    for k in range(low, high):
        count[k - low] = counts[ordered.unit[k]]
        total += count[k - low]
    if total >= space.middle.size:
        # Patients have different numbers of rows, so a replicate may have more rows than the data.
        space = workspace(space.mark.size, total + total // 8)
    rows, n = slice(low, high), high - low
    pairs = choose(count[:n], ordered.place[rows], ordered.positive[rows], ordered.penalty, space, used[:n])
    return pairs, space


@njit(cache=True, nogil=True, parallel=True)
def replicate_matched(
    seed: Any,
    replicates: Any,
    ordered: Any,
    ranked: Any,
    families: Any,
    wanted: Any,
    n_values: Any,
    out: Any,
    n_pairs: Any,
) -> None:
    """Fill out[problem, metric, i] and n_pairs[label, i] for the i-th of the numbered replicates."""
    n_chunks = (replicates.size + _CHUNK - 1) // _CHUNK
    n_units = ranked.sizes[0].sum()
    longest = 0
    for label in range(ordered.start.size - 1):
        longest = max(longest, ordered.start[label + 1] - ordered.start[label])
    for chunk in prange(n_chunks):
        counts = np.empty(n_units, np.int32)
        count, used = np.empty(longest, np.int32), np.empty(longest, np.int32)
        row, space = _matched_space(longest), workspace(longest, longest)
        values = np.empty(n_values, np.float64)
        for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, replicates.size)):
            for label in range(ordered.start.size - 1):
                if label == 0 or not ranked.shared:
                    draw_counts(counts, ranked.sizes[label], ranked.draws[label], seed, replicates[i])
                n_pairs[label, i], space = _match_label(label, counts, ordered, space, count, used)
                for model in range(ranked.n_models):
                    j = label * ranked.n_models + model
                    n, above = _gather(j, used, ordered, ranked, row)
                    parts = row.mass[:n], row.positive[:n], row.score[:n], row.last[:n]
                    evaluate(*parts, above, ranked.gap[j], families, values)
                    for k in range(wanted.size):
                        out[j, k, i] = values[wanted[k]]
