"""Bag-of-words models score an edit from the difference that it makes to the counts.

A parent is tokenised once. An edit is tokenised with its surroundings only: out to the next blank on both
sides, and n - 1 tokens further where there are n-grams. The parent's counts plus the difference are exactly
the counts of the edited text; they go through the pipeline's own later steps, so tf-idf, norms and classifier
are what they would be. Entries that become zero are dropped: to XGBoost an absent entry is a missing value.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import Pipeline

from palpate.edits import Edit, Inputs, Ints, splice
from palpate.models._estimators import EstimatorModel, EstimatorOptions
from palpate.models._token_patterns import BLANKS, is_local
from palpate.models.options import Options
from palpate.models.protocol import Probabilities

Difference = tuple[tuple[int, int], ...]
"""Columns and what is added to their counts, by column."""
Tokens = tuple[str, ...]

NOTHING: Difference = ()
CACHE_SIZE = 200_000
"""Pieces of text, and edits, whose tokens and differences are remembered."""
BLOCK_ROWS = 1024
_PIECE = re.compile(f"[^{BLANKS}]+")


def estimator_model(
    estimator: Any, options: EstimatorOptions | Options, *, fingerprint: str, file: Path
) -> EstimatorModel:
    """The model for a fitted estimator: from count differences where that gives the same numbers."""
    kind = BagOfWordsModel if _counts_words(estimator) else EstimatorModel
    return kind(estimator, options, fingerprint=fingerprint, file=file)


def _counts_words(estimator: Any) -> bool:
    """Whether a pipeline starts with a word counter whose tokens never reach across a blank."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) < 2:
        return False
    first = estimator[0]
    return (
        type(first) in (CountVectorizer, TfidfVectorizer)
        and first.input == "content"
        and first.analyzer == "word"
        and first.tokenizer is None
        and first.preprocessor is None
        and first.strip_accents in (None, "ascii", "unicode")
        and is_local(first.token_pattern)
    )


