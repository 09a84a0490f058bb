"""The label columns of a cohort: 0 and 1 in each row, or the words and codes that people write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from palpate.cases.columns import ColumnCheck, first_true, quote, words

YES, NO = frozenset(("yes", "y", "true", "t", "on")), frozenset(("no", "n", "false", "f", "off"))
"""What `positive: yes` and `positive: no` stand for, because YAML reads yes, true and on as one and the same."""
AFFIRMED = YES | {"1", "+", "ja", "j", "oui", "o", "si", "sí", "sim", "da", "tak", "pos", "positive", "present", "case"}
FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
CODES = r"^\S[^;|,]{0,15}(?:[;|,] ?[^;|, ][^;|,]{0,15})+$"
Positive = str | tuple[str, ...]
"""The value that means 1 where one other means 0; several in a tuple where all others mean 0."""


def flags(column: ColumnCheck, positive: Positive | None = None) -> NDArray[np.uint8]:
    """A label: 0 or 1 in each row; `positive` says which values mean 1 where the cells are others."""
    values, dtype = column.values, column.values.dtype
    hint = "write 0 or 1, or drop the row"
    if (dtype.is_numeric() or dtype == pl.Boolean) and positive is None:
        if values.null_count():
            column.refuse(values.is_null(), "the label is empty", hint=hint)
        number = values.to_numpy()
        wrong = (number != 0) & (number != 1)
        if wrong.any():
            seen = values.cast(pl.Float64).unique().sort().to_list()
            coded = len(seen) == 2 and all(value > 0 and value.is_integer() for value in seen)
            said = f"say which value means 1: `positive: {seen[1]:g}`, say" if coded else hint
            column.refuse_value(pl.Series(wrong), "not 0 or 1", hint=said)
        return number.astype(np.uint8)
    text = words(column)
    plain = text.str.strip_chars().str.to_lowercase()
    column.refuse(text.is_null(), "the label is empty", hint=_code_hint(column, plain.drop_nulls()) or hint)
    if isinstance(positive, tuple):
        return _any_of(column, plain, positive)
    if positive is not None:
        return _positives(column, plain, positive)
    known = plain.replace_strict(FLAGS, default=None, return_dtype=pl.UInt8)
    if known.null_count():
        column.refuse_value(known.is_null(), "not 0 or 1", hint=_flag_hint(column, text, plain) or hint)
    return known.to_numpy()


def _any_of(column: ColumnCheck, plain: pl.Series, positive: tuple[str, ...]) -> NDArray[np.uint8]:
    """1 where the cell is one of the values, 0 where it is any other."""
    meant = {word.strip().lower(): word for word in positive}
    for word, said in meant.items():
        if not (plain == word).any():
            raise column.error(
                f"no cell is '{said}', which `positive` lists",
                hint=f"there are {_some(plain.unique(maintain_order=True))}",
            )
    return plain.is_in(list(meant)).cast(pl.UInt8).to_numpy()


def _some(values: pl.Series) -> str:
    return ", ".join(quote(value) for value in values.head(3))


def _positives(column: ColumnCheck, plain: pl.Series, positive: str) -> NDArray[np.uint8]:
    """1 where the cell is the positive value; there may be one other value."""
    word = positive.strip().lower()
    meant, other = next((pair for pair in ((YES, NO), (NO, YES)) if word in pair[0]), ({word}, frozenset[str]()))
    found = plain.is_in(sorted(meant))
    rest = plain.filter(~found).unique(maintain_order=True)
    if not found.any():
        if plain.is_in(list(FLAGS)).all():
            return plain.replace_strict(FLAGS, return_dtype=pl.UInt8).to_numpy()
        raise column.error(f"no cell is '{positive}', which `positive` names", hint=f"there are {_some(rest)}")
    if len(rest) > 1 and not rest.is_in(sorted(other)).all():
        second = first_true(plain.is_in(rest.slice(1).to_list()))
        first = column.values[first_true(plain == rest[0]) or 0]
        cell = quote(column.values[second or 0])
        problem = f"the cell is {cell}, neither '{positive}' nor {quote(first)}"
        hint = f'correct the cell, or write `positive: ["{positive}"]` if every other value means 0'
        raise column.error(problem, hint=hint, at=second)
    return found.cast(pl.UInt8).to_numpy()


def _flag_hint(column: ColumnCheck, text: pl.Series, plain: pl.Series) -> str | None:
    """What to write where labels are words, or where a cell lists codes."""
    seen = plain.unique(maintain_order=True)
    if len(seen) == 2 and not seen.is_in(["0", "0.0", "false"]).any() and seen.str.contains(r"^\S{1,24}$").all():
        cells = [text[first_true(plain == value) or 0].strip() for value in seen]
        likely = [cell for cell in cells if cell.lower() in AFFIRMED][:1] or cells
        return f"say which value means 1: {' or '.join(f'`positive: {cell}`' for cell in likely)}"
    return _code_hint(column, plain)


def _code_hint(column: ColumnCheck, plain: pl.Series) -> str | None:
    """What to write where a cell lists codes."""
    listed = plain.filter(plain.str.contains(CODES))
    if len(listed):
        mark = next(mark for mark in ";|," if mark in listed[0])
        return f'for a column of codes, write `label_list: {{column: {column.name}, delimiter: "{mark}"}}`'
    return None


def label_matrix(
    columns: Iterable[ColumnCheck], *, n: int, positive: Mapping[str, Positive] = MappingProxyType({})
) -> sparse.csc_array:
    """Label columns as a sparse 0/1 matrix, built column by column, so that there is never a dense copy.

    `positive` has, by the column's name, the values that mean 1 where a column does not hold 0 and 1.
    """
    rows = [np.flatnonzero(flags(column, positive.get(column.name))) for column in columns]
    first = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    index = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
    return sparse.csc_array((np.ones(len(index), dtype=np.uint8), index, first), shape=(n, len(rows)))
