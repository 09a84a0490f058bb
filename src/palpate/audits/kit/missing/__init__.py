"""Scores that are missing: which cases all models scored, how many were not, in whom, and what that may hide.

A model may lack scores (`missing: report`). Metrics of a label are then over the cases for which every compared model
has its score, so that models are compared on the same patients. How often scores are missing, and whether more often in
those with the outcome, has an interval by patient. AUROC is also given as it would be if the missing cases were ranked
as badly, and as well, as possible; sensitivity as it is if a case without a score is not flagged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from palpate.audits.kit.missing.scored import CompleteCases, Gaps, complete_cases, missing_of
from palpate.audits.kit.missing.shares import (
    BEST,
    DIFFERENCE,
    FOUND,
    IN_NEGATIVES,
    IN_POSITIVES,
    MISSING_METRICS,
    SHARE,
    WORST,
    Floats,
    LabelCases,
    arm_shares,
    bound_rows,
    share_rows,
)
from palpate.audits.kit.missing.unscored import UnscoredModels, silent_models
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.tables import columns, interval_cell, table
from palpate.audits.kit.wording import counted, listed, number, percent, quoted
from palpate.cases.edits import Ints
from palpate.results import AuditResult, Estimate, Finding, Plan, Predictions, Table, estimates_frame

__all__ = [
    "MISSING_METRICS",
    "CompleteCases",
    "CountedCases",
    "Gaps",
    "MissingReport",
    "UnscoredModels",
    "arm_shares",
    "complete_cases",
    "may_miss",
    "missing_of",
    "missing_report",
    "silent_models",
]


EVERYONE = "all"
"""The name of a population of all cases."""


def may_miss(predictions: Predictions) -> list[str]:
    """The compared models that lack scores, or may."""
    return [
        name
        for name in predictions.compared
        if any(predictions.scored[each].facts.may_miss for each in predictions.members(name))
        or bool(missing_of(predictions, name).any())
    ]


class CountedCases(NamedTuple):
    """Cases whose missing scores are counted together."""

    name: str
    rows: Ints
    """Of the plan's variants."""
    bounded: bool = True
    """Whether bounds of AUROC and sensitivity are wanted, too."""


