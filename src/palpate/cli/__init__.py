"""The command line. Thin: it reads options, calls `commands`, prints, and turns errors into exit codes.

0 done, 1 a gate failed, 2 the input is wrong, 3 a model failed, 70 internal error, 130 stopped.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
import threading
import time
from functools import lru_cache

from rich.markup import escape

from palpate.cli import audits, build, cache, cards, codes, evidence, exports, serve, start, suites, words
from palpate.cli.app import app, err
from palpate.errors import PalpateError, kind_of, traceback_of
from palpate.files import make_private

__all__ = ["app", "main"]

COMMANDS = (start, audits, cards, build, words, suites, codes, evidence, exports, serve, cache)
"""Importing a module of commands adds them to the application."""
app.registered_commands.sort(key=lambda command: getattr(command.callback, "__module__", "") != start.__name__)


DEBUG, WITH_NOTES = "--debug", "--debug-with-notes"
_STOPPED = 130
_SECONDS_TO_HEAR = 0.01
_with_notes = False
_KEPT = {"audit": "what was scored", "train": "what was trained"}
"""The commands with `--resume`, and what they go on from."""


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


@lru_cache(maxsize=1)
def _heed_signals() -> None:
    """Let Ctrl-C interrupt the main thread while it waits for a model.

    polars handles SIGINT too, in a way after which the system goes on with the wait, so that Python would hear of the
    signal only when the model has answered. Python notes each signal in a pipe; a thread that reads it interrupts the
    wait with another signal, of no other meaning, again and again until the main thread has heard it: one that comes
    before the system has gone back to the wait interrupts nothing.
    """
    if not hasattr(signal, "SIGURG"):
        return
    heard, noted = os.pipe()
    os.set_blocking(noted, False)
    awake: list[int] = []  # no lock: a handler may interrupt itself
    signal.signal(signal.SIGURG, lambda number, _: awake.append(number))
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    main_thread = threading.main_thread().ident or 0

    def interrupt() -> None:
        while numbers := os.read(heard, 1):
            if numbers[0] == signal.SIGURG:
                continue
            awake.clear()
            while not awake:
                signal.pthread_kill(main_thread, signal.SIGURG)
                time.sleep(_SECONDS_TO_HEAR)

    threading.Thread(target=interrupt, daemon=True).start()


def main() -> None:
    """Run the command line; errors are one sentence on stderr, below a traceback only with --debug.

    The traceback has no text of an exception that is not palpate's, unless --debug-with-notes asks for it.
    """
    global _with_notes
    make_private()
    _with_notes = WITH_NOTES in sys.argv
    sys.argv = [DEBUG if word == WITH_NOTES else word for word in sys.argv]
    signal.signal(signal.SIGTERM, _stop)
    _heed_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except PalpateError as error:
        _end(error, str(error), error.exit_code)
    except KeyboardInterrupt as error:
        _end(error, _stopped(sys.argv), _STOPPED)
    except SystemExit as stop:  # Typer turns Ctrl-C into it
        if stop.code != _STOPPED:
            raise
        _end(stop, _stopped(sys.argv), _STOPPED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full; free some space and run the command again" if full else error.strerror
        again = f" with --resume: {_KEPT[sys.argv[1]]} is kept" if full and _resumes(sys.argv) else ""
        _end(error, f"{error.filename or 'a file'}: {what or kind_of(error)}{again}.", 2)
    except MemoryError as error:
        _end(error, "there is not enough memory for this; take fewer cases, labels or replicates.", 2)
    except Exception as error:
        if isinstance(error, UnicodeEncodeError) and not all(map(str.isprintable, sys.argv)):
            _end(error, "a word of the command line is not valid text; type it again.", 2)
        _end(
            error,
            f"internal error ({kind_of(error)}); run the command again with --debug and report the traceback.",
            70,
        )


def _resumes(words: list[str]) -> bool:
    return any(word in _KEPT for word in words[1:2])


def _stopped(words: list[str]) -> str:
    """What to say about a command that was stopped: how to go on with it."""
    if not _resumes(words):
        return "stopped."
    again = shlex.join(["palpate", *words[1:], *([] if "--resume" in words else ["--resume"])])
    return f"stopped; {_KEPT[words[1]]} is kept. To go on: {again}"


def _end(error: BaseException, sentence: str, code: int) -> None:
    if DEBUG in sys.argv:
        sys.stderr.write(traceback_of(error, with_notes=_with_notes))
    err.print(f"[red]palpate:[/red] {escape(sentence)}", soft_wrap=True)
    sys.exit(code)
