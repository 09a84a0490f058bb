"""What the capabilities audit has to say, in a clinician's words: findings for the first screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.analysis import groups_of
from palpate.audits.capabilities.estimates import Baseline, value_group
from palpate.audits.capabilities.examples import Failure
from palpate.audits.capabilities.measures import Floats
from palpate.audits.capabilities.plan import Cell, Examined
from palpate.audits.capabilities.values import ValueRates
from palpate.audits.kit.measured import FEWEST_FOR_TEST, Correction
from palpate.results import Estimate, Finding

NEAR = 0.10
"""How near to all and to nothing two labels of a test must be for a model that gives one answer to both."""
LITTLE = 0.65
"""Of both labels on average: one answer to everything gets half."""
HIGH = 0.90
_MOST_TOLD = 4


@dataclass(frozen=True, eq=False)
class Story:
    """What is told: the estimates, and what they are about."""

    rows: Sequence[Estimate]
    examined: Examined
    models: Sequence[str]
    passed: Floats
    """[model, case]"""
    baselines: Mapping[bool, Baseline]
    values: Sequence[ValueRates]
    failures: Sequence[Failure]
    threshold_origin: Mapping[str, str]
    level: float
    correction: Correction

    def find(self, metric: str, *, model: str, group: str, reference: str | None = None) -> Estimate | None:
        """One estimate."""
        return self._index.get((metric, model, group, reference))

    @cached_property
    def _index(self) -> dict[tuple[str, str, str, str | None], Estimate]:
        return {(row.metric, row.model, row.group, row.reference): row for row in self.rows}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, reference) of every comparison."""
        return [(b, a) for k, b in enumerate(self.models) for a in self.models[:k]]

    @property
    def parts(self) -> list[str]:
        """`main`, `further`, as far as the run has them."""
        there = {cell.part for cell in self.examined.cells}
        return [part for part in ("main", "further") if part in there]

    def cells(self, part: str, *, pairs: bool | None = None) -> list[Cell]:
        """The tests and labels of a part; `pairs`: only INV and DIR, or only MFT."""
        return [cell for cell in self.examined.cells if cell.part == part and pairs in (None, cell.test.type != "MFT")]

    def tests(self, part: str) -> list[tuple[Cell, Cell]]:
        """The tests that have both labels: (positive, negative)."""
        place = [k for k, cell in enumerate(self.examined.cells) if cell.part == part]
        found = []
        for both in groups_of(self.examined.cells, place)[0].values():
            first, second = (self.examined.cells[k] for k in both)
            found.append((first, second) if first.positive else (second, first))
        return found

    def capabilities(self, part: str) -> dict[str, str]:
        """The capabilities of a part and their titles."""
        return {cell.capability: cell.title for cell in self.cells(part)}


def findings_of(story: Story) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    told: list[Finding] = []
    for part in story.parts:
        for model in story.models:
            told += _one_sided(story, model, part)
            told += _against_baseline(story, model, part)
            told += _pairs_told(story, model, part)
            told += _values_told(story, model, part)
        told += _models_told(story, part)
    return (*told, *_missing_told(story))


def share(value: float | None) -> str:
    """A share in percent; what is not quite all or nothing is not told as such."""
    if value is None:
        return "an unknown share"
    if 0 < value < 0.005 or 0.995 < value < 1:
        return f"{value:.1%}"
    return f"{value:.0%}"


def _span(row: Estimate) -> str:
    return "" if row.low is None else f" ({share(row.low)} to {share(row.high)})"


def _points(row: Estimate, sign: int = 1) -> str:
    """A difference in percentage points, with its interval."""
    ends = [] if row.low is None or row.high is None else sorted((sign * row.low, sign * row.high))
    shown = f"{100 * sign * (row.value or 0):.0f}"
    if ends:
        shown += f" ({100 * ends[0]:.0f} to {100 * ends[1]:.0f})"
    return f"{shown} points".replace("-", "−")


class _Lopsided(NamedTuple):
    """A test whose labels a model does not tell apart: what it passes of the label that it gets, and of the other."""

    better: Cell
    worse: Cell
    passed: float
    failed: float

    def told(self) -> str:
        """The sizes in words."""
        passed, failed = share(self.passed), share(self.failed)
        joint = "and" if passed == failed else "but"
        return f"{passed} of the '{self.better.label}' sentences {joint} {failed} of the '{self.worse.label}' ones"


