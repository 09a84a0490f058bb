"""From a table of notes and a model to a report, through the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from palpate import __version__
from palpate.cases.hashing import key_of
from palpate.commands.demo import write_demo
from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import CONFIG


def files(run: Path) -> dict[str, bytes]:
    """What must be the same in two equal runs."""
    wanted = [*run.glob("results/*"), *run.glob("predictions/*"), *run.glob("variants/*")]
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(wanted)}


def test_a_table_and_a_model_become_a_report(project: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0, ran.err
    assert "Concern: weak flags everybody in notes" in ran.out
    assert "Whether weak is worse than good by more than 0.03 AUROC cannot be told: " in ran.out
    run = project / "audit-run"
    assert str(run / "report.html") in ran.out.replace("\n", "")
    estimates = pl.read_parquet(run / "results" / "performance.parquet")
    assert {"good", "weak"} <= set(estimates["model"])
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["cohorts"][0]["n_patients"] == 50  # of the split `test`


def test_no_note_text_in_the_run(project: Path, palpate: CommandLine) -> None:
    palpate("audit", project / "audit.yaml", "--out", project / "run")
    stored = b"".join(path.read_bytes() for path in (project / "run").rglob("*") if path.is_file())
    frames = [pl.read_parquet(path) for path in (project / "run").rglob("*.parquet")]
    told = "".join(str(frame.to_dict(as_series=False)) for frame in frames)
    assert b"sleeps well" not in stored
    assert "sleeps well" not in told


def test_the_same_seed_gives_the_same_bytes(project: Path, palpate: CommandLine) -> None:
    for name in ("one", "two"):
        assert palpate("audit", project / "audit.yaml", "--out", project / name).code == 0
    assert files(project / "one") == files(project / "two")
    assert (project / "one" / "report.html").stat().st_size < 5_000_000


@pytest.mark.slow
def test_workers_do_not_change_the_bytes(project: Path, palpate: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, workers in (("one", 1), ("two", 2)):
        monkeypatch.setenv("PALPATE_CACHE", str(project / f"{name}.sqlite"))
        ran = palpate("audit", project / "audit.yaml", "--out", project / name, "--workers", workers)
        assert ran.code == 0, ran.err
    assert files(project / "one") == files(project / "two")


@pytest.mark.cluster
def test_a_cluster_does_not_change_the_bytes(project: Path, palpate: CommandLine) -> None:
    ray = pytest.importorskip("ray")
    for name, executor in (("one", "local"), ("two", "ray")):
        (project / "audit.yaml").write_text(CONFIG + f"executor: {executor}\nworkers: 2\ncache: {name}.sqlite\n")
        ran = palpate("audit", project / "audit.yaml", "--out", project / name)
        assert ran.code == 0, ran.err
    ray.shutdown()
    assert files(project / "one") == files(project / "two")


@pytest.mark.cluster
def test_a_cluster_names_the_model_that_fails(project: Path, palpate: CommandLine) -> None:
    ray = pytest.importorskip("ray")
    (project / "audit.yaml").write_text(CONFIG.replace(":other", ":nan") + "executor: ray\nworkers: 1\n")
    ran = palpate("audit", project / "audit.yaml")
    ray.shutdown()
    assert ran.code == 3
    assert "model 'weak', case 'c" in ran.err


def test_the_report_is_rebuilt_without_models(project: Path, palpate: CommandLine) -> None:
    palpate("audit", project / "audit.yaml", "--out", project / "run")
    before = (project / "run" / "report.html").read_bytes()
    (project / "run" / "report.html").unlink()
    for name in ("notes.csv", "hospital_model.py", "audit.yaml"):
        (project / name).unlink()
    assert palpate("report", project / "run").code == 0
    assert (project / "run" / "report.html").read_bytes() == before


def test_a_finished_run_is_not_overwritten_but_resumed(project: Path, palpate: CommandLine) -> None:
    palpate("audit", project / "audit.yaml")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "already holds a run; add --resume" in ran.err
    before = files(project / "audit-run")
    assert palpate("audit", project / "audit.yaml", "--resume").code == 0
    assert files(project / "audit-run") == before


def test_a_run_is_resumed_only_as_what_it_was_begun(project: Path, palpate: CommandLine) -> None:
    palpate("audit", project / "audit.yaml")
    (project / "audit.yaml").write_text(CONFIG + "seed: 7\n")
    ran = palpate("audit", project / "audit.yaml", "--resume")
    assert ran.code == 2
    assert "this run was started with different seed" in ran.err


def test_only_and_set(project: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", project / "audit.yaml", "--only", "performance", "--set", "performance.threshold=0.25")
    assert ran.code == 0
    manifest = json.loads((project / "audit-run" / "manifest.json").read_text())
    assert manifest["audits"]["performance"]["threshold"] == 0.25
    ran = palpate("audit", project / "audit.yaml", "--only", "vocabulary")
    assert ran.code == 2
    assert "the configuration does not have this audit" in ran.err


def test_several_cohorts_and_checkpoints(project: Path, palpate: CommandLine) -> None:
    from tests.conftest import notes_frame

    notes_frame(seed=9).drop("split").write_csv(project / "away.csv")
    (project / "audit.yaml").write_text(
        CONFIG.replace(
            "cohort: {file: notes.csv, labels: [ill]}",
            "cohorts:\n  home: {file: notes.csv, labels: [ill]}\n  away: {file: away.csv, labels: [ill]}",
        ).replace(
            "weak: python:hospital_model:other", "weak: [python:hospital_model:other, python:hospital_model:predict]"
        )
    )
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0, ran.err
    estimates = pl.read_parquet(project / "audit-run" / "results" / "performance.parquet")
    assert estimates.filter(group="away", reference="home", metric="auroc", model="weak").height == 1
    assert estimates.filter(model="weak", metric="auroc_sd").height == 2
    assert set(estimates["model"]) == {"good", "weak", "weak[1]", "weak[2]"}


def test_gate_ends_with_1_and_writes_junit(project: Path, palpate: CommandLine) -> None:
    (project / "audit.yaml").write_text(CONFIG + "gate:\n  - performance.auroc.low[model=good] >= 0.5\n")
    assert palpate("audit", project / "audit.yaml").code == 0
    gates = ["performance.auroc >= 0.99", "no significant drop against audit-run"]
    (project / "audit.yaml").write_text(CONFIG + "gate:\n" + "".join(f"  - {gate}\n" for gate in gates))
    ran = palpate("audit", project / "audit.yaml", "--out", project / "second")
    assert ran.code == 1
    assert "FAILS" in ran.out
    assert "holds" in ran.out
    junit = (project / "second" / "junit.xml").read_text()
    assert 'failures="1"' in junit
    assert "no significant drop" in junit


def test_plan_and_predictions_from_elsewhere(project: Path, palpate: CommandLine) -> None:
    ran = palpate("plan", project / "audit.yaml", "--out", project / "ask")
    assert ran.code == 0
    inputs = pl.read_parquet(project / "ask" / "inputs.parquet")
    assert inputs["input_id"][0] == key_of(inputs["text"][0]).hex()
    answers = inputs.select("input_id", ill=pl.col("text").str.contains("fever").cast(pl.Float64) * 0.5 + 0.2)
    answers.write_csv(project / "answers.csv")
    (project / "audit.yaml").write_text(CONFIG.replace("python:hospital_model:other", "predictions:answers.csv"))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0, ran.err


def test_a_cohort_without_text_is_planned_and_answered_by_case(project: Path, palpate: CommandLine) -> None:
    from tests.conftest import notes_frame

    notes_frame().drop("text").write_csv(project / "notes.csv")
    config = CONFIG.replace("python:hospital_model:other", "predictions:answers.parquet")
    (project / "audit.yaml").write_text(config.replace("  good: python:hospital_model:predict\n", ""))
    ran = palpate("plan", project / "audit.yaml", "--out", project / "ask")
    assert "Write a table with cohort, case_id" in ran.out
    inputs = pl.read_parquet(project / "ask" / "inputs.parquet")
    inputs.with_columns(ill=pl.int_range(pl.len()) / pl.len()).write_parquet(project / "answers.parquet")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0, ran.err


def test_a_gate_that_is_gone_leaves_no_verdict(project: Path, palpate: CommandLine) -> None:
    (project / "audit.yaml").write_text(CONFIG + "gate:\n  - performance.auroc >= 0.99\n")
    assert palpate("audit", project / "audit.yaml").code == 1
    (project / "audit.yaml").write_text(CONFIG)
    assert palpate("audit", project / "audit.yaml", "--resume").code == 0
    assert not (project / "audit-run" / "junit.xml").exists()
    assert "performance.auroc &gt;= 0.99" not in (project / "audit-run" / "report.html").read_text()


def test_a_subset_of_labels_needs_no_more_of_the_model(project: Path, palpate: CommandLine) -> None:
    from tests.conftest import notes_frame

    notes_frame().with_columns(other=pl.col("ill")).write_csv(project / "notes.csv")
    config = CONFIG.replace("labels: [ill]", "labels: [ill, other]")
    (project / "audit.yaml").write_text(config.replace("n_replicates: 200", "n_replicates: 200, labels: [ill]"))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0, ran.err


def test_facts_of_the_cohort_are_in_the_report(project: Path, palpate: CommandLine) -> None:
    from tests.conftest import notes_frame

    notes_frame().drop("patient_id").write_csv(project / "notes.csv")
    assert palpate("audit", project / "audit.yaml").code == 0
    assert "own patient" in (project / "audit-run" / "report.html").read_text()


def test_python_dash_m_is_the_same_program() -> None:
    ran = subprocess.run([sys.executable, "-m", "palpate", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"palpate {__version__}"


@pytest.mark.slow
def test_demo_tells_two_models_of_equal_auroc_apart(tmp_path: Path, palpate: CommandLine) -> None:
    ran = palpate("demo", "--out", tmp_path / "demo")
    assert ran.code == 0, ran.err
    assert "xgboost hangs on 'larkspur'" in ran.out
    assert "xgboost loses AUROC from hospital a to hospital b" in ran.out
    assert "which cannot be told apart" in ran.out
    assert re.search(r"'larkspur' is 1st for xgboost and \S+ for logistic; clinicians rank it 4[5-9]", ran.out)
    assert "logistic agrees better with the clinicians than xgboost" in ran.out
    assert "logistic does not lose 0.03 AUROC or more from hospital a to hospital b" in ran.out
    assert "flags every" not in ran.out
    assert (tmp_path / "demo" / "run" / "report.html").is_file()
    # The planted fall is 0.12; both models have an AUROC of 0.84.
    assert re.search(r"picture 0\.8[345]\d and sticker 0\.8[345]\d", ran.out)
    assert re.search(
        r"picture \w+ 0\.0\d AUROC, which may be chance and sticker loses 0\.1[0-4] AUROC \(planted: 0 and −0\.12\)",
        ran.out,
    )
    assert (tmp_path / "demo" / "run-xrays" / "report.html").is_file()


@pytest.mark.slow
def test_demo_replaces_its_own_folder_and_no_other(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "audit.yaml").write_text("mine")
    ran = palpate("demo", "--out", tmp_path / "mine")
    assert ran.code == 2
    assert "is not empty; choose another --out" in ran.err
    assert (tmp_path / "mine" / "audit.yaml").read_text() == "mine"
    ran = palpate("demo", "--out", tmp_path / "demo", "--patients", 500)
    assert ran.code == 0, ran.err
    assert (tmp_path / "demo" / "run-xrays" / "report.html").is_file()
    write_demo(tmp_path / "demo", n_patients=500)
    assert not (tmp_path / "demo" / "run").exists()