class BagOfWordsModel(EstimatorModel):
    """A pipeline whose first step counts words."""

    uses_edits = True
    rows_per_call = 2048

    def __init__(self, estimator: Any, options: Options, *, fingerprint: str, file: Path) -> None:
        super().__init__(estimator, options, fingerprint=fingerprint, file=file)
        self._words = WordCounts(estimator[0])
        self._tfidf = estimator[0]._tfidf if isinstance(estimator[0], TfidfVectorizer) else None
        self._later = estimator[1:]

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the edited texts, which are not put together."""
        if not len(inputs):
            return np.zeros((0, len(self.labels)))
        counts = self._words.count(inputs)
        blocks = []
        size = min(self.rows_per_call, BLOCK_ROWS)
        for first in range(0, len(counts.pairs), size):
            rows = counts.rows(counts.pairs[first : first + size])
            if self._tfidf is not None:
                rows = self._tfidf.transform(rows, copy=False)
            blocks.append(self._ask(self._later, rows))
        return np.concatenate(blocks)[counts.row_pair]


class Counted(NamedTuple):
    """Counts of many texts, as distinct pairs of a parent and a difference."""

    parents: Any
    differences: Any
    pairs: Ints
    row_pair: Ints
    binary: bool
    dtype: Any

    def rows(self, pairs: Ints) -> Any:
        """The count rows of some pairs: sorted columns, no zeros."""
        rows = self.parents[pairs[:, 0]]
        if self.differences.nnz:
            rows = rows + self.differences[pairs[:, 1]]
        if self.binary:
            rows.data.fill(1)
        return rows.astype(self.dtype, copy=False)


class WordCounts:
    """The counts of a fitted vectorizer, for texts that are given as parents and edits."""

    def __init__(self, vectorizer: CountVectorizer | TfidfVectorizer) -> None:
        self._binary, self._dtype = bool(vectorizer.binary), vectorizer.dtype
        self._counter = copy.copy(vectorizer)
        self._counter.binary = False
        if self._dtype != np.float64:  # which holds counts, also negative ones, as exactly and saves a copy
            self._counter.dtype = np.int64
        self._transform([""])
        self._vocabulary: dict[str, int] = self._counter.vocabulary_
        self._min_n, self._max_n = vectorizer.ngram_range
        self._preprocess = vectorizer.build_preprocessor()
        self._find = vectorizer.build_tokenizer()
        self._stop_words = vectorizer.get_stop_words() or frozenset()
        self._pieces: dict[str, Tokens] = {}
        self._known: dict[tuple[Tokens, str, str, Tokens], Difference] = {}

    def count(self, inputs: Inputs) -> Counted:
        """Tokenise the parents and the surroundings of the edits."""
        used, parent = np.unique(inputs.parent, return_inverse=True)
        numbers: dict[Difference, int] = {NOTHING: 0}
        difference = np.zeros(len(inputs), dtype=np.int64)
        for row, change in self._changes(inputs):
            difference[row] = numbers.setdefault(change, len(numbers))
        parents = self._transform([inputs.parents[int(p)] for p in used])
        width = len(numbers)
        distinct, row_pair = np.unique(parent * width + difference, return_inverse=True)
        return Counted(
            parents=parents,
            differences=_stack(list(numbers), parents),
            pairs=np.column_stack([distinct // width, distinct % width]),
            row_pair=row_pair,
            binary=self._binary,
            dtype=self._dtype,
        )

    def _transform(self, texts: Sequence[str]) -> Any:
        # Called on the class: TfidfVectorizer's own transform goes on to weigh the counts.
        return CountVectorizer.transform(self._counter, texts)

    def _changes(self, inputs: Inputs) -> Iterator[tuple[int, Difference]]:
        """Each edited row and what its edits change."""
        edited = np.flatnonzero(inputs.n_edits)
        edited = edited[np.argsort(inputs.parent[edited], kind="stable")]
        parents = inputs.parent[edited]
        for rows in np.split(edited, np.flatnonzero(np.diff(parents)) + 1):
            if len(rows):
                parent = self._parent(inputs.parents[int(inputs.parent[rows[0]])])
                yield from self._changes_of_one(inputs, parent, rows)

    def _changes_of_one(self, inputs: Inputs, parent: _Parent, rows: Ints) -> Iterator[tuple[int, Difference]]:
        """The same, for rows that share a parent."""
        n_edits = inputs.n_edits[rows]
        single = rows[n_edits == 1]
        edits = inputs.first_edit[single]
        start, end = inputs.start[edits], inputs.end[edits]
        left, right = parent.surroundings(start, end)
        spans = zip(start.tolist(), end.tolist(), left.tolist(), right.tolist(), strict=True)
        words = [inputs.replacements[k] for k in inputs.replacement[edits].tolist()]
        text = parent.text
        for row, (s, e, lo, hi), word in zip(single.tolist(), spans, words, strict=True):
            yield row, self._difference(parent, lo, hi, text[lo:s] + word + text[e:hi])
        for row in rows[n_edits > 1].tolist():
            yield row, self._difference_of_many(parent, inputs.edits(row))

    def _difference_of_many(self, parent: _Parent, edits: list[Edit]) -> Difference:
        """The difference of several edits: those that can share an n-gram are taken as one."""
        total: Counter[int] = Counter()
        for lo, hi, group in parent.regions(edits, reach=self._max_n - 1):
            local = [Edit(start - lo, end - lo, text) for start, end, text in group]
            for column, change in self._difference(parent, lo, hi, splice(parent.text[lo:hi], local)):
                total[column] += change
        return _without_zeros(total)

    def _difference(self, parent: _Parent, lo: int, hi: int, after: str) -> Difference:
        """What it changes to have `after` in the place of `parent[lo:hi]`; both ends are at blanks."""
        before = parent.text[lo:hi]
        head, tail = parent.context(lo, hi, reach=self._max_n - 1)
        key = (head, before, after, tail)
        known = self._known.get(key)
        if known is None:
            change: Counter[int] = Counter()
            change.update(self._columns(head + self._tokens(after) + tail))
            change.subtract(self._columns(head + self._tokens(before) + tail))
            known = _without_zeros(change)
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            self._known[key] = known
        return known

    def _columns(self, tokens: Tokens) -> Iterator[int]:
        """The columns of the n-grams of some tokens, those outside the vocabulary left out."""
        for n in range(self._min_n, self._max_n + 1):
            for k in range(len(tokens) - n + 1):
                column = self._vocabulary.get(" ".join(tokens[k : k + n]))
                if column is not None:
                    yield column

    def _tokens(self, text: str) -> Tokens:
        """The tokens of a text that begins and ends at blanks, without stop words."""
        return tuple(token for piece in _PIECE.findall(text) for token in self._piece(piece))

    def _piece(self, piece: str) -> Tokens:
        known = self._pieces.get(piece)
        if known is None:
            stop_words = self._stop_words
            known = tuple(token for token in self._find(self._preprocess(piece)) if token not in stop_words)
            if len(self._pieces) >= CACHE_SIZE:
                self._pieces.clear()
            self._pieces[piece] = known
        return known

    def _parent(self, text: str) -> _Parent:
        blank = _is_blank(text)
        if self._max_n == 1:
            return _Parent(text, np.flatnonzero(blank), np.zeros(0, np.int64), np.zeros(1, np.int64), ())
        first = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]])) if len(text) else np.flatnonzero(blank)
        pieces = [self._piece(piece) for piece in _PIECE.findall(text)]
        before = np.cumsum([0, *map(len, pieces)])
        return _Parent(text, np.flatnonzero(blank), first, before, tuple(t for piece in pieces for t in piece))


class _Parent(NamedTuple):
    """A text with its blanks and, where there are n-grams, its pieces and tokens."""

    text: str
    blanks: Ints
    piece_start: Ints
    tokens_before: Ints
    """How many tokens stand before each piece, and in all."""
    tokens: Tokens

    def surroundings(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Each span, extended to the next blank on both sides."""
        edges = np.concatenate([[-1], self.blanks, [len(self.text)]])
        left = edges[np.searchsorted(self.blanks, start, side="left")] + 1
        right = edges[np.searchsorted(self.blanks, end, side="left") + 1]
        return left, right

    def token_span(self, lo: int, hi: int) -> tuple[int, int]:
        """Which tokens are between two blanks."""
        first, last = np.searchsorted(self.piece_start, [lo, hi], side="left")
        return int(self.tokens_before[first]), int(self.tokens_before[last])

    def context(self, lo: int, hi: int, *, reach: int) -> tuple[Tokens, Tokens]:
        """The `reach` tokens before and after."""
        if not reach:
            return (), ()
        first, last = self.token_span(lo, hi)
        return self.tokens[max(0, first - reach) : first], self.tokens[last : last + reach]

    def regions(self, edits: list[Edit], *, reach: int) -> Iterator[tuple[int, int, list[Edit]]]:
        """Edits in groups that have no n-gram in common, each with the span that it touches."""
        left, right = self.surroundings(
            np.array([edit.start for edit in edits]), np.array([edit.end for edit in edits])
        )
        lo, hi, group = int(left[0]), int(right[0]), [edits[0]]
        for edit, next_lo, next_hi in zip(edits[1:], left[1:].tolist(), right[1:].tolist(), strict=True):
            touching = next_lo <= hi
            if reach and not touching:
                touching = self.token_span(next_lo, next_hi)[0] - self.token_span(lo, hi)[1] < reach
            if not touching:
                yield lo, hi, group
                lo, group = next_lo, []
            hi = max(hi, next_hi) if touching else next_hi
            group.append(edit)
        yield lo, hi, group


def _is_blank(text: str) -> NDArray[np.bool_]:
    """Which characters are ASCII blanks."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return np.asarray((codes == 32) | ((codes >= 9) & (codes <= 13)))


def _without_zeros(change: Counter[int]) -> Difference:
    return tuple(sorted((column, n) for column, n in change.items() if n))


def _stack(differences: Sequence[Difference], like: Any) -> Any:
    """Differences as the rows of a matrix of the same kind and width as `like`."""
    indptr = np.cumsum([0, *map(len, differences)])
    pairs = np.array([pair for each in differences for pair in each], dtype=np.int64).reshape(-1, 2)
    kind = sparse.csr_array if isinstance(like, sparse.sparray) else sparse.csr_matrix
    return kind((pairs[:, 1], pairs[:, 0], indptr), shape=(len(differences), like.shape[1]), dtype=like.dtype)
