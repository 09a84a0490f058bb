"""Ages where notes differ in the ages that they can have: "retired" can't be 25, "quit in 1985" can't be 30.

Each comparison takes the notes that can be written at all of the ages that it compares: an age and its neighbours
(`gap`, `reversals`), four ages in a row (`steps`), an age and the reference age (flips). Every number stays paired
within the note, and every interval is by patient, over the patients of its own notes. With fewer than 30 of them there
is no number.

A mean over the notes that can have each age would mix the age with the notes: those that can be 25 are of healthier
patients. So the curve is put together as a life table is: each step from an age to the next is the mean over the notes
that can have both, and the steps are added up from the reference age on. A model that does not see the age is flat,
whatever the notes; where every note can have every age, the curve is the plain mean (`measures`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.measures import Floats, ModelMeasures, products_of
from palpate.audits.characteristics.observed import ObservedRates, deviations
from palpate.audits.kit.paired import FEWEST_PATIENTS, MeanArrays, ShareArrays, lost_without
from palpate.audits.kit.resampling import Resampling
from palpate.cases.edits import Ints
from palpate.stats import ratio_replicates
from palpate.stats.clustered import Units, sum_by_unit
from palpate.stats.curves import AgeCurve

Bools = NDArray[np.bool_]
USUAL = 0.5
"""Of the notes: an age that fewer can have is compared, but "acceptable" says nothing about it."""


class NoteSet(NamedTuple):
    """The notes of some comparisons."""

    holds: Bools
    """[note, comparison]"""
    counts: Floats
    """[unit, comparison] how many notes of each unit, or what they weigh."""

    @property
    def n_notes(self) -> Ints:
        """[comparison]"""
        return np.asarray(self.holds.sum(axis=0))

    @property
    def n_units(self) -> Ints:
        """[comparison] how many patients these notes are of."""
        return np.asarray((self.counts > 0).sum(axis=0))

    @property
    def few(self) -> Bools:
        """[comparison] whether they are too few for a number."""
        return self.n_units < FEWEST_PATIENTS

    @property
    def usual(self) -> Bools:
        """[comparison] whether they are half of the notes at least, so that it speaks for the notes as a whole."""
        return ~self.few & (self.n_notes >= USUAL * len(self.holds))


class AgeSets(NamedTuple):
    """Which notes each comparison of ages has."""

    units: Units
    reference: int
    levels: NoteSet
    """Of each group: notes that can have the age."""
    paired: NoteSet
    """Of each group: notes that can have the age and the reference age."""
    steps: NoteSet
    """Of each group but the last: notes that can have the age and the next."""
    neighbours: NoteSet
    """Of each age that has two neighbours: notes that can have all three."""
    years: NoteSet
    """Of each year that has a year before and after it: notes that can have all four ages."""

    @classmethod
    def of(cls, possible: Bools, reference: int, years: Ints, units: Units) -> AgeSets:
        """From the ages that each note can have, [note, group] in order of age; `years` as for `Sums.of`."""
        aged = possible[:, years]
        parts = (
            possible,
            possible & possible[:, [reference]],
            possible[:, :-1] & possible[:, 1:],
            aged[:, :-2] & aged[:, 1:-1] & aged[:, 2:],
            aged[:, :-3] & aged[:, 1:-2] & aged[:, 2:-1] & aged[:, 3:],
        )
        sets = (NoteSet(holds, sum_by_unit(holds, units)) for holds in parts)
        return cls(units, reference, *sets)

    @property
    def reached(self) -> Bools:
        """[group] the ages of the curve: on the way from the reference, no step has too few patients."""
        few, last = self.steps.few, len(self.levels.few)
        out = np.zeros(last, dtype=np.bool_)
        if self.levels.few[self.reference]:
            return out
        first_up = next((k for k in range(self.reference, last - 1) if few[k]), last - 1)
        first_down = next((k for k in range(self.reference, 0, -1) if few[k - 1]), 0)
        out[first_down : first_up + 1] = True
        return out

    @property
    def fewest(self) -> tuple[Ints, Floats]:
        """[group] the patients of the curve's thinnest step up to an age, and how many with equal notes they equal."""
        counts = self.steps.counts
        equal = counts.sum(axis=0) ** 2 / np.maximum((counts**2).sum(axis=0), 1.0)
        base = self.levels.counts[:, self.reference]
        units = _thinnest(self.steps.n_units, self.levels.n_units[self.reference], self.reference)
        worth = _thinnest(equal, base.sum() ** 2 / max(float((base**2).sum()), 1.0), self.reference)
        return units.astype(np.int64), np.maximum(worth, 1.0)


