"""Evidence in columns: which characters of a case support a label, according to a coder or to a model.

The same layout serves gold evidence, hard predictions (spans) and graded ones (spans with a score). Offsets count
characters of the case's text. Where they count those of a note (MDACE's files), a table of notes says where in the text
the note is.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.errors import CohortError

EVIDENCE = ("case_id", "label", "start", "end")
NOTES = ("case_id", "note_id", "category", "start", "end")
SUFFICIENT, COMPLETE = "sufficient", "complete"


def is_category(wanted: str, category: str) -> bool:
    """Whether a note's category is meant: by its whole name or its first words, in any case ("discharge")."""
    said, known = wanted.casefold().split(), category.casefold().split()
    return bool(said) and known[: len(said)] == said


class _Table:
    """A checked frame and its file; its string is short, because an audit's fields are its saved spec."""

    needed: tuple[str, ...] = ()

    def __init__(self, rows: pl.DataFrame, *, file: Path | None = None) -> None:
        missing = [name for name in self.needed if name not in rows.columns]
        if missing:
            raise CohortError("column not found", file=file, column=missing[0], hint=f"give {self.needed}")
        self.rows, self.file = rows, file

    def __len__(self) -> int:
        return self.rows.height

    def __str__(self) -> str:
        digest = hashlib.blake2b(self.rows.write_csv().encode(), digest_size=16)
        return f"{len(self)} rows, {digest.hexdigest()}"

    def column(self, name: str) -> list[str | None] | None:
        """A column of strings; None if the table does not have it."""
        return self.rows[name].to_list() if name in self.rows.columns else None

    def numbers(self, name: str) -> NDArray[np.int64]:
        """A column of whole numbers."""
        return self.rows[name].to_numpy().astype(np.int64)

    def error(self, problem: str, *, at: int, column: str, hint: str) -> CohortError:
        """An error about row `at`, counted from 0."""
        return CohortError(problem, file=self.file, row=at + 1, column=column, hint=hint)


class EvidenceTable(_Table):
    """Columns `case_id, label, start, end` and, where given, `score, note_id, code_system, completeness, type`.

    With `in_notes`, offsets count characters of the note. `places` then says where each row comes from: its file and
    annotation. `by_model` says that the table was found among a model's predictions, so it is no gold evidence.
    """

    needed = EVIDENCE

    def __init__(
        self,
        rows: pl.DataFrame,
        *,
        file: Path | None = None,
        in_notes: bool = False,
        places: list[tuple[Path | None, str]] | None = None,
        by_model: bool = False,
    ) -> None:
        super().__init__(rows, file=file)
        self.in_notes, self._places, self.by_model = in_notes, places, by_model

    @property
    def score(self) -> NDArray[np.float64] | None:
        """How strongly each row supports its label; None for evidence that is not graded."""
        return self.rows["score"].to_numpy().astype(np.float64) if "score" in self.rows.columns else None

    def error(self, problem: str, *, at: int, column: str, hint: str) -> CohortError:
        """An error about row `at`: names its row in a table, or its annotation in a chart's own file."""
        if self._places is None:
            return super().error(problem, at=at, column=column, hint=hint)
        file, place = self._places[at]
        return CohortError(f"{place}: {problem}", file=file, hint=hint)


class NotesTable(_Table):
    """Where each note is in its case's text: `case_id, note_id, category, start, end`."""

    needed = NOTES
