"""What the models do in one arm: means, deviations, paired differences and flips, by patient.

All of it is linear in the predictions for the notes, so sums by patient are all that is needed. Differences are taken
within a note, before anything is summed: a model that does not see the characteristic has differences of exactly 0, on
the data and in every replicate. Intervals of means and shares are in closed form (`intervals`); only roughness and
amplification, which are not linear, need replicates.

Age may change a risk. What it may not do is to make one year stand out: the mean risk at 73 less the mean of those at
72 and 74 (`gap`), the decisions at 73 that differ from those at both 72 and 74 (`reversals`), and those that change
from 64 to 65, beyond what the years before and after change (`steps`). A slope that moves patients across the
threshold one after the other has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.arms import Arm, age_number, age_run
from palpate.audits.characteristics.observed import (
    ObservedGroups,
    ObservedRates,
    Slope,
    amplification,
    deviations,
    observed_rates,
)
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.audits.kit.paired import MeanArrays, ShareArrays, WindowCount
from palpate.audits.kit.resampling import Resampling
from palpate.cases.edits import Ints
from palpate.results import ModelPredictions, Plan, Predictions
from palpate.stats import ratio_replicates
from palpate.stats.clustered import Units, sum_by_unit, units_of
from palpate.stats.curves import FEWEST_POINTS, AgeCurve, Roughness, mean_roughness, roughness

Floats = NDArray[np.float64]
NO_YEARS: Ints = np.zeros(0, dtype=np.int64)
COLUMNS_PER_BLOCK = 800
"""Groups x labels that are resampled at a time: some hundred megabytes with 10,000 replicates."""


MOST_YEARS_APART = 5
"""Between neighbouring ages: over more years, the bend of a plausible age curve is no longer small."""


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
    point = sums.moved.sum(axis=0) / units.size.sum()
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
        products=None if observed is None or replicates is None else _products(point, replicates, observed),
    )


def _replicates(moved: Floats, units: Units, resampling: Resampling) -> Floats:
    """Means over notes, resampled: [group, label, replicate]."""
    columns = moved.reshape(len(units.size), -1)
    used = np.flatnonzero(columns.any(axis=0))
    values = np.zeros((columns.shape[1], resampling.n_replicates))
    values[used] = ratio_replicates(
        columns[:, used],
        units.size[:, None],
        over=np.zeros(len(used), np.int64),
        rng=resampling.seed,
        n_replicates=resampling.n_replicates,
    )
    return values.reshape(*moved.shape[1:], -1)


def _products(point: Floats, values: Floats, observed: ObservedRates) -> Products:
    known = observed.known
    return Products(
        (deviations(point[known]) * observed.deviation).sum(axis=0),
        (deviations(values[known]) * observed.deviation_values).sum(axis=0),
    )


@dataclass(frozen=True, eq=False)
class ArmMeasures:
    """Everything about one arm."""

    arm: Arm
    training: ObservedGroups
    n_units: int
    models: Mapping[str, ModelMeasures]
    """By model, ensembles included; empty where no note could be altered."""
    roughness: Mapping[str, Roughness]
    run: Ints | None
    """The groups that make the age curve."""
    years: Ints
    """The groups whose neighbours are compared, in order of age; none for other characteristics."""
    observed: ObservedRates | None
    slopes: Mapping[str, Sequence[Slope]]
    """By model: one per label and, where there are several labels, one over all of them at the end."""
    windows: Mapping[str, WindowCount]
    """By scored model."""

    @property
    def neighbours(self) -> tuple[list[str], list[str]]:
        """The ages that have two neighbours, and these, as the table of estimates has them: `age=73`, `age=72, 74`."""
        groups, years = self.arm.groups, self.years.tolist()
        around = [f"age={groups[before]}, {groups[after]}" for before, after in zip(years, years[2:], strict=False)]
        return [self.arm.group_names[g] for g in years[1:-1]], around

    @property
    def inner_years(self) -> tuple[list[str], list[str]]:
        """The ages that end a year with a year before and after it, and those that begin it: `age=65`, `age=64`."""
        names = [self.arm.group_names[g] for g in self.years.tolist()]
        return names[2:-1], names[1:-2]


def measure_arm(
    plan: Plan[AlteredNotes],
    predictions: Predictions,
    threshold: Floats,
    arm: Arm,
    training: ObservedGroups,
    *,
    resampling: Resampling,
    of_training: Resampling,
) -> ArmMeasures:
    """All models in one arm, a block of labels at a time; `threshold` is [scored model, label].

    `of_training` are the settings for the training patients, who are resampled with a seed of their own.
    """
    units = _units(plan, arm.rows, resampling)
    ages = age_run(arm.groups) if arm.name == "age" else NO_YEARS
    run, years = ages if len(ages) >= FEWEST_POINTS else None, _years(arm, ages)
    blocks: dict[str, list[ModelMeasures]] = {}
    rates_blocks: list[ObservedRates] = []
    square_blocks: list[Floats] = []
    step = max(1, COLUMNS_PER_BLOCK // len(arm.groups))
    for first in range(0, len(plan.labels) if len(arm.rows) else 0, step):
        labels = slice(first, first + step)
        rates = _observed(plan, training, labels, len(arm.groups), of_training)
        known = rates if rates is not None and len(rates.known) > 1 else None
        for name, sums in _all_sums(plan, predictions, threshold, arm, units, labels, years).items():
            part = measure_model(sums, units, resampling, run=run, years=years, observed=known)
            blocks.setdefault(name, []).append(part)
        if rates is not None:
            rates_blocks.append(rates.without_replicates())
            square_blocks.append((rates.deviation_values**2).sum(axis=0))
    models = {name: ModelMeasures.joined(parts) for name, parts in blocks.items()}
    observed = ObservedRates.joined(rates_blocks)
    return ArmMeasures(
        arm=arm,
        training=training,
        n_units=len(units.size),
        models=models,
        roughness=_roughness(models, predictions) if models and run is not None else {},
        run=run,
        years=years,
        observed=observed,
        slopes=_slopes(models, observed, square_blocks, resampling.level),
        windows={name: _window(plan, answers, arm) for name, answers in predictions.scored.items()},
    )


def _years(arm: Arm, ages: Ints) -> Ints:
    """The ages, if there are three and neighbours are near enough to be compared."""
    if len(ages) < 3:
        return NO_YEARS
    step = age_number(arm.groups[ages[1]]) - age_number(arm.groups[ages[0]])
    return ages if step <= MOST_YEARS_APART else NO_YEARS


def _units(plan: Plan[AlteredNotes], rows: Ints, resampling: Resampling) -> Units:
    return units_of(plan.cohort.patients[rows] if resampling.unit == "patient" else np.arange(len(rows)))


def _all_sums(
    plan: Plan[AlteredNotes],
    predictions: Predictions,
    threshold: Floats,
    arm: Arm,
    units: Units,
    labels: slice,
    years: Ints,
) -> dict[str, Sums]:
    """The sums of every scored model, then those of every ensemble."""
    original = plan.memory.original[arm.rows]
    sums = {
        name: Sums.of(
            arm.cut(answers.p[:, labels]),
            answers.p[original, labels],
            threshold[m, labels],
            reference=arm.reference,
            units=units,
            against=arm.against,
            years=years,
        )
        for m, (name, answers) in enumerate(predictions.scored.items())
    }
    wholes = {name: Sums.mean([sums[member] for member in each]) for name, each in predictions.ensembles.items()}
    return sums | wholes


def _observed(
    plan: Plan[AlteredNotes], groups: ObservedGroups, labels: slice, n_groups: int, resampling: Resampling
) -> ObservedRates | None:
    if groups.reason is not None or not np.any(groups.group >= 0):
        return None
    y_true = plan.cohort.y_true(groups.rows, plan.labels[labels])
    units = _units(plan, groups.rows, resampling)
    return observed_rates(groups, y_true, units, n_groups=n_groups, resampling=resampling)


def _roughness(models: Mapping[str, ModelMeasures], predictions: Predictions) -> dict[str, Roughness]:
    found = {
        name: roughness(each.curve)
        for name, each in models.items()
        if each.curve is not None and name in predictions.scored
    }
    wholes = {name: mean_roughness([found[member] for member in each]) for name, each in predictions.ensembles.items()}
    return found | wholes


def _slopes(
    models: Mapping[str, ModelMeasures], observed: ObservedRates | None, square_blocks: Sequence[Floats], level: float
) -> dict[str, list[Slope]]:
    if observed is None or len(observed.known) < 2:
        return {}
    squares, square_values = (observed.deviation**2).sum(axis=0), np.concatenate(square_blocks)
    out = {}
    for name, each in models.items():
        if each.products is None:
            continue
        point, values = each.products
        slopes = [
            amplification(point[j], values[j], squares[j], square_values[j], level=level) for j in range(len(squares))
        ]
        if len(squares) > 1:
            whole = (point.sum(), values.sum(axis=0), squares.sum(), square_values.sum(axis=0))
            slopes.append(amplification(*whole, level=level))
        out[name] = slopes
    return out


def _window(plan: Plan[AlteredNotes], answers: ModelPredictions, arm: Arm) -> WindowCount:
    part = slice(arm.first, arm.stop)
    altered = plan.variants.n_edits[part] > 0
    return WindowCount(int(altered.sum()), int((altered & ~answers.seen[part]).sum()))
