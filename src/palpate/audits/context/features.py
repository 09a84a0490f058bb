"""What was known before the test, as numbers: attributes, labels of earlier cases, words of earlier notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.context.sources import EarlierLabels
from palpate.cases.edits import Ints

Floats = NDArray[np.float64]
_MOST_WORDS, _FEWEST_NOTES, _LARGEST_SHARE = 8192, 5, 0.9
_FEWEST_WITH_VALUE = 10
"""A value of an attribute gets a column if at least this many training cases have it."""


class FeatureColumns(Protocol):
    """Columns of features, with what was learned about them from some rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        ...

    def table(self, rows: Ints) -> Any:
        """[row, feature]"""
        ...


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
        """Features as these rows define them."""
        parts: list[FeatureColumns] = [_column(name, values, rows) for name, values in self.attributes]
        if self.earlier is not None:
            parts.append(_Past(self.earlier, self.labels))
        dense = EncodedFeatures(tuple(parts), rows)
        if self.notes is None:
            return dense
        return EncodedFeatures((*parts, _NoteWords(self._counts, rows)), rows, sparse=True)


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """Columns side by side; all but words are scaled to mean 0 and standard deviation 1."""

    parts: tuple[FeatureColumns, ...]
    rows: Ints
    sparse: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(name for part in self.parts for name in part.names)

    @cached_property
    def _scale(self) -> tuple[Floats, Floats]:
        x = self._dense(self.rows)
        spread = x.std(axis=0)
        return x.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def _dense(self, rows: Ints) -> Floats:
        tables = [part.table(rows) for part in self.parts if not isinstance(part, _NoteWords)]
        return np.column_stack(tables) if tables else np.zeros((len(rows), 0))

    def table(self, rows: Ints) -> Any:
        """[row, feature], sparse where there are words."""
        centre, spread = self._scale
        dense = (self._dense(rows) - centre) / spread
        if not self.sparse:
            return dense
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(dense), self.parts[-1].table(rows)]))


def _column(name: str, values: pl.Series, rows: Ints) -> FeatureColumns:
    return _Number(name, values, rows) if values.dtype.is_numeric() else _Category(name, values, rows)


class _Number:
    """A number, with its mean where it is missing, and whether it is missing."""

    def __init__(self, name: str, values: pl.Series, rows: Ints) -> None:
        self._values = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        known = self._values[rows][~np.isnan(self._values[rows])]
        self._mean = float(known.mean()) if len(known) else 0.0
        self.names = (name, f"{name} is missing")

    def table(self, rows: Ints) -> Floats:
        """See `FeatureColumns`."""
        missing = np.isnan(self._values[rows])
        return np.column_stack([np.where(missing, self._mean, self._values[rows]), missing])


class _Category:
    """One column for each value that is frequent enough."""

    def __init__(self, name: str, values: pl.Series, rows: Ints) -> None:
        self._values = np.asarray(values.cast(pl.String).fill_null("").to_list(), dtype=object)
        found, counts = np.unique(self._values[rows].astype(str), return_counts=True)
        self._kept = [str(value) for value in found[counts >= _FEWEST_WITH_VALUE]]
        self.names = tuple(f"{name} = {value or 'missing'}" for value in self._kept)

    def table(self, rows: Ints) -> Floats:
        """See `FeatureColumns`."""
        mine = self._values[rows]
        columns = [(mine == value).astype(np.float64) for value in self._kept]
        return np.column_stack(columns) if columns else np.zeros((len(rows), 0))


class _Past:
    """How many earlier cases, the share of them with each label, and whether the last one has it."""

    def __init__(self, earlier: EarlierLabels, labels: Sequence[str]) -> None:
        self._earlier = earlier
        self.names = (
            "earlier cases (log)",
            *(f"{label}: share of earlier cases" for label in labels),
            *(f"{label}: last case" for label in labels),
        )

    def table(self, rows: Ints) -> Floats:
        """See `FeatureColumns`."""
        past = self._earlier
        return np.column_stack([np.log1p(past.n[rows]), past.share[rows], past.last[rows]])


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
        in_notes = np.bincount(x.indices, minlength=x.shape[1])
        kept = np.flatnonzero((in_notes >= _FEWEST_NOTES) & (in_notes <= _LARGEST_SHARE * len(rows)))
        often = np.asarray(x.sum(axis=0)).ravel()[kept]
        self._kept = np.sort(kept[np.argsort(-often, kind="stable")[:_MOST_WORDS]])
        self._rarity = np.log((1.0 + len(rows)) / (1.0 + in_notes[self._kept])) + 1.0
        self.names = tuple(counts.names[self._kept])

    def table(self, rows: Ints) -> Any:
        """See `FeatureColumns`."""
        from sklearn.preprocessing import normalize

        x = sparse.csr_matrix(self._counts.of(rows)[:, self._kept])
        x.data = (1.0 + np.log(x.data)) * self._rarity[x.indices]
        return normalize(x)
