"""Progress on the terminal: a bar with rate and time left; elsewhere plain lines."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_OF_SILENCE = 30.0
"""A stage that takes longer says that it is still at work."""


class TerminalProgress:
    """Shows stages and scoring on stderr; use it as a context."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.told: list[str] = []
        """What the user knows already."""
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._total = self._done = 0
        self._model = ""
        self._began = self._said = 0.0
        self._stage, self._staged = "", 0.0
        self._ended = threading.Event()

    def __enter__(self) -> TerminalProgress:
        if self._console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
        threading.Thread(target=self._keep_talking, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._bar is not None:
            self._bar.stop()

    def _keep_talking(self) -> None:
        """While a stage goes on, say so now and then: planning or analysing may take minutes."""
        while not self._ended.wait(_SECONDS_OF_SILENCE):
            stage, since = self._stage, time.monotonic() - self._staged
            if stage and since >= _SECONDS_OF_SILENCE:
                self._console.print(f"[dim]still {escape(stage)}, for {timedelta(seconds=round(since))}[/dim]")

    def stage(self, text: str) -> None:
        """What the run does now."""
        self._stage, self._staged = text, time.monotonic()
        self._console.print(f"[dim]{text} …[/dim]", highlight=False)

    def note(self, text: str) -> None:
        """What the user should know."""
        self.told.append(text)
        self._console.print(escape(text), highlight=False, soft_wrap=True)

    def begin(self, model: str, total: int) -> None:
        """A model has `total` inputs to score."""
        self._stage = ""  # the scoring says itself how far it is
        self._model, self._total, self._done = model, total, 0
        self._began = self._said = time.monotonic()
        if total == 0:
            self._console.print(f"[dim]{model}: every prediction is in the cache[/dim]", highlight=False)
        elif self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(f"scoring {model}", total=total, rate="")
        else:
            self._console.print(f"scoring {model}: {total:,} inputs", highlight=False)

    def advance(self, n: int) -> None:
        """`n` more inputs are scored; with none so far, there is no pace to tell."""
        self._done += n
        if self._done == 0:
            return
        now = time.monotonic()
        rate = self._done / max(now - self._began, 1e-9)
        left = timedelta(seconds=round((self._total - self._done) / rate))
        pace = f"{rate:,.0f}/s, {left} left" if rate >= 10 else f"{rate:.2g}/s, {left} left"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=n, rate=pace)
        elif self._done >= self._total or now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            self._console.print(f"scoring {self._model}: {self._done:,} of {self._total:,}, {pace}", highlight=False)

    def step(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Progress of work other than scoring."""
        now = time.monotonic()
        text = f"{stage} {note}".strip()
        if self._bar is not None:
            if self._task is None or self._model != stage:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task, self._model = self._bar.add_task(text, total=total, rate=""), stage
            self._bar.update(self._task, completed=done, description=text)
        elif self._model != stage or done >= total or now - self._said >= _SECONDS_BETWEEN_LINES:
            self._model, self._said = stage, now
            self._console.print(f"{text}: {done:,} of {total:,}", highlight=False)