@dataclass(frozen=True, eq=False)
class MissingReport:
    """How many scores are missing, in whom, and what that may hide."""

    rows: tuple[Estimate, ...]
    models: tuple[str, ...]
    labels: tuple[str, ...]
    populations: tuple[str, ...]
    bounded: tuple[str, ...]
    kept: Mapping[str, tuple[Ints, int]]
    """Of each population: the cases that all models scored, for each label, and all cases."""
    lacks: Mapping[str, tuple[str, ...]]
    """The labels that a model is left out of, because it shares no scored case with the others there."""

    def added_to(self, result: AuditResult) -> AuditResult:
        """The result with these estimates, sentences and tables."""
        return replace(
            result,
            estimates=result.estimates.vstack(estimates_frame(list(self.rows)).select(result.estimates.columns)),
            blocks=(*result.blocks, self.block()),
            findings=(*result.findings, *self.findings()),
            provenance={**result.provenance, "cases_that_all_models_scored": self._counts()},
        )

    def _counts(self) -> dict[str, Any]:
        """By population; by label as well, where labels differ."""
        return {
            name: int(n[0]) if (n == n[0]).all() else dict(zip(self.labels, n.tolist(), strict=True))
            for name, (n, _) in self.kept.items()
        }

    @property
    def _index(self) -> EstimateIndex:
        return EstimateIndex(self.rows, label=self.labels[0], group=self.populations[0])

    def findings(self) -> Iterator[Finding]:
        """One sentence for each model that lacks scores, and what the numbers are about."""
        index = self._index
        told = False
        for model in self.models:
            found = [row for row in self.rows if (row.metric, row.model) == (SHARE, model) and row.value]
            if not found:
                continue
            told = True
            yield Finding(sentence=self._sentence(index, model, found), kind="caveat")
        for model, labels in self.lacks.items():
            yield Finding(
                sentence=f"{model} has no number for {quoted(labels)}: no case is scored by it and by the others.",
                kind="concern",
            )
        if told:
            alike = all(bool((n == n[0]).all()) for n, _ in self.kept.values())
            whom = "that every model scored" if alike else "for which every model has the label's score"
            parts = [self._cases(name, alike=alike) for name in self.kept]
            yield Finding(
                sentence=f"All other numbers of this section are about the cases {whom}: {listed(parts)}.",
                kind="caveat",
            )

    def _cases(self, population: str, *, alike: bool) -> str:
        """`560 of 800 cases of here`; for the label that has fewest, where they differ, and how many others have."""
        n, total = self.kept[population]
        said = f"{int(n.min()):,} of {counted(total, 'case')}" + ("" if population == EVERYONE else f" of {population}")
        if alike:
            return said
        return f"{said} for '{self.labels[int(n.argmin())]}', up to {int(n.max()):,} for the others"

    def _sentence(self, index: EstimateIndex, model: str, found: Sequence[Estimate]) -> str:
        worst = max((row for row in found if row.group in self.bounded), key=lambda row: row.value or 0.0, default=None)
        row = worst or found[0]
        n = round((row.value or 0.0) * row.n)
        said = f"{model} has no score for {percent(row.value)} of {_of(row.group)}"
        between = f"{row.level or 0.95:.0%} interval {percent(row.low)} to {percent(row.high)}"
        said += f" ({between})" if row.low is not None else f" ({counted(n, 'case')})"
        if len(self.labels) > 1:
            said += f", most for '{row.label}'"
        where = {"label": row.label, "group": row.group}
        gap = index.find(DIFFERENCE, model, **where)
        if gap is not None and gap.value is not None and gap.low is not None and gap.high is not None:
            shares = [percent(index.value(metric, model, **where)) for metric in (IN_POSITIVES, IN_NEGATIVES)]
            more = "more often" if gap.low > 0 else "less often" if gap.high < 0 else "neither more nor less often"
            said += f", {more} in those with '{row.label}' ({shares[0]} against {shares[1]})"
        low, high = (index.value(metric, model, **where) for metric in (WORST, BEST))
        if low is not None and high is not None:
            said += (
                f"; ranked as badly or as well as possible, they would make its AUROC {number(low)} or {number(high)}"
            )
        return f"{said}."

    def block(self) -> Table:
        """Every share and bound."""
        index, names = self._index, (SHARE, IN_POSITIVES, IN_NEGATIVES, DIFFERENCE)
        rows = []
        for group in self.populations:
            for label in self.labels:
                for model in self.models:
                    found = [index.find(metric, model, label=label, group=group) for metric in names]
                    ends = [index.value(metric, model, label=label, group=group) for metric in (WORST, BEST, FOUND)]
                    first = found[0]
                    shown = (interval_cell(each, 100.0) for each in found)
                    rows.append((model, label, group, 0 if first is None else first.n, *shown, *ends))
        return table(
            "Missing scores",
            "Cases without a score, by patient, with intervals; the difference is in percentage points. AUROC if the "
            "missing cases were ranked as badly or as well as possible; sensitivity if they are not flagged.",
            columns(
                *("Model", "Label", "Cases of", ("Cases", "integer"), ("Missing (%)", "interval")),
                *(("With the label (%)", "interval"), ("Without (%)", "interval"), ("Difference", "interval")),
                *(("AUROC, worst case", "number"), ("AUROC, best case", "number")),
                ("Sensitivity, not flagged", "number"),
            ),
            rows,
        )


def _of(group: str) -> str:
    return "all cases" if group == EVERYONE else f"the cases of {group}"


def missing_report(
    writer: RowWriter,
    plan: Plan[Any],
    predictions: Predictions,
    complete: CompleteCases,
    populations: Sequence[CountedCases],
    thresholds: Mapping[str, Floats],
) -> MissingReport:
    """How many scores of the plan's cases are missing; `thresholds` are those of each scored model, by label."""
    models, rows = may_miss(predictions), list[Estimate]()
    for population in populations:
        for model in models:
            lacking = missing_of(predictions, model)
            for j, label in enumerate(plan.labels):
                cases = LabelCases.of(plan, population.name, population.rows, lacking[:, j], label)
                rows += share_rows(writer, cases, model, label)
                if population.bounded:
                    p = np.where(lacking[:, j], np.nan, predictions[model].p[:, j])[population.rows]
                    limit = thresholds.get(predictions.members(model)[0])
                    rows += bound_rows(writer, cases, model, label, p, None if limit is None else float(limit[j]))
    kept = {each.name: (complete.known[each.rows].sum(axis=0), len(each.rows)) for each in populations if each.bounded}
    return MissingReport(
        tuple(rows),
        tuple(models),
        tuple(plan.labels),
        tuple(each.name for each in populations),
        tuple(kept),
        kept,
        {model: tuple(plan.labels[j] for j in labels) for model, labels in complete.lacks.items()},
    )
