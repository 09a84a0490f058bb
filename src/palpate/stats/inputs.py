"""Checks of what callers pass to the statistics; each failure is a `ValueError` of one sentence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Masses = NDArray[np.int64] | NDArray[np.float64]


class ScoredRows(NamedTuple):
    """Checked rows; `mass` is integer 1 without weights, so sums stay exact."""

    positive: NDArray[np.bool_]
    score: Floats
    mass: Masses


def binary(y_true: ArrayLike, *, name: str = "y_true") -> NDArray[np.bool_]:
    """The array as booleans, if it contains only 0 and 1."""
    values = np.asarray(y_true)
    if values.dtype == np.bool_:
        return values
    if values.dtype == np.uint8:  # what cohorts hold; a copy as floats would be eight times as large
        if bool(np.any(values > 1)):
            raise ValueError(f"{name} must contain only 0 and 1")
        return np.asarray(values == 1)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must contain only 0 and 1") from None
    positive = numbers == 1.0
    if not bool(np.all(positive | (numbers == 0.0))):
        raise ValueError(f"{name} must contain only 0 and 1")
    return np.asarray(positive)


def finite(values: ArrayLike, *, name: str) -> Floats:
    """The array as float64, if no value is NaN or infinite."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must contain numbers") from None
    if not bool(np.all(np.isfinite(numbers))):
        raise ValueError(f"{name} must contain only finite numbers; it has NaN or infinity")
    return numbers


def weights(weight: ArrayLike, *, shape: tuple[int, ...]) -> Floats:
    """The weights as float64, if they are finite, not negative and of this shape."""
    numbers = finite(weight, name="weight")
    if numbers.shape != shape:
        raise ValueError(f"weight has shape {numbers.shape}, expected {shape}")
    if bool(np.any(numbers < 0)):
        raise ValueError("weight must not be negative")
    return numbers


def probabilities(scores: Floats) -> None:
    """Raise unless every score is in [0, 1]: calibration is about probabilities."""
    if scores.size and (float(scores.min()) < 0.0 or float(scores.max()) > 1.0):
        raise ValueError("y_score must lie in [0, 1] for a calibration metric")


def fraction(value: float, *, name: str) -> float:
    """The value, if it lies in [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], not {value}")
    return float(value)


def scored(y_true: ArrayLike, y_score: ArrayLike, weight: ArrayLike | None) -> ScoredRows:
    """Checked one-dimensional rows for one label of one model."""
    positive = binary(y_true)
    score = finite(y_score, name="y_score")
    if positive.ndim != 1 or score.ndim != 1:
        raise ValueError("y_true and y_score must have one dimension")
    if positive.shape != score.shape:
        raise ValueError(f"y_true has {positive.size} rows but y_score has {score.size}")
    if weight is None:
        return ScoredRows(positive, score, np.ones(score.size, np.int64))
    return ScoredRows(positive, score, weights(weight, shape=score.shape))


def divide(numerator: float, denominator: float) -> float:
    """The quotient; nan if the denominator is 0."""
    return float(numerator / denominator) if denominator > 0 else float("nan")
