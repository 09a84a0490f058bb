"""A plan on disk: the calls to a model as Parquet shards, in places and numbers, without a character of a note.

Texts, replacements and names are not in the shards: a call's row has the numbers of its parents and replacements, and
whoever reads it has the tables that they point into.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from palpate.cases.edits import Inputs, Ints, NamesOfRows
from palpate.results import Asked
from palpate.run.execute.calls import Calls

CALLS_PER_SHARD = 256


def write_shards(calls: Calls, folder: Path) -> list[tuple[Path, int]]:
    """The calls as Parquet files with their number of calls: one row per call, in places and numbers, without text."""
    shards = []
    for begin in range(0, len(calls), CALLS_PER_SHARD):
        numbers = range(begin, min(begin + CALLS_PER_SHARD, len(calls)))
        rows = [_columns(calls, number) for number in numbers]
        columns = {name: pl.Series([row[name] for row in rows], dtype=pl.List(pl.Int64)) for name in rows[0]}
        frame = pl.DataFrame({"number": list(numbers), **columns})
        path = folder / f"{begin // CALLS_PER_SHARD:06d}.parquet"
        frame.write_parquet(path, compression="lz4")
        shards.append((path, len(numbers)))
    return shards


def _columns(calls: Calls, number: int) -> dict[str, Ints]:
    inputs, rows = calls.inputs, calls.rows[number]
    index, first = inputs.edit_columns(rows)
    asked = Asked(np.zeros(0, np.int64), np.zeros(0, np.int64)) if calls.asked is None else calls.asked[number]
    return {
        "parent": inputs.parent[rows],
        "first_edit": first,
        "start": inputs.start[index],
        "end": inputs.end[index],
        "replacement": inputs.replacement[index],
        "asked_row": asked.row,
        "asked_label": asked.label,
    }


def names_of_parents(inputs: Inputs, names: Sequence[str]) -> list[str]:
    """What the parents are called, from what the rows are called."""
    if not names:
        return []
    if isinstance(names, NamesOfRows):
        return list(names.names)
    found = [""] * len(inputs.parents)
    for parent, name in zip(inputs.parent.tolist(), names, strict=True):
        found[parent] = name
    return found