def _lopsided(story: Story, model: str, part: str) -> dict[str, list[_Lopsided]]:
    """Tests of which a model passes one label only, or no more than one answer to everything would get, by verdict."""
    found: dict[str, list[_Lopsided]] = {}
    for cells in story.tests(part):
        rates = [story.find("pass_rate", model=model, group=cell.group) for cell in cells]
        both = story.find("balanced_pass_rate", model=model, group=cells[0].family)
        values = [rate.value for rate in rates if rate is not None and rate.value is not None]
        if len(values) < 2 or both is None or both.value is None:
            continue
        better = int(values[1] > values[0])
        one = _Lopsided(cells[better], cells[1 - better], values[better], values[1 - better])
        if one.passed >= 1 - NEAR and one.failed <= NEAR:
            found.setdefault("can't tell the two sides apart", []).append(one)
        elif both.high is not None and both.high < 0.5:
            found.setdefault("does worse than one answer to everything would", []).append(one)
        elif both.value < LITTLE and both.low is not None and both.low <= 0.5:
            found.setdefault("does hardly better than one answer to everything would", []).append(one)
    return found


def _one_sided(story: Story, model: str, part: str) -> list[Finding]:
    """A sentence a verdict: "tfidf can't tell the two sides apart of Temporal order: it passes ..."."""
    told = []
    for verdict, tests in _lopsided(story, model, part).items():
        first, *others = sorted(tests, key=lambda test: test.failed - test.passed)
        sentence = f"{first.better.test_said}: {model} {verdict}. It passes {first.told()}."
        if others:
            sentence += " The same in " + "; ".join(f"{one.better.test_said} ({one.told()})" for one in others) + "."
        told.append(Finding(sentence=sentence, tone="warning"))
    return told


def _against_baseline(story: Story, model: str, part: str) -> list[Finding]:
    """Where sentences are harder than held-out cases, and whether all is well."""
    cells = story.cells(part, pairs=False)
    rows = []
    for cell in cells:
        reference = story.baselines[bool(cell.positive)].group
        row = story.find("pass_rate", model=model, group=cell.group, reference=reference)
        level = story.find("pass_rate", model=model, group=cell.group)
        if row is not None and row.value is not None and level is not None:
            rows.append((cell, row, level, reference))
    if not rows:
        return []
    # Tests of few templates have no p, but an interval that is as wide as they deserve.
    below = [found for found in rows if found[1].significant is not False and _below(found[1])]
    # What was tested comes first: the furthest below is often the test with the fewest templates.
    below.sort(key=lambda found: (not found[1].significant, found[1].value or 0.0))
    where = "further tests" if part == "further" else "tests"
    if below:
        cell, row, level, reference = below[0]
        recall = story.find("recall", model=model, group=reference)
        others = [
            f"{other.said} ({share(rate.value)}{'' if gap.significant else ', not tested'})"
            for other, gap, rate, _ in below[1:_MOST_TOLD]
        ]
        also = f" Also {', '.join(others)}." if others else ""
        more = len(below) - 1 - len(others)
        also += f" And {more} more." if more else ""
        sentence = (
            f"{model} does worse than on held-out cases in {len(below)} of {len(rows)} {where} and labels"
            f"{_tested_told(below)}. Furthest below is {cell.said}: {share(level.value)}{_span(level)} of "
            f"sentences against {share(recall.value if recall else None)} of held-out cases.{also}"
        )
        return [Finding(sentence=sentence, tone="warning")]
    if all((level.value or 0) >= HIGH for _, _, level, _ in rows):
        sentence = f"{model} passes at least {share(min(level.value or 0 for _, _, level, _ in rows))} of each of the"
        return [Finding(sentence=f"{sentence} {len(rows)} {where} and labels.", tone="good")]
    sentence = f"{model} is in none of the {len(rows)} {where} and labels plainly worse than on held-out cases."
    return [Finding(sentence=sentence)]


def _tested_told(below: Sequence[tuple[Cell, Estimate, Estimate, str]]) -> str:
    """How many of the findings have a p, where not all do."""
    n_tested = sum(row.significant is True for _, row, _, _ in below)
    few = f"with fewer than {FEWEST_FOR_TEST} templates"
    if n_tested == len(below):
        return ""
    if n_tested == 0:
        return f", by the interval alone: {'it is' if len(below) == 1 else 'all are'} {few} and not tested"
    rest = len(below) - n_tested
    return f": {n_tested} by a test and {rest}, {few}, by the interval alone"


def _below(row: Estimate) -> bool:
    return row.high is not None and row.high < 0


def _pairs_told(story: Story, model: str, part: str) -> list[Finding]:
    """INV and DIR tests that fail often."""
    told = []
    for kind in ("INV", "DIR"):
        failing = []
        for cell in story.cells(part, pairs=True):
            row = story.find("pass_rate", model=model, group=cell.group)
            if cell.test.type == kind and row is not None and row.value is not None and row.value < HIGH:
                failing.append((row.value, cell, row))
        if not failing:
            continue
        value, cell, row = min(failing, key=lambda found: found[0])
        more = f" ({len(failing) - 1} more of the kind)" if len(failing) > 1 else ""
        if kind == "INV":
            size = f"changes that mean nothing move it by more than {100 * (cell.test.tolerance or 0):g} points in "
            size += f"{share(1 - value)} of the pairs of {cell.said}"
        else:
            margin = f" by {100 * cell.test.margin:g} points" if cell.test.margin else ""
            size = f"the prediction goes {cell.test.direction}{margin}, as it should, in only {share(value)} "
            size += f"of the pairs of {cell.said}"
        told.append(Finding(sentence=f"{model}: {size}{more}.", tone="warning"))
    return told


