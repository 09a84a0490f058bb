"""Ask a model what it looked at, a few cases per call; each answer is checked and stored before the next call.

A run that was killed finds what was explained before in its run directory, so `--resume` asks only for the rest and
ends with the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs, Ints
from palpate.cases.hashing import key_of
from palpate.errors import ModelDied, ModelError, PalpateError
from palpate.models import Model
from palpate.models.isolation import exits_are_errors, failure
from palpate.results import SAMPLED, Asked, Attributions, Explain, ModelPredictions, Plan, no_attributions
from palpate.run.checks import facts_of
from palpate.run.execute import ScoringProgress

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

    name: str
    model: Model
    kept: Kept
    progress: ScoringProgress
    visible: dict[int, int]
    """How many characters of the cohort's rows it reads, as far as is known from earlier calls."""


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
    calls = [cases[begin : begin + size] for begin in range(0, len(cases), size)]
    who.progress.begin(who.name, len(cases))
    parts = [no_attributions()]
    for number, call in enumerate(calls):
        parts.append(_one_call(audit, who, cohort, wanted, columns, call, number))
        who.progress.advance(len(call))
    return Attributions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _one_call(
    audit: str, who: Explainer, cohort: Cohort, wanted: Explain, columns: Ints, call: Ints, number: int
) -> Attributions:
    inputs = _inputs(cohort, call)
    place = {row: k for k, row in enumerate(call.tolist())}
    mine = np.flatnonzero(np.isin(wanted.row, call))
    rows = np.array([place[row] for row in wanted.row[mine].tolist()], dtype=np.int64)
    asked = Asked(rows, columns[wanted.label[mine]])
    name = f"{number:05d}-{_digest(who.model, wanted.way, inputs, asked)}"
    kept = who.kept.read_attributions(audit, who.name, name)
    if kept is not None:
        return kept
    found = _checked(who, inputs, asked, wanted.way)
    label = np.full(len(who.model.labels), -1, dtype=np.int64)
    label[columns] = np.arange(len(columns))
    answer = Attributions(call[found.row], label[found.label], found.start, found.end, found.score)
    who.kept.write_attributions(audit, who.name, name, answer)
    return answer


def _inputs(cohort: Cohort, rows: Ints) -> Inputs:
    ids, cohorts = cohort.cases["case_id"].to_list(), cohort.cases["cohort"].to_list()
    some = Inputs.from_texts([cohort.texts[row] for row in rows.tolist()], [ids[row] for row in rows.tolist()])
    return replace(some, cohorts=[cohorts[row] for row in rows.tolist()])


def _digest(model: Model, way: str, inputs: Inputs, asked: Asked) -> str:
    """Changes whenever anything changes that the explanation may depend on."""
    digest = hashlib.blake2b(f"{model.fingerprint}\x1f{way}".encode(), digest_size=8)
    for text in inputs.parents:
        digest.update(key_of(text))
    for column in asked:
        digest.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return digest.hexdigest()


def _checked(who: Explainer, inputs: Inputs, asked: Asked, way: str) -> Attributions:
    """Call the model, and refuse an impossible explanation; errors name the model and the case."""
    try:
        with exits_are_errors(who.name, f"explaining ({way})"):
            found = _explained(who.model, inputs, asked, way)
    except ModelDied:
        raise
    except ModelError as error:
        raise error.of(who.name, None if error.case else _culprit(who, inputs, asked, way)) from error
    except PalpateError:
        raise
    except Exception as error:
        raise failure(error, who.name, f"explaining ({way})", _culprit(who, inputs, asked, way)) from error
    row, label, start, end = (np.asarray(column, dtype=np.int64) for column in found[:4])
    score = np.asarray(found.score, dtype=np.float64)
    answer = Attributions(row, label, start, end, score)
    if len({len(column) for column in answer}) != 1:
        raise ModelError(f"its explanation ({way}) has columns of different lengths", model=who.name)
    _check_rows(who, inputs, asked, answer, way)
    return answer


def _explained(model: Model, inputs: Inputs, asked: Asked, way: str) -> Attributions:
    """By the model itself, or by what it answers without random words."""
    if way in SAMPLED and way not in model.explains:
        from palpate.models.text.sampling import explain_by_sampling

        return explain_by_sampling(model, inputs, asked, way)
    return model.explain(inputs, asked, way)


def _check_rows(who: Explainer, inputs: Inputs, asked: Asked, found: Attributions, way: str) -> None:
    known = (found.row >= 0) & (found.row < len(inputs))
    if not known.all():
        raise ModelError(f"its explanation ({way}) is about a row that was not asked for", model=who.name)
    pairs = set(zip(asked.row.tolist(), asked.label.tolist(), strict=True))
    lengths = np.array([len(text) for text in inputs.parents], dtype=np.int64)
    checks: Mapping[str, NDArray[np.bool_]] = {
        "explains a label that was not asked for": np.array(
            [pair not in pairs for pair in zip(found.row.tolist(), found.label.tolist(), strict=True)], dtype=bool
        ),
        "points outside the text": (found.start < 0) | (found.end <= found.start) | (found.end > lengths[found.row]),
        "has a score that is not a finite number": ~np.isfinite(found.score),
    }
    for problem, wrong in checks.items():
        if wrong.any():
            case = inputs.case_ids[int(found.row[int(np.argmax(wrong))])]
            raise ModelError(f"its explanation ({way}) {problem}", model=who.name, case=case)


def _culprit(who: Explainer, inputs: Inputs, asked: Asked, way: str) -> str:
    """The first case on which the model fails by itself; the first of the call if it does not fail again."""
    for row in range(len(inputs)):
        mine = asked.row == row
        alone = Asked(np.zeros(int(mine.sum()), dtype=np.int64), asked.label[mine])
        try:
            with exits_are_errors("", ""):
                _explained(who.model, inputs.take([row]), alone, way)
        except Exception:  # the model's own failure, whatever its type, is what is searched for
            return inputs.case_ids[row]
    return inputs.case_ids[0]
