"""Every registered audit keeps the contract of `palpate.testing`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.config import make_audit
from palpate.testing import KeywordModel
from palpate.testing.audit_contract import check_audit_contract

WORDS = ("fever", "cough", "pain", "sepsis", "pneumonia", "home", "stable", "insulin", "dialysis", "ward")
OPTIONS: dict[str, dict[str, Any]] = {
    "slices": {"by": ["sex"], "depth": 1, "smallest": 10, "fewest_events": 5, "n_replicates": 200},
    "operating": {"thresholds": {"ward": 0.5}, "n_replicates": 200},
    "recalibration": {"n_replicates": 200},
    "drift": {"every": "year", "n_replicates": 200},
    "data": {},
    "performance": {"n_replicates": 200},
    "subgroups": {"by": ["sex"], "n_replicates": 200},
    "vocabulary": {
        "words": ["fever", "sepsis"],
        "filters": ["uniform"],
        "vocabulary": list(WORDS),
        "n_replicates": 200,
    },
    "characteristics": {"alter": ["gender"], "n_replicates": 200, "max_notes": 30},
    "capabilities": {"suite": "notes", "slots": {"finding": ["sepsis"]}, "n": 40, "n_replicates": 200},
    "evidence": {
        "gold": "gold.csv",
        "explain": "occlusion",
        "segments": 4,
        "words_per_label": 5,
        "max_charts": 8,
        "threshold": 0.1,
    },
    "context": {"n_replicates": 200, "refits": 2},
    "robustness": {"perturb": ["typos"], "doses": [0.2], "max_notes": 20},
}


def notes(n: int = 90) -> Cohort:
    rng = np.random.default_rng(17)
    words = [rng.choice(WORDS, size=12) for _ in range(n)]
    ages = rng.integers(20, 90, n)
    sexes = rng.choice(["man", "woman"], n)
    ill = np.array(["sepsis" in each or "fever" in each for each in words]) ^ (rng.random(n) < 0.2)
    return Cohort.from_frame(
        pl.DataFrame(
            {
                "case_id": [f"c{k}" for k in range(n)],
                "patient_id": [f"p{k // 2}" for k in range(n)],
                "split": ["train" if k < 30 else "validation" if k < 52 else "test" for k in range(n)],
                "text": [
                    f"{age} year old {sex} with {' '.join(each)}. Note number {k}."
                    for k, (age, sex, each) in enumerate(zip(ages, sexes, words, strict=True))
                ],
                "time": [f"20{18 + k % 3}-0{k % 9 + 1}-15" for k in range(n)],
                "prior": ["history of sepsis" if k % 3 == 0 else "no history" for k in range(n)],
                "sex": sexes,
                "pretest_ill": np.clip(0.2 + 0.4 * ill + 0.2 * rng.random(n), 0, 1),
                "ill": ill.astype(np.uint8),
            }
        ),
        labels=["ill"],
        attributes=["sex", "pretest_ill"],
    )


def gold(cohort: Cohort, file: Path) -> None:
    rows = [
        (case, "ill", text.index(word), text.index(word) + len(word))
        for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True)
        for word in ("sepsis", "fever")
        if word in text
    ]
    pl.DataFrame(rows, schema=["case_id", "label", "start", "end"], orient="row").write_csv(file)


@pytest.mark.parametrize("name", OPTIONS)
def test_audit(name: str, tmp_path: Path) -> None:
    cohort = notes()
    gold(cohort, tmp_path / "gold.csv")
    audit = make_audit(name, OPTIONS[name], folder=tmp_path)
    seeds = [KeywordModel({"sepsis": 1.5, "fever": w, "insulin": 0.3}, -1.0, labels=["ill"]) for w in (0.9, 1.1)]
    models = {"one": KeywordModel({"sepsis": 2.0, "ward": 0.2}, -0.5, labels=["ill"]), "several": seeds}
    result = check_audit_contract(audit, cohort, models)
    assert result.estimates.height > 0


def test_every_audit_is_under_contract() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["entry-points"]["palpate.audits"]) == set(OPTIONS)
