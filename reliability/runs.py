"""Runs that are killed, or whose disk is full: what they leave is finished with `--resume`, to the same bytes.

A full disk is a library before the system's (`failing_writes.c`): it fails every write below a folder from the n-th on.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

_MODEL = """
import time
def f(texts):
    time.sleep(0.002)
    return [min(1.0, 0.1 + 0.2 * ("fever" in t) + 0.3 * ("ill" in t)) for t in texts]
"""
_CONFIG = """cohort: {file: notes.csv, case: case_id, text: text, labels: [sick], attributes: [sex]}
models: {m: {source: "python:scores:f", isolate: false, batch_size: 8, fingerprint: "1"}}
cache: cache.sqlite
audits:
  performance: {n_replicates: 200}
  subgroups: {n_replicates: 200}
  vocabulary: {words: [fever, ill], n_replicates: 200, filters: [unigram]}
"""


def make_project(folder: Path) -> Path:
    """A small audit."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(0)
    told = ([dice.choice(["fever", "cough"]), dice.choice(["ill", "well"])] for _ in range(160))
    rows = [f"c{k},patient {k} has {one} and is {two},{k % 2},{'mf'[k % 2]}" for k, (one, two) in enumerate(told)]
    (folder / "notes.csv").write_text("case_id,text,sick,sex\n" + "\n".join(rows) + "\n")
    (folder / "scores.py").write_text(_MODEL)
    (folder / "audit.yaml").write_text(_CONFIG)
    return folder


def start(folder: Path, *, fail_after: int | None = None) -> subprocess.Popen[bytes]:
    """Start the audit in a process group of its own; what it prints is in `FOLDER.said`."""
    arm = f"import ctypes; ctypes.CDLL(None).failing_arm({f'{folder}/'!r}.encode(), ctypes.c_long({fail_after}))\n"
    count = "import ctypes, pathlib\nn = ctypes.CDLL(None).failing_count()\n"
    count += f"pathlib.Path({str(folder) + '.writes'!r}).write_text(str(n))\n"
    code = "import atexit, sys\nfrom palpate.cli import main\nsys.argv[0] = 'palpate'\n"
    if fail_after is not None:
        code += f"def count():\n    {count.replace(chr(10), '; ')}\natexit.register(count)\n{arm}"
    command = [sys.executable, "-c", f"{code}main()\n", "audit", "audit.yaml", "--out", "run", "--resume"]
    with (folder.parent / f"{folder.name}.said").open("wb") as said:
        return subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, start_new_session=True)


def ended(running: subprocess.Popen[bytes]) -> int:
    """Wait for a run; its exit code."""
    return running.wait()


def digest(run: Path) -> dict[str, str]:
    """What a run found; not its manifest and report, which have the time."""
    kept = [file for kind in ("results", "predictions", "variants") for file in sorted((run / kind).rglob("*"))]
    files = [file for file in [*kept, run / "scorecard.json"] if file.is_file()]
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _left_alone(scratch: Path) -> tuple[dict[str, str], float]:
    folder, began = make_project(scratch / "alone"), time.monotonic()
    if ended(start(folder)) != 0:
        raise SystemExit((scratch / "alone.said").read_text())
    return digest(folder / "run"), time.monotonic() - began


def kill_runs(n: int, *, seed: int = 0) -> dict[str, Any]:
    """Kill runs at random instants until `n` kills have happened; a run that ended is compared."""
    dice, killed, runs, differ = random.Random(seed), 0, 0, 0
    codes: Counter[int] = Counter()
    with tempfile.TemporaryDirectory(prefix="palpate-kills-") as place:
        scratch = Path(place)
        expected, seconds = _left_alone(scratch)
        while killed < n:
            folder = make_project(scratch / f"run{runs}")
            while True:
                running = start(folder)
                time.sleep(dice.uniform(0, 1.2 * seconds))
                with suppress(ProcessLookupError):  # it has ended
                    os.killpg(running.pid, signal.SIGKILL)
                code = ended(running)
                killed += code == -signal.SIGKILL
                if code != -signal.SIGKILL:
                    codes[code] += 1
                    break
                if killed >= n:
                    codes[code := ended(start(folder))] += 1
                    break
            differ += code != 0 or digest(folder / "run") != expected
            runs += 1
            shutil.rmtree(folder)
    return {"kills": killed, "runs": runs, "differences": differ, "exit_codes": dict(codes)}


def fill_disks(n: int | None = None) -> dict[str, Any]:
    """Fail every write from the k-th on, for `n` values of k over all of them; then resume with room."""
    codes: Counter[int] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="palpate-full-") as place:
        scratch = Path(place)
        expected, _ = _left_alone(scratch)
        folder = make_project(scratch / "count")
        ended(start(folder, fail_after=10**9))
        total = int((scratch / "count.writes").read_text())
        step = max(1, total // (n or total))
        for k in range(0, total, step):
            folder = make_project(scratch / f"full{k}")
            code = ended(start(folder, fail_after=k))
            said = (scratch / f"full{k}.said").read_text(errors="replace")
            codes[code] += 1
            sentences = [line for line in said.splitlines() if line.startswith("palpate:")]
            if code not in (0, 2, 3) or "Traceback" in said or (code and len(sentences) != 1):
                wrong.append(f"write {k}: exit {code}: {re.sub(r'[^ -~]', ' ', said)[-200:]}")
            if ended(start(folder)) != 0 or digest(folder / "run") != expected:
                wrong.append(f"write {k}: resuming differs")
            shutil.rmtree(folder)
    return {"writes": total, "tried": sum(codes.values()), "exit_codes": dict(codes), "wrong": wrong}


def with_failing_writes(arguments: list[str]) -> int:
    """This command again, with the library that fails writes before the system's."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place) / "failing.so"
        source = Path(__file__).with_name("failing_writes.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        return subprocess.run([sys.executable, "-m", "reliability", *arguments], env=environment).returncode
