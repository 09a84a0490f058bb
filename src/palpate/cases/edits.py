"""Variants: what an audit wants scored, as span replacements in columns.

A variant is a parent text (a case of the cohort, or a text that the audit made) with zero or more replacements
`(start, end, text)`. Text is spliced only when it is scored, so each of a million variants of long notes costs a few
bytes. `Inputs` is the same for a model: the rows of one batch.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from palpate.cases import scratch
from palpate.privacy import hides

Ints = NDArray[np.int64]


@hides("text")
class Edit(NamedTuple):
    """Replace `parent[start:end]` with `text`; offsets are in characters.

    >>> splice("He sleeps.", [Edit(0, 2, "She")])
    'She sleeps.'
    """

    start: int
    end: int
    text: str


class Skip(NamedTuple):
    """A case that is altered in no group, because it can't be altered in one of them, and why."""

    case: int
    reason: str


def splice(parent: str, edits: Iterable[Edit]) -> str:
    """The parent text with its edits applied; they must be sorted and must not overlap."""
    pieces: list[str] = []
    position = 0
    for start, end, text in edits:
        pieces += (parent[position:start], text)
        position = end
    pieces.append(parent[position:])
    return "".join(pieces)


@hides("replacements")
@dataclass(frozen=True, eq=False)
class _Edited:
    """Rows that are parents with edits; row i has the edits `first_edit[i]` to `first_edit[i + 1] - 1`."""

    parent: Ints
    first_edit: Ints
    start: Ints
    end: Ints
    replacement: Ints
    replacements: Sequence[str]

    def __len__(self) -> int:
        return len(self.parent)

    def edits(self, row: int) -> list[Edit]:
        """The edits of one row, in order."""
        first, last = int(self.first_edit[row]), int(self.first_edit[row + 1])
        return [
            Edit(int(self.start[k]), int(self.end[k]), self.replacements[int(self.replacement[k])])
            for k in range(first, last)
        ]

    @cached_property
    def n_edits(self) -> Ints:
        """How many edits each row has; 0 means the parent itself. Computed once: callers may read it in a loop."""
        return scratch.differences(self.first_edit)  # type: ignore[no-any-return]

    def edit_columns(self, rows: Ints) -> tuple[Ints, Ints]:
        """The edit indices of `rows`, and their new `first_edit`."""
        # Only these rows: the runner calls this once per note.
        counts = self.first_edit[rows + 1] - self.first_edit[rows]
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        index = np.repeat(self.first_edit[rows] - first[:-1], counts) + np.arange(first[-1])
        return index.astype(np.int64), first


@hides("replacements", "made")
@dataclass(frozen=True, eq=False)
class Variants(_Edited):
    """Everything one audit wants scored.

    `parent` numbers the cohort's rows first and then the texts in `made`, so a made text can be edited too. `group` is
    the arm of the audit that a row belongs to, as an index into `group_names`.

    >>> len(Variants.of_cases([0, 1, 2]))
    3
    """

    group: Ints
    group_names: tuple[str, ...]
    made: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        begins = np.zeros(max(len(self.start), int(self.first_edit.max(initial=0))) + 1, dtype=bool)
        begins[self.first_edit[1:-1]] = True
        overlap = ~begins[1 : len(self.start)] & (self.start[1:] < self.end[:-1])
        if np.any(self.start < 0) or np.any(self.end < self.start) or np.any(overlap):
            raise ValueError("the edits of a variant must be sorted spans that do not overlap")

    @classmethod
    def of_cases(cls, rows: Ints | Sequence[int], *, group: str = "original") -> Variants:
        """Cases of the cohort, unedited."""
        none = np.zeros(0, dtype=np.int64)
        n = len(rows)
        return cls(
            parent=np.asarray(rows, dtype=np.int64),
            first_edit=np.zeros(n + 1, dtype=np.int64),
            start=none,
            end=none,
            replacement=none,
            replacements=(),
            group=np.zeros(n, dtype=np.int64),
            group_names=(group,),
        )

    def rows_of(self, group: str) -> Ints:
        """The rows of one arm."""
        return np.flatnonzero(self.group == self.group_names.index(group))


