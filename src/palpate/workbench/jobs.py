"""Audits that are run again from a page, each in a process of its own, one at a time; their runs go on the shelf."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palpate.config import load_config
from palpate.errors import InputError
from palpate.files import make_folder
from palpate.workbench.runs import shelf_of
from palpate.workbench.sections import Bench
from palpate.workbench.shelf import find_config

_LONGEST_MESSAGE = 400


@dataclass
class AuditJob:
    """An audit that runs, or has run."""

    number: int
    audit: str
    out: Path
    state: str = "running"
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

    def close(self) -> None:
        """End what runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()


def jobs_of(bench: Bench) -> AuditJobs:
    """The jobs of the workbench."""
    return bench.kept("jobs", AuditJobs)


def can_run(bench: Bench, audit: str) -> bool:
    """Whether there is a configuration with this audit."""
    config = find_config(bench.options)
    return config is not None and audit in load_config(config).audits


def run_again(bench: Bench, audit: str, settings: Mapping[str, Any]) -> AuditJob:
    """Start an audit of the configuration with some options changed; refused while another one runs."""
    config = find_config(bench.options)
    if config is None or audit not in load_config(config).audits:
        hint = "start the workbench with --config FILE"
        raise InputError(f"there is no configuration with the audit '{audit}'", hint=hint)
    jobs = jobs_of(bench)
    with jobs.lock:
        if jobs.jobs and jobs.jobs[-1].state == "running":
            raise InputError("an audit is running already", hint="wait until it has ended")
        folder = make_folder(bench.options.home / "runs")
        taken = [int(found[1]) for each in folder.iterdir() if (found := re.fullmatch(rf"{audit}-(\d+)", each.name))]
        job = AuditJob(len(jobs.jobs) + 1, audit, folder / f"{audit}-{max(taken, default=0) + 1}")
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
    threading.Thread(target=_wait, args=(bench, job, jobs.process), daemon=True).start()
    return job


def _wait(bench: Bench, job: AuditJob, process: subprocess.Popen[bytes]) -> None:
    said = process.communicate()[1].decode("utf-8", "replace").strip().splitlines()
    if process.returncode in (0, 1) and (job.out / "manifest.json").is_file():
        job.run = shelf_of(bench).add(job.out)
        job.state = "done"
    else:
        told = next((line for line in reversed(said) if line.startswith("palpate:")), "")
        job.message = told.removeprefix("palpate:").strip().replace(f"{job.out.parent}/", "")[:_LONGEST_MESSAGE]
        job.state = "failed"
    bench.log.write("audit ended", audit=job.audit, state=job.state, run=job.run)
