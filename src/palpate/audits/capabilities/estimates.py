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
movement, flip_rate   INV and DIR: how far the prediction moves on average, and how often the decision flips
template_pass_rate    one base template; templates are what is resampled, so it has no interval
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palpate.audits.capabilities.measures import Baseline, CapabilityMeasures
from palpate.audits.capabilities.plan import PARTS, ExaminedCases, LabelledTest
from palpate.audits.capabilities.slot_values import ValueRates
from palpate.audits.kit.metrics import ensemble_spread
from palpate.audits.kit.resampling import FEWEST_FOR_INTERVAL, Family, Resampling
from palpate.audits.kit.rows import RowWriter, corrected, one_family, pairs_of
from palpate.results import Estimate, Predictions
from palpate.stats import interval_p_value
from palpate.stats.clustered_rates import AveragedRates, PassRates, Rates, difference

AnyRates = PassRates | AveragedRates
METRICS = (
    *("pass_rate", "balanced_pass_rate", "capability_pass_rate", "recall", "value_pass_rate", "value_spread"),
    *("value_training_mentions", "change_pass_rate", "movement", "flip_rate", "template_pass_rate"),
)
UNKNOWN = Rates(*(np.asarray(math.nan) for _ in range(3)))
NO_THRESHOLD = "no threshold could be found; set `threshold:` to a number"
NO_MOVEMENT = "no interval: a few other wordings may move the prediction much further; see the pass rate"


@dataclass(frozen=True, eq=False)
class CapabilityRows:
    """Writes the rows of one run: for each model, for each pair of models, and against the baseline."""

    writer: RowWriter
    label: str
    predictions: Predictions
    measured: CapabilityMeasures
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
        if decides and not self.measured.answers.decides[model]:
            value, reason = math.nan, NO_THRESHOLD
        return self.writer.row(model, metric, self.label, group, value, n=n, p_value=p_value, reason=reason)

    def rate(
        self,
        model: str,
        metric: str,
        group: str,
        rates: Rates,
        found: AnyRates,
        *,
        decides: bool = True,
        reference: str | None = None,
    ) -> Estimate:
        """A number with its interval; against a `reference` also with p, which is not corrected yet."""
        has_threshold = self.measured.answers.decides
        known = not decides or (has_threshold[model] and has_threshold.get(reference or "", True))
        value, low, high = (float(part) if known else math.nan for part in rates)
        tested = reference is not None and found.n_units >= FEWEST_FOR_INTERVAL
        row = self.writer.row(
            model,
            metric,
            self.label,
            group,
            value,
            n=found.n,
            interval=(low, high),
            reference=reference,
            p_value=float(interval_p_value(value, low, high, level=self.how.level)) if tested else None,
            reason=None if known else NO_THRESHOLD,
        )
        return self.writer.enough(row, found.n_units, found.unit)

    def levels(self, metric: str, group: str, found: AnyRates, *, decides: bool = True) -> list[Estimate]:
        """One row per model."""
        return [
            self.rate(name, metric, group, found.rates.column(m), found, decides=decides)
            for m, name in enumerate(self.predictions.names)
        ]

    def between_models(self, metric: str, group: str, found: AnyRates, *, decides: bool = True) -> list[Estimate]:
        """One row per pair of models, on the same templates (or patients)."""
        rows, names = [], self.predictions.names
        for model, reference in pairs_of(self.predictions.compared):
            rates = found.paired_difference(names.index(model), names.index(reference))
            rows.append(self.rate(model, metric, group, rates, found, decides=decides, reference=reference))
        return rows

    def against_baseline(self, group: str, found: PassRates, baseline: Baseline) -> Iterator[Estimate]:
        """The pass rate of a test and label less the held-out recall of that label."""
        other = baseline.rates
        fewer = found if other is None or found.n_units <= other.n_units else other
        units = replace(found, n_units=fewer.n_units, unit=fewer.unit)
        for name in self.predictions.compared:
            m = self.predictions.names.index(name)
            rates = UNKNOWN if other is None else difference(found.rates.column(m), other.rates.column(m))
            row = self.rate(name, "pass_rate", group, rates, units, reference=baseline.group)
            yield row if other is not None else replace(row, reason=baseline.reason)


