"""The capabilities audit's findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palpate.audits.capabilities.examples import Failure
from palpate.audits.capabilities.measures import CapabilityMeasures
from palpate.audits.capabilities.plan import PARTS, ExaminedCases, LabelledTest
from palpate.audits.capabilities.slot_values import ValueRates
from palpate.audits.kit.resampling import FEWEST_FOR_TEST, Resampling
from palpate.audits.kit.rows import EstimateIndex, pairs_of
from palpate.audits.kit.wording import counted, listed, p_value, percent
from palpate.results import Estimate, Finding

NEAR = 0.10
"""How near to 100% and to 0% the two labels of a test must be for a model that gives one answer to both."""
LITTLE = 0.65
"""Of both labels on average: one answer to everything gets half."""
HIGH = 0.90
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class CapabilitiesAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    examined: ExaminedCases
    models: Sequence[str]
    measured: CapabilityMeasures
    failures: Sequence[Failure]
    how: Resampling

    @property
    def parts(self) -> list[str]:
        """The parts of the suite that the run has."""
        return [part for part in PARTS if self.examined.tests_of(part)]

    def values(self, part: str) -> list[ValueRates]:
        """The pass rates by slot value of a part."""
        return [each for each in self.measured.values if each.scope.part == part]

    def baseline(self, test: LabelledTest) -> str:
        """The name in the estimates of the held-out cases that a test is compared with."""
        return self.measured.baselines[bool(test.positive)].group


def capabilities_findings(analysis: CapabilitiesAnalysis) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    found: list[Finding] = []
    for part in analysis.parts:
        for model in analysis.models:
            found += _one_sided(analysis, model, part)
            found += _against_baseline(analysis, model, part)
            found += _pairs_of_sentences(analysis, model, part)
            found += _slot_values(analysis, model, part)
        found += _between_models(analysis, part)
    return (*found, *_missing(analysis))


def _range(row: Estimate) -> str:
    return "" if row.low is None else f" ({percent(row.low)} to {percent(row.high)})"


def _points(row: Estimate) -> str:
    """The size of a difference in percentage points, with its interval."""
    sign = -1 if (row.value or 0) < 0 else 1
    value, *ends = (round(100 * sign * (end or 0)) for end in (row.value, row.low, row.high))
    shown = "" if row.low is None else f" ({min(ends)} to {max(ends)})"
    return f"{value} points{shown}".replace("-", "−")


class _TwoSides(NamedTuple):
    """A test whose labels a model does not tell apart: its pass rate on the label that it favours, and on the other."""

    better: LabelledTest
    worse: LabelledTest
    passed: float
    failed: float

    def sizes(self) -> str:
        """Both rates in words."""
        passed, failed = percent(self.passed), percent(self.failed)
        joint = "and" if passed == failed else "but"
        return f"{passed} of the '{self.better.label}' sentences {joint} {failed} of the '{self.worse.label}' ones"


def _one_sided(analysis: CapabilitiesAnalysis, model: str, part: str) -> list[Finding]:
    """Tests of which a model passes one label only, or no more than one answer to everything would."""
    verdicts: dict[str, list[_TwoSides]] = {}
    for tests in analysis.examined.both_labels(part):
        rates = [analysis.estimates.value("pass_rate", model, group=test.group) for test in tests]
        both = analysis.estimates.find("balanced_pass_rate", model, group=tests[0].test_group)
        values = [rate for rate in rates if rate is not None]
        if len(values) < 2 or both is None or both.value is None:
            continue
        better = int(values[1] > values[0])
        one = _TwoSides(tests[better], tests[1 - better], values[better], values[1 - better])
        if one.passed >= 1 - NEAR and one.failed <= NEAR:
            verdicts.setdefault("can't tell the two sides apart", []).append(one)
        elif both.high is not None and both.high < 0.5:
            verdicts.setdefault("does worse than always giving the same answer", []).append(one)
        elif both.value < LITTLE and both.low is not None and both.low <= 0.5:
            verdicts.setdefault("does hardly better than always giving the same answer", []).append(one)
    found = []
    for verdict, sides in verdicts.items():
        first, *others = sorted(sides, key=lambda one: one.failed - one.passed)
        sentence = f"{first.better.test_title}: {model} {verdict}. It passes {first.sizes()}."
        if others:
            also = "; ".join(f"{one.better.test_title} ({one.sizes()})" for one in others)
            sentence += f" The same holds for {also}."
        found.append(Finding(sentence=sentence, kind="caveat"))
    return found


class _Gap(NamedTuple):
    """A test and label beside its baseline."""

    test: LabelledTest
    difference: Estimate
    level: Estimate

    @property
    def below(self) -> bool:
        """Whether it is worse than the baseline; tests of few templates have no p, but an interval that is wide."""
        return self.difference.significant is not False and (self.difference.high or 0) < 0


def _against_baseline(analysis: CapabilitiesAnalysis, model: str, part: str) -> list[Finding]:
    """Where sentences are harder than held-out cases, or that none are."""
    gaps = []
    for test in analysis.examined.tests_of(part, decides=True):
        level = analysis.estimates.find("pass_rate", model, group=test.group)
        gap = analysis.estimates.find("pass_rate", model, group=test.group, reference=analysis.baseline(test))
        if gap is not None and gap.value is not None and level is not None:
            gaps.append(_Gap(test, gap, level))
    if not gaps:
        return []
    # What was tested comes first: the furthest below is often the test with the fewest templates.
    below = sorted(
        (gap for gap in gaps if gap.below),
        key=lambda gap: (not gap.difference.significant, gap.difference.value or 0.0),
    )
    n = counted(len(gaps), "further test" if part == "further" else "test") + " (labels counted separately)"
    if below:
        first, *others = below
        recall = analysis.estimates.value("recall", model, group=analysis.baseline(first.test))
        sentence = (
            f"{model} does worse than on held-out cases in {len(below)} of {n}{_how_known(below)}. The clearest is "
            f"{first.test.title}: {percent(first.level.value)}{_range(first.level)} of sentences right, against "
            f"{percent(recall)} of held-out cases.{_also(others)}"
        )
        return [Finding(sentence=sentence, kind="caveat")]
    least = min(gap.level.value or 0 for gap in gaps)
    if least >= HIGH:
        sentence = f"{model} passes at least {percent(least)} of the sentences in each of the {n}."
        return [Finding(sentence=sentence, kind="fact")]
    return [Finding(sentence=f"{model} is not clearly worse than on held-out cases in any of the {n}.")]


def _also(gaps: Sequence[_Gap]) -> str:
    names = [
        f"{gap.test.title} ({percent(gap.level.value)}{'' if gap.difference.significant else ', not tested'})"
        for gap in gaps[: _MOST_NAMED - 1]
    ]
    names += [f"{len(gaps) - len(names)} more"] if len(gaps) > len(names) else []
    return f" Also {listed(names)}." if names else ""


def _how_known(below: Sequence[_Gap]) -> str:
    """How many of the findings have a p, where not all do."""
    n_tested = sum(gap.difference.significant is True for gap in below)
    few = f"fewer than {FEWEST_FOR_TEST} templates"
    if n_tested == len(below):
        return ""
    if n_tested == 0:
        return f", by the interval alone: {'it has' if len(below) == 1 else 'all have'} {few} and cannot be tested"
    return f": {n_tested} by a significance test and {len(below) - n_tested}, with {few}, by the interval alone"


def _pairs_of_sentences(analysis: CapabilitiesAnalysis, model: str, part: str) -> list[Finding]:
    """INV and DIR tests that fail often."""
    found = []
    for kind in ("INV", "DIR"):
        failing = [
            (value, test)
            for test in analysis.examined.tests_of(part, decides=False)
            if test.test.type == kind
            if (value := analysis.estimates.value("pass_rate", model, group=test.group)) is not None and value < HIGH
        ]
        if not failing:
            continue
        value, test = min(failing, key=lambda each: each[0])
        more = f" (and {counted(len(failing) - 1, 'more such test')})" if len(failing) > 1 else ""
        if kind == "INV":
            size = "changes that should not matter move the prediction by more than "
            size += f"{100 * (test.test.tolerance or 0):g} points in {percent(1 - value)} of the pairs of {test.title}"
        else:
            margin = f" by {100 * test.test.margin:g} points" if test.test.margin else ""
            size = f"the prediction goes {test.test.direction}{margin}, as it should, in only {percent(value)} "
            size += f"of the pairs of {test.title}"
        found.append(Finding(sentence=f"{model}: {size}{more}.", kind="caveat"))
    return found


def _slot_values(analysis: CapabilitiesAnalysis, model: str, part: str) -> list[Finding]:
    """The slot whose value matters most, and where else one does."""
    found = []
    for each in analysis.values(part):
        row = analysis.estimates.find("value_spread", model, group=each.group)
        if row is not None and row.significant and row.value:
            found.append((row, each))
    if not found:
        return []
    found.sort(key=lambda item: -(item[0].value or 0))
    row, each = found[0]
    rates = [
        (analysis.estimates.value("value_pass_rate", model, group=group) or 0.0, v)
        for v, group in zip(each.codes.tolist(), each.value_groups, strict=True)
    ]
    values = analysis.examined.slots[each.slot].values
    worst, best = (
        f"{percent(rate)} with '{values[v]}'{_mentions(analysis, each.slot, v)}" for rate, v in (min(rates), max(rates))
    )
    sentence = (
        f"What fills the slot '{each.slot.replace('_', ' ')}' matters to {model} in {each.scope.title}: it passes "
        f"{worst} and {best}{p_value(row)}."
    )
    others = [f"{other.slot.replace('_', ' ')} in {other.scope.title}" for _, other in found[1:]]
    if others:
        more = [f"{len(others) - _MOST_NAMED} more"] if len(others) > _MOST_NAMED else []
        sentence += f" The same holds for {listed(others[:_MOST_NAMED] + more)}."
    return [Finding(sentence=sentence, kind="caveat")]


def _mentions(analysis: CapabilitiesAnalysis, slot: str, value: int) -> str:
    if analysis.examined.n_training is None:
        return ""
    n = int(analysis.examined.slots[slot].mentions[value])
    return f" ({counted(n, 'mention') if n else 'not mentioned'} in the training notes)"


def _between_models(analysis: CapabilitiesAnalysis, part: str) -> list[Finding]:
    """Where two models differ, and whether their held-out recall would have shown it."""
    found = []
    titles = {name: tests[0].capability_title for name, tests in analysis.examined.capabilities(part).items()}
    for model, reference in pairs_of(analysis.models):
        rows = [
            row
            for name in titles
            if (row := analysis.estimates.find("capability_pass_rate", model, group=name, reference=reference))
            and row.significant
        ]
        rows.sort(key=lambda row: -abs(row.value or 0))
        sizes = []
        for row in rows[:_MOST_NAMED]:
            better, worse = (model, reference) if (row.value or 0) > 0 else (reference, model)
            sizes.append(f"{better} passes more sentences than {worse} in {titles[row.group]}, by {_points(row)}")
        if sizes:
            found.append(Finding(sentence=f"{'; '.join(sizes)}{_same_recall(analysis, model, reference)}."))
    return found


def _same_recall(analysis: CapabilitiesAnalysis, model: str, reference: str) -> str:
    rows = [
        analysis.estimates.find("recall", model, group=baseline.group, reference=reference)
        for baseline in analysis.measured.baselines.values()
    ]
    if any(row is None or row.value is None or row.significant is not False for row in rows):
        return ""
    return ", although on held-out cases their recall does not differ significantly for either label"


def _missing(analysis: CapabilitiesAnalysis) -> list[Finding]:
    """What could not be compared, filled in or judged."""
    found = []
    baselines = analysis.measured.baselines.values()
    for reason in dict.fromkeys(baseline.reason for baseline in baselines if baseline.reason):
        found.append(Finding(sentence=f"Some sentences have no held-out baseline: {reason}.", kind="caveat"))
    dropped = analysis.examined.dropped
    if dropped:
        more = [f"{len(dropped) - 3} more"] if len(dropped) > 3 else []
        found.append(Finding(sentence=f"Left out, because no chosen value fits: {listed([*dropped[:3], *more])}."))
    decides = analysis.measured.answers.decides
    if any(test.decides for test in analysis.examined.tests):
        found += [
            Finding(sentence=f"{name} has no threshold, so its decisions can't be judged.", kind="caveat")
            for name in analysis.models
            if not decides[name]
        ]
    return found
