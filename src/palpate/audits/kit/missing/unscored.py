"""Models without any score: their numbers are rows without a value, and their questions are unsettled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from palpate.audits.kit.answers import Question
from palpate.audits.kit.rows import RowWriter
from palpate.cases.edits import Ints
from palpate.results import AuditResult, Estimate, Finding, Plan, Predictions, estimates_frame
from palpate.results.verdicts import Answer, Effect


def silent_models(predictions: Predictions) -> list[str]:
    """The compared models that have no score at all."""
    members = {name: predictions.members(name) for name in predictions.compared}
    return [
        name for name, own in members.items() if any(bool(np.isnan(predictions.scored[each].p).all()) for each in own)
    ]


def why_nothing(model: str, *, silent: bool) -> str:
    """Why there is no number of a model."""
    return f"{model} has no score for any audited case" if silent else f"{model} and the others score no case together"


class UnscoredModels(NamedTuple):
    """Models that are left out of an audit, and what it would have said about them."""

    models: Sequence[str]
    silent: Sequence[str]
    """Those of them that have no score at all."""
    metrics: Sequence[str]
    questions: Sequence[Question]

    def added_to(
        self, result: AuditResult, writer: RowWriter, plan: Plan[Any], populations: Iterable[tuple[str, Ints]]
    ) -> AuditResult:
        """The result with a row for each number that could not be made, and an open answer to each question.

        `populations` are names and rows of the cohort.
        """
        if not self.models:
            return result
        groups = [(name, rows, plan.cohort.y_true(rows, plan.labels)) for name, rows in populations]
        rows = [
            self._row(writer, model, metric, label, name, len(own), int(y_true[:, j].sum()))
            for name, own, y_true in groups
            for model in self.models
            for metric in self.metrics
            for j, label in enumerate(plan.labels)
        ]
        answers = [answer for model in self.models for answer in self._answers(model)]
        return replace(
            result,
            estimates=result.estimates.vstack(estimates_frame(rows).select(result.estimates.columns)),
            answers=(*result.answers, *answers),
            findings=(*self._findings(), *result.findings),
        )

    def _row(
        self, writer: RowWriter, model: str, metric: str, label: str, group: str, n: int, n_positive: int
    ) -> Estimate:
        why = why_nothing(model, silent=model in self.silent)
        return writer.row(model, metric, label, group, None, n=n, n_positive=n_positive, reason=why)

    def _answers(self, model: str) -> Iterator[Answer]:
        why = why_nothing(model, silent=model in self.silent)
        for question in self.questions:
            answer = question.answer(model, [Effect("", None, None, None, question.margin, 0, why, question.harm or 1)])
            if answer is not None:
                yield answer

    def _findings(self) -> Iterator[Finding]:
        for model in self.models:
            what = why_nothing(model, silent=model in self.silent)
            yield Finding(
                sentence=f"{what}: nothing can be told about it. Check that the case ids of its predictions are the "
                "cohort's.",
                kind="concern",
            )
