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
from numba import njit
from numpy.typing import NDArray

KEY_BYTES = 16
_BASES = np.asarray([1_702_766_719_842_127_877, 911_382_323_472_349_291], dtype=np.uint64)
_PRIME = np.uint64((1 << 61) - 1)
_LOW_31, _LOW_30 = np.uint64((1 << 31) - 1), np.uint64((1 << 30) - 1)
_S61, _S31, _S30, _TWO = np.uint64(61), np.uint64(31), np.uint64(30), np.uint64(2)

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


def key_of(text: str) -> bytes:
    """The key of one text."""
    return _finish(_polynomials(_codes(text)), len(text))


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
) -> list[bytes]:
    """The keys of a parent's edited copies; copy i has the edits `first_edit[i]` to `first_edit[i + 1] - 1`."""
    codes = _codes(parent)
    longest = len(codes) + (int(pieces.length[replacement].sum()) if len(replacement) else 0)
    powers = _powers(_room(longest))
    table, length = _edited(codes, powers, first_edit, start, end, replacement, pieces.hashes, pieces.length)
    return [_finish(row, n) for row, n in zip(table, length.tolist(), strict=True)]


class ReplacementHashes:
    """Replacement texts, hashed once."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.length = np.asarray([len(text) for text in texts], dtype=np.int64)
        self.hashes = np.zeros((len(texts), 2), dtype=np.uint64)
        for row, text in enumerate(texts):
            self.hashes[row] = _polynomials(_codes(text))


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _finish(polynomials: Words, length: int) -> bytes:
    digest = hashlib.blake2b(polynomials.tobytes(), digest_size=KEY_BYTES)
    digest.update(length.to_bytes(8, "little"))
    return digest.digest()


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
