"""Calling a model on a Ray cluster: Ray Data over a plan that is kept in Parquet shards.

The calls, with the places of their edits and without a character of a note, are written to shards beside the run. Ray
Data reads them on this machine, one block per call, and hands them to a pool of workers that each load the model
once. Notes and replacements are in Ray's object store. Answers come back as they are ready and go into the cache, so
that neither the plan nor the answers must fit into memory. The calls and their contents are those of a run on one
machine, so the results are too.

A worker that dies is started anew, and its call is asked again; an answer that comes twice counts once. Where a node
dies, what is not answered is asked of a new set of workers, on the nodes that are left.
"""

from __future__ import annotations

import inspect
import logging
import os
import pickle
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs, Ints
from palpate.errors import ConfigError, MissingExtra, ModelDied, ModelError, PalpateError, kind_of
from palpate.models import Model, ModelSpec, load_here
from palpate.results import Asked
from palpate.run.execute import local
from palpate.run.execute.calls import Call, CallResult, Calls, names_of_parents, write_shards
from palpate.run.execute.cluster import (
    HERE,
    RUNNING,
    RayOptions,
    ShippedFiles,
    check_answers,
    check_nodes,
    check_target,
    unpacked,
)
from palpate.run.execute.local import ask_here

_CHARACTERS_PER_BLOCK = 1 << 25
_MOST_TRIES = 5
"""So often a call is asked whose worker dies."""
_STARTS = 3
"""So often Ray is started on this machine: it gives itself 30 seconds, which a busy one exceeds now and then."""


class _Elsewhere(Exception):
    """The traceback of a worker, as the cause of an error here."""


def ask_ray(
    spec: ModelSpec,
    model: Model,
    calls: Calls,
    *,
    options: RayOptions,
    n_workers: int,
    call_timeout: float | None = None,
) -> Iterator[CallResult]:
    """Calls spread over workers of the cluster; answers come as they are ready, in any order."""
    ray, losses = connect(options, n_workers), 0
    answered = np.zeros(len(calls), dtype=bool)
    task = _Task.of(ray, spec, model.fingerprint, calls, options, call_timeout)
    while not answered.all():
        with tempfile.TemporaryDirectory(prefix="palpate-plan-") as folder:
            shards = write_shards(calls, Path(folder), np.flatnonzero(~answered).tolist())
            try:
                for message in _stream(ray, shards, task, options, n_workers):
                    result = _opened(message)
                    if not answered[result.number]:
                        answered[result.number], losses = True, 0
                        yield result
            except ray.exceptions.RayError as error:
                losses += 1
                if losses >= local.MOST_DEATHS or not _lost(ray, error):
                    raise _failed(ray, error, spec.name) from error
            else:
                if not answered.all():
                    problem, hint = "the cluster ended before all was scored", "run it again with --resume"
                    raise ModelError(problem, model=spec.name, hint=hint)


def connect(options: RayOptions, n_workers: int) -> Any:
    """Ray, started on this machine or connected, if notes may be sent to all of its nodes."""
    check_target(options)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("ray", needed_for="`executor: ray`") from None
    if not ray.is_initialized():
        _start(ray, options, n_workers)
    nodes = [str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]]
    try:
        check_nodes(nodes, options)
        _check_room(ray.cluster_resources(), options, n_workers)
    except ConfigError:
        ray.shutdown()
        raise
    return ray


def _check_room(has: dict[str, float], options: RayOptions, n_workers: int) -> None:
    """Refuse more workers than a cluster of a fixed size has room for: Ray would wait for ever."""
    if options.concurrency is not None and options.target != HERE:
        return
    n_workers = options.concurrency[0] if options.concurrency else n_workers
    for kind, each in (("CPU", options.num_cpus), ("GPU", options.num_gpus)):
        if n_workers * each > has.get(kind, 0):
            raise ConfigError(
                f"{n_workers} workers with {each:g} {kind} each need {n_workers * each:g}, and the Ray cluster has "
                f"{has.get(kind, 0):g}",
                hint="use fewer `workers` or a smaller `num_gpus`, or `concurrency: [1, MOST]` where the cluster grows",
            )


def _start(ray: Any, options: RayOptions, n_workers: int) -> None:
    target, quiet = options.target, {"log_to_driver": False, "logging_level": "error"}
    if target == HERE:
        most = options.concurrency[1] if options.concurrency else n_workers
        own: dict[str, Any] = {"num_cpus": 1 + int(np.ceil(most * options.num_cpus))}  # one reads the shards
        # GPUs are counted by Ray: a number given here would be believed, also where there are none.
        what, how = "start Ray on this machine", {"address": "local", "include_dashboard": False, **own, **quiet}
    else:
        if target != RUNNING:
            check_answers(target)
        what, how = f"connect to the Ray cluster '{target}'", {"address": target, **quiet}
    tries = _STARTS if target == HERE else 1
    for left in reversed(range(tries)):
        try:
            ray.init(**how)
        except Exception as error:  # Ray raises what it likes: a time-out, another version, no cluster
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            if "timed out" not in why or not left:
                raise ConfigError(f"can't {what} ({why})") from error
            ray.shutdown()
        else:
            return


