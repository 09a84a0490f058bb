"""The capabilities audit's answers and findings: one question per capability, and sentences made from its estimates.

A test of one label is judged by its pass rate against the held-out recall of that label. A model that gives one answer
to everything does as well there as on held-out cases, so a test whose two labels together are passed no better than by
one answer is also judged by its worse label against half. Pairs of sentences (INV, DIR) are judged by how many fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palpate.audits.capabilities.examples import Failure
from palpate.audits.capabilities.measures import CapabilityMeasures
from palpate.audits.capabilities.plan import PARTS, ExaminedCases, LabelledTest
from palpate.audits.capabilities.slot_values import ValueRates
from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST, Family, Resampling
from palpate.audits.kit.rows import EstimateIndex, pairs_of
from palpate.audits.kit.wording import counted, listed, p_value, percent
from palpate.results import Estimate, Finding
from palpate.results.verdicts import Answer, Effect, worst

HALF = 0.5
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class CapabilitiesAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    examined: ExaminedCases
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
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
        return self.measured.baselines[test.label].group


class Judged(NamedTuple):
    """One test and label of one model, as a question was asked of it."""

    asked: Question
    test: LabelledTest
    effect: Effect
    templates: int | None
    """How many there are, where more of them would settle the question; None where more patients would."""
    other: LabelledTest | None = None
    """The label that a model passes in place of this one, where it does not tell the two apart."""


class Decision(NamedTuple):
    """An answer, and the test and label that decided it."""

    answer: Answer
    by: Judged


def decide_capabilities(
    analysis: CapabilitiesAnalysis, margins: Mapping[str, float], family: Family
) -> tuple[Decision, ...]:
    """The audit's cells of the scorecard: for each capability and model, the worst test and label decides."""
    decisions = []
    for part in analysis.parts:
        for name, tests in analysis.examined.capabilities(part).items():
            asks = f"Does it handle {_within(tests[0].capability_title)}?"
            question = Question(name, asks, "pass_rate", margins["pass_rate"], harm=-1, percent=True)
            scope = tests if family == "question" else analysis.examined.tests
            both = [pair for pair in analysis.examined.both_labels(part) if pair[0].capability == name]
            for model in analysis.models:
                asked = CapabilityQuestion(analysis, question, model, len(scope) * len(analysis.models))
                judged = [*map(asked.judge, tests), *filter(None, map(asked.one_sided, both))]
                decisions += _decide(judged, model)
    return tuple(decisions)


def _within(title: str) -> str:
    """A title inside a sentence; abbreviations keep their capitals."""
    return title if title[1:2].isupper() else f"{title[:1].lower()}{title[1:]}"


def _decide(judged: Sequence[Judged], model: str) -> list[Decision]:
    """The worst effect's answer; where templates are too few to settle it, it says how many would do."""
    effects = [each.effect for each in judged]
    by = judged[effects.index(worst(effects))]
    answer = by.asked.answer(model, effects)
    if answer is None:
        return []
    if by.templates is not None and answer.needed is not None and answer.verdict in ("caution", "unsettled"):
        # The width that a handful of templates leaves falls faster than with their root, so it is no guide below that.
        needed = max(answer.needed, FEWEST_FOR_TEST)
        why = f"only {counted(by.templates, 'template')}; about {needed:,} would settle it"
        answer = answer.model_copy(update={"needed": None, "reason": why})
    return [Decision(answer, by)]


