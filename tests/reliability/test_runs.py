"""Runs that are killed or whose disk fails, a few of each: see docs/reliability.md for the long trials."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reliability.kills import _Trial
from reliability.runs import digest

ROOT = Path(__file__).parent.parent.parent


def trial(*words: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "reliability", *words]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_lose_nothing() -> None:
    found = trial("kills", "--kills", "5", "--minutes", "3")
    assert found["differences"] == found["orphans"] == 0
    assert found["kills"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_disks_that_fail_lose_nothing() -> None:
    found = trial("disks", "--tries", "4", "--minutes", "3")
    assert found["wrong"] == []
    assert found["tried"] > 0
    assert found["writes"] > 20


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_cohort_on_a_disk_that_fails_is_whole_or_not_there(tmp_path: Path) -> None:
    hospital = tmp_path / "hospital"
    write_omop(hospital)
    found = trial("disks", "--cohort", f"omop={hospital}", "--tries", "4", "--minutes", "3")
    assert found["wrong"] == []
    assert found["tried"] > 0


def write_omop(folder: Path) -> None:
    """Forty visits of twenty people."""
    folder.mkdir()
    people = [f"{k},{8507 + 25 * (k % 2)},{1940 + k},1,1,8527" for k in range(1, 21)]
    visits = [f"{k},{1 + k % 20},9201,{day}-01,{day}-09" for k in range(40) for day in [f"2020-{1 + k // 20 * 3:02d}"]]
    columns = "person_id,gender_concept_id,year_of_birth,month_of_birth,day_of_birth,race_concept_id"
    (folder / "PERSON.csv").write_text("\n".join([columns, *people]) + "\n")
    columns = "visit_occurrence_id,person_id,visit_concept_id,visit_start_date,visit_end_date"
    (folder / "VISIT_OCCURRENCE.csv").write_text("\n".join([columns, *visits]) + "\n")


def test_what_is_compared_leaves_out_the_date_alone(tmp_path: Path) -> None:
    def written(name: str, created: str, report: str = "fine", **more: str) -> dict[str, str]:
        run = tmp_path / name
        run.mkdir()
        (run / "manifest.json").write_text(json.dumps({"id": name, "created": created, **more}))
        (run / "report.html").write_text(f"Made on {created[:10]} {created[11:16]} UTC: {report}")
        (run / "manifest.damaged.json").write_text(name)
        return digest(run)

    one = written("one", "2026-11-18T06:30:42Z")
    assert written("two", "2026-11-19T07:31:00Z") == one
    assert written("three", "2026-11-18T06:30:42Z", "differs") != one
    assert written("four", "2026-11-18T06:30:42Z", title="differs") != one
    (tmp_path / "two" / ".123.left.parquet").touch()
    assert digest(tmp_path / "two") != one


def test_processes_that_stay_are_counted_and_ended() -> None:
    left = _Trial("local", random.Random(0), {})
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    left.ending[process.pid] = time.monotonic() - 1
    left.settle(wait=True)
    assert (left.orphans, process.wait()) == (1, -9)
    assert left.ending == {}
