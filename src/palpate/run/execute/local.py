"""Calling a model on this machine: in this process, or in several that each load the model.

Every answer is checked here, so that no audit sees a number that is no probability, too few rows, or a NaN from a model
that is not known to lack scores (`Model.may_miss`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import LimitReached, ModelDied, ModelError, PalpateError
from palpate.models import Model, ModelSpec, Probabilities, load_here
from palpate.models.isolation import end_with_parent, exits_are_errors, failure
from palpate.models.options import REPORT_MISSING
from palpate.run.execute.calls import Call, CallResult
from palpate.run.execute.explanations import checked_explanation

_TOLERANCE = 1e-6


def checked(name: str, model: Model, inputs: Inputs) -> Probabilities:
    """Call the model, and refuse anything but one probability per row and label; errors name the model and the case."""
    try:
        with exits_are_errors(name, "scoring"):
            p = np.asarray(model.predict(inputs), dtype=np.float64)
    except ModelDied:
        raise
    except LimitReached as error:
        raise error.of(name) from None
    except ModelError as error:
        raise error.of(name, None if error.case else _find_culprit(model, inputs)) from error
    except PalpateError:
        raise
    except Exception as error:
        raise failure(error, name, "scoring", _find_culprit(model, inputs)) from error
    expected = (len(inputs), len(model.labels))
    if p.shape != expected:
        raise ModelError(
            f"returned an array of shape {p.shape} instead of {expected} (rows, labels)",
            model=name,
            case=_case(inputs, 0),
        )
    bad = ~np.isfinite(p) | (p < -_TOLERANCE) | (p > 1 + _TOLERANCE)
    if model.may_miss:
        bad &= ~np.isnan(p)
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        value = p[row, column]
        what = "NaN" if np.isnan(value) else f"{value:g}"
        raise ModelError(
            f"predicted {what} for label '{model.labels[column]}', which is not a probability",
            model=name,
            case=_case(inputs, row),
            hint=REPORT_MISSING if np.isnan(value) else None,
        )
    return p if p.size and p.min() >= 0.0 and p.max() <= 1.0 else np.clip(p, 0.0, 1.0)


def _case(inputs: Inputs, row: int) -> str:
    return inputs.case_ids[row] or "(a text made by the audit)"


def _find_culprit(model: Model, inputs: Inputs) -> str:
    """The first case on which the model fails, found by halving; the first of the batch if it does not fail again."""
    first, last = 0, len(inputs)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            with exits_are_errors("", ""):
                model.predict(inputs.take(np.arange(first, middle)))
        except Exception:  # the model's own failure, whatever its type, is what is searched for
            last = middle
        else:
            first = middle
    return _case(inputs, first)


def ask_here(
    name: str, model: Model, calls: Iterable[Call], *, call_timeout: float | None = None
) -> Iterator[CallResult]:
    """One call after the other, in this process."""
    for call in calls:
        yield answer(name, model, call) if call_timeout is None else _within(call_timeout, name, model, call)


def answer(name: str, model: Model, call: Call) -> CallResult:
    """What the model says to one call, checked."""
    if call.asked is None:
        p = checked(name, model, call.inputs)
        return CallResult(call.number, p, model.may_change, notices=model.notices)
    found = checked_explanation(name, model, call.inputs, call.asked, call.way)
    return CallResult(call.number, np.zeros((0, len(model.labels))), model.may_change, found)


def _within(seconds: float, name: str, model: Model, call: Call) -> CallResult:
    """`answer` with a time limit; a thread that hangs is abandoned and ends with the process."""
    future: Future[CallResult] = Future()

    def work() -> None:
        try:
            future.set_result(answer(name, model, call))
        except BaseException as error:  # handed to the waiting thread, which raises it
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        return future.result(timeout=seconds)
    except FutureTimeout:
        raise _too_slow(name, seconds, call.inputs) from None


def _too_slow(name: str, seconds: float, inputs: Inputs) -> ModelError:
    return ModelError(
        f"no prediction for {len(inputs)} rows within {seconds:g} s",
        model=name,
        case=_case(inputs, 0),
        hint="raise `call_timeout` or lower `batch_size` in its options",
    )


_worker_model: Model | None = None


def _start_worker(spec: ModelSpec, parent: int) -> None:
    global _worker_model
    # The parent's own number: a parent that was killed while this process booted is not its parent any more.
    threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
    _worker_model = load_here(spec)  # the worker is a process of its own already


def _work(name: str, call: Call, call_timeout: float | None) -> CallResult:
    if _worker_model is None:
        raise ModelError("was not loaded in the worker", model=name)
    return next(ask_here(name, _worker_model, [call], call_timeout=call_timeout))


@contextmanager
def _threads_per_worker(n_workers: int) -> Iterator[None]:
    """Workers share the cores instead of each taking all of them."""
    name, before = "OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS")
    os.environ[name] = before or str(max(1, (os.cpu_count() or 1) // n_workers))
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


def ask_workers(
    spec: ModelSpec, calls: Iterable[Call], *, n_workers: int, call_timeout: float | None = None
) -> Iterator[CallResult]:
    """Calls spread over processes; predictions come as they are ready, in any order.

    Where a process dies, what was asked and not answered is asked again in new ones. A model that kills them again and
    again without an answer in between ends the run.
    """
    todo, deaths = iter(calls), 0
    open_calls: dict[int, Call] = {}
    while True:
        try:
            for result in _ask_pool(spec, todo, open_calls, n_workers, call_timeout):
                deaths = 0
                yield result
            return
        except BrokenExecutor as error:
            deaths += 1
            if deaths >= MOST_DEATHS:
                raise ModelDied(died_again(deaths), model=spec.name, hint="is there enough memory?") from error


MOST_DEATHS = 3
"""So many deaths in a row, without an answer in between, and a model is not tried again."""


def died_again(times: int) -> str:
    """The sentence for a model that no worker survives."""
    return f"its worker process died {times} times, with no prediction in between"


def _ask_pool(
    spec: ModelSpec, todo: Iterator[Call], open_calls: dict[int, Call], n_workers: int, call_timeout: float | None
) -> Iterator[CallResult]:
    """Answers of one set of processes: first to `open_calls`, which others left unanswered, then to the next ones.

    A few calls are in flight at a time, so that memory does not grow with the number of calls.
    """
    with _threads_per_worker(n_workers):
        pool = ProcessPoolExecutor(
            n_workers, get_context("spawn"), initializer=_start_worker, initargs=(spec, os.getpid())
        )
        try:
            waiting = {pool.submit(_work, spec.name, call, call_timeout) for call in open_calls.values()}
            while True:
                while len(waiting) < 2 * n_workers and (call := next(todo, None)) is not None:
                    open_calls[call.number] = call
                    waiting.add(pool.submit(_work, spec.name, call, call_timeout))
                if not waiting:
                    return
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for result in _answered(ready):
                    del open_calls[result.number]
                    yield result
        finally:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)


def _answered(ready: Iterable[Future[CallResult]]) -> Iterator[CallResult]:
    """The answers, and only then the first failure: what is answered is kept."""
    failed = [future for future in ready if future.exception() is not None]
    yield from (future.result() for future in ready if future not in failed)
    for future in failed:
        future.result()
