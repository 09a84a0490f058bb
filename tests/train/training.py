"""What the tests of training share: small options of each kind, and reading a model back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.models import ModelSpec, load_model

TINY: dict[str, Any] = {
    "layers": 1,
    "hidden": 32,
    "heads": 2,
    "vocab_size": 300,
    "max_tokens": 32,
    "epochs": 5,
    "learning_rates": [3e-3],
    "threads": 1,  # on a busy machine two threads of torch wait for each other most of the time
}
CODING: dict[str, Any] = {
    "embedding": 16,
    "kernel": 3,
    "epochs": 5,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "target_recall": 0.7,
    "threads": 1,
}
SMALL: dict[str, dict[str, Any]] = {
    "tfidf-xgboost": {},
    "tfidf-logistic": {},
    "transformer": TINY,
    "caml": {**CODING, "filters": 16},
    "effective-can": {**CODING, "channels": [16, 16], "attention": 16},
    "plm-icd": {
        **{key: value for key, value in TINY.items() if key != "learning_rates"},
        "chunk": 8,
        "learning_rate": 3e-3,
        "batch_size": 16,
        "target_recall": 0.7,
    },
}


def small(kind: str, **options: Any) -> dict[str, Any]:
    return {"n_replicates": 50, **SMALL[kind], **options}


def quick(kind: str, **options: Any) -> dict[str, Any]:
    """The same, with one epoch where there are epochs."""
    return small(kind, **({"epochs": 1} if "epochs" in SMALL[kind] else {}), **options)


def read_back(folder: Path) -> Any:
    return load_model(ModelSpec("m", f"palpate:{folder}"))


def rows_of(cohort: Cohort, split: str) -> Any:
    return np.flatnonzero((cohort.cases["split"] == split).to_numpy())


def predict(folder: Path, cohort: Cohort, split: str) -> tuple[Any, Any]:
    """Labels and probabilities of a split."""
    rows = rows_of(cohort, split)
    p = read_back(folder).predict(Inputs.from_texts([cohort.texts[row] for row in rows]))
    return cohort.y_true(rows), p


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
