"""What a run would do, without doing it: inputs per model, what is cached, and an estimate of time, disk and memory.

Models are loaded and audits plan as in the run. Then each model scores a few of the inputs that it would be asked for,
from the shortest to the longest texts, and the audits analyse made-up predictions with few replicates. Nothing of that
is kept: neither the cache nor the run directory is written.

Planning takes as long as in the run, so of many cases only two samples are planned, from which the numbers are drawn
out (`palpate.run.extrapolation`); the preview says so.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints
from palpate.errors import InputError, LimitReached, PalpateError
from palpate.models import Model
from palpate.results import AdaptiveAudit, Audit, ModelPredictions, Plan, Predictions
from palpate.run.checks import cases_with_images
from palpate.run.execute import cached_as, cut_calls
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.local import checked
from palpate.run.execute.wanted import ScoringTable, Wanted, gather, want
from palpate.run.extrapolation import ModelPreview, RunPreview, drawn_out, forecast, samples_of
from palpate.run.runner import Job, Member, NullProgress, RunProgress, load_members, plan_all, stream

STRATA = 5
"""Parts of a model's inputs, by length, of which one call each is measured."""
LONG_ENOUGH, FIRST_ROWS = 0.3, 4
"""A call is measured on more and more of its rows, until it takes so many seconds."""
_CACHE_ROW, _VARIANT_ROW = 80, 30
"""Bytes beside the probabilities: a key with its index, and an edit in Parquet."""
_AT_ONCE = 4
"""Requests that an endpoint answers at the same time, unless its option `concurrency` says otherwise."""
_FEW, _MORE = 40, 10
"""An analysis is measured with a fortieth and a tenth of its replicates."""


def preview(
    job: Job, cache: ScoreCache | None, progress: RunProgress | None = None, *, whole: bool = False
) -> RunPreview:
    """Plan a run and measure samples of its work; `cache` is the cache that the run would use, if there is one.

    Of many cases, samples are planned, unless the preview is of the `whole` run.
    """
    progress = progress or NullProgress()
    loading: dict[str, float] = {}
    progress.stage("loading models")
    with _timed(loading, "loading models"):
        members = load_members(job.models)
    try:
        job = replace(job, cohort=cases_with_images(job.cohort, [member.model for member in members]))
        found = None if whole else _from_samples(job, members, cache, progress)
        found = found or _look(job, members, cache, progress)
        _leave_out(job.audits, found)
    finally:
        for member in members:
            member.model.close()
    found.stages = loading | found.stages
    return found


def _from_samples(
    job: Job, members: Sequence[Member], cache: ScoreCache | None, progress: RunProgress
) -> RunPreview | None:
    """What samples of the cases tell about the run; None where there are few cases, or too few in the samples."""
    seen: list[tuple[int, RunPreview]] = []
    for some in samples_of(job.cohort):
        with suppress(InputError):  # an audit that finds too few cases; what a model does wrong is told
            seen.append((len(some), _look(replace(job, cohort=some), members, cache, progress)))
    if len(seen) < 2:  # one alone does not tell what grows with the cases
        return None
    found = drawn_out(seen, len(job.cohort), {member.spec.name: member.model for member in members})
    found.n_cases, found.n_patients = len(job.cohort), job.cohort.n_patients
    return found


def _look(job: Job, members: Sequence[Member], cache: ScoreCache | None, progress: RunProgress) -> RunPreview:
    """Plan, and measure."""
    found = RunPreview(len(job.cohort), job.cohort.n_patients)
    progress.stage("planning")
    with _timed(found.stages, "planning"):
        plans = plan_all(job, members)
        table = gather(job.cohort, plans)
    found.variants = {name: len(plan.variants) for name, plan in plans.items()}
    for member in members:
        progress.stage(f"measuring {member.spec.name}")
        found.models.append(_model(member, table, plans, cache, job.execution.n_workers))
    progress.stage("measuring the analyses")
    _analyses(job, members, plans, found)
    found.disk, found.memory = _disk(found, plans), _memory(found)
    return found


