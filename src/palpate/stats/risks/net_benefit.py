"""Net benefit: what acting on a risk is worth, against acting on all and on none (Vickers and Elkin 2006).

Whoever acts at a risk of t accepts t / (1 - t) false alarms for each found case. The net benefit is a mean over rows,
so its variance by patient is exact, and so are those of differences between models and to acting on all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import Unit
from palpate.stats.inputs import Floats
from palpate.stats.intervals import Interval
from palpate.stats.precision.called import RowsTold, of_outcome, of_shares
from palpate.stats.risks import mean_influences, unit_codes
from palpate.stats.score_intervals import (
    Counts,
    class_units,
    cluster_sizes,
    contrast_interval,
    rate_interval,
    weighing,
)


def net_benefit(y_true: ArrayLike, y_score: ArrayLike, *, threshold: float, weight: ArrayLike | None = None) -> float:
    """True positives less false ones at their price, per row; a row is acted on if its risk is at least the threshold.

    Acting on all is a risk of 1 for everybody. nan without rows, and at a threshold of 1, where nothing has a price.
    """
    positive, score, mass = _inputs.scored(y_true, y_score, weight)
    _inputs.fraction(threshold, name="threshold")
    if threshold == 1.0 or not float(mass.sum()) > 0:
        return float("nan")
    worth = np.where(positive, 1.0, -threshold / (1.0 - threshold))
    return float(np.sum(mass * worth * (score >= threshold)) / mass.sum())


def range_worth(y: Floats, risk: Floats, benefit: tuple[float, float]) -> tuple[Floats, Floats]:
    """What each row adds to the net benefit, averaged over a range of thresholds, if it is found, and what it costs."""
    low, high = benefit
    reached = np.clip(risk, low, high)
    price = (-reached - np.log1p(-reached)) - (-low - np.log1p(-low))
    return y * (reached - low) / (high - low), (1.0 - y) * price / (high - low)


def benefit_interval(
    shares: Floats,
    errors: Floats,
    odds: ArrayLike,
    error: ArrayLike,
    told: Sequence[RowsTold],
    per_unit: ArrayLike,
    *,
    level: float = 0.95,
) -> Interval:
    """Interval of found less odds x false alarms, from those of the two shares, [2, ...].

    `error` is the standard error of the net benefit itself; `told` is what rows tell about each share. Unequal weights
    make both wider, for heavy rows that the sample may by chance lack.
    """
    ends = [
        rate_interval(share, own, rows, per_unit, level=level, wider=kept**-0.25)
        for share, own, (rows, kept) in zip(shares, errors, told, strict=True)
    ]
    price = [np.ones(()), -np.asarray(odds, np.float64)]
    return contrast_interval(list(shares), ends, list(errors), price, error)


class Band(NamedTuple):
    """Numbers with intervals, [..., threshold]."""

    value: Floats
    low: Floats
    high: Floats


class BenefitCurves(NamedTuple):
    """Net benefit over thresholds, with intervals for each threshold alone; acting on none is 0 everywhere."""

    thresholds: Floats
    benefit: Band
    """[model, threshold]; acting on all comes after the models."""
    over_all: Band
    """[model, threshold]: what each model gains over acting on all."""
    pairs: dict[tuple[int, int], Band]
    """[threshold]: the first model less the second."""


class _Acting(NamedTuple):
    """Acting at one threshold: the shares of all rows that are found and that are false alarms."""

    shares: Floats  # [2]
    moves: Floats  # [unit, 2]: how far each unit moves them
    acts_on_all: bool = False


class _ActedRows(NamedTuple):
    y: Floats
    mass: Floats
    unit: NDArray[np.int64]
    n_units: int
    counts: Counts
    level: float

    def told(self, way: _Acting) -> list[RowsTold]:
        """What the rows tell about the shares that are found and that are false alarms."""
        shares = [of_outcome(self.counts)] * 2 if way.acts_on_all else of_shares(self.counts, way.shares[:, None, None])
        return [RowsTold(*(each.reshape(()) for each in share)) for share in shares]

    def acting(self, acted: NDArray[np.bool_]) -> _Acting:
        both = np.column_stack([self.y * acted, (1.0 - self.y) * acted])
        return _Acting(*mean_influences(both, self.mass, self.unit, self.n_units), bool(acted.all()))


def benefit_curves(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    thresholds: ArrayLike,
    patient: ArrayLike,
    members: Sequence[Sequence[int]] | None = None,
    unit: Unit = "patient",
    weight: ArrayLike | None = None,
    level: float = 0.95,
) -> BenefitCurves:
    """Net benefit of every model over thresholds, of acting on all, and of every pair of models.

    y_true is [n] and y_score [models, n]. `members` are the rows of y_score that each model is the mean of: an ensemble
    has several. A pair (a, b) has a > b.
    """
    y, risk = _inputs.binary(y_true).astype(np.float64), np.atleast_2d(_inputs.finite(y_score, name="y_score"))
    if y.ndim != 1 or risk.shape[1:] != y.shape:
        raise ValueError("y_true must be [n] and y_score [models, n]")
    at = np.atleast_1d(_inputs.finite(thresholds, name="thresholds"))
    if bool(np.any((at < 0) | (at >= 1))):
        raise ValueError("thresholds must be at least 0 and below 1")
    mass = np.ones(y.size) if weight is None else _inputs.weights(weight, shape=y.shape)
    code, n_units = unit_codes(patient, unit, y.size, np.random.default_rng(0))
    outcome = y[:, None].astype(np.uint8)
    counts = Counts(
        np.asarray([y.size]),
        outcome.sum(axis=0, dtype=np.int64),
        class_units(outcome, patient, unit),
        cluster_sizes(outcome, patient, unit, weight=mass),
        None if weight is None else weighing(outcome, mass),
    )
    rows = _ActedRows(y, mass, code, n_units, counts, level)
    models = [[m] for m in range(len(risk))] if members is None else members
    everybody = rows.acting(np.ones(y.size, np.bool_))
    columns = []
    for threshold in at:
        acted = [rows.acting(row >= threshold) for row in risk]
        ways = [_mean([acted[m] for m in places]) for places in models]
        columns.append(_compared(rows, [*ways, everybody], threshold / (1.0 - threshold)))
    numbers = np.asarray(columns).transpose(2, 1, 0)  # [value or end, comparison, threshold]
    last = len(models)
    pairs = [(a, b) for a in range(last) for b in range(a)]
    return BenefitCurves(
        at,
        Band(*numbers[:, : last + 1]),
        Band(*numbers[:, last + 1 : 2 * last + 1]),
        {pair: Band(*numbers[:, 2 * last + 1 + k]) for k, pair in enumerate(pairs)},
    )


def _mean(members: Sequence[_Acting]) -> _Acting:
    shares, moves, acts_on_all = zip(*members, strict=True)
    return _Acting(np.mean(shares, axis=0), np.mean(moves, axis=0), all(acts_on_all))


def _compared(rows: _ActedRows, ways: Sequence[_Acting], odds: float) -> list[tuple[float, float, float]]:
    """Value and ends: of each way to act, of each but the last less the last, and of each pair of those."""
    price = np.asarray([1.0, -odds])
    values = [float(way.shares @ price) for way in ways]
    moves = [way.moves @ price for way in ways]
    errors = [float(np.sqrt(move @ move)) for move in moves]
    ends = [
        benefit_interval(
            way.shares,
            np.sqrt((way.moves**2).sum(axis=0)),
            odds,
            error,
            rows.told(way),
            rows.counts.per_unit[0],
            level=rows.level,
        )
        for way, error in zip(ways, errors, strict=True)
    ]

    def less(a: int, b: int) -> tuple[float, float, float]:
        apart = moves[a] - moves[b]
        found = contrast_interval(
            [values[a], values[b]],
            [ends[a], ends[b]],
            [errors[a], errors[b]],
            [1.0, -1.0],
            np.sqrt(apart @ apart),
            n_units=int(rows.counts.n_units.min()),
        )
        return values[a] - values[b], float(found.low), float(found.high)

    last = len(ways) - 1
    return [
        *((value, float(low), float(high)) for value, (low, high) in zip(values, ends, strict=True)),
        *(less(a, last) for a in range(last)),
        *(less(a, b) for a in range(last) for b in range(a)),
    ]
