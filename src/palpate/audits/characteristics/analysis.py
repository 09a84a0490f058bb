"""From the answers to one arm's measures, for every model: labels in blocks, checkpoints of a model as their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.characteristics.ages import Roughness, mean_roughness, roughness
from palpate.audits.characteristics.arms import Arm, Memory, ObservedGroups, age_run
from palpate.audits.characteristics.measures import COLUMNS_PER_BLOCK, Measures, Resampling, Sums, measure
from palpate.audits.characteristics.observed import ObservedRates, Slope, amplification, observed_rates
from palpate.cases.edits import Ints
from palpate.results import ModelPredictions, Plan
from palpate.stats.clustered import Units, units_of
from palpate.stats.curves import FEWEST_POINTS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """How the answers are summarised."""

    unit: Literal["patient", "case"]
    n_replicates: int
    level: float
    seed: int
    training_seed: int
    """The training patients are resampled apart from the audited ones."""

    def resampling(self) -> Resampling:
        """For the audited notes."""
        return Resampling(self.n_replicates, self.level, self.seed)

    def units(self, plan: Plan, rows: Ints) -> Units:
        """What is resampled."""
        return units_of(plan.cohort.patients[rows] if self.unit == "patient" else np.arange(len(rows)))


class Seen(NamedTuple):
    """How many altered notes there are, and how many of them lie outside a model's window."""

    n_altered: int
    n_outside: int


@dataclass(frozen=True, eq=False)
class ArmAnalysis:
    """Everything about one arm."""

    arm: Arm
    n_units: int
    measures: Mapping[str, Measures]
    """By model; a model with several checkpoints is there beside them."""
    roughness: Mapping[str, Roughness]
    run: Ints | None
    """The groups that make the age curve."""
    observed: ObservedRates | None
    slopes: Mapping[str, Sequence[Slope]]
    """By model: one a label and, of several labels, one over all at the end."""
    seen: Mapping[str, Seen]


def analyse_arm(
    plan: Plan,
    predictions: Mapping[str, ModelPredictions],
    families: Mapping[str, Sequence[str]],
    threshold: Floats,
    arm: Arm,
    groups: ObservedGroups,
    settings: Settings,
) -> ArmAnalysis:
    """All models in one arm; `threshold` is [model, label] in the order of `predictions`."""
    units = settings.units(plan, arm.rows)
    run = age_run(arm.groups) if arm.name == "age" else None
    run = run if run is not None and len(run) >= FEWEST_POINTS else None
    blocks: dict[str, list[Measures]] = {}
    seen_rates: list[ObservedRates] = []
    squares: list[Floats] = []
    step = max(1, COLUMNS_PER_BLOCK // len(arm.groups))
    for first in range(0, len(plan.labels) if len(arm.rows) else 0, step):
        labels = slice(first, first + step)
        rates = _observed(plan, groups, labels, len(arm.groups), settings)
        for name, sums in _all_sums(plan, predictions, families, threshold, arm, units, labels).items():
            block = measure(
                sums,
                units,
                settings.resampling(),
                reference=arm.reference,
                run=run,
                observed=rates if rates is not None and len(rates.known) > 1 else None,
            )
            blocks.setdefault(name, []).append(block)
        if rates is not None:
            seen_rates.append(rates.without_replicates())
            squares.append((rates.deviation_values**2).sum(axis=0))
    measures = {name: Measures.joined(parts) for name, parts in blocks.items()}
    observed = _joined_rates(seen_rates)
    return ArmAnalysis(
        arm=arm,
        n_units=len(units.size),
        measures=measures,
        roughness=_roughness(measures, families),
        run=run,
        observed=observed,
        slopes=_slopes(measures, observed, squares, settings.level),
        seen={name: _seen(plan, answers, arm) for name, answers in predictions.items()},
    )


def _all_sums(
    plan: Plan,
    predictions: Mapping[str, ModelPredictions],
    families: Mapping[str, Sequence[str]],
    threshold: Floats,
    arm: Arm,
    units: Units,
    labels: slice,
) -> dict[str, Sums]:
    """Every checkpoint's sums, and those of models that have several."""
    memory: Memory = plan.memory
    original = memory.original[arm.rows]
    sums = {
        name: Sums.of(
            arm.cut(answers.p[:, labels]),
            answers.p[original, labels],
            threshold[m, labels],
            reference=arm.reference,
            units=units,
        )
        for m, (name, answers) in enumerate(predictions.items())
    }
    return sums | {family: Sums.mean([sums[name] for name in members]) for family, members in families.items()}


def _observed(
    plan: Plan, groups: ObservedGroups, labels: slice, n_groups: int, settings: Settings
) -> ObservedRates | None:
    if groups.reason is not None or not np.any(groups.group >= 0):
        return None
    return observed_rates(
        groups,
        plan.cohort.y_true(groups.rows, plan.labels[labels]),
        settings.units(plan, groups.rows),
        n_groups=n_groups,
        seed=settings.training_seed,
        n_replicates=settings.n_replicates,
        level=settings.level,
    )


def _joined_rates(blocks: Sequence[ObservedRates]) -> ObservedRates | None:
    """Blocks of labels as one: cases and known groups are the same in all."""
    if not blocks:
        return None
    joined = {
        name: np.concatenate([getattr(block, name) for block in blocks], axis=1)
        for name in ObservedRates._fields
        if name not in ("n", "known")
    }
    return blocks[0]._replace(**joined)


def _roughness(measures: Mapping[str, Measures], families: Mapping[str, Sequence[str]]) -> dict[str, Roughness]:
    found = {
        name: roughness(each.curve)
        for name, each in measures.items()
        if each.curve is not None and name not in families
    }
    for family, members in families.items():
        if all(name in found for name in members):
            found[family] = mean_roughness([found[name] for name in members])
    return found


def _slopes(
    measures: Mapping[str, Measures], observed: ObservedRates | None, square_blocks: Sequence[Floats], level: float
) -> dict[str, list[Slope]]:
    if observed is None or len(observed.known) < 2:
        return {}
    squares, square_values = (observed.deviation**2).sum(axis=0), np.concatenate(square_blocks)
    out = {}
    for name, each in measures.items():
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


def _seen(plan: Plan, answers: ModelPredictions, arm: Arm) -> Seen:
    part = slice(arm.first, arm.stop)
    altered = plan.variants.n_edits[part] > 0
    return Seen(int(altered.sum()), int((altered & ~answers.seen[part]).sum()))
