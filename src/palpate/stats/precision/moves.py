"""How far groups of patients move each metric of the bootstrap: derivatives by how often a group is drawn.

Every metric is a smooth function of weighted sums of rows, or is made of numbers that are: the calibration error of the
gaps in its bins, the sensitivity at a specificity of the points of the curve around it. See `influence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from palpate.stats.arguments import NOISE, Rows
from palpate.stats.inputs import Floats, divide

ERROR, OPERATING = "adaptive_calibration_error", "sensitivity_at_specificity"
_SAME = {"recall_1": "sensitivity", "recall_0": "specificity", "precision_1": "ppv", "precision_0": "npv"}
"""Metrics that are others under another name."""
_WINDOW = 0.01
"""The share of the rows on either side of an edge that tell how far risks are off there."""
_REACH, _MOST_POINTS = 6.0, 64
"""Standard errors on either side of a specificity, and points of the curve there."""


class Settings(NamedTuple):
    """As for the bootstrap."""

    specificity: float
    n_bins: int


class Problem(NamedTuple):
    """The used rows of one model and label, from high score to low."""

    group: NDArray[np.int64]
    positive: Floats
    score: Floats
    weight: Floats
    first: NDArray[np.int64]
    """The first row of each run of equal scores, and the number of rows."""
    above: int
    """How many rows are predicted positive; -1 without a threshold."""
    n_groups: int

    @classmethod
    def of(cls, rows: Rows, model: int, label: int, group: NDArray[np.int64], n_groups: int) -> Problem:
        """Those of the bootstrap's rows; `group` is of every row."""
        used = rows.ranked(model, label)
        score = rows.score[model, used, label]
        threshold = rows.threshold[model, label]
        return cls(
            group=group[used],
            positive=rows.positive[used, label].astype(np.float64),
            score=score,
            weight=np.ones(len(used)) if rows.weight is None else np.asarray(rows.weight[used, label], np.float64),
            first=np.concatenate([[0], np.flatnonzero(score[1:] != score[:-1]) + 1, [len(score)]]),
            above=int(np.searchsorted(-score, -threshold, side="right")) if threshold == threshold else -1,
            n_groups=n_groups,
        )

    def sums(self, values: Floats, part: slice = slice(None)) -> Floats:
        """What the rows of each group sum to."""
        found = np.bincount(self.group[part], weights=values[part], minlength=self.n_groups)
        return np.asarray(found, np.float64)

    def runs(self, values: Floats) -> Floats:
        """What the rows of each run of equal scores sum to."""
        return np.asarray(np.add.reduceat(values, self.first[:-1]))

    def each_row(self, of_run: Floats) -> Floats:
        """The value of its run, for each row."""
        return np.repeat(of_run, np.diff(self.first))


class _Operating(NamedTuple):
    """The curve around the wanted specificity, from high thresholds to low.

    Between two points lie few rows, so how far groups move a point is told by the first point and by steps to the next.
    """

    sensitivity: Floats
    false_alarms: Floats
    wanted: float
    dense: bool
    """Whether scores lie between the points, so that the curve between them is a line and not a step."""
    steps: csr_array
    """What the rows up to a point add since the point before, [side and point, group]: the share of a class."""
    held: Floats
    """What each step adds in all for rows that are drawn within classes, [side and point, class]; 0 for others."""

    def shifts(self, columns: NDArray[np.float32], steps: NDArray[np.float32]) -> Floats:
        """How far the sensitivity at the wanted share of false alarms moves in each replicate, [column, replicate] of
        what moves: of each side its first point and its class, then the two classes that are drawn from; and steps."""
        from palpate.stats.kernels.lanes import points_around

        curve = np.stack([self.sensitivity, self.false_alarms])
        found = np.empty((steps.shape[1], 4))
        points_around(columns.astype(np.float64), steps, self.held, curve, self.wanted, found)
        data, still = np.empty((1, 4)), np.zeros((6, 1))
        points_around(still, np.zeros((2 * len(self.sensitivity), 1), np.float32), self.held, curve, self.wanted, data)
        return np.asarray(self._read_off(found) - self._read_off(data))

    def _read_off(self, around: Floats) -> Floats:
        """The sensitivity of the lowest threshold that keeps the share of false alarms, from the points around it."""
        here, alarms, hits_after, alarms_after = around.T
        if not self.dense:
            return np.asarray(here)
        step = alarms_after - alarms
        part = np.divide(self.wanted - alarms, step, out=np.zeros_like(here), where=step > 0)
        return np.asarray(here + np.clip(part, 0.0, 1.0) * (hits_after - here))


