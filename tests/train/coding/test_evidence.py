"""Evidence tables, as words of the training notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.errors import CohortError
from palpate.models.networks.coding.words import WordWindow
from palpate.train.coding.evidence import find_evidence, read_table
from palpate.train.notes import Notes

torch = pytest.importorskip("torch")


TEXTS = ["Acute heart failure, gout", "No gout. Pneumonia!"]
NOTES = Notes(TEXTS, np.zeros((2, 2), dtype=np.uint8), np.arange(2), ["a", "b"])
LABELS = ("428.0", "274.9")


def find(rows: list[tuple[str, str, int, int]], *, max_tokens: int = 100) -> Any:
    table = pl.DataFrame(rows, schema=["case_id", "label", "start", "end"], orient="row")
    read = WordWindow((), max_tokens).read(TEXTS)
    return find_evidence(table, NOTES, LABELS, read, file=Path("evidence.csv"))


@settings(max_examples=80, deadline=None)
@given(start=st.integers(0, 24), length=st.integers(1, 25))
def test_evidence_is_the_words_that_a_span_touches(start: int, length: int) -> None:
    end = min(start + length, len(TEXTS[0]))
    read = WordWindow((), 100).read(TEXTS)[0]
    places = enumerate(zip(read.begin, read.end, strict=True))
    expected = [word for word, (i, j) in places if set(range(i, j)) & set(range(start, end))]
    if end <= start or not expected:
        return
    found = find([("a", "428.0", start, end)])
    assert [(one.label, one.words.tolist()) for one in found.notes[0]] == [(0, expected)]


def test_spans_of_one_label_are_joined_and_other_rows_counted() -> None:
    rows = [
        ("a", "428.0", 6, 19),
        ("a", "428.0", 0, 11),
        ("a", "274.9", 21, 25),
        ("b", "486", 9, 18),
        ("x", "274.9", 0, 4),
        ("b", "274.9", 7, 9),
    ]
    found = find(rows)
    assert [(one.label, one.words.tolist()) for one in found.notes[0]] == [(0, [0, 1, 2]), (1, [3])]
    assert found.notes[1] == []
    assert (found.n_rows, found.n_used, found.n_other_labels, found.n_unread) == (6, 3, 1, 1)
    short = find(rows, max_tokens=2)
    assert [(one.label, one.words.tolist()) for one in short.notes[0]] == [(0, [0, 1])]
    assert short.n_unread == 2


def test_evidence_that_fits_nothing_is_refused() -> None:
    with pytest.raises(CohortError, match=r"evidence.csv, row 2, column 'end': .* 25 characters.*cohort's text"):
        find([("a", "428.0", 6, 19), ("a", "428.0", 6, 26)])
    with pytest.raises(CohortError, match="no row is evidence for a label of a case in the split 'train'"):
        find([("x", "428.0", 6, 19), ("b", "486", 9, 18)])
    twice = NOTES._replace(case_ids=["a", "a"])
    table = pl.DataFrame({"case_id": ["a"], "label": ["428.0"], "start": [0], "end": [4]})
    with pytest.raises(CohortError, match="row 1, column 'case_id': two cohorts"):
        find_evidence(table, twice, LABELS, WordWindow((), 9).read(TEXTS), file=Path("e.csv"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("case_id,label,start\na,b,1\n", "column 'end': column not found"),
        ("case_id,label,start,end\na,b,1,x\n", "row 1, column 'end': the cell is 'x'"),
        ("case_id,label,start,end\na,b,1,2\na,b,-1,2\n", "row 2, column 'start': the cell is '-1'"),
        ("case_id,label,start,end\na,b,4,4\n", "row 1, column 'end': the cell is '4'.*after the start"),
        ("case_id,label,start,end\n,b,4,5\n", "row 1, column 'case_id': the cell is empty"),
    ],
)
def test_a_table_that_is_wrong_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "evidence.csv"
    file.write_text(content)
    with pytest.raises(CohortError, match=message):
        read_table(file)


@pytest.mark.parametrize("name", ["seed[1].csv", "seed[1].parquet"])
def test_a_bracket_in_a_files_name_is_a_bracket(name: str, tmp_path: Path) -> None:
    table = pl.DataFrame({"case_id": ["a"], "label": ["428.0"], "start": [0], "end": [4]})
    (table.write_csv if name.endswith("csv") else table.write_parquet)(tmp_path / name)
    assert read_table(tmp_path / name).rows() == [("a", "428.0", 0, 4)]


def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="evidence table not found"):
        read_table(tmp_path / "none.csv")
    for name, message in (("e.txt", "can't be read from '.txt'"), ("e.parquet", "can't be read as .parquet")):
        (tmp_path / name).write_text("nothing")
        with pytest.raises(CohortError, match=message):
            read_table(tmp_path / name)
