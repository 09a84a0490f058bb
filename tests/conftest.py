"""Fixtures that many tests use. No test touches the user's own cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import settings

from palpate.cases.cohort import Cohort

# Numba compiles on first use, and machines differ: a test's time says nothing about its property. In CI the same commit
# gives the same answer; new examples are looked for wherever a developer runs the tests.
settings.register_profile("palpate", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("palpate")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path_factory.mktemp("cache") / "scores.sqlite"))


def notes_frame(n: int = 200, *, seed: int = 0) -> pl.DataFrame:
    """Notes in which 'fever' raises and 'stable' lowers the chance of the label; two notes a patient."""
    rng = np.random.default_rng(seed)
    fever, stable = rng.random(n) < 0.4, rng.random(n) < 0.4
    chance = 1 / (1 + np.exp(-(-1 + 1.5 * fever - 1.0 * stable)))
    filler = np.asarray(["cough", "walks", "sleeps well", "98.6", "aspirin 81 mg", "no pain"])
    notes = []
    for row in range(n):
        words = [*rng.choice(filler, 4), *(["fever"] if fever[row] else []), *(["stable"] if stable[row] else [])]
        notes.append(f"note {row}: " + ", ".join(rng.permutation(words)) + ".")
    patient = np.arange(n) // 2
    split = np.asarray(["train", "validation", "test", "test"])[patient % 4]
    return pl.DataFrame(
        {
            "case_id": [f"c{row}" for row in range(n)],
            "patient_id": [f"p{p}" for p in patient],
            "split": split,
            "text": notes,
            "ill": (rng.random(n) < chance).astype(int),
        }
    )


@pytest.fixture
def cohort() -> Cohort:
    return Cohort.from_frame(notes_frame(), labels=["ill"], name="home")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The same as a CSV file."""
    path = tmp_path / "notes.csv"
    notes_frame().write_csv(path)
    return path


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, which looks for barriers on a page."""
    folder, npm = tmp_path_factory.mktemp("axe"), shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    got = subprocess.run([npm, "install", "--silent", "--no-audit", "axe-core"], cwd=folder, capture_output=True)
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if got.returncode or not script.is_file():
        pytest.skip("axe-core can't be installed here")
    return script.read_text(encoding="utf-8")
