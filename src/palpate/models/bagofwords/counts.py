"""Word counts of parents, and how each edited row changes them; the result equals the counts of the edited text.

A parent is cut at ASCII blanks into pieces, whose tokens are cached. An edit is tokenised with the pieces that it
touches; n-grams across its borders are counted by `ngrams` on token numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence, Sized
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from palpate.cases.edits import Edit, Inputs, Ints, splice
from palpate.compiled import njit
from palpate.models.bagofwords.ngrams import Tokens, count_changes, count_texts, number_grams

CACHE_SIZE = 200_000
"""Pieces of text whose tokens are cached."""


class Counted(NamedTuple):
    """Counts of parents and changes of rows. From start[i] on, n[i] entries are in use, sorted by column."""

    parent_start: Ints
    parent_n: Ints
    parent_column: Ints
    parent_count: Ints
    owner: Ints
    """The parent of each row; ascending."""
    first_row: Ints
    """The first row of each parent; then the number of rows."""
    row_start: Ints
    row_n: Ints
    row_column: Ints
    row_change: Ints
    largest: int
    """An upper bound of every count."""

    def distinct(self) -> tuple[Ints, Ints]:
        """One row for each text with different counts, and which of these stands for each row."""
        seen: dict[tuple[int, bytes, bytes], int] = {}
        inverse = np.empty(len(self.owner), dtype=np.int64)
        chosen: list[int] = []
        for row, (begin, n, owner) in enumerate(zip(*self._spans(), strict=True)):
            part = slice(begin, begin + n)
            key = (owner, self.row_column[part].tobytes(), self.row_change[part].tobytes())
            inverse[row] = seen.setdefault(key, len(seen))
            if len(seen) > len(chosen):
                chosen.append(row)
        return np.asarray(chosen, dtype=np.int64), inverse

    def _spans(self) -> tuple[list[int], list[int], list[int]]:
        return self.row_start[:-1].tolist(), self.row_n.tolist(), self.owner.tolist()

    def csr(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """The counts of some rows: data, indices and indptr, with sorted columns and no zeros."""
        owner = self.owner[rows]
        room = np.concatenate([[0], np.cumsum(self.parent_n[owner] + self.row_n[rows])])
        data, indices = np.empty(room[-1], np.int64), np.empty(room[-1], np.int64)
        indptr = _merge(self, rows, data, indices)
        return data[: indptr[-1]], indices[: indptr[-1]], indptr


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def _merge(counted: Any, rows: Any, data: Any, indices: Any) -> Any:
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    n = 0
    for k in range(len(rows)):
        owner = counted.owner[rows[k]]
        p, p_end = counted.parent_start[owner], counted.parent_start[owner] + counted.parent_n[owner]
        r, r_end = counted.row_start[rows[k]], counted.row_start[rows[k]] + counted.row_n[rows[k]]
        while p < p_end or r < r_end:
            column, count = np.int64(0), np.int64(0)
            from_parent = p < p_end and (r == r_end or counted.parent_column[p] <= counted.row_column[r])
            from_row = r < r_end and (p == p_end or counted.row_column[r] <= counted.parent_column[p])
            if from_parent:
                column, count = counted.parent_column[p], counted.parent_count[p]
                p += 1
            if from_row:
                column, count = counted.row_column[r], count + counted.row_change[r]
                r += 1
            if count > 0:
                data[n], indices[n] = count, column
                n += 1
        indptr[k + 1] = n
    return indptr


class _Pieces(dict[bytes, int]):
    """Numbers for pieces of text, and the tokens of each piece, computed once."""

    def __init__(self, vectorizer: Any, numbers: dict[str, int]) -> None:
        super().__init__()
        self._preprocess, self._find = vectorizer.build_preprocessor(), vectorizer.build_tokenizer()
        self._stop_words = vectorizer.get_stop_words() or frozenset()
        self._numbers = numbers
        self._new: list[list[int]] = []
        self._tokens, self._start = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)

    def __missing__(self, piece: bytes) -> int:
        text = self._preprocess(piece.decode("utf-8", "surrogatepass"))
        self._new.append([self._numbers.get(token, -1) for token in self._find(text) if token not in self._stop_words])
        self[piece] = number = len(self)
        return number

    def forget(self) -> None:
        """Empty the cache; for when it has grown large."""
        self.clear()
        self._tokens, self._start = self._tokens[:0], self._start[:1]

    def tokens(self, pieces: Sequence[bytes]) -> tuple[Tokens, Ints]:
        """The tokens of some pieces, concatenated, and how many come before each piece and in total."""
        number = np.fromiter(map(self.__getitem__, pieces), np.int64, count=len(pieces))
        if self._new:
            self._tokens = np.concatenate([self._tokens, np.fromiter(chain.from_iterable(self._new), np.int32)])
            self._start = np.concatenate([self._start, self._start[-1] + _starts(self._new)[1:]])
            self._new.clear()
        n = np.diff(self._start)[number]
        before = np.concatenate([[0], np.cumsum(n)])
        return self._tokens[np.repeat(self._start[number] - before[:-1], n) + np.arange(before[-1])], before


class _Texts:
    """Texts with their pieces and tokens, as one string with a blank between two texts."""

    def __init__(self, texts: Sequence[str], pieces: _Pieces) -> None:
        self._whole = "\n".join(texts)
        self._blank = _is_blank(self._whole)
        self._piece_start = np.flatnonzero(~self._blank & np.concatenate([[True], self._blank])[: len(self._blank)])
        # Blanks are one byte in UTF-8, and `bytes.split` cuts at exactly these.
        self.tokens, self._before = pieces.tokens(self._whole.encode("utf-8", "surrogatepass").split())
        self.character_start = _starts(texts)[:-1] + np.arange(len(texts))
        self.token_start = np.append(self._tokens_before(self.character_start), len(self.tokens))

    def _tokens_before(self, places: Ints) -> Ints:
        """How many tokens begin before each position; positions are never inside a piece."""
        return self._before[np.searchsorted(self._piece_start, places)]

    def regions(self, start: Ints, end: Ints, words: list[str], first: Ints, afters: _Afters) -> _Regions:
        """The pieces that edits touch, row by row; edits of a row that touch the same pieces form one region."""
        whole = self._whole
        left, right = self._surroundings(start, end)
        joined = np.zeros(len(start), dtype=bool)
        joined[1:] = left[1:] <= right[:-1]
        joined[first[:-1][np.diff(first) > 0]] = False
        if joined.any():
            opens = np.flatnonzero(~joined)
            closes = np.append(opens[1:], len(start))
            left, right = left[opens], right[closes - 1]
            first_start, first_end = start[opens].tolist(), end[opens].tolist()
            edits = (start.tolist(), end.tolist(), words)
            spans = zip(left.tolist(), right.tolist(), opens.tolist(), closes.tolist(), strict=True)
            after = [
                afters[whole[lo:s] + words[a] + whole[e:hi] if b - a == 1 else _spliced(whole, lo, hi, edits, a, b)]
                for (lo, hi, a, b), s, e in zip(spans, first_start, first_end, strict=True)
            ]
            first = np.concatenate([[0], np.cumsum(~joined)])[first]
        else:
            each = zip(left.tolist(), start.tolist(), words, end.tolist(), right.tolist(), strict=True)
            after = [afters[whole[lo:s] + word + whole[e:hi]] for lo, s, word, e, hi in each]
        after_number = np.asarray(after, dtype=np.int64)
        return _Regions(first, self._tokens_before(left), self._tokens_before(right), after_number)

    def _surroundings(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Each span, extended to the next blank on either side."""
        blanks = np.flatnonzero(self._blank)
        edges = np.concatenate([[-1], blanks, [len(self._blank)]])
        left = edges[np.searchsorted(blanks, start, side="left")] + 1
        return left, edges[np.searchsorted(blanks, end, side="left") + 1]


