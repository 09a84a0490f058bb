"""Run after run in one process, for as long as asked: memory, open files, processes and ports must not grow."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from palpate.commands.audit import audit
from reliability.runs import digest, make_project, scratch_folder

WARM_UP = 3
"""So many runs may take memory that is kept: compiled code, caches of fixed size, pools of threads."""
MOST_GROWTH_MB = 24.0


class Held(NamedTuple):
    """What this process holds."""

    megabytes: float
    files: int
    sockets: int
    processes: int


def held() -> Held:
    """Memory, open files, sockets among them, and processes that were started and have not ended."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    links = []
    for handle in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(handle.readlink()))
        except OSError:
            continue  # the handle of this very listing
    children = sum(len(task.read_text().split()) for task in Path("/proc/self/task").glob("*/children"))
    sockets = sum(link.startswith("socket:") for link in links)
    return Held(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(links), sockets, children)


def soak(minutes: float) -> dict[str, Any]:
    """Audit again and again, with a model in a process of its own; the first third of the runs against the last.

    Their results must be the same bytes.
    """
    until = time.monotonic() + 60 * minutes
    seen: list[Held] = []
    with scratch_folder() as place:
        folder = make_project(place / "soak")
        text = (folder / "audit.yaml").read_text().replace("isolate: false", "isolate: true")
        (folder / "audit.yaml").write_text(text)
        results = set()
        while time.monotonic() < until or len(seen) < WARM_UP + 3:
            (folder / "cache.sqlite").unlink(missing_ok=True)
            audit(folder / "audit.yaml", out=folder / f"run{len(seen)}")
            results.add(str(sorted(digest(folder / f"run{len(seen)}").items())))
            seen.append(held())
    return {"runs": len(seen), "minutes": minutes, **compared(seen), "different_results": len(results) - 1}


def compared(seen: list[Held]) -> dict[str, Any]:
    """How much more is held at the end, and what of it is wrong."""
    seen = seen[WARM_UP:]
    third = max(1, len(seen) // 3)
    first, last = seen[:third], seen[-third:]
    grown = statistics.median(each.megabytes for each in last) - statistics.median(each.megabytes for each in first)
    wrong = [f"memory grew by {grown:.0f} MB"] if grown > MOST_GROWTH_MB else []
    for name in ("files", "sockets", "processes"):
        more = min(getattr(each, name) for each in last) - max(getattr(each, name) for each in first)
        if more > 0:
            wrong.append(f"{more} more {name}")
    return {"grown_mb": round(grown, 1), "held": last[-1]._asdict(), "wrong": wrong}
