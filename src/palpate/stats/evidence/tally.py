"""How many elements of evidence are found, false and missed, by chart and code, for each way of matching.

An element is a piece of a word with a code, or a span with a code; the position-independent ways compare their text
within a chart. Each element is counted once, however many spans cover it.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching

from palpate.stats.evidence.words import Covered, EvidenceWords, Ints, Spans, cover, piece_strings

MATCHES = ("token", "span", "token_anywhere", "span_anywhere", "overlap", "iou")

Mask = NDArray[np.bool_]


class SpanTally(NamedTuple):
    """Cells (chart and code) that are not empty, by code and then chart, and their counts."""

    chart: Ints
    code: Ints
    tp: Ints
    fp: Ints
    fn: Ints


class SpanSide(NamedTuple):
    """Gold or predicted spans: each span's cell and keys, and the pieces of all of them in one column."""

    has_words: Mask
    cell: Ints
    place: Ints
    saying: Ints
    n_pieces: Ints
    piece_span: Ints
    piece: Ints
    piece_saying: Ints


class PreparedSpans(NamedTuple):
    """Both sides, with keys that mean the same on both."""

    gold: SpanSide
    predicted: SpanSide
    n_codes: int
    n_sayings: int
    n_phrases: int


def prepare(words: EvidenceWords, gold: Spans, predicted: Spans, chart: Ints, n_codes: int) -> PreparedSpans:
    """Cover both sides' spans at once, so that pieces, places and strings have the same numbers on both."""
    both = Spans(*(np.concatenate(pair) for pair in zip(gold, predicted, strict=True)))
    covered = cover(words, both)
    saying, sayings = piece_strings(words, covered)
    n = np.diff(covered.first)
    places = np.stack([both.note, covered.begin, covered.end], axis=1)
    place = np.unique(places, axis=0, return_inverse=True)[1].reshape(-1)
    phrase, n_phrases = _phrases(covered, saying)
    cell = chart[both.note] * n_codes + both.code

    def side(part: slice) -> SpanSide:
        pieces = slice(covered.first[part.start], covered.first[part.stop])
        return SpanSide(
            n[part] > 0,
            cell[part],
            place[part],
            phrase[part],
            n[part],
            np.repeat(np.arange(part.stop - part.start), n[part]),
            covered.piece[pieces],
            saying[pieces],
        )

    middle = gold.note.size
    return PreparedSpans(
        side(slice(0, middle)),
        side(slice(middle, both.note.size)),
        n_codes,
        max(len(sayings), 1),
        max(n_phrases, 1),
    )


def tally(both: PreparedSpans, match: str, gold: Mask, predicted: Mask, *, iou: float) -> SpanTally:
    """Counts of one way of matching, among the spans that the masks keep."""
    gold, predicted = gold & both.gold.has_words, predicted & both.predicted.has_words
    if match in ("overlap", "iou"):
        return _cells(both.n_codes, *_one_to_one(both, gold, predicted, least=iou if match == "iou" else None))
    ours = _elements(both, both.gold, match, gold)
    theirs = _elements(both, both.predicted, match, predicted)
    found = np.isin(ours[0], theirs[0], assume_unique=True)
    right = np.isin(theirs[0], ours[0], assume_unique=True)
    return _cells(both.n_codes, ours[1][found], theirs[1][~right], ours[1][~found])


def _phrases(covered: Covered, saying: Ints) -> tuple[Ints, int]:
    """A number for the text of each span: its words in order, whatever is between them."""
    numbers: dict[tuple[int, ...], int] = {}
    said = saying.tolist()
    first = covered.first.tolist()
    phrases = [numbers.setdefault(tuple(said[low:high]), len(numbers)) for low, high in itertools.pairwise(first)]
    return np.array(phrases, np.int64), len(numbers)


def _elements(both: PreparedSpans, side: SpanSide, match: str, keep: Mask) -> tuple[Ints, Ints]:
    """Distinct keys and the cell of each."""
    if match in ("token", "token_anywhere"):
        kept = keep[side.piece_span]
        cell = side.cell[side.piece_span[kept]]
        if match == "token":
            key = side.piece[kept] * both.n_codes + cell % both.n_codes
        else:
            key = cell * both.n_sayings + side.piece_saying[kept]
    else:
        cell = side.cell[keep]
        if match == "span":
            key = side.place[keep] * both.n_codes + cell % both.n_codes
        else:
            key = cell * both.n_phrases + side.saying[keep]
    distinct, where = np.unique(key, return_index=True)
    return distinct, cell[where]


def _one_to_one(both: PreparedSpans, gold: Mask, predicted: Mask, *, least: float | None) -> tuple[Ints, Ints, Ints]:
    """Cells of matched, false and missed spans, when as many as possible are matched and each at most once."""
    ours, our_row, our_key = _incidence(both, both.gold, gold)
    theirs, their_row, their_key = _incidence(both, both.predicted, predicted)
    our_cell, their_cell = both.gold.cell[ours], both.predicted.cell[theirs]
    if ours.size == 0 or theirs.size == 0:
        return np.zeros(0, np.int64), their_cell, our_cell
    keys, column = np.unique(np.concatenate([our_key, their_key]), return_inverse=True)
    our_pieces = _matrix(our_row, column.reshape(-1)[: our_key.size], (ours.size, keys.size))
    their_pieces = _matrix(their_row, column.reshape(-1)[our_key.size :], (theirs.size, keys.size))
    shared = sparse.coo_array(our_pieces @ their_pieces.T)
    fits = shared.data > 0
    if least is not None:
        union = both.gold.n_pieces[ours[shared.row]] + both.predicted.n_pieces[theirs[shared.col]] - shared.data
        fits &= shared.data >= least * union
    edges = (np.ones(int(fits.sum()), np.int8), (shared.row[fits], shared.col[fits]))
    graph = sparse.csr_array(edges, shape=(ours.size, theirs.size))
    partner = np.asarray(maximum_bipartite_matching(sparse.csr_matrix(graph), perm_type="column"))
    taken = np.zeros(theirs.size, np.bool_)
    taken[partner[partner >= 0]] = True
    return our_cell[partner >= 0], their_cell[~taken], our_cell[partner < 0]


def _incidence(both: PreparedSpans, side: SpanSide, keep: Mask) -> tuple[Ints, Ints, Ints]:
    """Distinct spans; then, for each piece of them, the span's rank among these and a key of piece and code."""
    kept = np.flatnonzero(keep)
    key = side.place[kept] * both.n_codes + side.cell[kept] % both.n_codes
    spans = kept[np.unique(key, return_index=True)[1]]
    rank = np.full(keep.size, -1, np.int64)
    rank[spans] = np.arange(spans.size)
    row = rank[side.piece_span]
    used = row >= 0
    return spans, row[used], side.piece[used] * both.n_codes + side.cell[side.piece_span[used]] % both.n_codes


def _matrix(row: Ints, column: Ints, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(row.size, np.int64), (row, column)), shape=shape)


def _cells(n_codes: int, tp: Ints, fp: Ints, fn: Ints) -> SpanTally:
    """Counts by cell, in the order of codes and, for a code, of charts."""
    cells, where = np.unique(np.concatenate([tp, fp, fn]), return_inverse=True)
    where = where.reshape(-1)
    ends = np.cumsum([tp.size, fp.size, fn.size])
    counts = [np.bincount(part, minlength=cells.size) for part in np.split(where, ends[:-1])]
    chart, code = cells // n_codes, cells % n_codes
    order = np.lexsort((chart, code))
    columns = (chart, code, *counts)
    return SpanTally(*(column[order].astype(np.int64) for column in columns))
