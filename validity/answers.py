"""Language models: scores that are the share of a few answers, and how often a model refuses.

A score is the mean of k answers, each yes with the model's own probability. The number that is estimated is that of the
model as it is used, with k answers: an AUROC of shares of 5 answers is lower than that of the probabilities behind
them. Each patient's answers are drawn for that patient alone, so their noise is part of how patients differ, and
resampling patients carries it into every interval; adding it once more would count it twice. It would not be so if
patients with the same text shared its answers: the last cells show what that would do, and why palpate asks for each
case by itself where answers vary. The shift of a score is that between two notes of a patient, each asked k times.
Refusals are 0 or 1 by note, and differ between patients; the difference between arms is that of the same patients,
that between groups is one of different patients.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.resampling import mean_with_interval
from palpate.audits.kit.rows import RowWriter
from palpate.audits.performance.measures import measure_labels
from palpate.audits.performance.populations import METRICS, Measuring, Population, ScoreTable
from palpate.results.plan import AnswerKind, Outcomes
from palpate.run.answering import (
    REFUSED,
    AskedArms,
    AskedGroups,
    arm_differences,
    group_differences,
    outcome_shares,
)
from validity import COVERAGE, FALSE_ALARMS, Cell
from validity.performance import Setting, draw

Floats = NDArray[np.float64]
_REPLICATES = 300
_AT_ONCE = 250
_MEASURED = ("auroc", "brier", "sensitivity")


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage of metrics and of shifts by the number of answers, then refusals, then shared answers."""
    for k in (1, 5) if thin else (1, 3, 5, 20):
        for n_patients in (200,) if thin else (100, 200, 500):
            yield from _metric_cells(Setting(n_patients, 0.3, 0.8, 1), k, n_samples, seed)
            yield _shift_cell(n_patients, k, n_samples, seed)
    for n_patients, share in ((60, 0.05), (200, 0.2)) if thin else ((60, 0.05), (60, 0.2), (200, 0.05), (200, 0.2)):
        yield from _refusal_cells(n_patients, share, n_samples, seed)
        yield from _group_cells(n_patients, share, n_samples, seed)
    for apart in (True, False):
        yield _shared_cell(n_samples, seed, apart=apart)


def _asked(p: Floats, k: int, rng: np.random.Generator) -> Floats:
    return rng.binomial(k, p) / k


def _metric_cells(setting: Setting, k: int, n_samples: int, seed: int) -> Iterator[Cell]:
    rng, threshold = np.random.default_rng(seed), 0.5
    large = setting._replace(n_patients=400_000)
    truth = _measured(large, k, np.random.default_rng(7), 1, threshold, 0).point[0, :, 0]
    held: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in _MEASURED}
    for first in range(0, n_samples, _AT_ONCE):
        part = _measured(setting, k, rng, min(_AT_ONCE, n_samples - first), threshold, _REPLICATES)
        spread = part.spread(0.95)
        for name in _MEASURED:
            j = METRICS.index(name)
            low, high = spread.low[0, j], spread.high[0, j]
            known = ~np.isnan(low)
            held[name].append(((low <= truth[j]) & (truth[j] <= high))[known])
    for name, parts in held.items():
        hits = np.concatenate(parts)
        where = f"{setting.n_patients} patients, {setting}, {k} answers per note"
        yield Cell(f"coverage of {name}", where, float(hits.mean()), len(hits), at_least=COVERAGE)


def _measured(setting: Setting, k: int, rng: np.random.Generator, n: int, threshold: float, replicates: int):  # type: ignore[no-untyped-def]
    """The audit's own measures, each sample a label of one population."""
    y_true, p, patient = draw(setting, rng, n)
    scores = ScoreTable(list(_asked(p, k, rng)))
    limits = np.full((2, n), threshold)
    population = Population("simulated", y_true.astype(np.uint8), scores, limits, patient, int(rng.integers(2**60)))
    measuring = Measuring(0.95, 10, "patient", _REPLICATES, "resample")
    return measure_labels(population, [str(j) for j in range(n)], np.arange(n), ("a", "b"), measuring, replicates)


