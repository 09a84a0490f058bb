"""AUROC of many replicates side by side, without weights.

Sixty-four replicates are drawn at a time and laid out as lanes: the counts of one unit in all of them are 64
neighbouring bytes, so one pass through the ranks serves 64 replicates. The walk adds up the more common class; each row
of the rarer class asks how many rows of the common class are below it (with ties it asks twice: strictly below, and
below or equal). Everything is an integer until the single division at the end.

A count above 255 does not fit into a lane. The replicate's total reveals it, and the replicate is then flagged, not
filled in.

The sensitivity at a share of false alarms is read off side by side too, from how far replicates move the curve's points
(`precision.moves`): they are walked from the highest threshold until false alarms exceed the share.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from palpate.compiled import njit
from palpate.stats.kernels import draw_counts

LANES = 64
MOST_ROWS = 1 << 24  # 2**24 rows of at most 255 copies: the running count of a lane fits 32 bits


_SIDE_BY_SIDE = 128
_ROUNDING = 1e-12
_SEARCHING, _ONE_MORE, _FOUND = 0, 1, 2


class Crossed(NamedTuple):
    """Every problem as a walk: the common class in ascending order, with stops where the rarer class asks.

    At stop t, after the first `after[t]` rows of its problem's common class, the units
    asker[asker_start[t] : asker_start[t + 1]] ask.
    """

    common_start: NDArray[np.int64]
    common: NDArray[np.uint32]
    stop_start: NDArray[np.int64]
    after: NDArray[np.int64]
    asker_start: NDArray[np.int64]
    asker: NDArray[np.uint32]
    flipped: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    draws: NDArray[np.int64]
    n_models: int
    shared: bool


@njit(cache=True, nogil=True)
def _draw_lanes(
    flat: Any, lanes: Any, sizes: Any, draws: Any, seed: Any, first: Any, count: Any, overflow: Any
) -> None:
    n_units = lanes.shape[0]
    n_draws = draws.sum()
    for lane in range(count):
        draw_counts(flat[lane, :n_units], sizes, draws, seed, first + lane)
        total = 0
        for unit in range(n_units):
            total += flat[lane, unit]
        if total != n_draws:
            overflow[first + lane] = True
    for unit in range(n_units):
        for lane in range(LANES):
            lanes[unit, lane] = flat[lane, unit]


@njit(cache=True, nogil=True)
def _add(lanes: Any, units: Any, low: Any, high: Any, below: Any) -> None:
    """Add the counts of units[low:high] to `below`, four rows per step."""
    i = low
    while i + 4 <= high:
        a, b, c, d = lanes[units[i]], lanes[units[i + 1]], lanes[units[i + 2]], lanes[units[i + 3]]
        for lane in range(LANES):
            below[lane] += np.uint32(a[lane]) + np.uint32(b[lane]) + np.uint32(c[lane]) + np.uint32(d[lane])
        i += 4
    while i < high:
        a = lanes[units[i]]
        for lane in range(LANES):
            below[lane] += np.uint32(a[lane])
        i += 1


@njit(cache=True, nogil=True)
def _walk(lanes: Any, crossed: Any, j: Any, below: Any, asking: Any, askers: Any, won: Any) -> None:
    """Per lane: the common class (`below`), the mass that asked (`askers`), the pairs it won (`won`)."""
    below[:] = 0
    askers[:] = 0
    won[:] = 0
    first = crossed.common_start[j]
    place = first
    for stop in range(crossed.stop_start[j], crossed.stop_start[j + 1]):
        until = first + crossed.after[stop]
        _add(lanes, crossed.common, place, until, below)
        place = until
        low, high = crossed.asker_start[stop], crossed.asker_start[stop + 1]
        if high == low + 1:
            single = lanes[crossed.asker[low]]
            for lane in range(LANES):
                won[lane] += np.uint64(single[lane]) * np.uint64(below[lane])
        else:
            asking[:] = 0
            _add(lanes, crossed.asker, low, high, asking)
            for lane in range(LANES):
                won[lane] += np.uint64(asking[lane]) * np.uint64(below[lane])
    _add(lanes, crossed.common, place, crossed.common_start[j + 1], below)
    low, high = crossed.asker_start[crossed.stop_start[j]], crossed.asker_start[crossed.stop_start[j + 1]]
    _add(lanes, crossed.asker, low, high, askers)


@njit(cache=True, nogil=True, parallel=True)
def replicate_aurocs(seed: Any, n_replicates: Any, crossed: Any, overflow: Any, out: Any) -> None:
    """Fill out[problem, replicate]; replicates flagged in `overflow` are not to be used."""
    n_blocks = (n_replicates + LANES - 1) // LANES
    n_units = crossed.sizes[0].sum()
    stride = (n_units // 64 + 1) * 64 + 64 * (n_units // 64 % 2)
    for block in prange(n_blocks):
        flat = np.zeros((LANES, stride), np.uint8)
        lanes = np.empty((n_units, LANES), np.uint8)
        below, asking = np.empty(LANES, np.uint32), np.empty(LANES, np.uint32)
        askers = np.empty(LANES, np.uint32)
        won = np.empty(LANES, np.uint64)
        first = block * LANES
        count = min(LANES, n_replicates - first)
        for j in range(crossed.common_start.size - 1):
            if j == 0 or (not crossed.shared and j % crossed.n_models == 0):
                label = j // crossed.n_models
                sizes, draws = crossed.sizes[label], crossed.draws[label]
                _draw_lanes(flat, lanes, sizes, draws, seed, first, count, overflow)
            _walk(lanes, crossed, j, below, asking, askers, won)
            for lane in range(count):
                # With ties, every row of the rarer class has asked twice: `askers` and `won` are both doubled.
                pairs = np.int64(askers[lane]) * np.int64(below[lane])
                wins = np.int64(won[lane])
                if crossed.flipped[j]:
                    wins = pairs - wins
                out[j, first + lane] = wins / pairs if pairs > 0 else np.nan


@njit(cache=True, nogil=True)
def _walk_points(columns: Any, steps: Any, held: Any, curve: Any, wanted: Any, first: Any, last: Any, out: Any) -> None:
    """Fill out[replicate, 4]: hits and false alarms at the last allowed point, and at the next."""
    n, width = curve.shape[1], last - first
    along, state, most = np.zeros((2, width)), np.zeros(width, np.uint8), np.full(width, -np.inf)
    for i in range(n):
        for lane in range(width):
            r = first + lane
            if state[lane] == _FOUND:
                continue
            for side in range(2):
                k = side * n + i
                along[side, lane] += steps[k, r] - (held[k, 0] * columns[4, r] + held[k, 1] * columns[5, r])
            hits = columns[0, r] + along[0, lane] - (curve[0, i] - curve[0, 0]) * columns[1, r] + curve[0, i]
            alarms = columns[2, r] + along[1, lane] - (curve[1, i] - curve[1, 0]) * columns[3, r] + curve[1, i]
            most[lane] = max(most[lane], alarms)
            reached = most[lane] <= wanted + _ROUNDING
            if state[lane] == _SEARCHING and (reached or i == 0):
                out[r, 0], out[r, 1] = hits, most[lane]
            out[r, 2], out[r, 3] = hits, most[lane]
            if not reached:
                state[lane] = _ONE_MORE if i == 0 else _FOUND


@njit(cache=True, nogil=True, parallel=True)
def points_around(columns: Any, steps: Any, held: Any, curve: Any, wanted: Any, out: Any) -> None:
    """Fill out[replicate, 4] with hits and false alarms on either side of the wanted share of false alarms.

    `columns` [6, replicate] are how far each side's first point and class move, then the two classes that are drawn
    from; `steps` [side and point, replicate] how far what lies between two points does; `curve` [side, point] the data.
    """
    n_replicates = steps.shape[1]
    for block in prange((n_replicates + _SIDE_BY_SIDE - 1) // _SIDE_BY_SIDE):
        first = block * _SIDE_BY_SIDE
        _walk_points(columns, steps, held, curve, wanted, first, min(first + _SIDE_BY_SIDE, n_replicates), out)
