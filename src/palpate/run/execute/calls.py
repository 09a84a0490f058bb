"""What a model is asked, call by call: rows of one table of inputs, for probabilities or for explanations.

The table stays in columns. A call's own inputs are made when it is asked, in this process, or in a worker from the
same columns, so they are the same wherever the model runs. On disk the calls are Parquet shards, in places and numbers,
without a character of a note: a row has the numbers of its parents and replacements, and whoever reads it has the
tables that they point into.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import polars as pl

from palpate.cases.edits import Inputs, Ints, NamesOfRows
from palpate.models import Probabilities
from palpate.results import Asked, Attributions

CALLS_PER_SHARD = 256


class Call(NamedTuple):
    """One request to a model."""

    number: int
    inputs: Inputs
    asked: Asked | None = None
    """Which predictions are to be explained; None: probabilities are asked for."""
    way: str = ""
    """The explanation method."""


class CallResult(NamedTuple):
    """What the model said to one request."""

    number: int
    p: Probabilities
    may_change: str | None = None
    """What the model, perhaps a copy in a worker, has noticed by now; see `Model.may_change`."""
    found: Attributions | None = None
    """The explanation, where one was asked for."""
    notices: tuple[str, ...] = ()
    """See `Model.notices`."""


class RowsOfCalls(Sequence[Ints]):
    """The rows of each call, from the places of its inputs among the distinct ones; taken when they are read.

    >>> RowsOfCalls(np.array([10, 20, 30]), [np.array([2, 0])])[0].tolist()
    [30, 10]
    """

    def __init__(self, rows: Ints, calls: Sequence[Ints]) -> None:
        self._rows, self._calls = rows, calls

    def __len__(self) -> int:
        return len(self._calls)

    @overload
    def __getitem__(self, number: int) -> Ints: ...
    @overload
    def __getitem__(self, number: slice) -> list[Ints]: ...
    def __getitem__(self, number: int | slice) -> Ints | list[Ints]:
        if isinstance(number, slice):
            return [self._rows[places] for places in self._calls[number]]
        return self._rows[self._calls[number]]


@dataclass(frozen=True, eq=False)
class Calls:
    """All requests to one model that are to be answered now."""

    inputs: Inputs
    rows: Sequence[Ints]
    """Of each call: its rows of `inputs`."""
    asked: Sequence[Asked] | None = None
    way: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Call:
        asked = None if self.asked is None else self.asked[number]
        return Call(number, self.inputs.take(self.rows[number]), asked, self.way)

    def __iter__(self) -> Iterator[Call]:
        return (self[number] for number in range(len(self)))


def write_shards(calls: Calls, folder: Path, left: Sequence[int] | None = None) -> list[tuple[Path, int]]:
    """The calls as Parquet files with their number of calls: one row per call, in places and numbers, without text.

    `left` are the numbers of those that are still to be answered; default: all.
    """
    shards, wanted = [], range(len(calls)) if left is None else left
    for begin in range(0, len(wanted), CALLS_PER_SHARD):
        numbers = wanted[begin : begin + CALLS_PER_SHARD]
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
