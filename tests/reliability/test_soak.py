"""The soak test sees what grows; a part of it runs with the slow tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reliability.soak import WARM_UP, Held, compared, held, soak


def test_what_grows_is_seen() -> None:
    flat = [Held(900.0, 50, 2, 1)] * WARM_UP + [Held(500.0 + k % 3, 10, 1, 0) for k in range(12)]
    assert compared(flat)["wrong"] == []
    leaking = [Held(500.0 + 10 * k, 10 + k, 1, k // 2) for k in range(15)]
    assert compared(leaking)["wrong"] == ["memory grew by 80 MB", "5 more files", "2 more processes"]


def test_what_is_held_is_counted() -> None:
    before, waiting = held(), [sys.executable, "-c", "input()"]
    with Path(os.devnull).open() as _, subprocess.Popen(waiting, stdin=subprocess.PIPE) as running:
        during = held()
        assert (during.files - before.files, during.processes - before.processes) == (2, 1)
        running.kill()
    assert held().files == before.files


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_run_after_run_leaves_nothing() -> None:
    found = soak(minutes=float(os.environ.get("PALPATE_SOAK_MINUTES", "10")))
    assert found["wrong"] == [], found
    assert found["different_results"] == 0
