"""What a model looked at: how strongly each piece of a text speaks for a label, in columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SAMPLED = ("lime", "kernel_shap")
"""Ways to explain any model that reads text, by what it answers without random words."""


class Asked(NamedTuple):
    """Which answers are to be explained: pairs of a row of the inputs and a label, in columns."""

    row: NDArray[np.int64]
    label: NDArray[np.int64]
    """An index into the model's labels."""


class Attributions(NamedTuple):
    """One row per piece of text and label.

    A larger score is stronger evidence for the label; only scores of one model and one explanation method can be
    compared. Pieces of one (row, label) do not overlap; text in no piece (beyond the model's window, say) has no score.
    """

    row: NDArray[np.int64]
    label: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    """Characters of the row's text."""
    score: NDArray[np.float64]


def no_attributions() -> Attributions:
    """Nothing is pointed at."""
    none = np.zeros(0, dtype=np.int64)
    return Attributions(none, none, none, none, np.zeros(0))
