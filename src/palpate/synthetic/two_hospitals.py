"""Two small hospitals and two models: the table that `palpate demo` runs on.

Patients have risk factors that raise the chance of readmission. At hospital `north` the ward's name, which the notes
mention, is tied to readmission as well; at `south` it is not. One model reads the risk factors, the other some of them
and the ward. On held-out notes of `north` they are about as good; at `south` only one still is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

RISKS = {
    "heart failure": 1.0,
    "dialysis": 0.9,
    "delirium": 0.8,
    "chemotherapy": 0.9,
    "amputation": 0.7,
    "pneumonia": 0.6,
    "dementia": 0.7,
    "warfarin": 0.5,
}
WARD = "lakeside"
_WARD_EFFECT = 1.15
_INTERCEPT = -4.0
_SECTIONS = ("Reason for admission", "History", "Hospital course", "Medications", "Discharge plan")
_FILLER = (
    "patient tolerated diet well",
    "vital signs stable on the day of discharge",
    "walks with a frame",
    "seen by physiotherapy",
    "wound clean and dry",
    "lives with family",
    "follow-up with the general practitioner in two weeks",
    "no known drug allergies",
    "blood pressure 128/74, pulse 80, temperature 98.6",
    "denies chest pain",
    "chest film without acute findings",
    "electrolytes within normal limits",
    "resumed home medication",
    "instructed to weigh daily",
    "family at the bedside",
)
_OTHER_WARDS = ("harbour", "meadow", "station", "garden")
_CONFIG = """\
# Two models, two hospitals: near-equal AUROC at home.
title: Readmission within 30 days, two models
cohorts:
  north: {file: north.csv.gz, text: note, labels: [readmitted], patient: patient_id, case: note_id, split: split}
  south: {file: south.csv.gz, text: note, labels: [readmitted], patient: patient_id, case: note_id}
models:
  clinical: sklearn:clinical.skops
  wards: sklearn:wards.skops
audits:
  performance: {}
seed: 0
cache: scores.sqlite
"""


def write_demo(folder: Path, *, seed: int = 0, n_patients: int = 6000) -> Path:
    """Write both cohorts, both models and the configuration; returns the configuration's path."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, 1])
    north = _hospital(rng, n_patients, ward_effect=_WARD_EFFECT)
    south = _hospital(rng, n_patients // 2, ward_effect=0.0)
    north.with_columns(_split(rng, north)).write_csv(folder / "north.csv.gz", compression="gzip")
    south.write_csv(folder / "south.csv.gz", compression="gzip")
    train = pl.read_csv(folder / "north.csv.gz").filter(pl.col("split") == "train")
    words = list(RISKS)
    _train(train, words, folder / "clinical.skops")
    _train(train, [*words[:3], WARD], folder / "wards.skops")
    config = folder / "audit.yaml"
    config.write_text(_CONFIG, encoding="utf-8")
    return config


def _hospital(rng: np.random.Generator, n_patients: int, *, ward_effect: float) -> pl.DataFrame:
    """One to three stays of each patient."""
    stays = rng.integers(1, 4, n_patients)
    patient = np.repeat(np.arange(n_patients), stays)
    n = len(patient)
    lasting = rng.random((n_patients, len(RISKS))) < 0.18
    has = lasting[patient] & (rng.random((n, len(RISKS))) < 0.9)
    ward = rng.random(n) < 0.35
    logit = _INTERCEPT + has @ np.asarray(list(RISKS.values())) + ward_effect * ward
    readmitted = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    notes = [_note(rng, has[row], bool(ward[row])) for row in range(n)]
    columns = {
        "note_id": [f"n{row:06d}" for row in range(n)],
        "patient_id": [f"p{p:05d}" for p in patient],
        "note": notes,
        "readmitted": readmitted,
    }
    return pl.DataFrame(columns)


def _note(rng: np.random.Generator, has: Sequence[bool], ward: bool) -> str:
    """A short discharge note: headings, filler in random order, and what the patient has."""
    lines = [str(line) for line in rng.permutation(_FILLER)[: int(rng.integers(8, 14))]]
    lines += [f"known {name}" for name, there in zip(RISKS, has, strict=True) if there]
    lines.append(f"Discharged from {WARD if ward else rng.choice(_OTHER_WARDS)} ward")
    rng.shuffle(lines)
    parts = np.array_split(np.asarray(lines), len(_SECTIONS))
    body = "\n".join(
        f"{heading}:\n" + ". ".join(str(line).capitalize() for line in part) + "."
        for heading, part in zip(_SECTIONS, parts, strict=True)
    )
    return f"Age: {int(rng.integers(40, 95))}\n{body}"


def _split(rng: np.random.Generator, frame: pl.DataFrame) -> pl.Series:
    """70% train, 15% validation, 15% test, by patient."""
    patients = frame["patient_id"].unique(maintain_order=True)
    chosen = rng.choice(["train", "validation", "test"], size=len(patients), p=[0.7, 0.15, 0.15])
    by_patient = dict(zip(patients, chosen, strict=True))
    return pl.Series("split", [str(by_patient[name]) for name in frame["patient_id"]])


def _train(notes: pl.DataFrame, words: Sequence[str], target: Path) -> None:
    """A logistic regression on counts of some words and phrases."""
    import skops.io
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer = CountVectorizer(vocabulary=sorted(words), ngram_range=(1, 2), binary=True)
    model = make_pipeline(vectorizer, LogisticRegression(C=10.0))
    model.fit(notes["note"].to_list(), notes["readmitted"].to_numpy())
    skops.io.dump(model, target)
