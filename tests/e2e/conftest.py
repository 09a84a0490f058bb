from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palpate.results import AuditResult
from palpate.run import runner
from palpate.run.runner import Job
from palpate.testing import check_declared
from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine

MODEL = '''
"""A model as a hospital would have it: a function of texts."""
import numpy as np


def predict(texts):
    score = np.asarray([1.5 * ("fever" in text) - 1.0 * ("stable" in text) - 1.0 for text in texts])
    return 1 / (1 + np.exp(-score))


def other(texts):
    return 1 / (1 + np.exp(-np.asarray([0.4 * ("cough" in text) - 1.0 for text in texts])))


def broken(texts):
    raise RuntimeError("no luck")


def picky(texts):
    if any(text.startswith("note 2:") for text in texts):
        raise ValueError("no luck")
    return [0.5] * len(texts)


def short(texts):
    return [0.5] * (len(texts) - 1)


def nan(texts):
    return np.full(len(texts), np.nan)
'''

CONFIG = """\
cohort: {file: notes.csv, labels: [ill]}
models:
  good: python:hospital_model:predict
  weak: python:hospital_model:other
audits:
  performance: {n_replicates: 200}
"""


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an audit finds in any of these tests, it has declared: gates are checked by that before a run."""
    analyse = runner._analyse

    def checked(job: Job, name: str, *rest: Any) -> AuditResult:
        result = analyse(job, name, *rest)
        check_declared(job.audits[name], result)
        return result

    monkeypatch.setattr(runner, "_analyse", checked)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a table of notes, a model and a configuration."""
    notes_frame().write_csv(tmp_path / "notes.csv")
    (tmp_path / "hospital_model.py").write_text(MODEL)
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path
