"""A reader that is fuzzed, and the contents from which broken ones are made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Reader(NamedTuple):
    """A reader, and what it can read."""

    name: str
    suffix: str
    read: Callable[[Path], object]
    seeds: tuple[bytes, ...]
    share: int = 15
    """How many inputs it gets in a round: more where they are cheap, one where they take 20 ms or more."""
