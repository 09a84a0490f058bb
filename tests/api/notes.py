"""A small table of notes with scores, as a researcher has it in a notebook, and a model that was fitted on it."""

from __future__ import annotations

import numpy as np
import polars as pl
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

SICK, WELL = ("sepsis", "shock", "intubated"), ("walking", "eating", "afebrile")


def notes_table(n: int = 240, seed: int = 0) -> pl.DataFrame:
    """Half sick; the note says so most of the time."""
    rng = np.random.default_rng(seed)
    sick = rng.integers(0, 2, n)
    words = [rng.choice(SICK if (rng.random() < 0.85) == bool(each) else WELL) for each in sick]
    sex = rng.choice(["F", "M"], n)
    age = rng.integers(20, 90, n)
    notes = [f"Patient {k} is {word} today, bed {k % 17}." for k, word in enumerate(words)]
    noise = rng.normal(0, 0.25, n)
    return pl.DataFrame(
        {
            "note": notes,
            "readmitted": sick,
            "subject_id": rng.integers(0, n // 2, n).astype(str),
            "split": rng.choice(["train", "validation", "test"], n, p=[0.3, 0.2, 0.5]),
            "sex": sex,
            "age": age,
            "score": np.clip(0.5 + 0.3 * (sick - 0.5) + noise, 0, 1),
        }
    )


def fitted(table: pl.DataFrame) -> Pipeline:
    """A bag of words."""
    train = table.filter(pl.col("split") == "train")
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression())
    return pipeline.fit(train["note"].to_list(), train["readmitted"].to_numpy())
