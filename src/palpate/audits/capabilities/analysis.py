"""From the answers to a suite's sentences to the capabilities audit's numbers.

The statistics are in `capabilities_rates` and `capabilities_values`; this module puts them in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.estimates import Baseline, Scribe
from palpate.audits.capabilities.measures import Floats, Measured, Rates, Resampling, measure, measure_mean, tally
from palpate.audits.capabilities.plan import Cell, Examined
from palpate.audits.capabilities.values import ValueRates, value_rates
from palpate.audits.kit.ensembles import families_of, members_of
from palpate.audits.kit.measured import Correction, corrected
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, decide_thresholds
from palpate.results import Estimate, ModelPredictions, Plan


@dataclass(frozen=True)
class Settings:
    """How the answers are analysed."""

    level: float
    n_replicates: int
    correction: Correction
    threshold: ThresholdRule


class Memory(NamedTuple):
    """What the plan remembers: rows of its variants, and the cases."""

    held_out: slice
    validation: slice
    examined: Examined
    has_label: bool
    """Whether the cohort has the label, so that there are a baseline and a threshold."""
    split: str


class Answered(NamedTuple):
    """Every model's answers: checkpoints first, then models that are the mean of several."""

    models: tuple[str, ...]
    families: dict[str, list[str]]
    p: Floats
    """[model, variant]"""
    passed: Floats
    """[model, case]; 0 where a model has no threshold and needs one."""
    held_out: Floats
    """[model, held-out case] whether the decision is positive, or how often of several checkpoints."""
    threshold: Floats
    """[model]; NaN where none could be found, and for means."""
    decides: tuple[bool, ...]

    def place_of(self, model: str) -> list[int]:
        """The rows of a model's checkpoints; its own where it has none."""
        return [self.models.index(name) for name in self.families.get(model, [model])]


class Analysed(NamedTuple):
    """The numbers, for the story."""

    answered: Answered
    thresholds: Thresholds
    scribe: Scribe
    baselines: dict[bool, Baseline]
    values: list[ValueRates]
    rows: list[Estimate]


def find_thresholds(plan: Plan, predictions: Mapping[str, ModelPredictions], rule: ThresholdRule) -> Thresholds:
    """As in the other audits; a cohort without the label leaves only what is given or stored with the model."""
    memory: Memory = plan.memory
    if memory.has_label:
        return decide_thresholds(plan, predictions, rule=rule, validation=memory.validation, main=memory.held_out)
    values, origin = np.full((len(predictions), 1), np.nan), {}
    for m, (name, answers) in enumerate(predictions.items()):
        if isinstance(rule.rule, float | int):
            values[m], origin[name] = rule.rule, "given"
        elif rule.rule == "auto" and answers.threshold is not None:
            values[m], origin[name] = answers.threshold, "stored with the model"
        else:
            origin[name] = "none: the cohort does not have the label"
    return Thresholds(values, origin)


def answers_of(plan: Plan, predictions: Mapping[str, ModelPredictions], thresholds: Thresholds) -> Answered:
    """What each model passes; a model with several checkpoints passes as often as they do on average."""
    memory: Memory = plan.memory
    families = families_of(predictions)
    names = tuple(predictions)
    p = [answers.p[:, 0] for answers in predictions.values()]
    threshold = [float(value) for value in thresholds.values[:, 0]]
    passed = [memory.examined.passed(each, cut) for each, cut in zip(p, threshold, strict=True)]
    held_out = [(each[memory.held_out] >= cut).astype(np.float64) for each, cut in zip(p, threshold, strict=True)]
    decides = [not np.isnan(cut) for cut in threshold]
    for members in families.values():
        place = [names.index(name) for name in members]
        for columns in (p, passed, held_out):
            columns.append(np.mean([columns[k] for k in place], axis=0))
        decides.append(all(decides[k] for k in place))
        threshold.append(np.nan)
    return Answered(
        models=(*names, *families),
        families=families,
        p=np.stack(p),
        passed=np.nan_to_num(np.stack(passed)),
        held_out=np.stack(held_out),
        threshold=np.array(threshold),
        decides=tuple(decides),
    )