def _lost(ray: Any, error: Exception) -> bool:
    """Whether a worker or a node died, so that what is not answered can be asked of others.

    A dead node fails every try of a call within a second or two, long before the cluster knows that it is dead.
    """
    known = ray.exceptions
    cause = error.cause if isinstance(error, known.RayTaskError) else error
    kinds = (known.RayActorError, known.ActorUnavailableError, known.ObjectLostError, known.NodeDiedError)
    return isinstance(cause, (*kinds, known.WorkerCrashedError))


def _failed(ray: Any, error: Exception, name: str) -> PalpateError:
    """The cluster's error in one sentence."""
    cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
    if isinstance(cause, PalpateError):
        return cause
    if _lost(ray, error):
        return ModelDied(local.died_again(local.MOST_DEATHS), model=name, hint="is there enough memory?")
    return ModelError(f"the cluster failed ({kind_of(cause)})", model=name, hint="--resume goes on")


# --- the plan in shards, and what stays in the object store ---------------------------------------------------


class _StoredTexts(Sequence[str]):
    """Texts in blocks of the object store, which every worker of a node reads in place; decoded one by one."""

    def __init__(self, texts: Sequence[str], put: Callable[[Any], Any]) -> None:
        self._blocks: list[Any] = []
        self._read: dict[int, tuple[NDArray[np.uint8], Ints]] = {}
        self._first = [0]
        part: list[bytes] = []
        size = 0
        for k, text in enumerate(texts):
            part.append(text.encode("utf-8", "surrogatepass"))
            size += len(part[-1])
            if size >= _CHARACTERS_PER_BLOCK or k == len(texts) - 1:
                ends = np.cumsum([0, *map(len, part)]).astype(np.int64)
                self._blocks.append(put((np.frombuffer(b"".join(part), np.uint8), ends)))
                self._first.append(k + 1)
                part, size = [], 0

    def __len__(self) -> int:
        return self._first[-1]

    @overload
    def __getitem__(self, k: int) -> str: ...
    @overload
    def __getitem__(self, k: slice) -> list[str]: ...
    def __getitem__(self, k: int | slice) -> str | list[str]:
        if isinstance(k, slice):
            return [self[each] for each in range(*k.indices(len(self)))]
        number = int(np.searchsorted(self._first, k, side="right")) - 1
        if number not in self._read:
            import ray

            self._read[number] = ray.get(self._blocks[number])
        content, ends = self._read[number]
        at = k - self._first[number]
        return content[ends[at] : ends[at + 1]].tobytes().decode("utf-8", "surrogatepass")


@dataclass
class _Task:
    """Everything that a worker needs; small, as the texts and files are in the object store."""

    spec: ModelSpec
    fingerprint: str
    call_timeout: float | None
    way: str | None
    """The explanation method; None: probabilities are asked for."""
    parents: _StoredTexts
    replacements: _StoredTexts
    names: Any
    """A reference to the case ids, cohorts and images of the parents."""
    files: Any
    """A reference to the model's files, or None."""

    @classmethod
    def of(
        cls, ray: Any, spec: ModelSpec, fingerprint: str, calls: Calls, options: RayOptions, call_timeout: float | None
    ) -> _Task:
        inputs = calls.inputs
        shipped = ShippedFiles(spec) if options.ship else None
        return cls(
            spec=spec if shipped is None else shipped.spec,
            fingerprint=fingerprint,
            call_timeout=call_timeout,
            way=None if calls.asked is None else calls.way,
            parents=_StoredTexts(inputs.parents, ray.put),
            replacements=_StoredTexts(inputs.replacements, ray.put),
            names=ray.put(
                [names_of_parents(inputs, names) for names in (inputs.case_ids, inputs.cohorts, inputs.images)]
            ),
            files=None if shipped is None or shipped.content is None else ray.put(shipped.content),
        )

    def call(self, row: dict[str, Any], names: Sequence[Sequence[str]]) -> Call:
        """A call, as it would be made on the machine that planned it."""
        parent = row["parent"]
        ids, cohorts, images = ([each[p] for p in parent.tolist()] if each else () for each in names)
        inputs = Inputs(
            parent=parent,
            first_edit=row["first_edit"],
            start=row["start"],
            end=row["end"],
            replacement=row["replacement"],
            replacements=self.replacements,
            parents=self.parents,
            case_ids=ids,
            cohorts=cohorts,
            images=images,
        ).take(np.arange(len(parent)))
        asked = None if self.way is None else Asked(row["asked_row"], row["asked_label"])
        return Call(int(row["number"]), inputs, asked, self.way or "")


