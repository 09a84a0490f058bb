"""Ask a model what it looked at, a few cases per call; each answer is checked and stored before the next call.

A run that was killed finds what was explained before in its run directory, so `--resume` asks only for the rest and
ends with the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs, Ints
from palpate.cases.hashing import key_of
from palpate.models import Model, ModelSpec
from palpate.models.isolation import exits_are_errors
from palpate.results import Asked, Attributions, Explain, ModelPredictions, Plan, no_attributions
from palpate.run.checks import facts_of
from palpate.run.execute import Execution, ScoringProgress
from palpate.run.execute.calls import Calls

_CASES_PER_CALL = 32
"""Explaining holds gradients or attention of whole texts, so calls are shorter than those for probabilities."""


class Kept(Protocol):
    """Where explanations are stored between a kill and a resume."""

    def write_attributions(self, audit: str, model: str, call: str, found: Attributions) -> None:
        """Store them."""

    def read_attributions(self, audit: str, model: str, call: str) -> Attributions | None:
        """What was stored, or None."""


class Explainer(NamedTuple):
    """A model of the run, and where its explanations go."""

    spec: ModelSpec
    model: Model
    kept: Kept
    progress: ScoringProgress
    execution: Execution
    visible: dict[int, int]
    """How many characters of the cohort's rows it reads, as far as is known from earlier calls."""

    @property
    def name(self) -> str:
        """The model's name."""
        return self.spec.name


def explained(audit: str, who: Explainer, plan: Plan[Any], part: ModelPredictions, columns: Ints) -> ModelPredictions:
    """A model's predictions with what it declares, how much of each case it reads, and what it says it looked at."""
    model = who.model
    with exits_are_errors(who.name, "reading"):
        visible = _visible_characters(model, plan, who.visible) if plan.requests.windows else None
    wanted = plan.requests.explain.get(who.name)
    found = None if wanted is None else explain(audit, who, plan.cohort, wanted, columns)
    return replace(part, facts=facts_of(model), visible=visible, attributions=found)


def _visible_characters(model: Model, plan: Plan[Any], known: dict[int, int]) -> Ints:
    """How many characters of each case in the plan the model reads, -1 for others; new ones are added to `known`."""
    cohort = plan.cohort
    rows = np.unique(plan.variants.parent[plan.variants.parent < len(cohort)])
    new = [row for row in rows.tolist() if row not in known]
    for begin in range(0, len(new), 1024):
        part = new[begin : begin + 1024]
        texts = [cohort.texts[row] for row in part]
        ends = model.visible_ends(texts) if model.window is not None else [len(text) + 1 for text in texts]
        known.update(zip(part, (int(end) for end in ends), strict=True))
    visible = np.full(len(cohort), -1, dtype=np.int64)
    visible[rows] = [known[row] for row in rows.tolist()]
    return visible


def explain(audit: str, who: Explainer, cohort: Cohort, wanted: Explain, columns: Ints) -> Attributions:
    """What a model says it looked at; `columns` are the model's columns of the plan's labels."""
    cases = np.unique(wanted.row)
    cases = cases[np.argsort([len(cohort.texts[row]) for row in cases.tolist()], kind="stable")]
    size = max(1, min(_CASES_PER_CALL, who.model.rows_per_call))
    cuts = [np.arange(begin, min(begin + size, len(cases))) for begin in range(0, len(cases), size)]
    inputs = _inputs(cohort, cases)
    asked = [_asked(wanted, columns, cases[cut]) for cut in cuts]
    names = [f"{k:05d}-{_digest(who.model, wanted.way, inputs, cut, asked[k])}" for k, cut in enumerate(cuts)]
    parts = [who.kept.read_attributions(audit, who.name, name) for name in names]
    who.progress.begin(who.name, len(cases))
    who.progress.advance(sum(len(cut) for cut, part in zip(cuts, parts, strict=True) if part is not None))
    todo = [k for k, part in enumerate(parts) if part is None]
    calls = Calls(inputs, [cuts[k] for k in todo], [asked[k] for k in todo], wanted.way)
    label = np.full(len(who.model.labels), -1, dtype=np.int64)
    label[columns] = np.arange(len(columns))
    for result in who.execution.ask(who.spec, who.model, calls) if todo else ():
        k, found = todo[result.number], result.found or no_attributions()
        answer = Attributions(cases[cuts[k]][found.row], label[found.label], found.start, found.end, found.score)
        who.kept.write_attributions(audit, who.name, names[k], answer)
        parts[k] = answer
        who.progress.advance(len(cuts[k]))
    return _joined([part for part in parts if part is not None])


def _joined(parts: Sequence[Attributions]) -> Attributions:
    return Attributions(*(np.concatenate(column) for column in zip(no_attributions(), *parts, strict=True)))


def _asked(wanted: Explain, columns: Ints, call: Ints) -> Asked:
    """What is asked about the cases of one call, by their place in it and the model's columns."""
    place = {row: k for k, row in enumerate(call.tolist())}
    mine = np.flatnonzero(np.isin(wanted.row, call))
    rows = np.array([place[row] for row in wanted.row[mine].tolist()], dtype=np.int64)
    return Asked(rows, columns[wanted.label[mine]])


def _inputs(cohort: Cohort, rows: Ints) -> Inputs:
    ids, cohorts = cohort.cases["case_id"].to_list(), cohort.cases["cohort"].to_list()
    some = Inputs.from_texts([cohort.texts[row] for row in rows.tolist()], [ids[row] for row in rows.tolist()])
    return replace(some, cohorts=[cohorts[row] for row in rows.tolist()])


def _digest(model: Model, way: str, inputs: Inputs, call: Ints, asked: Asked) -> str:
    """Changes whenever anything changes that the explanation may depend on."""
    digest = hashlib.blake2b(f"{model.fingerprint}\x1f{way}".encode(), digest_size=8)
    for row in call.tolist():
        digest.update(key_of(inputs.parents[row]))
    for column in asked:
        digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return digest.hexdigest()
