"""Missing scores: an audit that does not handle them itself is given the cases that all models scored, and says so.

A model that declares it (`Model.may_miss`) may lack scores: with `missing: report`, or because not answering is one of
its outcomes. Its prediction is then NaN. Audits that handle missing scores declare it (`handles_missing`). Any other is
planned again without the cases of which a copy lacks a score, so that arms stay paired; what was scored is used again.
A model that lacks scores for most cases would take the other models' cases with it: it is left out instead, as are
models that lack some where an audit cannot be planned again (texts that it made up, explanations, budgets). A model
that is left out has a row without a value for each metric, and its questions are unsettled. Each such audit gets the
share of missing scores of each of its arms as estimates (`missing_share`). An audit that takes labels one after the
other (`LabelByLabel`) is planned again for each label, so that a score that is missing for one takes nothing from the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.kit.missing import arm_shares
from palpate.audits.kit.missing.apart import LabelByLabel, LabelPart, divided_labels
from palpate.audits.kit.rows import RowWriter
from palpate.cases.cohort import STAY_WEIGHT, WEIGHT, Cohort
from palpate.cases.edits import Ints
from palpate.errors import PalpateError
from palpate.results import (
    AdaptiveAudit,
    Audit,
    AuditResult,
    Estimate,
    Finding,
    Plan,
    Predictions,
    estimates_frame,
)
from palpate.results.verdicts import Answer
from palpate.stats.precision import n_distinct

MOST_LACKING = 0.5
"""A model that lacks scores for more of the cases than this is left out of an audit that alters them."""
_MOST_LABELS = 50
"""Of more labels, the verdict alone says that a model was left out."""
_EVERYONE = "all"


class Usable(NamedTuple):
    """The predictions that an audit can use, and what it must say about the others."""

    plan: Plan[Any]
    predictions: Predictions
    findings: tuple[Finding, ...] = ()
    shares: tuple[Estimate, ...] = ()
    """How many scores are missing, by model and arm."""
    left_out: Mapping[str, str] = MappingProxyType({})
    """The models that the audit says nothing about, and why."""
    parts: tuple[LabelPart[Any], ...] = ()
    """Labels apart, where each has its own cases; none where all labels have the same."""

    @property
    def nothing(self) -> bool:
        """Whether no model is left."""
        return not self.predictions.scored

    def analysed(self, audit: Audit, rng: np.random.Generator) -> AuditResult:
        """What the audit says of what it can use."""
        if self.parts and isinstance(audit, LabelByLabel):
            return audit.analyse_apart(self.plan, self.parts, rng)
        return audit.analyse(self.plan, self.predictions, rng)

    def told(self, result: AuditResult, audit: Audit) -> AuditResult:
        """The result with what was left out."""
        if not self.findings and not self.shares:
            return result
        rows = [*self.shares, *left_out_rows(result.audit, audit, self.plan, self.left_out)]
        added = estimates_frame(rows).select(result.estimates.columns)
        return replace(
            result,
            estimates=result.estimates.vstack(added) if rows else result.estimates,
            findings=(*self.findings, *result.findings),
            answers=(*result.answers, *open_answers(result, audit, self.left_out)),
        )

    def empty(self, name: str, audit: Audit) -> AuditResult:
        """The result where no model is left."""
        return self.told(AuditResult(name, estimates_frame([])), audit)


def usable_predictions(
    audits: Mapping[str, Audit],
    plans: Mapping[str, Plan[Any]],
    predictions: Mapping[str, Predictions],
    plan_for: Callable[[str, Cohort], Plan[Any]],
) -> dict[str, Usable]:
    """By audit: the cases and the models that it can use; `plan_for` plans an audit as it was planned, for a cohort."""
    return {
        name: _usable(name, audits[name], plans[name], predictions[name], partial(plan_for, name)) for name in plans
    }


def _usable(
    name: str, audit: Audit, plan: Plan[Any], predictions: Predictions, plan_for: Callable[[Cohort], Plan[Any]]
) -> Usable:
    lacking = {model: _missing(plan, predictions, model) for model in predictions.compared}
    lacking = {model: count for model, count in lacking.items() if count.n}
    if not lacking or getattr(audit, "handles_missing", False):
        return Usable(plan, predictions)
    shares = tuple(row for model in lacking for row in arm_shares(name, plan, predictions, model))
    apart = _apart(name, plan, predictions, plan_for) if isinstance(audit, LabelByLabel) else None
    if apart is not None:
        return apart._replace(shares=shares)
    altered = bool(plan.variants.n_edits.any())
    most = MOST_LACKING if altered else 0.0
    hopeless = {model for model, count in lacking.items() if count.n == count.asked or count.share > most > 0}
    kept = _without(predictions, hopeless) if hopeless else predictions
    again = None if isinstance(audit, AdaptiveAudit) else _planned_again(name, plan, kept, plan_for)
    if again is None:
        return _complete_models(name, plan, predictions, lacking)._replace(shares=shares)
    gone = {model: lacking[model] for model in lacking if model in hopeless}
    return again._replace(shares=shares, findings=(*_left_out(name, gone), *again.findings), left_out=_reasons(gone))


def _apart(
    name: str, plan: Plan[Any], predictions: Predictions, plan_for: Callable[[Cohort], Plan[Any]]
) -> Usable | None:
    """Each label on the cases that every model scored for it; None where labels do not differ, or one has none.

    Neighbouring labels that lack the same scores are one part.
    """
    divided = divided_labels(plan.labels, predictions)
    if len(divided) == 1:
        return None
    parts = []
    for labels, scored in divided:
        again = _planned_again(name, replace(plan, labels=labels), scored, plan_for)
        if again is None:
            return None
        parts.append(LabelPart(replace(again.plan, labels=labels), again.predictions))
    total = _n_cases(plan)
    n = {label: _n_cases(part.plan) for part in parts for label in part.plan.labels}
    fewest, most = min(n, key=n.__getitem__), max(n.values())
    said = (
        f"Scores are missing: {name} is about the cases for which every model has the label's score: {n[fewest]:,} of "
        f"{total:,} for '{fewest}', up to {most:,} for the others."
    )
    return Usable(plan, predictions, (Finding(sentence=said, kind="caveat"),), parts=tuple(parts))


def _planned_again(
    name: str, plan: Plan[Any], predictions: Predictions, plan_for: Callable[[Cohort], Plan[Any]]
) -> Usable | None:
    """The plan in which cases that a model did not score do not count; None where that is no way out.

    They stay in the cohort, with a sampling weight of 0: what they tell of a patient's history or of a stay is known,
    its sampling weight included.
    """
    cohort, variants, asks = plan.cohort, plan.variants, plan.requests
    if not predictions.scored or asks.only or asks.explain or asks.windows:
        return None
    gone = np.any([np.isnan(each.p).any(axis=1) for each in predictions.scored.values()], axis=0)
    if (variants.parent[gone] >= len(cohort)).any():  # a text that the audit made up is nobody's
        return None
    weight, of_stay = np.ones(len(cohort)), np.ones(len(cohort))
    if cohort.weights is not None and cohort.stay_weights is not None:
        weight, of_stay = cohort.weights.copy(), cohort.stay_weights
    weight[variants.parent[gone]] = 0.0
    columns = [pl.Series(WEIGHT, weight), pl.Series(STAY_WEIGHT, of_stay)]
    some = replace(cohort, cases=cohort.cases.with_columns(columns))
    try:
        less = plan_for(some)
    except PalpateError:  # too few cases are left
        return None
    at = _places(plan, less)
    if at is None or gone[at].any():
        return None
    kept = {model: replace(each, p=each.p[at], seen=each.seen[at]) for model, each in predictions.scored.items()}
    n, total = (_n_cases(each) for each in (less, plan))
    if n == total:
        return Usable(less, Predictions(kept))
    said = (
        f"Scores are missing: {name} is about the {n:,} of {total:,} cases that every model scored, and has no number "
        "for the others."
    )
    if len(plan.labels) > 1 and any(_labels_differ(each.p) for each in predictions.scored.values()):
        said += (
            " A case that lacks the score of one label is left out of all: to use what each label has, run it once per "
            "label (`labels:`)."
        )
    return Usable(less, Predictions(kept), (Finding(sentence=said, kind="caveat"),))


def _labels_differ(p: NDArray[np.float64]) -> bool:
    """Whether scores are missing for some labels of a case and not for others."""
    missing = np.isnan(p)
    return bool((missing.any(axis=1) != missing.all(axis=1)).any())


def _n_cases(plan: Plan[Any]) -> int:
    """How many cases the results of a plan are about."""
    parent = plan.variants.parent
    return n_distinct(parent[parent < len(plan.cohort)]) if plan.cases is None else len(plan.cases)


def _places(plan: Plan[Any], less: Plan[Any]) -> Ints | None:
    """Where the variants of the smaller plan are in the larger one; None where one of them was not scored."""
    if not len(less.variants):
        return None
    known = {key: place for place, key in enumerate(_keys(plan))}
    found = [known.get(key, -1) for key in _keys(less)]
    return None if -1 in found else np.asarray(found, dtype=np.int64)


def _keys(plan: Plan[Any]) -> list[tuple[Any, ...]]:
    """What tells each variant from the others: its case or text, its arm, its edits."""
    variants, n = plan.variants, len(plan.cohort)
    arms = [variants.group_names[k] for k in variants.group.tolist()]
    own = [k if k < n else variants.made[k - n] for k in variants.parent.tolist()]
    if not variants.n_edits.any():
        return list(zip(own, arms, strict=True))
    return [(parent, arm, *variants.edits(k)) for k, (parent, arm) in enumerate(zip(own, arms, strict=True))]


def _complete_models(audit: str, plan: Plan[Any], predictions: Predictions, lacking: Mapping[str, _Lacking]) -> Usable:
    """The models that lack nothing."""
    named = [name for name in plan.requests.names if name in lacking]
    kept = Predictions({}) if named else _without(predictions, lacking)
    return Usable(plan, kept, _left_out(audit, lacking), left_out=_reasons(lacking))


def _left_out(audit: str, lacking: Mapping[str, _Lacking]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            sentence=f"{name} is left out of {audit}: {count.n:,} of the {count.asked:,} scores that it needs are "
            "missing, and this audit cannot do without them.",
            kind="caveat",
        )
        for name, count in lacking.items()
    )


def _reasons(lacking: Mapping[str, _Lacking]) -> dict[str, str]:
    return {
        name: f"{name} has no score"
        if count.n == count.asked
        else f"{name} lacks {count.n:,} of the {count.asked:,} scores that this needs"
        for name, count in lacking.items()
    }


def left_out_rows(name: str, audit: Audit, plan: Plan[Any], left_out: Mapping[str, str]) -> Iterator[Estimate]:
    """A row without a value for each metric and label of a model that an audit says nothing about."""
    writer, n = RowWriter(name), _n_cases(plan)
    for model, why in left_out.items():
        for metric in getattr(audit, "metrics", ()):
            for label in plan.labels if len(plan.labels) <= _MOST_LABELS else ():
                yield writer.row(model, metric, label, _EVERYONE, None, n=n, reason=why)


def open_answers(result: AuditResult, audit: Audit, left_out: Mapping[str, str]) -> Iterator[Answer]:
    """What the audit asks, unsettled for the models that it says nothing about; as it asks it of the other models."""
    asked = {answer.question: answer for answer in reversed(result.answers)}
    for name in () if asked else getattr(audit, "asked", getattr(audit, "questions", ())):
        asks = getattr(audit, "asks", {}).get(name) or f"{result.audit.capitalize()}: {name.replace('_', ' ')}"
        asked[name] = Answer(question=name, asks=asks, model="", verdict="unsettled", metric=name)
    for model, why in left_out.items():
        for answer in reversed(asked.values()):
            yield Answer(
                question=answer.question,
                asks=answer.asks,
                model=model,
                verdict="unsettled",
                metric=answer.metric,
                margin=answer.margin,
                required=answer.required,
                percent=answer.percent,
                n_unsettled=1,
                reason=why,
            )


def _without(predictions: Predictions, models: Collection[str]) -> Predictions:
    gone = {each for name in models for each in predictions.members(name)}
    return Predictions({name: each for name, each in predictions.scored.items() if name not in gone})


class _Lacking(NamedTuple):
    """How many of the variants that a model was asked for have no score, and the share of parents with such a one."""

    n: int
    asked: int
    share: float


def _missing(plan: Plan[Any], predictions: Predictions, model: str) -> _Lacking:
    missing = np.zeros(len(plan.variants), bool)
    asked = np.zeros(len(plan.variants), bool)
    for member in predictions.members(model):
        own = plan.requests.only.get(member, np.ones(len(plan.variants), bool))
        missing |= own & np.isnan(predictions.scored[member].p).any(axis=1)
        asked |= own
    parent = plan.variants.parent
    share = n_distinct(parent[missing]) / max(n_distinct(parent[asked]), 1)
    return _Lacking(int(missing.sum()), int(asked.sum()), share)