@contextmanager
def _timed(stages: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    stages[name] = stages.get(name, 0.0) + time.perf_counter() - began


# --- scoring ------------------------------------------------------------------------------------------------


def _model(
    member: Member, table: ScoringTable, plans: Mapping[str, Plan[Any]], cache: ScoreCache | None, n_workers: int
) -> ModelPreview:
    name, model = member.spec.name, member.model
    began = time.perf_counter()
    rows = table.rows_for(name, plans)
    asked = table if rows is None else table.take(rows)
    wanted = want(asked, model)
    known = np.zeros(len(wanted.keys), dtype=bool)
    if cache is not None and model.cached and model.may_change is None:
        known, _ = cache.get(cached_as(model, ""), wanted.keys, len(model.labels), may_miss=model.may_miss)
    hashing = time.perf_counter() - began
    todo = wanted.order[~known[wanted.order]]
    remote = member.spec.source.startswith(("http:", "https:"))
    seconds, measured = _score_sample(name, model, wanted, todo, most=2 if remote else None)
    at_once = int(member.spec.options.get("concurrency", _AT_ONCE)) if remote else n_workers
    explained = sum(len(plan.requests.explain[name].row) for plan in plans.values() if name in plan.requests.explain)
    return ModelPreview(
        name=name,
        asked=len(asked.inputs),
        outside_window=int(np.count_nonzero(~wanted.seen)),
        distinct=len(wanted.keys),
        cached=int(np.count_nonzero(known)),
        n_characters=int(wanted.n_characters[todo].sum()),
        n_labels=len(model.labels),
        remote=remote,
        seconds=hashing + seconds / max(1, min(at_once, len(todo))),
        measured=measured,
        explained=explained,
        forecast=forecast(model, len(todo), int(wanted.n_characters[todo].sum())),
    )


def _score_sample(name: str, model: Model, wanted: Wanted, todo: Ints, *, most: int | None) -> tuple[float, int]:
    """Seconds for all of `todo`, and how many inputs were scored to know: each part of the order has its own pace."""
    if not len(todo):
        return 0.0, 0
    began = time.perf_counter()
    checked(name, model, wanted.take(todo[:1]))  # the first call may prepare things for all others
    total, measured = time.perf_counter() - began, 1
    for part in np.array_split(todo, min(STRATA, len(todo))):
        calls = cut_calls(part, model, wanted.n_characters)
        call = calls[len(calls) // 2]
        try:
            pace, rows = _pace(name, model, wanted, call if most is None else call[:most])
        except LimitReached:  # a sample may cost no more than the run
            return total * len(todo) / measured, measured
        total += pace * len(part)
        measured += rows
    return total, measured


def _pace(name: str, model: Model, wanted: Wanted, call: Ints) -> tuple[float, int]:
    """Seconds per input of a call, from as many of its rows as take long enough to be measured."""
    n = min(FIRST_ROWS, len(call))
    while True:
        inputs = wanted.take(call[:n])
        began = time.perf_counter()
        checked(name, model, inputs)
        seconds = time.perf_counter() - began
        if seconds >= LONG_ENOUGH or n == len(call):
            return seconds / n, n
        n = min(len(call), n * 4)


# --- analyses -----------------------------------------------------------------------------------------------


def _analyses(job: Job, members: Sequence[Member], plans: Mapping[str, Plan[Any]], found: RunPreview) -> None:
    for name, plan in plans.items():
        made_up = Predictions({each.spec.name: _made_up(each, plan, k) for k, each in enumerate(members)})
        try:
            found.stages[f"analysing {name}"] = _analysis_seconds(job, job.audits[name], plan, made_up)
        except (PalpateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
            # An audit may need more than probabilities, such as explanations, which are not made up here.
            found.notes.append(f"the time to analyse {name} is not known")


def _analysis_seconds(job: Job, audit: Audit, plan: Plan[Any], made_up: Predictions) -> float:
    """Seconds for an analysis: measured with few replicates twice, and drawn out to all of them."""

    def seconds(one: Audit) -> float:
        began = time.perf_counter()
        one.analyse(plan, made_up, stream(job.seed, one.name, "analyse"))
        return time.perf_counter() - began

    n = getattr(audit, "n_replicates", None)
    if not isinstance(n, int) or n < 10 * _FEW:
        return seconds(audit)
    few, more = n // _FEW, n // _MORE
    seconds(_with_replicates(audit, few))  # compiles what is compiled on first use, as a run does only once
    short, longer = seconds(_with_replicates(audit, few)), seconds(_with_replicates(audit, more))
    slope = max(0.0, (longer - short) / (more - few))
    return longer + slope * (n - more)


def _with_replicates(audit: Audit, n: int) -> Audit:
    made: Audit = dataclasses.replace(audit, n_replicates=n)  # type: ignore[type-var]
    return made


def _made_up(member: Member, plan: Plan[Any], number: int) -> ModelPredictions:
    """Predictions that know a little of the labels, and move a little with each edit."""
    rng = np.random.default_rng([17, number])
    parent, n_cases = plan.variants.parent, len(plan.cohort)
    known = np.zeros((int(parent.max(initial=-1)) + 1, len(plan.labels)))
    rows = np.arange(min(n_cases, len(known)))
    known[rows] = plan.cohort.y_true(rows, plan.labels)
    base = known + rng.normal(size=known.shape)
    moved: NDArray[np.float64] = base[parent] + 0.1 * rng.normal(size=(len(parent), len(plan.labels)))
    moved = np.where((plan.variants.n_edits > 0)[:, None], moved, base[parent])
    visible = None
    if plan.requests.windows:
        visible = np.asarray([len(text) for text in plan.cohort.texts], dtype=np.int64)
    return ModelPredictions(
        labels=plan.labels,
        p=1 / (1 + np.exp(1 - moved)),
        seen=np.ones(len(parent), dtype=bool),
        threshold=member.model.threshold,
        ensemble=member.ensemble,
        visible=visible,
    )


# --- the rest -----------------------------------------------------------------------------------------------


def _leave_out(audits: Mapping[str, Audit], found: RunPreview) -> None:
    """What the numbers do not say."""
    for name, audit in audits.items():
        if isinstance(audit, AdaptiveAudit) and audit.without_turns() != audit:
            found.notes.append(f"{name} may ask for more once it has seen predictions")
    for model in found.models:
        if model.forecast is not None and model.forecast.stops is not None:
            found.notes.append(f"{model.name} would stop at {model.forecast.stops}; a higher limit and --resume go on")
        if model.forecast is not None and model.forecast.silent:
            found.notes.append(f"{model.name} {model.forecast.silent}")
        if model.remote and model.to_score:
            found.notes.append(f"the time of {model.name} is rough: an endpoint is asked for a few texts only")
        if model.explained:
            found.notes.append(f"{model.name} is also asked for {model.explained:,} explanations")


def _disk(found: RunPreview, plans: Mapping[str, Plan[Any]]) -> int:
    """Bytes for the cache, the list of variants and the predictions."""
    scores = sum((8 * model.n_labels + _CACHE_ROW) * model.to_score for model in found.models)
    predictions = sum(8 * model.n_labels * model.asked for model in found.models)
    edits = sum(len(plan.variants) + len(plan.variants.start) for plan in plans.values())
    made = sum(len(text.encode()) for plan in plans.values() for text in plan.variants.made)
    return scores + predictions + edits * _VARIANT_ROW + made


def _memory(found: RunPreview) -> int:
    """Bytes: the most that was used so far, and the predictions of all models."""
    try:
        import resource
        import sys

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    except ImportError:  # Windows
        most = 0
    return most + sum(2 * 8 * model.n_labels * model.asked for model in found.models)


def open_existing(path: Any) -> ScoreCache | None:
    """The cache, if there is one; a preview makes none."""
    try:
        return ScoreCache(path) if path.exists() else None
    except sqlite3.DatabaseError:
        return None
