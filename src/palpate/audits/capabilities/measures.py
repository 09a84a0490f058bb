"""From predictions to pass rates: which sentences each model gets right, how its predictions move, and its recall.

A model of several seeds passes as often as its members do on average. Pass rates by what fills a slot are made in
`slot_values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.plan import ExaminedCases, LabelledTest, PlannedSuite, sentence_of
from palpate.audits.capabilities.slot_values import ValueRates, value_rates
from palpate.audits.kit.metrics import append_ensembles
from palpate.audits.kit.resampling import Resampling
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, decide_thresholds
from palpate.cases.edits import Ints
from palpate.errors import ConfigError
from palpate.perturb.suites import ExpectedCase, RightAnswer, Suite
from palpate.results import Plan, Predictions
from palpate.stats.clustered_rates import Floats, PassRates, pass_rates

ROUNDING = 1e-9
"""A probability that moved by less has not moved."""


class Answers(NamedTuple):
    """What each model answers: the scored models, then each ensemble as the mean over its members."""

    models: tuple[str, ...]
    decides: dict[str, bool]
    """Whether a model has a threshold."""
    p: Floats
    """[model, variant, label]"""
    passed: Floats
    """[model, case]; 0 where a model needs a threshold and has none."""
    moved: Floats
    """[model, case] how far the prediction moves in a pair. The mean prediction of several seeds would move less than
    each of them: some movements cancel."""
    flipped: Floats
    """[model, case] whether the second text of a pair gets another decision."""
    held_out: dict[str, Floats]
    """By the right answer, [model, held-out case] whether a model's answer is that one."""


class Baseline(NamedTuple):
    """Held-out cases of one label; None, with a reason, where there are none."""

    label: str
    rates: PassRates | None
    reason: str | None

    @property
    def group(self) -> str:
        """Its name in the estimates."""
        return f"held-out: {self.label}"


class PairRates(NamedTuple):
    """An INV or DIR test: the mean movement of each model, the flips, and the pass rate of each change (where there
    are several)."""

    movement: Floats
    flips: PassRates
    changes: dict[str, PassRates]


class CapabilityMeasures(NamedTuple):
    """All that is measured."""

    answers: Answers
    thresholds: Thresholds
    baselines: dict[str, Baseline]
    """The held-out recall of each label, or of each right answer about several labels."""
    tests: dict[LabelledTest, PassRates]
    """The pass rate of each test and label."""
    pairs: dict[LabelledTest, PairRates]
    values: list[ValueRates]


def measure_capabilities(
    plan: Plan[PlannedSuite],
    predictions: Predictions,
    *,
    rule: ThresholdRule,
    split: str,
    how: Resampling,
    rng: np.random.Generator,
) -> CapabilityMeasures:
    """Pass rates by test, by change and by slot value, and the held-out recall to compare them with."""
    examined = plan.memory.examined
    thresholds = find_thresholds(plan, predictions, rule)
    answers = answers_of(plan, predictions, thresholds.values)
    return CapabilityMeasures(
        answers,
        thresholds,
        _baselines(plan, answers, how.level, split),
        {test: _rates(examined, answers.passed, test.cases, how.level) for test in examined.tests},
        {test: _pair_rates(examined, answers, test.cases, how.level) for test in examined.tests if test.paired},
        value_rates(examined, answers.passed, how, rng),
    )


def find_thresholds(plan: Plan[PlannedSuite], predictions: Predictions, rule: ThresholdRule) -> Thresholds:
    """As in the other audits; without the label in the cohort, only a given threshold or a model's own."""
    scored, memory = predictions.scored, plan.memory
    if plan.cohort.labels:
        return decide_thresholds(plan, scored, rule=rule, validation=memory.validation, main=memory.held_out)
    values, origin = np.full((len(scored), len(plan.labels)), np.nan), {}
    for m, (name, answers) in enumerate(scored.items()):
        if not isinstance(rule.threshold, str):
            values[m], origin[name] = rule.threshold, "given"
        elif rule.threshold == "auto" and answers.threshold is not None:
            values[m], origin[name] = answers.threshold, "stored with the model"
        else:
            origin[name] = "none: the cohort does not have the label"
    return Thresholds(values, origin)


