"""The characteristics audit's numbers as rows of the long table.

`group` is `gender=female`, and `gender` for numbers about the whole characteristic. `reference` names the group that a
paired difference or a flip is against. Rows of the model `training data` are what the training split shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.measures import ArmMeasures, EstimateArrays
from palpate.audits.characteristics.observed import FEWEST_OBSERVED, ObservedRates
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, Correction
from palpate.audits.kit.rows import RowWriter, corrected
from palpate.results import ALL_LABELS, Estimate, Plan, Predictions
from palpate.stats import percentile_interval
from palpate.stats.curves import FEWEST_POINTS

TRAINING = "training data"
NO_NOTE = "no note could be altered to every group"
NO_THRESHOLD = "no threshold"
TOO_FEW_OBSERVED = f"fewer than two groups have {FEWEST_OBSERVED} training cases"
NOT_ABOVE_CHANCE = "in the training data, the groups differ no more than they would by chance"
FEW_AGES = f"fewer than {FEWEST_POINTS} equally spaced ages"
FLAT = "no interval: in more than 5% of the resamples the curve is flat"


def characteristics_rows(
    measured: Sequence[ArmMeasures],
    plan: Plan[AlteredNotes],
    predictions: Predictions,
    writer: RowWriter,
    correction: Correction,
    threshold: NDArray[np.float64],
) -> list[Estimate]:
    """All rows, arm by arm; `threshold` is [scored model, label], NaN where there is none."""
    # The arms share the level evenly, so that age with its many groups costs the others little.
    n_arms = max(1, sum(len(found.arm.rows) > 0 for found in measured))
    scored = list(predictions.scored)
    rows: list[Estimate] = []
    for found in measured:
        n_positive = plan.cohort.y_true(found.arm.rows, plan.labels).sum(axis=0, dtype=np.int64)
        arm = _ArmRows(writer, found, plan.labels, n_positive)
        if not len(found.arm.rows):
            rows += arm.missing(scored)
            continue
        for model in found.models:
            members = [scored.index(member) for member in predictions.members(model)]
            rows += arm.levels(model)
            rows += corrected(list(arm.differences(model)), correction, writer.level, n_questions=n_arms)
            rows += arm.flips(model, np.asarray(np.isnan(threshold[members]).any(axis=0)))
            rows += arm.roughness(model) if found.arm.name == "age" else ()
            rows += arm.slopes(model)
        rows += arm.windows()
        rows += arm.observed(found.observed) if found.observed is not None else ()
    return rows


@dataclass(frozen=True, eq=False)
class _ArmRows:
    """Writes the rows of one arm."""

    writer: RowWriter
    found: ArmMeasures
    labels: Sequence[str]
    n_positive: NDArray[np.int64]
    """The positive notes of each label."""

    def missing(self, models: Sequence[str]) -> Iterator[Estimate]:
        for model, label in product(models, self.labels):
            yield self.writer.row(model, "difference", label, self.found.arm.name, None, n=0, reason=NO_NOTE)

    def levels(self, model: str) -> Iterator[Estimate]:
        arm, each, n_positive = self.found.arm, self.found.models[model], self.n_positive
        yield from self._grid(model, "mean_probability", each.mean_probability, arm.group_names, n_positive=n_positive)
        yield from self._grid(model, "mean_probability", each.as_written, [arm.as_written], n_positive=n_positive)
        yield from self._grid(model, "deviation", each.deviation, arm.group_names, n_positive=n_positive)

    def differences(self, model: str) -> Iterator[Estimate]:
        """Paired differences to the reference group; p-values are not corrected yet."""
        arm, each = self.found.arm, self.found.models[model]
        return self._grid(
            model,
            "difference",
            each.difference,
            arm.group_names,
            reference=arm.reference_name,
            p_value=each.p_value,
            n_positive=self.n_positive,
        )

    def flips(self, model: str, undecided: NDArray[np.bool_]) -> Iterator[Estimate]:
        """Decisions that differ; `undecided` are the labels without a threshold."""
        arm, each = self.found.arm, self.found.models[model]
        for numbers, against in ((each.flip_rate, arm.reference_name), (each.flip_rate_from_written, arm.as_written)):
            decided = numbers._replace(value=np.where(undecided, np.nan, numbers.value))
            reason = NO_THRESHOLD
            yield from self._grid(model, "flip_rate", decided, arm.group_names, reference=against, why_missing=reason)

    def _grid(
        self,
        model: str,
        metric: str,
        numbers: EstimateArrays,
        groups: Sequence[str],
        *,
        reference: str | None = None,
        p_value: NDArray[np.float64] | None = None,
        n_positive: NDArray[np.int64] | None = None,
        why_missing: str | None = None,
    ) -> Iterator[Estimate]:
        """One row per group and label; a group is not compared with itself."""
        for (g, group), (j, label) in product(enumerate(groups), enumerate(self.labels)):
            if group == reference:
                continue
            row = self.writer.row(
                model,
                metric,
                label,
                group,
                numbers.value[g, j],
                n=len(self.found.arm.rows),
                interval=(numbers.low[g, j], numbers.high[g, j]),
                reference=reference,
                p_value=None if p_value is None else p_value[g, j],
                n_positive=None if n_positive is None else int(n_positive[j]),
                reason=why_missing if np.isnan(numbers.value[g, j]) else None,
            )
            yield self.writer.enough(row, self.found.n_units, tested=p_value is not None)

    def roughness(self, model: str) -> Iterator[Estimate]:
        n, rough = len(self.found.arm.rows), self.found.roughness.get(model)
        if rough is None:
            for label in self.labels:
                yield self.writer.row(model, "roughness", label, "age", None, n=n, reason=FEW_AGES)
            return
        few = self.found.n_units < FEWEST_FOR_INTERVAL
        for metric, value, values in (
            ("roughness", rough.share, rough.share_values),
            ("age_jump", rough.jump, rough.jump_values),
        ):
            low, high = percentile_interval(values, level=self.writer.level)
            for j, label in enumerate(self.labels):
                no_interval = FLAT if np.isnan(low[j]) and not few else None
                reason = rough.reason[j] if np.isnan(value[j]) else no_interval
                ends = (low[j], high[j])
                row = self.writer.row(model, metric, label, "age", value[j], n=n, interval=ends, reason=reason)
                yield self.writer.enough(row, self.found.n_units)

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
                interval=(rates.low[g, j], rates.high[g, j]),
                n_positive=n_positive,
                reason=None if n else "no training case",
            )
            few = f"fewer than {FEWEST_OBSERVED} training cases" if n < FEWEST_OBSERVED else TOO_FEW_OBSERVED
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
