"""Audits that are run again from a page, each in a process of its own, one at a time; their runs go on the shelf.

What was started is kept, so that a page leads to its audit also after a restart.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palpate.config import load_config
from palpate.errors import PalpateError
from palpate.files import make_folder
from palpate.workbench.pages import BenchProblem
from palpate.workbench.runs import shelf_of
from palpate.workbench.sections import Bench
from palpate.workbench.shelf import find_config

_LONGEST_MESSAGE = 400
RUNNING, DONE, FAILED = "running", "done", "failed"
SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs_started (
    id INTEGER PRIMARY KEY AUTOINCREMENT, audit TEXT NOT NULL, about INTEGER NOT NULL, folder TEXT NOT NULL,
    state TEXT NOT NULL, message TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_of_pages ON jobs_started (audit, about, id);
"""


@dataclass
class AuditJob:
    """An audit that runs, or has run."""

    audit: str
    about: int
    """The number of the sheet or sample that it was started for."""
    out: Path
    state: str = RUNNING
    """`running`, `done` or `failed`."""
    run: str = ""
    """The run's name on the shelf, once it is there."""
    message: str = ""
    """Why it failed, in palpate's own sentence."""


@dataclass
class AuditJobs:
    """The jobs of this start of the workbench."""

    jobs: list[AuditJob] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def last(self, audit: str, about: int) -> AuditJob | None:
        """The last job of a sheet or sample."""
        return next((job for job in reversed(self.jobs) if (job.audit, job.about) == (audit, about)), None)

    def current(self) -> AuditJob | None:
        """What runs now."""
        return self.jobs[-1] if self.jobs and self.jobs[-1].state == RUNNING else None

    def close(self) -> None:
        """End what runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def jobs_of(bench: Bench) -> AuditJobs:
    """The jobs of the workbench."""
    return bench.kept("jobs", AuditJobs)


def last_job(bench: Bench, audit: str, about: int) -> AuditJob | None:
    """The last audit that was started for a sheet or sample, in this start of the workbench or before."""
    job = jobs_of(bench).last(audit, about)
    if job is not None:
        return job
    sql = "SELECT folder, state, message FROM jobs_started WHERE audit = ? AND about = ? ORDER BY id DESC LIMIT 1"
    rows = bench.store.read(sql, (audit, about))
    return _before(bench, audit, about, *rows[0]) if rows else None


def _before(bench: Bench, audit: str, about: int, folder: str, state: str, message: str) -> AuditJob:
    """An audit of an earlier start; one whose end was not noted has ended if its run is whole."""
    out = bench.options.home / "runs" / folder
    job = AuditJob(audit, about, out, FAILED, message=message)
    if state == FAILED:
        return job
    if (out / "scorecard.json").is_file():
        with suppress(PalpateError):
            job.run, job.state = shelf_of(bench).add(out), DONE
            return job
    job.message = bench.texts("words.audit_gone" if state == DONE else "words.audit_stopped")
    return job


def can_run(bench: Bench, audit: str) -> bool:
    """Whether there is a configuration with this audit."""
    config = find_config(bench.options)
    return config is not None and audit in load_config(config).audits


def run_again(bench: Bench, audit: str, settings: Mapping[str, Any], *, about: int) -> AuditJob:
    """Start an audit of the configuration with some options changed; refused while another one runs."""
    config = find_config(bench.options)
    if config is None or audit not in load_config(config).audits:
        raise BenchProblem("no_audit", audit=audit)
    jobs = jobs_of(bench)
    with jobs.lock:
        if jobs.current() is not None:
            raise BenchProblem("audit_runs")
        folder = make_folder(bench.options.home / "runs")
        taken = [int(found[1]) for each in folder.iterdir() if (found := re.fullmatch(rf"{audit}-(\d+)", each.name))]
        job = AuditJob(audit, about, folder / f"{audit}-{max(taken, default=0) + 1}")
        words = ["audit", str(config), "--out", str(job.out), "--only", audit]
        for option, value in settings.items():
            words += ["--set", f"{audit}.{option}={json.dumps(value)}"]
        jobs.process = subprocess.Popen(
            [sys.executable, "-m", "palpate", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1"},
        )
        jobs.jobs.append(job)
        number = _note_start(bench, job)
    threading.Thread(target=_wait, args=(bench, job, number, jobs.process), daemon=True).start()
    return job


def _note_start(bench: Bench, job: AuditJob) -> int:
    sql = "INSERT INTO jobs_started (audit, about, folder, state) VALUES (?, ?, ?, ?)"
    values = (job.audit, job.about, job.out.name, job.state)
    return bench.store.write(lambda db: int(db.execute(sql, values).lastrowid or 0))


def _wait(bench: Bench, job: AuditJob, number: int, process: subprocess.Popen[bytes]) -> None:
    said = process.communicate()[1].decode("utf-8", "replace").strip().splitlines()
    if process.returncode in (0, 1) and (job.out / "manifest.json").is_file():
        job.run = shelf_of(bench).add(job.out)
        job.state = DONE
    else:
        told = next((line for line in reversed(said) if line.startswith("palpate:")), "")
        job.message = told.removeprefix("palpate:").strip().replace(f"{job.out.parent}/", "")[:_LONGEST_MESSAGE]
        job.state = FAILED
    sql = "UPDATE jobs_started SET state = ?, message = ? WHERE id = ?"
    bench.store.write(lambda db: db.execute(sql, (job.state, job.message, number)) and None)
    bench.log.write("audit ended", audit=job.audit, state=job.state, run=job.run)
