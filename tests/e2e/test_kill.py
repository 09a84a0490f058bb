"""Kill -9 at random moments: resume loses nothing, and the results are those of a run that was left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import notes_frame
from tests.e2e.test_audit import files
from tests.models.tiny_checkpoints import checkpoint as make_checkpoint

N_KILLS = int(os.environ.get("PALPATE_KILLS", "20"))
MODEL = """
import time, pathlib
import numpy as np

def predict(texts):
    time.sleep(0.03)
    with open(pathlib.Path(__file__).parent / "asked.log", "a") as log:
        log.writelines(f"{hash_of(text)}\\n" for text in texts)
    return np.asarray([0.2 + 0.5 * ("fever" in text) for text in texts])

def hash_of(text):
    import hashlib
    return hashlib.sha1(text.encode()).hexdigest()
"""
CONFIG = """\
cohort: {file: notes.csv, labels: [ill]}
models:
  slow: {source: "python:slow_model:predict", batch_size: 4}
  bert: {source: "hf:bert", batch_size: 16, labels: [ill]}
audits:
  performance: {n_replicates: 500}
cache: scores.sqlite
"""


def start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "palpate", "audit", "audit.yaml", "--out", "run", "--resume"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def make_project(folder: Path, checkpoint: Path) -> Path:
    folder.mkdir()
    notes_frame(400).write_csv(folder / "notes.csv")
    (folder / "slow_model.py").write_text(MODEL)
    (folder / "audit.yaml").write_text(CONFIG)
    (folder / "bert").symlink_to(checkpoint)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_killed_runs_finish_with_the_same_bytes(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    whole = make_project(tmp_path / "whole", checkpoint)
    began = time.monotonic()
    left_alone = start(whole)
    assert left_alone.wait() == 0, left_alone.stderr and left_alone.stderr.read()
    duration = time.monotonic() - began
    expected = files(whole / "run")
    asked_once = sorted((whole / "asked.log").read_text().split())
    rng = np.random.default_rng(0)
    kills = runs = 0
    while kills < N_KILLS:
        runs += 1
        folder = make_project(tmp_path / f"killed{runs}", checkpoint)
        # The moments of one run's kills are spread over its whole length, start and analysis included.
        for moment in [*rng.uniform(0.2, duration, 5), None]:
            process = start(folder)
            try:
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
                continue
            assert process.returncode == 0, process.stderr and process.stderr.read()
            break
        assert files(folder / "run") == expected
        asked = (folder / "asked.log").read_text().split()
        assert sorted(set(asked)) == asked_once
        # A kill can only lose the call that was under way, and each start scores one short text to see what is read.
        assert len(asked) <= len(asked_once) + 4 * 5 + 6


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    notes_frame(400).write_csv(tmp_path / "notes.csv")
    (tmp_path / "slow_model.py").write_text(MODEL.replace("0.03", "0.5"))
    (tmp_path / "audit.yaml").write_text(
        CONFIG.replace('  bert: {source: "hf:bert", batch_size: 16, labels: [ill]}\n', "")
    )
    command = [sys.executable, "-m", "palpate", "audit", "audit.yaml", "--out", "run", "--workers", "2"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        log = tmp_path / "asked.log"
        if log.exists() and len(log.read_text().splitlines()) > 1:  # the first is the text that is scored on loading
            break
        time.sleep(0.1)
    workers = children_of(process.pid)
    assert len(workers) >= 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(100):
        if not any(map(is_alive, workers)):
            break
        time.sleep(0.1)
    assert not any(map(is_alive, workers))
