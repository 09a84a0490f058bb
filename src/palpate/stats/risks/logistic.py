"""Logistic regression with an offset and weights, and what each patient adds to its estimates.

Newton's method on all rows. The *influence* of a patient is how much an estimate would move if the patient were left
out, in one step: with the leverage of the patient's rows taken into account (the cluster version of HC3, MacKinnon and
White 1985; Bell and McCaffrey 2002). Sums of squares of influences are variances that allow for several rows per
patient, for weights and for a model that is not true; sums of products are covariances of any two estimates on the
same patients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from palpate.stats.inputs import Floats
from palpate.stats.risks import unit_sums

_STEPS, _CLOSE = 40, 1e-9
_FIRST, _LARGE = 20_000, 100_000
"""Of more than `_LARGE` rows, `_FIRST` are fitted first: the fit of all of them starts there."""
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
    shift = np.broadcast_to(np.asarray(offset, np.float64), (n,))
    if not total > 0 or float(weight @ y) in (0.0, total):
        return nothing
    coefficients = _start(design, y, weight, shift)
    loss = _loss(design @ coefficients + shift, y, weight)
    for _ in range(_STEPS):
        fitted = expit(design @ coefficients + shift)
        gradient = design.T @ (weight * (y - fitted))
        information = (design * (weight * fitted * (1.0 - fitted))[:, None]).T @ design
        try:
            bread = np.linalg.inv(information)
        except np.linalg.LinAlgError:
            return nothing
        step = bread @ gradient
        if not np.isfinite(step).all():
            return nothing
        coefficients, loss = _advance(design, y, weight, shift, coefficients, step, loss)
        if float(gradient @ step) < _CLOSE * max(loss, 1e-12):
            return LogisticFit(coefficients, expit(design @ coefficients + shift), bread)
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


def _advance(
    design: Floats, y: Floats, weight: Floats, shift: Floats, start: Floats, step: Floats, loss: float
) -> tuple[Floats, float]:
    """The next coefficients: the whole Newton step, or the first of its halves that does not make things worse."""
    for _ in range(20):
        moved = start + step
        reached = _loss(design @ moved + shift, y, weight)
        if reached <= loss * (1.0 + 1e-12):
            return moved, reached
        step = step / 2.0
    return start, loss


def _loss(predictor: Floats, y: Floats, weight: Floats) -> float:
    return float(weight @ (np.logaddexp(0.0, predictor) - y * predictor))


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
