"""A cohort with a strong and known signal, for tests of training."""

from __future__ import annotations

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort

FILLER = ("cough", "walks", "sleeps", "eats", "aspirin", "ward", "family", "diet", "sodium", "chest", "lungs", "clear")


def frame(n: int = 600, *, seed: int = 0, positive: float = -1.0, n_words: int = 4) -> pl.DataFrame:
    """`ill` follows from fever and chills, `frail` from falls; two notes a patient; one name of its own a patient."""
    rng = np.random.default_rng(seed)
    has = {word: rng.random(n) < 0.4 for word in ("fever", "chills", "falls", "stable")}
    p_ill = 1 / (1 + np.exp(-(positive + 2.5 * has["fever"] + 2.0 * has["chills"] - 2.0 * has["stable"])))
    p_frail = 1 / (1 + np.exp(-(-1.5 + 3.0 * has["falls"])))
    patient = np.arange(n) // 2
    split = np.asarray(["train", "train", "train", "validation", "validation", "test"])[patient % 6]
    notes = []
    for row in range(n):
        words = [*rng.choice(FILLER, n_words), *(word for word, there in has.items() if there[row])]
        notes.append(f"Patient named{patient[row]}x: " + " ".join(rng.permutation(words)) + ".")
    return pl.DataFrame(
        {
            "case_id": [f"c{row}" for row in range(n)],
            "patient_id": [f"p{p}" for p in patient],
            "split": split,
            "text": notes,
            "ill": (rng.random(n) < p_ill).astype(int),
            "frail": (rng.random(n) < p_frail).astype(int),
        }
    )


def cohort(n: int = 600, *, labels: tuple[str, ...] = ("ill",), **options: float) -> Cohort:
    """The same as a cohort."""
    table = frame(n, **options)  # type: ignore[arg-type]
    rest = [name for name in ("ill", "frail") if name not in labels]
    return Cohort.from_frame(table.drop(rest), labels=labels, name="home")