class Moves(NamedTuple):
    """How far each group moves what metrics are made of."""

    by_group: Floats
    """[group, column]; those of the curve are what `_Operating.shifts` needs."""
    columns: dict[str, slice]
    gaps: Floats
    """Of the calibration bins, on the data."""
    operating: _Operating | None


def moves_of(problem: Problem, metrics: Sequence[str], point: Floats, settings: Settings) -> Moves:
    """What the replicates of these metrics need; `point` are their values on the data."""
    found: dict[str, Floats] = {}
    gaps, operating = np.zeros(0), None
    values = dict(zip(metrics, point.tolist(), strict=True))
    weighed = set(metrics) - {ERROR, NOISE, OPERATING, "auroc", "auprc"}
    if weighed:
        wanted = {_SAME.get(name, name) for name in weighed}
        found |= {name: each[:, None] for name, each in _ratios(problem).items() if name in wanted}
    if "auroc" in metrics:
        found["auroc"] = problem.sums(_auroc(problem, values["auroc"]))[:, None]
    if "auprc" in metrics:
        found["auprc"] = problem.sums(_auprc(problem, values["auprc"]))[:, None]
    if ERROR in metrics or NOISE in metrics:
        gaps, found[ERROR] = _gaps(problem, settings.n_bins)
    if OPERATING in metrics:
        operating, found[OPERATING] = _curve(problem, 1.0 - settings.specificity)
    starts = np.cumsum([0, *(each.shape[1] for each in found.values())])
    columns = {name: slice(int(a), int(b)) for name, a, b in zip(found, starts, starts[1:], strict=False)}
    return Moves(np.nan_to_num(np.concatenate(list(found.values()), axis=1)), columns, gaps, operating)


def within_classes(moves: Moves, sizes: NDArray[np.int64]) -> Moves:
    """Where rows are drawn within each class, half of the groups each: what a class adds in all does not vary."""
    out, half = moves.by_group.copy(), len(sizes) // 2
    operating = moves.operating
    held = np.zeros((0, 2)) if operating is None else operating.held.copy()
    for side, part in enumerate((slice(0, half), slice(half, 2 * half))):
        shares = sizes[part] / max(int(sizes[part].sum()), 1)
        out[part] -= shares[:, None] * moves.by_group[part].sum(axis=0)
        if operating is not None:
            held[:, side] = operating.steps[:, part].sum(axis=1)
            out[part, moves.columns[OPERATING].start + 4 + side] = shares
    return moves._replace(by_group=out, operating=None if operating is None else operating._replace(held=held))


def replicates_of(
    moves: Moves, metrics: Sequence[str], point: Floats, moved: NDArray[np.float32], steps: NDArray[np.float32]
) -> Floats:
    """[metric, replicate] from how far each replicate moves each column and each step, [column, replicate]."""
    out = np.empty((len(metrics), moved.shape[1]))
    for k, name in enumerate(metrics):
        if name in (ERROR, NOISE):
            by = moved[moves.columns[ERROR]]
            off = np.zeros_like(moves.gaps) if name == NOISE else moves.gaps
            out[k] = np.abs(off[:, None] + by).mean(axis=0)
        elif moves.operating is not None and name == OPERATING:
            out[k] = point[k] + moves.operating.shifts(moved[moves.columns[name]], steps)
        else:
            out[k] = point[k] + moved[moves.columns[_SAME.get(name, name)]][0]
        out[k] = np.nan if np.isnan(point[k]) and name != NOISE else out[k]
    return out


