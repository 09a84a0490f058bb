"""What came of asking a language model, in every audit: refusals, answers that say nothing, and how noisy answers are.

Whatever an audit measures, a model that refuses more often when the patient is described differently behaves
differently. So each audit gets, for each arm of its variants and for each group of patients that it compares, the share
of refusals and of answers that could not be read, with an interval by patient; how far an altered arm differs from the
first one, paired by patient; and how far a group differs from its reference, or from all others. Where the choices'
log-probabilities are read, their whole mass; where several answers are averaged, their standard error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.rows import RowWriter
from palpate.cases.edits import Ints
from palpate.models import Model
from palpate.models.ledger import AsksForAnswers
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions, estimates_frame
from palpate.results.plan import DividesPatients
from palpate.run.answering.arms import ALL_ARMS, AskedArms, AskedGroups
from palpate.run.answering.shares import (
    MASS,
    NOISE,
    REFUSED,
    UNREADABLE,
    answer_means,
    arm_differences,
    group_differences,
    outcome_shares,
)
from palpate.run.answering.words import about_answers, about_scores, answers_table

__all__ = [
    "ANSWER_METRICS",
    "REFUSED",
    "AskedArms",
    "AskedGroups",
    "arm_differences",
    "group_differences",
    "outcome_shares",
    "spending_of",
    "with_answering",
]

ANSWER_METRICS = (REFUSED, UNREADABLE, MASS, NOISE)
"""What any audit of a language model has beside its own metrics."""
_LEVEL = 0.95


def with_answering(
    results: Sequence[AuditResult], plans: Mapping[str, Plan[Any]], predictions: Mapping[str, Predictions]
) -> list[AuditResult]:
    """The results, in the order of the plans, with what came of asking language models."""
    done, told = [], set[str]()
    for name, result in zip(plans, results, strict=True):
        scored = predictions[name].scored
        for model, each in scored.items():
            others = [other for key, other in scored.items() if key != model and other.facts.may_miss]
            asked = _asked(name, plans[name], model, each, _lacking(plans[name], others))
            if asked is not None:
                result = _added(result, asked, told)
        done.append(result)
    return done


def spending_of(model: Model) -> dict[str, Any]:
    """What a run has spent on a model, for the manifest."""
    if not isinstance(model, AsksForAnswers):
        return {}
    spent = model.spent()
    return {"spent": spent._asdict() | {"cost": model.cost(spent)}}


def _asked(
    audit: str, plan: Plan[Any], model: str, each: ModelPredictions, lacking: NDArray[np.bool_]
) -> AskedArms | None:
    if each.outcomes is None or not len(plan.variants):
        return None
    rows = np.flatnonzero((each.outcomes.kind >= 0).all(axis=1))
    if not len(rows):
        return None
    variants, n_cases = plan.variants, len(plan.cohort)
    # A text that the audit made up is a patient of its own.
    codes = np.unique(plan.cohort.patients, return_inverse=True)[1]
    patient = np.concatenate([codes, np.arange(len(variants.made)) + n_cases])[variants.parent[rows]]
    given = plan.cohort.weights
    weight = np.concatenate([np.ones(n_cases) if given is None else given, np.ones(len(variants.made))])
    arms = _arms(variants.group[rows], variants.group_names)
    return AskedArms(
        RowWriter(audit, _LEVEL),
        model,
        {ALL_ARMS: np.arange(len(rows)), **arms} if len(arms) > 1 else arms,
        patient.astype(np.int64),
        weight[variants.parent[rows]],
        each.outcomes.take(rows, np.arange(len(each.labels))),
        each.p[rows],
        each.labels,
        _groups(plan, rows),
        lacking[rows],
    )


def _lacking(plan: Plan[Any], others: Sequence[ModelPredictions]) -> NDArray[np.bool_]:
    """Variants of cases that another model has no score for: they are in no comparison of the models."""
    parent = plan.variants.parent
    gone = np.zeros(len(plan.cohort) + len(plan.variants.made), bool)
    for other in others:
        gone[parent[np.isnan(other.p).any(axis=1)]] = True
    return gone[parent]


def _arms(group: Ints, names: Sequence[str]) -> dict[str, Ints]:
    """The rows of each arm that has some, in the order of the names."""
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=len(names))
    parts = np.split(order, np.cumsum(counts)[:-1])
    return {name: part for name, part in zip(names, parts, strict=True) if len(part)}


def _groups(plan: Plan[Any], rows: Ints) -> tuple[AskedGroups, ...]:
    """Who was asked about, in each of the audit's groups of patients."""
    if not isinstance(plan.memory, DividesPatients):
        return ()
    found = []
    for division in plan.memory.divisions():
        code = division.code[rows]
        members = {name: np.flatnonzero(code == k) for k, name in enumerate(division.groups)}
        found.append(AskedGroups(members, division.reference))
    return tuple(found)


def _added(result: AuditResult, asked: AskedArms, told: set[str]) -> AuditResult:
    rows = [*outcome_shares(asked), *arm_differences(asked), *group_differences(asked), *answer_means(asked)]
    findings = [*about_answers(asked, rows)]
    if asked.model not in told:
        findings += about_scores(asked, rows)
        told.add(asked.model)
    columns_of = result.estimates.columns
    return replace(
        result,
        estimates=result.estimates.vstack(estimates_frame(rows).select(columns_of)),
        blocks=(*result.blocks, answers_table(asked, rows)),
        findings=(*result.findings, *findings),
    )