def capability_rows(writer: CapabilityRows, examined: ExaminedCases, family: Family) -> list[Estimate]:
    """All rows; those of the suite's further capabilities follow those of its main ones."""
    measured = writer.measured
    rows = [row for baseline in measured.baselines.values() for row in _recalls(writer, baseline)]
    for part in PARTS:
        rows += _tests(writer, examined.tests_of(part))
        both = {tests[0].test_group: tests for tests in examined.both_labels(part)}
        rows += _averages(writer, "balanced_pass_rate", both)
        rows += _averages(writer, "capability_pass_rate", examined.capabilities(part))
        rows += _values(writer, [found for found in measured.values if found.scope.part == part])
    for test, pair in measured.pairs.items():
        n, names = len(test.cases), writer.predictions.names
        for name, moved in zip(names, pair.movement.tolist(), strict=True):
            rows.append(writer.number(name, "movement", test.group, moved, n=n, decides=False, reason=NO_MOVEMENT))
        rows += writer.levels("flip_rate", test.group, pair.flips)
        for change, found in pair.changes.items():
            rows += writer.levels("change_pass_rate", f"{test.group} | {change}", found, decides=False)
    rows += [*_mentions(writer, examined), *_templates(writer, examined)]
    capabilities = sorted({test.capability for test in examined.tests}, key=len, reverse=True)

    def same_question(row: Estimate) -> Hashable:
        """Tests of one capability share a correction, those against held-out cases and those between models apart."""
        capability = next((name for name in capabilities if row.group.startswith(name)), row.group)
        return row.metric, str(row.reference).startswith("held-out: "), capability

    return corrected(rows, writer.how.correction, writer.how.level, family_of=one_family(family) or same_question)


def _recalls(writer: CapabilityRows, baseline: Baseline) -> list[Estimate]:
    if baseline.rates is None:
        return [
            writer.number(name, "recall", baseline.group, math.nan, n=0, decides=False, reason=baseline.reason)
            for name in writer.predictions.names
        ]
    at = ("recall", baseline.group, baseline.rates)
    return writer.levels(*at) + writer.between_models(*at)


def _tests(writer: CapabilityRows, tests: Sequence[LabelledTest]) -> list[Estimate]:
    """Pass rates of tests and labels, their spread over seeds, and differences to the baseline and between models."""
    levels, below, pairs = list[Estimate](), list[Estimate](), list[Estimate]()
    for test in tests:
        group, found = test.group, writer.measured.tests[test]
        levels += writer.levels("pass_rate", group, found, decides=test.decides)
        spread = ensemble_spread(found.rates.value, writer.predictions)
        levels += [
            writer.number(name, "pass_rate_sd", group, float(sd), n=found.n, decides=test.decides)
            for name, sd in spread.items()
        ]
        pairs += writer.between_models("pass_rate", group, found, decides=test.decides)
        if test.decides:
            below += writer.against_baseline(group, found, writer.measured.baselines[test.label])
    return levels + below + pairs


def _averages(writer: CapabilityRows, metric: str, groups: Mapping[str, Sequence[LabelledTest]]) -> list[Estimate]:
    """The mean over the tests and labels of each group."""
    levels, pairs = list[Estimate](), list[Estimate]()
    for name, tests in groups.items():
        found = AveragedRates([writer.measured.tests[test] for test in tests])
        decides = any(test.decides for test in tests)
        levels += writer.levels(metric, name, found, decides=decides)
        pairs += writer.between_models(metric, name, found, decides=decides)
    return levels + pairs


def _values(writer: CapabilityRows, found: Sequence[ValueRates]) -> list[Estimate]:
    """The rate with each value of a slot, and how far they are apart, with p."""
    levels, spreads = list[Estimate](), list[Estimate]()
    for each in found:
        for group, rates in zip(each.value_groups, each.rates, strict=True):
            levels += writer.levels("value_pass_rate", group, rates)
        for name in writer.predictions.compared:
            m = writer.predictions.names.index(name)
            p_value, size = float(each.p_value[m]), (each.group, float(each.spread[m]))
            reason = f"not tested: fewer than {FEWEST_FOR_INTERVAL} templates" if math.isnan(p_value) else None
            spreads.append(writer.number(name, "value_spread", *size, n=each.n_cases, p_value=p_value, reason=reason))
    return levels + spreads


def _mentions(writer: CapabilityRows, examined: ExaminedCases) -> Iterator[Estimate]:
    """How often each value of a slot is in the training notes; the same for every model."""
    n, reason = examined.n_training, None if examined.n_training is not None else "no training notes"
    for slot, use in examined.slots.items():
        for value, mentions in zip(use.values, use.mentions.tolist(), strict=True):
            size = (f"{slot}: {value}", math.nan if n is None else mentions)
            for name in writer.predictions.compared:
                yield writer.number(name, "value_training_mentions", *size, n=n or 0, decides=False, reason=reason)


def _templates(writer: CapabilityRows, examined: ExaminedCases) -> Iterator[Estimate]:
    """The pass rate of every base template."""
    n = np.bincount(examined.template)
    decides = {k for test in examined.tests if test.decides for k in examined.template[test.cases].tolist()}
    for model, passed in zip(writer.predictions.names, writer.measured.answers.passed, strict=True):
        rates = np.bincount(examined.template, weights=passed) / n
        for k, name in enumerate(examined.templates):
            yield writer.number(model, "template_pass_rate", name, rates[k], n=int(n[k]), decides=k in decides)
