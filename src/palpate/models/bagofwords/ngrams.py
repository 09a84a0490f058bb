"""The n-grams of a fitted vocabulary as a walk over token numbers, so that counting is work on integers.

A token has a number if an entry of the vocabulary uses it, else -1. The states of the walk are the n-grams that an
entry begins with; the first states are the tokens themselves. A step (state, token) is looked up in a hash table made
of two arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from palpate.compiled import njit

Ints = NDArray[np.int64]
Tokens = NDArray[np.int32]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)


class Grams(NamedTuple):
    """The walk: the column that each state counts for, and the hash table of the steps."""

    n_tokens: int
    reach: int
    """How many tokens beyond an edit can share an n-gram with it."""
    column: Ints
    """The column of each state; -1 where no entry ends."""
    keys: Ints
    """state * n_tokens + token; -1 is a free slot."""
    states: Ints


def number_grams(vocabulary: Mapping[str, int], *, min_n: int, max_n: int) -> tuple[dict[str, int], Grams]:
    """The tokens' numbers, and the walk; entries of other lengths are never counted and are left out."""
    # No token contains a space (see `token_patterns`), so splitting an entry at its spaces gives its tokens.
    entries = [(entry.split(" "), int(column)) for entry, column in vocabulary.items()]
    entries = [(parts, column) for parts, column in entries if min_n <= len(parts) <= max_n]
    tokens: dict[str, int] = {}
    for parts, _ in entries:
        for part in parts:
            tokens.setdefault(part, len(tokens))
    n = len(tokens)
    steps: dict[int, int] = {}
    ends: dict[int, int] = {}
    for parts, column in entries:
        state = tokens[parts[0]]
        for part in parts[1:]:
            state = steps.setdefault(state * n + tokens[part], n + len(steps))
        ends[state] = column
    columns = np.full(n + len(steps), -1, dtype=np.int64)
    columns[list(ends)] = list(ends.values())
    keys, states = _hash_table(
        np.fromiter(steps, np.int64, count=len(steps)), np.fromiter(steps.values(), np.int64, count=len(steps))
    )
    return tokens, Grams(n, max_n - 1, columns, keys, states)


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _place(key: Any, mask: Any) -> Any:
    return np.int64((np.uint64(key) * _MIX) >> _S32) & mask


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _hash_table(given: Any, values: Any) -> Any:
    size = 2
    while size < 2 * len(given):
        size *= 2
    keys = np.full(size, -1, dtype=np.int64)
    states = np.full(size, -1, dtype=np.int64)
    for k in range(len(given)):
        place = _place(given[k], size - 1)
        while keys[place] >= 0:
            place = (place + 1) & (size - 1)
        keys[place], states[place] = given[k], values[k]
    return keys, states


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _emit(grams: Any, tokens: Any, begin: Any, end: Any, sign: Any, out: Any, n: Any) -> Any:
    """Write 2 * column + sign for every n-gram of tokens[begin:end] to `out`, from index n on."""
    mask = len(grams.keys) - 1
    for first in range(begin, end):
        state = np.int64(tokens[first])
        if state < 0:
            continue
        if grams.column[state] >= 0:
            out[n] = 2 * grams.column[state] + sign
            n += 1
        for k in range(first + 1, min(first + 1 + grams.reach, end)):
            if tokens[k] < 0:
                break
            key = state * grams.n_tokens + tokens[k]
            place = _place(key, mask)
            while grams.keys[place] >= 0 and grams.keys[place] != key:
                place = (place + 1) & mask
            if grams.keys[place] < 0:
                break
            state = grams.states[place]
            if grams.column[state] >= 0:
                out[n] = 2 * grams.column[state] + sign
                n += 1
    return n


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _tally(keys: Any, n: Any, change: Any) -> Any:
    """Sort what `_emit` wrote, sum per column (sign 1 is +1, sign 0 is -1), drop zeros; returns how many remain."""
    keys[:n].sort()
    kept, k = 0, 0
    while k < n:
        column, total = keys[k] >> 1, 0
        while k < n and keys[k] >> 1 == column:
            total += 2 * (keys[k] & 1) - 1
            k += 1
        if total:
            keys[kept], change[kept] = column, total
            kept += 1
    return kept


@njit(cache=True, nogil=True, parallel=True)  # type: ignore[untyped-decorator, unused-ignore]
def count_texts(grams: Any, tokens: Any, start: Any, room: Any, column: Any, count: Any, n: Any) -> None:
    """Text i is tokens[start[i]:start[i + 1]]; its n[i] columns and counts are written from room[i] on."""
    for text in prange(len(start) - 1):
        part = column[room[text] : room[text + 1]]
        found = _emit(grams, tokens, start[text], start[text + 1], 1, part, 0)
        n[text] = _tally(part, found, count[room[text] : room[text + 1]])


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _append(source: Any, begin: Any, end: Any, out: Any, n: Any) -> Any:
    for k in range(begin, end):
        out[n] = source[k]
        n += 1
    return n


@njit(cache=True, nogil=True, parallel=True)  # type: ignore[untyped-decorator, unused-ignore]
def count_changes(
    grams: Any,
    tokens: Any,
    start: Any,
    owner: Any,
    first_region: Any,
    begin: Any,
    end: Any,
    after: Any,
    new: Any,
    new_start: Any,
    room: Any,
    spare: Any,
    column: Any,
    change: Any,
    n: Any,
) -> None:
    """What each row's regions change: tokens[begin:end] of its parent become new[new_start[after]:...].

    Regions that can share an n-gram are processed together, with `reach` tokens on either side.
    """
    reach = grams.reach
    for row in prange(len(owner)):
        part, words = column[room[row] : room[row + 1]], spare[room[row] : room[row + 1]]
        found, region = 0, first_region[row]
        while region < first_region[row + 1]:
            last = region
            while last + 1 < first_region[row + 1] and begin[last + 1] - end[last] < reach:
                last += 1
            left = max(start[owner[row]], begin[region] - reach)
            right = min(start[owner[row] + 1], end[last] + reach)
            found = _emit(grams, tokens, left, right, 0, part, found)
            size, place = 0, left
            for k in range(region, last + 1):
                size = _append(tokens, place, begin[k], words, size)
                size = _append(new, new_start[after[k]], new_start[after[k] + 1], words, size)
                place = end[k]
            size = _append(tokens, place, right, words, size)
            found = _emit(grams, words, 0, size, 1, part, found)
            region = last + 1
        n[row] = _tally(part, found, change[room[row] : room[row + 1]])
