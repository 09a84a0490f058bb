"""What the models do in one arm: means, deviations, paired differences and flips, by patient.

All of it is linear in the predictions for the notes, so sums by patient are all that is needed. Differences are taken
within a note, before anything is summed: a model that does not see the characteristic has differences of exactly 0, on
the data and in every replicate. Intervals of means and shares are in closed form (`intervals`); only roughness and
amplification, which are not linear, need replicates.

Age may change a risk. What it may not do is to make one year stand out: the mean risk at 73 less the mean of those at
72 and 74 (`gap`), the decisions at 73 that differ from those at both 72 and 74 (`reversals`), and those that change
from 64 to 65, beyond what the years before and after change (`steps`). A slope that moves patients across the
threshold one after the other has none of them.

Here every note is in every group. Ages of notes that differ in the ages that they can have are in `age_ranges`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.observed import ObservedRates, deviations
from palpate.audits.kit.paired import MeanArrays, ShareArrays
from palpate.audits.kit.resampling import Resampling
from palpate.cases.edits import Ints
from palpate.stats import ratio_replicates
from palpate.stats.clustered import Units, sum_by_unit
from palpate.stats.curves import AgeCurve

Floats = NDArray[np.float64]
NO_YEARS: Ints = np.zeros(0, dtype=np.int64)


class Sums(NamedTuple):
    """A model's predictions in an arm, summed over the notes of each unit; the last axis is the label."""

    base: Floats
    """[unit, label] the reference group."""
    written: Floats
    """[unit, label] the note as written, less the reference group."""
    moved: Floats
    """[unit, group, label] the group less the reference group."""
    contrast: Floats
    """[unit, group, label] the group less the one that it is compared with."""
    flips: Floats
    """[unit, group, label] notes whose decision differs from that in the group that this one is compared with."""
    flips_written: Floats
    """[unit, group, label] notes whose decision differs from that for the note as written."""
    reversals: Floats
    """[unit, inner age, label] notes whose decision differs from those at both neighbouring ages."""
    steps: Floats
    """[unit, inner year, label] notes whose decision changes in a year, less the mean of the years around it."""

    @classmethod
    def of(
        cls,
        p: Floats,
        original: Floats,
        threshold: Floats,
        *,
        reference: int,
        units: Units,
        against: Ints | None = None,
        years: Ints = NO_YEARS,
    ) -> Sums:
        """From p[note, group, label], the predictions for the notes as written [note, label], and the thresholds.

        `against` is the group that each one is compared with, by default the reference; -1 is the note as written.
        `years` are the groups whose neighbours are compared, in order of age.
        """
        base = p[:, reference]
        compared = np.full(p.shape[1], reference) if against is None else against
        # The note as written comes last, where -1 finds it.
        others = np.concatenate([p, original[:, None]], axis=1)[:, compared]
        decided = p >= threshold
        aged = decided[:, years]
        changed = (aged[:, 1:] != aged[:, :-1]).astype(np.float64)
        return cls(
            base=sum_by_unit(base, units),
            written=sum_by_unit(original - base, units),
            moved=sum_by_unit(p - base[:, None], units),
            contrast=sum_by_unit(p - others, units),
            flips=sum_by_unit(decided != (others >= threshold), units),
            flips_written=sum_by_unit(decided != (original >= threshold)[:, None], units),
            reversals=sum_by_unit((aged[:, 1:-1] != aged[:, :-2]) & (aged[:, 1:-1] != aged[:, 2:]), units),
            steps=sum_by_unit(changed[:, 1:-1] - (changed[:, :-2] + changed[:, 2:]) / 2.0, units),
        )

    @classmethod
    def mean(cls, members: Sequence[Sums]) -> Sums:
        """The members of an ensemble as one model."""
        return cls(*(np.mean(parts, axis=0) for parts in zip(*members, strict=True)))


class Products(NamedTuple):
    """Sum over groups of model deviation x observed deviation: [label], and [label, replicate]."""

    point: Floats
    values: Floats


