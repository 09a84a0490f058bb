"""How DuckDB is told to read a table's file: all columns are strings, and nothing is guessed."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import NamedTuple

from palpate.data.tables.exact_copies import copy_exactly, has_mixed_ends, header_of
from palpate.data.tables.formats import Format, format_of
from palpate.delimited import DELIMITERS, FileLayout, open_bytes

LONGEST_ROW = 16 * 2**20
_LONGEST_HEADER = 2**16


def scan_of(file: Path, copy: Path, *, exactly: bool = False) -> str:
    """A table function for the file, or for a `copy` that is made of it if its lines end in several ways, or because
    only the exact reader can read it."""
    if file.name.lower().endswith(".parquet") or not (exactly or has_mixed_ends(file)):
        return _scan(file)
    copy_exactly(file, FileLayout(delimiter=_cut(file).mark), copy)
    return f"read_parquet({literal(str(copy))} || '/*.parquet', hive_partitioning = false)"


def table_format(file: Path) -> Format:
    """The file's format, with the delimiter that DuckDB is told too."""
    return format_of(file, FileLayout(delimiter=_cut(file).mark))


class _Cut(NamedTuple):
    """What separates the cells of a CSV file, and how many lines stand before its header."""

    mark: str | None
    skipped: int


def _cut(file: Path) -> _Cut:
    """The mark that cuts the header most often: columns of hospitals' tables have none of them in their names."""
    if file.name.lower().endswith(".parquet") or not file.is_file():
        return _Cut(None, 0)
    with open_bytes(file) as content:
        first, second = content.readline(_LONGEST_HEADER), content.readline(_LONGEST_HEADER)
    says = first.removeprefix(codecs.BOM_UTF8).strip().lower().startswith(b"sep=")  # as Excel is told the delimiter
    header = second if says else first
    return _Cut(max(DELIMITERS, key=lambda mark: header.count(mark.encode())), int(says))


def _scan(file: Path) -> str:
    """A DuckDB table function for the file: all columns are strings, nothing is guessed."""
    path = literal("".join(f"[{c}]" if c in "*?[" else c for c in str(file)))
    if file.name.lower().endswith(".parquet"):
        return f"read_parquet({path}, hive_partitioning = false)"
    cut = _cut(file)
    names = ", ".join(f"{literal(column)}: 'VARCHAR'" for column in header_of(file, FileLayout(delimiter=cut.mark)))
    # One thread per file: if a thread starts in the middle, a line break inside a note looks like the end of a row.
    return (
        f"read_csv({path}, columns = {{{names}}}, auto_detect = false, header = true, skip = {cut.skipped}, "
        f"delim = {literal(cut.mark or ',')}, quote = '\"', escape = '\"', parallel = false, strict_mode = true, "
        f"hive_partitioning = false, "
        f"max_line_size = {LONGEST_ROW})"
    )


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
