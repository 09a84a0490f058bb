"""Progress for people who wait: one line, written over, on stderr; nothing where nobody looks."""

from __future__ import annotations

import sys
import time

_SECONDS = 0.2


class NotebookProgress:
    """`scoring bert: 1,200 of 4,000, 310/s`, on one line that is written over; see `RunProgress`."""

    def __init__(self) -> None:
        self._model, self._total, self._done = "", 0, 0
        self._began = self._said = 0.0
        self._width = 0

    def stage(self, text: str) -> None:
        """What the run does now."""
        self._say(f"{text} …")
        if text.startswith("writing the report"):
            self._say("")

    def note(self, text: str) -> None:
        """What the user should know."""
        self._say("")
        sys.stderr.write(text + "\n")

    def begin(self, model: str, total: int) -> None:
        """A model has `total` inputs to score."""
        self._model, self._total, self._done, self._began = model, total, 0, time.monotonic()

    def advance(self, n: int) -> None:
        """`n` more inputs are scored."""
        self._done += n
        now = time.monotonic()
        if self._done >= self._total or now - self._said >= _SECONDS:
            self._said = now
            rate = self._done / max(now - self._began, 1e-9)
            self._say(f"scoring {self._model}: {self._done:,} of {self._total:,}, {rate:,.0f}/s")

    def _say(self, text: str) -> None:
        if _watched():
            sys.stderr.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            sys.stderr.flush()
            self._width = len(text)


def _watched() -> bool:
    """Whether somebody looks: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