def _thinnest(steps: NDArray[np.generic], at_reference: float, reference: int) -> Floats:
    """[group] the least of `steps` between the reference and each age."""
    values = np.asarray(steps, dtype=np.float64)
    up = np.minimum.accumulate(np.concatenate([[at_reference], values[reference:]]))
    down = np.minimum.accumulate(np.concatenate([[at_reference], values[:reference][::-1]]))
    return np.concatenate([down[:0:-1], up])


class AgeSums(NamedTuple):
    """A model's predictions, summed over the notes of each unit that a comparison has; the last axis is the label."""

    written: Floats
    """[unit, label] the note as written."""
    base: Floats
    """[unit, label] the reference age."""
    steps: Floats
    """[unit, group - 1, label] the next age less this one."""
    flips: Floats
    flips_written: Floats
    bends: Floats
    """[unit, inner age, label] an age less the mean of its neighbours."""
    reversals: Floats
    years: Floats
    """The others are as in `Sums`; its `steps` are `years` here."""

    @classmethod
    def of(cls, p: Floats, original: Floats, threshold: Floats, sets: AgeSets, years: Ints) -> AgeSums:
        """From p[note, group, label], NaN where the note can't have the age; otherwise as `Sums.of`."""
        decided, aged = p >= threshold, p[:, years]
        acted = aged >= threshold
        changed = (acted[:, 1:] != acted[:, :-1]).astype(np.float64)

        def summed(values: NDArray[np.generic], notes: NoteSet) -> Floats:
            return sum_by_unit(np.where(notes.holds[..., None], values, 0.0), sets.units)

        return cls(
            written=sum_by_unit(original, sets.units),
            base=sum_by_unit(np.nan_to_num(p[:, sets.reference]), sets.units),
            steps=summed(p[:, 1:] - p[:, :-1], sets.steps),
            flips=summed(decided != decided[:, [sets.reference]], sets.paired),
            flips_written=summed(decided != (original >= threshold)[:, None], sets.levels),
            bends=summed(aged[:, 1:-1] - (aged[:, :-2] + aged[:, 2:]) / 2.0, sets.neighbours),
            reversals=summed((acted[:, 1:-1] != acted[:, :-2]) & (acted[:, 1:-1] != acted[:, 2:]), sets.neighbours),
            years=summed(changed[:, 1:-1] - (changed[:, :-2] + changed[:, 2:]) / 2.0, sets.years),
        )

    @classmethod
    def mean(cls, members: Sequence[AgeSums]) -> AgeSums:
        """The members of an ensemble as one model."""
        return cls(*(np.mean(parts, axis=0) for parts in zip(*members, strict=True)))


