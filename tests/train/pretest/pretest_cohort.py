"""A cohort with earlier notes whose words tell the label, and numbers, for tests of pre-test models."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.train.pretest.features import FeatureMatrix
from palpate.train.pretest.grids import Setup, setups
from palpate.train.pretest.options import NOTE_MARK, PretestOptions
from palpate.train.pretest.search import LabelTask, make_folds

FILLER = ("cough", "walks", "sleeps", "eats", "aspirin", "ward", "family", "diet", "sodium", "chest", "lungs", "clear")


def frame(n: int = 360, *, seed: int = 0) -> pl.DataFrame:
    """`ill` follows from fever and chills in any earlier note, `old` from age; two cases a patient; one note or two."""
    rng = np.random.default_rng(seed)
    has = {word: rng.random(n) < 0.4 for word in ("fever", "chills", "stable")}
    age = rng.integers(20, 90, n)
    p_ill = 1 / (1 + np.exp(-(-1.5 + 2.5 * has["fever"] + 2.0 * has["chills"] - 1.5 * has["stable"])))
    p_old = 1 / (1 + np.exp(-(age - 60) / 6))
    patient = np.arange(n) // 2
    notes = []
    for row in range(n):
        words = [*rng.choice(FILLER, 5), *(word for word, there in has.items() if there[row])]
        words = [*rng.permutation(words).tolist(), f"named{patient[row]}x"]
        cut = int(rng.integers(0, len(words)))
        notes.append(NOTE_MARK.join(" ".join(part) for part in (words[:cut], words[cut:]) if part))
    return pl.DataFrame(
        {
            "case_id": [f"c{row}" for row in range(n)],
            "patient_id": [f"p{p}" for p in patient],
            "split": np.asarray(["train", "train", "train", "validation", "test"])[patient % 5],
            "prior": notes,
            "age": pl.Series([None if row % 17 == 0 else int(a) for row, a in enumerate(age)], dtype=pl.Int64),
            "gender": np.where(rng.random(n) < 0.5, "F", "M"),
            "ill": (rng.random(n) < p_ill).astype(int),
            "old": (rng.random(n) < p_old).astype(int),
            "never": np.zeros(n, dtype=int),
        }
    )


def cohort(n: int = 360, *, labels: tuple[str, ...] = ("ill",), table: pl.DataFrame | None = None) -> Cohort:
    """The same as a cohort."""
    rows = frame(n) if table is None else table
    unused = [name for name in ("ill", "old", "never") if name not in labels]
    return Cohort.from_frame(rows.drop(unused), labels=labels, name="home", attributes=["age", "gender"])


def options(**given: Any) -> PretestOptions:
    return PretestOptions.model_validate({"threads": 1, "n_replicates": 0, **given})


def numbers(n: int = 300, p: int = 6, *, seed: int = 0) -> tuple[Any, Any, Any]:
    """FeatureMatrix, labels, patients: three cases each."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(1.0, (n, p)).astype(np.float32)
    y = (rng.random(n) < 1 / (1 + np.exp(1.5 - x[:, 0] - 0.5 * x[:, 1]))).astype(np.uint8)
    return x, y, np.arange(n, dtype=np.int64) // 3


def discriminants(n_columns: int, *, seed: int = 0) -> tuple[LabelTask, list[Setup]]:
    """300 cases and the linear discriminants of the embeddings' grid; one of them needs more cases than columns."""
    rng = np.random.default_rng(seed)
    _, y, patients = numbers()
    x = rng.normal(size=(300, n_columns)).astype(np.float32)
    x[:, 0] += y
    candidates = setups({"embeddings": ["enc"]}, options(classifiers="LinearDiscriminantAnalysis"))
    return LabelTask({"enc": FeatureMatrix(x)}, y, make_folds(y, patients, 5, 42)), candidates
