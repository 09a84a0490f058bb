"""Optimal 1:1 matching on a line, on multiplicities, and the metrics of every matched replicate.

A cell is all rows of one class at one place, which is the probability in fixed point; cells come sorted by place. The
state d is the number of rows of the smaller class seen minus the number of rows of the larger class used; f(d), the
least cost so far, is convex. Walking up:

    a gap g between places     f(d) += g |d|
    a row of the larger class  f(d) <- min(f(d), f(d + 1)): left out, or used
    a row of the smaller class f(d) <- min(f(d - 1), f(d) + penalty): used, or left out

Only slopes of f are kept, with lazy offsets. With m the leftmost argmin, the stack `left` holds the slopes at d < 0, up
to slopes of 0, and the stack `middle` those at 0 <= d < m, which are negative. Slopes to the right of both only grow
and are never needed, except how many are 0 (`flat`): so far does the argmin extend. A slope below -penalty at d < 0
belongs to states that are never best, so it is forgotten. Where m < 0, the top -m slopes of `left` are 0: these are
rows of the larger class at the present place, and the next gap makes m 0 again. So in the simplest case `left` is a
stack of rows that are still free, and a row of the smaller class takes the nearest one.

The walk back from d = 0 finds the least and the greatest d of all best matchings before each cell. Where they are the
same, every best matching uses the same number of the cell's rows, and each row has the same share of them. Where they
differ, the best choices of rows are counted in both directions (see `_average`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from palpate.compiled import njit
from palpate.stats.kernels import draw_counts
from palpate.stats.kernels.walks import evaluate

_CHUNK = 8


class MatchingOrder(NamedTuple):
    """The rows and the cells of all labels, concatenated, each label from low place to high.

    Label k has the cells start[k] to start[k + 1] - 1 and the rows first[k] to first[k + 1] - 1; `cell` is a row's cell
    among those of its label. `position[r]` says for row r of `Ranked` where it is among its label's rows here;
    `group[r]` numbers the groups of equal scores. `weight` are the sampling weights of the rows; empty without any.
    """

    start: NDArray[np.int64]
    positive: NDArray[np.bool_]
    place: NDArray[np.int64]
    first: NDArray[np.int64]
    unit: NDArray[np.uint32]
    cell: NDArray[np.int32]
    position: NDArray[np.int32]
    group: NDArray[np.int32]
    weight: NDArray[np.float64]
    penalty: int


class Space(NamedTuple):
    """Working space of one matching: see `workspace`. A slope of `left` has a number of copies."""

    least: NDArray[np.int32]
    most: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    left: NDArray[np.int64]
    copies: NDArray[np.int32]
    middle: NDArray[np.int64]


class Matched(NamedTuple):
    """The matched rows of one problem in one replicate."""

    mass: NDArray[np.float64]
    positive: NDArray[np.bool_]
    score: NDArray[np.float64]
    last: NDArray[np.bool_]
    rank: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _matched_space(n_rows: Any) -> Any:
    # One row more than there are: a row that is not matched is written and then overwritten.
    n = n_rows + 1
    return Matched(
        np.empty(n, np.float64),
        np.empty(n, np.bool_),
        np.empty(n, np.float64),
        np.empty(n, np.bool_),
        np.empty(n, np.int64),
    )


@njit(cache=True, nogil=True)
def workspace(n_cells: Any, n_copies: Any) -> Any:
    """Space for a matching of `n_cells` cells that hold `n_copies` rows in all."""
    size = 2 * n_copies + 2
    return Space(
        np.empty(n_cells, np.int32),
        np.empty(n_cells, np.int32),
        np.empty(n_cells + 1, np.int32),
        np.empty(n_cells + 1, np.int32),
        np.empty(size, np.int64),
        np.empty(size, np.int32),
        np.empty(n_copies + 1, np.int64),
    )


@njit(cache=True, nogil=True)
def _walk_up(count: Any, place: Any, positive: Any, rarer: Any, n_rarer: Any, penalty: Any, space: Any) -> None:
    """Fill space.least and space.most: between them lie the best d before each cell, whatever comes after it.

    Before a cell of the larger class these are the argmins of f, before one of the smaller class those of f(d) +
    penalty d. A cell without rows (count 0) is treated like any other, which is faster than a branch.
    """
    least, most, left, copies, middle = space.least, space.most, space.left, space.copies, space.middle
    # A slope of left[front:top] is the stored number - gone, one of middle[head:end] the stored number + gone.
    front, top, n_left = n_rarer, n_rarer, 0
    head, end, m, flat = 0, 0, 0, 0
    gone = place.dtype.type(0)
    for i in range(count.size):
        if place[i] - place[0] > gone:
            gone = place[i] - place[0]
            m, flat = max(m, 0), 0
            while m > 0 and middle[head] + gone >= 0:
                flat += middle[head] + gone == 0
                head += 1
                m -= 1
        c = count[i]
        if positive[i] == rarer:
            while front < top and left[front] - gone < -penalty:
                n_left -= copies[front]
                front += 1
            least[i] = most[i] = -n_left
            k = front
            while k < top and left[k] - gone == -penalty:
                most[i] += copies[k]
                k += 1
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
            least[i], most[i] = m, m + flat
            n_left += c
            flat += c
            while c > 0 and m > 0:
                end -= 1
                m -= 1
                c -= 1
                left[top], copies[top] = middle[end] + 2 * gone, 1
                top += 1
            left[top], copies[top] = gone, c
            top += c > 0
            m -= c


@njit(cache=True, nogil=True, inline="always")
def _before(best: Any, after: Any, c: Any, rare: Any) -> Any:
    """The d before a cell of c rows that is nearest to `best`, among those from which `after` can be reached."""
    return min(max(best, after - c), after) if rare else min(max(best, after), after + c)


@njit(cache=True, nogil=True)
def choose(count: Any, place: Any, positive: Any, penalty: Any, space: Any, share: Any) -> None:
    """Fill share[i]: which share of the count[i] rows of cell i best matchings use, on average over all of them."""
    n_positive, n_negative = 0, 0
    for i in range(count.size):
        n_positive += count[i] * positive[i]
        n_negative += count[i] * (not positive[i])
    share[:] = 0.0
    if n_positive == 0 or n_negative == 0:
        return
    rarer = n_positive <= n_negative
    _walk_up(count, place, positive, rarer, min(n_positive, n_negative), penalty, space)
    # space.low[i] and space.high[i]: the least and the greatest d before cell i of any best matching.
    low, high = space.low, space.high
    band = -1
    low[count.size] = high[count.size] = 0
    for i in range(count.size - 1, -1, -1):
        c, rare = count[i], positive[i] == rarer
        low[i] = _before(space.least[i], low[i + 1], c, rare)
        high[i] = _before(space.most[i], high[i + 1], c, rare)
        if low[i] < high[i]:
            band = max(band, i)
        elif band >= 0:
            _average(i, band, count, positive, rarer, space, share)
            band = -1
        elif c > 0:
            share[i] = abs(low[i] - low[i + 1]) / c


@njit(cache=True, nogil=True, inline="always")
def _ways(c: Any, k: Any) -> Any:
    """The logarithm of the number of ways to use k of c rows."""
    return math.lgamma(c + 1.0) - math.lgamma(k + 1.0) - math.lgamma(c - k + 1.0)


@njit(cache=True, nogil=True)
def _average(first: Any, last: Any, count: Any, positive: Any, rarer: Any, space: Any, share: Any) -> None:
    """Fill share[first] to share[last], cells in which best matchings differ, with the mean over all of them.

    Every choice of rows that is best counts once. `above[k]` are the logarithms of the numbers of choices in the cells
    from first + k on, by d before that cell; `below` those in the cells before it.
    """
    low, high = space.low, space.high
    n = last - first + 1
    widest = 1
    for i in range(first, last + 2):
        widest = max(widest, high[i] - low[i] + 1)
    above = np.full((n + 1, widest), -np.inf)
    above[n, 0] = 0.0
    for i in range(last, first - 1, -1):
        k, c, rare = i - first, count[i], positive[i] == rarer
        for after in range(low[i + 1], high[i + 1] + 1):
            for d in range(_before(space.least[i], after, c, rare), _before(space.most[i], after, c, rare) + 1):
                ways = above[k + 1, after - low[i + 1]] + _ways(c, abs(after - d))
                above[k, d - low[i]] = np.logaddexp(above[k, d - low[i]], ways)
    below, following = np.full(widest, -np.inf), np.empty(widest)
    below[0] = 0.0
    for i in range(first, last + 1):
        k, c, rare = i - first, count[i], positive[i] == rarer
        following[:] = -np.inf
        used, total = 0.0, 0.0
        for after in range(low[i + 1], high[i + 1] + 1):
            for d in range(_before(space.least[i], after, c, rare), _before(space.most[i], after, c, rare) + 1):
                ways = below[d - low[i]] + _ways(c, abs(after - d))
                following[after - low[i + 1]] = np.logaddexp(following[after - low[i + 1]], ways)
                number = np.exp(ways + above[k + 1, after - low[i + 1]] - above[0, 0])
                used += abs(after - d) * number
                total += number
        share[i] = used / (total * max(c, 1))
        below[:] = following


@njit(cache=True, nogil=True)
def _gather(j: Any, mass: Any, ordered: Any, ranked: Any, row: Any) -> Any:
    """The matched rows of problem j by score, high to low: how many rows, and how many of them are above."""
    low, high, above = ranked.start[j], ranked.start[j + 1], ranked.above[j]
    n = 0
    for k in range(low, high):
        row.mass[n] = mass[ordered.position[k]]
        row.rank[n] = k
        n += row.mass[n] > 0
    n_above = 0 if above >= 0 else -1
    for i in range(n):
        k = row.rank[i]
        row.positive[i] = ranked.positive[k]
        row.score[i] = ranked.score[k]
        row.last[i] = i + 1 == n or ordered.group[k] != ordered.group[row.rank[i + 1]]
        n_above += k - low < above
    return n, n_above


@njit(cache=True, nogil=True)
def _match_label(label: Any, counts: Any, ordered: Any, space: Any, count: Any, share: Any, mass: Any) -> Any:
    """Fill `mass` of the rows of one label in one replicate: how often drawn, times the share; returns the space."""
    cells = slice(ordered.start[label], ordered.start[label + 1])
    rows = slice(ordered.first[label], ordered.first[label + 1])
    cell, unit, n = ordered.cell[rows], ordered.unit[rows], ordered.start[label + 1] - ordered.start[label]
    count[:n] = 0
    total = 0
    for k in range(cell.size):
        count[cell[k]] += counts[unit[k]]
        total += counts[unit[k]]
    if total >= space.middle.size:
        # Patients have different numbers of rows, so a replicate may have more rows than the data.
        space = workspace(space.least.size, total + total // 8)
    choose(count[:n], ordered.place[cells], ordered.positive[cells], ordered.penalty, space, share[:n])
    for k in range(cell.size):
        mass[k] = counts[unit[k]] * share[cell[k]]
    if ordered.weight.size:
        _weigh(mass[: cell.size], ordered.positive[cells], cell, ordered.weight[rows])
    return space


@njit(cache=True, nogil=True)
def _weigh(mass: Any, positive: Any, cell: Any, weight: Any) -> None:
    """Multiply the masses of matched rows by their sampling weights; each class keeps its mass, the number of pairs."""
    before, after = np.zeros(2), np.zeros(2)
    for k in range(cell.size):
        side = int(positive[cell[k]])
        before[side] += mass[k]
        mass[k] *= weight[k]
        after[side] += mass[k]
    for k in range(cell.size):
        side = int(positive[cell[k]])
        if after[side] > 0:
            mass[k] *= before[side] / after[side]


@njit(cache=True, nogil=True, parallel=True)
def replicate_matched(
    seed: Any, replicates: Any, ordered: Any, ranked: Any, families: Any, wanted: Any, n_values: Any, out: Any
) -> None:
    """Fill out[problem, metric, i] for the i-th of the numbered replicates."""
    n_chunks = (replicates.size + _CHUNK - 1) // _CHUNK
    n_units = ranked.sizes[0].sum()
    longest = 0
    for label in range(ordered.first.size - 1):
        longest = max(longest, ordered.first[label + 1] - ordered.first[label])
    for chunk in prange(n_chunks):
        counts = np.empty(n_units, np.int32)
        count, share, mass = np.empty(longest, np.int32), np.empty(longest), np.empty(longest)
        row, space = _matched_space(longest), workspace(longest, longest)
        values = np.empty(n_values, np.float64)
        for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, replicates.size)):
            for label in range(ordered.start.size - 1):
                if label == 0 or not ranked.shared:
                    draw_counts(counts, ranked.sizes[label], ranked.draws[label], seed, replicates[i])
                space = _match_label(label, counts, ordered, space, count, share, mass)
                for model in range(ranked.n_models):
                    j = label * ranked.n_models + model
                    n, above = _gather(j, mass, ordered, ranked, row)
                    parts = row.mass[:n], row.positive[:n], row.score[:n], row.last[:n]
                    evaluate(*parts, above, ranked.gap[j], families, values)
                    for k in range(wanted.size):
                        out[j, k, i] = values[wanted[k]]
