"""Predicted risks as probabilities: calibration, net benefit and recalibration, with intervals by patient.

core           core_replicates: the core set of many models and labels
intervals      risk_intervals: of what core_replicates gives
smooth         fit_curve  calibration_errors  curve_band: the smooth calibration curve; risk_distribution
net_benefit    net_benefit  benefit_curves
recalibration  fit_map: intercept, slope, isotonic
logistic       fit_logistic  influences

Here: log odds, and patients as the unit of variation. The *influence* of a patient on an estimate is how far the
estimate moves with the patient. Sums of squares of influences are variances that allow for several rows per patient and
for weights; sums of products are covariances.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import Unit
from palpate.stats.inputs import Floats
from palpate.stats.precision import class_units

CLOSEST = 1e-8
"""Risks of 0 and 1 have no odds: they are taken to be this far from 0 and 1."""
MOST_UNITS = 10_000
"""More patients than that are put together at random into that many groups, which vary as much as they do."""


def unit_codes(patient: ArrayLike, unit: Unit, n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], int]:
    """The unit of each row, from 0, and how many there are."""
    code = np.arange(n) if unit == "case" else np.unique(np.asarray(patient), return_inverse=True)[1].astype(np.int64)
    if code.shape != (n,):
        raise ValueError(f"patient has shape {np.shape(patient)}, expected {(n,)}")
    n_units = int(code.max(initial=-1)) + 1
    if n_units <= MOST_UNITS:
        return code, n_units
    return (rng.permutation(n_units) % MOST_UNITS)[code], MOST_UNITS


def rarer_units(y_true: NDArray[np.bool_], patient: ArrayLike, unit: Unit, weight: Floats) -> NDArray[np.int64]:
    """How many units have a row of the rarer outcome that counts, for each label of y_true [row, label]."""
    counted = np.broadcast_to((weight > 0)[:, None], y_true.shape)
    found: NDArray[np.int64] = class_units(y_true.astype(np.uint8), patient, unit, counted).min(axis=0)
    return found


def unit_sums(values: Floats, unit: NDArray[np.int64], n_units: int) -> Floats:
    """Sums over the rows of each unit, [unit, column], of values [row, column]."""
    columns = [np.bincount(unit, weights=column, minlength=n_units) for column in values.T]
    return np.stack(columns, axis=1)


def mean_influences(values: Floats, weight: Floats, unit: NDArray[np.int64], n_units: int) -> tuple[Floats, Floats]:
    """Weighted means of columns, and how far each unit moves them, [unit, column]."""
    total = float(weight.sum())
    means = weight @ values / total
    sums = unit_sums(weight[:, None] * (values - means) / total, unit, n_units)
    return means, sums * np.sqrt(n_units / max(n_units - 1.0, 1.0))


def check_risks(y_true: ArrayLike, y_score: ArrayLike, weight: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
    """Outcomes, risks and weights as arrays of floats; raises ValueError if they don't fit together."""
    positive, score, mass = _inputs.scored(y_true, y_score, weight)
    _inputs.probabilities(score)
    return positive.astype(np.float64), score, mass.astype(np.float64)


def log_odds(risk: Floats) -> Floats:
    """The log odds of risks, with 0 and 1 moved inwards by a hair."""
    return np.asarray(logit(np.clip(risk, CLOSEST, 1.0 - CLOSEST)))