def answers_of(plan: Plan[PlannedSuite], predictions: Predictions, threshold: Floats) -> Answers:
    """What each model passes, how far it moves, and what it decides; `threshold` is [scored model, label]."""
    examined = plan.memory.examined
    p = np.stack([answers.p for answers in predictions.scored.values()])
    by_function = expectation_passes(plan, p)
    passed = np.stack(
        [
            _passed(plan, each, cut, {test: ok[m] for test, ok in by_function.items()})
            for m, (each, cut) in enumerate(zip(p, threshold, strict=True))
        ]
    )
    highest = any(test.wanted is not None and test.wanted.highest is not None for test in examined.tests)
    known = ~np.isnan(append_ensembles(np.zeros(len(p)) if highest else threshold.sum(axis=1), predictions))
    moved = np.stack([movements(examined, each) for each in p])
    decided = p.argmax(axis=2)[:, :, None] if highest else p >= threshold[:, None, :]
    flipped = (decided[:, examined.first] != decided[:, examined.second]).any(axis=2).astype(np.float64)
    held_out = {}
    for name, (positive, wanted) in right_answers(examined).items():
        mine = p[:, plan.memory.held_out]
        right = [is_right(each, cut, positive, wanted, plan.labels) for each, cut in zip(mine, threshold, strict=True)]
        held_out[name] = np.nan_to_num(append_ensembles(np.stack(right), predictions))
    return Answers(
        predictions.names,
        dict(zip(predictions.names, known.tolist(), strict=True)),
        append_ensembles(p, predictions),
        np.nan_to_num(append_ensembles(passed, predictions)),
        append_ensembles(moved, predictions),
        append_ensembles(flipped, predictions),
        held_out,
    )


def right_answers(examined: ExaminedCases) -> dict[str, tuple[bool | None, RightAnswer | None]]:
    """The right answers that held-out cases are compared by: both labels, or those that the tests ask for."""
    if not examined.classes:
        return {examined.positive: (True, None), examined.negative: (False, None)}
    return {test.label: (None, test.wanted) for test in examined.tests if test.decides}


def is_right(
    p: Floats, threshold: Floats, positive: bool | None, wanted: RightAnswer | None, labels: Sequence[str]
) -> Floats:
    """[case] 1 where the answer is the right one, NaN where a threshold is missing; `p` is [case, label]."""
    if wanted is None:
        right = (p[:, 0] >= threshold[0]) == bool(positive)
        return np.where(np.isnan(threshold[0]), np.nan, right)
    if wanted.highest is not None:
        mine = labels.index(wanted.highest)
        # A class that is only as likely as another is no answer.
        return np.asarray(p[:, mine] > np.delete(p, mine, axis=1).max(axis=1), dtype=np.float64)
    asked = [labels.index(name) for name in (*wanted.present, *wanted.absent)]
    there = np.arange(len(asked)) < len(wanted.present)
    right = ((p[:, asked] >= threshold[asked]) == there).all(axis=1)
    return np.where(np.isnan(threshold[asked]).any(), np.nan, right)


def _passed(
    plan: Plan[PlannedSuite], p: Floats, threshold: Floats, by_function: Mapping[LabelledTest, Floats]
) -> Floats:
    """[case] 1 where a model passes, 0 where it does not, NaN where that needs a threshold and there is none."""
    examined = plan.memory.examined
    before = p[examined.first]
    moved = p[examined.second] - before
    out = np.zeros(examined.n_cases)
    for labelled in examined.tests:
        rows, test = labelled.cases, labelled.test
        if labelled in by_function:
            out[rows] = by_function[labelled]
        elif test.type == "MFT":
            out[rows] = is_right(before[rows], threshold, labelled.positive, labelled.wanted, plan.labels)
        elif test.type == "INV":
            out[rows] = np.abs(moved[rows]).max(axis=1) <= (test.tolerance or 0.0) + ROUNDING
        else:
            onward = moved[rows, labelled.column] if test.direction == "up" else -moved[rows, labelled.column]
            # A margin of 0 still asks for a movement.
            out[rows] = (onward > ROUNDING) & (onward >= (test.margin or 0.0) - ROUNDING)
    return out


def movements(examined: ExaminedCases, p: Floats) -> Floats:
    """[case] how far the prediction moves in the expected direction, or for INV in either; NaN if it is no pair."""
    out = np.full(examined.n_cases, np.nan)
    for test in examined.tests:
        if test.paired:
            change = p[examined.second[test.cases]] - p[examined.first[test.cases]]
            one = change[:, test.column]
            out[test.cases] = {None: np.abs(change).max(axis=1), "up": one, "down": -one}[test.test.direction]
    return out


