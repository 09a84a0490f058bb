"""What was known before the test, as numbers: attributes, labels of earlier cases, words of earlier notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.context.sources import EarlierLabels
from palpate.cases.edits import Ints
from palpate.privacy import hides
from palpate.stats.context.pretest_model import (
    category_columns,
    frequent_words,
    number_columns,
    rows_with,
    standardised,
)

Floats = NDArray[np.float64]
_MOST_WORDS, _FEWEST_NOTES, _LARGEST_SHARE = 8192, 5, 0.9


class FeatureColumns(NamedTuple):
    """Columns of features for every row of the cohort, [row, feature]."""

    names: tuple[str, ...]
    values: Floats


@hides("notes")
@dataclass(frozen=True, eq=False)
class HistoryFeatures:
    """What was known about every row of the cohort; means, words and values are learned from some of the rows."""

    attributes: Sequence[tuple[str, pl.Series]] = ()
    earlier: EarlierLabels | None = None
    labels: tuple[str, ...] = ()
    notes: Sequence[str | None] | None = None

    @property
    def described(self) -> str:
        """What the features are, in words."""
        parts = [name for name, _ in self.attributes]
        parts += ["labels of earlier cases"] if self.earlier is not None else []
        parts += ["words of earlier notes"] if self.notes is not None else []
        return ", ".join(parts)

    @cached_property
    def _counts(self) -> _WordCounts:
        return _WordCounts(self.notes or ())

    def learn(self, rows: Ints) -> EncodedFeatures:
        """Features as these rows define them; all but words are scaled to mean 0 and standard deviation 1."""
        parts = [_attribute(name, values, rows) for name, values in self.attributes]
        if self.earlier is not None:
            parts.append(_past(self.earlier, self.labels))
        n = len(self.notes) if self.notes is not None else len(parts[0].values) if parts else 0
        dense = np.column_stack([np.zeros((n, 0)), *(part.values for part in parts)])
        named = FeatureColumns(tuple(name for part in parts for name in part.names), dense)
        words = _NoteWords(self._counts, rows) if self.notes is not None else None
        return EncodedFeatures(named._replace(values=standardised(dense, rows) if n else dense), words)


class EncodedFeatures(NamedTuple):
    """Columns and words side by side."""

    dense: FeatureColumns
    words: _NoteWords | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.dense.names, *(self.words.names if self.words is not None else ()))

    def table(self, rows: Ints) -> Any:
        """[row, feature], sparse where there are words."""
        dense = self.dense.values[rows]
        if self.words is None:
            return dense
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(dense), self.words.table(rows)]))


def _attribute(name: str, values: pl.Series, rows: Ints) -> FeatureColumns:
    """A number and whether it is missing; or one column for each frequent value."""
    if values.dtype.is_numeric():
        numbers = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return FeatureColumns((name, f"{name} is missing"), number_columns(numbers, rows))
    kept, columns = category_columns(values.cast(pl.String).fill_null("").to_list(), rows)
    return FeatureColumns(tuple(f"{name} = {value or 'missing'}" for value in kept), columns)


def _past(earlier: EarlierLabels, labels: Sequence[str]) -> FeatureColumns:
    """How many earlier cases, the share of them with each label, and whether the last one has it."""
    names = (
        "earlier cases (log)",
        *(f"{label}: share of earlier cases" for label in labels),
        *(f"{label}: last case" for label in labels),
    )
    return FeatureColumns(names, np.column_stack([np.log1p(earlier.n), earlier.share, earlier.last]))


class _WordCounts:
    """How often each word occurs in each distinct note; counted once, for all folds. Nothing is learned here."""

    def __init__(self, notes: Sequence[str | None]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        place: dict[str, int] = {}
        self._of_row = np.asarray([place.setdefault(note or "", len(place)) for note in notes], dtype=np.int64)
        words = CountVectorizer(dtype=np.float64)
        try:
            self._counts = sparse.csr_matrix(words.fit_transform(place))
            self.names = np.asarray(words.get_feature_names_out(), dtype=object)
        except ValueError:  # no note has a word
            self._counts, self.names = sparse.csr_matrix((len(place), 0)), np.zeros(0, dtype=object)

    def of(self, rows: Ints) -> Any:
        """[row, word]"""
        return self._counts[self._of_row[rows]]


class _NoteWords:
    """Tf-idf of earlier notes; the vocabulary and the weights come from the rows that were learned from."""

    def __init__(self, counts: _WordCounts, rows: Ints) -> None:
        self._counts = counts
        x = counts.of(rows)
        in_notes = rows_with(x)
        self._kept = frequent_words(x, min_rows=_FEWEST_NOTES, max_share=_LARGEST_SHARE, most=_MOST_WORDS)
        self._rarity = np.log((1.0 + len(rows)) / (1.0 + in_notes[self._kept])) + 1.0
        self.names = tuple(counts.names[self._kept])

    def table(self, rows: Ints) -> Any:
        """[row, word]"""
        from sklearn.preprocessing import normalize

        x = sparse.csr_matrix(self._counts.of(rows)[:, self._kept])
        x.data = (1.0 + np.log(x.data)) * self._rarity[x.indices]
        return normalize(x)
