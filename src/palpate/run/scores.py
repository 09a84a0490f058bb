"""Scores that cannot be what they are taken for: one for all cases, or decisions instead of probabilities.

Whatever audits run, such a model is named before everything else, and nothing is said to be settled by more patients.
`performance` says so itself, about each population; this is for runs and models of which it says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.results import AuditResult, Finding, ModelPredictions, Plan, Predictions

FEWEST_CASES = 10
"""Fewer scores may be the same by chance."""
_AT_ONCE = 2_000_000
"""Scores that are looked at together."""


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
    seen: dict[str, dict[str, _SeenScores]] = {}
    for name, plan in plans.items():
        own = np.flatnonzero((plan.variants.n_edits == 0) & (plan.variants.parent < len(cohort)))
        for model, each in predictions[name].scored.items():
            labels = seen.setdefault(model, {})
            for label, scores in _by_label(each, own):
                labels[label] = scores if label not in labels else labels[label].and_also(scores)
    found = []
    for model, by_label in seen.items():
        kinds = {label: scores.kind for label, scores in by_label.items()}
        for constant in (True, False):
            odd = tuple(label for label, kind in kinds.items() if kind is constant)
            if odd:
                found.append(OddModel(model, constant, odd, len(odd) == len(kinds)))
    return found


class _SeenScores(NamedTuple):
    """What the scores of one label are like, of those that are known."""

    n: int
    lowest: float
    highest: float
    decisions: bool
    """Whether they are only 0 and 1."""

    @property
    def kind(self) -> bool | None:
        """True: all the same; False: only 0 and 1; None: as scores should be, or too few to tell."""
        if self.n < FEWEST_CASES:
            return None
        if self.lowest == self.highest:
            return True
        return False if self.decisions else None

    def and_also(self, other: _SeenScores) -> _SeenScores:
        """Both together."""
        ends = min(self.lowest, other.lowest), max(self.highest, other.highest)
        return _SeenScores(self.n + other.n, *ends, self.decisions and other.decisions)


def _by_label(each: ModelPredictions, rows: NDArray[np.int64]) -> Iterator[tuple[str, _SeenScores]]:
    """The labels, some at a time: of thousands there is no second copy."""
    step = max(1, _AT_ONCE // max(len(rows), 1))
    for low in range(0, len(each.labels), step):
        p = np.take(each.p[:, low : low + step], rows, axis=0)
        known = ~np.isnan(p)
        n, decisions = known.sum(axis=0), (~known | (p == 0) | (p == 1)).all(axis=0)
        lowest, highest = np.fmin.reduce(p, axis=0, initial=np.inf), np.fmax.reduce(p, axis=0, initial=-np.inf)
        for k, label in enumerate(each.labels[low : low + step]):
            yield label, _SeenScores(int(n[k]), float(lowest[k]), float(highest[k]), bool(decisions[k]))


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
