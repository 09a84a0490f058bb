"""Ranks and their correlation (vocabulary paper, Appendix E.3); ties get the mean of their ranks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats._inputs import Floats, finite


def average_ranks(values: ArrayLike) -> Floats:
    """Ranks from 1, smallest first; equal values share the mean of their ranks."""
    numbers = finite(values, name="values")
    if numbers.ndim != 1:
        raise ValueError("values must have one dimension")
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2.0
    return ranks[inverse]


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rank correlation, right under ties; nan if either side is constant or there is one value."""
    first, second = average_ranks(a), average_ranks(b)
    if first.shape != second.shape:
        raise ValueError(f"a has {first.size} values but b has {second.size}")
    if first.size < 2:
        return float("nan")
    first, second = first - first.mean(), second - second.mean()
    spread = float(first @ first) * float(second @ second)
    if spread <= 0:
        return float("nan")
    return max(-1.0, min(1.0, float(first @ second) / math.sqrt(spread)))
