"""All models in one arm: which notes and ages are compared, and their measures, a block of labels at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.age_ranges import AgeSets, AgeSums, measure_ages
from palpate.audits.characteristics.arms import Arm, age_number, age_run
from palpate.audits.characteristics.measures import NO_YEARS, Floats, ModelMeasures, Sums, measure_model
from palpate.audits.characteristics.observed import (
    ObservedGroups,
    ObservedRates,
    Slope,
    amplification,
    observed_rates,
)
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.audits.kit.paired import WindowCount
from palpate.audits.kit.resampling import Resampling
from palpate.cases.edits import Ints
from palpate.results import ModelPredictions, Plan, Predictions
from palpate.stats.clustered import Units, units_of
from palpate.stats.curves import FEWEST_POINTS, Roughness, mean_roughness, roughness

T = TypeVar("T")

COLUMNS_PER_BLOCK = 800
"""Groups x labels that are resampled at a time: some hundred megabytes with 10,000 replicates."""
MOST_YEARS_APART = 5
"""Between neighbouring ages: over more years, the bend of a plausible age curve is no longer small."""


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
    """The groups that make the age curve, as far as its roughness goes."""
    years: Ints
    """The groups whose neighbours are compared, in order of age; none for other characteristics."""
    observed: ObservedRates | None
    slopes: Mapping[str, Sequence[Slope]]
    """By model: one per label and, where there are several labels, one over all of them at the end."""
    windows: Mapping[str, WindowCount]
    """By scored model."""
    sets: AgeSets | None = None
    """Which notes each comparison of ages has; None where every note is in every group."""

    @property
    def curve(self) -> list[int]:
        """The groups with a mean probability: all, or the ages that the curve reaches."""
        return list(range(len(self.arm.groups))) if self.sets is None else np.flatnonzero(self.sets.reached).tolist()

    @property
    def ages_compared(self) -> str:
        """The ages that an answer is about, in words: `every age`, or `every age from 31 to 88`."""
        if self.sets is None or self.sets.neighbours.usual.all():
            return "every age"
        compared = [self.arm.groups[g] for g in self.years[1:-1][self.sets.neighbours.usual]]
        return f"every age from {compared[0]} to {compared[-1]}" if compared else "no age"

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
    units = _units(plan, arm.rows, resampling)._replace(weight=plan.cohort.weights_of(arm.rows))
    ages = age_run(arm.groups) if arm.name == "age" else NO_YEARS
    years = _years(arm, ages)
    sets = None if arm.possible is None else AgeSets.of(arm.possible, arm.reference, years, units)
    reached = None if sets is None else sets.reached
    ages = ages if reached is None else ages[reached[ages]]
    run = ages if len(ages) >= FEWEST_POINTS else None
    blocks: dict[str, list[ModelMeasures]] = {}
    rates_blocks: list[ObservedRates] = []
    square_blocks: list[Floats] = []
    step = max(1, COLUMNS_PER_BLOCK // len(arm.groups))
    for first in range(0, len(plan.labels) if len(arm.rows) else 0, step):
        labels = slice(first, first + step)
        rates = _observed(plan, training, labels, len(arm.groups), of_training, reached)
        known = rates if rates is not None and len(rates.known) > 1 else None
        if sets is None:
            for name, sums in _all_sums(plan, predictions, threshold, arm, units, labels, years).items():
                part = measure_model(sums, units, resampling, run=run, years=years, observed=known)
                blocks.setdefault(name, []).append(part)
        else:
            for name, aged in _age_sums(plan, predictions, threshold, arm, sets, labels, years).items():
                part = measure_ages(aged, sets, resampling, run=run, observed=known)
                blocks.setdefault(name, []).append(part)
        if rates is not None:
            rates_blocks.append(rates.without_replicates())
            square_blocks.append((rates.deviation_values**2).sum(axis=0))
    models = {name: ModelMeasures.joined(parts) for name, parts in blocks.items()}
    observed = ObservedRates.joined(rates_blocks)
    return ArmMeasures(
        arm=arm,
        training=training,
        n_units=units.n_counted,
        models=models,
        roughness=_roughness(models, predictions) if models and run is not None else {},
        run=run,
        years=years,
        observed=observed,
        slopes=_slopes(models, observed, square_blocks, resampling.level),
        windows={name: _window(plan, answers, arm) for name, answers in predictions.scored.items()},
        sets=sets,
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
    return sums | {name: Sums.mean(parts) for name, parts in _members(sums, predictions)}


def _age_sums(
    plan: Plan[AlteredNotes],
    predictions: Predictions,
    threshold: Floats,
    arm: Arm,
    sets: AgeSets,
    labels: slice,
    years: Ints,
) -> dict[str, AgeSums]:
    """The same where notes differ in the ages that they can have."""
    original = plan.memory.original[arm.rows]
    sums = {
        name: AgeSums.of(arm.cut(answers.p[:, labels]), answers.p[original, labels], threshold[m, labels], sets, years)
        for m, (name, answers) in enumerate(predictions.scored.items())
    }
    return sums | {name: AgeSums.mean(parts) for name, parts in _members(sums, predictions)}


def _members(sums: Mapping[str, T], predictions: Predictions) -> Iterator[tuple[str, list[T]]]:
    """Every ensemble with the sums of its members."""
    for name, members in predictions.ensembles.items():
        yield name, [sums[member] for member in members]


def _observed(
    plan: Plan[AlteredNotes],
    groups: ObservedGroups,
    labels: slice,
    n_groups: int,
    resampling: Resampling,
    among: NDArray[np.bool_] | None,
) -> ObservedRates | None:
    if groups.reason is not None or not np.any(groups.group >= 0):
        return None
    y_true = plan.cohort.y_true(groups.rows, plan.labels[labels])
    units = _units(plan, groups.rows, resampling)
    return observed_rates(groups, y_true, units, n_groups=n_groups, resampling=resampling, among=among)


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
