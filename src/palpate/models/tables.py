"""The cohort's table for models that read its columns: read from its file, so that any process can.

Columns of numbers are numbers and empty cells are missing; everything else is text. A model that reads the notes too
gets them as altered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from palpate.cases.cohort import row_numbers
from palpate.cases.edits import Inputs
from palpate.delimited import FileLayout
from palpate.errors import ConfigError, ModelError
from palpate.models.adapters.prediction_files import read_file
from palpate.models.adapters.predictions import CaseRows

_EMPTY = r"^\s*$"


class TableFile(BaseModel):
    """Where a cohort's table is; filled in from `cohort:`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path
    case: str | None = None
    text: str | None = None
    encoding: str | None = None
    delimiter: str | None = None


class TableRows:
    """The rows of some cohorts' tables, found by case."""

    def __init__(
        self,
        tables: Mapping[str, TableFile],
        columns: Sequence[str] | None,
        library: Literal["polars", "pandas"],
        *,
        folder: Path,
    ) -> None:
        self.files = [folder / one.file for one in tables.values()]
        parts = [_read(one, folder / one.file, name) for name, one in tables.items()]
        self._text = next((one.text for one in tables.values() if one.text is not None), "text")
        whole = pl.concat([frame for frame, _ in parts], how="diagonal_relaxed")
        self.columns = tuple(columns or whole.columns)
        missing = [name for name in self.columns if name not in whole.columns]
        if missing:
            raise ConfigError(
                f"the model reads column '{missing[0]}', which the table does not have",
                file=self.files[0],
                hint=f"its columns are {', '.join(whole.columns[:10])}",
            )
        self._frame, self._library = whole.select(self.columns), library
        keys = pl.concat([key for _, key in parts])
        self._rows = CaseRows.of(keys["case"], keys["cohort"], np.arange(keys.height))

    def first(self) -> Any:
        """One row, to see what a model makes of it."""
        return self._as_asked(self._frame.head(1))

    def frame(self, inputs: Inputs, *, model: str) -> Any:
        """The rows of some inputs, with their notes as altered."""
        found = self._rows.find(pl.Series(inputs.case_ids, dtype=pl.String), pl.Series(inputs.cohorts, dtype=pl.String))
        if (found < 0).any():
            raise ModelError(
                "the model reads columns of a case, and a text that an audit made up belongs to none",
                model=model,
                hint="leave out audits that make up texts (capabilities)",
            )
        frame = self._frame[found]
        if self._text in frame.columns and bool((inputs.n_edits > 0).any()):
            frame = frame.with_columns(pl.Series(self._text, inputs.texts))
        return self._as_asked(frame)

    def _as_asked(self, frame: pl.DataFrame) -> Any:
        if self._library == "polars":
            return frame
        import pandas as pd

        return pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})


def _read(one: TableFile, file: Path, cohort: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The table, and the key of each of its rows."""
    if not file.is_file():
        raise ConfigError("file not found", file=file)
    raw = read_file(file, FileLayout(one.encoding, one.delimiter, named=True), {one.case or "case_id"})
    case = one.case or ("case_id" if "case_id" in raw.columns else None)
    ids = row_numbers(raw.height) if case is None else raw[case].cast(pl.String).str.strip_chars()
    return raw.select(_typed(raw[name]) for name in raw.columns), pl.DataFrame(
        {"case": ids, "cohort": pl.Series([cohort] * raw.height, dtype=pl.String)}
    )


def _typed(column: pl.Series) -> pl.Series:
    """A column of a text file as numbers, if that is what all of its cells are."""
    if column.dtype != pl.String:
        return column
    cells = column.to_frame().select(
        pl.when(pl.col(column.name).str.contains(_EMPTY)).then(None).otherwise(pl.col(column.name)).alias(column.name)
    )[column.name]
    for kind in (pl.Int64, pl.Float64):
        made = cells.str.strip_chars().cast(kind, strict=False)
        if made.null_count() == cells.null_count() < len(cells):
            return made
    return cells
