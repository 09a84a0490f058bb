"""How large a compressed table becomes: one that would fill the memory is refused before it is read.

A workbook is unpacked in small parts and counted, and so are the places between the first and the last cell of each
sheet, which are all held in memory. A Parquet file says in its footer how large its row groups are and
how many rows they have; the footer is in Thrift's compact protocol, of which only what is needed is read here.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from palpate.cases.panics import panics_are_errors
from palpate.delimited import BLOCK, COPY_HINT, MOST_GROWTH, SMALL
from palpate.errors import CohortError

_MAGIC, _MOST_FOOTER = b"PAR1", 2**28
_ROWS, _GROUPS, _BYTES = 3, 4, 2
"""Fields: rows and row groups of a file, and the bytes of a row group."""
_MOST_LEVELS = 32
_MOST_CELLS = 50_000_000
"""Of a sheet, empty ones included: a full sheet of 47 columns."""
_ROW = re.compile(rb'<(?:\w+:)?row\b[^>]*?\br="(\d{1,7})"')
_CELL = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Za-z]{1,3})(\d{1,7})"[^>]*(?<!/)>')
_LONGEST_TAG = 512


def check_workbook(path: Path) -> None:
    """Refuse a workbook that becomes more than `MOST_GROWTH` times as large; one that is damaged is told later."""
    packed = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as book:
            n = 0
            for part in book.infolist():
                part.file_size = 2**62  # what it says may be wrong
                with book.open(part) as content:
                    extent = _Extent(path)
                    while block := content.read(BLOCK):
                        n += len(block)
                        refuse_growth(path, packed, n)
                        extent.add(block)
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError, ValueError, zlib.error):
        return  # what zipfile raises for a damaged, encrypted or oddly packed file: whoever reads it says what is wrong


class _Extent:
    """How far the cells of a sheet reach: two of them, in opposite corners, are 17 thousand million places."""

    def __init__(self, path: Path):
        self.path = path
        self.rows = self.columns = 1
        self._before = b""

    def add(self, block: bytes) -> None:
        """Look at more of the sheet; refuse one with too many places."""
        text = self._before + block
        self._before = text[-_LONGEST_TAG:]
        cells = _CELL.findall(text)
        self.rows = max([self.rows, *map(int, _ROW.findall(text)), *(int(row) for _, row in cells)])
        self.columns = max([self.columns, *map(_column, {letters for letters, _ in cells})])
        if self.rows * self.columns > _MOST_CELLS:
            raise CohortError(
                f"a sheet has {self.rows:,} rows and {self.columns:,} columns, more than {_MOST_CELLS:,} cells",
                file=self.path,
                hint="delete what is far outside the table, or save the table as CSV",
            )


def _column(letters: bytes) -> int:
    """A is 1, XFD is 16,384."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - 64
    return number


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file whose row groups or rows make it more than `MOST_GROWTH` times as large."""
    try:
        about = _footer(path)
        groups = about.get(_GROUPS, ())
        size = max(sum(group.get(_BYTES, 0) for group in groups), int(about.get(_ROWS, 0)))
    except (OSError, ValueError, IndexError, TypeError, AttributeError):
        return  # a damaged footer ends early or has values of another kind: whoever reads the file says what is wrong
    refuse_growth(path, path.stat().st_size, size)


def read_parquet(path: Path, columns: Sequence[str] | None = None, *, n_rows: int | None = None) -> pl.DataFrame:
    """A Parquet file or some of its columns; polars' errors for a damaged one, and refused where it becomes too large.

    A dictionary holds a text once, however many rows have it, and so does polars: whoever takes the texts out has them
    all. Names are no patterns: a bracket in one is part of it.
    """
    check_parquet(path)
    with panics_are_errors(path):
        frame = pl.read_parquet(
            path, columns=None if columns is None else list(columns), n_rows=n_rows, glob=False, hive_partitioning=False
        )
    refuse_growth(path, path.stat().st_size, sum(map(_characters, frame.iter_columns())))
    return frame


def _characters(column: pl.Series) -> int:
    """The bytes of all texts of a column; those of a category are counted and not written out."""
    if column.dtype in (pl.Categorical, pl.Enum):
        categories = column.value_counts(name="n")
        sizes = categories[column.name].cast(pl.String).str.len_bytes().cast(pl.UInt64) * categories["n"]
    elif column.dtype == pl.String:
        sizes = column.str.len_bytes().cast(pl.UInt64)
    else:
        return 0
    return int(sizes.sum())


def refuse_growth(path: Path, packed: int, unpacked: int) -> None:
    """Refuse what becomes more than `MOST_GROWTH` times as large, unless it stays small all the same."""
    if unpacked > max(SMALL, MOST_GROWTH * packed):
        problem = f"decompressed, the file is more than {MOST_GROWTH} times as large as it is"
        raise CohortError(problem, file=path, hint=COPY_HINT)


def _footer(path: Path) -> dict[int, Any]:
    with path.open("rb") as file:
        file.seek(-8, 2)
        end = file.read(8)
        size = int.from_bytes(end[:4], "little")
        if end[4:] != _MAGIC or size > _MOST_FOOTER:
            raise ValueError("no footer")
        file.seek(-8 - size, 2)
        return _struct(file, 0)


def _number(file: BinaryIO) -> int:
    """An unsigned number, seven bits in a byte."""
    value = shift = 0
    while True:
        byte = file.read(1)[0]
        value |= (byte & 127) << shift
        if byte < 128:
            return value
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _signed(file: BinaryIO) -> int:
    value = _number(file)
    return (value >> 1) ^ -(value & 1)


def _struct(file: BinaryIO, level: int) -> dict[int, Any]:
    """The fields of a struct by their numbers."""
    found: dict[int, Any] = {}
    field = 0
    while kind := file.read(1)[0]:
        field = field + (kind >> 4) if kind >> 4 else _signed(file)
        found[field] = _value(file, kind & 15, level, inside=False)
    return found


def _value(file: BinaryIO, kind: int, level: int, *, inside: bool) -> Any:
    """A value; booleans are in the kind itself, unless they are inside a list."""
    if level > _MOST_LEVELS:
        raise ValueError("nested too deeply")
    if kind in (1, 2):
        return file.read(1)[0] == 1 if inside else kind == 1
    if kind in (3, 7):
        return [file.read(1)[0] for _ in range(1 if kind == 3 else 8)]
    if kind in (4, 5, 6):
        return _signed(file)
    if kind == 8:
        file.seek(_number(file), 1)
        return None
    if kind in (9, 10):
        head = file.read(1)[0]
        n = head >> 4 if head >> 4 < 15 else _number(file)
        return [_value(file, head & 15, level + 1, inside=True) for _ in range(n)]
    if kind == 12:
        return _struct(file, level + 1)
    raise ValueError(f"a value of kind {kind}")