@hides("_texts", "_made")
@dataclass
class VariantsBuilder:
    """Collects variants one at a time; for audits whose plan is not vectorised."""

    n_cases: int
    _parent: list[int] = field(default_factory=list)
    _group: list[int] = field(default_factory=list)
    _first: list[int] = field(default_factory=lambda: [0])
    _spans: array[int] = field(default_factory=lambda: array("q"))
    """Start, end and index of the replacement of each edit, one after the other: there may be millions."""
    _groups: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, int] = field(default_factory=dict)
    _made: list[str] = field(default_factory=list)

    def add(self, parent: int, group: str, edits: Iterable[Edit] = ()) -> int:
        """Add a case, edited or not; returns its row."""
        self._parent.append(parent)
        self._group.append(self._groups.setdefault(group, len(self._groups)))
        for start, end, text in edits:
            self._spans.extend((start, end, self._texts.setdefault(text, len(self._texts))))
        self._first.append(len(self._spans) // 3)
        return len(self._parent) - 1

    def make(self, text: str, group: str) -> int:
        """Add a text that is not a case of the cohort; returns its row."""
        self._made.append(text)
        return self.add(self.n_cases + len(self._made) - 1, group)

    def build(self) -> Variants:
        """All variants that were added, in columns."""
        spans = np.asarray(self._spans, dtype=np.int64).reshape(-1, 3)
        return Variants(
            parent=np.asarray(self._parent, dtype=np.int64),
            first_edit=np.asarray(self._first, dtype=np.int64),
            start=spans[:, 0],
            end=spans[:, 1],
            replacement=spans[:, 2],
            replacements=tuple(self._texts),
            group=np.asarray(self._group, dtype=np.int64),
            group_names=tuple(self._groups) or ("original",),
            made=tuple(self._made),
        )


class NamesOfRows(Sequence[str]):
    """What the rows' parents are called, looked up when it is read: millions of rows have few parents.

    >>> list(NamesOfRows(["a", "b"], np.array([1, 1, 0])))
    ['b', 'b', 'a']
    """

    def __init__(self, names: Sequence[str], parent: Ints) -> None:
        self.names, self._parent = names, parent

    def __len__(self) -> int:
        return len(self._parent)

    def __iter__(self) -> Iterator[str]:
        return (self.names[parent] for parent in self._parent.tolist())

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> NamesOfRows: ...
    def __getitem__(self, row: int | slice) -> str | NamesOfRows:
        if isinstance(row, slice):
            return NamesOfRows(self.names, self._parent[row])
        return self.names[int(self._parent[row])]

    def take(self, rows: Ints) -> list[str]:
        """The names of some rows, which may be thousands of each of many calls."""
        return [self.names[parent] for parent in self._parent[rows].tolist()]


@hides("replacements", "parents")
@dataclass(frozen=True, eq=False)
class Inputs(_Edited):
    """What a model is asked to score: rows, in columns, whose `texts` are spliced on first use.

    A model that reads text uses `texts`. A model that can work from differences uses `parents`, `parent` and
    `edits(row)`. A model that looks predictions up uses `case_ids`, `cohorts` and `n_edits`; a row that is not a case
    of the cohort has an empty case id. A model that reads images uses `images`, one file per row, empty if the cohort
    has no images.

    >>> Inputs.from_texts(["a note", "another"]).texts
    ['a note', 'another']
    """

    parents: Sequence[str]
    case_ids: Sequence[str]
    cohorts: Sequence[str]
    images: Sequence[str] = ()

    @classmethod
    def from_images(cls, images: Sequence[str], case_ids: Sequence[str] | None = None) -> Inputs:
        """Image files without text; for tests and for using a model on its own."""
        return replace(cls.from_texts([""] * len(images), case_ids), images=images)

    @classmethod
    def from_texts(cls, texts: Sequence[str], case_ids: Sequence[str] | None = None) -> Inputs:
        """Plain texts; for tests and for using a model on its own."""
        none = np.zeros(0, dtype=np.int64)
        n = len(texts)
        return cls(
            parent=np.arange(n),
            first_edit=np.zeros(n + 1, dtype=np.int64),
            start=none,
            end=none,
            replacement=none,
            replacements=(),
            parents=texts,
            case_ids=case_ids if case_ids is not None else [str(i) for i in range(n)],
            cohorts=[""] * n,
        )

    @cached_property
    def texts(self) -> list[str]:
        """The texts to score."""
        edited = self.n_edits > 0
        return [
            splice(self.parents[int(p)], self.edits(row)) if edited[row] else self.parents[int(p)]
            for row, p in enumerate(self.parent)
        ]

    def without_edits(self, rows: NDArray[np.bool_]) -> Inputs:
        """The same rows, but unedited where `rows` is true."""
        kept = np.repeat(~rows, self.n_edits)
        counts = np.where(rows, 0, self.n_edits)
        return replace(
            self,
            first_edit=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            start=self.start[kept],
            end=self.end[kept],
            replacement=self.replacement[kept],
        )

    def take(self, rows: Ints | Sequence[int]) -> Inputs:
        """Some of the rows, with only the parents and replacements that they need."""
        rows = np.asarray(rows, dtype=np.int64)
        index, first = self.edit_columns(rows)
        used, parent = np.unique(self.parent[rows], return_inverse=True)
        words, replacement = np.unique(self.replacement[index], return_inverse=True)
        return Inputs(
            parent=parent.astype(np.int64),
            first_edit=first,
            start=self.start[index],
            end=self.end[index],
            replacement=replacement.astype(np.int64),
            replacements=[self.replacements[w] for w in words.tolist()],
            parents=[self.parents[p] for p in used.tolist()],
            case_ids=_taken(self.case_ids, rows),
            cohorts=_taken(self.cohorts, rows),
            images=[self.images[r] for r in rows.tolist()] if self.images else (),
        )


def _taken(names: Sequence[str], rows: Ints) -> list[str]:
    return names.take(rows) if isinstance(names, NamesOfRows) else [names[row] for row in rows.tolist()]
