"""Ray beside this process: overhead with one worker, efficiency with two, the same answers while workers are killed.

The model sleeps, so that neither the number of cores nor other programs matter: what is measured is what Ray adds. With
`--computes` it computes instead, a fixed amount of work on one core, so that two workers and Ray itself share the cores
of a machine that must have nothing else to do. Only the time from the first answer to the last counts; starting Ray and
loading the model are printed apart, as they do not grow with the run. Exit code 1 if one worker takes more than 5%
longer than this process, if two are less than 0.85 as efficient, or if an answer differs after a worker was killed
every few seconds.

What is computed takes as long as other programs let it, so with `--computes` a machine that is busy is refused; and
whatever happens, the benchmark ends after `--minutes`. Exit code 2 in both cases: nothing was measured.

    python benchmarks/ray_workers.py [--calls 40] [--seconds 2] [--kill-every 20] [--computes] [--minutes 20]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import textwrap
import threading
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import ModelError
from palpate.models import Model, ModelSpec, load_here
from palpate.run.execute import Execution
from palpate.run.execute.calls import Calls
from palpate.run.execute.cluster import RayOptions

MOST_OVERHEAD, LEAST_EFFICIENCY = 0.05, 0.85
ROWS = 64
MODEL = """
    import os, time, zlib
    from pathlib import Path

    BLOCK = bytes(1 << 20)

    def scores(texts):
        if len(texts) >= 8:  # palpate tries a few texts first
            {work}
            Path({folder!r}, f"worker-{{os.getpid()}}").touch()
        return [zlib.crc32(text.encode()) / 2**32 for text in texts]
"""


SLEEPS, COMPUTES = "time.sleep({seconds})", "any(zlib.crc32(BLOCK) < 0 for _ in range({blocks}))"
BLOCK = bytes(1 << 20)


LEAST_IDLE = 0.9
"""Of a core that this process must get while it measures its pace."""


class NotMeasured(Exception):
    """The message says why."""


def blocks_in(seconds: float) -> int:
    """How many blocks one core hashes in this time: the work of a call that computes."""
    began, worked, n = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < 2.0:
        zlib.crc32(BLOCK)
        n += 1
    spent, worked = time.perf_counter() - began, time.process_time() - worked
    if worked < LEAST_IDLE * spent:
        raise NotMeasured(f"the machine is busy: this process got {worked / spent:.0%} of a core")
    return max(1, round(seconds * n / spent))


def too_long(*_: object) -> None:
    raise NotMeasured("not done in time")


class Timed(NamedTuple):
    """What a run of all calls took: until the first answer, from there to the last, and the answers."""

    first: float
    rest: float
    answers: list[np.ndarray]


def timed(execution: Execution, spec: ModelSpec, model: Model, calls: Calls) -> Timed:
    began, first, answers = time.perf_counter(), 0.0, {}
    for result in execution.ask(spec, model, calls):
        first = first or time.perf_counter() - began
        answers[result.number] = result.p
    return Timed(first, time.perf_counter() - began - first, [answers[k] for k in range(len(calls))])


def kill_workers(folder: Path, every: float, done: threading.Event, killed: list[int]) -> None:
    """Kill one worker that has answered, every few seconds."""
    while not done.wait(every):
        for file in sorted(folder.glob("worker-*"), key=lambda path: path.stat().st_mtime, reverse=True):
            pid = int(file.name.partition("-")[2])
            file.unlink()
            if pid != os.getpid() and Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break


def main() -> int:
    asked = options()
    signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 60 * asked.minutes)
    try:
        return measure(asked)
    except (NotMeasured, ModelError) as why:
        if isinstance(why, ModelError) and "NotMeasured" not in str(why):  # raised in the model's code
            raise
        print(f"nothing was measured: {why if isinstance(why, NotMeasured) else 'not done in time'}", flush=True)
        return 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--kill-every", type=float, default=20.0)
    parser.add_argument("--computes", action="store_true")
    parser.add_argument("--minutes", type=float, default=20.0)
    return parser.parse_args()


def measure(asked: argparse.Namespace) -> int:
    work = COMPUTES.format(blocks=blocks_in(asked.seconds)) if asked.computes else SLEEPS.format(seconds=asked.seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sleeper.py").write_text(textwrap.dedent(MODEL).format(work=work, folder=name))
        spec = ModelSpec("sleeper", "python:sleeper:scores", name, {"labels": ["ill"]})
        model = load_here(spec)
        inputs = Inputs.from_texts([f"note {k}" for k in range(ROWS * asked.calls)])
        calls = Calls(inputs, list(np.arange(len(inputs)).reshape(asked.calls, ROWS)))
        options = RayOptions(address="local", num_cpus=0.5)
        here = timed(Execution(), spec, model, calls)
        print(f"this process: {here.rest:.1f} s for {asked.calls - 1} calls", flush=True)
        one = timed(Execution("ray", 1, options), spec, model, calls)
        overhead = one.rest / here.rest - 1
        print(
            f"one worker:   {one.rest:.1f} s, overhead {overhead:.1%}; {one.first:.1f} s to the first answer",
            flush=True,
        )
        two = timed(Execution("ray", 2, options), spec, model, calls)
        # At the first answer, the other worker's first call is nearly done: it is not counted either.
        efficiency = one.rest / (asked.calls - 1) * (asked.calls - 2) / 2 / two.rest
        print(
            f"two workers:  {two.rest:.1f} s, efficiency {efficiency:.2f}; {two.first:.1f} s to the first answer",
            flush=True,
        )
        done, killed = threading.Event(), list[int]()
        threading.Thread(target=kill_workers, args=(folder, asked.kill_every, done, killed), daemon=True).start()
        dying = timed(Execution("ray", 2, options), spec, model, calls)
        done.set()
        same = all(np.array_equal(here.answers, each.answers) for each in (one, two, dying))
        print(f"two workers, {len(killed)} killed: {dying.rest:.1f} s; answers {'equal' if same else 'DIFFERENT'}")
    good = same and len(killed) > 0 and overhead <= MOST_OVERHEAD and efficiency >= LEAST_EFFICIENCY
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
