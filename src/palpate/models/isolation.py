"""A model in a process of its own: where its code crashes, exits or hangs, that process ends and palpate does not.

The two processes exchange pickled messages over the standard input and output of the new one, one answer per question.
What the model prints goes to standard error. Errors are rebuilt here by type, without the text of an exception, which
may quote a note; `--debug` shows the traceback of the other process, `--debug-with-notes` also what its errors say.

A model that runs in this process may still not end it: `exits_are_errors`.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.errors import Elsewhere, ModelDied, ModelError, PalpateError, kind_of, traceback_of
from palpate.models.protocol import Model, ModelSpec, Probabilities
from palpate.privacy import hides
from palpate.results import Asked, Attributions

_DECLARED = (
    *("labels", "fingerprint", "threshold", "reads", "window", "tells_cohorts_apart", "cached", "rows_per_call"),
    *("characters_per_call", "learned_words", "uses_edits", "explains", "may_change", "classes", "may_miss"),
    *("runs_on", "rounding", "draws"),
)
_DOING = {"load": "loading", "predict": "scoring", "explain": "explaining", "words": "listing its words"}
_BOOT = "import sys; sys.path += {path!r}; from palpate.models import serve_models; serve_models({parent})"
"""The folders that this process searches come last, so that no file in them stands in for one of Python's own."""
alone = False
"""Whether this process serves one model and nothing else."""
_SECONDS_TO_END = 5.0
_SECONDS_BETWEEN_LOOKS = 0.5


@hides("value", "traceback")
class _Answer(NamedTuple):
    """What a question to the other process gave."""

    value: Any = None
    error: PalpateError | None = None
    traceback: tuple[str, str] = ("", "")
    """Without what the errors say, and with."""
    may_change: str | None = None
    notices: tuple[str, ...] = ()


