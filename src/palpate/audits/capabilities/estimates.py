"""The capabilities audit's numbers as rows: one per model, group and measure.

pass_rate             a test and label; `reference`: the held-out recall of that label, or another model
pass_rate_sd          its standard deviation over the seeds of a model
balanced_pass_rate    a test, the mean over its labels: one answer to everything gets half
capability_pass_rate  a capability, the mean over its tests and labels, each counted alike
recall                held-out cases of a label; `n` is the number of cases
value_pass_rate       a capability and label with one value of a slot, the mean over templates
value_spread          highest less lowest of these, with the test that all are alike
value_training_mentions  how often a value is in the training notes, in upper or lower case; `n` notes
change_pass_rate      an INV or DIR test under one change
movement, flip_rate   INV and DIR: how far the prediction moves, and how often the decision flips
template_pass_rate    one base template; templates are what is resampled, so it has no interval
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palpate.audits.capabilities.measures import Baseline, CapabilityMeasures
from palpate.audits.capabilities.plan import PARTS, ExaminedCases, LabelledTest, PlannedSuite
from palpate.audits.capabilities.rates import AveragedRates, ClusteredRates, Rates, difference, p_of_interval
from palpate.audits.capabilities.slot_values import ValueRates
from palpate.audits.kit import (
    FEWEST_FOR_INTERVAL,
    Resampling,
    RowWriter,
    corrected,
    ensemble_spread,
    pairs_of,
)
from palpate.results import Estimate, Plan, Predictions

Found = ClusteredRates | AveragedRates
UNKNOWN = Rates(*(np.asarray(math.nan) for _ in range(3)))
NO_THRESHOLD = "no threshold could be found; set `threshold:` to a number"


@dataclass(frozen=True, eq=False)
class CapabilityRows:
    """Writes the rows of one run: for each model, for each pair of models, and against the baseline."""

    writer: RowWriter
    label: str
    predictions: Predictions
    decides: dict[str, bool]
    """Whether each model has a threshold."""
    how: Resampling

    def number(
        self,
        model: str,
        metric: str,
        group: str,
        value: float,
        *,
        n: int,
        decides: bool = True,
        p_value: float | None = None,
        reason: str | None = None,
    ) -> Estimate:
        """A number without an interval; `decides`: whether it needs a threshold."""
        if decides and not self.decides[model]:
            value, reason = math.nan, NO_THRESHOLD
        return self.writer.row(model, metric, self.label, group, value, n=n, p_value=p_value, reason=reason)

    def rate(
        self,
        model: str,
        metric: str,
        group: str,
        rates: Rates,
        found: Found,
        *,
        decides: bool = True,
        reference: str | None = None,
    ) -> Estimate:
        """A number with its interval; against a `reference` also with p, which is not corrected yet."""
        known = not decides or (self.decides[model] and self.decides.get(reference or "", True))
        value, low, high = (float(part) if known else math.nan for part in rates)
        reason = None if known else NO_THRESHOLD
        if not math.isnan(value) and math.isnan(low) and found.n_units >= FEWEST_FOR_INTERVAL:
            reason = f"no interval: all {found.unit} are alike"
        row = self.writer.row(
            model,
            metric,
            self.label,
            group,
            value,
            n=found.n,
            interval=(low, high),
            reference=reference,
            p_value=None if reference is None else float(p_of_interval(rates, self.how)),
            reason=reason,
        )
        return self.writer.enough(row, found.n_units, found.unit, tested=reference is not None)

    def levels(self, metric: str, group: str, found: Found, *, decides: bool = True) -> list[Estimate]:
        """One row per model."""
        return [
            self.rate(name, metric, group, found.rates.column(m), found, decides=decides)
            for m, name in enumerate(self.predictions.names)
        ]

    def between_models(self, metric: str, group: str, found: Found, *, decides: bool = True) -> list[Estimate]:
        """Each pair of models, on the same templates (or patients)."""
        rows, names = [], self.predictions.names
        for model, reference in pairs_of(self.predictions.compared):
            rates = found.paired_difference(names.index(model), names.index(reference), level=self.how.level)
            rows.append(self.rate(model, metric, group, rates, found, decides=decides, reference=reference))
        return rows

    def against_baseline(self, test: LabelledTest, found: ClusteredRates, baseline: Baseline) -> Iterator[Estimate]:
        """A test's pass rate less the held-out recall of its label."""
        for name in self.predictions.compared:
            m, other = self.predictions.names.index(name), baseline.rates
            if other is None:
                row = self.rate(name, "pass_rate", test.group, UNKNOWN, found, reference=baseline.group)
                yield replace(row, reason=baseline.reason)
                continue
            rates = difference(found.rates.column(m), other.rates.column(m))
            fewer = other if other.n_units < found.n_units else found
            fewer = replace(found, n_units=fewer.n_units, unit=fewer.unit)
            yield self.rate(name, "pass_rate", test.group, rates, fewer, reference=baseline.group)

    def corrected(self, rows: Sequence[Estimate]) -> list[Estimate]:
        """The rows with p corrected."""
        return corrected(rows, self.how.correction, self.how.level, headline=self.label)