@dataclass(frozen=True, eq=False)
class CapabilityQuestion:
    """A question about a capability, asked of one model."""

    analysis: CapabilitiesAnalysis
    question: Question
    model: str
    n_family: int

    def judge(self, test: LabelledTest) -> Judged:
        """A test and label against its held-out recall, or a pair test by how many of its pairs fail."""
        templates = self.analysis.measured.tests[test].n_units
        if not test.decides:
            return self._level(test, origin=1.0)
        baseline = self.analysis.measured.baselines[test.label]
        row = self.analysis.estimates.find("pass_rate", self.model, group=test.group, reference=baseline.group)
        patients = 0 if baseline.rates is None else baseline.rates.n_units
        effect = self.question.effect(row, min(templates, patients), n_family=self.n_family)
        return Judged(self.question, test, _named(effect, test), templates if templates <= patients else None)

    def one_sided(self, both: tuple[LabelledTest, LabelledTest]) -> Judged | None:
        """The label that is passed less, against half, if one answer to everything would pass about as much of both."""
        value = self.analysis.estimates.value
        balanced = value("balanced_pass_rate", self.model, group=both[0].test_group)
        if balanced is None or balanced >= HALF + self.question.margin:
            return None
        worse, better = sorted(both, key=lambda test: value("pass_rate", self.model, group=test.group) or 0.0)
        return self._level(worse, origin=HALF)._replace(other=better)

    def _level(self, test: LabelledTest, *, origin: float) -> Judged:
        asked = self.question._replace(origin=origin)
        row = self.analysis.estimates.find("pass_rate", self.model, group=test.group)
        templates = self.analysis.measured.tests[test].n_units
        return Judged(asked, test, _named(asked.effect(row, templates, n_family=self.n_family), test), templates)


def _named(effect: Effect | None, test: LabelledTest) -> Effect:
    """The effect under the name of its test and label."""
    if effect is None:
        return Effect(test.title, None, None, None, 0.0, 0, "it was not measured")
    return effect._replace(label=test.title)


def capabilities_findings(analysis: CapabilitiesAnalysis, decisions: Sequence[Decision]) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    found = [each.by.asked.finding(each.answer, _sentence(analysis, each)) for each in decisions]
    for part in analysis.parts:
        for model in analysis.models:
            found += _slot_values(analysis, model, part)
        found += _between_models(analysis, part)
    return (*found, *_missing(analysis))


def _sentence(analysis: CapabilitiesAnalysis, decision: Decision) -> str:
    """What is known about one capability of one model, in words that say no more than the verdict."""
    answer, by = decision
    start = f"{by.test.capability_title}, {answer.model}:"
    if answer.value is None or answer.low is None:
        return f"{start} cannot be told ({answer.reason})."
    margin = f"{100 * by.asked.margin:g}"
    if by.other is not None:
        said, size = _apart(analysis, decision)
    elif by.test.decides:
        said, size = _gap(analysis, decision, margin)
    else:
        said, size = _pairs(decision, margin)
    settles = answer.reason or (f"about {counted(answer.needed, 'patient')} would settle it" if answer.needed else "")
    if answer.verdict in ("caution", "unsettled") and settles:
        size += f"; {settles}"
    return f"{start} {said}: {size}."


def _apart(analysis: CapabilitiesAnalysis, decision: Decision) -> tuple[str, str]:
    answer, by = decision
    other = by.other or by.test
    passed = analysis.estimates.value("pass_rate", answer.model, group=other.group)
    said = {
        "concern": "it can't tell the two sides apart",
        "caution": "it gives one answer to most sentences of both sides",
        "unsettled": "whether it tells the two sides apart cannot be told",
        "acceptable": "it does not give one answer to both sides",
    }[answer.verdict]
    size = f"it passes {percent(passed)} of the '{other.label}' sentences and {percent(answer.value)}{_range(answer)}"
    return said, f"{size} of the '{by.test.label}' ones in {by.test.test_title}"


def _gap(analysis: CapabilitiesAnalysis, decision: Decision, margin: str) -> tuple[str, str]:
    answer, by = decision
    value = analysis.estimates.value
    level = value("pass_rate", answer.model, group=by.test.group)
    recall = value("recall", answer.model, group=analysis.baseline(by.test))
    said = {
        "concern": f"more than {margin} points worse than on held-out cases",
        "caution": f"worse than on held-out cases; whether by more than {margin} points is open",
        "unsettled": f"whether it is more than {margin} points worse than on held-out cases cannot be told",
        "acceptable": f"no test is more than {margin} points worse than held-out cases",
    }[answer.verdict]
    size = f"it gets {percent(level)} of the '{by.test.label}' sentences of {by.test.test_title} right"
    return said, f"{size} and {percent(recall)} of the held-out ones, {_points(answer)}"


