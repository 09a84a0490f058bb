"""Scores that are missing: which cases all models scored, how many were not, in whom, and what that may hide.

A model may lack scores (`missing: report`). Metrics are then over the cases that every compared model scored, so that
models are compared on the same patients. How often scores are missing, and whether more often in those with the
outcome, has an interval by patient. AUROC is also given as it would be if the missing cases were ranked as badly, and
as well, as possible; sensitivity as it is if a case without a score is not flagged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

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
    Mask,
    arm_shares,
    bound_rows,
    share_rows,
)
from palpate.audits.kit.rows import EstimateIndex, RowWriter
from palpate.audits.kit.tables import columns, interval_cell, table
from palpate.audits.kit.wording import counted, listed, number, percent
from palpate.cases.edits import Ints
from palpate.results import AuditResult, Estimate, Finding, ModelPredictions, Plan, Predictions, Table, estimates_frame

__all__ = [
    "MISSING_METRICS",
    "CompleteCases",
    "CountedCases",
    "MissingReport",
    "arm_shares",
    "complete_cases",
    "may_miss",
    "missing_of",
    "missing_report",
    "nothing_scored",
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


def missing_of(predictions: Predictions, model: str) -> Mask:
    """Where a model has no score, [variant, label]; an ensemble has none where a member has none."""
    return np.asarray(np.any([np.isnan(predictions.scored[each].p) for each in predictions.members(model)], axis=0))


class CompleteCases(NamedTuple):
    """The cases that every model scored for every label, and the models that are left."""

    keep: Mask
    """Rows of the plan's variants."""
    predictions: Predictions
    left_out: tuple[str, ...]
    """Models that share no scored case with the others, or have no score at all."""


def complete_cases(predictions: Predictions, audited: Sequence[Ints]) -> CompleteCases:
    """The cases that all models scored; models are left out, those that lack most first, until there is one.

    `audited` are rows of the variants, one set for each population.
    """
    names, left_out = list(predictions.compared), list[str]()
    lacking: dict[str, Mask] = {name: np.asarray(missing_of(predictions, name).any(axis=1)) for name in names}
    rows = np.concatenate([np.asarray(part) for part in audited])
    while names:
        keep: Mask = np.asarray(~np.any([lacking[name] for name in names], axis=0))
        if keep[rows].any():
            break
        worst = max(names, key=lambda name: int(lacking[name][rows].sum()))
        names.remove(worst)
        left_out.append(worst)
    else:
        keep = np.zeros(len(lacking[left_out[0]]), np.bool_)
    members = [each for name in names for each in predictions.members(name)]
    some = {each: _at(predictions.scored[each], keep) for each in predictions.scored if each in members}
    return CompleteCases(keep, Predictions(some), tuple(left_out))


def _at(answers: ModelPredictions, keep: Mask) -> ModelPredictions:
    return replace(answers, p=answers.p[keep], seen=answers.seen[keep])


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
    kept: Mapping[str, tuple[int, int]]
    """Of each population: the cases that all models scored, and all cases."""
    left_out: tuple[str, ...] = ()

    def added_to(self, result: AuditResult) -> AuditResult:
        """The result with these estimates, sentences and tables."""
        return replace(
            result,
            estimates=result.estimates.vstack(estimates_frame(list(self.rows)).select(result.estimates.columns)),
            blocks=(*result.blocks, self.block()),
            findings=(*result.findings, *self.findings()),
            provenance={**result.provenance, "cases_that_all_models_scored": {k: n for k, (n, _) in self.kept.items()}},
        )

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
        if self.left_out:
            has = "has" if len(self.left_out) == 1 else "have"
            yield Finding(
                sentence=f"{listed(self.left_out)} {has} no number here: no case is scored by it and by the others.",
                kind="concern",
            )
        if told:
            parts = [
                f"{n:,} of {counted(total, 'case')}" + ("" if name == EVERYONE else f" of {name}")
                for name, (n, total) in self.kept.items()
            ]
            yield Finding(
                sentence=f"All other numbers of this section are about the cases that every model scored: "
                f"{listed(parts)}.",
                kind="caveat",
            )

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


def nothing_scored(audit: str, report: MissingReport) -> AuditResult:
    """Where no model has a score for any audited case."""
    sentence = "No model has a score for any audited case: check that the case ids of the predictions are the cohort's."
    empty = AuditResult(audit, estimates_frame([]), findings=(Finding(sentence=sentence, kind="concern"),))
    return report.added_to(empty)


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
    kept = {each.name: (int(complete.keep[each.rows].sum()), len(each.rows)) for each in populations if each.bounded}
    return MissingReport(
        tuple(rows),
        tuple(models),
        tuple(plan.labels),
        tuple(each.name for each in populations),
        tuple(kept),
        kept,
        complete.left_out,
    )
