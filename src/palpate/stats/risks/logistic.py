"""Logistic regression with an offset and weights, and what each patient adds to its estimates.

Newton's method on all rows. The *influence* of a patient is how much an estimate would move if the patient were left
out, in one step: with the leverage of the patient's rows taken into account (the cluster version of HC3, MacKinnon and
White 1985; Bell and McCaffrey 2002). Sums of squares of influences are variances that allow for several rows per
patient, for weights and for a model that is not true; sums of products are covariances of any two estimates on the
same patients.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palpate.compiled import njit
from palpate.stats.inputs import Floats
from palpate.stats.risks import unit_sums

_STEPS, _CLOSE = 40, 1e-9
_FIRST, _LARGE = 4_000, 20_000
"""Of more than `_LARGE` rows, about `_FIRST` are fitted first: the fit of all of them starts there."""
_AT_ONCE = 4_096
"""Rows are summed in blocks, so that sums of millions of them keep their digits."""
_MOST_LEVERAGE, _MANY = 0.9, 5_000


class LogisticFit(NamedTuple):
    """Coefficients and fitted risks; nan where there is no finite solution (outcomes that are separated)."""

    coefficients: Floats
    fitted: Floats
    """[row]"""
    bread: Floats
    """The inverse of the information matrix."""

    @property
    def known(self) -> bool:
        """Whether there is a solution."""
        return bool(np.isfinite(self.coefficients).all())


def fit_logistic(design: Floats, y: Floats, weight: Floats, offset: Floats | float = 0.0) -> LogisticFit:
    """The maximum-likelihood coefficients of `design` [row, term] for outcomes 0 and 1."""
    n, k = design.shape
    nothing = LogisticFit(np.full(k, np.nan), np.full(n, np.nan), np.full((k, k), np.nan))
    total = float(weight.sum())
    if not total > 0 or float(weight @ y) in (0.0, total):
        return nothing
    shift = np.zeros(n) + offset
    rows, y, weight = (np.ascontiguousarray(each, np.float64) for each in (design, y, weight))  # compiled for these
    coefficients = _start(rows, y, weight, shift)
    here = _Slopes.at(rows, y, weight, shift, coefficients)
    for _ in range(_STEPS):
        try:
            bread = np.asarray(np.linalg.inv(here.information), np.float64)
        except np.linalg.LinAlgError:
            return nothing
        step = bread @ here.gradient
        if not np.isfinite(step).all():
            return nothing
        gain = float(here.gradient @ step)
        coefficients, here = _advance(rows, y, weight, shift, coefficients, step, here)
        if gain < _CLOSE * max(here.loss, 1e-12):
            return LogisticFit(coefficients, expit(rows @ coefficients + shift), bread)
    return nothing


def _start(design: Floats, y: Floats, weight: Floats, shift: Floats) -> Floats:
    """Where Newton's method starts: at the solution of a part of the rows, where there are many."""
    n, k = design.shape
    if n > _LARGE:
        some = slice(None, None, n // _FIRST)
        first = fit_logistic(design[some], y[some], weight[some], shift[some])
        if first.known:
            return first.coefficients
    return np.zeros(k)


class _Slopes(NamedTuple):
    """The loss at some coefficients, its gradient (downwards) and the information."""

    loss: float
    gradient: Floats
    information: Floats

    @classmethod
    def at(cls, rows: Floats, y: Floats, weight: Floats, shift: Floats, coefficients: Floats) -> _Slopes:
        """Over all rows, [row, term]."""
        return cls(*logistic_slopes(rows, y, weight, shift, coefficients))


def _advance(
    rows: Floats, y: Floats, weight: Floats, shift: Floats, start: Floats, step: Floats, here: _Slopes
) -> tuple[Floats, _Slopes]:
    """The next coefficients: the whole Newton step, or the first of its halves that does not make things worse."""
    for _ in range(20):
        moved = start + step
        reached = _Slopes.at(rows, y, weight, shift, moved)
        if reached.loss <= here.loss * (1.0 + 1e-12):
            return moved, reached
        step = step / 2.0
    return start, here


# Compiled, and without BLAS, whose threads cost more than they gain on a few columns.
@njit(cache=True, nogil=True)
def _add_block(x: Any, y: Any, weight: Any, shift: Any, at: Any, first: Any, last: Any, slope: Any, bend: Any) -> Any:
    """Add the rows from `first` to `last` - 1 to the gradient and the information; returns their loss."""
    k = x.shape[1]
    loss = 0.0
    for i in range(first, last):
        predictor = shift[i]
        for a in range(k):
            predictor += at[a] * x[i, a]
        small = math.exp(-abs(predictor))
        fitted = (1.0 if predictor >= 0 else small) / (1.0 + small)
        loss += weight[i] * (max(predictor, 0.0) + math.log1p(small) - y[i] * predictor)
        off, spread = weight[i] * (y[i] - fitted), weight[i] * fitted * (1.0 - fitted)
        for a in range(k):
            slope[a] += off * x[i, a]
            for b in range(a + 1):
                bend[a, b] += spread * x[i, a] * x[i, b]
    return loss


@njit(cache=True, nogil=True)
def logistic_slopes(x: Any, y: Any, weight: Any, shift: Any, at: Any) -> Any:
    """Loss, gradient (downwards) and information of outcomes y at coefficients `at`; x is [row, term]."""
    n, k = x.shape
    loss, gradient, information = 0.0, np.zeros(k), np.zeros((k, k))
    for first in range(0, n, _AT_ONCE):
        slope, bend = np.zeros(k), np.zeros((k, k))
        loss += _add_block(x, y, weight, shift, at, first, min(first + _AT_ONCE, n), slope, bend)
        gradient += slope
        information += bend
    for a in range(k):
        for b in range(a):
            information[b, a] = information[a, b]
    return loss, gradient, information


def influences(
    fit: LogisticFit, design: Floats, y: Floats, weight: Floats, unit: NDArray[np.int64], n_units: int
) -> Floats:
    """How much each unit (patient) moves each coefficient, [unit, term]."""
    score = unit_sums(design * (weight * (y - fit.fitted))[:, None], unit, n_units)
    if n_units >= _MANY:  # nobody has much leverage
        return np.asarray(score @ fit.bread)
    k = design.shape[1]
    spread = weight * fit.fitted * (1.0 - fit.fitted)
    products = np.stack([design[:, a] * design[:, b] * spread for a in range(k) for b in range(k)], axis=1)
    leverage = unit_sums(products, unit, n_units).reshape(-1, k, k) @ fit.bread
    # A patient with nearly all of the information can't be left out; its leverage is cut off.
    scale = np.minimum(1.0, _MOST_LEVERAGE / np.maximum(np.trace(leverage, axis1=1, axis2=2), 1e-300))
    rest = np.eye(k) - leverage * scale[:, None, None]
    return np.asarray(np.linalg.solve(rest, score[:, :, None])[:, :, 0] @ fit.bread)
