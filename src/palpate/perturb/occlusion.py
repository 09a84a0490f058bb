"""Removing words from a text, to see what the prediction depended on: pure planning, in columns of words.

Occlusion (Zeiler and Fergus 2014; for words, Li et al. 2016) removes one piece at a time: coarse pieces first, then the
words of the pieces that matter. Removal takes out many words at once, for comprehensiveness, or all but them, for
sufficiency (DeYoung et al. 2020). Words are numbered in the order of the text, as by `stats.evidence.tokenise`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Pieces(NamedTuple):
    """Pieces to remove, one at a time: the words `first` to `stop` - 1 of a chart."""

    chart: Ints
    first: Ints
    stop: Ints


class Removed(NamedTuple):
    """Characters to remove: sorted spans that do not touch words that stay."""

    start: Ints
    end: Ints


def coarse_pieces(chart: Ints, first: Ints, stop: Ints, *, n_segments: int, at_once: int) -> Pieces:
    """Each chart's words `first` to `stop` - 1: one by one if there are at most `at_once`, otherwise in segments.

    There are `n_segments` segments, of sizes as equal as possible.
    """
    parts: list[tuple[Ints, Ints, Ints]] = [(_none(), _none(), _none())]
    for number, low, high in zip(chart.tolist(), first.tolist(), stop.tolist(), strict=True):
        n = high - low
        if n <= 0:
            continue
        n_parts = n if n <= max(at_once, n_segments) else n_segments
        border = low + (np.arange(n_parts + 1) * n) // n_parts
        parts.append((np.full(n_parts, number, np.int64), border[:-1], border[1:]))
    return Pieces(*(np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)))


class ChosenPieces(NamedTuple):
    """The pieces of a chart whose words are examined for a label."""

    chosen: Mask
    is_cut: bool
    """Whether others matter too, and the budget left them out."""


def pieces_that_matter(drop: Floats, size: Ints, *, share: float, most_words: int) -> ChosenPieces:
    """Which pieces of a chart to examine for a label: those whose removal costs at least `share` of the largest drop.

    Those that matter most come first, up to `most_words` words; the first one is always included. A larger budget
    examines the same words, and more.
    """
    chosen = np.zeros(drop.size, np.bool_)
    if drop.size == 0 or float(drop.max()) <= 0.0:
        return ChosenPieces(chosen, is_cut=False)
    order = np.argsort(-drop, kind="stable")
    order = order[drop[order] >= share * drop[order[0]]]
    fits = np.cumsum(size[order]) <= most_words
    fits[0] = True
    within = order.size if fits.all() else int(np.argmin(fits))
    chosen[order[:within]] = True
    return ChosenPieces(chosen, is_cut=bool((size[order[within:]] > 1).any()))


def single_words(pieces: Pieces, chosen: Mask) -> Pieces:
    """The words of the chosen pieces that have more than one word, each as a piece."""
    wide = np.flatnonzero(chosen & (pieces.stop - pieces.first > 1))
    n = (pieces.stop - pieces.first)[wide]
    word = np.repeat(pieces.first[wide] - np.concatenate([[0], np.cumsum(n)[:-1]]).astype(np.int64), n) + np.arange(
        int(n.sum())
    )
    return Pieces(np.repeat(pieces.chart[wide], n), word, word + 1)


def joined_gaps(text: str, begin: Ints, end: Ints) -> Mask:
    """For each word but the last, whether there is no letter or digit between it and the next word."""
    places = zip(end[:-1].tolist(), begin[1:].tolist(), strict=True)
    return np.array([not any(map(str.isalnum, text[low:high])) for low, high in places], np.bool_)


def without_words(begin: Ints, end: Ints, joined: Mask, taken: Ints) -> Removed:
    """Remove some words of one chart; neighbours are removed as one span. `taken` are sorted indices into `begin`."""
    first, last = _runs(joined, taken)
    return Removed(begin[first], end[last])


def only_words(begin: Ints, end: Ints, joined: Mask, kept: Ints, length: int) -> Removed:
    """Remove everything but some words of one chart; what is between kept neighbours stays."""
    first, last = _runs(joined, kept)
    start = np.concatenate([[0], end[last]]).astype(np.int64)
    stop = np.concatenate([begin[first], [length]]).astype(np.int64)
    some = stop > start
    return Removed(start[some], stop[some])


def _runs(joined: Mask, words: Ints) -> tuple[Ints, Ints]:
    """First and last word of each run of neighbours."""
    if words.size == 0:
        return _none(), _none()
    goes_on = (np.diff(words) == 1) & joined[words[:-1]]
    return words[np.concatenate([[True], ~goes_on])], words[np.concatenate([~goes_on, [True]])]


def _none() -> Ints:
    return np.zeros(0, np.int64)
