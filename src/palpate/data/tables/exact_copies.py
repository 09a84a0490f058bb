"""CSV files that DuckDB would read wrongly, as copies that it reads rightly.

It goes by the line end that it meets first: files that were put together from several ones, or edited on another
system, may have others too. palpate's own reader is exact, and slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import polars as pl

from palpate.delimited import BLOCK, FileLayout, csv_rows, open_bytes

ROWS = 50_000
_QUOTED = re.compile(rb'"[^"]*"')


def has_mixed_ends(file: Path) -> bool:
    """Whether some lines end in another way than others; a line break inside of a cell is none."""
    # Most files have one kind of line break, in cells too: then nobody needs to know where the cells are.
    return len(_kinds(_blocks(file))) > 1 and len(_kinds(_outside(_blocks(file)))) > 1


def _blocks(file: Path) -> Iterator[bytes]:
    with open_bytes(file) as content:
        while block := content.read(BLOCK):
            yield block + content.read(1) if block.endswith(b"\r") else block


def _kinds(blocks: Iterable[bytes]) -> set[str]:
    """Which of LF, CR LF and CR there are."""
    kinds: set[str] = set()
    for block in blocks:
        both = block.count(b"\r\n")
        counts = {"CR LF": both, "LF": block.count(b"\n") - both, "CR": block.count(b"\r") - both}
        kinds |= {kind for kind, n in counts.items() if n}
    return kinds


def _outside(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """What is not in quotes."""
    inside = False
    for block in blocks:
        if inside:
            _, quote, block = block.partition(b'"')
            inside = not quote
        if block.count(b'"') % 2:
            block, inside = block[: block.rindex(b'"')], True
        yield _QUOTED.sub(b"", block)


def header_of(file: Path, layout: FileLayout) -> tuple[str, ...]:
    """What a CSV file's cells are called by their places, also where the header says nothing, as above row numbers."""
    return _named(next(csv_rows(file, layout), []))


def _named(header: Sequence[str]) -> tuple[str, ...]:
    return tuple(name or f"(cell {k})" for k, name in enumerate(header, start=1))


def copy_exactly(file: Path, layout: FileLayout, folder: Path) -> None:
    """Write a file's rows into a folder of Parquet files, as the exact reader has them."""
    folder.mkdir()
    rows = csv_rows(file, layout)
    schema = dict.fromkeys(_named(next(rows)), pl.String())
    pl.DataFrame(schema=schema).write_parquet(folder / f"{0:06d}.parquet")
    for k, batch in enumerate(iter(lambda: list(islice(rows, ROWS)), []), start=1):
        pl.DataFrame(batch, schema=schema, orient="row").write_parquet(folder / f"{k:06d}.parquet")
