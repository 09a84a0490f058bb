"""What came of asking a language model: an answer, a refusal, or something that is no answer."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class AnswerKind(IntEnum):
    """What one answer is."""

    ANSWERED = 0
    REFUSED = 1
    UNREADABLE = 2
    NO_CHOICE = 3
    """The choices have too little of the model's probability."""
    TOO_LONG = 4
    """The note is longer than the model can read."""


class Outcomes(NamedTuple):
    """What came of asking about each variant and label; -1 where that is not known."""

    kind: NDArray[np.int8]
    mass: NDArray[np.float64]
    """The probability of all choices together; NaN where the answer is not read from log-probabilities."""
    noise: NDArray[np.float64]
    """The standard error of the mean of several answers; NaN where there is one."""
    samples: int = 1
    """Answers behind each probability."""

    def take(self, rows: NDArray[np.int64] | slice, columns: NDArray[np.int64]) -> Outcomes:
        """Some variants, and some labels."""
        kind, mass, noise = self.kind[rows][:, columns], self.mass[rows][:, columns], self.noise[rows][:, columns]
        return Outcomes(kind, mass, noise, self.samples)

    def spread(self, rows: NDArray[np.int64], n: int) -> Outcomes:
        """The outcomes at some of `n` rows."""
        kind = np.full((n, self.kind.shape[1]), -1, np.int8)
        mass, noise = np.full(kind.shape, np.nan), np.full(kind.shape, np.nan)
        kind[rows], mass[rows], noise[rows] = self.kind, self.mass, self.noise
        return Outcomes(kind, mass, noise, self.samples)
