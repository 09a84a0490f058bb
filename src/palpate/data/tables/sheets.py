"""Tables for people: in a spreadsheet, a text that would be computed is shown, and read back as it was."""

from __future__ import annotations

import polars as pl

from palpate.files import as_cell, from_cell


def escaped(frame: pl.DataFrame) -> pl.DataFrame:
    """A table to be written as CSV (see `palpate.files.as_cell`).

    >>> escaped(pl.DataFrame({"word": ["=1+1", "fever"]}))["word"].to_list()
    ["'=1+1", 'fever']
    """
    return frame.with_columns(pl.col(pl.String).map_elements(as_cell, return_dtype=pl.String))


def unescaped(frame: pl.DataFrame) -> pl.DataFrame:
    """What `escaped` was given."""
    return frame.with_columns(pl.col(pl.String).map_elements(from_cell, return_dtype=pl.String))
