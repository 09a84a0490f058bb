"""The metrics that the bootstrap can compute, and the checks that bring its arguments into one shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.inputs import Floats

Unit = Literal["patient", "case"]

# In the order of the values that `kernels.walks.evaluate` fills in.
METRICS = (
    "auroc",
    "auprc",
    "brier",
    "brier_skill_score",
    "adaptive_calibration_error",
    "sensitivity_at_specificity",
    "sensitivity",
    "specificity",
    "ppv",
    "npv",
    "precision_0",
    "recall_0",
    "f1_0",
    "precision_1",
    "recall_1",
    "f1_1",
    "prevalence",
    "mean_score",
)
NOISE = "calibration_noise"
"""For replicates only: the mean distance between a replicate's calibration gaps and the data's (`error_interval`)."""
GAPS = "gaps"
"""Not a metric: observed minus predicted rate in each bin of the calibration error, from high scores to low."""
THRESHOLD_METRICS = METRICS[6:16]
_PROBABILITY_METRICS = METRICS[2:5]


def value_columns(names: Sequence[str], n_bins: int) -> NDArray[np.int64]:
    """Where `kernels.walks.evaluate` stores these metrics; noise and gaps follow the last metric."""
    first = len(METRICS) + 1
    others = {NOISE: range(len(METRICS), first), GAPS: range(first, first + n_bins)}
    columns = [column for name in names for column in others.get(name) or (METRICS.index(name),)]
    return np.asarray(columns, np.int64)


class Rows(NamedTuple):
    """Checked input of the bootstrap; the trailing axis is always the label."""

    positive: NDArray[np.bool_]  # [n, labels]
    score: Floats  # [models, n, labels]
    threshold: Floats  # [models, labels], nan without a threshold
    used: NDArray[np.bool_]  # [n, labels]
    weight: Floats | None  # [n, labels]
    unit: NDArray[np.uint32]  # [n, labels]: the resampling unit of each row
    sizes: NDArray[np.int64]  # [labels, strata]
    draws: NDArray[np.int64]  # [labels, strata]: how many are drawn; by default as many as there are
    shared: bool  # one draw serves all labels
    orders: dict[int, NDArray[np.int64]] | None
    """By model, all rows from high score to low, sorted once for groups of cases that stand in place of labels; None
    where labels have scores of their own."""

    def ranked(self, model: int, label: int) -> NDArray[np.int64]:
        """The used rows of a label from high score to low, equal ones in their order."""
        score, used = self.score[model, :, label], self.used[:, label]
        if self.orders is None:
            at = np.flatnonzero(used)
            return at[np.argsort(-score[at], kind="stable")]
        if model not in self.orders:
            self.orders[model] = np.argsort(-score, kind="stable")
        order = self.orders[model]
        return order[used[order]]


def check_rows(
    y_true: ArrayLike,
    y_score: ArrayLike,
    metrics: tuple[str, ...],
    *,
    threshold: ArrayLike | None,
    unit: Unit,
    patient: ArrayLike | None,
    rows: ArrayLike | None,
    weight: ArrayLike | None,
) -> Rows:
    """The arguments of the bootstrap in one shape; raises ValueError if they don't fit together."""
    positive, score = _inputs.binary(y_true), _inputs.finite(y_score, name="y_score")
    if positive.ndim == 1:
        positive = positive[:, None]
        score = score[..., None] if score.ndim == 1 or score.shape[-1] != 1 else score
    score = score[None] if score.ndim == 2 else score
    if positive.ndim != 2 or score.ndim != 3 or score.shape[1:] != positive.shape:
        raise ValueError(f"y_score has shape {np.shape(y_score)}, but y_true has {np.shape(y_true)}")
    if positive.size == 0 or score.shape[0] == 0:
        raise ValueError("y_true and y_score must have at least one row, one label and one model")
    if any(name in (*_PROBABILITY_METRICS, NOISE) for name in metrics):
        _inputs.probabilities(score)
    used = np.ones(len(positive), np.bool_) if rows is None else _inputs.binary(rows, name="rows")
    weights = None
    if weight is not None:
        weights = _per_label(_inputs.weights(weight, shape=np.shape(weight)), positive.shape, name="weight")
    codes, sizes = resampling_units(unit, patient, positive)
    return Rows(
        positive=positive,
        score=score,
        threshold=_thresholds(threshold, metrics, (score.shape[0], positive.shape[1])),
        used=_per_label(used, positive.shape, name="rows"),
        weight=weights,
        unit=codes,
        sizes=sizes,
        draws=sizes,
        shared=unit == "patient",
        orders={} if score.shape[2] > 1 and score.strides[2] == 0 else None,
    )


def _per_label(values: NDArray[Any], shape: tuple[int, ...], *, name: str) -> NDArray[Any]:
    if values.shape == shape[:1]:
        return np.broadcast_to(values[:, None], shape)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, expected {shape[:1]} or {shape}")
    return values


def _thresholds(threshold: ArrayLike | None, metrics: tuple[str, ...], shape: tuple[int, int]) -> NDArray[np.float64]:
    if threshold is None:
        needing = [name for name in metrics if name in THRESHOLD_METRICS]
        if needing:
            raise ValueError(f"{needing[0]} needs a threshold")
        return np.full(shape, np.nan)
    numbers = np.asarray(threshold, np.float64)
    if numbers.shape not in ((), shape[1:], shape):
        raise ValueError(f"threshold has shape {numbers.shape}, expected a number, {shape[1:]} or {shape}")
    return np.broadcast_to(numbers, shape)


def resampling_units(
    unit: Unit, patient: ArrayLike | None, positive: NDArray[np.bool_]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The resampling unit of every row and the sizes of the strata, for each label."""
    n, n_labels = positive.shape
    if unit == "patient":
        if patient is None:
            raise ValueError('unit="patient" needs patient, one per row')
        codes, n_patients = _patient_codes(patient, n)
        return np.broadcast_to(codes[:, None], positive.shape), np.full((n_labels, 1), n_patients, np.int64)
    if unit != "case":
        raise ValueError(f'unit must be "patient" or "case", not {unit!r}')
    n_positive = positive.sum(axis=0)
    among_positive = np.cumsum(positive, axis=0) - 1
    among_negative = np.cumsum(~positive, axis=0) - 1 + n_positive
    codes = np.where(positive, among_positive, among_negative).astype(np.uint32)
    return codes, np.stack([n_positive, n - n_positive], axis=1).astype(np.int64)


def _patient_codes(patient: ArrayLike, n: int) -> tuple[NDArray[np.uint32], int]:
    ids = np.asarray(patient)
    if ids.shape != (n,):
        raise ValueError(f"patient has shape {ids.shape}, expected {(n,)}")
    if ids.dtype.kind == "O":
        # Python objects need not have an order, so they are numbered in order of appearance.
        if any(value is None or value != value for value in ids):
            raise ValueError("patient must not be missing")
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(value, len(numbers)) for value in ids], np.uint32)
        return codes, len(numbers)
    if ids.dtype.kind == "f" and bool(np.any(np.isnan(ids))):
        raise ValueError("patient must not be missing")
    known, inverse = np.unique(ids, return_inverse=True)
    return inverse.astype(np.uint32), int(known.size)
