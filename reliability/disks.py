"""Disks that fail: every write from the k-th on for want of room, or the k-th alone by an error, for every k.

A write is whatever needs room: bytes, syncs, files and folders that are made, renamed, truncated or allocated.

The disk is a library before the system's (`failing_writes.c`). What a run leaves is finished with `--resume`, to the
same bytes.
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
from pathlib import Path
from typing import Any

from reliability.runs import Failure, digest, left_alone, make_project, scratch_folder, start, writes_of

_KINDS = {"full": (errno.ENOSPC, False), "error": (errno.EIO, True)}
_BATCH = 64
"""Few calls, so that not all writes are those of the cache."""


def fail_writes(
    tries: int | None = None, *, seed: int = 0, minutes: float = 600.0, part: tuple[int, int] = (1, 1)
) -> dict[str, Any]:
    """Fail each write of a run in both ways, or `tries` of them, spread over all; then resume with a good disk.

    With `part` (2, 3), the second of three parts of them, so that several processes share the work.
    """
    began = time.monotonic()
    codes: Counter[str] = Counter()
    wrong: list[str] = []
    with scratch_folder() as place:
        expected = left_alone(place, batch=_BATCH)
        folder = make_project(place / "count", batch=_BATCH)
        start(folder, failure=Failure(10**9)).ended()
        total = writes_of(folder)
        step = max(1, total // (tries or total))
        todo = [(first, kind) for first in range(seed % step, total, step) for kind in _KINDS]
        random.Random(seed).shuffle(todo)
        todo = todo[part[0] - 1 :: part[1]]
        for first, kind in todo:
            if time.monotonic() < began + 60 * minutes:
                folder = make_project(place / f"{kind}{first}", batch=_BATCH)
                code, found = _tried(folder, Failure(first, *_KINDS[kind]), expected)
                codes[f"{kind}: exit {code}"] += 1
                wrong += [f"{kind}, write {first}: {each}" for each in found]
                shutil.rmtree(folder)
                so_far = f"{codes.total()} of {len(todo)} tries, {len(wrong)} wrong, {time.monotonic() - began:.0f} s"
                print(
                    f"disks: {so_far}{''.join(f'; {kind}, write {first}: {each}' for each in found)}",
                    file=sys.stderr,
                    flush=True,
                )
    return {"writes": total, "tried": codes.total(), "exit_codes": dict(sorted(codes.items())), "wrong": wrong}


def _tried(folder: Path, failure: Failure, expected: dict[str, str]) -> tuple[int, list[str]]:
    """The exit code of a run on a disk that fails, and what is wrong with it."""
    running = start(folder, failure=failure)
    code, wrong = running.ended(), []
    said = running.said.read_text(errors="replace")
    sentences = [line for line in said.splitlines() if line.startswith("palpate:")]
    if code not in (0, 2, 3) or "Traceback" in said or (code and len(sentences) != 1):
        wrong.append(f"exit {code}: {re.sub(r'[^ -~]', ' ', said)[-200:]}")
    again = start(folder)
    if again.ended() != 0 or digest(folder / "run") != expected:
        wrong.append(f"resuming differs: {re.sub(r'[^ -~]', ' ', again.said.read_text(errors='replace'))[-200:]}")
    return code, wrong


def with_failing_writes(arguments: list[str]) -> int:
    """This command again, with the library that fails writes before the system's."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place) / "failing.so"
        source = Path(__file__).with_name("failing_writes.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        return subprocess.run([sys.executable, "-m", "reliability", *arguments], env=environment).returncode
