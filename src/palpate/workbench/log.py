"""The log of actions: who did what, when, and what was refused. It never has text of notes, words or reasons.

One line of JSON per action, in a file that only its owner can read. Values are names, numbers and fixed words:

    {"at": "2026-11-17T16:08:03Z", "did": "entered", "who": "Dr. A"}
    {"at": "2026-11-17T16:08:26Z", "did": "refused", "why": "host", "who": null, "door": "/runs"}
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from palpate.files import make_folder, make_private_file

LARGEST = 20_000_000
"""Bytes after which a file is set aside as `NAME.1.jsonl` and begun anew, so that nobody can fill the disk.

Refusals have a file of their own, because anybody can cause them: they never push out what people did.
"""
_LONGEST = 120


class ActionLog:
    """Writes the log.

    >>> import tempfile
    >>> log = ActionLog(Path(tempfile.mkdtemp()) / "actions.jsonl")
    >>> log.write("rated", who="Dr. A", item=3)
    >>> [(line["did"], line["who"], line["item"]) for line in log.lines()]
    [('rated', 'Dr. A', 3)]
    """

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self.path, self._refused = path, path.with_name("refused.jsonl")
        for file in (self.path, self._refused):
            make_private_file(file)
        self._open: dict[Path, TextIO] = {}
        self._lock = threading.Lock()

    def write(self, did: str, **values: str | int | float | bool | None) -> None:
        """Add a line; texts are cut, and what would break a line is escaped."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = {key: value[:_LONGEST] if isinstance(value, str) else value for key, value in values.items()}
        line = json.dumps({"at": at, "did": did, **shown}) + "\n"
        path = self._refused if did == "refused" else self.path
        with self._lock:
            file = self._opened(path)
            file.write(line)
            file.flush()

    def close(self) -> None:
        """Close the files; the next line opens them again."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _opened(self, path: Path) -> TextIO:
        """The file of a line: opened once, again where somebody moved it, and set aside when it is full."""
        file = self._open.get(path)
        there = path.stat() if path.exists() else None
        if file is not None and there is not None and there.st_ino == os.fstat(file.fileno()).st_ino:
            if there.st_size <= LARGEST:
                return file
            path.replace(path.with_name(f"{path.stem}.1.jsonl"))
        if file is not None:
            file.close()
        make_private_file(path)
        self._open[path] = path.open("a", encoding="utf-8")
        return self._open[path]

    def lines(self, last: int = 200) -> list[dict[str, Any]]:
        """The last lines, newest first."""
        return list(self._newest(last))

    def _newest(self, last: int) -> Iterator[dict[str, Any]]:
        with self._lock:
            written = [path.read_text(encoding="utf-8").splitlines()[-last:] for path in (self.path, self._refused)]
        lines = [json.loads(line) for part in written for line in part]
        yield from sorted(lines, key=lambda line: line["at"])[: -last - 1 : -1]
