"""The groups of cases in which a model is measured: strata of the pre-test probability, and prior mentions.

A group has rows of its own for each label (context paper, Section 3.3). What makes a group empty or meaningless for a
label is said as its reason: a pre-test probability with few values (a decision tree) can leave a stratum empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.stats import quantile_strata

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Kind = Literal["whole", "stratum", "mention", "matched", "re-weighted"]
WHOLE, MATCHED, REWEIGHTED = "all", "matched", "re-weighted"
CONSTANT = "the pre-test probability is the same for all cases: it can't divide, match or weight them"
FEW_VALUES = "empty stratum: the pre-test probability has only {n} distinct values"
_FAR_FROM_SHARE = 0.10


class Group(NamedTuple):
    """Some cases, for each label."""

    name: str
    kind: Kind
    rows: Mask
    """[case, label]"""
    reason: tuple[str | None, ...]
    """Why there is nothing to measure for a label."""


class StrataFacts(NamedTuple):
    """What a label's strata look like."""

    n_values: int
    """Distinct pre-test probabilities."""
    edges: tuple[float, ...]
    size: tuple[int, ...]
    uneven: bool
    """Whether the sizes are far from what the quantiles ask for, because equal probabilities stay together."""


def stratum_names(quantiles: Sequence[float]) -> tuple[str, ...]:
    """`bottom 25%`, `middle 50%`, `top 25%`; of more than three, those between by their ends."""
    edges = (0.0, *quantiles, 1.0)
    shares = [percent(high - low) for low, high in pairwise(edges)]
    between = [f"{percent(low)} to {percent(high)}" for low, high in pairwise(edges[1:-1])]
    if len(between) == 1:
        between = [f"middle {shares[1]}"]
    return (f"bottom {shares[0]}", *between, f"top {shares[-1]}")


def percent(share: float, *, digits: int = 1) -> str:
    """`25%`, `0.5%`."""
    return f"{round(100 * share, digits):.12g}%"


def whole(known: Mask, reasons: Sequence[str | None]) -> Group:
    """All cases with a pre-test probability."""
    return Group(WHOLE, "whole", known, tuple(reasons))


def constant_labels(p: Floats, known: Mask) -> Mask:
    """[label] whether the pre-test probability does not vary among the cases that have one."""
    return np.asarray([known[:, j].any() and np.ptp(p[known[:, j], j]) == 0.0 for j in range(p.shape[1])])


def strata(
    p: Floats, known: Mask, reasons: Sequence[str | None], quantiles: Sequence[float]
) -> tuple[list[Group], list[StrataFacts]]:
    """A group for each stratum, and how the strata came out for each label."""
    names = stratum_names(quantiles)
    n, n_labels = p.shape
    masks = np.zeros((len(names), n, n_labels), dtype=bool)
    why: list[list[str | None]] = [list(reasons) for _ in names]
    facts = []
    shares = np.diff((0.0, *quantiles, 1.0))
    same = constant_labels(p, known)
    for j in range(n_labels):
        cut = quantile_strata(np.where(known[:, j], p[:, j], np.nan), quantiles=quantiles)
        n_values = np.unique(p[known[:, j], j]).size
        for k in range(len(names)):
            masks[k, :, j] = (cut.stratum == k) & ~same[j]
            if same[j]:
                why[k][j] = CONSTANT
            elif k in cut.empty and reasons[j] is None and n_values:
                why[k][j] = FEW_VALUES.format(n=n_values)
        found = cut.size / max(1, cut.size.sum())
        uneven = bool(n_values) and float(np.abs(found - shares).max()) > _FAR_FROM_SHARE
        facts.append(StrataFacts(n_values, tuple(map(float, cut.edges)), tuple(map(int, cut.size)), uneven))
    groups = [Group(name, "stratum", masks[k], tuple(why[k])) for k, name in enumerate(names)]
    return groups, facts


def mentions(
    found: NDArray[np.int8], known: Mask, reasons: Sequence[str | None], names: tuple[str, str]
) -> list[Group]:
    """With and without a prior mention; `found` is [case, label]: 1, 0, or -1 where it is not known."""
    why = tuple(
        reason or (None if (found[:, j] >= 0).any() else "no phrases are listed for this label")
        for j, reason in enumerate(reasons)
    )
    return [Group(name, "mention", known & (found == value), why) for name, value in zip(names, (1, 0), strict=True)]
