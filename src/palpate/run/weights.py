"""Sampling weights: every audit's section says whether its numbers use them, and what they cost.

An audit that weighs its cases says so by an empty `unweighted_because` (and by `weighted_except`, which numbers it does
not weigh); any other says there why it does not. Counted is what the numbers are about: cases that lack a score are
not, and where a stay is one decision (`WeighsDecisions`), stays are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.missing.scored import complete_cases
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.results import Audit, AuditResult, Finding, Plan
from palpate.run.missing import Usable

_SMALL_SHARE = 0.1
"""Weights that leave a smaller share of the cases' precision are worth a warning."""
_BECAUSE = "its numbers are about the sampled cases"


@runtime_checkable
class WeighsDecisions(Protocol):
    """An audit whose numbers are about decisions, which may be made of several cases."""

    def decisions(self, plan: Plan[Any]) -> tuple[str, Ints]:
        """What a decision is about, such as `stays`, and one row of the cohort for each."""
        ...


class _Size(NamedTuple):
    """How many cases (or stays) of a cohort there are, and how many of equal weight would be as precise."""

    cohort: str
    unit: str
    n: int
    worth: float
    label: str = ""
    """Where labels have cases of their own: that of the fewest."""

    def __str__(self) -> str:
        of = f", those with a score of '{self.label}'," if self.label else ""
        return f"{self.n:,} {self.unit} of {self.cohort}{of} are as precise as {self.worth:,.0f}"


def with_weights(
    results: Sequence[AuditResult], audits: Mapping[str, Audit], usable: Mapping[str, Usable]
) -> list[AuditResult]:
    """The results, in the order of `usable`, with a sentence about the weights where cases have unequal ones."""
    return [_told(result, audits[name], usable[name]) for name, result in zip(usable, results, strict=True)]


def _told(result: AuditResult, audit: Audit, used: Usable) -> AuditResult:
    sizes = _sizes(audit, used)
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
        few = any(size.worth < _SMALL_SHARE * size.n for size in sizes)
        warning = "A few heavy cases decide most of it, so intervals are wide. " if few else ""
        finding = Finding(
            sentence=f"All numbers{but} use the sampling weights of the cases: {', '.join(map(str, sizes))} of equal "
            f"weight (Kish). {warning}Cases and patients are counted as they are.",
            kind="caveat" if few else "fact",
        )
    return replace(result, findings=(*result.findings, finding))


def _sizes(audit: Audit, used: Usable) -> list[_Size]:
    """Of each cohort with unequal weights, over the cases that the results are about."""
    if used.plan.cohort.weights is None:
        return []
    if used.parts:
        part = min(used.parts, key=lambda each: len(_rows(each.plan)))
        label = part.plan.labels[0] if len(used.parts) > 1 else ""
        return [size._replace(label=label) for size in _of_plan(audit, part.plan, _rows(part.plan))]
    rows = _rows(used.plan)
    scored, label = _scored(used)
    if scored is not None:
        rows = np.intersect1d(rows, scored)
    return [size._replace(label=label) for size in _of_plan(audit, used.plan, rows)]


def _of_plan(audit: Audit, plan: Plan[Any], rows: Ints) -> list[_Size]:
    """A stay has the largest weight of its cases."""
    cohort, unit = plan.cohort, "cases"
    weights = cohort.weights
    if isinstance(audit, WeighsDecisions) and cohort.has_stays:
        unit, rows = audit.decisions(plan)
        weights = cohort.stay_weights
    return [] if weights is None else list(_by_cohort(cohort, unit, rows, weights))


def _scored(used: Usable) -> tuple[Ints | None, str]:
    """The cases that every model scored, where an audit itself leaves out the others; of the label with the fewest."""
    plan, predictions = used.plan, used.predictions
    as_they_are = not plan.requests.only and not plan.variants.n_edits.any()
    if not as_they_are or not any(np.isnan(each.p).any() for each in predictions.scored.values()):
        return None, ""
    parent = plan.variants.parent
    audited = np.flatnonzero(np.isin(parent, _rows(plan)))
    known = complete_cases(predictions, [audited]).known[audited]
    fewest = int(known.sum(axis=0).argmin())
    label = "" if (known == known[:, :1]).all() else plan.labels[fewest]
    return np.unique(parent[audited[known[:, fewest]]]), label


def _rows(plan: Plan[Any]) -> Ints:
    """The cases that a plan is about."""
    rows = plan.variants.parent if plan.cases is None else plan.cases
    known: Ints = np.flatnonzero(np.bincount(rows[rows < len(plan.cohort)], minlength=1))
    return known


def _by_cohort(cohort: Cohort, unit: str, rows: Ints, weights: NDArray[np.float64]) -> Iterator[_Size]:
    names = cohort.cases["cohort"].gather(rows)
    for name in names.unique(maintain_order=True):
        weight = weights[rows[(names == name).to_numpy()]]
        if len(weight) and (weight != weight[0]).any():
            share = weight / weight.max()
            yield _Size(str(name), unit, len(weight), float(share.sum()) ** 2 / float((share**2).sum()))
