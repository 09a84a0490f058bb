"""The robustness audit's rows.

    difference        mean prediction for the notes written differently, less that for the notes as written
    absolute_change   the mean change of a note's prediction, whichever way it goes
    flip_rate         share of decisions that change
    wrong_flip_rate   where a direction is expected: share of decisions that change against it
    mean_probability  mean prediction, for each group and as written
    outside_window    share of the notes written differently that the model never saw

The intervals of differences and flips hold for all perturbations, groups and labels of their question at once, or with
`family: run` for all that the audit compares; `pointwise_low` and `pointwise_high` are for one comparison alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.paired import Corrected, GridWriter, correct_family, where_decided
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import RowWriter
from palpate.audits.robustness.measures import Floats, PerturbedMeasures
from palpate.audits.robustness.plan import PerturbedNotes
from palpate.results import Estimate, Plan, Predictions

DIFFERENCE, FLIPS, WRONG_FLIPS, ABSOLUTE, LEVEL = (
    *("difference", "flip_rate", "wrong_flip_rate", "absolute_change", "mean_probability"),
)
METRICS = (DIFFERENCE, FLIPS, WRONG_FLIPS, ABSOLUTE, LEVEL, "outside_window")
NO_NOTE = "no note could be written so"
NO_THRESHOLD = "no threshold"
Key = tuple[str, str, bool]
"""Perturbation, model, and whether flips (else differences)."""


def flips_of(found: PerturbedMeasures) -> str:
    """What the flips of an arm are called: those against a direction are a metric of their own."""
    return FLIPS if found.arm.perturbation.expects == "same" else WRONG_FLIPS


def robustness_rows(
    measured: Sequence[PerturbedMeasures],
    plan: Plan[PerturbedNotes],
    predictions: Predictions,
    writer: RowWriter,
    threshold: Floats,
    *,
    correction: Correction,
    family: Family,
) -> list[Estimate]:
    """All rows, arm by arm; `threshold` is [scored model, label], NaN where there is none."""
    scored, tests = list(predictions.scored), _tests(measured, correction, family, 1.0 - writer.level)
    rows: list[Estimate] = []
    for found in measured:
        arm = found.arm
        if not len(arm.rows):
            for model, label in product(scored, plan.labels):
                rows.append(writer.row(model, DIFFERENCE, label, arm.name, None, n=0, reason=NO_NOTE))
            continue
        n_positive = plan.cohort.y_true(arm.rows, plan.labels).sum(axis=0, dtype=np.int64)
        grid = GridWriter(writer, plan.labels, len(arm.rows), found.n_units, n_positive)
        for model in found.models:
            members = [scored.index(member) for member in predictions.members(model)]
            rows += _model_rows(grid, found, model, np.asarray(np.isnan(threshold[members]).any(axis=0)), tests)
        for model, names in predictions.ensembles.items():
            parts, written = [found.models[name] for name in names], [arm.as_written] * len(arm.groups)
            differences, flips = ([part.difference.value for part in parts], [part.flips.value for part in parts])
            rows += grid.spread(model, DIFFERENCE, differences, arm.group_names, written)
            rows += grid.spread(model, flips_of(found), flips, arm.group_names, written)
        for model, window in found.windows.items():
            share = window.share
            rows.append(writer.row(model, "outside_window", "", arm.name, share, n=window.n_altered))
    return rows


def _model_rows(
    grid: GridWriter,
    found: PerturbedMeasures,
    model: str,
    undecided: NDArray[np.bool_],
    tests: Mapping[Key, Corrected],
) -> Iterator[Estimate]:
    """One model in one arm; `undecided` are the labels without a threshold."""
    arm, each = found.arm, found.models[model]
    groups, written = arm.group_names, [arm.as_written] * len(arm.groups)
    yield from grid.rows(model, LEVEL, each.mean_probability, groups, least=0.0, counted=True)
    yield from grid.rows(model, LEVEL, each.as_written, [arm.as_written], least=0.0, counted=True)
    test = tests[arm.name, model, False]
    yield from grid.rows(model, DIFFERENCE, each.difference, groups, written, test=test, with_p=True, counted=True)
    yield from grid.rows(model, ABSOLUTE, each.absolute, groups, written, least=0.0)
    flips, test = where_decided(each.flips, undecided), tests[arm.name, model, True]
    yield from grid.rows(model, flips_of(found), flips, groups, written, least=0.0, test=test, reason=NO_THRESHOLD)


def _tests(
    measured: Sequence[PerturbedMeasures], correction: Correction, family: Family, outside: float
) -> dict[Key, Corrected]:
    """P-values and levels, corrected over the family of each: a question's differences, or its flips, for one model.

    Whether a decision ever flips is no test: flips count as many comparisons as there are, without a p-value.
    """
    families: dict[object, dict[Key, Floats]] = {}
    for found in measured:
        for model, each in found.models.items():
            question = found.arm.perturbation.question
            for flips, raw in ((False, each.difference.p_value()), (True, np.ones_like(each.flips.value))):
                own = flips if family == "run" else (question, model, flips)
                families.setdefault(own, {})[found.arm.name, model, flips] = raw
    out: dict[Key, Corrected] = {}
    for raw_values in families.values():
        out |= correct_family(raw_values, correction, outside)
    return out