# --- the workers ----------------------------------------------------------------------------------------------


class _Scorer:
    """Lives in a Ray worker with its own copy of the model, which is loaded with the first call."""

    def __init__(self, task: _Task) -> None:
        self._task = task
        self._model: Model | None = None
        self._names: Any = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """One call: what the model said, or why it failed, pickled."""
        row = {name: values[0] for name, values in batch.items()}
        try:
            answer: Any = self._answer(row)
        except PalpateError as error:
            answer = (error, traceback.format_exc())
        return {"answer": [pickle.dumps(answer)]}

    def _answer(self, row: dict[str, Any]) -> CallResult:
        task = self._task
        if self._model is None:
            import ray

            self._names = ray.get(task.names)
            self._model = self._load(ray)
        call = task.call(row, self._names)
        return next(ask_here(task.spec.name, self._model, [call], call_timeout=task.call_timeout))

    def _load(self, ray: Any) -> Model:
        spec = self._task.spec
        if self._task.files is not None:
            self._folder = tempfile.TemporaryDirectory(prefix="palpate-model-")
            spec = unpacked(spec, ray.get(self._task.files), Path(self._folder.name))
        try:
            model = load_here(spec)
        except ConfigError as error:
            node = ray.util.get_node_ip_address()
            hint = "put it on storage that all nodes see under this path, or send it with `ray: {ship: true}`"
            raise ModelError(f"can't be loaded on node {node} ({error})", model=spec.name, hint=hint) from error
        of_files = not spec.source.startswith("python:")  # whose fingerprint is of whatever its code happens to read
        if of_files and model.fingerprint != self._task.fingerprint:
            node = ray.util.get_node_ip_address()
            raise ModelError(f"node {node} has another version of its files than this machine", model=spec.name)
        return model


def _opened(message: bytes) -> CallResult:
    answer = pickle.loads(message)  # written by `_Scorer`
    if not isinstance(answer, CallResult):
        error, told = answer
        raise error from _Elsewhere(f"in a worker:\n{told}")
    return answer


def _stream(
    ray: Any, shards: Sequence[tuple[Path, int]], task: _Task, options: RayOptions, n_workers: int
) -> Iterator[bytes]:
    """The workers' messages, as Ray Data gives them."""
    fewest, most = options.concurrency or (n_workers, n_workers)
    retried = {"max_restarts": -1, "max_task_retries": _MOST_TRIES - 1}
    with _one_call_per_block(ray):
        plan = ray.data.read_datasource(
            _shard_source(ray, shards),
            override_num_blocks=len(shards),
            num_cpus=0,
            **_on_this_node(ray),
        )
        answers = plan.map_batches(
            _Scorer,
            fn_constructor_args=(task,),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=fewest, max_size=most),
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus or None,
            ray_remote_args_fn=lambda: retried,
        )
    for batch in answers.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow"):
        yield from batch.column("answer").to_pylist()


def _on_this_node(ray: Any) -> dict[str, Any]:
    """Options of the tasks that read the shards, which no other node can see."""
    node = ray.get_runtime_context().get_node_id()
    if "label_selector" in inspect.signature(ray.data.read_datasource).parameters:
        return {"label_selector": {"ray.io/node-id": node}}
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    return {"ray_remote_args": {"scheduling_strategy": strategy}}


@contextmanager
def _one_call_per_block(ray: Any) -> Iterator[None]:
    """Data sets that are made inside keep calls apart, so that a worker that dies loses one; and print nothing."""
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context, ours = ray.data.DataContext.get_current(), {"target_max_block_size": 1, "enable_progress_bars": False}
    before = {name: getattr(context, name) for name in ours}
    vars(context).update(ours)
    try:
        with warnings.catch_warnings(action="ignore"):  # of what later versions of Ray no longer have
            yield
    finally:
        vars(context).update(before)


def _shard_source(ray: Any, shards: Sequence[tuple[Path, int]]) -> Any:
    """Ray Data's source of calls: a task per shard, a block per call."""
    import pyarrow.parquet

    def reading(path: Path) -> Callable[[], Iterator[Any]]:
        def read() -> Iterator[Any]:
            table = pyarrow.parquet.read_table(path)
            for row in range(table.num_rows):
                yield table.take([row])

        return read

    class Shards(ray.data.Datasource):  # type: ignore[misc, name-defined, unused-ignore]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, *_: Any, **__: Any) -> list[Any]:
            return [
                ray.data.ReadTask(
                    reading(path),
                    ray.data.block.BlockMetadata(num_rows=n, size_bytes=None, input_files=None, exec_stats=None),
                )
                for path, n in shards
            ]

    return Shards()
