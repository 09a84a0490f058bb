"""What the models do with notes that are written differently: changes of the risk and of decisions, by patient.

Each note is compared with itself as it was written, before anything is summed: a model that does not see a change has
differences of exactly 0. Intervals are in closed form (`kit.paired`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.paired import MeanArrays, ShareArrays, WindowCount
from palpate.audits.kit.scope import Unit
from palpate.audits.robustness.plan import PerturbedArm, PerturbedNotes
from palpate.perturb.robustness import Expectation
from palpate.results import ModelPredictions, Plan, Predictions
from palpate.stats.clustered import Units, sum_by_unit, units_of

Floats = NDArray[np.float64]


class ChangeSums(NamedTuple):
    """A model's predictions in an arm, summed over the notes of each unit; the last axis is the label."""

    base: Floats
    """[unit, label] the note as written."""
    moved: Floats
    """[unit, group, label] the note written differently, less the note as written."""
    absolute: Floats
    """[unit, group, label] the same without its sign."""
    flips: Floats
    """[unit, group, label] notes whose decision changes; where a direction is expected, against it."""

    @classmethod
    def of(cls, p: Floats, base: Floats, threshold: Floats, *, expects: Expectation, units: Units) -> ChangeSums:
        """From p[note, group, label], the predictions for the notes as written [note, label], and the thresholds."""
        moved = p - base[:, None]
        before, after = (base >= threshold)[:, None], p >= threshold
        flips = {"same": after != before, "down only": after & ~before, "up only": ~after & before}[expects]
        sums = (sum_by_unit(values, units) for values in (base, moved, np.abs(moved), flips))
        return cls(*sums)

    @classmethod
    def mean(cls, members: Sequence[ChangeSums]) -> ChangeSums:
        """The members of an ensemble as one model."""
        return cls(*(np.mean(parts, axis=0) for parts in zip(*members, strict=True)))


class ChangeMeasures(NamedTuple):
    """One model in one arm; arrays are [group, label]."""

    mean_probability: MeanArrays
    as_written: MeanArrays
    """[1, label]"""
    difference: MeanArrays
    absolute: MeanArrays
    flips: ShareArrays

    @classmethod
    def of(cls, sums: ChangeSums, units: Units) -> ChangeMeasures:
        """All numbers of one model."""
        spread = MeanArrays.of(sums.base, units).spread
        spread = np.where(spread > 0, spread, 1.0)  # alike for all patients: any change is possible
        return cls(
            mean_probability=MeanArrays.of(sums.base[:, None] + sums.moved, units, spread),
            as_written=MeanArrays.of(sums.base[:, None], units, spread),
            difference=MeanArrays.of(sums.moved, units, spread),
            absolute=MeanArrays.of(sums.absolute, units, spread),
            flips=ShareArrays.of(sums.flips, units),
        )


@dataclass(frozen=True, eq=False)
class PerturbedMeasures:
    """Everything about one arm."""

    arm: PerturbedArm
    n_units: int
    models: Mapping[str, ChangeMeasures]
    """By model, ensembles included; empty where no note could be written so."""
    windows: Mapping[str, WindowCount]
    """By scored model."""


def measure_perturbation(
    plan: Plan[PerturbedNotes], predictions: Predictions, threshold: Floats, arm: PerturbedArm, unit: Unit
) -> PerturbedMeasures:
    """All models in one arm; `threshold` is [scored model, label]."""
    rows = arm.rows
    patients = plan.cohort.patients[rows] if unit == "patient" else np.arange(len(rows))
    units = units_of(patients, plan.cohort.weights_of(rows))
    sums: dict[str, ChangeSums] = {}
    if len(rows):
        original, expects = plan.memory.original[rows], arm.perturbation.expects
        for m, (name, answers) in enumerate(predictions.scored.items()):
            p, base = arm.cut(answers.p), answers.p[original]
            sums[name] = ChangeSums.of(p, base, threshold[m], expects=expects, units=units)
        for name, members in predictions.ensembles.items():
            sums[name] = ChangeSums.mean([sums[member] for member in members])
    return PerturbedMeasures(
        arm,
        units.n_counted,
        {name: ChangeMeasures.of(each, units) for name, each in sums.items()},
        {name: _window(answers, arm) for name, answers in predictions.scored.items()},
    )


def _window(answers: ModelPredictions, arm: PerturbedArm) -> WindowCount:
    return WindowCount(arm.variants.size, int((~answers.seen[arm.variants]).sum()))
