"""Scores of the tokens of overlapping windows, as scores of the tokens of whole texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palpate.models.text.windows import Placed


class MeanScores:
    """The scores of each asked pair's tokens, as the mean over the windows that were explained."""

    def __init__(self, placed: Placed, place: NDArray[np.int64]) -> None:
        self._placed, self._place = placed, place.tolist()
        n_tokens = [len(placed.offsets[row]) for row in self._place]
        self._sum = [np.zeros(n) for n in n_tokens]
        self._n = [np.zeros(n, dtype=np.int64) for n in n_tokens]

    def add(self, pair: int, window: int, scores: NDArray[np.float64]) -> None:
        """Scores of a window's tokens of text, without the special ones; an empty text has none."""
        begin = self._placed.begin[window]
        end = begin + min(len(scores), len(self._sum[pair]) - begin)
        self._sum[pair][begin:end] += scores[: end - begin]
        self._n[pair][begin:end] += 1

    def pieces(self) -> tuple[list[list[tuple[int, int]]], list[NDArray[np.float64]]]:
        """Offsets and scores of the tokens that were read, for each pair."""
        seen = [np.flatnonzero(n) for n in self._n]
        offsets = [[self._placed.offsets[row][t] for t in some] for row, some in zip(self._place, seen, strict=True)]
        return offsets, [s[some] / n[some] for s, n, some in zip(self._sum, self._n, seen, strict=True)]
