"""A coding model's training that is killed goes on, to the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palpate.errors import ConfigError
from palpate.train import train
from tests.train.coding.coding_cohort import charts, cohort, evidence_file, tiny
from tests.train.training import contents

pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("kind", ["caml", "effective-can"])


def test_another_evidence_table_is_another_training(tmp_path: Path) -> None:
    file, data = evidence_file(tmp_path / "e"), cohort()
    options = tiny("caml", epochs=1, evidence="attention", evidence_table=file)
    train("caml", data, tmp_path / "m", options)
    train("caml", data, tmp_path / "m", options, resume=True)
    charts()[1].head(20).write_parquet(file)
    with pytest.raises(ConfigError, match="different options or a different cohort"):
        train("caml", data, tmp_path / "m", options, resume=True)


@BOTH
def test_an_interrupted_training_goes_on_to_the_same_bytes(kind: str, tmp_path: Path) -> None:
    data, file = cohort(32), evidence_file(tmp_path / "e", 32)
    options = tiny(kind, epochs=3, save_steps=2, dropout=0.2, evidence="cnn", evidence_table=file, seeds=[1, 2])
    train(kind, data, tmp_path / "whole", options)

    class Stop(Exception):
        pass

    def stop(step: Any) -> None:
        if step.stage == "seed 2: epoch 2 of 3" and step.done == 3:
            raise Stop

    with pytest.raises(Stop):
        train(kind, data, tmp_path / "m", options, progress=stop)
    later: list[str] = []
    train(kind, data, tmp_path / "m", options, resume=True, progress=lambda step: later.append(step.stage))
    assert not any("seed 1" in stage or "epoch 1" in stage for stage in later), "what was saved is not done again"
    assert contents(tmp_path / "m") == contents(tmp_path / "whole")


CHILD = """
import os, signal, sys
from pathlib import Path
from palpate.train import train
from tests.train.coding.coding_cohort import cohort, tiny

out, kill_at, file = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
seen = 0
def progress(step):
    global seen
    seen += 1
    if seen == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
options = tiny("effective-can", epochs=3, save_steps=3, dropout=0.2, evidence="attention", evidence_table=file)
train("effective-can", cohort(), out, options, resume=True, progress=progress)
"""


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_bytes(tmp_path: Path) -> None:
    file = evidence_file(tmp_path / "e")

    def run(out: Path, kill_at: int) -> int:
        command = [sys.executable, "-c", CHILD, str(out), str(kill_at), str(file)]
        return subprocess.run(command, cwd=Path(__file__).parents[3], check=False).returncode

    assert run(tmp_path / "whole", 0) == 0
    for moment in (7, 20):
        out = tmp_path / f"killed{moment}"
        assert run(out, moment) == -signal.SIGKILL
        assert run(out, 0) == 0
        assert contents(out) == contents(tmp_path / "whole"), moment
