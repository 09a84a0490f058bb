"""Positives and negatives with similar pre-test probability (context paper, Section 3.4, "Matched Neighbor").

The paper passes the matrix of all distances to `scipy.optimize.linear_sum_assignment`. On a line no matrix is needed:
one walk up the sorted probabilities and one walk back find assignments of the same total cost, in linear time after
the sort. Probabilities are compared in fixed point, with 15 decimals, so sums have no rounding errors.

Ties. Often many choices of rows cost the same: of ten negatives with one probability a pair needs one, and a positive
at 0.5 may take a negative at 0.4 or at 0.6. No one of them is better, and their AUROCs differ. So a row has a share:
the share of all best choices of rows in which it is used, each choice counted once. Metrics on matched rows take the
shares as weights. Neither the order of the rows nor their names matter. Where one class is used up, as without a
caliper, the weighted AUROC is the mean of the AUROCs of all best choices, and so is every metric that is a mean over
rows; other metrics are those of the average matched sample.

Sampling weights do not choose the pairs. A matched row counts by its share times its weight, and both classes for as
much as there are pairs: so each class stands for its population, and half of what is matched is positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from palpate.stats import inputs as _inputs
from palpate.stats.context import pretest
from palpate.stats.discrimination import auroc
from palpate.stats.inputs import Floats, divide

_ONE = 1e15
NO_CALIPER = 2**61  # longer than any distance


class MatchingCells(NamedTuple):
    """Rows of one class at one place belong to one cell; cells are sorted by place, negatives before positives."""

    cell: NDArray[np.int32]  # of each row
    place: NDArray[np.int64]
    positive: NDArray[np.bool_]


class Balance(NamedTuple):
    """How much the distributions of the pre-test probability differ between the classes; nan if a class has no mass.

    `smd` is the difference of the means over the standard deviation of the rows before (the root of the mean of the
    classes' variances), so that before and after are on the same scale. `ks` is the largest distance between the
    distribution functions, `auroc` that of the pre-test probability for the label.
    """

    mean_positive: float
    mean_negative: float
    smd: float
    ks: float
    auroc: float


def matched_share(p: ArrayLike, y_true: ArrayLike, *, caliper: float | None = None) -> Floats:
    """In which share of the best 1:1 matchings of positives and negatives each row is used, [n].

    Best is the least total |p - p'|; the smaller class is used up. With a caliper, a row of the smaller class may be
    left out at the price of the caliper: the sum of the distances plus the caliper times the number of rows left out is
    minimal (Rosenbaum 2012, optimal subset matching). So no pair is farther apart than the caliper, and a row without a
    near partner does not spoil the pairs of others. No rows, or one class: all shares are 0.
    """
    from palpate.stats.kernels import matching as _matching

    chance, positive = pretest(p), _inputs.binary(y_true)
    if chance.ndim != 1 or chance.shape != positive.shape:
        raise ValueError("p and y_true must have one dimension and the same number of rows")
    price, cells = penalty(caliper), cells_of(chance, positive)
    n_cells = cells.place.size
    share = np.zeros(n_cells)
    if n_cells:
        count = np.bincount(cells.cell, minlength=n_cells).astype(np.int32)
        space = _matching.workspace(n_cells, chance.size)
        _matching.choose(count, cells.place, cells.positive, price, space, share)
    return share[cells.cell]


def match_pairs(p: ArrayLike, y_true: ArrayLike, *, caliper: float | None = None) -> NDArray[np.int64]:
    """One best 1:1 matching of positives and negatives, [pair, (positive, negative)] as row numbers.

    As `matched_share`, which is over all best matchings, and which metrics should be computed with; pairs are for
    looking at. Takes time and bits in proportion to the product of the class sizes.

    >>> match_pairs([0.1, 0.5, 0.4, 0.9], [0, 1, 0, 0]).tolist()
    [[1, 2]]
    """
    chance, positive = pretest(p), _inputs.binary(y_true)
    if chance.ndim != 1 or chance.shape != positive.shape:
        raise ValueError("p and y_true must have one dimension and the same number of rows")
    price = np.inf if caliper is None else penalty(caliper) / (2.0 * _ONE)
    order = np.argsort(chance, kind="stable")
    small, large = (order[positive[order] == side] for side in (True, False))
    turned = small.size > large.size
    small, large = (large, small) if turned else (small, large)
    cost = np.zeros(large.size + 1)
    paired = np.zeros((small.size, large.size + 1), np.bool_)
    left_out = np.zeros_like(paired)
    for i, row in enumerate(small):
        with_one = np.append(np.inf, cost[:-1] + np.abs(chance[large] - chance[row]))
        best = np.minimum(with_one, cost + price)
        now = np.minimum.accumulate(best)
        paired[i], left_out[i] = (with_one == now) & (best <= now), (cost + price == now) & (with_one > now)
        cost = now
    pairs, j = [], large.size
    for i in range(small.size - 1, -1, -1):
        while not (paired[i, j] or left_out[i, j]):
            j -= 1
        if paired[i, j]:
            j -= 1
            pairs.append((small[i], large[j]))
    found = np.asarray(pairs[::-1], np.int64).reshape(-1, 2)
    return found[:, ::-1] if turned else found


def cells_of(p: Floats, positive: NDArray[np.bool_]) -> MatchingCells:
    """The cells of rows; a place is twice the number of 1e-15 in p, so that distances are even."""
    place = np.rint(p * _ONE).astype(np.int64) * 2
    order = np.lexsort((positive, place))
    place, positive = place[order], positive[order]
    new = np.append(True, (np.diff(place) > 0) | (positive[1:] != positive[:-1]))[: place.size]
    cell = np.empty(place.size, np.int32)
    cell[order] = np.cumsum(new) - 1
    return MatchingCells(cell, place[new], positive[new])


def balance(
    p: ArrayLike, y_true: ArrayLike, *, weight: ArrayLike | None = None, before: ArrayLike | None = None
) -> Balance:
    """How much the distributions of `p` differ between positives and negatives.

    After matching, `weight` is `matched_share`; after re-weighting, it is the weights. `before` are sampling weights:
    the standard deviation takes them into account too.
    """
    rows = _inputs.scored(y_true, pretest(p), weight)
    positive, chance, mass = rows.positive, rows.score, rows.mass
    n_positive, n_negative = float(mass[positive].sum()), float(mass[~positive].sum())
    if not (n_positive > 0 and n_negative > 0):
        return Balance(*[float("nan")] * 5)
    means = [divide(float(np.sum(mass[c] * chance[c])), float(mass[c].sum())) for c in (positive, ~positive)]
    # The computed variance of equal numbers is not always 0, because their mean is rounded.
    drawn = None if before is None else _inputs.weights(before, shape=chance.shape)
    varies = [
        _variance(chance[c], None if drawn is None else drawn[c]) if np.ptp(chance[c]) > 0 else 0.0
        for c in (positive, ~positive)
    ]
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


def _variance(values: Floats, weight: Floats | None) -> float:
    if weight is None:
        return float(values.var())
    middle = np.average(values, weights=weight)
    return float(np.average((values - middle) ** 2, weights=weight))


def penalty(caliper: float | None) -> int:
    """The price of leaving out a row of the smaller class: odd, so that a pair as far apart as the caliper is made."""
    if caliper is None:
        return NO_CALIPER
    if not 0.0 <= caliper <= 1.0:
        raise ValueError(f"caliper must lie in [0, 1], not {caliper}")
    return 2 * int(np.rint(caliper * _ONE)) + 1
