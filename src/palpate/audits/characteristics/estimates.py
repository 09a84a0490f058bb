"""The characteristics audit's numbers as rows of the long table.

`group` is `gender=female`, and `gender` for numbers about the whole characteristic. `reference` names the group that a
paired difference or a flip is against (a transgender woman is compared with a woman, which differs in one word); for an
age that is compared with its neighbours, both of them. Rows of the model `training data` are what the training split
shows.

Where notes differ in the ages that they can have, `n` of a number about an age counts the notes that it is over; the
curve (`mean_probability`, `deviation`, `difference`) has the notes of each age (`age_ranges`).

The intervals of differences, gaps and flips hold for all labels and groups of their characteristic at once, or with
`family: run` for all that the audit compares; `pointwise_low` and `pointwise_high` are for one comparison alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.arm_measures import ArmMeasures
from palpate.audits.characteristics.observed import FEWEST_OBSERVED, ObservedRates
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.audits.kit.paired import (
    FEW_NOTES,
    FEWEST_PATIENTS,
    Corrected,
    GridWriter,
    MeanArrays,
    NoteCounts,
    ShareArrays,
    correct_family,
    where_decided,
)
from palpate.audits.kit.resampling import Correction, Family
from palpate.audits.kit.rows import RowWriter
from palpate.results import ALL_LABELS, Estimate, Plan, Predictions
from palpate.stats import percentile_interval
from palpate.stats.curves import FEWEST_POINTS

TRAINING = "training data"
NO_NOTE = "no note could be altered to every group"
NO_THRESHOLD = "no threshold"
FEW_CASES = f"no interval: fewer than {FEWEST_PATIENTS} training cases"
TOO_FEW_OBSERVED = f"fewer than two groups have {FEWEST_OBSERVED} training cases"
NOT_REACHED = f"not compared: {FEW_NOTES}"
NOT_ABOVE_CHANCE = "in the training data, the groups differ no more than they would by chance"
FEW_AGES = f"fewer than {FEWEST_POINTS} equally spaced ages"
FEWEST_FOR_CURVE = 100
FEW_FOR_CURVE = f"no interval: fewer than {FEWEST_FOR_CURVE} patients"
FLAT = "no interval: in more than 5% of the resamples the curve is flat"
DIFFERENCE, FLIPS, GAP, REVERSALS = "difference", "flip_rate", "neighbour_gap", "neighbour_flips"
STEPS = "year_flips"
METRICS = (
    *(DIFFERENCE, FLIPS, GAP, REVERSALS, STEPS),
    *("mean_probability", "deviation", "roughness", "age_jump", "amplification"),
    *("outside_window", "observed_rate", "observed_deviation"),
)


Key = tuple[str, str, str]
"""Characteristic, model and metric."""


def characteristics_rows(
    measured: Sequence[ArmMeasures],
    plan: Plan[AlteredNotes],
    predictions: Predictions,
    writer: RowWriter,
    threshold: NDArray[np.float64],
    *,
    correction: Correction,
    family: Family,
) -> list[Estimate]:
    """All rows, arm by arm; `threshold` is [scored model, label], NaN where there is none."""
    scored = list(predictions.scored)
    tests = corrected_tests(measured, correction, family, 1.0 - writer.level)
    rows: list[Estimate] = []
    for found in measured:
        arm = _ArmRows(writer, found, plan.labels, plan.cohort.y_true(found.arm.rows, plan.labels), tests)
        if not len(found.arm.rows):
            rows += arm.missing(scored)
            continue
        for model in found.models:
            members = [scored.index(member) for member in predictions.members(model)]
            rows += arm.levels(model)
            rows += arm.compared(model, np.asarray(np.isnan(threshold[members]).any(axis=0)))
            rows += arm.roughness(model) if found.arm.name == "age" else ()
            rows += arm.slopes(model)
        for model, names in predictions.ensembles.items():
            rows += arm.spread(model, names)
        rows += arm.windows()
        rows += arm.observed(found.observed) if found.observed is not None else ()
    return rows


def corrected_tests(
    measured: Sequence[ArmMeasures], correction: Correction, family: Family, outside: float
) -> dict[Key, Corrected]:
    """P-values and levels of differences, gaps and flips, corrected over the family of each.

    A family is one measure of one characteristic and model, over its labels and groups; with `run`, everything.
    Whether a decision ever flips is no test: flips count as many comparisons as there are, without a p-value. Both
    ways in which decisions can hang on a single year are one family.
    """
    raw: dict[Key, NDArray[np.float64]] = {}
    for found in (each for each in measured if len(each.arm.rows)):
        for model, each in found.models.items():
            difference = each.difference.p_value()
            difference[found.arm.against == np.arange(len(found.arm.groups))] = np.nan
            raw[found.arm.name, model, DIFFERENCE] = difference
            compared = ~np.isnan(difference) & ~np.isnan(each.flip_rate.value)
            raw[found.arm.name, model, FLIPS] = np.where(compared, 1.0, np.nan)
            raw[found.arm.name, model, GAP] = each.gap.p_value()
            raw[found.arm.name, model, REVERSALS] = np.where(np.isnan(each.reversals.value), np.nan, 1.0)
            raw[found.arm.name, model, STEPS] = np.where(np.isnan(each.steps.value), np.nan, 1.0)
    families: dict[object, list[Key]] = {}
    for key in raw:
        own_family = (*key[:2], REVERSALS) if key[2] == STEPS else key
        families.setdefault(key[2] in (FLIPS, REVERSALS, STEPS) if family == "run" else own_family, []).append(key)
    out: dict[Key, Corrected] = {}
    for keys in families.values():
        out |= correct_family({key: raw[key] for key in keys}, correction, outside)
    return out


@dataclass(frozen=True, eq=False)
class _ArmRows:
    """Writes the rows of one arm."""

    writer: RowWriter
    found: ArmMeasures
    labels: Sequence[str]
    y_true: NDArray[np.uint8]
    """[note, label]"""
    tests: Mapping[Key, Corrected]

    def missing(self, models: Sequence[str]) -> Iterator[Estimate]:
        for model, label in product(models, self.labels):
            yield self.writer.row(model, DIFFERENCE, label, self.found.arm.name, None, n=0, reason=NO_NOTE)

    @cached_property
    def _grid_writer(self) -> GridWriter:
        n_positive = self.y_true.sum(axis=0, dtype=np.int64)
        return GridWriter(self.writer, self.labels, len(self.found.arm.rows), self.found.n_units, n_positive)

    @cached_property
    def notes(self) -> Mapping[str, NoteCounts | None]:
        """The notes of each comparison, by what it compares; None where every note is in every group."""
        sets = self.found.sets
        if sets is None:
            return dict.fromkeys(("curve", "level", "paired", "neighbours", "years"))
        n_positive = sets.levels.holds.T.astype(np.int64) @ self.y_true.astype(np.int64)
        return {
            "curve": NoteCounts(sets.levels.n_notes, ~sets.reached, n_positive),
            "level": NoteCounts(sets.levels.n_notes, sets.levels.few),
            "paired": NoteCounts(sets.paired.n_notes, sets.paired.few),
            "neighbours": NoteCounts(sets.neighbours.n_notes, sets.neighbours.few),
            "years": NoteCounts(sets.years.n_notes, sets.years.few),
        }

    def levels(self, model: str) -> Iterator[Estimate]:
        arm, each = self.found.arm, self.found.models[model]
        curve = self.notes["curve"]
        yield from self._grid(
            model, "mean_probability", each.mean_probability, arm.group_names, notes=curve, counted=True
        )
        yield from self._grid(model, "mean_probability", each.as_written, [arm.as_written], counted=True)
        yield from self._grid(model, "deviation", each.deviation, arm.group_names, notes=curve, counted=True)

    def compared(self, model: str, undecided: NDArray[np.bool_]) -> Iterator[Estimate]:
        """Differences and flips against the reference group, flips from the note as written, ages and their neighbours;
        `undecided` are the labels without a threshold."""
        arm, each, notes = self.found.arm, self.found.models[model], self.notes
        groups = arm.group_names
        against = arm.against_names
        yield from self._grid(
            model, DIFFERENCE, each.difference, groups, against, notes=notes["curve"], family=DIFFERENCE, counted=True
        )
        flips = where_decided(each.flip_rate, undecided)
        yield from self._grid(model, FLIPS, flips, groups, against, notes=notes["paired"], family=FLIPS)
        flips = where_decided(each.flip_rate_from_written, undecided)
        # A group that is compared with the note as written has this row already.
        written = [
            group if name == arm.as_written else arm.as_written for group, name in zip(groups, against, strict=True)
        ]
        yield from self._grid(model, FLIPS, flips, groups, written, notes=notes["level"])
        inner, around = self.found.neighbours
        yield from self._grid(model, GAP, each.gap, inner, around, notes=notes["neighbours"], family=GAP)
        flips = where_decided(each.reversals, undecided)
        yield from self._grid(model, REVERSALS, flips, inner, around, notes=notes["neighbours"], family=REVERSALS)
        steps = where_decided(each.steps, undecided)
        yield from self._grid(model, STEPS, steps, *self.found.inner_years, notes=notes["years"], family=STEPS)

    def _grid(
        self,
        model: str,
        metric: str,
        numbers: MeanArrays | ShareArrays,
        groups: Sequence[str],
        references: Sequence[str] | None = None,
        *,
        notes: NoteCounts | None = None,
        family: str | None = None,
        counted: bool = False,
    ) -> Iterator[Estimate]:
        """One row per group and label; a group is not compared with itself."""
        return self._grid_writer.rows(
            model,
            metric,
            numbers,
            groups,
            references,
            least=0.0 if metric == "mean_probability" else -1.0,
            test=None if family is None else self.tests[self.found.arm.name, model, family],
            with_p=family in (DIFFERENCE, GAP),
            counted=counted,
            reason=NO_THRESHOLD if metric in (FLIPS, REVERSALS, STEPS) else None,
            notes=notes,
        )

    def spread(self, model: str, members: Sequence[str]) -> Iterator[Estimate]:
        """The standard deviation over the members of an ensemble, of differences and flips (`difference_sd`)."""
        arm, each = self.found.arm, [self.found.models[member] for member in members]
        against = arm.against_names
        inner, around = self.found.neighbours
        for metric, values, groups, references in (
            (DIFFERENCE, [part.difference.value for part in each], arm.group_names, against),
            (FLIPS, [part.flip_rate.value for part in each], arm.group_names, against),
            (GAP, [part.gap.value for part in each], inner, around),
            (REVERSALS, [part.reversals.value for part in each], inner, around),
            (STEPS, [part.steps.value for part in each], *self.found.inner_years),
        ):
            yield from self._grid_writer.spread(model, metric, values, groups, references)

    def roughness(self, model: str) -> Iterator[Estimate]:
        n, rough = len(self.found.arm.rows), self.found.roughness.get(model)
        if rough is None:
            for label in self.labels:
                yield self.writer.row(model, "roughness", label, "age", None, n=n, reason=FEW_AGES)
            return
        few = self.found.n_units < FEWEST_FOR_CURVE
        for metric, value, values in (
            ("roughness", rough.share, rough.share_values),
            ("age_jump", rough.jump, rough.jump_values),
        ):
            low, high = percentile_interval(values, level=self.writer.level)
            for j, label in enumerate(self.labels):
                no_interval = FEW_FOR_CURVE if few else FLAT if np.isnan(low[j]) else None
                reason = rough.reason[j] if np.isnan(value[j]) else no_interval
                ends = (None, None) if few else (low[j], high[j])
                yield self.writer.row(model, metric, label, "age", value[j], n=n, interval=ends, reason=reason)

    def slopes(self, model: str) -> Iterator[Estimate]:
        labels = self.labels if len(self.labels) == 1 else (*self.labels, ALL_LABELS)
        group, observed, slopes = self.found.arm.name, self.found.observed, self.found.slopes.get(model)
        n = 0 if observed is None else int(observed.n.sum())
        why_none = self.found.training.reason or TOO_FEW_OBSERVED
        for j, label in enumerate(labels):
            value, *ends = (None, None, None) if slopes is None else slopes[j]
            reason = why_none if value is None else NOT_ABOVE_CHANCE if np.isnan(value) else None
            interval = (ends[0], ends[1])
            yield self.writer.row(model, "amplification", label, group, value, n=n, interval=interval, reason=reason)

    def windows(self) -> Iterator[Estimate]:
        for model, window in self.found.windows.items():
            n, reason = window.n_altered, None if window.n_altered else "no note was altered"
            yield self.writer.row(model, "outside_window", "", self.found.arm.name, window.share, n=n, reason=reason)

    def observed(self, rates: ObservedRates) -> Iterator[Estimate]:
        place = {int(g): k for k, g in enumerate(rates.known)} if len(rates.known) > 1 else {}
        for (g, group), (j, label) in product(enumerate(self.found.arm.group_names), enumerate(self.labels)):
            n, n_positive, k = int(rates.n[g]), int(rates.n_positive[g, j]), place.get(g)
            yield self.writer.row(
                TRAINING,
                "observed_rate",
                label,
                group,
                rates.rate[g, j],
                n=n,
                interval=(rates.low[g, j], rates.high[g, j]) if n >= FEWEST_PATIENTS else (None, None),
                n_positive=n_positive,
                reason=None if n >= FEWEST_PATIENTS else FEW_CASES if n else "no training case",
            )
            few = f"fewer than {FEWEST_OBSERVED} training cases" if n < FEWEST_OBSERVED else TOO_FEW_OBSERVED
            if place and n >= FEWEST_OBSERVED:
                few = NOT_REACHED
            yield self.writer.row(
                TRAINING,
                "observed_deviation",
                label,
                group,
                None if k is None else rates.deviation[k, j],
                n=n,
                interval=(None, None) if k is None else (rates.deviation_low[k, j], rates.deviation_high[k, j]),
                n_positive=n_positive,
                reason=few if k is None else None,
            )
