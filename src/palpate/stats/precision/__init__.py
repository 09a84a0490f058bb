"""How much the cases of a metric can say: rows, patients, rows per patient, and what unequal weights leave of them.

Unequal sampling weights make a weighted mean vary as that of fewer rows of equal weight would: (sum w)^2 / sum w^2 of
them (Kish 1965). Intervals take that number of rows, and as large a part of the patients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats.arguments import Unit
from palpate.stats.inputs import Floats, divide

MANY = 50.0
"""Patients above which rows may vary less than independent ones of equal weight would."""
_AT_ONCE = 8_000_000
"""Cases x labels that are counted at a time."""


class Weighing(NamedTuple):
    """What sampling weights do to the counts of each label."""

    kept: Floats
    """The share of the rows that is left (Kish), among those with the label, those without it, and all: [3, label]."""
    prevalence: Floats
    """The weighted share of rows with the label."""

    def column(self, k: int) -> Weighing:
        """Those of one label."""
        return Weighing(*(each[..., k : k + 1] for each in self))


class Counts(NamedTuple):
    """How many rows and patients metrics are about, for each label."""

    n: NDArray[np.int64]
    n_positive: NDArray[np.int64]
    n_units: NDArray[np.int64]
    """Patients (or cases) with a positive row, and with a negative one: [2, label]."""
    sizes: Floats | None = None
    """Rows per patient of each class, as a row sees it (`cluster_sizes`): [2, label]; by default the mean."""
    weighing: Weighing | None = None
    """With sampling weights."""

    @property
    def positive(self) -> Floats:
        """Rows with the label, as many of equal weight as would say as much."""
        return self._kept(0) * self.n_positive

    @property
    def negative(self) -> Floats:
        """Rows without the label, as many of equal weight as would say as much."""
        return self._kept(1) * (self.n - self.n_positive)

    @property
    def total(self) -> Floats:
        """All rows, as many of equal weight as would say as much."""
        return self._kept(2) * self.n

    @property
    def kept_of_all(self) -> Floats:
        """The share of the rows that weights leave: 1 without them."""
        return self._kept(2)

    @property
    def of_outcome(self) -> Floats:
        """For the share of rows with the label: as many rows of equal weight as would say as much.

        Where weights depend on the outcome (all events are kept, and one in ten of the others) these are more than
        `total`: the heavy rows are not the ones that tell. That counts as far as both classes have many patients.
        """
        if self.weighing is None:
            return self.total
        p = self.prevalence
        apart = 1.0 / np.maximum(self.positive, 1e-9) + 1.0 / np.maximum(self.negative, 1e-9)
        own = np.maximum(1.0 / np.maximum(p * (1.0 - p) * apart, 1e-9), self.total)
        known = np.maximum(1.0 - MANY / np.maximum(self.units.min(axis=0), 1e-9), 0.0)
        return np.asarray(self.total + known * (own - self.total))

    @property
    def mixed(self) -> Floats:
        """What is left of a number of rows of both classes that each class alone would count for: at most 1."""
        if self.weighing is None:
            return np.ones(len(self.n))
        return np.asarray(np.minimum(self.total / np.maximum(self.positive + self.negative, 1e-9), 1.0))

    @property
    def units(self) -> Floats:
        """Patients of each class, less in proportion to what weights leave of its rows: [2, label]."""
        return np.asarray(self.n_units * np.stack([self._kept(0), self._kept(1)]), np.float64)

    @property
    def prevalence(self) -> Floats:
        """The (weighted) share of rows with the label."""
        if self.weighing is not None:
            return self.weighing.prevalence
        return np.asarray(self.n_positive / np.maximum(self.n, 1.0))

    @property
    def mean_per_unit(self) -> Floats:
        """Rows per patient, of the class that has more: the mean over patients."""
        rows = np.stack([self.n_positive, self.n - self.n_positive])
        return np.asarray((rows / np.maximum(self.n_units, 1)).max(axis=0).clip(1.0))

    @property
    def per_unit(self) -> Floats:
        """Rows per patient, of the class that has more, as a row sees it."""
        return self.mean_per_unit if self.sizes is None else np.asarray(self.sizes.max(axis=0).clip(1.0))

    def _kept(self, k: int) -> Floats:
        return np.ones(len(self.n)) if self.weighing is None else self.weighing.kept[k]


def weighing(
    y_true: NDArray[np.uint8], weight: Floats | None, rows: NDArray[np.bool_] | None = None
) -> Weighing | None:
    """What the weights of cases, [case] or [case, label], do to the labels of `y_true`, [case, label].

    `rows` says which cases count, as in `class_units`; None without weights.
    """
    if weight is None:
        return None
    each = np.broadcast_to(weight[:, None] if weight.ndim == 1 else weight, y_true.shape)
    kept, prevalence = np.ones((3, y_true.shape[1])), np.zeros(y_true.shape[1])
    for j in range(y_true.shape[1]):
        used = slice(None) if rows is None else rows[:, j]
        mass, positive = each[used, j], y_true[used, j].astype(bool)
        for k, part in enumerate((mass[positive], mass[~positive], mass)):
            squares = float((part**2).sum())
            kept[k, j] = float(part.sum()) ** 2 / (squares * len(part)) if squares > 0 else 1.0
        prevalence[j] = divide(float(mass[positive].sum()), float(mass.sum()))
    return Weighing(kept, np.nan_to_num(prevalence))


def n_distinct(codes: NDArray[np.int64]) -> int:
    """How many different codes there are, none of them negative; much faster than `np.unique` for millions."""
    return int(np.count_nonzero(np.bincount(codes))) if len(codes) else 0


def class_units(
    y_true: NDArray[np.uint8], patient: ArrayLike, unit: Unit, rows: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """How many patients (or cases) have a positive case of each label, and how many a negative one: [2, label].

    `rows`, [case, label], says which cases count; by default all.
    """
    counts = np.zeros((2, y_true.shape[1]), np.int64)
    order, first = _by_patient(patient, unit)
    for part in _label_blocks(y_true):
        for k, side in enumerate(_sides(y_true, part, rows)):
            if first is None:
                counts[k, part] = side.sum(axis=0)
            elif len(first):
                counts[k, part] = np.logical_or.reduceat(side[order], first, axis=0).sum(axis=0)
    return counts


def _by_patient(patient: ArrayLike, unit: Unit) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The rows by patient, and where each patient's begin; None where the case is the unit."""
    ids = np.asarray(patient)
    if unit == "case":
        return np.arange(len(ids)), None
    order = np.argsort(ids, kind="stable")
    first = np.flatnonzero(np.append(True, ids[order][1:] != ids[order][:-1])[: len(ids)])
    return order, first


