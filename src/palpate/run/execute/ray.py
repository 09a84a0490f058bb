"""Calling a model on a Ray cluster: actors that each load the model, and calls spread over them.

The calls and their contents are the same as on one machine, so the results are too. `RAY_ADDRESS` names a running
cluster; without it Ray starts on this machine. The nodes must see the model's files under the same path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from palpate.errors import MissingExtra, ModelError
from palpate.models import ModelSpec, load_here
from palpate.run.execute.local import Call, CallResult, ask_here


class _Scorer:
    """Lives in a Ray worker with its own copy of the model."""

    def __init__(self, spec: ModelSpec, call_timeout: float | None) -> None:
        self._name, self._call_timeout = spec.name, call_timeout
        self._model = load_here(spec)

    def ask(self, call: Call) -> CallResult:
        return next(ask_here(self._name, self._model, [call], call_timeout=self._call_timeout))


def ask_ray(
    spec: ModelSpec, calls: Iterable[Call], *, n_workers: int, call_timeout: float | None = None
) -> Iterator[CallResult]:
    """Calls spread over `n_workers` actors; predictions come as they are ready, in any order."""
    ray = _connect(n_workers)
    scorer = ray.remote(_Scorer)
    actors = [scorer.remote(spec, call_timeout) for _ in range(n_workers)]
    try:
        yield from _drain(ray, actors, calls)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        raise cause from None
    except ray.exceptions.RayError as error:
        raise ModelError(f"the cluster failed ({type(error).__name__})", model=spec.name) from error
    finally:
        for actor in actors:
            ray.kill(actor)


def _connect(n_workers: int) -> Any:
    """Ray, started: the cluster that exists, or one on this machine without usage statistics."""
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", needed_for="`executor: ray`") from None
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": n_workers}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", **local)
    return ray


def _drain(ray: Any, actors: list[Any], calls: Iterable[Call]) -> Iterator[CallResult]:
    """Each actor works on one call and has one waiting."""
    todo = iter(calls)
    busy: dict[Any, Any] = {}
    for actor in [*actors, *actors]:
        if (call := next(todo, None)) is not None:
            busy[actor.ask.remote(call)] = actor
    while busy:
        (ready,), _ = ray.wait(list(busy), num_returns=1)
        actor = busy.pop(ready)
        if (call := next(todo, None)) is not None:
            busy[actor.ask.remote(call)] = actor
        yield ray.get(ready)
