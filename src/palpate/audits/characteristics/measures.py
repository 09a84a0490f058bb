"""What one model does in one arm: means, deviations, paired differences and flips, with replicates by patient.

All of it is linear in the notes' answers, so sums by patient are all that is needed, and the replicates of every group
and label are one matrix product. Differences are taken within a note, before anything is summed: a model that does not
see the characteristic has differences of exactly 0, on the data and in every replicate.

Intervals are percentiles of the bootstrap by patient; p-values are of random signs, a sign for each patient
(`palpate.stats.intervals`): if the model does not care, which of the two texts is which is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.observed import ObservedRates, deviations
from palpate.audits.kit.measured import FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST
from palpate.cases.edits import Ints
from palpate.stats import percentile_interval
from palpate.stats.clustered import Units, ratio_replicates, sum_by_unit
from palpate.stats.curves import curve_variance
from palpate.stats.intervals import sign_flip_p_value

Floats = NDArray[np.float64]
COLUMNS_PER_BLOCK = 800
"""Groups x labels that are resampled at a time: some hundred megabytes with 10,000 replicates."""


class Spread(NamedTuple):
    """A number with its interval; arrays of one shape. NaN is undefined."""

    value: Floats
    low: Floats
    high: Floats


class Sums(NamedTuple):
    """A model's answers in an arm, summed over the notes of each unit; the last axis is the label."""

    base: Floats
    """[unit, label] the reference group."""
    written: Floats
    """[unit, label] the note as written, less the reference group."""
    moved: Floats
    """[unit, group, label] the group less the reference group."""
    flips: Floats
    """[unit, group, label] notes whose decision differs from that in the reference group."""
    flips_written: Floats
    """[unit, group, label] notes whose decision differs from that of the note as written."""

    @classmethod
    def of(cls, p: Floats, original: Floats, threshold: Floats, *, reference: int, units: Units) -> Sums:
        """From p[note, group, label], the answers to the notes as written [note, label], and the labels' thresholds."""
        base = p[:, reference]
        decided = p >= threshold
        return cls(
            base=sum_by_unit(base, units),
            written=sum_by_unit(original - base, units),
            moved=sum_by_unit(p - base[:, None], units),
            flips=sum_by_unit(decided != decided[:, reference][:, None], units),
            flips_written=sum_by_unit(decided != (original >= threshold)[:, None], units),
        )

    @classmethod
    def mean(cls, members: Sequence[Sums]) -> Sums:
        """Several checkpoints as one model."""
        return cls(*(np.mean(parts, axis=0) for parts in zip(*members, strict=True)))


@dataclass(frozen=True)
class Resampling:
    """How replicates are drawn and summarised."""

    n_replicates: int
    level: float
    seed: int


class Curve(NamedTuple):
    """Noise and total variance of the age curve of each label: on the data, and [label, replicate]."""

    noise: Floats
    total: Floats
    noise_values: Floats
    total_values: Floats


class Products(NamedTuple):
    """Sum over groups of model deviation x observed deviation: [label], and [label, replicate]."""

    point: Floats
    values: Floats


@dataclass(frozen=True, eq=False)
class Measures:
    """One model, one arm; arrays are [group, label] unless they say otherwise."""

    mean_probability: Spread
    as_written: Spread
    """[1, label]"""
    deviation: Spread
    difference: Spread
    p_value: Floats
    """Of the differences, not corrected; NaN for the reference group and where there are too few patients."""
    flip_rate: Spread
    flip_rate_from_written: Spread
    curve: Curve | None
    products: Products | None

    @classmethod
    def joined(cls, blocks: Sequence[Measures]) -> Measures:
        """Blocks of labels as one."""

        def spread(name: str) -> Spread:
            parts = [getattr(block, name) for block in blocks]
            return Spread(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))

        curves = [block.curve for block in blocks if block.curve is not None]
        products = [block.products for block in blocks if block.products is not None]
        return cls(
            mean_probability=spread("mean_probability"),
            as_written=spread("as_written"),
            deviation=spread("deviation"),
            difference=spread("difference"),
            p_value=np.concatenate([block.p_value for block in blocks], axis=1),
            flip_rate=spread("flip_rate"),
            flip_rate_from_written=spread("flip_rate_from_written"),
            curve=Curve(*(np.concatenate(parts) for parts in zip(*curves, strict=True))) if curves else None,
            products=Products(*(np.concatenate(parts) for parts in zip(*products, strict=True))) if products else None,
        )


