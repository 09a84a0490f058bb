"""Texts as tokens: windows, batches of similar length, checkpoints, gradients and masked language models.

Batches hold rows of similar length within a budget, so there is little padding and memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def batches_within(budget: int, lengths: Ints, *, max_rows: int | None = None) -> Iterator[Ints]:
    """Row indices, longest first, such that the rows of a batch times its longest row stay within `budget`.

    A row longer than the budget is a batch of its own. The same lengths give the same batches.
    """
    order = np.argsort(-lengths, kind="stable")
    first = 0
    while first < len(order):
        longest = max(int(lengths[order[first]]), 1)
        n_rows = max(budget // longest, 1)
        if max_rows is not None:
            n_rows = min(n_rows, max_rows)
        yield order[first : first + n_rows]
        first += n_rows


def lengths_of(rows: Sequence[Sequence[int]]) -> Ints:
    """How many tokens each row has."""
    return np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))


def padded(rows: Sequence[Sequence[int]], filler: int) -> Ints:
    """The rows as one array, filled up on the right to the longest."""
    out = np.full((len(rows), max((len(row) for row in rows), default=0)), filler, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


def attention_mask(lengths: Ints) -> Ints:
    """1 where a row has tokens, 0 where it is padding."""
    mask: Ints = (np.arange(lengths.max(initial=0)) < lengths[:, None]).astype(np.int64)
    return mask
