"""The options of `palpate train pretest`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from palpate.models.devices import DeviceOptions
from palpate.train.options import Listed

Family = Literal["bow", "embeddings", "xgboost", "tables"]
FAMILIES: tuple[Family, ...] = ("bow", "embeddings", "xgboost", "tables")
NOTE_MARK = "\n\n===== NEXT NOTE =====\n\n"
"""What separates two earlier notes in a cohort of `palpate cohort cxr`."""
PREFIX = "pretest_"
JOB = "pretest job"
"""The attribute that says which training a case's probabilities come from: the `job` of its card."""


class PretestOptions(DeviceOptions):
    """Options of `pretest`."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), use_attribute_docstrings=True)

    families: Listed[Family] | None = Field(default=None, min_length=1)
    """bow, embeddings, xgboost (on the bag of words), tables. Default: bow and xgboost if there are earlier notes, and
    embeddings if there are `encoders`; tables if there are no notes."""
    classifiers: Listed[str] | None = Field(default=None, min_length=1)
    """Only these classifiers, by their scikit-learn names; default: all classifiers of the families."""
    labels: Listed[str] | None = Field(default=None, min_length=1)
    """Only these labels; default: all."""
    notes: Literal["prior", "text"] = "prior"
    """The column with the notes that were known before the test."""
    note_mark: str = Field(default=NOTE_MARK, min_length=1)
    """What separates two notes of a case."""
    splits: Listed[Literal["train", "validation", "test"]] = Field(default=("train", "validation"), min_length=1)
    """The splits to learn from, as in the paper; other cases are only scored. Without splits: all cases."""
    max_words: int = Field(default=8192, ge=1)
    """Bag of words: the most words to keep, by frequency."""
    min_df: int = Field(default=5, ge=1)
    """Bag of words: words in the notes of fewer cases are left out."""
    max_df: float = Field(default=0.9, gt=0, le=1)
    """Bag of words: words in the notes of a larger share of cases are left out."""
    min_patients: int = Field(default=5, ge=1)
    """Bag of words: words in the notes of fewer patients are left out: they may identify someone."""
    encoders: Listed[Path] = ()
    """Embeddings: folders with transformers checkpoints; nothing is downloaded."""
    max_tokens: int | None = Field(default=None, ge=8)
    """Embeddings: tokens in a window; default: as many as the encoder can read."""
    stride: int | None = Field(default=None, ge=0)
    """Embeddings: how many tokens adjacent windows share; default: a quarter of the window."""
    batch_tokens: int | None = Field(default=None, ge=1)
    """Embeddings: tokens in one forward pass; default: 4,096 on a CPU, what fits into memory on a GPU."""
    trust: bool = False
    """Embeddings: allow pickled weights and code that comes with the checkpoint."""
    columns: Listed[str] | None = Field(default=None, min_length=1)
    """Tables: the attributes to read; default: all except earlier pre-test probabilities."""
    draws: int = Field(default=60, ge=1)
    """XGBoost: how many random settings are tried."""
    folds: int = Field(default=5, ge=3)
    """Folds for choosing a model and for out-of-fold probabilities; all cases of a patient are in one fold."""
    search: Literal["halving", "full"] = "halving"
    """full: every setting on all folds with all cases, as in the paper; halving: weak settings are dropped early."""
    search_rows: int = Field(default=4000, ge=100)
    """Halving: the most training cases per fold while a model is chosen."""
    calibration: Literal["auto", "platt", "isotonic"] = "auto"
    """auto: isotonic for XGBoost and Platt's scaling for all others, as in the paper."""
    n_replicates: int = Field(default=1000, ge=0, le=1_000_000)
    """Bootstrap replicates for the card's intervals; 0: no intervals."""
    seed: int = Field(default=42, ge=0)
    """Seed of the folds, the draws and the classifiers."""
    threads: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    """Models fitted at the same time; any number gives the same result."""
