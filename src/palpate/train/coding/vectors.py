"""Pre-trained word vectors: word2vec's text and binary files, and GloVe's, which have no first line; .gz or not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.delimited import decompressed
from palpate.errors import ConfigError

_HINT = "give word2vec's text or binary format, or GloVe's: a word and its numbers on each line"
_HEAD = re.compile(rb"(\d{1,18})[ \t]+(\d{1,18})\s*")
"""The number of words and that of their numbers."""
_LOOK = 4096
_LONGEST_VECTOR, _LONGEST_WORD, _LONGEST_LINE = 100_000, 4096, 2**24
_BLANKS = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
_TEXT = re.compile(rb"[^ \n]+[ \t]+[-+]?\d*\.?\d+(?:e[-+]?\d+)?\s", re.IGNORECASE)


class WordVectors(NamedTuple):
    """The vectors of some words."""

    rows: NDArray[np.int64]
    """The positions of the words that the file has."""
    values: NDArray[np.float32]
    size: int


def read_vectors(file: Path, words: Sequence[str]) -> WordVectors:
    """The vectors of the given words; one written as the word is goes before one whose case differs."""
    position = {word: k for k, word in enumerate(words)}
    found: dict[int, NDArray[np.float32]] = {}
    exact: set[int] = set()
    size = 0
    try:
        with _opened(file) as stream:
            for word, vector in _vectors(stream, file):
                size = size or len(vector)
                if len(vector) != size:
                    what = f"'{word}' has {len(vector)} numbers, the first word {size}"
                    raise ConfigError(what, file=file, hint=_HINT)
                place = position.get(word, position.get(word.casefold()))
                if place is not None and (word in position or place not in found) and place not in exact:
                    found[place] = vector
                    exact.update([place] if word in position else [])
    except FileNotFoundError:
        raise ConfigError("file not found", file=file) from None
    except (EOFError, zlib.error):
        hint = "copy or download the file again"
        raise ConfigError("the compressed file is damaged or ends early", file=file, hint=hint) from None
    except OSError as error:
        raise ConfigError(f"can't be read ({error.strerror or error})", file=file) from None
    if not found:
        what = "has a vector for none of the words" if size else "no word vectors are in the file"
        raise ConfigError(what, file=file, hint=_HINT)
    rows = np.array(sorted(found), dtype=np.int64)
    values = np.stack([found[int(row)] for row in rows])
    if not np.isfinite(values).all():
        raise ConfigError("a number is not finite", file=file, hint=_HINT)
    return WordVectors(rows, values, size)


def _opened(file: Path) -> AbstractContextManager[BinaryIO]:
    with file.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return decompressed(file) if packed else file.open("rb")


def _vectors(stream: Any, file: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    first, size = stream.readline(_LONGEST_LINE).removeprefix(b"\xef\xbb\xbf"), 0
    if head := _HEAD.fullmatch(first):
        if not _TEXT.match(stream.peek(_LOOK)):
            yield from _binary(stream, int(head[1]), int(head[2]), file)
            return
        first, size = stream.readline(_LONGEST_LINE), int(head[2])
    lines = iter(lambda: stream.readline(_LONGEST_LINE), b"")
    for number, line in enumerate(chain([first], lines), start=1):
        parts = [part for part in _BLANKS.split(line.decode("utf-8", errors="replace")) if part]
        if not parts:
            continue
        word, numbers = _apart(parts, size)
        size = size or len(numbers)
        try:
            vector = np.array([float(part) for part in numbers], dtype=np.float32)
        except ValueError:
            vector = np.zeros(0, dtype=np.float32)
        if not len(vector):
            raise ConfigError(f"word {number} is not followed by numbers only", file=file, hint=_HINT)
        yield word, vector


def _apart(parts: list[str], size: int) -> tuple[str, list[str]]:
    """A word and its numbers; GloVe has words with blanks in them (". . .")."""
    blanks = size > 0 and len(parts) > size + 1 and not all(map(_NUMBER.fullmatch, parts[1:-size]))
    return (" ".join(parts[:-size]), parts[-size:]) if blanks else (parts[0], parts[1:])


def _binary(stream: BinaryIO, n: int, size: int, file: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Each word ends with a blank, and 4 bytes per number follow."""
    if size > _LONGEST_VECTOR:
        raise ConfigError(f"its first line says that a vector has {size:,} numbers", file=file, hint=_HINT)
    for _ in range(n):
        word = b""
        while (letter := stream.read(1)) not in (b" ", b"") and len(word) < _LONGEST_WORD:
            word += letter
        numbers = stream.read(4 * size)
        if len(numbers) < 4 * size:
            raise ConfigError("the file ends early", file=file, hint=_HINT)
        yield word.decode("utf-8", errors="replace").strip(), np.frombuffer(numbers, dtype="<f4").astype(np.float32)
