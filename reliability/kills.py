"""Runs that are killed at random instants: what they leave is finished with `--resume`, to the same bytes.

Half of the kills come at any instant of a run, half shortly after it has reached a stage that was drawn before, so that
short stages get theirs on a machine of any speed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from reliability.runs import MARK, Running, digest, left_alone, make_project, scratch_folder, start

WAYS: dict[str, tuple[str, ...]] = {"local": (), "workers": ("--workers", "2"), "ray": ("--ray", "local")}
STAGES = ("reading", "loading", "planning", "scoring", "analysing", "writing")
_ORDER = ("starting", *STAGES, "Report")
_STAGE = re.compile(rf"^({'|'.join(_ORDER[1:])})", re.MULTILINE)
_SECONDS_FOR_ORPHANS = {"local": 20.0, "workers": 20.0, "ray": 180.0}
"""Ray's own agents (of its dashboard and environments) that lose their node while they start look for it again after 90
seconds, and end then."""
_MOST_PER_RUN = 12
"""A run that is killed again and again is left alone after so many: on a machine that got slower it would never end."""


def kill_runs(n: int, *, way: str = "local", seed: int = 0, minutes: float = 600.0) -> dict[str, Any]:
    """Kill runs until `n` kills have happened or the time is over; each run is killed until it ends, then compared."""
    dice, began = random.Random(f"{seed} {way}"), time.monotonic()
    stages: Counter[str] = Counter()
    codes: Counter[int] = Counter()
    runs = differ = orphans = 0
    with scratch_folder() as place:
        expected = left_alone(place)  # whatever the way
        seconds = _seconds(place, WAYS[way])
        while stages.total() < n and time.monotonic() < began + 60 * minutes:
            folder = make_project(place / f"run{runs}")
            most = min(_MOST_PER_RUN, n - stages.total())
            kills, code, left = _killed_until_it_ends(folder, way, dice, seconds, most)
            stages.update(kills)
            orphans += left
            codes[code] += 1
            if code != 0 or digest(folder / "run") != expected:
                differ += 1
                shutil.copytree(folder, Path("build") / "different" / f"{way}{runs}", dirs_exist_ok=True)
            runs += 1
            so_far = f"{stages.total()} kills, {runs} runs, {differ} differences, {orphans} orphans"
            print(f"{way}: {so_far}, {time.monotonic() - began:.0f} s: {dict(stages)}", file=sys.stderr, flush=True)
            shutil.rmtree(folder)
    counts = {"kills": stages.total(), "runs": runs, "differences": differ, "orphans": orphans}
    return {"way": way, **counts, "exit_codes": dict(codes), "killed_while": dict(stages)}


def _seconds(place: Path, options: tuple[str, ...]) -> float:
    """How long a run takes that is left alone."""
    folder, began = make_project(place / "timed"), time.monotonic()
    if start(folder, options).ended() != 0:
        raise SystemExit((place / "timed.said").read_text())
    shutil.rmtree(folder)
    return time.monotonic() - began


def _killed_until_it_ends(
    folder: Path, way: str, dice: random.Random, seconds: float, most: int
) -> tuple[list[str], int, int]:
    """The stages in which a run was killed, its exit code when it ended, and the processes that its kills left."""
    stages: list[str] = []
    left = 0
    while True:
        running = start(folder, WAYS[way])
        code = _waited(running, dice, seconds) if len(stages) < most else running.ended()
        if code is None:
            whole = dice.random() < 0.5
            running.kill(whole=whole)
            code = running.ended()
            left += _orphans(running, _SECONDS_FOR_ORPHANS[way])
        if code != -signal.SIGKILL:
            return stages, code, left
        stages.append(_stage(running))


def _waited(running: Running, dice: random.Random, seconds: float) -> int | None:
    """Wait until the instant of the kill; the exit code where the run has ended before."""
    if dice.random() < 0.5:
        return running.wait(dice.uniform(0, 1.1 * seconds))
    wanted, after, until = dice.choice(STAGES), dice.uniform(0, 0.1 * seconds), time.monotonic() + 3 * seconds
    while time.monotonic() < until and _ORDER.index(_stage(running)) < _ORDER.index(wanted):
        code = running.wait(0)
        if code is not None:
            return code
        time.sleep(0.005)
    return running.wait(after)


def _stage(running: Running) -> str:
    """The last stage that a run has named."""
    try:
        found = _STAGE.findall(running.said.read_text(errors="replace"))
    except FileNotFoundError:  # not even its output was opened
        found = []
    return found[-1] if found else "starting"


def _orphans(running: Running, seconds: float) -> int:
    """Processes of the run that do not end by themselves; they are killed."""
    until = time.monotonic() + seconds
    while left := _left_of(running.pid):
        if time.monotonic() > until:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return len(left)
        time.sleep(0.05)
    return 0


def _left_of(group: int) -> list[int]:
    """The processes of a run's group, and those that it started in groups of their own, as Ray does."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of = (process / "stat").read_text().rpartition(")")[2].split()[:3]
            marked = f"{MARK}={group}\0".encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if state != "Z" and (int(of) == group or marked):
            found.append(int(process.name))
    return found
