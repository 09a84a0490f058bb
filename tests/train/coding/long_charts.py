"""Long charts whose evidence is near the end, and a tiny plm-icd for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.train.coding.coding_cohort import FILLER

PHRASES = {"486": "pneumonia", "428.0": "heart failure", "274.9": "gout"}
LENGTH = 60
"""Words in front of the evidence."""
TINY_PLM: dict[str, Any] = {
    "chunk": 16,
    "max_tokens": 200,
    "layers": 1,
    "hidden": 24,
    "heads": 2,
    "dropout": 0,
    "vocab_size": 400,
    "min_patients": 2,
    "learning_rate": 5e-3,
    "epochs": 12,
    "patience": 12,
    "batch_size": 8,
    "n_replicates": 0,
    "threads": 1,
}


def long_charts(n: int = 140, *, seed: int = 0, length: int = LENGTH) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Cases with one or more codes, and the spans of their phrases, all behind `length` words of filler."""
    rng = np.random.default_rng(seed)
    cases, evidence = [], []
    for k in range(n):
        text = " ".join(str(word) for word in rng.choice(FILLER, length))
        codes = [code for code in PHRASES if rng.random() < 0.4]
        for code in rng.permutation(codes).tolist():
            text += " " + " ".join(str(word) for word in rng.choice(FILLER, 3)) + " "
            evidence.append({"case_id": f"c{k}", "label": code, "start": len(text)})
            text += PHRASES[code]
            evidence[-1]["end"] = len(text)
        text += " discharged home."
        split = "validation" if k % 4 == 3 else "test" if k % 5 == 4 else "train"
        flags = {code: int(code in codes) for code in PHRASES}
        cases.append({"case_id": f"c{k}", "patient_id": f"p{k}", "split": split, "text": text, **flags})
    return pl.DataFrame(cases), pl.DataFrame(evidence)


def write_long_charts(folder: Path, n: int = 140, **options: Any) -> None:
    """`charts.csv` and `evidence.csv`."""
    cases, evidence = long_charts(n, **options)
    cases.write_csv(folder / "charts.csv")
    evidence.write_csv(folder / "evidence.csv")
