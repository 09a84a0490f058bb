"""Runs that are killed at random instants: what they leave is finished with `--resume`, to the same bytes."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from reliability.runs import Running, digest, left_alone, make_project, scratch_folder, start

WAYS: dict[str, tuple[str, ...]] = {"local": (), "workers": ("--workers", "2"), "ray": ("--ray", "local")}
_STAGE = re.compile(r"^(reading|loading|planning|scoring|analysing|writing|Report)", re.MULTILINE)
_SECONDS_FOR_ORPHANS = 20.0


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
            kills, code, left = _killed_until_it_ends(folder, WAYS[way], dice, seconds, n - stages.total())
            stages.update(kills)
            orphans += left
            codes[code] += 1
            if code != 0 or digest(folder / "run") != expected:
                differ += 1
                shutil.copytree(folder, Path("build") / "different" / f"{way}{runs}", dirs_exist_ok=True)
            runs += 1
            print(f"{stages.total()} kills, {runs} runs, {differ} differences, {orphans} orphans", flush=True)
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
    folder: Path, options: tuple[str, ...], dice: random.Random, seconds: float, most: int
) -> tuple[list[str], int, int]:
    """The stages in which a run was killed, its exit code when it ended, and the processes that its kills left."""
    stages: list[str] = []
    left = 0
    while True:
        running = start(folder, options)
        code = running.wait(dice.uniform(0, 1.1 * seconds)) if len(stages) < most else running.ended()
        if code is None:
            whole = dice.random() < 0.5
            running.kill(whole=whole)
            code = running.ended()
            left += _orphans(running)
        if code != -signal.SIGKILL:
            return stages, code, left
        found = _STAGE.findall(running.said.read_text(errors="replace"))
        stages.append(found[-1] if found else "starting")


def _orphans(running: Running) -> int:
    """Processes of the run's group that do not end by themselves; they are killed."""
    until = time.monotonic() + _SECONDS_FOR_ORPHANS
    while _in_group(running.pid):
        if time.monotonic() > until:
            n = len(_in_group(running.pid))
            running.kill()
            return n
        time.sleep(0.05)
    return 0


def _in_group(group: int) -> list[int]:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of = (process / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(int(process.name))
    return found
