"""Slices: every combination of attribute values, with its metric and standard error, in one pass per combination.

A combination of attributes gives each case one code, and all slices of the combination are counted at once: means by
sums over codes, AUROCs by a stable sort of the codes in the order of the scores. So the work grows with the number of
attribute combinations, not with the number of slices. Standard errors are those of patients: influences of a patient's
cases are added before they are squared (for the AUROC: DeLong, and Obuchowski for clustered data).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.signedinteger[Any]]
NOWHERE = -1
"""The code of a case that is in no slice of an attribute, such as a note without a word."""


class SliceCases(NamedTuple):
    """The cases that are searched."""

    y_true: Mask
    y_score: Floats
    patient: Ints
    value: Floats | None = None
    """What is averaged over the cases of a slice; without it, the AUROC is computed."""

    def take(self, rows: Mask | Ints) -> SliceCases:
        """Some of the cases."""
        value = None if self.value is None else self.value[rows]
        return SliceCases(self.y_true[rows], self.y_score[rows], self.patient[rows], value)


class SliceStats(NamedTuple):
    """Of each code: how many, the metric and its variance; NaN where it is undefined."""

    n: Ints
    n_positive: Ints
    n_patients: Ints
    value: Floats
    variance: Floats

    def take(self, rows: Mask | Ints) -> SliceStats:
        """Those of some slices."""
        return SliceStats(
            self.n[rows], self.n_positive[rows], self.n_patients[rows], self.value[rows], self.variance[rows]
        )


class SliceMeasure:
    """Measures the slices of any codes of the same cases; scores are sorted once."""

    def __init__(self, cases: SliceCases) -> None:
        order = np.argsort(cases.y_score, kind="stable") if cases.value is None else np.arange(len(cases.y_true))
        self.order, self.cases = order, cases.take(order)
        score = self.cases.y_score
        self.tie: Ints = np.cumsum(np.diff(score, prepend=score[:1]) != 0) if len(score) else np.zeros(0, np.int64)
        _, self.patient = np.unique(self.cases.patient, return_inverse=True)
        self.n_patients = int(self.patient.max()) + 1 if len(score) else 0
        self.alone = self.n_patients == len(score)

    def stats(self, code: Ints, n_codes: int) -> SliceStats:
        """Of every code from 0 to `n_codes`; cases with another are in no slice."""
        code = code[self.order]
        rows = np.flatnonzero(code != NOWHERE)
        small = code[rows].astype(np.int16 if n_codes < 2**15 else np.int64)
        rows = rows[np.argsort(small, kind="stable")]  # by code, and within it by score
        code, y = code[rows], self.cases.y_true[rows]
        n = np.bincount(code, minlength=n_codes)
        positive = np.bincount(code[y], minlength=n_codes)
        value, influence = (
            self._auroc(code, y, rows, n, positive) if self.cases.value is None else self._mean(code, rows, n)
        )
        patients, variance = self._by_patient(code, rows, influence, n, n_codes)
        return SliceStats(n, positive, patients, value, np.where(np.isnan(value), np.nan, variance))

    def one(self, mask: Mask) -> tuple[float, float, int, int, int]:
        """Value, variance, cases, positives and patients of one set of cases."""
        found = self.stats(np.where(mask, 0, NOWHERE), 1)
        return (
            float(found.value[0]),
            float(found.variance[0]),
            int(found.n[0]),
            int(found.n_positive[0]),
            int(found.n_patients[0]),
        )

    def _mean(self, code: Ints, rows: Ints, n: Ints) -> tuple[Floats, Floats]:
        values = np.asarray(self.cases.value)[rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(code, values, minlength=len(n)) / n
            return mean, (values - mean[code]) / n[code]

    def _auroc(self, code: Ints, y: Mask, rows: Ints, n: Ints, positive: Ints) -> tuple[Floats, Floats]:
        """The AUROC of each code, and each case's influence on it; ties count half."""
        if not len(rows):
            return np.full(len(n), np.nan), np.zeros(0)
        tie = self.tie[rows]
        first = np.flatnonzero(np.diff(code, prepend=-1) | np.diff(tie, prepend=-1))  # of each run of equal scores
        run = np.cumsum(np.bincount(first, minlength=len(rows))) - 1
        below = np.concatenate([[0], np.cumsum(~y)])
        end = np.append(first[1:], len(rows))
        start = np.cumsum(n) - n
        # Negatives (positives) of the slice below a score, those of the same score counted half.
        negatives = ((below[first] + below[end]) / 2)[run] - below[start[code]]
        above = np.concatenate([[0], np.cumsum(y)])
        positives = ((above[first] + above[end]) / 2)[run] - above[start[code]]
        n1, n0 = positive[code], (n - positive)[code]
        with np.errstate(invalid="ignore", divide="ignore"):
            placed = np.where(y, negatives / n0, 1.0 - positives / n1)
            value = np.bincount(code[y], placed[y], minlength=len(n)) / positive
            value = np.where((positive > 0) & (positive < n), value, np.nan)
            influence = (placed - value[code]) / np.where(y, n1, n0)
        return value, influence

    def _by_patient(self, code: Ints, rows: Ints, influence: Floats, n: Ints, n_codes: int) -> tuple[Ints, Floats]:
        """Patients of each code, and the sum of their squared influences."""
        if self.alone:
            return n, np.asarray(np.bincount(code, influence**2, minlength=n_codes), np.float64)
        pair = code * self.n_patients + self.patient[rows]
        known, place = np.unique(pair, return_inverse=True)
        whose = known // self.n_patients
        total = np.bincount(place, influence, minlength=len(known))
        variance = np.asarray(np.bincount(whose, total**2, minlength=n_codes), np.float64)
        return np.bincount(whose, minlength=n_codes), variance


