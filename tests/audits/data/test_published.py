"""The data checks on published data sets, as far as they are on this machine: nothing of them is in the project."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from palpate.audits.data import Data
from palpate.audits.data.checks import Found
from palpate.cases.cohort import Cohort
from tests.data.published import SHARED


def found(frame: pl.DataFrame) -> dict[str, Found]:
    labelled = frame.with_columns(label=pl.int_range(pl.len()) % 2)
    plan = Data().plan(Cohort.from_frame(labelled, labels=["label"]), np.random.default_rng(0))
    return dict(plan.memory.checked.cohorts[0].found)


def test_sections_of_mts_dialog_stand_in_both_of_its_splits() -> None:
    files = {
        "train": SHARED / "notes" / "MTS-Dialog-TrainingSet.csv",
        "test": SHARED / "notes" / "MTS-Dialog-ValidationSet.csv",
    }
    if not all(file.is_file() for file in files.values()):
        pytest.skip("MTS-Dialog is not on this machine")
    parts = [
        pl.read_csv(file).select(text="section_text").with_columns(split=pl.lit(split)) for split, file in files.items()
    ]
    counts = found(pl.concat(parts).filter(pl.col("text").str.contains(r"\S")))
    assert counts["identical_notes"] == Found(7, 87)
    assert counts["known_notes"] == Found(7, 87)


def test_sentences_of_the_ade_corpus_leak_if_rows_are_split_at_random() -> None:
    """A sentence with several effects has several rows."""
    file = SHARED / "ade_corpus_v2" / "DRUG-AE.rel"
    if not file.is_file():
        pytest.skip("the ADE corpus is not on this machine")
    rows = [line.split("|") for line in file.read_text(encoding="utf-8").splitlines() if line]
    split = np.where(np.random.default_rng(0).random(len(rows)) < 0.8, "train", "test")
    frame = pl.DataFrame({"text": [row[1] for row in rows], "split": split})
    counts = found(frame)
    assert counts["identical_notes"] == Found(688, 1381)
    halves = frame.with_columns(
        split=pl.when(pl.col("text").hash(0) % 5 == 0).then(pl.lit("test")).otherwise(pl.lit("train"))
    )
    assert found(halves)["identical_notes"].n <= 2  # a sentence is in one split; two differ in punctuation alone


EDITS = {
    "pronouns": lambda text, rng: re.sub(
        r"\w+", lambda m: {"he": "she", "she": "he", "his": "her", "her": "his", "patient": "pt"}.get(m[0], m[0]), text
    ),
    "typing errors": lambda text, rng: " ".join(w + "x" if rng.random() < 0.08 else w for w in text.split(" ")),
    "continued": lambda text, rng: (
        f"{text} ADDENDUM {' '.join(rng.choice(text.split(), int(len(text.split()) * 0.3)))}"
    ),
    "cut": lambda text, rng: text[: int(0.75 * len(text))],
    "reordered": lambda text, rng: "\n\n".join(rng.permutation(text.split("\n\n"))),
}


@pytest.fixture(scope="module")
def visits() -> list[str]:
    file = SHARED / "aci_bench" / "train.csv"
    if not file.is_file():
        pytest.skip("ACI-Bench is not on this machine")
    return pl.read_csv(file)["note"].to_list()


@pytest.mark.parametrize("how", EDITS)
def test_edited_copies_of_real_notes_are_found(visits: list[str], how: str) -> None:
    rng = np.random.default_rng(0)
    copies = [EDITS[how](text, rng) for text in visits]
    frame = pl.DataFrame({"text": visits + copies, "split": ["train"] * len(visits) + ["test"] * len(visits)})
    assert found(frame)["known_notes"].n >= 0.97 * len(visits)


def test_real_notes_that_are_no_copies_are_not_taken_for_copies(visits: list[str]) -> None:
    frame = pl.DataFrame(
        {"text": visits, "split": ["train", "test"] * (len(visits) // 2) + ["test"] * (len(visits) % 2)}
    )
    assert found(frame)["known_notes"].n == 0
