"""Damaged Parquet files: what polars does with some of them, as an error of one sentence.

It may panic, which is no `Exception`, and its threads print where, with values perhaps. Or a length that is wrong makes
it ask for more memory than there is, which aborts the process: then the sentence is all that can still be said.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
_EXIT_CODE = 2


@contextmanager
def panics_are_errors(path: Path) -> Iterator[None]:
    """Around a read: a panic is polars' `ComputeError`, and what its threads print about it is not shown."""
    sys.stderr.flush()
    shown = os.dup(2)
    sentence = f"palpate: {path}: the file is damaged; copy or export the file again.\n"
    with tempfile.TemporaryFile() as said, _aborts_say(sentence, shown):
        os.dup2(said.fileno(), 2)
        panicked = False
        try:
            yield
        except pl.exceptions.PanicException:
            panicked = True
            raise pl.exceptions.ComputeError("the file is damaged") from None
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
            said.seek(0)
            if not panicked:
                with suppress(OSError):  # nobody reads it any more
                    os.write(2, said.read())


@contextmanager
def _aborts_say(sentence: str, shown: int) -> Iterator[None]:
    """Whatever aborts the process meanwhile ends it with a sentence; Python's own handlers would come too late."""
    if os.name == "nt":
        yield
        return
    library = ctypes.CDLL(None)
    library.signal.restype, library.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)

    def end(_: int) -> None:
        os.write(shown, sentence.encode("utf-8", "replace"))
        os._exit(_EXIT_CODE)

    handler = _HANDLER(end)
    before = library.signal(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        library.signal(signal.SIGABRT, before)
