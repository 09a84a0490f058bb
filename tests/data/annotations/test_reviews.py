"""The marks that a clinician saved: counted, and refused with one sentence where they are not that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.data.annotations.reviews import NoteTable, read_notes, read_review
from palpate.errors import CohortError

SAVED: dict[str, Any] = {
    "palpate_review": 1,
    "to": {"gender": "female"},
    "cohort": "notes.parquet",
    "palpate": "0.1.0",
    "reviewer": "AB",
    "marks": [
        {"note": k, "altered": "0", "mark": mark} for k, mark in enumerate(["right", "wrong", "right", "unsure", ""])
    ],
}


def test_marks_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "review.json"
    file.write_text(json.dumps(SAVED), encoding="utf-8-sig")
    review = read_review(file)
    assert (review.right, review.wrong, review.unsure, review.unmarked) == (2, 1, 1, 1)
    assert (review.group, review.reviewer, review.cohort, review.palpate) == (
        "gender=female",
        "AB",
        "notes.parquet",
        "0.1.0",
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "review.json: the file is not JSON"),
        ("[]", "review.json: the file is not a review of alterations"),
        (json.dumps({**SAVED, "palpate_review": 2}), "the file is not a review of alterations"),
        (json.dumps({**SAVED, "to": {}}), "the file is not a review of alterations"),
        (json.dumps({**SAVED, "to": {"age": 60}}), "`to` does not name characteristics and groups"),
        (json.dumps({**SAVED, "marks": [{"mark": "good"}]}), "row 1, column 'mark': the mark is \"good\""),
        (json.dumps({**SAVED, "marks": ["right"]}), "row 1, column 'mark': the mark is null"),
        (json.dumps({**SAVED, "marks": [{"mark": "unsure"}]}), "no alteration is marked right or wrong"),
    ],
)
def test_what_is_no_review_is_refused(content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "review.json").write_text(content, encoding="utf-8")
    with pytest.raises(CohortError) as refused:
        read_review(tmp_path / "review.json")
    assert says in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match=r"none\.json: the file can't be read"):
        read_review(tmp_path / "none.json")


def test_notes_need_no_labels_and_are_those_of_one_split(tmp_path: Path) -> None:
    file = tmp_path / "notes.parquet"
    splits = ["train", "test", "test", "val"]
    table = pl.DataFrame({"text": ["a", "b", "c", "d"], "patient_id": [1, 2, 2, 3], "split": splits})
    table.write_parquet(file)
    assert read_notes(file) == NoteTable(["b", "c"], [2, 2], True, split="test")
    assert read_notes(file, split="validation").texts == ["d"]
    table.filter(pl.col("split") == "train").write_parquet(file)
    with pytest.raises(CohortError, match=r"no note is in split 'test'; its splits are train"):
        read_notes(file)
    table.select(body="text").write_parquet(file)
    found = read_notes(file, text="body")
    assert (found.texts, list(found.patients), found.names_patients) == (["a", "b", "c", "d"], [0, 1, 2, 3], False)