def analyse_answers(
    plan: Plan, predictions: Mapping[str, ModelPredictions], settings: Settings, rng: np.random.Generator
) -> Analysed:
    """All estimates."""
    memory: Memory = plan.memory
    examined = memory.examined
    how, by_patient = (
        Resampling(settings.level, settings.n_replicates, int(seed)) for seed in rng.integers(2**63, size=2)
    )
    thresholds = find_thresholds(plan, predictions, settings.threshold)
    answered = answers_of(plan, predictions, thresholds)
    compared = tuple(name for name in answered.models if name not in members_of(answered.families))
    scribe = Scribe(plan.labels[0], answered.models, compared, answered.decides, settings.level, settings.n_replicates)
    measured = [
        measure(tally(answered.passed[:, rows].T, examined.template[rows]), how)
        for rows in (np.flatnonzero(examined.cell == k) for k in range(len(examined.cells)))
    ]
    baselines = _baselines(plan, answered, by_patient)
    values = value_rates(examined, answered.passed, how, rng)
    rows = [row for baseline in baselines.values() for row in _recalls(scribe, baseline, settings)]
    for part in ("main", "further"):
        place = [k for k, cell in enumerate(examined.cells) if cell.part == part]
        rows += _test_rows(scribe, examined, measured, baselines, place, answered.families, settings)
        rows += _average_rows(scribe, examined, measured, place, settings)
        rows += _value_rows(scribe, examined, [found for found in values if found.scope.part == part], settings)
    rows += _pair_rows(scribe, examined, answered, how)
    rows += scribe.mentions(examined)
    rows += scribe.templates(examined, answered.passed)
    return Analysed(answered, thresholds, scribe, baselines, values, rows)


def _baselines(plan: Plan, answered: Answered, how: Resampling) -> dict[bool, Baseline]:
    """The held-out recall of each of the two labels, resampled by patient."""
    memory: Memory = plan.memory
    names = {True: memory.examined.positive, False: memory.examined.negative}
    rows = plan.variants.parent[memory.held_out]
    out = {}
    for positive, name in names.items():
        if not memory.has_label:
            out[positive] = Baseline(name, None, f"the cohort has no label '{plan.labels[0]}'")
            continue
        mine = np.flatnonzero(plan.cohort.y_true(rows, plan.labels)[:, 0] == int(positive))
        if not len(mine):
            kind = "positive" if positive else "negative"
            out[positive] = Baseline(name, None, f"no {kind} case in split '{memory.split}'")
            continue
        decided = answered.held_out[:, mine]
        counts = tally((decided if positive else 1 - decided).T, plan.cohort.patients[rows[mine]])
        out[positive] = Baseline(name, measure(counts, how), None)
    return out


def _recalls(scribe: Scribe, baseline: Baseline, settings: Settings) -> list[Estimate]:
    if baseline.measured is None:
        nothing = Rates(*(np.asarray(np.nan) for _ in range(3)))
        rows = [scribe.row(m, "recall", baseline.group, nothing, n=0) for m in range(len(scribe.models))]
        return [Estimate(**{**vars(row), "reason": baseline.reason}) for row in rows]
    levels = list(scribe.levels("recall", baseline.group, baseline.measured, unit="patients"))
    pairs = list(scribe.between_models("recall", baseline.group, baseline.measured, unit="patients"))
    return levels + _corrected(scribe, pairs, settings)


def _corrected(scribe: Scribe, rows: Sequence[Estimate], settings: Settings) -> list[Estimate]:
    return corrected(rows, settings.correction, settings.level, headline=scribe.label)


