"""Score each input of one model once: from the cache where it is known, from the model where it is not.

Promises (DESIGN.md, "Scoring"): every prediction is in the cache before the next call's is taken, so a kill
loses at most the calls in flight; and the calls of a resumed run are those of the run that was killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from palpate.cases import scratch
from palpate.cases.edits import Ints
from palpate.cases.keys import KeyArray, KeyPlaces, as_bytes
from palpate.errors import ConfigError
from palpate.models import Model, ModelSpec
from palpate.models.isolation import exits_are_errors
from palpate.models.ledger import AsksForAnswers
from palpate.results.plan import Outcomes
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.calls import CallResult, Calls, RowsOfCalls
from palpate.run.execute.cluster import MOST_WORKERS, RayOptions
from palpate.run.execute.ledger import AnswerLedger
from palpate.run.execute.local import ask_here, ask_workers
from palpate.run.execute.wanted import ScoringTable, Wanted, want

_MOST_ROWS = 4096
"""The most rows in one call, however short the texts are."""


class Pending(Protocol):
    """Where the list of a model's unscored inputs is stored between a kill and a resume."""

    def write_pending(self, model: str, keys: KeyArray) -> None:
        """Store it."""

    def read_pending(self, model: str) -> KeyArray | None:
        """What was stored, or None."""


class ScoringProgress(Protocol):
    """Told how far the scoring is; the command line draws it."""

    def begin(self, model: str, total: int) -> None:
        """`total` inputs are to be scored."""

    def advance(self, n: int) -> None:
        """`n` more inputs are scored."""


class Scored(NamedTuple):
    """One model's predictions, one row for everything that was asked for."""

    p: NDArray[np.float64]
    seen: NDArray[np.bool_]
    counts: Mapping[str, int]
    """asked, edited, outside_window, distinct; and of those distinct: cached, scored."""
    outcomes: Outcomes | None = None
    """What came of asking, of a model whose answers may be none."""

    def spread(self, rows: Ints, n: int) -> Scored:
        """The predictions at some of `n` rows; NaN at the others."""
        p, seen = scratch.filled((n, self.p.shape[1]), np.nan), np.ones(n, dtype=bool)
        p[rows], seen[rows] = self.p, self.seen
        return Scored(p, seen, self.counts, None if self.outcomes is None else self.outcomes.spread(rows, n))


@dataclass(frozen=True)
class Execution:
    """Where the models run, and in how many processes."""

    executor: Literal["local", "ray"] = "local"
    n_workers: int = 1
    ray: RayOptions = field(default_factory=RayOptions)

    def __post_init__(self) -> None:
        if self.n_workers > MOST_WORKERS:
            raise ConfigError(f"{self.n_workers:,} workers are more than {MOST_WORKERS:,}", hint="use fewer")

    def ask(
        self, spec: ModelSpec, model: Model, calls: Calls, *, call_timeout: float | None = None
    ) -> Iterator[CallResult]:
        """Predictions or explanations for the calls, in any order."""
        away = bool(spec.source) and not model.asked_here
        if self.executor == "ray" and away and len(calls):
            from palpate.run.execute.ray import ask_ray

            return ask_ray(spec, model, calls, options=self.ray, n_workers=self.n_workers, call_timeout=call_timeout)
        if self.n_workers > 1 and away:
            return ask_workers(spec, calls, n_workers=self.n_workers, call_timeout=call_timeout)
        return ask_here(spec.name, model, calls, call_timeout=call_timeout)


