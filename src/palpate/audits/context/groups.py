"""The groups of cases in which a model is measured: strata of the pre-test probability, and prior mentions.

A group has its own rows for each label (context paper, Section 3.3). What makes a group empty or meaningless for a
label is its reason: a pre-test probability with few values (from a decision tree) can leave a stratum empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.plan import KnownHistory, MentionRule
from palpate.perturb.mentions import find_mentions
from palpate.results import Plan
from palpate.stats import quantile_strata

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
WHOLE, MATCHED, REWEIGHTED = "all", "matched", "re-weighted"
PRETEST = "pre-test probability"
"""The name of the history alone, as a model and as what models are compared with."""
MENTIONED = ("prior mention", "no prior mention")
FOUND = ("found before", "not found before")
CONSTANT = "the pre-test probability is the same for all cases, so it can't divide, match or weight them"
FEW_VALUES = "empty stratum: the pre-test probability has only {n} distinct values"
_FAR_FROM_SHARE = 0.10


class CaseGroup(NamedTuple):
    """Some cases, for each label."""

    name: str
    kind: Literal["whole", "stratum", "mention"]
    rows: Mask
    """[case, label]"""
    reason: tuple[str | None, ...]
    """Why there is nothing to measure for a label."""


class LabelStrata(NamedTuple):
    """How the strata of one label turned out."""

    n_values: int
    """Distinct pre-test probabilities."""
    size: tuple[int, ...]
    uneven: bool
    """Whether the sizes are far from what the quantiles ask for, because equal probabilities stay together."""


def case_groups(
    plan: Plan[KnownHistory],
    p: Floats,
    known: Mask,
    reasons: tuple[str | None, ...],
    *,
    quantiles: Sequence[float],
    mentions: MentionRule,
    phrases: Mapping[str, tuple[str, ...]],
    weight: Floats | None = None,
) -> tuple[list[CaseGroup], list[LabelStrata]]:
    """All cases, the strata, and those with and without a prior mention; and how the strata of each label turned out.

    `p` and `known`, [case, label], are the pre-test probabilities and where there are any; `reasons` say why a label
    has none.
    """
    strata, sizes = strata_groups(p, known, reasons, quantiles, weight)
    return [
        CaseGroup(WHOLE, "whole", known, reasons),
        *strata,
        *_mentions(plan, known, reasons, mentions, phrases),
    ], sizes


def stratum_names(quantiles: Sequence[float]) -> tuple[str, ...]:
    """`bottom 25%`, `middle 50%`, `top 25%`; with more than three, those between are named by their ends."""
    edges = (0.0, *quantiles, 1.0)
    shares = [share_name(high - low) for low, high in pairwise(edges)]
    between = [f"{share_name(low)} to {share_name(high)}" for low, high in pairwise(edges[1:-1])]
    if len(between) == 1:
        between = [f"middle {shares[1]}"]
    return (f"bottom {shares[0]}", *between, f"top {shares[-1]}")


def share_name(share: float, *, digits: int = 1) -> str:
    """A share in the name of a group: `25%`, `0.5%`."""
    return f"{round(100 * share, digits):.12g}%"


def constant_labels(p: Floats, known: Mask) -> Mask:
    """[label] whether the pre-test probability does not vary among the cases that have one."""
    return np.asarray([known[:, j].any() and np.ptp(p[known[:, j], j]) == 0.0 for j in range(p.shape[1])])


def strata_groups(
    p: Floats,
    known: Mask,
    reasons: Sequence[str | None],
    quantiles: Sequence[float],
    weight: Floats | None = None,
) -> tuple[list[CaseGroup], list[LabelStrata]]:
    """The strata, and how those of each label turned out; with sampling weights they hold shares of the weight."""
    names = stratum_names(quantiles)
    masks = np.zeros((len(names), *p.shape), dtype=bool)
    why: list[list[str | None]] = [list(reasons) for _ in names]
    sizes = []
    shares = np.diff((0.0, *quantiles, 1.0))
    same = constant_labels(p, known)
    for j in range(p.shape[1]):
        cut = quantile_strata(np.where(known[:, j], p[:, j], np.nan), quantiles=quantiles, weight=weight)
        n_values = np.unique(p[known[:, j], j]).size
        for k in range(len(names)):
            masks[k, :, j] = (cut.stratum == k) & ~same[j]
            if same[j]:
                why[k][j] = CONSTANT
            elif k in cut.empty and reasons[j] is None and n_values:
                why[k][j] = FEW_VALUES.format(n=n_values)
        mass = np.bincount(cut.stratum[known[:, j]], None if weight is None else weight[known[:, j]], len(names))
        found = mass / max(1e-300, mass.sum())
        uneven = bool(n_values) and float(np.abs(found - shares).max()) > _FAR_FROM_SHARE
        sizes.append(LabelStrata(n_values, tuple(map(int, cut.size)), uneven))
    return [CaseGroup(name, "stratum", masks[k], tuple(why[k])) for k, name in enumerate(names)], sizes


def _mentions(
    plan: Plan[KnownHistory],
    known: Mask,
    reasons: Sequence[str | None],
    rule: MentionRule,
    phrases: Mapping[str, tuple[str, ...]],
) -> list[CaseGroup]:
    """With and without a prior mention (a phrase in earlier notes), or an earlier case that has the label."""
    past, rows = plan.memory.past, plan.variants.parent
    if rule == "auto":
        rule = "substring" if "prior" in plan.cohort.cases.columns else "none" if past is None else "earlier"
    if rule == "substring" or rule == "affirmed":
        notes = plan.cohort.cases["prior"].gather(rows).to_list()
        found, names = find_mentions(notes, plan.labels, rule=rule, phrases=phrases), MENTIONED
    elif rule == "earlier" and past is not None:
        has_past = past.n[rows] > 0
        found, names = np.where(has_past[:, None], past.ever[rows], -1).astype(np.int8), FOUND
    else:
        return []
    # In `found`, -1 is not known: no phrase is listed for the label, or the patient has no earlier case.
    why = tuple(
        reason or (None if (found[:, j] >= 0).any() else "no phrases are listed for this label")
        for j, reason in enumerate(reasons)
    )
    return [
        CaseGroup(name, "mention", known & (found == value), why) for name, value in zip(names, (1, 0), strict=True)
    ]
