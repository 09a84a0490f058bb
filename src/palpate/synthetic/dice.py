"""Cheap random draws for prose: blocks of uniform numbers from one numpy Generator per patient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
_BLOCK = 1024


def stream(*key: int) -> np.random.Generator:
    """The generator of one work item: seed, site, source, patient, purpose."""
    return np.random.default_rng(list(key))


def _floats(rng: np.random.Generator) -> Iterator[float]:
    yield from rng.random(_BLOCK // 8).tolist()
    while True:
        yield from rng.random(_BLOCK).tolist()


class Dice:
    """Draws from uniform numbers made in blocks: calling numpy for each word would take most of the time."""

    __slots__ = ("uniform",)

    def __init__(self, rng: np.random.Generator) -> None:
        self.uniform: Callable[[], float] = _floats(rng).__next__
        """A uniform number in [0, 1)."""

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return self.uniform() < p

    def integer(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def between(self, low: float, high: float) -> float:
        """A uniform number from low to high."""
        return low + self.uniform() * (high - low)

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.uniform() * len(items))]

    def sample(self, items: Sequence[T], n: int) -> list[T]:
        """`n` different items in random order, or all of them if there are fewer."""
        pool = list(items)
        for k in range(min(n, len(pool))):
            other = k + int(self.uniform() * (len(pool) - k))
            pool[k], pool[other] = pool[other], pool[k]
        return pool[:n]

    def weighted(self, weights: dict[T, float]) -> T:
        """One of the keys; weights need not sum to 1."""
        left = self.uniform() * sum(weights.values())
        for key, weight in weights.items():
            left -= weight
            if left < 0:
                return key
        return next(reversed(weights))

    def normal(self) -> float:
        """A standard normal number."""
        return math.sqrt(-2.0 * math.log(1.0 - self.uniform())) * math.cos(2.0 * math.pi * self.uniform())

    def exponential(self, mean: float) -> float:
        """An exponentially distributed number."""
        return -mean * math.log(1.0 - self.uniform())
