"""Hashes of texts: the key that identifies an input in caches and files. Equal texts have equal keys, edited or not.

A key is a hash of two polynomials of the text's characters modulo 2^61 - 1, and of its length. Polynomials can be
computed piece by piece, so the cost of an edited note's key depends on the length of the edit, not on that of the note:
a million word swaps in notes of 1,500 words are keyed in seconds, without creating any of the texts. Two different
texts have the same key with a probability below 1e-25. The last step, BLAKE2b, hides the polynomials' structure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.cases.keys import KEY_BYTES, KeyArray
from palpate.compiled import njit

__all__ = ["KEY_BYTES", "ReplacementHashes", "case_key", "key_of", "keys_of_edits"]

_BASES = np.asarray([1_702_766_719_842_127_877, 911_382_323_472_349_291], dtype=np.uint64)
_PRIME = np.uint64((1 << 61) - 1)
_LOW_31, _LOW_30 = np.uint64((1 << 31) - 1), np.uint64((1 << 30) - 1)
_S61, _S31, _S30, _TWO = np.uint64(61), np.uint64(31), np.uint64(30), np.uint64(2)

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


def key_of(text: str) -> bytes:
    """The key of one text."""
    key = np.empty((1, 2), dtype=np.uint64)
    _finish(_polynomials(_codes(text)).reshape(1, 2), np.asarray([len(text)]), key)
    return key.astype("<u8").tobytes()


def case_key(cohort: str, case: str, key: bytes) -> bytes:
    """The key of a text in one case: equal texts of two cases are two inputs."""
    digest = hashlib.blake2b(key, digest_size=KEY_BYTES)
    for name in (cohort, case):
        digest.update(b"\x00" + name.encode("utf-8", "surrogatepass"))
    return digest.digest()


def keys_of_edits(
    parent: str,
    first_edit: Ints,
    start: Ints,
    end: Ints,
    replacement: Ints,
    pieces: ReplacementHashes,
) -> KeyArray:
    """The keys of a parent's edited copies; copy i has the edits `first_edit[i]` to `first_edit[i + 1] - 1`."""
    codes = _codes(parent)
    longest = len(codes) + (int(pieces.length[replacement].sum()) if len(replacement) else 0)
    powers = _powers(_room(longest))
    table, length = _edited(codes, powers, first_edit, start, end, replacement, pieces.hashes, pieces.length)
    keys = np.empty((len(table), 2), dtype=np.uint64)
    _finish(table, length, keys)
    return keys


