"""For scripts and pipelines: silence, a log of events, and a summary as JSON in place of what is printed for people.

The log has one JSON object per line, with `time`, `event` and what belongs to it. Like everything that palpate writes,
it holds no text of notes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from palpate.cli.app import err, out
from palpate.cli.progress import TerminalProgress
from palpate.errors import ConfigError, InputError, ModelError, kind_of
from palpate.files import make_folder, make_private_file

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
LogFile = Annotated[
    Path | None, typer.Option("--log", help="Write what happens to this file, a JSON object per line; no note text.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a summary as JSON in place of the text.")]
_SECONDS_BETWEEN_EVENTS = 10.0


class PipelineProgress:
    """Progress on the terminal, and in the log if there is one; `summary` is what `--json` prints."""

    def __init__(self, shown: TerminalProgress, log: TextIO | None, command: str) -> None:
        self._shown, self._log, self._command = shown, log, command
        self.summary: dict[str, Any] = {}
        self._model, self._done, self._total = "", 0, 0
        self._began = time.monotonic()
        self._said = 0.0

    @property
    def told(self) -> list[str]:
        """What the user knows already."""
        return self._shown.told

    @property
    def seconds(self) -> float:
        """Since the command was called."""
        return round(time.monotonic() - self._began, 3)

    def write(self, event: str, **fields: Any) -> None:
        """One line of the log."""
        if self._log is not None:
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._log.write(json.dumps({"time": at, "command": self._command, "event": event, **fields}, default=str))
            self._log.write("\n")
            self._log.flush()

    def stage(self, text: str) -> None:
        """See `RunProgress`."""
        self._shown.stage(text)
        self.write("stage", stage=text)

    def note(self, text: str) -> None:
        """See `RunProgress`."""
        self._shown.note(text)
        self.write("note", note=text)

    def begin(self, model: str, total: int) -> None:
        """See `ScoringProgress`."""
        self._shown.begin(model, total)
        self._model, self._done, self._total = model, 0, total
        self.write("scoring", model=model, done=0, total=total)

    def advance(self, n: int) -> None:
        """See `ScoringProgress`."""
        self._shown.advance(n)
        self._done += n
        self._step("scoring", self._done, self._total, model=self._model)

    def step(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Progress of work other than scoring."""
        self._shown.step(stage, done, total, note)
        self._step("step", done, total, stage=stage)

    def _step(self, event: str, done: int, total: int, **fields: Any) -> None:
        now = time.monotonic()
        if done >= total or now - self._said >= _SECONDS_BETWEEN_EVENTS:
            self._said = now
            self.write(event, **fields, done=done, total=total)


@contextmanager
def reporting(command: str, *, quiet: bool, log: Path | None, as_json: bool) -> Iterator[PipelineProgress]:
    """Where a command reports to; errors go to the log too, and the summary is printed when all is done."""
    silent = out.quiet
    shown = TerminalProgress(Console(quiet=True) if quiet else err)
    with _opened(log) as file:
        progress = PipelineProgress(shown, file, command)
        progress.write("start")
        out.quiet = silent or quiet or as_json
        try:
            with shown:
                yield progress
        except BaseException as error:
            progress.write("error", **_described(error), seconds=progress.seconds)
            raise
        finally:
            out.quiet = silent
        progress.summary["seconds"] = progress.seconds
        progress.write("end", **progress.summary)
    if as_json:
        typer.echo(json.dumps(progress.summary, indent=2, ensure_ascii=False, default=str))


@contextmanager
def _opened(log: Path | None) -> Iterator[TextIO | None]:
    if log is None:
        yield None
        return
    try:
        make_folder(log.parent)
        make_private_file(log)
        file = log.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the log can't be written ({error.strerror})", file=log, hint="check the path") from None
    with file:
        yield file


def _described(error: BaseException) -> dict[str, Any]:
    """An error for the log: its sentence if it is one of palpate's, which quote no note; otherwise only its type."""
    fields: dict[str, Any] = {"type": kind_of(error), "exit_code": getattr(error, "exit_code", 70)}
    if isinstance(error, KeyboardInterrupt):
        fields["exit_code"] = 130
    if isinstance(error, InputError | ModelError):
        fields["message"] = str(error)
    return fields
