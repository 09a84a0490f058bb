"""Pairs of a positive and a negative with similar pre-test probability (context paper, Section 3.4, "Matched
Neighbor").

The paper passes the matrix of all distances to `scipy.optimize.linear_sum_assignment`. On a line no matrix is needed:
one walk up the sorted probabilities and one walk back find an assignment of the same total cost, in linear time after
the sort. Probabilities are compared in fixed point, as multiples of 2**-59, so sums have no rounding errors.

Tie rule. If several choices of rows cost the same, rows are decided from the last to the first in the order of (p,
negatives before positives, tie_break, row): a row of the larger class is left out if some best choice leaves it out, a
row of the smaller class is used if some best choice uses it. So in the larger class the lower p wins, and among equal p
the first row. How many rows of each class are used at each value of p does not depend on the order of the rows; which
rows of one class and one p are used does, and so does the AUROC. Pass a `tie_break` that belongs to the case (a hash of
its identifier) to be independent of the row order. If both classes have the same size, the positives count as the
smaller one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.context import pretest
from palpate.stats.discrimination import auroc
from palpate.stats.inputs import Floats, divide

_ONE = 2.0**59
NO_CALIPER = 2**61  # longer than any distance


class MatchedPairs(NamedTuple):
    """Row numbers: positives[i] is paired with negatives[i]; pairs are in the order of their probabilities."""

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]


class Balance(NamedTuple):
    """How much the distributions of the pre-test probability differ between the classes; nan if a class has no mass.

    `smd` is the difference of the means over the standard deviation of the unweighted rows (the root of the mean of the
    classes' variances), so that before and after are on the same scale. `ks` is the largest distance between the
    distribution functions, `auroc` that of the pre-test probability for the label.
    """

    mean_positive: float
    mean_negative: float
    smd: float
    ks: float
    auroc: float


def match_pairs(
    p: ArrayLike, y_true: ArrayLike, *, caliper: float | None = None, tie_break: ArrayLike | None = None
) -> MatchedPairs:
    """The 1:1 matching of positives and negatives with the least total |p - p'|; the smaller class is used up.

    With a caliper, a row of the smaller class may be left out at the price of the caliper: the sum of the distances
    plus the caliper times the number of rows left out is minimal (Rosenbaum 2012, optimal subset matching). So no pair
    is farther apart than the caliper, and a row without a near partner does not spoil the pairs of others.

    `tie_break`, [n], orders rows with the same p; their row number comes after it. No rows, or one class: no pairs.
    """
    from palpate.stats.kernels import matching as _matching

    chance, positive = pretest(p), _inputs.binary(y_true)
    if chance.ndim != 1 or chance.shape != positive.shape:
        raise ValueError("p and y_true must have one dimension and the same number of rows")
    order = match_order(chance, positive, tie_break)
    used = np.zeros(chance.size, np.int32)
    if chance.size:
        space = _matching.workspace(chance.size, chance.size)
        ones = np.ones(chance.size, np.int32)
        _matching.choose(ones, fixed_point(chance[order]), positive[order], penalty(caliper), space, used)
    chosen = order[used > 0]
    return MatchedPairs(chosen[positive[chosen]], chosen[~positive[chosen]])


def balance(p: ArrayLike, y_true: ArrayLike, *, weight: ArrayLike | None = None) -> Balance:
    """How much the distributions of `p` differ between positives and negatives.

    After matching, `weight` is 1 for matched rows and 0 for the others; after re-weighting, it is the weights.
    """
    rows = _inputs.scored(y_true, pretest(p), weight)
    positive, chance, mass = rows.positive, rows.score, rows.mass
    n_positive, n_negative = float(mass[positive].sum()), float(mass[~positive].sum())
    if not (n_positive > 0 and n_negative > 0):
        return Balance(*[float("nan")] * 5)
    means = [divide(float(np.sum(mass[c] * chance[c])), float(mass[c].sum())) for c in (positive, ~positive)]
    # The computed variance of equal numbers is not always 0, because their mean is rounded.
    varies = [float(chance[c].var()) if np.ptp(chance[c]) > 0 else 0.0 for c in (positive, ~positive)]
    spread = float(np.sqrt(sum(varies) / 2.0))
    order = np.argsort(chance, kind="stable")
    ahead = np.cumsum(np.where(positive, mass / n_positive, -mass / n_negative)[order])
    last = np.append(np.diff(chance[order]) > 0, True)
    return Balance(
        mean_positive=means[0],
        mean_negative=means[1],
        smd=divide(means[0] - means[1], spread),
        ks=float(np.abs(ahead[last]).max()),
        auroc=auroc(y_true, chance, weight=weight),
    )


def match_order(p: Floats, positive: NDArray[np.bool_], tie_break: ArrayLike | None) -> NDArray[np.int64]:
    """Row numbers by p, then class, then tie_break, then row."""
    if tie_break is None:
        return np.lexsort((positive, p))
    key: NDArray[Any] = np.asarray(tie_break)
    if key.shape != p.shape:
        raise ValueError(f"tie_break has shape {key.shape}, expected {p.shape}")
    return np.lexsort((key, positive, p))


def fixed_point(p: Floats) -> NDArray[np.int64]:
    """Places of the probabilities: twice their multiples of 2**-59, so that distances are even."""
    return np.rint(p * _ONE).astype(np.int64) * 2


def penalty(caliper: float | None) -> int:
    """The price of leaving out a row of the smaller class: odd, so that a pair as far apart as the caliper is made."""
    if caliper is None:
        return NO_CALIPER
    if not 0.0 <= caliper <= 1.0:
        raise ValueError(f"caliper must lie in [0, 1], not {caliper}")
    return 2 * int(np.rint(caliper * _ONE)) + 1