class ReplacementHashes:
    """Replacement texts, hashed once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.length = np.asarray([len(text) for text in texts], dtype=np.int64)
        self.hashes = np.zeros((len(texts), 2), dtype=np.uint64)
        for row, text in enumerate(texts):
            self.hashes[row] = _polynomials(_codes(text))


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


_known_powers: list[Words] = []


def _powers(n: int) -> Words:
    """The powers of the bases up to n; kept, because most texts are shorter than the longest one so far."""
    if not _known_powers or len(_known_powers[0]) <= n:
        _known_powers[:] = [_make_powers(n)]
    return _known_powers[0]


def _room(n: int) -> int:
    """A power of two above n, so that the powers rarely have to be computed again."""
    return 1 << max(16, n.bit_length())


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _times(a: Any, b: Any) -> Any:
    """a b modulo 2^61 - 1, in 64-bit words."""
    a_high, a_low = a >> _S31, a & _LOW_31
    b_high, b_low = b >> _S31, b & _LOW_31
    middle = a_low * b_high + a_high * b_low
    total = a_high * b_high * _TWO + (middle >> _S30) + ((middle & _LOW_30) << _S31) + a_low * b_low
    total = (total >> _S61) + (total & _PRIME)
    return total - _PRIME if total >= _PRIME else total


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _plus(a: Any, b: Any) -> Any:
    total = a + b
    return total - _PRIME if total >= _PRIME else total


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _make_powers(n: int) -> Any:
    powers = np.ones((n + 1, 2), dtype=np.uint64)
    for k in range(1, n + 1):
        for b in range(2):
            powers[k, b] = _times(powers[k - 1, b], _BASES[b])
    return powers


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _polynomials(codes: Any) -> Any:
    out = np.zeros(2, dtype=np.uint64)
    for k in range(len(codes)):
        character = np.uint64(codes[k]) + np.uint64(1)
        out[0] = _plus(_times(out[0], _BASES[0]), character)
        out[1] = _plus(_times(out[1], _BASES[1]), character)
    return out


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _edited(
    codes: Any, powers: Any, first_edit: Any, start: Any, end: Any, replacement: Any, hashes: Any, length: Any
) -> Any:
    n = len(codes)
    prefix = np.zeros((n + 1, 2), dtype=np.uint64)
    for k in range(n):
        character = np.uint64(codes[k]) + np.uint64(1)
        for b in range(2):
            prefix[k + 1, b] = _plus(_times(prefix[k, b], _BASES[b]), character)
    n_rows = len(first_edit) - 1
    out = np.zeros((n_rows, 2), dtype=np.uint64)
    total = np.zeros(n_rows, dtype=np.int64)
    for row in range(n_rows):
        position = 0
        for edit in range(first_edit[row], first_edit[row + 1] + 1):
            last = edit == first_edit[row + 1]
            stop = n if last else start[edit]
            word = -1 if last else replacement[edit]
            for b in range(2):
                behind = _times(prefix[position, b], powers[stop - position, b])
                kept = _plus(prefix[stop, b], _PRIME - behind)
                out[row, b] = _plus(_times(out[row, b], powers[stop - position, b]), kept)
                if not last:
                    out[row, b] = _plus(_times(out[row, b], powers[length[word], b]), hashes[word, b])
            total[row] += stop - position + (0 if last else length[word])
            position = n if last else end[edit]
    return out, total


# The first 64 bits of the fractional parts of the square roots of the first eight primes, and the order in which each
# round takes the words of a message: RFC 7693, sections 2.6 and 2.7.
_START = np.asarray(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    dtype=np.uint64,
)
_ROUNDS = np.asarray(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    dtype=np.int64,
)
_QUARTERS = np.asarray(
    [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ],
    dtype=np.int64,
)
_SHAPE = np.uint64(0x01010000 ^ KEY_BYTES)
_MESSAGE_BYTES = np.uint64(24)


@njit(cache=True, nogil=True, inline="always")  # type: ignore[untyped-decorator, unused-ignore]
def _turn(word: Any, by: int) -> Any:
    return (word >> np.uint64(by)) | (word << np.uint64(64 - by))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _finish(polynomials: Any, length: Any, out: Any) -> None:
    """BLAKE2b of the two polynomials and the length, 16 bytes of it: one block, so one compression."""
    message, state = np.zeros(16, dtype=np.uint64), np.empty(16, dtype=np.uint64)
    for row in range(len(polynomials)):
        message[0], message[1], message[2] = polynomials[row, 0], polynomials[row, 1], np.uint64(length[row])
        state[:8], state[8:] = _START, _START
        state[0] ^= _SHAPE
        state[12] ^= _MESSAGE_BYTES
        state[14] = ~state[14]
        for turn in range(12):
            words = _ROUNDS[turn % 10]
            for k in range(8):
                a, b, c, d = _QUARTERS[k, 0], _QUARTERS[k, 1], _QUARTERS[k, 2], _QUARTERS[k, 3]
                state[a] += state[b] + message[words[2 * k]]
                state[d] = _turn(state[d] ^ state[a], 32)
                state[c] += state[d]
                state[b] = _turn(state[b] ^ state[c], 24)
                state[a] += state[b] + message[words[2 * k + 1]]
                state[d] = _turn(state[d] ^ state[a], 16)
                state[c] += state[d]
                state[b] = _turn(state[b] ^ state[c], 63)
        out[row, 0] = _START[0] ^ _SHAPE ^ state[0] ^ state[8]
        out[row, 1] = _START[1] ^ state[1] ^ state[9]
