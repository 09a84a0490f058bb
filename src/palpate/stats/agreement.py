"""Agreement between annotators and between rankings (evidence paper, Section 3.4 and Table 2).

Krippendorff's (2004) alpha, Fleiss' (1971) kappa, Hooper's (1965) indexing consistency and Kendall's W. The result is
nan if agreement by chance is already complete, so that there is nothing to correct for.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from palpate.stats.inputs import Floats, divide, finite
from palpate.stats.ranks import average_ranks

Level = Literal["nominal", "ordinal", "interval"]


def kendall_w(ratings: ArrayLike) -> float:
    """Kendall's W of [raters, items], corrected for ties; nan if no rater distinguishes the items."""
    table = finite(ratings, name="ratings")
    if table.ndim != 2:
        raise ValueError("ratings must be [raters, items]")
    n_raters, n_items = table.shape
    if n_raters == 0 or n_items < 2:
        return float("nan")
    totals = np.sum([average_ranks(row) for row in table], axis=0)
    ties = 0.0
    for row in table:
        counts = np.unique(row, return_counts=True)[1].astype(np.float64)
        ties += float(np.sum(counts**3 - counts))
    spread = float(np.sum((totals - totals.mean()) ** 2))
    return divide(12.0 * spread, n_raters**2 * (n_items**3 - n_items) - n_raters * ties)


def _distances(values: Floats, totals: Floats, level: Level) -> Floats:
    """Squared distances between all pairs of values; `totals` is how often each value occurs."""
    if level == "nominal":
        return 1.0 - np.eye(values.size)
    if level == "interval":
        return np.asarray((values[:, None] - values[None, :]) ** 2)
    if level == "ordinal":
        middle = np.cumsum(totals) - totals / 2.0
        return np.asarray((middle[:, None] - middle[None, :]) ** 2)
    raise ValueError(f"unknown level {level!r}; the levels are nominal, ordinal, interval")


def krippendorff_alpha(data: ArrayLike, *, level: Level = "nominal", weight: ArrayLike | None = None) -> float:
    """Krippendorff's alpha of [raters, units], where nan is a missing rating; nan if all ratings are equal.

    `weight` is how many units each column stands for.
    """
    table = np.asarray(data, np.float64)
    if table.ndim != 2:
        raise ValueError("data must be [raters, units]")
    times = _repeats(weight, table.shape[1])
    table, times = table[:, times > 0], times[times > 0, None]
    values = np.unique(table[~np.isnan(table)])
    if values.size == 0:
        return float("nan")
    counts = np.stack([(table == value).sum(axis=0) for value in values], axis=1).astype(np.float64)
    paired = counts.sum(axis=1) >= 2
    if not paired.any():
        return float("nan")
    counts, times = counts[paired], times[paired]
    shares = times * counts / (counts.sum(axis=1, keepdims=True) - 1.0)
    coincidences = shares.T @ counts - np.diag(shares.sum(axis=0))
    totals = (times * counts).sum(axis=0)
    distances = _distances(values, totals, level)
    observed = float(np.sum(coincidences * distances))
    expected = float(np.sum(np.outer(totals, totals) * distances)) / (float(totals.sum()) - 1.0)
    return 1.0 - divide(observed, expected)


def _repeats(weight: ArrayLike | None, n_units: int) -> Floats:
    if weight is None:
        return np.ones(n_units)
    times = finite(weight, name="weight")
    if times.shape != (n_units,) or bool(np.any(times < 0)):
        raise ValueError("weight must have a number of at least 0 for each unit")
    return times


def fleiss_kappa(counts: ArrayLike, *, weight: ArrayLike | None = None) -> float:
    """Fleiss' kappa of [units, categories] counts of raters; nan if all of them chose one category.

    `weight` is how many units each row stands for.
    """
    table = finite(counts, name="counts")
    if table.ndim != 2 or table.size == 0:
        raise ValueError("counts must be [units, categories] with at least one of each")
    raters = table.sum(axis=1)
    if bool(np.any(table < 0)) or bool(np.any(raters != raters[0])) or raters[0] < 2:
        raise ValueError("counts must not be negative, and every unit needs the same number of raters, at least two")
    n, times = float(raters[0]), _repeats(weight, table.shape[0])
    if not times.any():
        return float("nan")
    observed = float(np.average((np.sum(table**2, axis=1) - n) / (n * (n - 1.0)), weights=times))
    expected = float(np.sum((times @ table / float(times @ raters)) ** 2))
    return divide(observed - expected, 1.0 - expected)


def hooper_consistency(annotations: Sequence[Iterable[Hashable]]) -> float:
    """Hooper's indexing consistency: the number of terms that two annotators share over the number that either used.

    `annotations` has one collection of terms per annotator; for more than two annotators it is the mean over pairs. A
    pair in which neither used a term is undefined and left out; nan if no pair is left.
    """
    terms = [frozenset(annotation) for annotation in annotations]
    if len(terms) < 2:
        raise ValueError("annotations must come from at least two annotators")
    pairs = [divide(len(a & b), len(a | b)) for a, b in itertools.combinations(terms, 2)]
    defined = [value for value in pairs if value == value]
    return divide(sum(defined), len(defined))
