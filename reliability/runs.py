"""Small audits in processes that are forked from this one, which has imported palpate already: a run takes a second.

Nothing of polars or numba may have been used in this process, only imported: their threads do not survive a fork.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from palpate.errors import parse_json

_MODEL = """
import time
def f(texts):
    time.sleep(0.002)
    return [min(1.0, 0.1 + 0.2 * ("fever" in t) + 0.3 * ("ill" in t)) for t in texts]
"""
_CONFIG = """cohort: {file: notes.csv, case: case_id, text: text, labels: [sick], attributes: [sex]}
models: {m: {source: "python:scores:f", isolate: false, batch_size: BATCH, fingerprint: "1"}}
cache: cache.sqlite
audits:
  performance: {n_replicates: 100}
  vocabulary: {words: [fever, ill], n_replicates: 100, filters: [unigram]}
"""
_SECONDS_TO_END = 1800
ALONE = "alone"
AUDIT = ("audit", "audit.yaml", "--out", "run", "--resume")
MARK = "PALPATE_TRIAL"
"""A variable of the environment that the processes of a run have, with the number of the first."""


class Failure(NamedTuple):
    """Which writes fail below the folder of a run: from the `first` on, or it alone."""

    first: int
    number: int = 28
    alone: bool = False


@dataclass(frozen=True)
class Running:
    """A run in a process of its own, which leads a group."""

    pid: int
    said: Path

    def wait(self, seconds: float = _SECONDS_TO_END) -> int | None:
        """The exit code, negative for a signal; None: it goes on."""
        until = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= until:
                return None
            time.sleep(0.005)

    def ended(self) -> int:
        """Wait for the run; its exit code."""
        code = self.wait()
        if code is None:
            self.kill()
            os.waitpid(self.pid, 0)
            raise SystemExit(f"a run hangs: {self.said.read_text(errors='replace')[-500:]}")
        return code

    def kill(self, *, whole: bool = True) -> None:
        """Kill the run, with the processes that it has started or without."""
        with suppress(ProcessLookupError):
            (os.killpg if whole else os.kill)(self.pid, signal.SIGKILL)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for runs. Not `TemporaryDirectory`, which would be removed by the first forked process that ends."""
    place = Path(tempfile.mkdtemp(prefix="palpate-runs-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def make_project(folder: Path, *, batch: int = 16) -> Path:
    """A small audit, whose model is asked `batch` notes at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(0)
    told = ([dice.choice(["fever", "cough"]), dice.choice(["ill", "well"])] for _ in range(60))
    rows = [f"c{k},patient {k} has {one} and is {two},{k % 2},{'mf'[k % 2]}" for k, (one, two) in enumerate(told)]
    (folder / "notes.csv").write_text("case_id,text,sick,sex\n" + "\n".join(rows) + "\n")
    (folder / "scores.py").write_text(_MODEL)
    (folder / "audit.yaml").write_text(_CONFIG.replace("BATCH", str(batch)))
    return folder


def start(
    folder: Path, options: Sequence[str] = (), failure: Failure | None = None, *, command: Sequence[str] = AUDIT
) -> Running:
    """Start the audit; what it prints is in `FOLDER.said`, what it has imported and written in `FOLDER.told`."""
    said = folder.with_name(f"{folder.name}.said")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's threads do survive
        pid = os.fork()
    if not pid:
        code = 70
        try:
            code = _run(folder, said, (*command, *options), failure)
        except BaseException:  # reported by the exit code: nothing of the parent may run here
            traceback.print_exc()
        finally:
            os._exit(code)
    return Running(pid, said)


def _run(folder: Path, said: Path, words: Sequence[str], failure: Failure | None) -> int:
    os.setsid()
    os.environ[MARK] = str(os.getpid())
    os.chdir(folder)
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.argv = ["palpate", *words]
    from palpate.cli import main

    library = ctypes.CDLL(None) if failure is not None else None
    if library is not None and failure is not None:
        numbers = (ctypes.c_long(failure.first), ctypes.c_int(failure.number), ctypes.c_int(failure.alone))
        library.failing_arm(f"{folder}/".encode(), *numbers)
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    page = sys.modules.get("palpate.report.html") if folder.name == ALONE and not code else None
    scripts = page.chart_scripts() if page is not None else [""]
    folder.with_name(f"{folder.name}.scripts").write_text(scripts[0])
    writes = library.failing_count() if library is not None else 0
    folder.with_name(f"{folder.name}.told").write_text(" ".join([str(writes), *sorted(sys.modules)]))
    return code


def writes_of(folder: Path) -> int:
    """How often a run that has ended wrote below its folder."""
    return int(folder.with_name(f"{folder.name}.told").read_text().split()[0])


def digest(run: Path) -> dict[str, str]:
    """All that a run has written, without its date and its random number; not what was set aside as damaged."""
    files = [file for file in sorted(run.rglob("*")) if file.is_file() and ".damaged" not in file.name]
    dates = _dates(run / "manifest.json")
    return {str(file.relative_to(run)): hashlib.sha256(_stable(file, dates)).hexdigest() for file in files}


def _stable(file: Path, dates: Sequence[str]) -> bytes:
    """The bytes of a file; the manifest and the report without what no two runs share."""
    if file.name == "manifest.json":
        told = {name: value for name, value in parse_json(file.read_bytes()).items() if name not in ("id", "created")}
        return json.dumps(told).encode()
    if file.name == "report.html":
        text = file.read_text(encoding="utf-8")
        for date in dates:
            text = text.replace(date, "DATE")
        return text.encode()
    return file.read_bytes()


def _dates(manifest: Path) -> list[str]:
    """When a run was begun, as its manifest and its report write it."""
    if not manifest.is_file():
        return []
    created = str(parse_json(manifest.read_bytes())["created"])
    return [created, f"{created[:10]} {created[11:16]} UTC"]


def _know_scripts(made: str) -> None:
    """Give the report the scripts of its charts, as a run has made them: it makes them once in a process."""
    import vl_convert

    from palpate.report.html import chart_scripts

    with patch.object(vl_convert, "javascript_bundle", return_value=made):
        chart_scripts()


def left_alone(place: Path, options: Sequence[str] = (), *, batch: int = 16) -> dict[str, str]:
    """What a run finds that nobody disturbs. What it has imported is imported here, so that later ones are quick."""
    folder = make_project(place / ALONE, batch=batch)
    end_alone(folder, start(folder, options))
    _know_scripts((place / f"{ALONE}.scripts").read_text())
    found = digest(folder / "run")
    shutil.rmtree(folder)
    return found


def end_alone(folder: Path, running: Running) -> None:
    """Wait for a command that must end well, and import what it has imported."""
    if running.ended() != 0:
        raise SystemExit(running.said.read_text())
    for name in folder.with_name(f"{folder.name}.told").read_text().split()[1:]:
        if not name.startswith(("_", "scores")):
            with suppress(Exception):
                importlib.import_module(name)
