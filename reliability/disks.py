"""Disks that fail: every write from the k-th on for want of room, or the k-th alone by an error, for every k.

A write is whatever needs room: bytes, syncs, files and folders that are made, renamed, truncated or allocated.

The disk is a library before the system's (`failing_writes.c`). What a run leaves is finished with `--resume`, to the
same bytes. `palpate cohort`, which has nothing to resume, leaves whole files or none, and is run again.
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reliability.runs import (
    ALONE,
    AUDIT,
    Failure,
    digest,
    end_alone,
    left_alone,
    make_project,
    scratch_folder,
    start,
    writes_of,
)

_KINDS = {"full": (errno.ENOSPC, False), "error": (errno.EIO, True)}
_TEMPORARY = "temporary"
_BATCH = 64
"""Few calls, so that not all writes are those of the cache."""


def fail_writes(
    tries: int | None = None, *, seed: int = 0, minutes: float = 600.0, part: tuple[int, int] = (1, 1)
) -> dict[str, Any]:
    """Fail each write of a run in both ways, or `tries` of them, spread over all; then resume with a good disk.

    With `part` (2, 3), the second of three parts of them, so that several processes share the work.
    """
    with scratch_folder() as place:
        expected = left_alone(place, batch=_BATCH)
        trial = _Trial(place, lambda folder: make_project(folder, batch=_BATCH), lambda folder: digest(folder / "run"))
        return trial.run(expected, tries, seed=seed, minutes=minutes, part=part)


def fail_cohorts(
    kind: str,
    source: Path,
    tries: int | None = None,
    *,
    seed: int = 0,
    minutes: float = 600.0,
    part: tuple[int, int] = (1, 1),
) -> dict[str, Any]:
    """The same for `palpate cohort`; its temporary files, also DuckDB's, are on the disk that fails."""

    def make(folder: Path) -> Path:
        (folder / _TEMPORARY).mkdir(parents=True)
        os.environ["TMPDIR"] = str(folder / _TEMPORARY)
        tempfile.tempdir = None
        return folder

    command = ("cohort", kind, "--source", str(source.absolute()), "--out", "cohort.parquet")
    with scratch_folder() as place:
        folder = make(place / ALONE)
        end_alone(folder, start(folder, command=command))
        trial = _Trial(place, make, digest, command, whole=True)
        return trial.run(digest(folder), tries, seed=seed, minutes=minutes, part=part)


@dataclass
class _Trial:
    """What is run, and how it is judged."""

    place: Path
    make: Callable[[Path], Path]
    digest: Callable[[Path], dict[str, str]]
    command: Sequence[str] = AUDIT
    whole: bool = False
    """Whether files that are there after a failure must be whole already."""

    def run(
        self, expected: dict[str, str], tries: int | None, *, seed: int, minutes: float, part: tuple[int, int]
    ) -> dict[str, Any]:
        """Count the writes, then fail each of them."""
        began = time.monotonic()
        codes: Counter[str] = Counter()
        wrong: list[str] = []
        folder = self.make(self.place / "count")
        start(folder, failure=Failure(10**9), command=self.command).ended()
        total = writes_of(folder)
        step = max(1, total // (tries or total))
        todo = [(first, kind) for first in range(seed % step, total, step) for kind in _KINDS]
        random.Random(seed).shuffle(todo)
        todo = todo[part[0] - 1 :: part[1]]
        for first, kind in todo:
            if time.monotonic() >= began + 60 * minutes:
                break
            folder = self.make(self.place / f"{kind}{first}")
            code, found = self.tried(folder, Failure(first, *_KINDS[kind]), expected)
            codes[f"{kind}: exit {code}"] += 1
            wrong += [f"{kind}, write {first}: {each}" for each in found]
            shutil.rmtree(folder)
            so_far = f"{codes.total()} of {len(todo)} tries, {len(wrong)} wrong, {time.monotonic() - began:.0f} s"
            told = "".join(f"; {kind}, write {first}: {each}" for each in found)
            print(f"disks: {so_far}{told}", file=sys.stderr, flush=True)
        return {"writes": total, "tried": codes.total(), "exit_codes": dict(sorted(codes.items())), "wrong": wrong}

    def tried(self, folder: Path, failure: Failure, expected: dict[str, str]) -> tuple[int, list[str]]:
        """The exit code of a command on a disk that fails, and what is wrong with it."""
        running = start(folder, failure=failure, command=self.command)
        code, wrong = running.ended(), []
        said = running.said.read_text(errors="replace")
        sentences = [line for line in said.splitlines() if line.startswith("palpate:")]
        if code not in (0, 2, 3) or "Traceback" in said or (code and len(sentences) != 1):
            wrong.append(f"exit {code}: {_end_of(said)}")
        left = self.digest(folder) if self.whole or not code else {}
        if (not code and left != expected) or (self.whole and not left.items() <= expected.items()):
            wrong.append(f"exit {code}, and what is there is not whole: {sorted(left)}")
        again = start(folder, command=self.command)
        if again.ended() != 0 or self.digest(folder) != expected:
            wrong.append(f"again it differs: {_end_of(again.said.read_text(errors='replace'))}")
        return code, wrong


def _end_of(said: str) -> str:
    return re.sub(r"[^ -~]", " ", said)[-200:]


def with_failing_writes(arguments: list[str]) -> int:
    """This command again, with the library that fails writes before the system's."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place) / "failing.so"
        source = Path(__file__).with_name("failing_writes.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        return subprocess.run([sys.executable, "-m", "reliability", *arguments], env=environment).returncode
