"""Evidence to learn from: a table of spans, as the words of the training notes that they cover.

One row per span: `case_id`, `label`, `start`, `end`, in characters of the case's text; other columns are ignored. Only
rows of training cases are used, and only for labels that the cohort has. Spans beyond the model's window can't be
learned from; they are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.cases.columns import ColumnCheck, ids, missing_column
from palpate.cases.growth import read_parquet
from palpate.errors import CohortError
from palpate.models.networks.coding.words import WordSequence
from palpate.train.notes import Notes

Ints = NDArray[np.int64]
COLUMNS = ("case_id", "label", "start", "end")
_OFFSET = "offsets are whole numbers of characters, counted from 0"


class Marked(NamedTuple):
    """The evidence of one note for one label: indices of words."""

    label: int
    words: Ints


class TrainingEvidence(NamedTuple):
    """The evidence of each training note, and how much of the table was used."""

    notes: list[list[Marked]]
    n_rows: int
    n_used: int
    n_other_labels: int
    """Rows of training cases for labels that the cohort does not have."""
    n_unread: int
    """Rows of training cases without a word that the model reads."""

    def facts(self) -> dict[str, int]:
        """For the card."""
        return {
            "evidence_rows": self.n_rows,
            "evidence_rows_used": self.n_used,
            "evidence_rows_of_other_labels": self.n_other_labels,
            "evidence_rows_without_a_word_read": self.n_unread,
            "notes_with_evidence": sum(bool(marked) for marked in self.notes),
        }


def read_table(file: Path) -> pl.DataFrame:
    """The table with its four columns, each cell checked."""
    if not file.is_file():
        raise CohortError("evidence table not found", file=file, hint="`palpate cohort mdace` writes one")
    frame = _read(file)
    for name in COLUMNS:
        if name not in frame.columns:
            raise missing_column(name, frame.columns, file=file)
    named = {name: ids(ColumnCheck(frame[name], file=file)) for name in COLUMNS[:2]}
    places = {name: _offsets(ColumnCheck(frame[name], file=file)) for name in COLUMNS[2:]}
    empty = places["end"] <= places["start"]
    ColumnCheck(places["end"], file=file).refuse_value(
        empty, "which is not after the start", hint="a span must end after its start"
    )
    return pl.DataFrame({**named, **places})


def _read(file: Path) -> pl.DataFrame:
    kind = "".join(file.suffixes[-2:] if file.suffix == ".gz" else file.suffixes[-1:]).lower()
    if kind not in (".csv", ".csv.gz", ".parquet"):
        raise CohortError(f"evidence can't be read from '{kind}' files", file=file, hint="give .csv or .parquet")
    try:
        # A bracket in a file's name is part of the name, not a pattern.
        if kind == ".parquet":
            return read_parquet(file)
        return pl.read_csv(file, infer_schema=False, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise CohortError(f"the file can't be read as {kind}", file=file, hint="write it again") from error


def _offsets(column: ColumnCheck) -> pl.Series:
    values = ids(column)
    numbers = values.cast(pl.Int64, strict=False)
    column.refuse_value(numbers.is_null() | (numbers < 0), "which is not an offset", hint=_OFFSET)
    return numbers


def find_evidence(
    table: pl.DataFrame, notes: Notes, labels: Sequence[str], read: Sequence[WordSequence], *, file: Path
) -> TrainingEvidence:
    """The words of the training notes that the spans cover, fully or in part."""
    row_of = _rows_by_case(notes.case_ids, table, file)
    label_of = {name: k for k, name in enumerate(labels)}
    words: list[dict[int, list[Ints]]] = [{} for _ in read]
    n_used = n_other = n_unread = 0
    for number, (case, label, start, end) in enumerate(table.iter_rows(), start=1):
        row = row_of.get(case)
        if row is None:
            continue
        if end > len(notes.texts[row]):
            problem = f"the span goes from {start} to {end}, but the case's text has {len(notes.texts[row])} characters"
            raise CohortError(
                problem, file=file, row=number, column="end", hint="offsets are those of the cohort's text"
            )
        covered = np.arange(*_covered(read[row], start, end))
        if label not in label_of:
            n_other += 1
        elif not len(covered):
            n_unread += 1
        else:
            words[row].setdefault(label_of[label], []).append(covered)
            n_used += 1
    if not n_used:
        raise CohortError(
            "no row is evidence for a label of a case in the split 'train'",
            file=file,
            hint="use the case ids and labels of the cohort",
        )
    marked = [[Marked(label, np.unique(np.concatenate(parts))) for label, parts in each.items()] for each in words]
    return TrainingEvidence(marked, table.height, n_used, n_other, n_unread)


def _covered(read: WordSequence, start: int, end: int) -> tuple[int, int]:
    """The first word that ends after `start`, and the first that begins at `end` or later."""
    first = int(np.searchsorted(read.end, start, side="right"))
    return first, max(int(np.searchsorted(read.begin, end, side="left")), first)


def _rows_by_case(case_ids: Sequence[str], table: pl.DataFrame, file: Path) -> dict[str, int]:
    row_of: dict[str, int] = {}
    twice: set[str] = set()
    for row, case in enumerate(case_ids):
        if case in row_of:
            twice.add(case)
        row_of[case] = row
    at = next((k for k, case in enumerate(table["case_id"]) if case in twice), None) if twice else None
    if at is not None:
        raise CohortError(
            "two cohorts have a case with this id",
            file=file,
            row=at + 1,
            column="case_id",
            hint="train on one cohort, or rename the cases",
        )
    return row_of
