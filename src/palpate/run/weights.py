"""Sampling weights: every audit's section says whether its numbers use them, and what they cost.

An audit that weighs its cases says so by an empty `unweighted_because` (and by `weighted_except`, which numbers it does
not weigh); any other says there why it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.results import Audit, AuditResult, Finding, Plan

_SMALL_SHARE = 0.1
"""Weights that leave a smaller share of the cases' precision are worth a warning."""
_BECAUSE = "its numbers are about the sampled cases"


def with_weights(
    results: Sequence[AuditResult], audits: Mapping[str, Audit], plans: Mapping[str, Plan[Any]]
) -> list[AuditResult]:
    """The results, in the order of the plans, with a sentence about the weights where cases have unequal ones."""
    return [_told(result, audits[name], plans[name]) for name, result in zip(plans, results, strict=True)]


def _told(result: AuditResult, audit: Audit, plan: Plan[Any]) -> AuditResult:
    sizes = _sizes(plan.cohort, _rows(plan))
    if not sizes:
        return result
    because = str(getattr(audit, "unweighted_because", _BECAUSE))
    if because:
        sentence = (
            f"The sampling weights of the cohort are not used here: {because}. "
            "The numbers may differ from those of the population that the cases were drawn from."
        )
        finding = Finding(sentence=sentence, kind="caveat")
    else:
        but = f" but {name}" if (name := getattr(audit, "weighted_except", "")) else ""
        told = ", ".join(f"{n:,} cases of {name} are as precise as {worth:,.0f}" for name, n, worth in sizes)
        few = any(worth < _SMALL_SHARE * n for _, n, worth in sizes)
        warning = "A few heavy cases decide most of it, so intervals are wide. " if few else ""
        finding = Finding(
            sentence=f"All numbers{but} use the sampling weights of the cases: {told} of equal weight (Kish). {warning}"
            "Cases and patients are counted as they are.",
            kind="caveat" if few else "fact",
        )
    return replace(result, findings=(*result.findings, finding))


def _rows(plan: Plan[Any]) -> Ints:
    """The cases that the results are about."""
    rows = plan.variants.parent if plan.cases is None else plan.cases
    known: Ints = np.flatnonzero(np.bincount(rows[rows < len(plan.cohort)], minlength=1))
    return known


def _sizes(cohort: Cohort, rows: Ints) -> list[tuple[str, int, float]]:
    """Of each cohort with unequal weights: its name, its cases, and how many of equal weight would be as precise."""
    found: list[tuple[str, int, float]] = []
    if cohort.weights is None:
        return found
    names = cohort.cases["cohort"].gather(rows)
    for name in names.unique(maintain_order=True):
        weight = cohort.weights[rows[(names == name).to_numpy()]]
        if len(weight) and (weight != weight[0]).any():
            share = weight / weight.max()
            found.append((str(name), len(weight), float(share.sum()) ** 2 / float((share**2).sum())))
    return found