def score(
    spec: ModelSpec,
    model: Model,
    asked: ScoringTable,
    *,
    cache: ScoreCache,
    pending: Pending,
    execution: Execution,
    progress: ScoringProgress,
    run_id: str,
    call_timeout: float | None = None,
    turn: int = 0,
) -> Scored:
    """All predictions of one model; `turn` counts how often audits have asked for more."""
    with exits_are_errors(spec.name, "reading"):
        wanted = want(asked, model)
    n, n_labels = len(wanted.keys), len(model.labels)
    if model.cached:
        known, p = cache.get(cached_as(model, run_id), wanted.keys, n_labels, may_miss=model.may_miss)
    else:
        known, p = np.zeros(n, dtype=bool), scratch.filled((n, n_labels), np.nan)
    counts = _counts(asked, wanted, known)
    listed_as = spec.name if not turn else f"{spec.name}~{turn}"
    calls = _calls(listed_as, model, wanted, known, pending)
    progress.begin(spec.name, sum(len(call) for call in calls))
    todo = Calls(wanted.inputs, RowsOfCalls(wanted.rows, calls))
    with _answers(spec, model, cache, run_id):
        for result in execution.ask(spec, model, todo, call_timeout=call_timeout):
            positions, answer = calls[result.number], result.p
            model.may_change = result.may_change
            model.notices = tuple(dict.fromkeys([*model.notices, *result.notices]))
            if model.cached:
                cache.put(cached_as(model, run_id), wanted.keys[positions], answer)
            p[positions] = np.where(known[positions, None], p[positions], answer)
            progress.advance(len(positions))
        outcomes = model.outcomes(as_bytes(wanted.keys)) if isinstance(model, AsksForAnswers) else None
    whole = None if outcomes is None else outcomes.take(wanted.distinct, np.arange(n_labels))
    return Scored(scratch.taken(p, wanted.distinct), wanted.seen, counts, whole)


@contextmanager
def _answers(spec: ModelSpec, model: Model, cache: ScoreCache, run_id: str) -> Iterator[None]:
    """Where a model that is paid by the answer stores its answers."""
    if not isinstance(model, AsksForAnswers):
        yield
        return
    ledger = AnswerLedger(cache.path, model=cached_as(model, run_id), run=f"{run_id} {spec.name}")
    model.use(ledger)
    try:
        yield
    finally:
        ledger.close()


def cached_as(model: Model, run_id: str) -> str:
    """The model's name in the cache: scores that another run must not take for its own belong to this run."""
    return model.fingerprint if model.may_change is None else f"{model.fingerprint}@{run_id}"


def _calls(name: str, model: Model, wanted: Wanted, known: NDArray[np.bool_], pending: Pending) -> list[Ints]:
    """The calls that remain, cut as they were when the run started."""
    if not model.cached:  # nothing was stored, so all is asked again, in the same order
        return cut_calls(wanted.order, model, wanted.n_characters)
    listed, chosen = pending.read_pending(name), None
    if listed is not None:
        chosen = KeyPlaces(wanted.keys).find(listed)
    if chosen is None or np.any(chosen < 0):
        chosen = wanted.order if not known.any() else wanted.order[~known[wanted.order]]
        pending.write_pending(name, scratch.taken(wanted.keys, chosen))
    # What another run forgot (a cache that was deleted) is asked at the end.
    lost = ~known
    lost[chosen] = False
    if lost.any():
        chosen = np.concatenate([chosen, wanted.order[lost[wanted.order]]])
    calls = cut_calls(chosen, model, wanted.n_characters)
    return [call for call in calls if not known[call].all()]


def cut_calls(chosen: Ints, model: Model, n_characters: Ints) -> list[Ints]:
    """Calls of `rows_per_call` rows; more of them where texts are short, up to `characters_per_call`."""
    size, most = model.rows_per_call, model.characters_per_call
    if most is None:
        return [chosen[begin : begin + size] for begin in range(0, len(chosen), size)]
    total = scratch.empty(len(chosen) + 1, np.int64)
    total[0] = 0
    np.take(n_characters, chosen, out=total[1:], mode="clip")
    np.cumsum(total, out=total)
    calls, begin = [], 0
    while begin < len(chosen):
        fitting = int(np.searchsorted(total, total[begin] + most, side="right")) - 1
        end = min(max(begin + size, fitting), begin + _MOST_ROWS)
        calls.append(chosen[begin:end])
        begin = end
    return calls


def _counts(asked: ScoringTable, wanted: Wanted, known: NDArray[np.bool_]) -> dict[str, int]:
    return {
        "asked": len(asked.inputs),
        "edited": int(np.count_nonzero(asked.inputs.n_edits)),
        "outside_window": int(np.count_nonzero(~wanted.seen)),
        "distinct": len(wanted.keys),
        "cached": int(np.count_nonzero(known)),
        "scored": int(np.count_nonzero(~known)),
    }
