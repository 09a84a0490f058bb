"""Runs that are killed at random instants: what they leave is finished with `--resume`, to the same bytes.

Some of the kills come at any instant of a run, the others within a stage that was drawn before, at an instant of the
time that it takes when nobody disturbs it: short stages get theirs on a machine of any speed, and beside the minute
that Ray needs to start. A run is resumed at once, while what the kill has left may still be ending.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reliability.runs import MARK, Running, digest, left_alone, make_project, scratch_folder, start

WAYS: dict[str, tuple[str, ...]] = {"local": (), "workers": ("--workers", "2"), "ray": ("--ray", "local")}
STAGES = ("reading", "loading", "planning", "scoring", "analysing", "writing")
_ORDER = ("starting", *STAGES, "Report")
_STAGE = re.compile(rf"^({'|'.join(_ORDER[1:])})", re.MULTILINE)
_AT_ANY_INSTANT = {"local": 0.5, "workers": 0.5, "ray": 0.1}
"""The share of kills that are drawn from all of a run; on Ray nearly all of these come while it starts."""
_SECONDS_FOR_ORPHANS = {"local": 20.0, "workers": 20.0, "ray": 180.0}
"""Ray's own agents (of its dashboard and environments) that lose their node while they start look for it again after 90
seconds, and end then."""
_RAY_GAVE_UP, _MOST_REFUSED = "can't start Ray on this machine", 20
_MOST_PER_RUN = 12
"""A run that is killed again and again is left alone after so many: on a machine that got slower it would never end."""


@dataclass
class _Trial:
    """What is drawn, and what was found so far."""

    way: str
    dice: random.Random
    lengths: dict[str, float]
    """The seconds that each stage takes in a run that is left alone."""
    stages: Counter[str] = field(default_factory=Counter)
    beside_ray: Counter[str] = field(default_factory=Counter)
    """Those of the kills that came while processes of Ray were there."""
    ending: dict[int, float] = field(default_factory=dict)
    """Groups of processes that were killed, and until when they may end."""
    orphans: int = 0
    refused: int = 0
    """How often Ray itself gave up starting, which it does after 30 seconds on a machine that is too busy."""

    @property
    def seconds(self) -> float:
        return sum(self.lengths.values())

    def settle(self, *, wait: bool = False) -> None:
        """Count and kill the processes of killed runs that did not end in their time; `wait`: until that is over."""
        while self.ending:
            left = {group: _left_of(group) for group in self.ending}
            for group, pids in left.items():
                if pids and time.monotonic() <= self.ending[group]:
                    continue
                del self.ending[group]
                self.orphans += len(pids)
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            if not wait:
                return
            time.sleep(0.05)


def kill_runs(n: int, *, way: str = "local", seed: int = 0, minutes: float = 600.0) -> dict[str, Any]:
    """Kill runs until `n` kills have happened or the time is over; each run is killed until it ends, then compared."""
    began = time.monotonic()
    codes: Counter[int] = Counter()
    runs = differ = 0
    with scratch_folder() as place:
        expected = left_alone(place)  # whatever the way
        trial = _Trial(way, random.Random(f"{seed} {way}"), _lengths(place, WAYS[way]))
        while trial.stages.total() < n and time.monotonic() < began + 60 * minutes:
            folder = make_project(place / f"run{runs}")
            code = _killed_until_it_ends(folder, trial, min(_MOST_PER_RUN, n - trial.stages.total()))
            codes[code] += 1
            if code != 0 or digest(folder / "run") != expected:
                differ += 1
                shutil.copytree(folder, Path("build") / "different" / f"{way}{runs}", dirs_exist_ok=True)
                shutil.copy(folder.with_name(f"{folder.name}.said"), Path("build") / "different" / f"{way}{runs}.said")
            runs += 1
            trial.settle()
            so_far = f"{trial.stages.total()} kills, {runs} runs, {differ} differences, {trial.orphans} orphans"
            seconds = f"{time.monotonic() - began:.0f} s"
            print(f"{way}: {so_far}, {seconds}: {dict(trial.stages)}", file=sys.stderr, flush=True)
            shutil.rmtree(folder)
        trial.settle(wait=True)
    counts = {"kills": trial.stages.total(), "runs": runs, "differences": differ, "orphans": trial.orphans}
    counts |= {"ray_gave_up": trial.refused} if way == "ray" else {}
    stages = {"killed_while": dict(trial.stages), "of_these_beside_ray": dict(trial.beside_ray)}
    return {"way": way, **counts, "exit_codes": dict(codes), **stages}


def _lengths(place: Path, options: tuple[str, ...]) -> dict[str, float]:
    """How long each stage of a run takes that is left alone."""
    folder, code, tries = make_project(place / "timed"), 2, 0
    while code == 2 and tries < _MOST_REFUSED:
        first = {"starting": time.monotonic()}
        running, tries = start(folder, options), tries + 1
        while (ended := running.wait(0.01)) is None:
            first.setdefault(_stage(running), time.monotonic())
        code = ended
    if code != 0:
        raise SystemExit(running.said.read_text())
    shutil.rmtree(folder)
    first.pop("Report", None)  # its last line
    ends = [*list(first.values())[1:], time.monotonic()]
    return {stage: end - at for (stage, at), end in zip(first.items(), ends, strict=True)}


def _killed_until_it_ends(folder: Path, trial: _Trial, most: int) -> int:
    """Kill a run up to `most` times, and resume it at once; its exit code when it ended by itself."""
    kills = 0
    while True:
        running = start(folder, WAYS[trial.way])
        code = _waited(running, trial) if kills < most else running.ended()
        if code is None:
            beside_ray = trial.way == "ray" and _ray_is_there(running.pid)
            running.kill(whole=trial.dice.random() < 0.5)
            code = running.ended()
            if code == -signal.SIGKILL:
                kills += 1
                trial.stages[_stage(running)] += 1
                trial.beside_ray.update([_stage(running)] if beside_ray else [])
                trial.ending[running.pid] = time.monotonic() + _SECONDS_FOR_ORPHANS[trial.way]
        if (
            trial.way == "ray"
            and code == 2
            and _RAY_GAVE_UP in running.said.read_text()
            and trial.refused < _MOST_REFUSED
        ):
            trial.refused += 1
        elif code != -signal.SIGKILL:
            return code


def _waited(running: Running, trial: _Trial) -> int | None:
    """Wait until the instant of the kill; the exit code where the run has ended before."""
    dice, seconds = trial.dice, trial.seconds
    if dice.random() < _AT_ANY_INSTANT[trial.way]:
        return running.wait(dice.uniform(0, 1.1 * seconds))
    wanted = dice.choice(STAGES)
    after, until = dice.uniform(0, trial.lengths.get(wanted, 0.0)), time.monotonic() + 3 * seconds
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


def _ray_is_there(group: int) -> bool:
    """Whether a process of Ray's, its store of the cluster's state, runs for a run."""
    for pid in _left_of(group):
        with suppress(OSError):
            if b"gcs_server" in (Path("/proc") / str(pid) / "cmdline").read_bytes():
                return True
    return False


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