def measure_ages(
    sums: AgeSums, sets: AgeSets, resampling: Resampling, *, run: Ints | None, observed: ObservedRates | None
) -> ModelMeasures:
    """All numbers of a block of labels, as `measure_model`; `run` and the groups of `observed` must be `reached`."""
    units = sets.units
    base = sets.levels.counts[:, [sets.reference]]
    spread = MeanArrays.of(sums.base[:, None], units, counts=base).spread
    spread = np.where(spread > 0, spread, 1.0)  # alike for all patients: any change is possible
    at_base = sums.base.sum(axis=0) / (float(base.sum()) or 1.0)
    moved = _added_up(_means(sums.steps, sets.steps), sets.reference)
    lost = _added_up(lost_without(sums.steps, units, sets.steps.counts).swapaxes(0, 1), sets.reference)
    lost_base = lost_without(sums.base[:, None], units, base)
    chain = _Chain(moved, lost.swapaxes(0, 1), sets, spread)
    values = None
    if run is not None or observed is not None:
        values = _added_up(_step_replicates(sums.steps, sets, resampling), sets.reference)
    return ModelMeasures(
        mean_probability=chain.measured(at_base + moved, lost_base + chain.lost),
        as_written=MeanArrays.of(sums.written[:, None], units, spread),
        deviation=chain.deviation(),
        difference=chain.measured(moved, chain.lost),
        flip_rate=_known(ShareArrays.of(sums.flips, units, sets.paired.counts), sets.paired.few),
        flip_rate_from_written=_known(ShareArrays.of(sums.flips_written, units, sets.levels.counts), sets.levels.few),
        gap=_known(MeanArrays.of(sums.bends, units, spread, sets.neighbours.counts), sets.neighbours.few),
        reversals=_known(ShareArrays.of(sums.reversals, units, sets.neighbours.counts), sets.neighbours.few),
        steps=_known(MeanArrays.of(sums.years, units, 1.0, sets.years.counts), sets.years.few),
        curve=None if run is None or values is None else AgeCurve.of(moved[run], values[run]),
        products=None if observed is None or values is None else products_of(moved, values, observed),
    )


class _Chain(NamedTuple):
    """The curve less the reference age, [group, label], and what it loses without a unit, [unit, group, label]."""

    moved: Floats
    lost: Floats
    sets: AgeSets
    spread: Floats

    def measured(self, value: Floats, lost: Floats) -> MeanArrays:
        n_units, n = self.sets.fewest
        whole = MeanArrays.from_rest(value, lost, n_units[:, None], n[:, None], self.spread)
        return _known(whole, ~self.sets.reached)

    def deviation(self) -> MeanArrays:
        """Of the ages of the curve from the mean of the others."""
        reached = self.sets.reached
        value, lost = np.zeros_like(self.moved), np.zeros_like(self.lost)
        value[reached] = deviations(self.moved[reached])
        lost[:, reached] = deviations(self.lost[:, reached].swapaxes(0, 1)).swapaxes(0, 1)
        n_units, n = (np.where(reached, each[reached].min(initial=each.max()), 1) for each in self.sets.fewest)
        return _known(MeanArrays.from_rest(value, lost, n_units[:, None], n[:, None], self.spread), ~reached)


def _means(sums: Floats, notes: NoteSet) -> Floats:
    total = notes.counts.sum(axis=0)
    return np.asarray(sums.sum(axis=0) / np.where(total > 0, total, 1.0)[:, None])


def _added_up(steps: Floats, reference: int) -> Floats:
    """Steps from each age to the next, along the first axis, as differences to the reference: one more of them."""
    up, down = np.cumsum(steps[reference:], axis=0), -np.cumsum(steps[:reference][::-1], axis=0)[::-1]
    return np.concatenate([down, np.zeros((1, *steps.shape[1:])), up])


def _step_replicates(steps: Floats, sets: AgeSets, resampling: Resampling) -> Floats:
    """Means of the steps, resampled: [group - 1, label, replicate]; 0 where too few patients have one."""
    n_steps, n_labels = steps.shape[1:]
    values = np.zeros((n_steps, n_labels, resampling.n_replicates))
    there = np.flatnonzero(~sets.steps.few)
    if len(there):
        values[there] = ratio_replicates(
            steps[:, there].reshape(len(steps), -1),
            sets.steps.counts[:, there],
            over=np.repeat(np.arange(len(there)), n_labels),
            rng=resampling.seed,
            n_replicates=resampling.n_replicates,
        ).reshape(len(there), n_labels, -1)
    return values


_Numbers = TypeVar("_Numbers", MeanArrays, ShareArrays)


def _known(numbers: _Numbers, few: Bools) -> _Numbers:
    """The numbers without those of too few patients."""
    return numbers._replace(value=np.where(few[:, None], np.nan, numbers.value))
