"""Missing scores: an audit that cannot leave out cases leaves out the models that lack some, and says so.

Audits that handle missing scores declare it (`handles_missing`). The others compare each note with altered copies of
itself, or match cases: a case without a score would take others with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from palpate.results import Audit, AuditResult, Finding, Plan, Predictions, estimates_frame


class Usable(NamedTuple):
    """The predictions that an audit can use, and what it must say about the others."""

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
    audits: Mapping[str, Audit], plans: Mapping[str, Plan[Any]], predictions: Mapping[str, Predictions]
) -> dict[str, Usable]:
    """By audit: the models that it can use."""
    return {
        name: Usable(predictions[name])
        if getattr(audits[name], "handles_missing", False)
        else _complete_models(name, plan, predictions[name])
        for name, plan in plans.items()
    }


def _complete_models(audit: str, plan: Plan[Any], predictions: Predictions) -> Usable:
    counts = {name: _missing(plan, predictions, name) for name in predictions.compared}
    lacking = {name: count for name, count in counts.items() if count[0]}
    if not lacking:
        return Usable(predictions)
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
    return Usable(Predictions({} if named else kept), tuple(findings))


def _missing(plan: Plan[Any], predictions: Predictions, model: str) -> tuple[int, int]:
    """How many of the variants that a model was asked for have no score, and how many it was asked for."""
    missing = np.zeros(len(plan.variants), bool)
    asked = np.zeros(len(plan.variants), bool)
    for member in predictions.members(model):
        own = plan.requests.only.get(member, np.ones(len(plan.variants), bool))
        missing |= own & np.isnan(predictions.scored[member].p).any(axis=1)
        asked |= own
    return int(missing.sum()), int(asked.sum())
