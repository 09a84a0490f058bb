"""A run directory gives back what was written to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate.results import AuditResult, Estimate, estimates_frame
from palpate.run.checks import check_directory
from palpate.run.directory import RunDirectory
from tests.small_disks import run_on_small_disk

_TWICE = """
import numpy as np
from palpate.run.directory import RunDirectory
RunDirectory(place).write_pending("m", np.zeros((1, 2), np.uint64))
(place / "pending" / "m.npy").unlink()
fill(but=2 * 4096)
RunDirectory(place).write_pending("m", np.zeros((510, 2), np.uint64))
"""


def test_results_come_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    audits = ("performance", "vocabulary", "context")
    run.write_manifest({"audits": {name: {} for name in audits}})
    for name in sorted(audits):
        row = Estimate(name, "m", "auroc", label="ill", group="all", value=0.5, n=9)
        run.write_result(AuditResult(name, estimates_frame([row])))
    assert [result.audit for result in run.read_results()] == list(audits)


@pytest.mark.parametrize("damage", ["empty", "half", "endless"])
def test_a_damaged_list_of_pending_inputs_is_none(tmp_path: Path, damage: str) -> None:
    run = RunDirectory(tmp_path)
    run.write_pending("m", np.arange(200, dtype=np.uint64).reshape(100, 2))
    assert run.read_pending("m") is not None
    (file,) = (tmp_path / "pending").iterdir()
    whole = file.read_bytes()
    endless = whole.replace(b"(100, 2)", b"(9999999999999, 2)").replace(b" " * 10 + b"\n", b"\n", 1)
    file.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "endless": endless}[damage])
    assert run.read_pending("m") is None


def test_folders_in_place_of_files_and_files_in_place_of_folders_are_set_aside(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    (tmp_path / "pending" / "m.npy").mkdir(parents=True)
    (tmp_path / "pending" / "m.npy" / "mine").write_text("kept")
    (tmp_path / "manifest.json").mkdir()
    (tmp_path / "results").write_text("")
    (tmp_path / "predictions").mkdir()
    (tmp_path / "own").mkdir()
    check_directory(run, resume=True)
    run.write_pending("m", np.arange(200, dtype=np.uint64).reshape(100, 2))
    run.write_manifest({"audits": {}})
    run.write_result(AuditResult("performance", estimates_frame([])))
    assert (tmp_path / "pending" / "m.npy.damaged1" / "mine").read_text() == "kept"
    assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == {
        *("pending", "results", "predictions", "own", "manifest.json.damaged1")
    }


def test_pending_inputs_are_never_cut_off_silently(tmp_path: Path) -> None:
    """numpy's own `save` loses the last bytes on a disk that is full when C closes the file, and says nothing."""
    done = run_on_small_disk(_TWICE, tmp_path / "disk")
    assert "No space left on device" in done.stderr