class SliceTable(NamedTuple):
    """Slices in rows."""

    attribute: Ints
    """[slice, depth]: the attributes of its conditions, in order; -1 where there are fewer."""
    level: Ints
    """[slice, depth]: their values."""
    stats: SliceStats

    def mask(self, k: int, codes: Sequence[Codes]) -> Mask:
        """The cases of one slice."""
        return slice_mask(self.conditions(k), codes)

    def conditions(self, k: int) -> tuple[tuple[int, int], ...]:
        """(attribute, value) of one slice."""
        pairs = zip(self.attribute[k].tolist(), self.level[k].tolist(), strict=True)
        return tuple((a, v) for a, v in pairs if a >= 0)


def slice_mask(conditions: Iterable[tuple[int, int]], codes: Sequence[Codes]) -> Mask:
    """The cases that meet all conditions."""
    keep = np.ones(len(codes[0]), bool)
    for attribute, level in conditions:
        keep &= codes[attribute] == level
    return keep


def all_slices(
    measure: SliceMeasure,
    codes: Sequence[Codes],
    sizes: Sequence[int],
    combinations: Iterable[tuple[int, ...]],
    *,
    fewest_patients: int,
    fewest_of_class: int = 0,
) -> SliceTable:
    """Every slice of some combinations of attributes that is large enough.

    `codes[a]` are the values of attribute a, from 0 to `sizes[a]`. `fewest_of_class` is how many positive and how many
    negative cases it must have.
    """
    depth, parts = 0, []
    for chosen in combinations:
        depth = max(depth, len(chosen))
        parts.append((chosen, *_of_combination(measure, codes, sizes, chosen, fewest_patients, fewest_of_class)))
    attribute = [np.tile(_padded(chosen, depth), (len(levels), 1)) for chosen, levels, _ in parts]
    level = [np.pad(levels, ((0, 0), (0, depth - levels.shape[1])), constant_values=-1) for _, levels, _ in parts]
    columns = [np.concatenate(each) for each in zip(*(stats for *_, stats in parts), strict=True)]
    if not parts:
        nothing = np.zeros((0, 0), np.int64)
        counts, floats = np.zeros(0, np.int64), np.zeros(0)
        return SliceTable(nothing, nothing, SliceStats(counts, counts, counts, floats, floats))
    return SliceTable(np.concatenate(attribute), np.concatenate(level), SliceStats(*columns))


def _padded(chosen: tuple[int, ...], depth: int) -> Ints:
    return np.asarray([*chosen, *[-1] * (depth - len(chosen))], np.int64)


def _of_combination(
    measure: SliceMeasure,
    codes: Sequence[Codes],
    sizes: Sequence[int],
    chosen: tuple[int, ...],
    patients: int,
    of_class: int,
) -> tuple[Ints, SliceStats]:
    shape = tuple(sizes[a] for a in chosen)
    code, nowhere = np.zeros(len(codes[0]), np.int64), np.zeros(len(codes[0]), bool)
    for a in chosen:
        code = code * sizes[a] + codes[a]
        nowhere |= codes[a] == NOWHERE
    code[nowhere] = NOWHERE
    n_codes = int(np.prod(shape))
    # Slices that are too small to count are left out before anything is computed.
    counts = np.bincount(code[~nowhere], minlength=n_codes)
    kept = np.flatnonzero(counts >= max(patients, 2 * of_class, 1))
    place = np.full(n_codes + 1, NOWHERE)
    place[kept] = np.arange(len(kept))
    found = measure.stats(place[code], len(kept))  # the last place is that of `NOWHERE`
    enough = (found.n_patients >= patients) & ~np.isnan(found.value)
    enough &= np.minimum(found.n_positive, found.n - found.n_positive) >= of_class
    levels = np.stack(np.unravel_index(kept[enough], shape), axis=1).astype(np.int64)
    return levels, found.take(enough)


def combinations_of(n_attributes: int, n_words: int, depth: int) -> Iterator[tuple[int, ...]]:
    """Combinations of up to `depth` attributes, with one word, and of two words; words come after the attributes."""
    for size in range(1, depth + 1):
        yield from combinations(range(n_attributes), size)
        for others in combinations(range(n_attributes), size - 1):
            yield from ((*others, n_attributes + word) for word in range(n_words))
    if depth > 1:
        yield from ((n_attributes + a, n_attributes + b) for a, b in combinations(range(n_words), 2))