def _pairs(decision: Decision, margin: str) -> tuple[str, str]:
    answer, test = decision.answer, decision.by.test
    fails = answer.model_copy(update={"value": 1 - (answer.value or 0), "low": 1 - (answer.high or 0)})
    fails = fails.model_copy(update={"high": 1 - (answer.low or 0)})
    what = "pairs" if test.paired else "sentences"
    said = {
        "concern": f"more than {margin}% of the {what} fail",
        "caution": f"some {what} fail; whether more than {margin}% is open",
        "unsettled": f"whether more than {margin}% of the {what} fail cannot be told",
        "acceptable": f"fewer than {margin}% of the {what} fail",
    }[answer.verdict]
    if test.test.expect is not None:
        asked = f"the expectation '{test.test.expect.name}' does not hold"
    elif test.test.type == "INV":
        asked = (
            f"a change that should not matter moves the prediction by more than {100 * (test.test.tolerance or 0):g}"
        )
        asked += " points"
    else:
        by = f" by {100 * test.test.margin:g} points" if test.test.margin else ""
        asked = f"the prediction does not go {test.test.direction}{by} as it should"
    return said, f"in {test.title}, {asked} in {percent(fails.value)}{_range(fails)}"


def _range(answer: Answer) -> str:
    return f" ({percent(answer.low)} to {percent(answer.high)})"


def _points(row: Estimate | Answer) -> str:
    """A difference in percentage points, with its interval."""
    value, low, high = (_signed(end or 0.0) for end in (row.value, row.low, row.high))
    shown = "" if row.low is None else f" ({low} to {high})"
    return f"{value} {'point' if value in ('+1', '−1') else 'points'}{shown}"


def _signed(share: float) -> str:
    """A share in whole points, with its sign."""
    points = round(100 * share)
    return f"{points:+d}".replace("-", "−") if points else "0"


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
    return [Finding(sentence=sentence, kind="caveat", question=each.scope.capability)]


def _mentions(analysis: CapabilitiesAnalysis, slot: str, value: int) -> str:
    if analysis.examined.n_training is None:
        return ""
    n = int(analysis.examined.slots[slot].mentions[value])
    return f" ({counted(n, 'mention') if n else 'not mentioned'} in the training notes)"


def _between_models(analysis: CapabilitiesAnalysis, part: str) -> list[Finding]:
    """Where two models differ, and what their held-out recall would have shown of it."""
    found = []
    for model, reference in pairs_of(analysis.models):
        for name, tests in analysis.examined.capabilities(part).items():
            row = analysis.estimates.find("capability_pass_rate", model, group=name, reference=reference)
            if row is None or not row.significant:
                continue
            better, worse = (model, reference) if (row.value or 0) > 0 else (reference, model)
            size = _points(row if better == model else row.negated())
            sentence = f"{tests[0].capability_title}: {better} passes more sentences than {worse}, by {size}"
            found.append(Finding(sentence=f"{sentence}{_recalls(analysis, better, worse)}.", question=name))
    return found


def _recalls(analysis: CapabilitiesAnalysis, model: str, reference: str) -> str:
    """How far their recall on held-out cases is apart."""
    sizes = []
    for baseline in analysis.measured.baselines.values():
        ours, theirs = (analysis.estimates.value("recall", name, group=baseline.group) for name in (model, reference))
        if ours is not None and theirs is not None:
            sizes.append(f"{_signed(ours - theirs)} ('{baseline.label}')")
    return f"; in points of held-out recall they differ by {listed(sizes)}" if sizes else ""


def _missing(analysis: CapabilitiesAnalysis) -> list[Finding]:
    """What could not be compared, filled in or judged."""
    found = []
    baselines = analysis.measured.baselines.values()
    for reason in dict.fromkeys(baseline.reason for baseline in baselines if baseline.reason):
        found.append(Finding(sentence=f"Some sentences have no held-out baseline: {reason}.", kind="caveat"))
    if analysis.examined.n_hosts:
        notes = counted(analysis.examined.n_hosts, "held-out note")
        found.append(Finding(sentence=f"The sentences stood inside {notes} without the label, not alone."))
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
