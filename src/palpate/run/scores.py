"""Scores that cannot be what they are taken for: one for all cases, or decisions instead of probabilities.

Whatever audits run, such a model is named before everything else, and nothing is said to be settled by more patients.
`performance` says so itself, about each population; this is for runs and models of which it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Finding, ModelPredictions, Plan, Predictions

FEWEST_CASES = 10
"""Fewer scores may be the same by chance."""


class OddModel(NamedTuple):
    """A model, and the labels for which its scores are odd."""

    model: str
    constant: bool
    """All the same; otherwise only 0 and 1."""
    labels: tuple[str, ...]
    all_labels: bool

    @property
    def reason(self) -> str:
        """Why nothing can be told about it."""
        return f"{self.model} gives {'every case the same score' if self.constant else 'only 0 and 1'}"

    def finding(self) -> Finding:
        """What is read before everything else."""
        where = "" if self.all_labels else f" for {', '.join(repr(label) for label in self.labels)}"
        what = (
            "it tells nobody apart. Check that it reads the right column and that its weights were loaded."
            if self.constant
            else "decisions, not probabilities. Use its probabilities (`predict_proba`, or `parser: logprobs` of "
            "a chat endpoint)."
        )
        return Finding(sentence=f"{self.reason}{where}: {what}", kind="concern")


def odd_models(
    cohort: Cohort, plans: Mapping[str, Plan[Any]], predictions: Mapping[str, Predictions]
) -> list[OddModel]:
    """Models whose scores of the cohort's own cases, as written, are all the same or only 0 and 1."""
    scores: dict[str, dict[str, list[np.ndarray[Any, Any]]]] = {}
    for name, plan in plans.items():
        own = (plan.variants.n_edits == 0) & (plan.variants.parent < len(cohort))
        for model, each in predictions[name].scored.items():
            for label, p in _by_label(each, own).items():
                scores.setdefault(model, {}).setdefault(label, []).append(p)
    found = []
    for model, by_label in scores.items():
        kinds = {label: _kind(np.concatenate(parts)) for label, parts in by_label.items()}
        for constant in (True, False):
            labels = tuple(label for label, kind in kinds.items() if kind is constant)
            if labels:
                found.append(OddModel(model, constant, labels, len(labels) == len(kinds)))
    return found


def _by_label(each: ModelPredictions, rows: Any) -> dict[str, np.ndarray[Any, Any]]:
    chosen = each.p[rows]
    return {label: chosen[~np.isnan(chosen[:, j]), j] for j, label in enumerate(each.labels)}


def _kind(p: np.ndarray[Any, Any]) -> bool | None:
    """True: all the same; False: only 0 and 1; None: as scores should be, or too few to tell."""
    if len(p) < FEWEST_CASES:
        return None
    if (p == p[0]).all():
        return True
    return False if ((p == 0) | (p == 1)).all() else None


def with_odd_models(results: Sequence[AuditResult], odd: Sequence[OddModel]) -> list[AuditResult]:
    """The results with a finding of the first rank for each odd model that none speaks of yet.

    Answers about a model that gives every case the same score reassure nobody, and no number of patients settles them.
    """
    told = [finding.sentence for result in results for finding in result.findings if finding.kind == "concern"]
    new = [each.finding() for each in odd if not any(sentence.startswith(each.reason) for sentence in told)]
    constant = {each.model: each for each in odd if each.constant and each.all_labels}
    changed = [_unsettled(result, constant) for result in results]
    if not new or not changed:
        return changed
    return [replace(changed[0], findings=(*new, *changed[0].findings)), *changed[1:]]


def _unsettled(result: AuditResult, constant: Mapping[str, OddModel]) -> AuditResult:
    """Nothing that an audit of the model's answers found open or reassuring is so."""
    if not constant or result.audit in ("data", "performance"):
        return result
    answers = tuple(
        answer.model_copy(update={"verdict": "unsettled", "needed": None, "reason": constant[answer.model].reason})
        if answer.model in constant and answer.verdict in ("unsettled", "acceptable")
        else answer
        for answer in result.answers
    )
    findings = dict.fromkeys(_finding(finding, constant) for finding in result.findings)
    return replace(result, answers=answers, findings=tuple(findings))


def _finding(finding: Finding, constant: Mapping[str, OddModel]) -> Finding:
    if finding.question is None or finding.kind not in ("unsettled", "acceptable"):
        return finding
    about = [model for model in constant if re.search(rf"(?<!\w){re.escape(model)}(?!\w)", finding.sentence)]
    if not about:
        return finding
    sentence = f"Nothing can be told about {about[0]}: {constant[about[0]].reason}."
    return Finding(sentence=sentence, kind="unsettled", question=finding.question)