def measure(
    sums: Sums,
    units: Units,
    resampling: Resampling,
    *,
    reference: int,
    run: Ints | None = None,
    observed: ObservedRates | None = None,
) -> Measures:
    """All numbers of a block of labels.

    `run` are the groups that make the age curve, in order of age. `observed` has the same groups and labels in the
    training split, replicates included.
    """
    point, values = _means(sums, units, resampling)
    few = len(units.size) < FEWEST_FOR_INTERVAL

    def spread(on_data: Floats, replicates: Floats) -> Spread:
        low, high = percentile_interval(replicates, level=resampling.level)
        nothing = np.full_like(on_data, np.nan)
        return Spread(on_data, nothing, nothing) if few else Spread(on_data, np.asarray(low), np.asarray(high))

    return Measures(
        mean_probability=spread(point.base + point.moved, values.base + values.moved),
        as_written=spread((point.base + point.written)[None], (values.base + values.written)[None]),
        deviation=spread(deviations(point.moved), deviations(values.moved)),
        difference=spread(point.moved, values.moved),
        p_value=_p_values(sums.moved, resampling, reference=reference),
        flip_rate=spread(point.flips, values.flips),
        flip_rate_from_written=spread(point.flips_written, values.flips_written),
        curve=None if run is None else _curve(point.moved, values.moved, run),
        products=None if observed is None else _products(point.moved, values.moved, observed),
    )


def _means(sums: Sums, units: Units, resampling: Resampling) -> tuple[Sums, Sums]:
    """Means over notes, on the data ([..., label]) and resampled ([..., label, replicate])."""
    flat = [part.reshape(len(units.size), int(np.prod(part.shape[1:]))) for part in sums]
    columns = np.concatenate(flat, axis=1)
    used = np.flatnonzero(columns.any(axis=0))
    values = np.zeros((columns.shape[1], resampling.n_replicates))
    values[used] = ratio_replicates(
        columns[:, used],
        units.size[:, None],
        over=np.zeros(len(used), np.int64),
        rng=resampling.seed,
        n_replicates=resampling.n_replicates,
    )
    point = columns.sum(axis=0) / units.size.sum()
    bounds = np.cumsum([part.shape[1] for part in flat])[:-1]
    return (
        Sums(*(a.reshape(part.shape[1:]) for a, part in zip(np.split(point, bounds), sums, strict=True))),
        Sums(*(a.reshape(*part.shape[1:], -1) for a, part in zip(np.split(values, bounds), sums, strict=True))),
    )


def _p_values(moved: Floats, resampling: Resampling, *, reference: int) -> Floats:
    """Of every group's difference to the reference group, by random signs of the patients' differences."""
    n_units, *shape = moved.shape
    p_value = np.full(shape, np.nan)
    if n_units >= FEWEST_FOR_TEST:
        flat = moved.reshape(n_units, -1)
        p_value[:] = sign_flip_p_value(flat, rng=resampling.seed, n_replicates=resampling.n_replicates).reshape(shape)
    p_value[reference] = np.nan
    return p_value


def _curve(point: Floats, values: Floats, run: Ints) -> Curve:
    on_data, resampled = curve_variance(point[run], axis=0), curve_variance(values[run], axis=0)
    return Curve(on_data.noise, on_data.total, resampled.noise, resampled.total)


def _products(point: Floats, values: Floats, observed: ObservedRates) -> Products:
    known = observed.known
    return Products(
        (deviations(point[known]) * observed.deviation).sum(axis=0),
        (deviations(values[known]) * observed.deviation_values).sum(axis=0),
    )
