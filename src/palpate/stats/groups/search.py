"""Which slices are worse, each told once: the search on one half of the patients, and what all slices exclude.

Slices overlap: what makes the metric low in one makes it lower in all that share its cases. They are taken in order of
the evidence, and a further slice is kept only if what it adds is worse too: its cases outside those that were taken,
or, where it lies within one, its cases against the rest of that one. A slice that a part of it explains gives way to
that part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from palpate.stats.groups.slices import Codes, SliceMeasure, SliceTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
SUSPECTED, KEPT = 2.0, 2.6
"""Standard errors: from which a slice is looked at, and by which what it adds must be worse (1 in 200 by chance: many
relatives are looked at)."""
_MOST_EXAMINED = 500
MOST_BOUNDED = 3000
"""Slices of which each is compared with its own rest."""


class Conditions(NamedTuple):
    """A slice that looks worse."""

    pairs: tuple[tuple[int, int], ...]
    """(attribute, value)."""
    value: float
    whole: float
    """Of all cases."""
    n: int
    n_positive: int
    n_patients: int


class Rules(NamedTuple):
    """What counts as worse, and which slices are large enough."""

    harm: int
    """1: a higher value is worse; -1: a lower one; 0: both."""
    fewest_patients: int
    fewest_of_class: int
    most: int


class _Taken(NamedTuple):
    row: int
    mask: Mask
    sign: int


def slice_evidence(table: SliceTable, whole: tuple[float, float], harm: int) -> tuple[Floats, Ints]:
    """How many standard errors each slice is worse than all cases, and in which direction it differs.

    A slice is part of all cases: the variance of their difference is that of the slice less that of all.
    """
    value, variance = whole
    apart = table.stats.value - value
    sign = np.full(len(apart), harm) if harm else np.where(apart < 0, -1, 1)
    error = np.sqrt(np.maximum(table.stats.variance - variance, 0.05 * table.stats.variance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(error > 0, sign * apart / error, 0.0), sign


def worse_slices(measure: SliceMeasure, codes: Sequence[Codes], table: SliceTable, rules: Rules) -> list[Conditions]:
    """The slices that look worse than all cases, by the evidence, without those that others explain."""
    n = len(measure.cases.y_true)
    value, variance, *_ = measure.one(np.ones(n, bool))
    evidence, sign = slice_evidence(table, (value, variance), rules.harm)
    # Equal evidence: the slice with fewer conditions first.
    order = np.lexsort(((table.attribute >= 0).sum(axis=1), -evidence))
    taken: list[_Taken] = []
    for k in order[:_MOST_EXAMINED].tolist():
        if evidence[k] < SUSPECTED or len(taken) == rules.most:
            break
        _consider(measure, _Taken(k, table.mask(k, codes), int(sign[k])), taken, rules)
    return [
        Conditions(
            table.conditions(each.row),
            float(table.stats.value[each.row]),
            value,
            int(table.stats.n[each.row]),
            int(table.stats.n_positive[each.row]),
            int(table.stats.n_patients[each.row]),
        )
        for each in taken
    ]


def _consider(measure: SliceMeasure, new: _Taken, taken: list[_Taken], rules: Rules) -> None:
    """Take a slice, leave it, or put it in the place of one that it explains."""
    covered = np.zeros(len(new.mask), bool)
    for each in taken:
        covered |= each.mask
    overlap = [int((each.mask & new.mask).sum()) for each in taken]
    if not any(overlap):
        taken.append(new)
        return
    nearest = taken[int(np.argmax(overlap))]
    own = new.mask & ~covered
    if _worse(measure, own, ~(new.mask | covered), new.sign, rules):
        inside = not (nearest.mask & ~new.mask).any()
        if inside and not _worse(measure, nearest.mask, new.mask & ~nearest.mask, new.sign, rules):
            taken[taken.index(nearest)] = new  # the part is no worse than the rest of the whole
        else:
            taken.append(new)
        return
    if (new.mask & ~nearest.mask).any():
        return
    others = nearest.mask & ~new.mask
    if not _worse(measure, new.mask, others, new.sign, rules):
        return
    if _worse(measure, others, ~nearest.mask, new.sign, rules):
        taken.append(new)
    else:
        taken[taken.index(nearest)] = new  # without the part, the whole is as good as the rest


def _worse(measure: SliceMeasure, first: Mask, second: Mask, sign: int, rules: Rules) -> bool:
    """Whether the first cases are worse than the second; not, where there are too few."""
    one, other = measure.one(first), measure.one(second)
    for value, _, n, positive, patients in (one, other):
        few = patients < rules.fewest_patients or min(positive, n - positive) < rules.fewest_of_class
        if few or math.isnan(value):
            return False
    return sign * (one[0] - other[0]) > KEPT * math.sqrt(one[1] + other[1])


class HarmBound(NamedTuple):
    """How much worse any slice can be: the one for which least is excluded."""

    row: int
    harm: float
    low: float
    high: float
    n_patients: int


def bound_all(
    measure: SliceMeasure, codes: Sequence[Codes], table: SliceTable, harm: int, margin: float, level: float
) -> HarmBound | None:
    """The slice with the highest bound of harm against all others, if all bounds hold at once and lie below a margin.

    None where they do not, or where there are too many slices to compare each with its own rest.
    """
    size = len(table.stats.n)
    if not 0 < size <= MOST_BOUNDED:
        return None
    z = float(-ndtri((1 - level) / 2 / size))
    value, *_ = measure.one(np.ones(len(measure.cases.y_true), bool))
    apart = table.stats.value - value
    # A first look, against all cases instead of the rest: most tables fail it.
    loose = (np.abs(apart) if harm == 0 else harm * apart) + z * np.sqrt(table.stats.variance)
    if float(loose.max()) >= margin:
        return None
    worst: HarmBound | None = None
    for k in range(size):
        rest = measure.one(~table.mask(k, codes))
        if math.isnan(rest[0]):
            continue
        found = float(table.stats.value[k]) - rest[0]
        found = abs(found) if harm == 0 else harm * found
        reach = z * math.sqrt(float(table.stats.variance[k]) + rest[1])
        if found + reach >= margin:
            return None
        if worst is None or found + reach > worst.high:
            worst = HarmBound(k, found, found - reach, found + reach, int(table.stats.n_patients[k]))
    return worst
