"""Data checks and the gate through the command line: what is wrong is said before anything is scored."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import CONFIG


def leaking(project: Path) -> None:
    """Every audited note also stands in the training split."""
    frame = notes_frame()
    texts = frame.filter(pl.col("split") == "train")["text"].to_list()
    copies = [texts[k % len(texts)] for k in range(frame.height)]
    frame.with_columns(pl.when(split="test").then(pl.Series(copies)).otherwise("text").alias("text")).write_csv(
        project / "notes.csv"
    )


def test_a_concern_about_the_data_is_told_before_scoring_and_stands_first(project: Path, palpate: CommandLine) -> None:
    leaking(project)
    (project / "audit.yaml").write_text(CONFIG + "gate: [no concern in performance, no concern]\n")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 1
    told, scoring = ran.err.index("100% of the audited notes"), ran.err.index("scoring good")
    assert told < scoring
    assert (ran.err + ran.out).count("its performance on them may be memory") == 1
    assert "FAILS no concern: concern: data.leakage" in ran.out
    card = json.loads((project / "audit-run" / "scorecard.json").read_text())
    first = card[0]
    assert (first["audit"], first["question"]) == ("data", "leakage")
    assert {cell["verdict"] for cell in first["models"].values()} == {"concern"}
    estimates = pl.read_parquet(project / "audit-run" / "results" / "data.parquet")
    assert estimates.filter(metric="identical_notes")["value"].to_list() == [1.0, 1.0]
    assert "fever" not in str(estimates.rows())


def test_the_data_checks_can_be_left_out_and_run_alone(project: Path, palpate: CommandLine) -> None:
    leaking(project)
    (project / "audit.yaml").write_text(CONFIG + "  data: false\n")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0
    assert "of the audited notes" not in ran.err
    assert not (project / "audit-run" / "results" / "data.parquet").exists()
    (project / "audit.yaml").write_text(CONFIG.replace("performance: {n_replicates: 200}", "data: {}"))
    assert palpate("audit", project / "audit.yaml", "--out", project / "alone").code == 0
    manifest = json.loads((project / "alone" / "manifest.json").read_text())
    assert manifest["cohorts"][0]["n"] == 100
    assert (project / "alone" / "report.html").is_file()


def test_the_data_are_checked_for_the_split_that_the_audits_are_about(project: Path, palpate: CommandLine) -> None:
    (project / "audit.yaml").write_text(CONFIG.replace("{n_replicates: 200}", "{n_replicates: 200, split: validation}"))
    assert palpate("audit", project / "audit.yaml").code == 0
    manifest = json.loads((project / "audit-run" / "manifest.json").read_text())
    assert manifest["audits"]["data"]["split"] == "validation"


def test_a_patient_in_two_splits_is_a_finding(project: Path, palpate: CommandLine) -> None:
    frame = notes_frame()
    split = frame["split"].to_list()
    split[4] = "train"  # p2, whose other note is audited
    frame.with_columns(pl.Series("split", split)).write_csv(project / "notes.csv")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 0
    assert "of the audited patients (1 of 50) also have cases in the training or validation split" in ran.err


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ("performance.auorc > 0.7", "performance has no metric 'auorc'; did you mean `auroc`?"),
        ("performance.auroc[model=god] > 0.7", "unknown model 'god'; did you mean `good`?"),
        ("performance.travle is acceptable", "performance has no question 'travle'; did you mean `travel`?"),
        ("performance.travel is good", "a gate cannot ask for 'good'"),
        ("no concern in context", "this run has no audit 'context'"),
        ("data.leakage is aceptable", "a gate cannot ask for 'aceptable'"),
        ("be good", "cannot be read"),
    ],
)
def test_a_wrong_gate_is_refused_before_anything_is_read(
    project: Path, palpate: CommandLine, gate: str, problem: str
) -> None:
    (project / "notes.csv").unlink()  # the cohort would be an error, too, were it read
    (project / "audit.yaml").write_text(CONFIG + f"gate:\n  - no concern\n  - {gate}\n")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert f"audit.yaml: line 9: gate condition '{gate}'" in ran.err
    assert problem in ran.err
    assert not (project / "audit-run").exists()


def test_a_label_that_the_cohort_lacks_is_refused_before_scoring(project: Path, palpate: CommandLine) -> None:
    (project / "audit.yaml").write_text(CONFIG + "gate: ['performance.auroc[label=il] > 0.5']\n")
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "audit.yaml: line 7: gate condition 'performance.auroc[label=il] > 0.5': the cohort has no label" in ran.err
    assert "did you mean `ill`?" in ran.err
    assert "loading models" not in ran.err


def test_a_wrong_option_has_its_line(project: Path, palpate: CommandLine) -> None:
    (project / "notes.csv").unlink()
    (project / "audit.yaml").write_text(CONFIG.replace("n_replicates", "n_replicats"))
    ran = palpate("audit", project / "audit.yaml")
    assert ran.code == 2
    assert "audit.yaml: line 6: audit 'performance', option 'n_replicats': unknown option" in ran.err
