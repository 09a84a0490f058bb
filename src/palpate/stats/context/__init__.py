"""Statistics where a pre-test probability is known: what is left of the performance when the history is held equal.

This module checks pre-test probabilities and divides rows by their quantiles (context paper, Section 3.3). The paper's
strata are the bottom 25%, the middle 50% and the top 25%. A metric in a stratum, with its interval, is
`bootstrap(..., rows=strata.stratum == k)`; with one integer `rng`, strata can be subtracted replicate by replicate. A
global threshold is found once, on all rows of the data (`threshold_at_specificity`), and passed as `threshold`.

matching and matched_bootstrap   cases of similar pre-test probability (Section 3.4, "Matched Neighbor")
weighting                        weights under which label and context are independent (Section 3.4, Appendix E)
incremental                      what a model adds to the pre-test probability
pretest_model                    the parts of a model that gives pre-test probabilities
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.arguments import Rows
from palpate.stats.inputs import Floats

_ROUNDING = 1e-12


class Strata(NamedTuple):
    """Rows by quantile: stratum 0 is the lowest stratum, -1 a row without a probability (nan).

    Stratum k has the rows with edges[k - 1] < p <= edges[k]. Equal probabilities stay together, so with few distinct
    values the shares differ from the requested ones and strata may be empty: see `size`, and `empty` lists them.
    """

    stratum: NDArray[np.int64]
    edges: Floats
    size: NDArray[np.int64]
    empty: tuple[int, ...]


def quantile_strata(
    p: ArrayLike, *, quantiles: Sequence[float] = (0.25, 0.75), weight: ArrayLike | None = None
) -> Strata:
    """Strata of `p`, [n]; an edge is the least observed value with at least its quantile's share of rows up to it.

    With weights, [n], of their weight; `size` counts rows all the same.
    """
    values = np.asarray(p, np.float64)
    cuts = np.asarray(quantiles, np.float64)
    if values.ndim != 1:
        raise ValueError("p must have one dimension")
    if cuts.ndim != 1 or cuts.size == 0 or bool(np.any((cuts <= 0) | (cuts >= 1))) or bool(np.any(np.diff(cuts) <= 0)):
        raise ValueError("quantiles must lie between 0 and 1, in ascending order")
    known = ~np.isnan(values)
    edges = np.full(cuts.size, np.nan)
    stratum = np.full(values.size, -1, np.int64)
    if bool(known.any()):
        mass = None if weight is None else _inputs.weights(weight, shape=values.shape)[known]
        edges = _edges(values[known], cuts, mass)
        stratum[known] = np.searchsorted(edges, values[known], side="left")
    size = np.bincount(stratum[known], minlength=cuts.size + 1).astype(np.int64)
    return Strata(stratum, edges, size, tuple(int(k) for k in np.flatnonzero(size == 0)))


def _edges(values: Floats, cuts: Floats, mass: Floats | None) -> Floats:
    if mass is None:
        return np.asarray(np.quantile(values, cuts, method="inverted_cdf"))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(mass[order])
    # Sums of weights carry rounding errors.
    at = np.searchsorted(reached, cuts * reached[-1] * (1.0 - _ROUNDING))
    return np.asarray(values[order[np.minimum(at, values.size - 1)]])


def pretest(p: ArrayLike) -> Floats:
    """Pre-test probabilities as float64, if they are finite and in [0, 1]."""
    chance = _inputs.finite(p, name="p")
    if chance.size and not (float(chance.min()) >= 0.0 and float(chance.max()) <= 1.0):
        raise ValueError("p must lie in [0, 1]")
    return chance


def context_of(p_context: ArrayLike, rows: Rows) -> Floats:
    """Checked pre-test probabilities, [n, labels]; rows that are not used may lack one."""
    chance = np.asarray(p_context, np.float64)
    n, n_labels = rows.positive.shape
    if chance.shape == (n,):
        chance = np.broadcast_to(chance[:, None], (n, n_labels))
    if chance.shape != (n, n_labels):
        raise ValueError(f"p_context has shape {chance.shape}, expected {(n,)} or {(n, n_labels)}")
    return pretest(np.where(rows.used, chance, 0.5))
