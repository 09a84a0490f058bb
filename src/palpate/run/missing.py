"""Missing scores: an audit that does not handle them itself is given the cases that all models scored, and says so.

Audits that handle missing scores declare it (`handles_missing`). Any other that asks only for the cases as they are is
planned again without the cases that lack a score. One that compares notes with altered copies of themselves leaves out
the models that lack some: a missing score would take others with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from palpate.errors import PalpateError
from palpate.results import (
    Audit,
    AuditResult,
    Finding,
    Plan,
    PlansWithModels,
    Predictions,
    estimates_frame,
)
from palpate.stats.precision import n_distinct


class Usable(NamedTuple):
    """The predictions that an audit can use, and what it must say about the others."""

    plan: Plan[Any]
    predictions: Predictions
    findings: tuple[Finding, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether no model is left."""
        return not self.predictions.scored

    def told(self, result: AuditResult) -> AuditResult:
        """The result with what was left out."""
        return replace(result, findings=(*self.findings, *result.findings)) if self.findings else result

    def empty(self, audit: str) -> AuditResult:
        """The result where no model is left."""
        return self.told(AuditResult(audit, estimates_frame([])))


def usable_predictions(
    audits: Mapping[str, Audit],
    plans: Mapping[str, Plan[Any]],
    predictions: Mapping[str, Predictions],
    rng_of: Callable[[str], np.random.Generator],
) -> dict[str, Usable]:
    """By audit: the cases and the models that it can use; `rng_of` is what an audit was planned with."""
    return {name: _usable(name, audits[name], plans[name], predictions[name], rng_of(name)) for name in plans}


def _usable(name: str, audit: Audit, plan: Plan[Any], predictions: Predictions, rng: np.random.Generator) -> Usable:
    lacking = {model: _missing(plan, predictions, model) for model in predictions.compared}
    lacking = {model: count for model, count in lacking.items() if count[0]}
    if not lacking or getattr(audit, "handles_missing", False):
        return Usable(plan, predictions)
    again = _planned_again(name, audit, plan, predictions, rng)
    return _complete_models(name, plan, predictions, lacking) if again is None else again


def _planned_again(
    name: str, audit: Audit, plan: Plan[Any], predictions: Predictions, rng: np.random.Generator
) -> Usable | None:
    """The plan for a cohort of the cases that all models scored; None where that is no way out."""
    cohort, variants, asks = plan.cohort, plan.variants, plan.requests
    as_they_are = not variants.n_edits.any() and bool((variants.parent < len(cohort)).all())
    if not as_they_are or asks.only or asks.explain or asks.windows or isinstance(audit, PlansWithModels):
        return None
    gone = np.any([np.isnan(each.p).any(axis=1) for each in predictions.scored.values()], axis=0)
    rows = np.setdiff1d(np.arange(len(cohort)), variants.parent[gone])
    some = replace(cohort, cases=cohort.cases[rows], y=sparse.csc_array(cohort.y.tocsr()[rows]))
    try:
        less = audit.plan(some, rng)
    except PalpateError:  # too few cases are left
        return None
    place = np.full(len(cohort), -1)
    place[variants.parent] = np.arange(len(variants))
    at = place[rows[less.variants.parent]]
    if (at < 0).any() or not len(at):
        return None
    kept = {model: replace(each, p=each.p[at], seen=each.seen[at]) for model, each in predictions.scored.items()}
    n, total = n_distinct(less.variants.parent), n_distinct(variants.parent)
    said = (
        f"Scores are missing: {name} is about the {n:,} of {total:,} cases that every model scored, and has no number "
        "for the others."
    )
    return Usable(less, Predictions(kept), (Finding(sentence=said, kind="caveat"),))


def _complete_models(
    audit: str, plan: Plan[Any], predictions: Predictions, lacking: Mapping[str, tuple[int, int]]
) -> Usable:
    """The models that lack nothing."""
    findings = [
        Finding(
            sentence=f"{name} is left out of {audit}: {n:,} of the {asked:,} scores that it needs are missing, and "
            "this audit cannot do without a part of them.",
            kind="caveat",
        )
        for name, (n, asked) in lacking.items()
    ]
    gone = {each for name in lacking for each in predictions.members(name)}
    kept = {name: each for name, each in predictions.scored.items() if name not in gone}
    named = [name for name in plan.requests.names if name in lacking]
    return Usable(plan, Predictions({} if named else kept), tuple(findings))


def _missing(plan: Plan[Any], predictions: Predictions, model: str) -> tuple[int, int]:
    """How many of the variants that a model was asked for have no score, and how many it was asked for."""
    missing = np.zeros(len(plan.variants), bool)
    asked = np.zeros(len(plan.variants), bool)
    for member in predictions.members(model):
        own = plan.requests.only.get(member, np.ones(len(plan.variants), bool))
        missing |= own & np.isnan(predictions.scored[member].p).any(axis=1)
        asked |= own
    return int(missing.sum()), int(asked.sum())