def _baselines(plan: Plan[PlannedSuite], answers: Answers, level: float, split: str) -> dict[str, Baseline]:
    """The held-out recall of each right answer, clustered by patient."""
    examined, rows = plan.memory.examined, plan.variants.parent[plan.memory.held_out]
    out = {}
    for name, (positive, wanted) in right_answers(examined).items():
        if not plan.cohort.labels:
            listed = "', '".join(plan.labels)
            out[name] = Baseline(name, None, f"the cohort has no label '{listed}'")
            continue
        y_true = plan.cohort.y_true(rows, plan.labels).astype(np.float64)
        if wanted is not None and wanted.highest is not None:
            mine = np.flatnonzero(y_true[:, plan.labels.index(wanted.highest)] == 1)
        else:
            mine = np.flatnonzero(is_right(y_true, np.full(len(plan.labels), 0.5), positive, wanted, plan.labels) == 1)
        if not len(mine):
            kind = f"'{name}'" if wanted is not None else "positive" if positive else "negative"
            out[name] = Baseline(name, None, f"no {kind} case in split '{split}'")
            continue
        right = answers.held_out[name][:, mine]
        found = pass_rates(plan.cohort.patients[rows[mine]], right, level=level, name="patients")
        out[name] = Baseline(name, found, None)
    return out


def _rates(examined: ExaminedCases, passed: Floats, rows: Ints, level: float) -> PassRates:
    """The pass rates of some cases, by base template and, where they stand in notes, also by patient."""
    template, mine = examined.template[rows], passed[:, rows]
    if examined.host is None:
        return pass_rates(template, mine, level=level)
    return pass_rates(template, mine, level=level, other=examined.host[rows], n_other=int(examined.host.max()) + 1)


def _pair_rates(examined: ExaminedCases, answers: Answers, rows: Ints, level: float) -> PairRates:
    changes = {}
    found = np.unique(examined.change[rows]).tolist()
    for change in found if len(found) > 1 else ():
        some = rows[examined.change[rows] == change]
        changes[examined.changes[change]] = _rates(examined, answers.passed, some, level)
    flips = _rates(examined, answers.flipped, rows, level)
    return PairRates(answers.moved[:, rows].mean(axis=1), flips, changes)


# --- tests with a function of their own (CheckList's expectation functions) ----------------------------------


def check_functions(suite: Suite) -> None:
    """Load every function of a suite, so that a missing one is told before anything is scored."""
    for capability in suite.capabilities:
        for test in capability.tests:
            if test.expect is not None:
                test.expect.resolve()


def expectation_passes(plan: Plan[PlannedSuite], p: Floats) -> dict[LabelledTest, Floats]:
    """For each test with a function, [model, case of the test] whether it passes; `p` is [model, variant, label]."""
    examined = plan.memory.examined
    out = {}
    for test in examined.tests:
        if test.test.expect is None:
            continue
        function = test.test.expect.resolve()
        passed = np.zeros((len(p), len(test.cases)))
        for k, case in enumerate(test.cases.tolist()):
            first, second = int(examined.first[case]), int(examined.second[case])
            text, changed = sentence_of(plan, first), sentence_of(plan, second) if second >= 0 else ""
            slots = {slot: use.values[use.code[case]] for slot, use in examined.slots.items() if use.code[case] >= 0}
            template = examined.templates[int(examined.template[case])]
            for m, probabilities in enumerate(p):
                before = dict(zip(plan.labels, probabilities[first].tolist(), strict=True))
                after = dict(zip(plan.labels, probabilities[second].tolist(), strict=True)) if second >= 0 else None
                asked = ExpectedCase(text, before, changed, after, slots, template)
                passed[m, k] = _ask(test, asked, function)
        out[test] = passed
    return out


def _ask(test: LabelledTest, asked: ExpectedCase, function: object) -> bool:
    name = test.test.expect.name if test.test.expect is not None else ""
    where = f"expectation '{name}' of test '{test.test.id}', template '{asked.template}'"
    if not callable(function):
        raise ConfigError(f"{where}: it is no function")
    try:
        answer = function(asked)
    except Exception as error:
        raise ConfigError(f"{where}: {type(error).__name__}: {error}", hint="mend the function") from error
    if not isinstance(answer, bool | np.bool_):
        raise ConfigError(f"{where}: it gives {type(answer).__name__}", hint="give True or False")
    return bool(answer)
