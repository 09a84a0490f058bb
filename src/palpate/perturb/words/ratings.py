"""Clinicians' scores of words, as data (vocabulary-sensitivity, section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Ratings(NamedTuple):
    """What clinicians say about words: `scores[word, rater]`, NaN where a rater gave none."""

    words: tuple[str, ...]
    raters: tuple[str, ...]
    scores: NDArray[np.float64]