@dataclass(frozen=True, eq=False)
class ModelMeasures:
    """One model in one arm; arrays are [group, label] unless they say otherwise."""

    mean_probability: MeanArrays
    as_written: MeanArrays
    """[1, label]"""
    deviation: MeanArrays
    difference: MeanArrays
    flip_rate: ShareArrays
    flip_rate_from_written: ShareArrays
    gap: MeanArrays
    """[inner age, label] the mean probability at an age, less the mean of those at its neighbours."""
    reversals: ShareArrays
    """[inner age, label]"""
    steps: MeanArrays
    """[inner year, label]"""
    curve: AgeCurve | None
    products: Products | None

    @classmethod
    def joined(cls, blocks: Sequence[ModelMeasures]) -> ModelMeasures:
        """Blocks of labels as one."""

        def join(name: str) -> Any:
            parts, axis = [getattr(block, name) for block in blocks], 0 if name in ("curve", "products") else 1
            if parts[0] is None:
                return None
            return type(parts[0])(*(np.concatenate(arrays, axis=axis) for arrays in zip(*parts, strict=True)))

        return cls(**{each.name: join(each.name) for each in fields(cls)})


def measure_model(
    sums: Sums,
    units: Units,
    resampling: Resampling,
    *,
    run: Ints | None = None,
    years: Ints = NO_YEARS,
    observed: ObservedRates | None = None,
) -> ModelMeasures:
    """All numbers of a block of labels.

    `run` are the groups that make the age curve, `years` those whose neighbours are compared, in order of age.
    `observed` has the same groups and labels in the training split, replicates included.
    """
    spread = MeanArrays.of(sums.base, units).spread
    spread = np.where(spread > 0, spread, 1.0)  # alike for all patients: any change is possible
    moved = sums.moved.swapaxes(0, 1)
    aged = moved[years]
    bend = aged[1:-1] - (aged[:-2] + aged[2:]) / 2.0

    def mean(values: Floats) -> MeanArrays:
        return MeanArrays.of(values, units, spread)

    replicates = _replicates(sums.moved, units, resampling) if run is not None or observed is not None else None
    point = sums.moved.sum(axis=0) / units.mass.sum()
    return ModelMeasures(
        mean_probability=mean(sums.base[:, None] + sums.moved),
        as_written=mean((sums.base + sums.written)[:, None]),
        deviation=mean(deviations(moved).swapaxes(0, 1)),
        difference=mean(sums.contrast),
        flip_rate=ShareArrays.of(sums.flips, units),
        flip_rate_from_written=ShareArrays.of(sums.flips_written, units),
        gap=mean(bend.swapaxes(0, 1)),
        reversals=ShareArrays.of(sums.reversals, units),
        steps=MeanArrays.of(sums.steps, units, 1.0),
        curve=None if run is None or replicates is None else AgeCurve.of(point[run], replicates[run]),
        products=None if observed is None or replicates is None else products_of(point, replicates, observed),
    )


def _replicates(moved: Floats, units: Units, resampling: Resampling) -> Floats:
    """Means over notes, resampled: [group, label, replicate]."""
    columns = moved.reshape(len(units.size), -1)
    used = np.flatnonzero(columns.any(axis=0))
    values = np.zeros((columns.shape[1], resampling.n_replicates))
    values[used] = ratio_replicates(
        columns[:, used],
        units.mass[:, None],
        over=np.zeros(len(used), np.int64),
        rng=resampling.seed,
        n_replicates=resampling.n_replicates,
    )
    return values.reshape(*moved.shape[1:], -1)


def products_of(point: Floats, values: Floats, observed: ObservedRates) -> Products:
    """From differences to a fixed group, [group, label], and their replicates."""
    known = observed.known
    return Products(
        (deviations(point[known]) * observed.deviation).sum(axis=0),
        (deviations(values[known]) * observed.deviation_values).sum(axis=0),
    )
