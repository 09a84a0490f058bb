"""How intervals and tests are made: one set of settings for all audits, and the mean of a measure by patient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.audits.kit.scope import Unit
from palpate.stats import ratio_replicates
from palpate.stats.precision.influence import FEWEST_OF_A_SMALL_CLASS, FEWEST_PATIENTS, MOST_RESAMPLED
from palpate.stats.score_intervals import defined_error, rate_interval, student_quantile

Correction = Literal["bonferroni", "holm", "benjamini-hochberg"]
Family = Literal["question", "run"]
"""Which comparisons share one correction: those that answer one question, or all that an audit makes in a run."""
INTERVALS = (
    f"patients are resampled; above {MOST_RESAMPLED:,.0f} cases x replicates, with at least {FEWEST_PATIENTS:,} "
    f"patients and {FEWEST_OF_A_SMALL_CLASS} of each class, replicates are the estimate moved by each patient's "
    "influence"
)
"""What results say about how their replicates were made."""
FEWEST_FOR_INTERVAL, FEWEST_FOR_TEST = 2, 10
"""Units (patients, charts, templates) below which there is no interval, and no test: a bootstrap of a handful of
patients is too sure of itself."""


@dataclass(frozen=True)
class Resampling:
    """The settings of a bootstrap."""

    level: float = 0.95
    n_replicates: int = 10_000
    correction: Correction = "bonferroni"
    unit: Unit = "patient"
    seed: int = 0


class MeanInterval(NamedTuple):
    """A mean with its interval by patient; NaN where it is undefined, and `reason` says why."""

    value: float
    low: float
    high: float
    n: int
    n_patients: int
    reason: str | None


def mean_with_interval(
    values: ArrayLike,
    patients: ArrayLike,
    *,
    rng: np.random.Generator | int,
    n_replicates: int = 10_000,
    level: float = 0.95,
    weight: NDArray[np.float64] | None = None,
) -> MeanInterval:
    """The mean of `values` (one per case; NaN is left out), with an interval that resamples patients.

    Shares (all values 0 or 1) get the interval of a rate, which has a width where all are alike. Other means get the
    estimate and its standard error by Student's distribution, longer on the side of the tail (Johnson 1978). Other
    values that are all alike say nothing about how further patients would vary: no interval. `weight` is by case.

    Calls with the same integer `rng` and the same patients draw the same resamples, so that differences of two
    measures are paired.
    """
    column = np.asarray(values, dtype=np.float64)[:, None]
    return means_with_intervals(column, patients, rng=rng, n_replicates=n_replicates, level=level, weight=weight)[0]


def means_with_intervals(
    values: NDArray[np.float64],
    patients: ArrayLike,
    *,
    rng: np.random.Generator | int,
    n_replicates: int = 10_000,
    level: float = 0.95,
    weight: NDArray[np.float64] | None = None,
) -> list[MeanInterval]:
    """`mean_with_interval` of several measures, [case, measure], on the same resamples; `weight` is by case."""
    known = ~np.isnan(values)
    mass = known * (1.0 if weight is None else weight[:, None])
    names, code = np.unique(np.asarray(patients), return_inverse=True)
    sums, counts = np.zeros((len(names), values.shape[1])), np.zeros((len(names), values.shape[1]))
    np.add.at(sums, code, np.where(known, values, 0.0) * mass)
    np.add.at(counts, code, mass)
    n_patients = (counts > 0).sum(axis=0)
    resampled = np.flatnonzero(n_patients >= FEWEST_FOR_INTERVAL)
    replicates = np.full((values.shape[1], n_replicates), np.nan)
    if len(resampled):
        replicates[resampled] = ratio_replicates(
            sums[:, resampled], counts[:, resampled], rng=rng, n_replicates=n_replicates
        )
    return [
        _mean_interval(
            values[known[:, k], k], sums[:, k].sum(), counts[:, k].sum(), int(n_patients[k]), replicates[k], level
        )
        for k in range(values.shape[1])
    ]


def _mean_interval(
    numbers: NDArray[np.float64],
    total: float,
    mass: float,
    n_patients: int,
    replicates: NDArray[np.float64],
    level: float,
) -> MeanInterval:
    n = len(numbers)
    if n == 0:
        return MeanInterval(np.nan, np.nan, np.nan, 0, 0, "no case")
    value = float(total / mass)
    if n_patients < FEWEST_FOR_INTERVAL:
        return MeanInterval(value, np.nan, np.nan, n, n_patients, no_interval(n_patients))
    error = float(defined_error(replicates))
    if np.isin(numbers, (0.0, 1.0)).all():
        low, high = rate_interval(value, error, n, n / n_patients, level=level)
    elif error <= 1e-12 * max(abs(value), 1e-300):
        return MeanInterval(value, np.nan, np.nan, n, n_patients, "no interval: all patients are alike")
    else:
        t = float(student_quantile(n_patients - 1, level))
        error *= np.sqrt(n_patients / (n_patients - 1.0))
        tail = _skewness(replicates) * (1.0 + 2.0 * t * t) / 6.0
        low, high = value - error * (t + max(-tail, 0.0)), value + error * (t + max(tail, 0.0))
    return MeanInterval(value, float(low), float(high), n, n_patients, None)


def _skewness(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float((((known - known.mean()) / known.std()) ** 3).mean())


def no_interval(n_units: int, unit: str = "patients") -> str:
    """Why a known number has no interval."""
    if n_units < FEWEST_FOR_INTERVAL:
        return f"no interval: fewer than {FEWEST_FOR_INTERVAL} {unit}"
    return "no interval: undefined in more than 5% of the resamples"


def not_tested(unit: str = "patients") -> str:
    """Why a difference with an interval has no p-value."""
    return f"not tested: fewer than {FEWEST_FOR_TEST} {unit}"