def _ratios(problem: Problem) -> dict[str, Floats]:
    """Metrics that are ratios of sums: each moves by what a group adds to the numerator, less its share of it."""
    y, s, w = problem.positive, problem.score, problem.weight
    flagged = slice(0, max(problem.above, 0))
    mass, found = problem.sums(w), problem.sums(w * y)
    called, hits = problem.sums(w, flagged), problem.sums(w * y, flagged)
    absent, passed = mass - found, (mass - found) - (called - hits)

    def ratio(above: Floats, below: Floats) -> Floats:
        total = float(below.sum())
        return (above - divide(float(above.sum()), total) * below) / (total if total > 0 else np.nan)

    squares = ratio(problem.sums(w * (y - s) ** 2), mass)
    share = divide(float(found.sum()), float(mass.sum()))
    spread = share * (1.0 - share) or np.nan
    off = divide(float(np.sum(w * (y - s) ** 2)), float(mass.sum()))
    rates = {
        "sensitivity": ratio(hits, found),
        "specificity": ratio(passed, absent),
        "ppv": ratio(hits, called),
        "npv": ratio(passed, mass - called),
        "f1_1": ratio(2.0 * hits, called + found),
        "f1_0": ratio(2.0 * passed, (mass - called) + absent),
    }
    prevalence = ratio(found, mass)
    return {
        **rates,
        "brier": squares,
        "brier_skill_score": -squares / spread + off * (1.0 - 2.0 * share) / spread**2 * prevalence,
        "prevalence": prevalence,
        "mean_score": ratio(problem.sums(w * s), mass),
    }


def _auroc(problem: Problem, value: float) -> Floats:
    """Of each row: how much more often than on average it is on the right side of the other class (DeLong 1988)."""
    positive, negative = problem.weight * problem.positive, problem.weight * (1.0 - problem.positive)
    ups, downs = problem.runs(positive), problem.runs(negative)
    n_up, n_down = float(ups.sum()), float(downs.sum())
    below = (n_down - np.cumsum(downs) + downs / 2.0) / (n_down or np.nan)
    above = (np.cumsum(ups) - ups / 2.0) / (n_up or np.nan)
    moved = positive * (problem.each_row(below) - value) / (n_up or np.nan)
    return np.asarray(moved + negative * (problem.each_row(above) - value) / (n_down or np.nan))


def _auprc(problem: Problem, value: float) -> Floats:
    """Of each row: a positive adds its precision and raises that of all positives from it on; any row dilutes them."""
    positive = problem.weight * problem.positive
    ups, mass = problem.runs(positive), problem.runs(problem.weight)
    n_up, seen = float(ups.sum()), np.cumsum(mass)
    precision = np.divide(np.cumsum(ups), seen, out=np.zeros_like(seen), where=seen > 0)
    per_mass = np.divide(ups, seen, out=np.zeros_like(seen), where=seen > 0)
    raised, diluted = (np.cumsum(each[::-1])[::-1] for each in (per_mass, per_mass * precision))
    own = problem.positive * problem.each_row(precision + raised - value) - problem.each_row(diluted)
    return np.asarray(problem.weight * own / (n_up or np.nan))


