"""A run directory gives back what was written to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.errors import RunError
from palpate.results import AuditResult, Axis, Chart, Column, Estimate, Table, estimates_frame
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


MISSHAPEN = [
    *({"models": "m"}, {"models": [1]}, {"cohorts": [1e308]}, {"cohorts": {}}, {"cohorts": [{}]}, {"audits": ["data"]}),
    *({"audits": {"data": 5}}, {"title": 5}, {"facts": [None]}, {"packages": []}, {"scoring": {"m": 1}}, {"config": 1}),
    *({"cohorts": [{"name": "c", **wrong}]} for wrong in ({"n": "x"}, {"labels": {"a": 1}}, {"labels": [1e308]})),
    {"models": [{"name": "m", "labels": "ill"}]},
]


@pytest.mark.parametrize("change", MISSHAPEN)
def test_a_manifest_of_another_shape_is_damaged_and_set_aside(change: dict[str, object], tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.write_manifest({"audits": {"data": {}}, "models": [{"name": "m"}], "cohorts": [{"name": "c", "n": 3}]})
    assert run.read_manifest()["cohorts"][0]["n"] == 3
    run.write_manifest(change)
    with pytest.raises(RunError, match=r"manifest\.json: the file is damaged; run the audit again with --resume"):
        run.read_manifest()
    run.set_aside_damage()
    assert not run.exists


def test_a_manifest_of_another_version_is_not_damaged(tmp_path: Path) -> None:
    """Even where its content has another shape."""
    run = RunDirectory(tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema": 2, "models": {"m": {}}}')
    check_directory(run, resume=True)
    with pytest.raises(
        RunError, match=r"written by another version of palpate; run the audit again with another --out"
    ):
        run.read_manifest()


@pytest.mark.parametrize(("column", "number"), [("value", float("nan")), ("high", float("inf"))])
def test_an_audit_that_gives_no_number_is_told_when_it_is_written(column: str, number: float, tmp_path: Path) -> None:
    """Such as one of the user's own; the report called its results damaged, and again after each --resume."""
    frame = estimates_frame([Estimate("mine", "m", "auroc", label="ill", group="all", value=0.5, n=9)])
    with pytest.raises(RunError, match=rf"audit 'mine' gave an estimate whose `{column}` is not a finite number"):
        RunDirectory(tmp_path).write_result(AuditResult("mine", frame.with_columns(pl.lit(number).alias(column))))
    assert not (tmp_path / "results").exists()


def test_results_that_do_not_fit_are_damaged(tmp_path: Path) -> None:
    run, table = (
        RunDirectory(tmp_path),
        Table(title="t", columns=(Column(name="a"), Column(name="b")), rows=((1, 2),)),
    )
    frame = estimates_frame([Estimate("data", "m", "auroc", label="ill", group="all", value=0.5, n=9)])
    wrong = [
        frame.drop("high"),
        frame.drop("level"),
        frame.with_columns(metric=pl.lit(-7)),
        frame.with_columns(value=pl.lit("x")),
        frame.with_columns(value=pl.lit(float("nan"))),
        frame.with_columns(high=pl.lit(float("inf"))),
    ]
    run.write_result(AuditResult("data", pl.DataFrame(), blocks=(table,)))
    assert run.read_result("data").blocks == (table,)
    for estimates in wrong:
        estimates.write_parquet(tmp_path / "results" / "data.parquet")
        with pytest.raises(RunError, match=r"data\.parquet: .* damaged; run the audit again with --resume"):
            run.read_result("data")
    axis = Axis(field="value", title="x")
    misdrawn: list[dict[str, object]] = [{"value": [None]}, {"low": "x"}, {"group": []}, {"significant": {}}]
    charts = [
        Chart(
            title="c", kind="forest", description="d", x=axis, y=axis, data=({"value": 0.5, "group": "all", **drawn},)
        )
        for drawn in misdrawn
    ]
    blocks: list[Table | Chart] = [table.model_copy(update={"rows": ((1,),)}), *charts]
    for block in blocks:
        run.write_result(AuditResult("data", frame, blocks=(block,)))
        with pytest.raises(RunError, match=r"data\.json: the file is damaged"):
            run.read_result("data")
    run.write_result(AuditResult("data", frame, provenance=[[]]))  # type: ignore[arg-type]
    with pytest.raises(RunError, match=r"data\.json: the file is damaged"):
        run.read_result("data")
    (tmp_path / "gate.json").write_text("[5]")
    with pytest.raises(RunError, match=r"gate\.json: the file is damaged"):
        run.read_gate()
