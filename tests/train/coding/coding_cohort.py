"""Tiny charts with codes and known evidence, for tests of the coding models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort

TRIGGERS = {
    "428.0": ("heart failure", "CHF"),
    "250.00": ("diabetes", "sugar disease"),
    "486": ("pneumonia", "lung infection"),
    "274.9": ("gout",),
}
FILLER = ("walks", "sleeps", "eats", "ward", "family", "diet", "sodium", "clear", "stable", "home", "follow", "mild")
TINY: dict[str, Any] = {
    "embedding": 16,
    "kernel": 3,
    "dropout": 0,
    "learning_rate": 1e-2,
    "min_patients": 2,
    "batch_size": 4,
    "n_replicates": 0,
    "threads": 1,
}
SIZES: dict[str, dict[str, Any]] = {
    "caml": {"filters": 16},
    "effective-can": {"channels": [12, 16], "attention": 16, "reduction": 4},
}


def tiny(kind: str, **options: Any) -> dict[str, Any]:
    return {**TINY, **SIZES[kind], **options}


def charts(n: int = 60, *, seed: int = 0, n_words: int = 12) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cases, and the spans of their codes' words; every fourth chart is of validation, every fifth of test."""
    rng = np.random.default_rng(seed)
    cases, evidence = [], []
    for k in range(n):
        words = [str(word) for word in rng.choice(FILLER, n_words)]
        codes = [code for code in TRIGGERS if rng.random() < 0.4] or ["486"]
        places = rng.permutation(n_words)[: len(codes)]
        for code, place in zip(codes, places, strict=True):
            words[place] = str(rng.choice(TRIGGERS[code]))
        text, owner = "", {int(place): code for place, code in zip(places, codes, strict=True)}
        for place, word in enumerate(words):
            if place in owner:
                evidence.append({"case_id": f"c{k}", "label": owner[place], "start": len(text)})
                evidence[-1]["end"] = len(text) + len(word)
            text += word + (". " if place % 5 == 4 else " ")
        split = "validation" if k % 4 == 3 else "test" if k % 5 == 4 else "train"
        flags = {code: int(code in codes) for code in TRIGGERS}
        cases.append({"case_id": f"c{k}", "patient_id": f"p{k}", "split": split, "text": text, **flags})
    return pl.DataFrame(cases), pl.DataFrame(evidence)


def cohort(n: int = 60, **options: Any) -> Cohort:
    return Cohort.from_frame(charts(n, **options)[0], labels=list(TRIGGERS))


def evidence_file(folder: Path, n: int = 60, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "evidence.parquet"
    charts(n, **options)[1].write_parquet(file)
    return file
