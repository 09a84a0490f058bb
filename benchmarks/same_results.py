"""Are the results of two runs equal, cell by cell? For changes that must not change a number.

    python benchmarks/same_results.py OLD_RUN NEW_RUN [OLD_RUN NEW_RUN ...]

Compares every results/*.parquet, row by row in the order of the file. The column `reason` is a sentence: it may be
worded differently, but must be there in the same rows. Ends with 1 where anything differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl


def differences(old: Path, new: Path) -> Iterator[str]:
    """What differs between two files of results."""
    before, after = pl.read_parquet(old), pl.read_parquet(new)
    if before.columns != after.columns or before.height != after.height:
        yield f"{before.height} x {before.width} became {after.height} x {after.width}"
        return
    for column in before.columns:
        a, b = before[column], after[column]
        changed = a.is_null() != b.is_null() if column == "reason" else ~a.eq_missing(b)
        if changed.any():
            row = int(changed.arg_true()[0])
            yield f"{column}: {changed.sum()} cells differ, first in row {row}: {a[row]!r} became {b[row]!r}"


def compare(old: Path, new: Path) -> bool:
    """Whether two runs have the same results; says what was compared."""
    names = [sorted(path.name for path in (run / "results").glob("*.parquet")) for run in (old, new)]
    same = names[0] == names[1] and bool(names[0])
    if not same:
        print(f"{old} has {names[0]}, {new} has {names[1]}")
    for name in sorted(set(names[0]) & set(names[1])):
        found = list(differences(old / "results" / name, new / "results" / name))
        n = pl.read_parquet(new / "results" / name).height
        print(f"{name}: {n:,} rows, {'equal' if not found else 'DIFFERENT'}", *found, sep="\n  ")
        same &= not found
    return same


if __name__ == "__main__":
    runs = [Path(argument) for argument in sys.argv[1:]]
    if not runs or len(runs) % 2:
        sys.exit(__doc__)
    sys.exit(not all(compare(old, new) for k, (old, new) in enumerate(pairwise(runs)) if k % 2 == 0))
