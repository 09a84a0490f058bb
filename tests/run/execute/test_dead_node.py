"""A node, or workers again and again, are killed in the middle of a run: the same bytes as without a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

MODEL = """
import os
import time
import uuid
from pathlib import Path

def scores(texts):
    import ray

    node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"
    calls = Path(__file__).parent / "calls"
    calls.mkdir(exist_ok=True)
    (calls / f"{node}-{os.getpid()}-{uuid.uuid4().hex}").touch()
    time.sleep(float(os.environ.get("CALL_SECONDS", 0.3)) if node != "here" else 0)
    return [len(text) * 37 % 101 / 101 for text in texts]
"""
CONFIG = """
cohort: {file: notes.csv, labels: [ill]}
models: {slow: {source: "python:slow_model:scores", labels: [ill], batch_size: 4}}
audits: {performance: {n_replicates: 200}}
workers: 3
"""
CALLS_BEFORE_DEATH, PATIENCE = 3, 400.0
KILLS, SECONDS_BETWEEN_KILLS = 3, 4.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    texts = [f"{'w' * int(n)} note {k}" for k, n in enumerate(rng.integers(5, 300, 160))]
    pl.DataFrame({"case_id": [f"c{k}" for k in range(160)], "text": texts, "ill": rng.integers(0, 2, 160)}).write_csv(
        tmp_path / "notes.csv"
    )
    (tmp_path / "slow_model.py").write_text(MODEL)
    for name in ("here", "away"):
        (tmp_path / f"{name}.yaml").write_text(f"{CONFIG}cache: {name}.sqlite\n")
    return tmp_path


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    utils = pytest.importorskip("ray.cluster_utils")
    for name in ("raylet_start_wait_time_s", "gcs_server_request_timeout_seconds"):  # the machine may be busy
        monkeypatch.setenv(f"RAY_{name}", "300")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    started = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield started
    started.shutdown()


def audit(project: Path, name: str, *options: str, seconds: float = 0.3) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "palpate", "audit", str(project / f"{name}.yaml"), "--out", str(project / name)]
    return subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, env={**os.environ, "CALL_SECONDS": str(seconds)}
    )


def answered(project: Path, node: str) -> int:
    return len(list((project / "calls").glob(f"{node}-*")))


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_dead_node_changes_no_byte(project: Path, cluster: Any) -> None:
    local = audit(project, "here")
    assert local.wait() == 0
    node = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    running = audit(project, "away", "--ray", cluster.address)
    end = time.monotonic() + PATIENCE
    while answered(project, node.node_id) < CALLS_BEFORE_DEATH and running.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    assert answered(project, node.node_id) >= CALLS_BEFORE_DEATH
    assert running.poll() is None, "ended before the node was killed"
    cluster.remove_node(node, allow_graceful=False)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, said.decode()[-2000:]
    assert_same_bytes(project)


def assert_same_bytes(project: Path) -> None:
    for part in ("results", "predictions", "variants"):
        files = sorted(file.name for file in (project / "here" / part).iterdir())
        assert files
        assert files == sorted(file.name for file in (project / "away" / part).iterdir())
        for file in files:
            assert (project / "here" / part / file).read_bytes() == (project / "away" / part / file).read_bytes()


def kill_a_worker(project: Path, dead: set[int]) -> None:
    """Kill the worker that was asked last, if it is not dead yet."""
    asked = sorted((project / "calls").glob("*"), key=lambda file: file.stat().st_mtime)
    for file in reversed(asked):
        node, pid, _ = file.name.split("-")
        if node != "here" and int(pid) not in dead and Path("/proc", pid).exists():
            os.kill(int(pid), signal.SIGKILL)
            dead.add(int(pid))
            return


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_that_are_killed_change_no_byte(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in ("here", "away"):
        config = project / f"{name}.yaml"
        config.write_text(config.read_text().replace("workers: 3", "workers: 2"))
    local = audit(project, "here")
    assert local.wait() == 0
    running, dead = audit(project, "away", "--ray", "local", seconds=1.0), set[int]()
    end = time.monotonic() + PATIENCE
    while len(dead) < KILLS and running.poll() is None and time.monotonic() < end:
        time.sleep(SECONDS_BETWEEN_KILLS)
        kill_a_worker(project, dead)
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, said.decode()[-2000:]
    assert len(dead) == KILLS
    assert_same_bytes(project)
