"""Work on many notes in several processes: the same function on parts of the work, its results in their order.

Not multiprocessing: a script that calls palpate then needs no `if __name__ == "__main__"`. Notes go through pipes and
are in no file. A process that fails, for whatever reason, changes nothing: its part is done here, and fails here.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import IO, Any

_WORKER = "import sys; sys.path[:] = sys.argv[1:]; from palpate.cases.parallel import serve; serve()"
_SIZE = struct.Struct("<Q")
_AHEAD = 2
"""Parts for each process that are done before they are asked for: results do not pile up."""
_NOT_DONE = object()


def n_cores() -> int:
    """How many processor cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def each_part(
    function: Callable[..., Any], parts: Sequence[tuple[Any, ...]], *, n_processes: int | None = None
) -> Iterator[Any]:
    """`function(*part)` for each part, in order; `function` is one that can be imported, and parts can be pickled.

    >>> list(each_part(pow, [(2, 3), (3, 2)], n_processes=1))
    [8, 9]
    """
    n = min(n_processes or n_cores(), len(parts))
    if n <= 1:
        yield from (function(*part) for part in parts)
        return
    with ExitStack() as stack, ThreadPoolExecutor(n) as pool:
        team = _Team([stack.enter_context(_started()) for _ in range(n)])
        waiting = [pool.submit(team.answer, _message(function, part)) for part in parts[: _AHEAD * n]]
        try:
            for k, part in enumerate(parts):
                found = _opened(waiting[k].result())
                if len(waiting) < len(parts):
                    waiting.append(pool.submit(team.answer, _message(function, parts[len(waiting)])))
                yield function(*part) if found is _NOT_DONE else found
        except BaseException:
            for future in waiting:
                future.cancel()
            raise


class _Team:
    """The processes: each takes a part when it has done its last one; one that died takes none any more."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self._alive = set(processes)
        self._idle: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
        for process in processes:
            self._idle.put(process)

    def answer(self, message: bytes) -> bytes:
        """What a process says to a message, in a thread of its own; nothing where it failed, or where all are dead."""
        if not message:
            return b""
        process = self._idle.get()
        if process is None:
            self._idle.put(None)  # for whoever else waits
            return b""
        try:
            answer = _asked(process, message)
        except BaseException as error:
            process.kill()
            self._alive.discard(process)
            if not self._alive:
                self._idle.put(None)
            if isinstance(error, OSError | EOFError):
                return b""
            raise
        self._idle.put(process)
        return answer


def serve() -> None:
    """The other process: do what comes, until nothing more does; what this prints goes to standard error."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            function, part = pickle.loads(_receive(asked))
            answer = pickle.dumps(function(*part), protocol=pickle.HIGHEST_PROTOCOL)
        except EOFError:
            return
        except BaseException:  # told by the process that asked, which does the part again
            answer = b""
        _send(answers, answer)


@contextmanager
def _started() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for work, and ends with the block."""
    command = [sys.executable, "-c", _WORKER, *sys.path]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    except BaseException:
        process.kill()
        raise
    finally:
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        process.wait()


def _message(function: Callable[..., Any], part: tuple[Any, ...]) -> bytes:
    """What is to be done, made by the thread that owns it: a part may change while it is pickled or worked on.

    Nothing for what can't be pickled: no process does it then.
    """
    try:
        return pickle.dumps((function, part), protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PickleError, AttributeError, TypeError):
        return b""


def _asked(process: subprocess.Popen[bytes], message: bytes) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise EOFError
    _send(process.stdin, message)
    return _receive(process.stdout)


def _opened(answer: bytes) -> Any:
    """What a process found, unpickled by the thread that asked for it."""
    try:
        return pickle.loads(answer) if answer else _NOT_DONE
    except Exception:  # whatever the classes of a result raise: the part is done here, where nothing is unpickled
        return _NOT_DONE


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(_SIZE.pack(len(message)) + message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    message = stream.read(size)
    if len(message) < size:
        raise EOFError
    return message