def _gaps(problem: Problem, n_bins: int) -> tuple[Floats, Floats]:
    """Observed less predicted rate in bins of equal mass, from high scores to low, and how far groups move them.

    A bin's edge moves too: what passes over it is as far off as the rows near it are.
    """
    off = problem.weight * (problem.positive - problem.score)
    mass, total = problem.weight, float(problem.weight.sum())
    seen, gap_seen = (np.concatenate([[0.0], np.cumsum(problem.runs(each))]) for each in (mass, off))
    level, moved = np.zeros(n_bins + 1), np.zeros((problem.n_groups, n_bins + 1))
    sums = [np.zeros(problem.n_groups), np.zeros(problem.n_groups)]
    every, done = problem.sums(mass), 0
    for k in range(1, n_bins + 1):
        share = k / n_bins
        at = min(int(np.searchsorted(seen, share * total, side="left")), len(seen) - 1)
        run = slice(int(problem.first[at - 1]), int(problem.first[at]))
        inside = min((share * total - seen[at - 1]) / max(seen[at] - seen[at - 1], 1e-300), 1.0)
        for each, values in zip(sums, (off, mass), strict=True):
            each += problem.sums(values, slice(done, run.start))
        done = run.start
        above = [each + inside * problem.sums(values, run) for each, values in zip(sums, (off, mass), strict=True)]
        level[k] = (gap_seen[at - 1] + inside * (gap_seen[at] - gap_seen[at - 1])) / total
        near = _near(seen, gap_seen, at, total)
        moved[:, k] = (above[0] - near * above[1] - (level[k] - near * share) * every) / total
    return n_bins * np.diff(level), n_bins * np.diff(moved, axis=1)


def _near(seen: Floats, gap_seen: Floats, at: int, total: float) -> float:
    """How far risks are off around a run of equal scores."""
    low = int(np.searchsorted(seen, seen[at - 1] - _WINDOW * total, side="left"))
    high = min(int(np.searchsorted(seen, seen[at] + _WINDOW * total, side="left")), len(seen) - 1)
    if seen[at] - seen[at - 1] > 2.0 * _WINDOW * total:
        low, high = at - 1, at
    return divide(float(gap_seen[high] - gap_seen[low]), float(seen[high] - seen[low]))


def _curve(problem: Problem, wanted: float) -> tuple[_Operating, Floats]:
    """The points of the ROC curve around a share of false alarms, and how far groups move them."""
    positive, negative = problem.weight * problem.positive, problem.weight * (1.0 - problem.positive)
    hits, alarms = (np.concatenate([[0.0], np.cumsum(problem.runs(each))]) for each in (positive, negative))
    n_up, n_down = float(hits[-1]) or np.nan, float(alarms[-1]) or np.nan
    rate = alarms / n_down
    at = max(int(np.searchsorted(rate, wanted + 1e-12, side="right")) - 1, 0)
    flagged = slice(0, int(problem.first[at]))
    of_up, of_down = problem.sums(positive), problem.sums(negative)
    spread = float(np.sqrt(np.sum(((problem.sums(negative, flagged) - rate[at] * of_down) / n_down) ** 2)))
    low = max(int(np.searchsorted(rate, wanted - _REACH * spread)) - 1, 0)
    high = min(int(np.searchsorted(rate, wanted + _REACH * spread, side="right")), len(rate) - 1)
    points = np.unique(np.append(np.linspace(low, high, _MOST_POINTS + 1).astype(np.int64), at))
    columns = np.zeros((problem.n_groups, 6))
    steps = []
    for side, (values, of_class, n) in enumerate(((positive, of_up, n_up), (negative, of_down, n_down))):
        start = slice(0, int(problem.first[points[0]]))
        share = (hits, alarms)[side][points[0]] / n
        columns[:, 2 * side] = (problem.sums(values, start) - share * of_class) / n
        columns[:, 2 * side + 1] = of_class / n
        steps.append(_steps(problem, values / n, points))
    dense = high - low + 1 > len(points)
    held = np.zeros((2 * len(points), 2))
    found = _Operating(hits[points] / n_up, rate[points], wanted, dense, vstack(steps, format="csr"), held)
    return found, columns


def _steps(problem: Problem, values: Floats, points: NDArray[np.int64]) -> csr_array:
    """What the rows between two points of the curve add, [point, group]; nothing for the first."""
    rows = slice(int(problem.first[points[0]]), int(problem.first[points[-1]]))
    point = np.searchsorted(problem.first[points], np.arange(rows.start, rows.stop), side="right")
    entries = (values[rows].astype(np.float32), (point, problem.group[rows]))
    return csr_array(entries, shape=(len(points), problem.n_groups))