def _test_rows(
    scribe: Scribe,
    examined: Examined,
    measured: Sequence[Measured],
    baselines: Mapping[bool, Baseline],
    place: Sequence[int],
    families: dict[str, list[str]],
    settings: Settings,
) -> list[Estimate]:
    """Pass rates of tests and labels, their differences to the baseline and between models."""
    levels: list[Estimate] = []
    below: list[Estimate] = []
    pairs: list[Estimate] = []
    for k in place:
        cell, part = examined.cells[k], measured[k]
        decides = cell.test.type == "MFT"
        levels += scribe.levels("pass_rate", cell.group, part, decides=decides)
        levels += scribe.spread_over_checkpoints(families, cell.group, part)
        pairs += scribe.between_models("pass_rate", cell.group, part, decides=decides)
        if decides and cell.positive is not None:
            below += scribe.against_baseline(cell, part, baselines[cell.positive])
    return levels + _corrected(scribe, below, settings) + _corrected(scribe, pairs, settings)


def groups_of(cells: Sequence[Cell], place: Sequence[int]) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The cells of each test that has both labels, and of each capability."""
    tests: dict[str, list[int]] = {}
    capabilities: dict[str, list[int]] = {}
    for k in place:
        capabilities.setdefault(cells[k].capability, []).append(k)
        if cells[k].test.type == "MFT":
            tests.setdefault(cells[k].family, []).append(k)
    return {name: both for name, both in tests.items() if len(both) == 2}, capabilities


def _average_rows(
    scribe: Scribe, examined: Examined, measured: Sequence[Measured], place: Sequence[int], settings: Settings
) -> list[Estimate]:
    """Tests with both labels, and capabilities."""
    rows: list[Estimate] = []
    metrics = ("balanced_pass_rate", "capability_pass_rate")
    for metric, groups in zip(metrics, groups_of(examined.cells, place), strict=True):
        pairs: list[Estimate] = []
        for name, some in groups.items():
            cells, parts = [examined.cells[k] for k in some], [measured[k] for k in some]
            levels, differences = scribe.averages(metric, name, cells, parts)
            rows += levels
            pairs += differences
        rows += _corrected(scribe, pairs, settings)
    return rows


def _value_rows(scribe: Scribe, examined: Examined, found: Sequence[ValueRates], settings: Settings) -> list[Estimate]:
    rows: list[Estimate] = []
    tests: list[Estimate] = []
    for part in found:
        levels, spreads = scribe.values(part, examined)
        rows += levels
        tests += spreads
    return rows + _corrected(scribe, tests, settings)


def _pair_rows(scribe: Scribe, examined: Examined, answered: Answered, how: Resampling) -> list[Estimate]:
    """INV and DIR: how far the prediction moves, how often the decision flips, and the pass rate of each change."""
    rows: list[Estimate] = []
    members = [answered.place_of(name) for name in answered.models]
    # Of the mean prediction of several checkpoints the movement would be less than theirs: some cancel.
    moved = np.stack([np.mean([examined.moved(p) for p in answered.p[place]], axis=0) for place in members])
    flipped = _flipped(examined, answered)
    for k, cell in enumerate(examined.cells):
        if cell.test.type == "MFT":
            continue
        mine = np.flatnonzero(examined.cell == k)
        template = examined.template[mine]
        rows += scribe.levels(
            "movement", cell.group, measure_mean(tally(moved[:, mine].T, template), how), decides=False
        )
        rows += scribe.levels("flip_rate", cell.group, measure(tally(flipped[:, mine].T, template), how))
        changes = np.unique(examined.change[mine])
        for change in changes.tolist() if len(changes) > 1 else ():
            some = mine[examined.change[mine] == change]
            part = measure(tally(answered.passed[:, some].T, examined.template[some]), how)
            group = f"{cell.group} | {examined.changes[change]}"
            rows += scribe.levels("change_pass_rate", group, part, decides=False)
    return rows


def _flipped(examined: Examined, answered: Answered) -> Floats:
    """[model, case] whether the second text of a pair gets another decision."""
    out = np.zeros(answered.passed.shape)
    for m, name in enumerate(answered.models):
        place = answered.place_of(name)
        decided = answered.p[place] >= answered.threshold[place][:, None]
        out[m] = (decided[:, examined.first] != decided[:, examined.second]).mean(axis=0)
    return out