class IsolatedModel(Model):
    """A model that lives in another process, and declares here what it declares there."""

    def __init__(self, spec: ModelSpec) -> None:
        self._name, self._lock, self._busy = spec.name, threading.Lock(), threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT.format(path=sys.path, parent=os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._end = weakref.finalize(self, _end, self._process, self._busy)
        try:
            vars(self).update(self._ask("load", spec))
        except BaseException:
            self.close()
            raise

    def predict(self, inputs: Inputs) -> Probabilities:
        """See `Model`."""
        p: Probabilities = self._ask("predict", inputs)
        return p

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """See `Model`."""
        ends: NDArray[np.int64] = self._ask("visible_ends", texts)
        return ends

    def words(self) -> Sequence[str] | None:
        """See `Model`."""
        words: Sequence[str] | None = self._ask("words")
        return words

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        """See `Model`."""
        found: Attributions = self._ask("explain", inputs, asked, way)
        return found

    def close(self) -> None:
        """End the process."""
        self._end()

    def _ask(self, what: str, *arguments: Any) -> Any:
        try:
            with self._lock:
                self._busy.set()
                _send(self._process.stdin, pickle.dumps((what, arguments)))
                answer: _Answer = pickle.loads(_receive(self._process.stdout))
                self._busy.clear()
        except (OSError, EOFError, ValueError):
            raise self._died(_DOING.get(what, "reading")) from None
        vars(self).update(may_change=answer.may_change, notices=answer.notices)
        if answer.error is not None:
            quiet, full = (f"in the model's process:\n{text}" for text in answer.traceback)
            raise answer.error from Elsewhere(quiet, full)
        return answer.value

    def _died(self, doing: str) -> ModelDied:
        """How the process ended."""
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return ModelDied(f"its process closed its connection while {doing}", model=self._name)
        if code >= 0:
            return ModelDied(f"its process ended with exit status {code} while {doing}", model=self._name)
        try:
            by = signal.Signals(-code).name
        except ValueError:
            by = f"signal {-code}"
        hint = "is there enough memory?" if by == "SIGKILL" else None
        return ModelDied(f"its process was ended by {by} while {doing}", model=self._name, hint=hint)


def _end(process: subprocess.Popen[bytes], busy: threading.Event) -> None:
    """End a process that waits for its next question; one that is busy is killed."""
    if busy.is_set():
        process.kill()
    elif process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            stream.close()  # type: ignore[union-attr]


def serve(load: Callable[[ModelSpec], Model], parent: int) -> None:
    """Answer questions until there are no more: first the spec of a model to load, then what it is asked.

    `parent` is the process that asks, which may have ended before this one came so far.
    """
    global alone
    alone = True
    questions, answers = _take_channels()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the other one decides
    threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
    served, model = os.getpid(), None
    while True:
        try:
            what, arguments = pickle.loads(_receive(questions))
        except EOFError:
            return
        if what == "load":
            (spec,) = arguments
            name, arguments = spec.name, ()
            answer, model = _loaded(load, spec)
        else:
            answer = _asked(name, model, what, arguments)
        if os.getpid() != served:  # a copy of this process that the model's code made and did not end
            os._exit(0)
        _send(answers, answer)


def _loaded(load: Callable[[ModelSpec], Model], spec: ModelSpec) -> tuple[bytes, Model | None]:
    try:
        model = load(spec)
        declared = {name: getattr(model, name) for name in _DECLARED}
        return pickle.dumps(_Answer(declared, may_change=model.may_change)), model
    except BaseException as error:
        return _failure(error, spec.name, "load"), None


def _asked(name: str, model: Model | None, what: str, arguments: tuple[Any, ...]) -> bytes:
    try:
        value = getattr(model, what)(*arguments)
        told = {name: getattr(model, name) for name in ("may_change", "notices")} if model is not None else {}
        return pickle.dumps(_Answer(value, **told))
    except BaseException as error:
        return _failure(error, name, what)


def _failure(error: BaseException, name: str, what: str) -> bytes:
    """An error as a message: one of palpate's own as it is, any other by its type."""
    own = error if isinstance(error, PalpateError) else failure(error, name, _DOING.get(what, "reading"))
    both = traceback_of(error), traceback_of(error, with_notes=True)
    return pickle.dumps(_Answer(error=own, traceback=both))


def failure(error: BaseException, name: str, doing: str, case: str | None = None) -> ModelError:
    """The sentence for an exception of the model's code, which names its type and never its text."""
    hint = "see the traceback with --debug; what was scored before is kept"
    return ModelError(f"{kind_of(error)} while {doing}", model=name, case=case, hint=hint)


def _take_channels() -> tuple[IO[bytes], IO[bytes]]:
    """Standard input and output, taken from whatever else may read or print, and from copies of this process."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):
        # Else a copy that outlives this process would leave the other one waiting for an answer.
        os.register_at_fork(after_in_child=lambda: _close(questions, answers))
    return questions, answers


def _close(*streams: IO[bytes]) -> None:
    for stream in streams:
        with suppress(OSError):
            os.close(stream.fileno())


def _send(stream: IO[bytes] | None, message: bytes) -> None:
    if stream is None:
        raise EOFError
    stream.write(struct.pack("<Q", len(message)))
    stream.write(message)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> bytes:
    header = stream.read(8) if stream is not None else b""
    (size,) = struct.unpack("<Q", header) if len(header) == 8 else (0,)
    message = stream.read(size) if stream is not None and size else b""
    if not size or len(message) < size:
        raise EOFError
    return message


def end_with_parent(parent: int) -> None:
    """End a process whose run was killed: it would keep the model in memory."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


@contextmanager
def exits_are_errors(name: str, doing: str) -> Iterator[None]:
    """Around a model's code in this process: whatever would end palpate (SystemExit, KeyboardInterrupt and their like)
    is the model's error, unless a signal came."""
    signalled: list[int] = []
    handlers: dict[int, Any] = {}

    def note(number: int, frame: Any) -> None:
        signalled.append(number)
        handlers[number](number, frame)

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        handlers.update({number: handler for number, handler in before.items() if callable(handler)})
        for number in handlers:
            signal.signal(number, note)
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception):  # told by the callers, which know the case
            raise
        if signalled:
            raise KeyboardInterrupt from error
        raise failure(error, name, doing) from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
