"""Identical and near-identical texts between two collections, in time proportional to their length.

Two texts are identical if they have the same words in the same order; case, spacing and punctuation do not count. They
are near-identical if at least a given share (Jaccard's index) of their runs of `RUN` words is common to both, with all
numbers alike, because de-identification moves dates.

Candidates come from MinHash (Broder 1997): each text keeps `N_HASHES` minima of hashed runs, which agree between two
texts with a probability equal to the share of runs in common. The texts are sorted by their minima in `N_ORDERS` orders
(an LSH forest, Bawa et al. 2005), and a text is compared with its nearest neighbours in each order only, so templates
that half of the notes share cost no more than anything else. The best candidates are then compared exactly. No step
draws random numbers: the same texts give the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

RUN = 5
"""Words in a run."""
N_HASHES = 64
N_ORDERS = 32
_DEPTH = 8
"""Minima, one byte of each, by which an order sorts."""
_NEIGHBOURS = 4
"""On each side, in each order."""
_COMPARED = 3
"""Candidates that are compared exactly, the likeliest first."""
_SLACK = 0.2
"""How far the estimated share of a candidate may fall short: four standard deviations."""
_ROWS_AT_ONCE = 2048
_PLANES = 1 << 16
_DIGIT = np.uint32(ord("0"))
_FNV, _FNV_PRIME = np.uint64(14_695_981_039_346_656_037), np.uint64(1_099_511_628_211)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_S32, _S33, _ODD = np.uint64(32), np.uint64(33), np.uint64(1)

Ints = NDArray[np.int64]


class Sketches(NamedTuple):
    """Texts by what decides whether two of them are alike."""

    exact: NDArray[np.uint64]
    """A hash of the words in order: equal for identical texts."""
    n_words: Ints
    minima: NDArray[np.uint32]
    """One row of `N_HASHES` minima per text."""

    def take(self, rows: Ints) -> Sketches:
        """The sketches of some texts."""
        return Sketches(self.exact[rows], self.n_words[rows], self.minima[rows])


def sketch(texts: Sequence[str]) -> Sketches:
    """The sketches of some texts, in one pass over each."""
    table, multipliers = _characters(), _multipliers()
    exact, n_words = np.zeros(len(texts), np.uint64), np.zeros(len(texts), np.int64)
    minima = np.zeros((len(texts), N_HASHES), np.uint32)
    for row, text in enumerate(texts):
        runs, exact[row], n_words[row] = _runs(_codes(text), table)
        _minima(runs, multipliers, minima[row])
    return Sketches(exact, n_words, minima)


def first_identical(texts: Sketches, among: Sketches) -> Ints:
    """For each text the first identical one `among` others, or -1."""
    values, first = np.unique(among.exact, return_index=True)
    if not len(values):
        return np.full(len(texts.exact), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(values, texts.exact), len(values) - 1)
    return np.where(values[place] == texts.exact, first[place], -1).astype(np.int64)


def nearest(
    texts: Sequence[str], sketches: Sketches, others: Sequence[str], other_sketches: Sketches, *, similarity: float
) -> Ints:
    """For each text one of the `others` that has at least `similarity` of its runs in common with it, or -1."""
    found = np.full(len(texts), -1, dtype=np.int64)
    if not len(others):
        return found
    orders = [_Order.of(other_sketches, number) for number in range(N_ORDERS)]
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, len(texts)))
        candidates, share = _candidates(sketches.take(rows), other_sketches, orders)
        for row, places, shares in zip(rows.tolist(), candidates, share, strict=True):
            likely = places[shares >= similarity - _SLACK]
            own = _distinct_runs(texts[row]) if len(likely) else None
            for place in likely.tolist():
                if own is not None and _common(own, _distinct_runs(others[place])) >= similarity:
                    found[row] = place
                    break
    return found


def shared_runs(text: str, other: str) -> float:
    """The share of the runs of two texts that both have (Jaccard's index)."""
    return _common(_distinct_runs(text), _distinct_runs(other))


class _Order(NamedTuple):
    """Texts sorted by some of their minima."""

    number: int
    keys: NDArray[np.uint64]
    rows: Ints

    @classmethod
    def of(cls, sketches: Sketches, number: int) -> _Order:
        keys = _keys(sketches.minima, number)
        rows = np.argsort(keys, kind="stable")
        return cls(number, keys[rows], rows)


def _candidates(texts: Sketches, others: Sketches, orders: Sequence[_Order]) -> tuple[Ints, NDArray[np.float64]]:
    """For each text its likeliest neighbours in all orders, with the share of minima in common; the best first."""
    n, around = len(texts.exact), np.arange(-_NEIGHBOURS, _NEIGHBOURS)
    places = np.zeros((n, len(orders), len(around)), dtype=np.int64)
    for k, order in enumerate(orders):
        at = np.searchsorted(order.keys, _keys(texts.minima, order.number))
        places[:, k] = order.rows[np.clip(at[:, None] + around, 0, len(order.rows) - 1)]
    flat = np.sort(places.reshape(n, -1), axis=1)
    share = np.full(flat.shape, -1.0)
    new = np.diff(flat, axis=1, prepend=-1) != 0
    for row in range(n):
        share[row, new[row]] = (others.minima[flat[row, new[row]]] == texts.minima[row]).mean(axis=1)
    best = np.argsort(-share, axis=1, kind="stable")[:, :_COMPARED]
    return np.take_along_axis(flat, best, axis=1), np.take_along_axis(share, best, axis=1)


def _keys(minima: NDArray[np.uint32], order: int) -> NDArray[np.uint64]:
    """What an order sorts by: a byte each of some minima, the first of them the most significant."""
    columns = (order * (N_HASHES // N_ORDERS) + np.arange(_DEPTH)) % N_HASHES
    bytes_of = (minima[:, columns] & np.uint32(255)).astype(np.uint8)
    return np.ascontiguousarray(bytes_of).view(">u8").ravel().astype(np.uint64)


def _distinct_runs(text: str) -> NDArray[np.uint64]:
    return np.unique(_runs(_codes(text), _characters())[0])


def _common(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    both = len(np.intersect1d(a, b, assume_unique=True))
    either = len(a) + len(b) - both
    return both / either if either else 0.0


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@cache
def _characters() -> NDArray[np.uint32]:
    """Each character as it counts: letters in lower case, all else but digits as 0, which separates words."""
    table = np.zeros(_PLANES, dtype=np.uint32)
    for code in range(_PLANES):
        character = chr(code)
        if character.isalnum():
            table[code] = ord(character.lower()[0])
    return table


@cache
def _multipliers() -> NDArray[np.uint32]:
    drawn = np.random.default_rng(13).integers(0, 2**32, N_HASHES, dtype=np.uint32)
    odd: NDArray[np.uint32] = drawn | np.uint32(1)
    return odd


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _runs(codes: Any, table: Any) -> Any:
    """The hash of every run of words, of the words in order, and the number of words."""
    words = np.empty(len(codes) // 2 + 1, dtype=np.uint64)
    exact, n_words = _FNV, 0
    word, masked, inside, was_digit = _FNV, _FNV, False, False
    for k in range(len(codes) + 1):
        code = np.uint32(0)
        if k < len(codes):
            code = table[codes[k]] if codes[k] < _PLANES else codes[k]
        if code:
            is_digit = _DIGIT <= code < _DIGIT + np.uint32(10)
            word = (word ^ np.uint64(code)) * _FNV_PRIME
            if not is_digit:
                masked = (masked ^ np.uint64(code)) * _FNV_PRIME
            elif not was_digit:  # a number is a number, however long
                masked = (masked ^ np.uint64(_DIGIT)) * _FNV_PRIME
            inside, was_digit = True, bool(is_digit)
        elif inside:
            exact = (exact ^ word) * _FNV_PRIME
            exact ^= exact >> _S32
            words[n_words] = masked ^ (masked >> _S33)
            n_words += 1
            word, masked, inside, was_digit = _FNV, _FNV, False, False
    length = min(RUN, n_words)
    runs = np.empty(n_words - length + 1 if n_words else 0, dtype=np.uint64)
    for start in range(len(runs)):
        h = _FNV
        for k in range(length):
            h = (h ^ words[start + k]) * _MIX
            h ^= h >> _S33
        runs[start] = h
    return runs, exact, n_words


@njit(cache=True, nogil=True, fastmath=True)  # type: ignore[untyped-decorator, unused-ignore]
def _minima(runs: Any, multipliers: Any, out: Any) -> None:
    """The smallest value of each hash function over the runs."""
    out[:] = np.uint32(0xFFFFFFFF)
    for k in range(len(runs)):
        value = np.uint32(runs[k] >> _S32)
        for j in range(len(multipliers)):
            hashed = np.uint32(value * multipliers[j])
            if hashed < out[j]:
                out[j] = hashed
