"""How intervals and tests are made: one set of settings for all audits, and the mean of a measure by patient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.audits.kit.scope import Unit
from palpate.stats import percentile_interval, ratio_replicates

Correction = Literal["bonferroni", "holm", "benjamini-hochberg"]
Family = Literal["question", "run"]
"""Which comparisons share one correction: those that answer one question, or all that an audit makes in a run."""
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
) -> MeanInterval:
    """The mean of `values` (one per case; NaN is left out), with a bootstrap interval that resamples patients.

    Calls with the same integer `rng` and the same patients draw the same resamples, so that differences of two
    measures are paired.
    """
    numbers: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(numbers)
    n = int(known.sum())
    if n == 0:
        return MeanInterval(np.nan, np.nan, np.nan, 0, 0, "no case")
    names, code = np.unique(np.asarray(patients), return_inverse=True)
    n_patients = len(np.unique(code[known]))
    sums = np.bincount(code, weights=np.where(known, numbers, 0.0), minlength=len(names))
    counts = np.bincount(code, weights=known.astype(np.float64), minlength=len(names))
    value = float(sums.sum() / n)
    if n_patients < FEWEST_FOR_INTERVAL:
        return MeanInterval(value, np.nan, np.nan, n, n_patients, no_interval(n_patients))
    replicates = ratio_replicates(sums[:, None], counts[:, None], rng=rng, n_replicates=n_replicates)
    low, high = percentile_interval(replicates[0], level=level)
    return MeanInterval(value, float(low), float(high), n, n_patients, None)


def no_interval(n_units: int, unit: str = "patients") -> str:
    """Why a known number has no interval."""
    if n_units < FEWEST_FOR_INTERVAL:
        return f"no interval: fewer than {FEWEST_FOR_INTERVAL} {unit}"
    return "no interval: undefined in more than 5% of the resamples"


def not_tested(unit: str = "patients") -> str:
    """Why a difference with an interval has no p-value."""
    return f"not tested: fewer than {FEWEST_FOR_TEST} {unit}"