def _shift_cell(n_patients: int, k: int, n_samples: int, seed: int) -> Cell:
    """The mean change of the score between two notes of each patient; by 0.05 in truth."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(n_samples):
        before = rng.beta(1, 2, n_patients) * 0.9
        change = _asked(before + 0.05, k, rng) - _asked(before, k, rng)
        found = mean_with_interval(
            change, np.arange(n_patients), rng=int(rng.integers(2**60)), n_replicates=_REPLICATES
        )
        hits += found.low is not None and found.high is not None and found.low <= 0.05 <= found.high
    where = f"{n_patients} patients, {k} answers per note"
    return Cell("coverage of the mean shift", where, hits / n_samples, n_samples, at_least=COVERAGE)


def _refusal_cells(n_patients: int, share: float, n_samples: int, seed: int) -> Iterator[Cell]:
    """Of the share, of the difference of an arm that is refused twice as often, and of three arms that are not."""
    rng = np.random.default_rng(seed)
    level = difference = alarms = 0
    for _ in range(n_samples):
        likely = np.minimum(rng.beta(2, 2 / share - 2, n_patients), 0.5)
        arms = [rng.random(n_patients) < likely, rng.random(n_patients) < 2 * likely]
        rows = [*outcome_shares(_arms(arms)), *arm_differences(_arms(arms))]
        (first,) = (each for each in rows if (each.metric, each.group, each.reference) == (REFUSED, "0", None))
        truth = float(np.minimum(np.random.default_rng(5).beta(2, 2 / share - 2, 200_000), 0.5).mean())
        level += first.low is not None and first.high is not None and first.low <= truth <= first.high
        changed = [each for each in rows if each.reference is not None]
        difference += not changed or (changed[0].low or 0) <= truth <= (changed[0].high or 0)
        same = [rng.random(n_patients) < likely for _ in range(4)]
        alarms += any((each.low or 0) * (each.high or 0) > 0 for each in arm_differences(_arms(same)))
    where = f"{n_patients} patients, {share:.0%} refused"
    yield Cell("coverage of the share of refusals", where, level / n_samples, n_samples, at_least=COVERAGE)
    yield Cell("coverage of the difference of refusals", where, difference / n_samples, n_samples, at_least=COVERAGE)
    yield Cell("family-wise false alarms, 3 arms", where, alarms / n_samples, n_samples, at_most=FALSE_ALARMS)


def _group_cells(n_patients: int, share: float, n_samples: int, seed: int) -> Iterator[Cell]:
    """A third of the patients is refused twice as often as the others; and three groups that are not."""
    rng, third = np.random.default_rng(seed), n_patients // 3
    held = alarms = 0
    for _ in range(n_samples):
        chance = np.full(n_patients, share)
        chance[:third] *= 2
        found = list(group_differences(_divided(rng.random(n_patients) < chance, [third, n_patients - third])))
        held += not found or (found[0].low or 0) <= share <= (found[0].high or 0)
        same = _divided(rng.random(n_patients) < share, [third, third, n_patients - 2 * third])
        alarms += any((each.low or 0) * (each.high or 0) > 0 for each in group_differences(same))
    where = f"{n_patients} patients, {share:.0%} refused"
    what = "coverage of the difference of refusals between groups"
    yield Cell(what, where, held / n_samples, n_samples, at_least=COVERAGE)
    yield Cell("family-wise false alarms, 3 groups", where, alarms / n_samples, n_samples, at_most=FALSE_ALARMS)


def _divided(refused: NDArray[np.bool_], sizes: list[int]) -> AskedArms:
    """Patients in groups of these sizes, one after the other."""
    parts = np.split(np.arange(len(refused)), np.cumsum(sizes)[:-1])
    division = AskedGroups({str(k): part for k, part in enumerate(parts)})
    return _arms([refused])._replace(groups=(division,))


def _arms(refused: list[NDArray[np.bool_]]) -> AskedArms:
    n, k = len(refused[0]), len(refused)
    kind = np.where(np.concatenate(refused), int(AnswerKind.REFUSED), 0).astype(np.int8)[:, None]
    nothing = np.full(kind.shape, np.nan)
    return AskedArms(
        RowWriter("simulated"),
        "llm",
        {str(arm): np.arange(arm * n, (arm + 1) * n) for arm in range(k)},
        np.tile(np.arange(n), k),
        np.ones(n * k),
        Outcomes(kind, nothing, nothing),
        nothing,
        ("ill",),
    )


def _shared_cell(n_samples: int, seed: int, *, apart: bool) -> Cell:
    """The mean score of 200 patients of whom five at a time have the same text, with one answer each."""
    rng, hits, n = np.random.default_rng(seed), 0, 200
    for _ in range(n_samples):
        text = np.repeat(np.arange(n // 5), 5)
        p = np.full(n // 5, 0.3)
        score = _asked(p[text], 1, rng) if apart else _asked(p, 1, rng)[text]
        found = mean_with_interval(score, np.arange(n), rng=int(rng.integers(2**60)), n_replicates=_REPLICATES)
        hits += found.low is not None and found.high is not None and found.low <= 0.3 <= found.high
    how = "each patient asked apart" if apart else "one answer for all with a text, which is not done"
    what = "coverage of the mean score" if apart else "for comparison: covered mean scores"
    bound = COVERAGE if apart else 0.0
    return Cell(what, f"{n} patients, 5 with each text, {how}", hits / n_samples, n_samples, at_least=bound)
