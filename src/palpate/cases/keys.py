"""Keys in columns: which of millions of inputs are equal, and where a key stands, without an object for each of them.

A key is 16 bytes (`palpate.cases.hashing`), here two 64-bit words. Its bits are as good as random, so a table of places
needs no further hashing. Where there are more keys than such a table should hold, they are taken in parts, by their
last bits: the table's memory depends on the part, and not on the number of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases import scratch
from palpate.compiled import njit

KEY_BYTES = 16
KeyArray = NDArray[np.uint64]
"""Keys, one row of two words each."""
_Ints = NDArray[np.int64]
_KEYS_PER_PART = 1 << 24


def as_keys(keys: KeyArray | Sequence[bytes]) -> KeyArray:
    """Keys in columns, from keys as bytes if need be."""
    if isinstance(keys, np.ndarray):
        return keys
    return np.frombuffer(b"".join(keys), dtype="<u8").reshape(-1, 2)


def as_bytes(keys: KeyArray) -> list[bytes]:
    """Keys as bytes, one by one."""
    return [row.tobytes() for row in keys.astype("<u8", copy=False)]


class Distinct(NamedTuple):
    """Which keys are equal."""

    rows: _Ints
    """The first row of each distinct key, in the order of the rows."""
    code: _Ints
    """For each row: which of the distinct keys it has."""


def distinct(keys: KeyArray, *, keys_per_part: int = _KEYS_PER_PART) -> Distinct:
    """The distinct keys, in the order in which they occur first.

    >>> distinct(as_keys([b"a" * 16, b"b" * 16, b"a" * 16])).code.tolist()
    [0, 1, 0]
    """
    n_parts = 1 << max(0, (len(keys) - 1) // keys_per_part).bit_length()
    first: _Ints = scratch.empty(len(keys), np.int64)
    for part in range(n_parts):
        _mark_first(keys, first, np.uint64(part), np.uint64(n_parts - 1))
    rows = scratch.empty(_count_first(first), np.int64)
    _number(first, rows)
    return Distinct(rows, first)


class KeyPlaces:
    """Finds keys among distinct ones.

    >>> KeyPlaces(as_keys([b"a" * 16, b"b" * 16])).find(as_keys([b"b" * 16, b"c" * 16])).tolist()
    [1, -1]
    """

    def __init__(self, keys: KeyArray) -> None:
        self._keys = keys
        self._slots = _slots(len(keys))
        _fill(keys, self._slots)

    def find(self, wanted: KeyArray) -> _Ints:
        """The place of each wanted key, or -1."""
        return np.asarray(_find(self._keys, self._slots, wanted))

    def find_new(self, wanted: KeyArray, found: NDArray[np.bool_]) -> tuple[_Ints, _Ints]:
        """Rows of `wanted` that are the first for their place, and these places; `found` is marked there."""
        places = self.find(wanted)
        rows = np.flatnonzero(places >= 0)
        rows = rows[~found[places[rows]]]
        _, first = np.unique(places[rows], return_index=True)
        rows = rows[np.sort(first)]
        found[places[rows]] = True
        return rows, places[rows]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _slots(n: int) -> Any:
    """An empty table for `n` places, at most two thirds full: a power of two, so that bits of a key are a slot."""
    size = 16
    while 2 * size < 3 * n:
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _mark_first(keys: Any, first: Any, part: Any, mask: Any) -> None:
    """In `first`, for the keys of one part: the first row that has the key."""
    n = 0
    for row in range(len(keys)):
        n += keys[row, 1] & mask == part
    slots = _slots(n)
    last = np.uint64(len(slots) - 1)
    for row in range(len(keys)):
        if keys[row, 1] & mask != part:
            continue
        slot = keys[row, 0] & last
        while slots[slot] >= 0:
            there = slots[slot]
            if keys[there, 0] == keys[row, 0] and keys[there, 1] == keys[row, 1]:
                break
            slot = (slot + np.uint64(1)) & last
        if slots[slot] < 0:
            slots[slot] = row
        first[row] = slots[slot]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _count_first(first: Any) -> int:
    n = 0
    for row in range(len(first)):
        n += first[row] == row
    return n


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _number(first: Any, rows: Any) -> None:
    """From the first row with the same key to the number of that key, in place; `rows` gets these first rows."""
    n = 0
    for row in range(len(first)):
        if first[row] == row:
            first[row] = n
            rows[n] = row
            n += 1
        else:
            first[row] = first[first[row]]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _fill(keys: Any, slots: Any) -> None:
    last = np.uint64(len(slots) - 1)
    for row in range(len(keys)):
        slot = keys[row, 0] & last
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & last
        slots[slot] = row


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _find(keys: Any, slots: Any, wanted: Any) -> Any:
    last = np.uint64(len(slots) - 1)
    found = np.full(len(wanted), -1, dtype=np.int64)
    for row in range(len(wanted)):
        slot = wanted[row, 0] & last
        while slots[slot] >= 0:
            there = slots[slot]
            if keys[there, 0] == wanted[row, 0] and keys[there, 1] == wanted[row, 1]:
                found[row] = there
                break
            slot = (slot + np.uint64(1)) & last
    return found
