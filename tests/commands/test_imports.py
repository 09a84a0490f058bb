"""What `palpate audit` on predictions imports: the audit, and neither trainers nor cohort builders nor torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import notes_frame

NOT_NEEDED = {
    *("palpate.synthetic", "palpate.train", "palpate.data.cohorts", "palpate.data.hospitals", "palpate.commands.build"),
    *("torch", "transformers", "monai", "onnxruntime", "spacy", "ray", "duckdb", "fastexcel"),
}
COMMAND = """
import sys
from palpate.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


def imported(code: str, *arguments: object) -> set[str]:
    """The modules that a Python process has imported when its work is done."""
    command = [sys.executable, "-c", f"{code}\nprint(*sys.modules)", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.splitlines()[-1].split())


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A cohort, a model's predictions, and a configuration."""
    notes = notes_frame()
    notes.write_csv(tmp_path / "notes.csv")
    scores = pl.Series([k * 37 % 101 / 101 for k in range(notes.height)])
    notes.select("case_id", ill=scores).write_csv(tmp_path / "scores.csv")
    file = tmp_path / "audit.yaml"
    file.write_text(
        "cohort: {file: notes.csv, labels: [ill]}\n"
        "models: {risk: 'predictions:scores.csv'}\n"
        "audits: {performance: {n_replicates: 100}}\n"
    )
    return file


def test_importing_the_command_imports_only_what_it_needs() -> None:
    found = imported("import sys, palpate.commands.audit")
    assert "palpate.run.runner" in found
    assert not found & NOT_NEEDED


def test_an_audit_of_predictions_imports_only_what_it_needs(config: Path) -> None:
    found = imported(COMMAND, "audit", config)
    assert (config.parent / "audit-run" / "report.html").is_file()
    assert "palpate.models.adapters.predictions" in found
    assert not found & NOT_NEEDED
