"""csv.gz files written row by row, with the columns of schemas.yaml, the same bytes for the same rows."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from io import BufferedWriter, TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from palpate.synthetic.patients.conditions import read_yaml

_LEVEL = 1
_BUFFER = 1 << 18


@lru_cache(maxsize=1)
def schemas() -> Mapping[str, Mapping[str, str]]:
    """Columns and their types, by path."""
    table: Mapping[str, Mapping[str, str]] = read_yaml("schemas.yaml")
    return table


def open_gzip(path: Path, stack: ExitStack) -> TextIOWrapper:
    """A gzip file for text without a name or a time stamp in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = stack.enter_context(path.open("wb"))
    zipped = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_LEVEL, mtime=0))
    buffered = stack.enter_context(BufferedWriter(cast(Any, zipped), _BUFFER))
    return stack.enter_context(TextIOWrapper(buffered, "utf-8", newline="", write_through=True))


class Tables:
    """The open files of a hospital; `add` appends a row and gives its number, counted from 1."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._writers: dict[str, Any] = {}
        self._widths: dict[str, int] = {}
        self.n_rows: dict[str, int] = {}

    def open(self, name: str, columns: Sequence[str] | None = None) -> None:
        """Start a file; its columns are those of schemas.yaml unless given."""
        names = list(schemas()[name]) if columns is None else list(columns)
        writer = csv.writer(open_gzip(self._folder / f"{name}.csv.gz", self._stack), lineterminator="\n")
        writer.writerow(names)
        self._writers[name], self._widths[name], self.n_rows[name] = writer, len(names), 0

    def add(self, name: str, row: Sequence[object]) -> int:
        """Append a row."""
        if len(row) != self._widths[name]:
            raise ValueError(f"{name} has {self._widths[name]} columns, the row {len(row)}")
        self._writers[name].writerow(row)
        self.n_rows[name] += 1
        return self.n_rows[name]

    def next_row(self, name: str) -> int:
        """The number that the next row will have."""
        return self.n_rows[name] + 1

    def __enter__(self) -> Tables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