def capability_rows(
    plan: Plan[PlannedSuite],
    predictions: Predictions,
    measured: CapabilityMeasures,
    row_writer: RowWriter,
    how: Resampling,
) -> list[Estimate]:
    """All rows; those of the suite's further capabilities follow those of its main ones."""
    examined = plan.memory.examined
    writer = CapabilityRows(row_writer, plan.labels[0], predictions, measured.answers.decides, how)
    rows = [row for baseline in measured.baselines.values() for row in _recalls(writer, baseline)]
    for part in PARTS:
        rows += _tests(writer, examined, measured, part)
        rows += _averages(writer, examined, measured, part)
        rows += _values(writer, [found for found in measured.values if found.scope.part == part])
    for test, pair in measured.pairs.items():
        rows += writer.levels("movement", test.group, pair.movement, decides=False)
        rows += writer.levels("flip_rate", test.group, pair.flips)
        for change, found in pair.changes.items():
            rows += writer.levels("change_pass_rate", f"{test.group} | {change}", found, decides=False)
    return [*rows, *_mentions(writer, examined), *_templates(writer, examined, measured)]


def _recalls(writer: CapabilityRows, baseline: Baseline) -> list[Estimate]:
    if baseline.rates is None:
        return [
            writer.number(name, "recall", baseline.group, math.nan, n=0, decides=False, reason=baseline.reason)
            for name in writer.predictions.names
        ]
    pairs = writer.between_models("recall", baseline.group, baseline.rates)
    return writer.levels("recall", baseline.group, baseline.rates) + writer.corrected(pairs)


def _tests(writer: CapabilityRows, examined: ExaminedCases, measured: CapabilityMeasures, part: str) -> list[Estimate]:
    """Pass rates of tests and labels, their spread over seeds, and differences to the baseline and between models."""
    levels: list[Estimate] = []
    below: list[Estimate] = []
    pairs: list[Estimate] = []
    for test in examined.tests_of(part):
        found = measured.tests[test]
        levels += writer.levels("pass_rate", test.group, found, decides=test.decides)
        spread = ensemble_spread(found.rates.value, writer.predictions)
        levels += [writer.number(name, "pass_rate_sd", test.group, float(sd), n=found.n) for name, sd in spread.items()]
        pairs += writer.between_models("pass_rate", test.group, found, decides=test.decides)
        if test.decides and test.positive is not None:
            below += writer.against_baseline(test, found, measured.baselines[test.positive])
    return levels + writer.corrected(below) + writer.corrected(pairs)


def _averages(
    writer: CapabilityRows, examined: ExaminedCases, measured: CapabilityMeasures, part: str
) -> list[Estimate]:
    """Tests with both labels, and capabilities."""
    rows: list[Estimate] = []
    for metric, groups in (
        ("balanced_pass_rate", {both[0].test_group: both for both in examined.both_labels(part)}),
        ("capability_pass_rate", examined.capabilities(part)),
    ):
        pairs: list[Estimate] = []
        for name, tests in groups.items():
            found = AveragedRates([measured.tests[test] for test in tests])
            decides = any(test.decides for test in tests)
            rows += writer.levels(metric, name, found, decides=decides)
            pairs += writer.between_models(metric, name, found, decides=decides)
        rows += writer.corrected(pairs)
    return rows


def _values(writer: CapabilityRows, found: Sequence[ValueRates]) -> list[Estimate]:
    """The rate with each value of a slot, and how far they are apart, with p."""
    rows: list[Estimate] = []
    spreads: list[Estimate] = []
    names = writer.predictions.names
    for each in found:
        for group, rates in zip(each.value_groups, each.rates, strict=True):
            rows += writer.levels("value_pass_rate", group, rates)
        for name in writer.predictions.compared:
            m = names.index(name)
            p_value, n = float(each.p_value[m]), each.n_cases
            reason = f"not tested: fewer than {FEWEST_FOR_INTERVAL} templates" if math.isnan(p_value) else None
            spreads.append(
                writer.number(name, "value_spread", each.group, each.spread[m], n=n, p_value=p_value, reason=reason)
            )
    return rows + writer.corrected(spreads)


def _mentions(writer: CapabilityRows, examined: ExaminedCases) -> Iterator[Estimate]:
    """How often each value of a slot is in the training notes; the same for every model."""
    n = examined.n_training
    for slot, use in examined.slots.items():
        for value, mentions in zip(use.values, use.mentions.tolist(), strict=True):
            for name in writer.predictions.compared:
                yield writer.number(
                    name,
                    "value_training_mentions",
                    f"{slot}: {value}",
                    math.nan if n is None else mentions,
                    n=n or 0,
                    decides=False,
                    reason="no training notes" if n is None else None,
                )


def _templates(writer: CapabilityRows, examined: ExaminedCases, measured: CapabilityMeasures) -> Iterator[Estimate]:
    """The pass rate of every base template."""
    n = np.bincount(examined.template)
    decides = {k for test in examined.tests if test.decides for k in examined.template[test.cases].tolist()}
    for model, passed in zip(writer.predictions.names, measured.answers.passed, strict=True):
        rates = np.bincount(examined.template, weights=passed) / n
        for k, name in enumerate(examined.templates):
            yield writer.number(model, "template_pass_rate", name, rates[k], n=int(n[k]), decides=k in decides)
