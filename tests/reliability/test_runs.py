"""Runs that are killed or whose disk fails, a few of each: see docs/reliability.md for the long trials."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def trial(*words: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "reliability", *words]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_kills_lose_nothing() -> None:
    found = trial("kills", "--kills", "5", "--minutes", "3")
    assert found["differences"] == found["orphans"] == 0
    assert found["kills"] > 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_disks_that_fail_lose_nothing() -> None:
    found = trial("disks", "--tries", "4", "--minutes", "3")
    assert found["wrong"] == []
    assert found["tried"] > 0
    assert found["writes"] > 20
