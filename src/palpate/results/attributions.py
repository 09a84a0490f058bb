"""What a model looked at: how much each piece of a text speaks for a label, in columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """Which answers are to be explained: pairs of a row of the inputs and a label, in columns."""

    row: Ints
    label: Ints
    """An index into the model's labels."""


class Attributions(NamedTuple):
    """One piece of a text and one label a row.

    A larger score speaks more for the label; only scores of one model and one way of explaining can be compared. Pieces
    of one (row, label) do not overlap; text in no piece, beyond the model's window for one, says nothing.
    """

    row: Ints
    label: Ints
    start: Ints
    end: Ints
    """Characters of the row's text."""
    score: Floats


def no_attributions() -> Attributions:
    """Nothing is pointed at."""
    none = np.zeros(0, dtype=np.int64)
    return Attributions(none, none, none, none, np.zeros(0))
