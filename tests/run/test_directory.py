"""A run directory gives back what was written to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate.results import AuditResult, Estimate, estimates_frame
from palpate.run.directory import RunDirectory


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
