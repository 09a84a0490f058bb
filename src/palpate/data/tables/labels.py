"""Labels from lists of codes: thousands of labels in a sparse matrix, built without a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import sparse

from palpate.cases.columns import ColumnCheck


class EncodedLabels(NamedTuple):
    """Labels, the matrix of cases that have them, and how many labels were left out because they are too rare."""

    labels: tuple[str, ...]
    y: sparse.csc_array
    n_rare: int


def code_lists(column: ColumnCheck, delimiter: str | None) -> pl.Series:
    """A column of lists, or of strings with a delimiter, as a column of lists of strings."""
    values = column.values
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if isinstance(values.dtype, pl.List):
        inner = values.dtype.inner
        if isinstance(inner, pl.DataType) and not inner.is_nested():
            return values if isinstance(inner, pl.Enum) else values.cast(pl.List(pl.String))
    elif values.dtype == pl.Null:
        return values.cast(pl.List(pl.String))
    elif delimiter is not None and not values.dtype.is_nested():
        return values.cast(pl.String).str.split(delimiter)
    raise column.error(
        f"the column contains {values.dtype}, not lists of codes",
        hint="name 0/1 columns in `labels`, and a column of codes in `label_list`",
    )


def encode(lists: pl.Series, *, only: Sequence[str] | None = None, min_count: int = 1) -> EncodedLabels:
    """Encode lists of codes as a sparse 0/1 matrix with one column per code.

    The columns are those of `only`, in its order; otherwise the categories of the lists' own type, if it has any;
    otherwise all codes, sorted. A code that occurs twice in one list counts once. With `min_count` above 1, rarer codes
    are left out.
    """
    inner = lists.dtype.inner if isinstance(lists.dtype, pl.List) else None
    pairs = pl.DataFrame({"row": np.arange(len(lists)), "code": lists}).explode("code")
    pairs = pairs.with_columns(pl.col("code").cast(pl.String))
    if isinstance(inner, pl.Enum):
        only = inner.categories.to_list() if only is None else only
    else:
        pairs = pairs.with_columns(pl.col("code").str.strip_chars()).filter(pl.col("code").str.len_bytes() > 0)
    names = pairs["code"].unique().sort() if only is None else pl.Series(only, dtype=pl.String)
    places = pl.DataFrame({"code": names, "label": np.arange(len(names))})
    pairs = pairs.join(places, on="code").select("label", "row").unique().sort("label", "row")
    counts = np.bincount(pairs["label"].to_numpy(), minlength=len(names))
    first = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(len(pairs), dtype=np.uint8)
    y = sparse.csc_array((ones, pairs["row"].to_numpy(), first), shape=(len(lists), len(names)))
    kept = np.flatnonzero(counts >= min_count) if min_count > 1 else np.arange(len(names))
    return EncodedLabels(tuple(names.gather(kept)), y[:, kept], len(names) - len(kept))
