"""The capabilities audit's numbers as estimates: one row a model, group and measure.

pass_rate             a test and label; `reference`: the held-out recall of that label, or another model
balanced_pass_rate    a test, the mean over its labels: one answer to everything gets half
capability_pass_rate  a capability, the mean over its tests and labels, each counted alike
recall                held-out cases of a label; `n` cases
value_pass_rate       a capability and label with one value of a slot, the mean over templates
value_spread          highest less lowest of these, with the test that all are alike
value_training_mentions  how often a value is in the training notes, in any case; `n` notes
change_pass_rate      an INV or DIR test under one change
movement, flip_rate   INV and DIR: how far the prediction goes, and how often the decision flips
template_pass_rate    one base template; it is what is resampled, so it has no interval
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palpate.audits.capabilities.measures import (
    Floats,
    Measured,
    Rates,
    difference,
    mean,
    p_of_interval,
    paired_difference,
    stack,
)
from palpate.audits.capabilities.plan import Cell, Examined
from palpate.audits.capabilities.values import ValueRates
from palpate.audits.kit.measured import FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST
from palpate.results import Estimate, finite

AUDIT = "capabilities"
NO_THRESHOLD = "no threshold could be found; set `threshold:` to a number"


@dataclass(frozen=True, eq=False)
class Baseline:
    """Held-out cases of one label."""

    label: str
    measured: Measured | None
    reason: str | None

    @property
    def group(self) -> str:
        """Its name among the estimates."""
        return f"held-out: {self.label}"


@dataclass(frozen=True, eq=False)
class Scribe:
    """Writes estimates: what they are about, and why one is not there."""

    label: str
    models: tuple[str, ...]
    """All that have answers: checkpoints, and models that are the mean of several."""
    compared: tuple[str, ...]
    decides: tuple[bool, ...]
    """Whether each model has a threshold."""
    level: float
    n_replicates: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(model, reference) of every comparison."""
        place = [self.models.index(name) for name in self.compared]
        return [(b, a) for k, b in enumerate(place) for a in place[:k]]

    def row(
        self,
        m: int,
        metric: str,
        group: str,
        rates: Rates,
        *,
        n: int,
        n_units: int | None = None,
        unit: str = "templates",
        decides: bool = True,
        other: int | None = None,
    ) -> Estimate:
        """One number of model m (against model `other`); without `n_units` it has no interval."""
        known = not decides or (self.decides[m] and (other is None or self.decides[other]))
        value, low, high = (finite(float(part)) if known else None for part in rates)
        reason = None
        if value is None:
            reason = NO_THRESHOLD if not known else f"no {'pair' if n == 0 else 'value'}"
        elif n_units is None:
            low = high = None
        elif n_units < FEWEST_FOR_INTERVAL:
            low = high = None
            reason = f"no interval: fewer than {FEWEST_FOR_INTERVAL} {unit}"
        elif low is None or high is None:
            reason = f"no interval: all {unit} are alike"
        return Estimate(
            audit=AUDIT,
            model=self.models[m],
            metric=metric,
            label=self.label,
            group=group,
            reference=None if other is None else self.models[other],
            value=value,
            low=low,
            high=high,
            level=None if n_units is None else self.level,
            n=n,
            reason=reason,
        )

    def tested(self, row: Estimate, rates: Rates, n_units: int, unit: str = "templates") -> Estimate:
        """The row of a difference with its p, which is not corrected yet."""
        if row.value is None:
            return row
        if n_units < FEWEST_FOR_TEST:
            return replace(row, reason=row.reason or f"not tested: fewer than {FEWEST_FOR_TEST} {unit}")
        p_value = p_of_interval(rates, level=self.level, n_replicates=self.n_replicates)
        return replace(row, p_value=finite(float(p_value)))

    def levels(
        self, metric: str, group: str, measured: Measured, *, unit: str = "templates", decides: bool = True
    ) -> Iterator[Estimate]:
        """A row a model."""
        for m in range(len(self.models)):
            rates = _of(measured.rates, m)
            n_units = measured.n_units
            yield self.row(m, metric, group, rates, n=measured.n, n_units=n_units, unit=unit, decides=decides)

    def against_baseline(self, cell: Cell, measured: Measured, baseline: Baseline) -> Iterator[Estimate]:
        """A test's pass rate less the held-out recall of its label."""
        for name in self.compared:
            m = self.models.index(name)
            if baseline.measured is None:
                nothing = Rates(*(np.asarray(np.nan) for _ in range(3)))
                row = self.row(m, "pass_rate", cell.group, nothing, n=measured.n, n_units=measured.n_units)
                yield replace(row, reference=baseline.group, reason=baseline.reason)
                continue
            rates = difference(_of(measured.rates, m), _of(baseline.measured.rates, m))
            n_units, n_patients = measured.n_units, baseline.measured.n_units
            row = self.row(m, "pass_rate", cell.group, rates, n=measured.n, n_units=min(n_units, n_patients))
            row = replace(row, reference=baseline.group)
            if n_patients < FEWEST_FOR_TEST <= n_units:
                yield self.tested(row, rates, n_patients, "patients")
            else:
                yield self.tested(row, rates, n_units)

    def between_models(
        self, metric: str, group: str, measured: Measured, *, unit: str = "templates", decides: bool = True
    ) -> Iterator[Estimate]:
        """Each pair of models on the same templates (or patients)."""
        for a, b in self.pairs:
            rates = paired_difference(measured, a, b, level=self.level)
            n_units = measured.n_units
            row = self.row(a, metric, group, rates, n=measured.n, n_units=n_units, unit=unit, decides=decides, other=b)
            yield self.tested(row, rates, n_units, unit)

    def averages(
        self, metric: str, group: str, cells: Sequence[Cell], measured: Sequence[Measured]
    ) -> tuple[list[Estimate], list[Estimate]]:
        """The mean over cells, each counted alike: a row a model, and a row a pair of models."""
        n, n_units = sum(part.n for part in measured), sum(part.n_units for part in measured)
        decides = any(cell.test.type == "MFT" for cell in cells)
        both = mean(stack([part.rates for part in measured]))
        levels = [
            self.row(m, metric, group, _of(both, m), n=n, n_units=n_units, decides=decides)
            for m in range(len(self.models))
        ]
        pairs = []
        for a, b in self.pairs:
            rates = mean(stack([paired_difference(part, a, b, level=self.level) for part in measured]))
            row = self.row(a, metric, group, rates, n=n, n_units=n_units, decides=decides, other=b)
            pairs.append(self.tested(row, rates, n_units))
        return levels, pairs

    def values(self, found: ValueRates, examined: Examined) -> tuple[list[Estimate], list[Estimate]]:
        """The rate with each value of a slot, and how far they are apart, with p."""
        names = examined.slots[found.slot].values
        levels = [
            row
            for v, part in zip(found.values.tolist(), found.measured, strict=True)
            for row in self.levels("value_pass_rate", value_group(found.scope.group, found.slot, names[v]), part)
        ]
        spreads = []
        for name in self.compared:
            m = self.models.index(name)
            rates = Rates(*(np.asarray(found.spread[m]) for _ in range(3)))
            row = self.row(m, "value_spread", f"{found.scope.group} | {found.slot}", rates, n=found.n_cases)
            p_value = finite(float(found.p_value[m]))
            if row.value is not None and p_value is None:
                row = replace(row, reason=f"not tested: fewer than {FEWEST_FOR_INTERVAL} templates")
            spreads.append(replace(row, p_value=p_value if row.value is not None else None))
        return levels, spreads

    def mentions(self, examined: Examined) -> Iterator[Estimate]:
        """How often each value of a slot is in the training notes; the same for every model."""
        n = examined.n_training
        for slot, use in examined.slots.items():
            for value, mentions in zip(use.values, use.mentions.tolist(), strict=True):
                for m in (self.models.index(name) for name in self.compared):
                    number = np.asarray(float(mentions) if n is not None else np.nan)
                    group, rates = f"{slot}: {value}", Rates(number, number, number)
                    row = self.row(m, "value_training_mentions", group, rates, n=n or 0, decides=False)
                    yield row if n is not None else replace(row, reason="there are no training notes")

    def templates(self, examined: Examined, passed: Floats) -> Iterator[Estimate]:
        """The pass rate of every base template; `passed` is [model, case]."""
        n = np.bincount(examined.template, minlength=len(examined.templates))
        for m in range(len(self.models)):
            sums = np.bincount(examined.template, weights=passed[m], minlength=len(n))
            for k, name in enumerate(examined.templates):
                rate = np.asarray(sums[k] / max(int(n[k]), 1))
                decides = examined.cells[int(examined.cell_of_template[k])].test.type == "MFT"
                rates = Rates(rate, rate, rate)
                yield self.row(m, "template_pass_rate", name, rates, n=int(n[k]), decides=decides)

    def spread_over_checkpoints(
        self, families: dict[str, list[str]], group: str, measured: Measured
    ) -> Iterator[Estimate]:
        """The standard deviation of a model's checkpoints."""
        for family, members in families.items():
            place = [self.models.index(name) for name in members]
            sd = np.asarray(measured.rates.value[place].std(ddof=1))
            m = self.models.index(family)
            yield self.row(m, "pass_rate_sd", group, Rates(sd, sd, sd), n=measured.n)


def value_group(scope: str, slot: str, value: str) -> str:
    """The name of a slot's value among the estimates."""
    return f"{scope} | {slot}: {value}"


def _of(rates: Rates, m: int) -> Rates:
    return Rates(*(np.asarray(part[m]) for part in rates))
