"""What a model is asked, call by call: rows of one table of inputs, for probabilities or for explanations.

The table stays in columns. A call's own inputs are made when it is asked, in this process, or in a worker from the
same columns, so they are the same wherever the model runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palpate.cases.edits import Inputs, Ints
from palpate.models import Probabilities
from palpate.results import Asked, Attributions


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
