"""From predictions to pass rates: which sentences each model gets right, how its predictions move, and its recall.

A model of several seeds passes as often as its members do on average. Pass rates by what fills a slot are made in
`slot_values`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.plan import ExaminedCases, LabelledTest, PlannedSuite
from palpate.audits.capabilities.slot_values import ValueRates, value_rates
from palpate.audits.kit.metrics import append_ensembles
from palpate.audits.kit.resampling import Resampling
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, decide_thresholds
from palpate.cases.edits import Ints
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
    """[model, variant]"""
    passed: Floats
    """[model, case]; 0 where a model needs a threshold and has none."""
    moved: Floats
    """[model, case] how far the prediction moves in a pair. The mean prediction of several seeds would move less than
    each of them: some movements cancel."""
    flipped: Floats
    """[model, case] whether the second text of a pair gets another decision."""
    held_out: Floats
    """[model, held-out case] whether the decision is positive."""


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
    baselines: dict[bool, Baseline]
    """The held-out recall of the positive and of the negative label."""
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
    answers = answers_of(plan, predictions, thresholds.values[:, 0])
    template = examined.template
    return CapabilityMeasures(
        answers,
        thresholds,
        _baselines(plan, answers, how.level, split),
        {
            test: pass_rates(template[test.cases], answers.passed[:, test.cases], level=how.level)
            for test in examined.tests
        },
        {test: _pair_rates(examined, answers, test.cases, how.level) for test in examined.tests if not test.decides},
        value_rates(examined, answers.passed, how, rng),
    )


def find_thresholds(plan: Plan[PlannedSuite], predictions: Predictions, rule: ThresholdRule) -> Thresholds:
    """As in the other audits; without the label in the cohort, only a given threshold or a model's own."""
    scored, memory = predictions.scored, plan.memory
    if plan.cohort.labels:
        return decide_thresholds(plan, scored, rule=rule, validation=memory.validation, main=memory.held_out)
    values, origin = np.full((len(scored), 1), np.nan), {}
    for m, (name, answers) in enumerate(scored.items()):
        if not isinstance(rule.threshold, str):
            values[m], origin[name] = rule.threshold, "given"
        elif rule.threshold == "auto" and answers.threshold is not None:
            values[m], origin[name] = answers.threshold, "stored with the model"
        else:
            origin[name] = "none: the cohort does not have the label"
    return Thresholds(values, origin)


def answers_of(plan: Plan[PlannedSuite], predictions: Predictions, threshold: Floats) -> Answers:
    """What each model passes, how far it moves, and what it decides; `threshold` is [scored model]."""
    examined = plan.memory.examined
    p = np.stack([answers.p[:, 0] for answers in predictions.scored.values()])
    decided = p >= threshold[:, None]
    known = ~np.isnan(append_ensembles(threshold, predictions))
    passed = np.stack([_passed(examined, each, cut) for each, cut in zip(p, threshold.tolist(), strict=True)])
    moved = np.stack([movements(examined, each) for each in p])
    flipped = (decided[:, examined.first] != decided[:, examined.second]).astype(np.float64)
    held_out = decided[:, plan.memory.held_out].astype(np.float64)
    return Answers(
        predictions.names,
        dict(zip(predictions.names, known.tolist(), strict=True)),
        append_ensembles(p, predictions),
        np.nan_to_num(append_ensembles(passed, predictions)),
        *(append_ensembles(values, predictions) for values in (moved, flipped, held_out)),
    )


def _passed(examined: ExaminedCases, p: Floats, threshold: float) -> Floats:
    """[case] 1 where a model passes, 0 where it does not, NaN where that needs a threshold and there is none."""
    before = p[examined.first]
    moved = p[examined.second] - before
    out = np.zeros(examined.n_cases)
    for labelled in examined.tests:
        rows, test = labelled.cases, labelled.test
        if test.type == "MFT":
            out[rows] = np.nan if np.isnan(threshold) else (before[rows] >= threshold) == bool(labelled.positive)
        elif test.type == "INV":
            out[rows] = np.abs(moved[rows]) <= (test.tolerance or 0.0) + ROUNDING
        else:
            onward = moved[rows] if test.direction == "up" else -moved[rows]
            # A margin of 0 still asks for a movement.
            out[rows] = (onward > ROUNDING) & (onward >= (test.margin or 0.0) - ROUNDING)
    return out


def movements(examined: ExaminedCases, p: Floats) -> Floats:
    """[case] how far the prediction moves in the expected direction, or for INV in either; NaN if it is no pair."""
    out = np.full(examined.n_cases, np.nan)
    for test in examined.tests:
        change = p[examined.second[test.cases]] - p[examined.first[test.cases]]
        if not test.decides:
            out[test.cases] = {None: np.abs(change), "up": change, "down": -change}[test.test.direction]
    return out


def _baselines(plan: Plan[PlannedSuite], answers: Answers, level: float, split: str) -> dict[bool, Baseline]:
    """The held-out recall of each of the two labels, clustered by patient."""
    examined, rows = plan.memory.examined, plan.variants.parent[plan.memory.held_out]
    out = {}
    for positive, name in ((True, examined.positive), (False, examined.negative)):
        if not plan.cohort.labels:
            out[positive] = Baseline(name, None, f"the cohort has no label '{plan.labels[0]}'")
            continue
        mine = np.flatnonzero(plan.cohort.y_true(rows, plan.labels)[:, 0] == int(positive))
        if not len(mine):
            kind = "positive" if positive else "negative"
            out[positive] = Baseline(name, None, f"no {kind} case in split '{split}'")
            continue
        right = answers.held_out[:, mine] if positive else 1 - answers.held_out[:, mine]
        found = pass_rates(plan.cohort.patients[rows[mine]], right, level=level, name="patients")
        out[positive] = Baseline(name, found, None)
    return out


def _pair_rates(examined: ExaminedCases, answers: Answers, rows: Ints, level: float) -> PairRates:
    template, changes = examined.template, {}
    found = np.unique(examined.change[rows]).tolist()
    for change in found if len(found) > 1 else ():
        some = rows[examined.change[rows] == change]
        changes[examined.changes[change]] = pass_rates(template[some], answers.passed[:, some], level=level)
    flips = pass_rates(template[rows], answers.flipped[:, rows], level=level)
    return PairRates(answers.moved[:, rows].mean(axis=1), flips, changes)
