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

from palpate.audits.context_earlier import Earlier
from palpate.edits import Ints

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

    def learn(self, rows: Ints) -> EncodedFeatures:
        """Features as these rows define them."""
        parts: list[Encoded] = [_column(name, values, rows) for name, values in self.attributes]
        if self.earlier is not None:
            parts.append(_Past(self.earlier, self.labels))
        dense = EncodedFeatures(tuple(parts), rows)
        if self.notes is None:
            return dense
        return EncodedFeatures((*parts, _Words(self.notes, rows)), rows, sparse=True)


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


class _Words:
    """Tf-idf of earlier notes."""

    def __init__(self, notes: Sequence[str | None], rows: Ints) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._notes = notes
        texts = [notes[int(row)] or "" for row in rows]
        self._words = TfidfVectorizer(
            max_features=_MOST_WORDS, min_df=_FEWEST_NOTES, max_df=_LARGEST_SHARE, sublinear_tf=True
        )
        try:
            self._words.fit(texts)
            self.names = tuple(self._words.get_feature_names_out())
        except ValueError:  # no word is in enough notes
            self.names = ()

    def table(self, rows: Ints) -> Any:
        """See `Encoded`."""
        if not self.names:
            return sparse.csr_matrix((len(rows), 0))
        return self._words.transform([self._notes[int(row)] or "" for row in rows])