def _values_told(story: Story, model: str, part: str) -> list[Finding]:
    """The slot whose value matters most, and where else one does."""
    found = []
    for each in story.values:
        row = story.find("value_spread", model=model, group=f"{each.scope.group} | {each.slot}")
        if each.scope.part == part and row is not None and row.significant and row.value:
            found.append((row.value, each, row))
    if not found:
        return []
    found.sort(key=lambda item: -item[0])
    _, each, row = found[0]
    use = story.examined.slots[each.slot]
    rates = []
    for v in each.values.tolist():
        rate = story.find("value_pass_rate", model=model, group=value_group(each.scope.group, each.slot, use.values[v]))
        rates.append((rate.value or 0.0 if rate else 0.0, v))
    ends = (min(rates), max(rates))
    sides = [f"{share(rate)} with '{use.values[v]}'{_mentions(story, each.slot, v)}" for rate, v in ends]
    p = "p < 0.001" if (row.p_value or 0) < 0.001 else f"p = {row.p_value:.3f}"
    sentence = (
        f"What fills the slot '{each.slot.replace('_', ' ')}' matters to {model} in {each.scope.said}: it passes "
        f"{sides[0]} and {sides[1]} (corrected {p})."
    )
    others = [f"{other.slot.replace('_', ' ')} in {other.scope.said}" for _, other, _ in found[1:]]
    if others:
        more = f" and {len(others) - _MOST_TOLD} more" if len(others) > _MOST_TOLD else ""
        sentence += f" The same holds for {', '.join(others[:_MOST_TOLD])}{more}."
    return [Finding(sentence=sentence, tone="warning")]


def _mentions(story: Story, slot: str, value: int) -> str:
    if story.examined.n_training is None:
        return ""
    n = int(story.examined.slots[slot].mentions[value])
    return f" ({'not' if n == 0 else f'{n:,} times'} in the training notes)"


def _models_told(story: Story, part: str) -> list[Finding]:
    """Where two models differ, and that their held-out recall does not tell it."""
    told = []
    titles = story.capabilities(part)
    for model, reference in story.pairs:
        found = [
            row
            for name in titles
            if (row := story.find("capability_pass_rate", model=model, group=name, reference=reference))
            and row.significant
        ]
        if not found:
            continue
        found.sort(key=lambda row: -abs(row.value or 0))
        listed = []
        for row in found[:_MOST_TOLD]:
            sign = 1 if (row.value or 0) > 0 else -1
            better, worse = (model, reference) if sign > 0 else (reference, model)
            listed.append(f"{better} passes more than {worse} in {titles[row.group]}, by {_points(row, sign)}")
        told.append(Finding(sentence=f"{'; '.join(listed)}{_recalls_told(story, model, reference)}."))
    return told


def _recalls_told(story: Story, model: str, reference: str) -> str:
    rows = [
        story.find("recall", model=model, group=baseline.group, reference=reference)
        for baseline in story.baselines.values()
    ]
    if any(row is None or row.value is None or row.significant is not False for row in rows):
        return ""
    return ", though on held-out cases their recall does not differ significantly for either label"


def _missing_told(story: Story) -> list[Finding]:
    told = []
    reasons = dict.fromkeys(baseline.reason for baseline in story.baselines.values() if baseline.reason)
    for reason in reasons:
        told.append(Finding(sentence=f"There is no held-out baseline for some sentences: {reason}.", tone="warning"))
    dropped = story.examined.dropped
    if dropped:
        some = ", ".join(dropped[:3]) + (f" and {len(dropped) - 3} more" if len(dropped) > 3 else "")
        told.append(Finding(sentence=f"Left out, because no chosen value fits: {some}."))
    decided = [cell.group for cell in story.examined.cells if cell.test.type == "MFT"]
    rates = {name: [story.find("pass_rate", model=name, group=group) for group in decided] for name in story.models}
    unsure = [name for name, found in rates.items() if found and all(row is None or row.value is None for row in found)]
    told += [
        Finding(sentence=f"{name} has no threshold, so its decisions can't be judged.", tone="warning")
        for name in unsure
    ]
    return told


def histogram(rates: Floats, n_bins: int = 10) -> list[tuple[float, float, int]]:
    """Bins (start, end, count) of shares; 1 belongs to the last."""
    counts, edges = np.histogram(rates, bins=n_bins, range=(0.0, 1.0))
    return [(float(edges[k]), float(edges[k + 1]), int(counts[k])) for k in range(n_bins)]
