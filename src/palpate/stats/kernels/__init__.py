"""Bootstrap draws: how often each resampling unit occurs in a replicate.

A replicate has its own random stream, which depends only on the seed and the replicate's number, so the counts do not
depend on threads, on the order of the work or on how the labels are split into calls. The stream is splitmix64 (Steele,
Lea and Flood 2014); a number below n is drawn from 32 bits without bias (Lemire 2019).

Numba does not notice that cached callers in other files are stale: after a change here, remove __pycache__.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from palpate.compiled import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_BUFFER = 256


@njit(cache=True, nogil=True, inline="always")
def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def stream_start(seed: Any, replicate: Any) -> Any:
    """The state in which the stream of one replicate starts."""
    return _mix(_mix(np.uint64(seed) + _GOLDEN) + np.uint64(replicate) * _GOLDEN)


@njit(cache=True, nogil=True)
def draw_range(counts: Any, first: Any, size: Any, n_draws: Any, state: Any) -> Any:
    """Draw `n_draws` times from counts[first : first + size], adding one each time; returns the new state."""
    bound, offset = np.uint64(size), np.uint64(first)
    reject_below = np.uint64((1 << 32) % size)
    numbers = np.empty(_BUFFER, np.uint64)
    one = counts.dtype.type(1)
    left = n_draws
    while left > 0:
        for i in range(_BUFFER):
            numbers[i] = _mix(state + np.uint64(i + 1) * _GOLDEN)
        state += np.uint64(_BUFFER) * _GOLDEN
        # Each number gives two draws. The last buffer may hold more than are needed.
        enough = left <= 2 * _BUFFER
        for i in range(_BUFFER):
            for product in ((numbers[i] & _LOW) * bound, (numbers[i] >> _HALF) * bound):
                if (product & _LOW) >= reject_below:
                    counts[offset + (product >> _HALF)] += one
                    left -= 1
                    if enough and left == 0:
                        return state
    return state


@njit(cache=True, nogil=True)
def draw_counts(counts: Any, sizes: Any, draws: Any, seed: Any, replicate: Any) -> None:
    """Fill `counts` for one replicate, with draws[k] of the sizes[k] units of stratum k; replicate -1 is the data."""
    if replicate < 0:
        counts[:] = 1
        return
    counts[:] = 0
    state = stream_start(seed, replicate)
    first = 0
    for k in range(sizes.size):
        if sizes[k] > 0:
            state = draw_range(counts, first, sizes[k], draws[k], state)
        first += sizes[k]


@njit(cache=True, nogil=True, parallel=True)
def draw_matrix(seed: Any, replicates: Any, sizes: Any, draws: Any) -> Any:
    """The counts of the numbered replicates, [replicate, unit]."""
    out = np.empty((replicates.size, sizes.sum()), np.int32)
    for i in prange(replicates.size):
        draw_counts(out[i], sizes, draws, seed, replicates[i])
    return out
