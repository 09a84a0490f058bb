"""`palpate history`: several runs side by side, what changed, and runs that cannot be read."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.e2e.command_line import CommandLine

_MADE: list[Path] = []
"""Where the runs are that the first test made."""


@pytest.fixture
def runs(project: Path, palpate: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs, made in March, April and May: the same twice, then with another cohort and one model fewer.

    They are made once; every test has a copy of its own.
    """
    if not _MADE:
        _make_runs(project, palpate)
        _MADE.append(Path(shutil.copytree(project, tmp_path_factory.mktemp("runs") / "made")))
    shutil.copytree(_MADE[0], project, dirs_exist_ok=True)
    return project


def _make_runs(project: Path, palpate: CommandLine) -> None:
    for k, name in enumerate(("march", "april", "may")):
        if name == "may":
            table = pl.read_csv(project / "notes.csv")
            table.filter(pl.int_range(pl.len()) % 5 > 0).write_csv(project / "notes.csv")
            config = (project / "audit.yaml").read_text().replace("  weak: python:hospital_model:other\n", "")
            (project / "audit.yaml").write_text(config)
        ran = palpate("audit", project / "audit.yaml", "--out", project / name)
        assert ran.code == 0, ran.err
        manifest = json.loads((project / name / "manifest.json").read_text())
        manifest["created"] = f"2026-0{k + 3}-01T08:00:00Z"
        (project / name / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.slow
def test_numbers_in_the_order_in_which_they_were_made(runs: Path, palpate: CommandLine) -> None:
    ran = palpate("history", runs / "may", runs / "march", runs / "april", "--out", runs / "history.csv")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    with (runs / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["model"]) for row in rows] == [
        ("march", "good"),
        ("march", "weak"),
        ("april", "good"),
        ("april", "weak"),
        ("may", "good"),
    ]
    assert [row["changed"] for row in rows] == ["", "", "nothing", "nothing", "the cohort, model weak is gone"]
    expected = pl.read_parquet(runs / "may/results/performance.parquet").filter(
        pl.col("reference").is_null(), metric="auroc", model="good"
    )
    assert float(rows[-1]["value"]) == expected["value"][0]
    assert float(rows[-1]["low"]) == expected["low"][0]
    for words in ("march", "2026-03-01", "AUROC", "the cohort, model weak is gone"):
        assert words in ran.out


def test_a_page_that_is_complete(runs: Path, palpate: CommandLine) -> None:
    ran = palpate("history", runs / "march", runs / "may", "--metric", "performance.brier", "--out", runs / "h.html")
    assert ran.code == 0, ran.err
    page = (runs / "h.html").read_text()
    assert "History of Brier score" in page
    assert "Changed since the run before" in page
    assert "<script src" not in page
    assert "2 runs" in page


def test_damaged_and_older_runs_are_named_and_skipped(runs: Path, palpate: CommandLine) -> None:
    (runs / "april/results/performance.parquet").write_bytes(b"half of a fi")
    older = json.loads((runs / "march/manifest.json").read_text())
    (runs / "march/manifest.json").write_text(json.dumps({**older, "schema": 0}))
    (runs / "empty").mkdir()
    given = [runs / name for name in ("march", "april", "may", "empty", "nowhere", "notes.csv")]
    ran = palpate("history", *given)
    assert ran.code == 0
    said = ran.err.splitlines()
    assert len(said) == 5, ran.err
    for name, why in (
        ("march", "written by another version of palpate"),
        ("april", "missing or damaged"),
        ("empty", "holds no run"),
        ("nowhere", "not a run directory"),
        ("notes.csv", "not a run directory"),
    ):
        assert any(str(runs / name) in line and why in line and line.startswith("palpate: Skipped") for line in said)
    assert "may" in ran.out


def test_columns_that_another_version_did_not_have(runs: Path, palpate: CommandLine) -> None:
    file = runs / "april/results/performance.parquet"
    pl.read_parquet(file).drop("n_family", "pointwise_low").write_parquet(file)
    assert palpate("history", runs / "april").code == 0
    pl.read_parquet(file).drop("metric").write_parquet(file)
    ran = palpate("history", runs / "april", runs / "may")
    assert ran.code == 0
    assert "its results were written by another version of palpate" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "this is not a run directory"),
        (["nowhere", "neither"], "None of the 2 given can be read"),
        (["may", "--metric", "auorc"], "no run has a metric 'auorc'; did you mean `auroc`?"),
        (["may", "--metric", "drift.auroc"], "no run has an audit 'drift'"),
        (["may", "--model", "goood"], "no run has a model 'goood'; did you mean `good`?"),
        (["may", "--group", "2024-03"], "no run has a group '2024-03'"),
        (["may", "--out", "history.pdf"], "a history is written as .html or .csv"),
    ],
)
def test_bad_input_is_one_sentence(
    runs: Path, palpate: CommandLine, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(runs)
    ran = palpate("history", *words)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1, ran.err
    assert said in ran.err