def _label_blocks(y_true: NDArray[np.uint8]) -> Iterator[slice]:
    """Labels some at a time, so that thousands of them need little memory."""
    step = max(1, _AT_ONCE // max(len(y_true), 1))
    yield from (slice(low, low + step) for low in range(0, y_true.shape[1], step))


def _sides(
    y_true: NDArray[np.uint8], part: slice, rows: NDArray[np.bool_] | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The rows with each of some labels, and those without it."""
    positive = y_true[:, part].astype(bool)
    return (positive, ~positive) if rows is None else (positive & rows[:, part], ~positive & rows[:, part])


def cluster_sizes(
    y_true: NDArray[np.uint8],
    patient: ArrayLike,
    unit: Unit,
    rows: NDArray[np.bool_] | None = None,
    weight: Floats | None = None,
) -> Floats:
    """How many rows of its class the patient of a row has, on average over rows, for each class: [2, label].

    With weights, [case], the rows that an effective patient has of the effective rows.
    """
    sizes = np.ones((2, y_true.shape[1]))
    order, first = _by_patient(patient, unit)
    if first is None or not len(first):
        return sizes if first is None else np.zeros_like(sizes)
    for part in _label_blocks(y_true):
        for k, side in enumerate(_sides(y_true, part, rows)):
            mass = side[order] if weight is None else side[order] * weight[order, None]
            each = np.add.reduceat(mass, first, axis=0, dtype=np.float64)
            squares = each.sum(axis=0) if weight is None else (mass**2).sum(axis=0)
            sizes[k, part] = np.divide((each**2).sum(axis=0), squares, out=np.zeros(len(squares)), where=squares > 0)
    return sizes
