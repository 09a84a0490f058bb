from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.commands.audit import audit
from palpate.commands.build import read_training_cohort
from palpate.train import train
from tests.e2e.command_line import CommandLine

from .server import Served

CONFIG = """\
title: <b>Fever</b> & falls
cohort: {file: notes.csv, labels: [ill]}
models:
  lr: palpate:models/lr
  small: palpate:models/small
audits:
  performance: {n_replicates: 100}
  vocabulary: {words: words.csv, n_replicates: 100}
cache: scores.sqlite
"""
WORDS = ("fever", "cough", "stable", "pneumonia", "sepsis", "fall", "walks", "aspirin", "pain", "sleeps")


def notes_table(n: int = 240, seed: int = 0, words: Sequence[str] = WORDS) -> pl.DataFrame:
    """Notes of men and women in which some words raise and others lower the chance of the label."""
    rng = np.random.default_rng(seed)
    there = rng.random((n, len(words))) < min(0.4, 8 / len(words))
    weights = np.resize([1.6, 0.3, -1.2, 1.4, 1.8, 0.6, -0.8, 0.1, 0.2, -0.5], len(words))
    chance = 1 / (1 + np.exp(-(-1.2 + there @ weights)))
    who = [("man", "He"), ("woman", "She")]
    texts = []
    for row in range(n):
        kind, pronoun = who[row % 2]
        said = ", ".join(word for word, here in zip(words, there[row], strict=True) if here)
        texts.append(f"{40 + row % 45} year old {kind} with a secretnote{row}. Findings: {said}. {pronoun} is home.")
    return pl.DataFrame(
        {
            "case_id": [f"c{row}" for row in range(n)],
            "patient_id": [f"p{row}" for row in range(n)],
            "split": [("train", "validation", "test", "test")[row % 4] for row in range(n)],
            "text": texts,
            "ill": (rng.random(n) < chance).astype(int),
        }
    )


def make_project(folder: Path, words: Sequence[str] = WORDS) -> Path:
    """A cohort, two trained models, a configuration and a finished run."""
    notes_table(words=words).write_csv(folder / "notes.csv")
    (folder / "words.csv").write_text("word\n" + "\n".join(words) + "\n")
    (folder / "audit.yaml").write_text(CONFIG)
    cases = read_training_cohort(folder / "audit.yaml")
    train("tfidf-logistic", cases, folder / "models" / "lr", {})
    train("tfidf-logistic", cases, folder / "models" / "small", {"max_features": 6})
    audit(folder / "audit.yaml", out=folder / "run")
    return folder


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    os.environ.setdefault("PALPATE_CACHE", str(tmp_path_factory.mktemp("cache") / "scores.sqlite"))
    return make_project(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def served(project: Path, tmp_path: Path) -> Iterator[Served]:
    with Served(project / "run", folder=tmp_path / "bench", config=project / "audit.yaml") as started:
        yield started


@pytest.fixture
def palpate(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)
