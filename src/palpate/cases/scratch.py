"""Arrays that may be larger than memory: above a size they are in a temporary file without a name that ends with them.

The system keeps as much of such a file in memory as there is room for, and takes it back where room is needed. They
hold places, hashes and probabilities, and no text. TMPDIR says where the files are; it should be on a disk.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

from palpate.errors import InputError

IN_MEMORY = 1 << 28
"""Bytes of the largest array that is kept in memory."""
AT_ONCE = 1 << 18
"""Rows that are worked out at a time, so that what is needed on the way is small."""


def parts(n: int, at_once: int | None = None) -> Iterator[slice]:
    """`n` rows, some at a time.

    >>> [*parts(5, 2)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = at_once or AT_ONCE
    return (slice(low, min(low + step, n)) for low in range(0, n, step))


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> Any:
    """An array with any content, in memory or in a file.

    >>> empty((3, 2), np.float64).shape
    (3, 2)
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size <= IN_MEMORY or not hasattr(os, "posix_fallocate"):
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(prefix="palpate-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)  # otherwise a full disk would end the process without a word
        except OSError as error:
            raise _no_room(size, error) from None
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=shape))


def filled(shape: int | tuple[int, ...], value: float) -> Any:
    """An array of floats that are all the same."""
    array = empty(shape, np.float64)
    array[...] = value
    return array


def taken(values: Any, rows: Any) -> Any:
    """Some rows of an array, as `values[rows]`, without a second copy on the way; all in their order are not copied."""
    if _are_all(rows, len(values)):
        return values
    out = empty((len(rows), *values.shape[1:]), values.dtype)
    np.take(values, rows, axis=0, out=out, mode="clip")  # which does not buffer, unlike the default
    return out


class Growing:
    """A column of whole numbers that grows, in a file once it is too large for memory.

    >>> column = Growing()
    >>> column.extend([1, 2]), column.extend([3]), column.values().tolist()
    (None, None, [1, 2, 3])
    """

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._waiting = 0
        self._file: IO[bytes] | None = None

    def extend(self, values: Any) -> None:
        """Add some numbers."""
        self._parts.append(np.ascontiguousarray(values, np.int64))
        self._waiting += self._parts[-1].nbytes
        if self._waiting > IN_MEMORY:
            self._write()

    def _write(self) -> None:
        """Move what is in memory to the file."""
        self._file = self._file or tempfile.TemporaryFile(prefix="palpate-")  # noqa: SIM115  (it ends with the column)
        try:
            for part in self._parts:
                self._file.write(part.data)
            self._file.flush()
        except OSError as error:
            raise _no_room(self._waiting, error) from None
        self._parts, self._waiting = [], 0

    def values(self) -> Any:
        """All numbers so far."""
        if self._file is None:
            return np.concatenate([*self._parts, np.zeros(0, np.int64)])
        self._write()
        return np.asarray(np.memmap(self._file, dtype=np.int64, mode="r+"))


def _no_room(size: int, error: OSError) -> InputError:
    hint = "set TMPDIR to a folder on a larger disk"
    return InputError(f"no room for {size / 1e9:.1f} GB in {tempfile.gettempdir()} ({error.strerror})", hint=hint)


def stored(values: Any) -> Any:
    """The same values, in a file where they are too many for memory."""
    if values.nbytes <= IN_MEMORY:
        return values
    out = empty(values.shape, values.dtype)
    out[...] = values
    return out


def _are_all(rows: Any, n: int) -> bool:
    """Whether rows are all of `n` in their order."""
    if len(rows) != n or not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iu":
        return False
    return all(np.array_equal(rows[part], np.arange(part.start, part.stop)) for part in parts(n))


def differences(values: Any) -> Any:
    """As `np.diff`."""
    out = empty(max(len(values) - 1, 0), values.dtype)
    return np.subtract(values[1:], values[:-1], out=out)


def rows_where(mask: Any, of: Any) -> Any:
    """The rows whose `of` is marked: `np.flatnonzero(mask[of])`, some at a time.

    >>> rows_where(np.array([False, True]), np.array([1, 0, 1])).tolist()
    [0, 2]
    """
    rows = empty(sum(int(np.count_nonzero(mask[of[part]])) for part in parts(len(of))), np.int64)
    at = 0
    for part in parts(len(of)):
        some = np.flatnonzero(mask[of[part]])
        np.add(some, part.start, out=rows[at : at + len(some)])
        at += len(some)
    return rows


def columns(values: Any, which: Any) -> Any:
    """Some columns of an array, as `values[:, which]`; all of them in their order are not copied.

    >>> columns(np.eye(2), [1]).tolist()
    [[0.0], [1.0]]
    """
    if np.array_equal(which, np.arange(values.shape[1])):
        return values
    out = empty((len(values), len(which)), values.dtype)
    return np.take(values, which, axis=1, out=out, mode="clip")