class _Afters(dict[str, int]):
    """Numbers for the replacement texts."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number


class _Regions(NamedTuple):
    """Where rows differ from their parents: the tokens `begin` to `end` become those of the text `after`."""

    first: Ints
    """The first region of each row; then the number of regions."""
    begin: Ints
    end: Ints
    after: Ints


class WordCounts:
    """The counts of a fitted vectorizer, for texts given as parents and edits."""

    def __init__(self, vectorizer: CountVectorizer | TfidfVectorizer) -> None:
        self._binary, self._dtype = bool(vectorizer.binary), vectorizer.dtype
        counter = copy.copy(vectorizer)
        # Called on the class: TfidfVectorizer's own transform would go on to weight the counts.
        nothing = CountVectorizer.transform(counter, [""])
        self.n_columns = int(nothing.shape[1])
        self._matrix = sparse.csr_array if isinstance(nothing, sparse.sparray) else sparse.csr_matrix
        min_n, max_n = vectorizer.ngram_range
        self.vocabulary: dict[str, int] = counter.vocabulary_
        numbers, self._grams = number_grams(self.vocabulary, min_n=min_n, max_n=max_n)
        self._pieces = _Pieces(vectorizer, numbers)

    def matrix(self, counted: Counted, rows: Ints) -> Any:
        """Some rows as the vectorizer's own count matrix."""
        data, indices, indptr = counted.csr(rows)
        if self._binary:
            data.fill(1)
        shape = (len(rows), self.n_columns)
        return self._matrix((data.astype(self._dtype, copy=False), indices, indptr), shape=shape)

    def count(self, inputs: Inputs, rows: Ints) -> Counted:
        """Count some rows, which must be sorted by their parents."""
        if len(self._pieces) > CACHE_SIZE:
            self._pieces.forget()
        parent = inputs.parent[rows]
        first_row = np.flatnonzero(np.diff(parent, prepend=-1, append=-1)) if len(rows) else np.zeros(1, np.int64)
        parents = _Texts([inputs.parents[p] for p in parent[first_row[:-1]].tolist()], self._pieces)
        owner = np.repeat(np.arange(len(first_row) - 1), np.diff(first_row))
        index, first = inputs.edit_columns(rows)
        shift = np.repeat(parents.character_start[owner], np.diff(first))
        words = [inputs.replacements[k] for k in inputs.replacement[index].tolist()]
        afters = _Afters()
        regions = parents.regions(inputs.start[index] + shift, inputs.end[index] + shift, words, first, afters)
        return self._counted(parents, first_row.astype(np.int64), owner, regions, _Texts(list(afters), self._pieces))

    def _counted(self, parents: _Texts, first_row: Ints, owner: Ints, regions: _Regions, afters: _Texts) -> Counted:
        tokens, start = parents.tokens, parents.token_start
        n_grams = self._grams.reach + 1
        parent_room = start * n_grams
        columns, counts = np.empty(parent_room[-1], np.int64), np.empty(parent_room[-1], np.int64)
        parent_n = np.zeros(len(start) - 1, dtype=np.int64)
        count_texts(self._grams, tokens, start, parent_room, columns, counts, parent_n)

        new, new_start = afters.tokens, afters.token_start
        size = regions.end - regions.begin + np.diff(new_start)[regions.after] + 4 * self._grams.reach
        room = np.concatenate([[0], np.cumsum(size * n_grams)])[regions.first]
        row_column, row_change = np.empty(room[-1], np.int64), np.empty(room[-1], np.int64)
        spare, row_n = np.empty(room[-1], dtype=np.int32), np.zeros(len(owner), dtype=np.int64)
        where = (tokens, start, owner, *regions, new, new_start)
        count_changes(self._grams, *where, room, spare, row_column, row_change, row_n)
        largest = int(np.diff(start).max(initial=0) + np.diff(room).max(initial=0))
        of_parents = (parent_room, parent_n, columns, counts)
        return Counted(*of_parents, owner, first_row, room, row_n, row_column, row_change, largest)


def _spliced(text: str, lo: int, hi: int, edits: tuple[list[int], list[int], list[str]], a: int, b: int) -> str:
    """text[lo:hi] after the edits `a` to `b` - 1, which are given by their positions in the whole text."""
    some = zip(*(column[a:b] for column in edits), strict=True)
    return splice(text[lo:hi], [Edit(start - lo, end - lo, word) for start, end, word in some])


def _is_blank(text: str) -> NDArray[np.bool_]:
    """Which characters are ASCII blanks."""
    codes: NDArray[Any]
    if text.isascii():
        codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.asarray((codes == 32) | ((codes >= 9) & (codes <= 13)))


def _starts(parts: Sequence[Sized]) -> Ints:
    """Where each part begins when the parts are concatenated; then where the last one ends."""
    start = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, count=len(parts)), out=start[1:])
    return start
