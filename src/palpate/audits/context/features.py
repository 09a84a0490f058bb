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

from palpate.audits.context.earlier import Earlier
from palpate.cases.edits import Ints

Floats = NDArray[np.float64]
_MOST_WORDS, _FEWEST_NOTES, _LARGEST_SHARE = 8192, 5, 0.9
_FEWEST_OF_KIND = 10
"""A value of an attribute that fewer training cases have gets no column."""


class Encoded(Protocol):
    """Features as learned from some rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        ...

    def table(self, rows: Ints) -> Any:
        """[row, feature]"""
        ...


@dataclass(frozen=True, eq=False)
class Features:
    """All rows of the cohort; what is learned (means, words, kinds) comes from the rows that `learn` gets."""

    attributes: Sequence[tuple[str, pl.Series]] = ()
    earlier: Earlier | None = None
    labels: tuple[str, ...] = ()
    notes: Sequence[str | None] | None = None

    @property
    def described(self) -> str:
        """In words."""
        parts = [name for name, _ in self.attributes]
        parts += ["labels of earlier cases"] if self.earlier is not None else []
        parts += ["words of earlier notes"] if self.notes is not None else []
        return ", ".join(parts)

    @cached_property
    def _counted(self) -> _Counted:
        return _Counted(self.notes or ())

    def learn(self, rows: Ints) -> EncodedFeatures:
        """Features as these rows define them."""
        parts: list[Encoded] = [_column(name, values, rows) for name, values in self.attributes]
        if self.earlier is not None:
            parts.append(_Past(self.earlier, self.labels))
        dense = EncodedFeatures(tuple(parts), rows)
        if self.notes is None:
            return dense
        return EncodedFeatures((*parts, _Words(self._counted, rows)), rows, sparse=True)


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """Columns side by side; those of a table are brought to mean 0 and standard deviation 1."""

    parts: tuple[Encoded, ...]
    rows: Ints
    sparse: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all columns."""
        return tuple(name for part in self.parts for name in part.names)

    @cached_property
    def _scale(self) -> tuple[Floats, Floats]:
        x = self._dense(self.rows)
        spread = x.std(axis=0)
        return x.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def _dense(self, rows: Ints) -> Floats:
        tables = [part.table(rows) for part in self.parts if not isinstance(part, _Words)]
        return np.column_stack(tables) if tables else np.zeros((len(rows), 0))

    def table(self, rows: Ints) -> Any:
        """[row, feature], sparse where there are words."""
        centre, spread = self._scale
        dense = (self._dense(rows) - centre) / spread
        if not self.sparse:
            return dense
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(dense), self.parts[-1].table(rows)]))


def _column(name: str, values: pl.Series, rows: Ints) -> Encoded:
    return _Number(name, values, rows) if values.dtype.is_numeric() else _Kind(name, values, rows)


class _Number:
    """A number, its mean where it is missing, and whether it is."""

    def __init__(self, name: str, values: pl.Series, rows: Ints) -> None:
        self._values = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        known = self._values[rows][~np.isnan(self._values[rows])]
        self._mean = float(known.mean()) if len(known) else 0.0
        self.names = (name, f"{name} is missing")

    def table(self, rows: Ints) -> Floats:
        """See `Encoded`."""
        missing = np.isnan(self._values[rows])
        return np.column_stack([np.where(missing, self._mean, self._values[rows]), missing])


class _Kind:
    """A column for each value that is frequent enough."""

    def __init__(self, name: str, values: pl.Series, rows: Ints) -> None:
        self._values = np.asarray(values.cast(pl.String).fill_null("").to_list(), dtype=object)
        kinds, counts = np.unique(self._values[rows].astype(str), return_counts=True)
        self._kinds = [str(kind) for kind in kinds[counts >= _FEWEST_OF_KIND]]
        self.names = tuple(f"{name} = {kind or 'missing'}" for kind in self._kinds)

    def table(self, rows: Ints) -> Floats:
        """See `Encoded`."""
        mine = self._values[rows]
        columns = [(mine == kind).astype(np.float64) for kind in self._kinds]
        return np.column_stack(columns) if columns else np.zeros((len(rows), 0))


class _Past:
    """How many earlier cases, the share of them with each label, and whether the last one has it."""

    def __init__(self, earlier: Earlier, labels: Sequence[str]) -> None:
        self._earlier = earlier
        self.names = (
            "earlier cases (log)",
            *(f"{label}: share of earlier cases" for label in labels),
            *(f"{label}: last case" for label in labels),
        )

    def table(self, rows: Ints) -> Floats:
        """See `Encoded`."""
        past = self._earlier
        return np.column_stack([np.log1p(past.n[rows]), past.share[rows], past.last[rows]])


class _Counted:
    """How often each word is in each different note; counted once, for all folds. Nothing is learned here."""

    def __init__(self, notes: Sequence[str | None]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        place: dict[str, int] = {}
        self._of_row = np.asarray([place.setdefault(note or "", len(place)) for note in notes], dtype=np.int64)
        words = CountVectorizer(dtype=np.float64)
        try:
            self._counts = sparse.csr_matrix(words.fit_transform(place))
            self.names = np.asarray(words.get_feature_names_out(), dtype=object)
        except ValueError:  # the notes have no word
            self._counts, self.names = sparse.csr_matrix((len(place), 0)), np.zeros(0, dtype=object)

    def of(self, rows: Ints) -> Any:
        """[row, word]"""
        return self._counts[self._of_row[rows]]


class _Words:
    """Tf-idf of earlier notes, with the words and the weights that the learned rows give."""

    def __init__(self, counted: _Counted, rows: Ints) -> None:
        self._counted = counted
        x = counted.of(rows)
        in_notes = np.bincount(x.indices, minlength=x.shape[1])
        kept = np.flatnonzero((in_notes >= _FEWEST_NOTES) & (in_notes <= _LARGEST_SHARE * len(rows)))
        often = np.asarray(x.sum(axis=0)).ravel()[kept]
        self._kept = np.sort(kept[np.argsort(-often, kind="stable")[:_MOST_WORDS]])
        self._rarity = np.log((1.0 + len(rows)) / (1.0 + in_notes[self._kept])) + 1.0
        self.names = tuple(counted.names[self._kept])

    def table(self, rows: Ints) -> Any:
        """See `Encoded`."""
        from sklearn.preprocessing import normalize

        x = sparse.csr_matrix(self._counted.of(rows)[:, self._kept])
        x.data = (1.0 + np.log(x.data)) * self._rarity[x.indices]
        return normalize(x)
