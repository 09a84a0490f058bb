"""Checks of a cohort's columns, one function per role; for the file readers and for Python users.

Each function takes a column under the user's own name and returns it in palpate's type, or raises a `CohortError` that
names the file (if there is one), the row and the column. Rows count from 1, without the header. An empty string is a
missing value, because a CSV file doesn't distinguish the two. Messages never quote a long cell: a column named by
mistake may contain notes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from palpate.delimited import LONGEST_CELL, SPLIT_HINT, TOO_LONG
from palpate.errors import CohortError

SPLITS = ("train", "validation", "test")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "validate", "valid", "val", "dev", "tune", "tuning"), "validation"),
    **dict.fromkeys(("test", "testing", "holdout", "hold-out", "heldout", "held-out"), "test"),
}
TIME_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
ZONED_FORMATS = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z")
# No leading zeros: "007" is a name, not the number seven.
NUMBER = r"^[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
WHOLE_NUMBER = r"^[+-]?[0-9]+$"
DECIMAL_COMMA = r"^[+-]?(?:0|[1-9][0-9]*),[0-9]+$"
THOUSANDS = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
NOT_KNOWN = r"(?i)^[+-]?nan$"
INFINITE = r"(?i)^[+-]?(?:inf|infinity)$"
FILMS = "|"
"""Between the paths of several films of one case."""
FIX_ROW = "fill the cell or drop the row"


class ColumnCheck:
    """A column of the user's table that is being checked, and where it comes from, for messages."""

    def __init__(self, values: pl.Series, *, file: Path | None = None, name: str | None = None) -> None:
        self.values, self.file = values, file
        self.name = values.name if name is None else name

    def error(self, problem: str, *, hint: str, at: int | None = None) -> CohortError:
        """An error about the cell at index `at`, counted from 0."""
        row = None if at is None else at + 1
        return CohortError(problem, file=self.file, row=row, column=self.name, hint=hint)

    def refuse(self, where: pl.Series, problem: str, *, hint: str) -> None:
        """Raise for the first cell where the mask is true."""
        at = first_true(where)
        if at is not None:
            raise self.error(problem, hint=hint, at=at)

    def refuse_value(self, where: pl.Series, problem: str, *, hint: str) -> None:
        """The same as `refuse`, quoting the cell."""
        at = first_true(where)
        if at is not None:
            raise self.error(f"the cell is {quote(self.values[at])}, {problem}", hint=hint, at=at)


def first_true(mask: pl.Series) -> int | None:
    """The first row where the mask is true; null counts as false."""
    at = mask.fill_null(False).arg_max()
    return at if at is not None and mask[at] else None


def quote(value: object) -> str:
    """A cell for a message, or only its length if it might be a sentence from a note."""
    text = str(value)
    harmless = not isinstance(value, str) or re.fullmatch(r"\S{1,24}|[0-9/:.,TZ +-]{1,32}", text)
    return f"'{text[:32]}'" if harmless else f"a text of {len(text)} characters"


def missing_column(name: str, columns: Sequence[str], *, file: str | Path | None = None) -> CohortError:
    """The error for a missing column; lists the existing ones, the most similar first."""
    lowered = {column.lower(): column for column in reversed(columns)}
    close = [lowered[low] for low in difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.5)]
    listed = list(dict.fromkeys([*close, *columns]))
    rest = f" and {len(listed) - 10} more" if len(listed) > 10 else ""
    names = ", ".join(f"'{column}'" for column in listed[:10])
    return CohortError("column not found", file=file, column=name, hint=f"the columns are {names}{rest}")


def prediction_ids(subjects: pl.Series, times: pl.Series) -> pl.Series:
    """Case ids of predictions that a subject and a time identify, as in MEDS: `17/2030-01-05T12:00:00`."""
    at = times.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%S%.f").str.strip_suffix(".000000")
    return subjects.cast(pl.String) + "/" + at


def words(column: ColumnCheck) -> pl.Series:
    """Any scalar column as strings, with the empty string as null."""
    values, dtype = column.values, column.values.dtype
    if dtype.is_nested() or dtype == pl.Object:
        raise column.error(
            f"the column contains {dtype}, not single values", hint="choose a column with one value per cell"
        )
    try:
        text = values.cast(pl.String)
    except pl.exceptions.ComputeError:  # only bytes can fail this cast
        bad = values.map_elements(lambda cell: not _is_utf8(cell), return_dtype=pl.Boolean)
        column.refuse(bad, "the bytes are not UTF-8", hint="save the text as UTF-8")
        raise
    return text.set(text.str.len_bytes() == 0, None)


def ids(column: ColumnCheck) -> pl.Series:
    """Ids of cases or patients: strings, none missing."""
    text = words(column)
    column.refuse(text.is_null() | _is_blank(text), "the cell is empty", hint=FIX_ROW)
    return text


def texts(column: ColumnCheck) -> pl.Series:
    """Notes: strings, none missing or blank."""
    text = words(column)
    column.refuse(text.is_null(), "the cell is empty", hint="an empty note can't be audited, so drop the row")
    column.refuse(_is_blank(text), "the cell is blank", hint="a blank note can't be audited, so drop the row")
    if (text.str.len_bytes() > LONGEST_CELL).any():
        column.refuse(text.str.len_chars() > LONGEST_CELL, TOO_LONG, hint=SPLIT_HINT)
    return text


def images(column: ColumnCheck) -> pl.Series:
    """Paths of images: strings, none missing; several of one case as a list, or with `FILMS` between them."""
    if isinstance(column.values.dtype, pl.List) and column.values.dtype.inner == pl.String:
        column = ColumnCheck(column.values.list.join(FILMS), file=column.file, name=column.name)
    text = words(column)
    column.refuse(text.is_null() | _is_blank(text), "the cell is empty", hint=FIX_ROW)
    column.refuse(
        text.str.split(FILMS).list.eval(pl.element().str.strip_chars() == "").list.any(),
        f"a path before or after '{FILMS}' is empty",
        hint=f"write the films of a case as a.dcm{FILMS}b.dcm",
    )
    return text


def films(image: str) -> list[str]:
    """The files of a case's cell: one, or several films of a study."""
    return image.split(FILMS)


def splits(column: ColumnCheck) -> pl.Series:
    """`train`, `validation` or `test`, from the names that are common for them."""
    text = words(column)
    column.refuse(text.is_null(), "the cell is empty", hint="write train, validation or test")
    plain = text.str.strip_chars().str.to_lowercase()
    known = plain.replace_strict(SPLIT_NAMES, default=None, return_dtype=pl.String)
    column.refuse_value(known.is_null(), "which is not a split", hint="write train, validation or test")
    return known


def times(column: ColumnCheck) -> pl.Series:
    """Points in time, to the microsecond; those with a time zone are converted to UTC. Null if unknown."""
    dtype = column.values.dtype
    if isinstance(dtype, pl.Datetime):
        utc = column.values.dt.convert_time_zone("UTC") if dtype.time_zone else column.values
        return utc.dt.replace_time_zone(None).cast(pl.Datetime("us"))
    if dtype == pl.Date:
        return column.values.cast(pl.Datetime("us"))
    text = words(column).str.strip_chars().str.replace(r"^(\d{4}-\d\d-\d\d)[Tt]", "$1 ")
    parsed = pl.Series(text.name, [None], dtype=pl.Datetime("us")).new_from_index(0, len(text))
    for form in (*TIME_FORMATS, *ZONED_FORMATS):
        left = parsed.is_null() & text.is_not_null()
        if not left.any():
            break
        parsed = parsed.scatter(left.arg_true(), _parse_time(text.filter(left), form))
    column.refuse_value(
        parsed.is_null() & text.is_not_null(),
        "which is not a time",
        hint="write it like 2180-07-23 or 2180-07-23T14:05:00",
    )
    return parsed


def _parse_time(text: pl.Series, form: str) -> pl.Series:
    if "%#z" not in form:
        return text.str.to_datetime(form, time_unit="us", strict=False)
    zoned = text.str.replace(r"[Zz]$", "+00:00").str.to_datetime(form, time_unit="us", strict=False, time_zone="UTC")
    return zoned.dt.replace_time_zone(None)


def attribute(column: ColumnCheck, *, parse: bool) -> pl.Series:
    """Int64, Float64 or strings; null if unknown, which a NaN among numbers also means.

    `parse` is for formats without number types (CSV).
    """
    values, dtype = column.values, column.values.dtype
    if dtype.is_integer():
        whole = values.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == values.null_count() else values.cast(pl.String)
    if dtype.is_float() or dtype.is_decimal():
        return _finite(column, values.cast(pl.Float64))
    text = words(column)
    return _numbers(column, text) if parse else text


def _numbers(column: ColumnCheck, text: pl.Series) -> pl.Series:
    """Numbers if all non-empty cells are numbers, otherwise the strings."""
    plain = text.str.strip_chars()
    number = plain.str.contains(NUMBER)
    unknown, infinite = plain.str.contains(NOT_KNOWN), plain.str.contains(INFINITE)
    if not number.any() or not (number | unknown | infinite).all():
        return text
    _refuse_infinite(column, infinite)
    text, plain = text.set(unknown, None), plain.set(unknown, None)
    if plain.str.contains(WHOLE_NUMBER).all():
        whole = plain.str.strip_chars_start("+").cast(pl.Int64, strict=False)
        return whole if whole.null_count() == text.null_count() else text
    return _finite(column, plain.cast(pl.Float64))


def _finite(column: ColumnCheck, values: pl.Series) -> pl.Series:
    _refuse_infinite(column, values.is_infinite())
    return values.fill_nan(None)


def sampling_weights(column: ColumnCheck) -> pl.Series:
    """How many cases of the population each case stands for: numbers, none missing or negative, not all 0."""
    hint = "give each case a weight of at least 0; 0 leaves the case out of every weighted number"
    values, dtype = column.values, column.values.dtype
    column.refuse(values.is_null(), "the weight is empty", hint=hint)
    if not dtype.is_numeric():
        text = words(column)
        column.refuse(text.is_null(), "the weight is empty", hint=hint)
        plain = text.str.strip_chars().str.strip_chars_start("+")
        values = plain.cast(pl.Float64, strict=False)
        column.refuse_value(values.is_null(), "which is not a number", hint=hint)
    number = values.cast(pl.Float64)
    column.refuse_value(~number.is_finite(), "which is no weight", hint=hint)
    column.refuse_value(number < 0, "and a weight can't be negative", hint=hint)
    if len(number) and not (number > 0).any():
        raise column.error("every weight is 0", hint="give the cases that count a weight above 0")
    return number


def _refuse_infinite(column: ColumnCheck, where: pl.Series) -> None:
    column.refuse(where, "the number is infinite", hint="leave the cell empty if the value is unknown")


def with_points(column: ColumnCheck, *, decimal: str | None = None) -> pl.Series:
    """A column of numbers with decimal commas, with points instead; any other column as it is.

    Where every comma may as well separate thousands, the column is refused unless `decimal` says which.
    """
    values = column.values
    if values.dtype != pl.String or decimal == ".":
        return values
    plain = values.str.strip_chars()
    comma = plain.str.contains(DECIMAL_COMMA)
    other = plain.str.contains(WHOLE_NUMBER) | plain.str.contains(NOT_KNOWN) | (plain.str.len_bytes() == 0)
    if not comma.any() or not (comma | other).all():
        return values
    if decimal is None:
        unclear = plain.filter(comma).str.contains(THOUSANDS).all()
        hint = 'write `decimal: ","`, or remove the commas if they separate thousands'
        column.refuse_value(comma & unclear, "which may be a decimal comma or thousands", hint=hint)
    return plain.str.replace(",", ".", literal=True)


def check_unique(cases: ColumnCheck) -> None:
    """Refuse a case id that occurs in two rows."""
    second = first_true(~cases.values.is_first_distinct())
    if second is not None:
        first = first_true(cases.values == cases.values[second])
        raise cases.error(
            f"the case id {quote(cases.values[second])} is also in row {(first or 0) + 1}",
            hint="give each case its own id",
            at=second,
        )


def check_one_patient(stays: ColumnCheck, patient: pl.Series) -> None:
    """Refuse a stay of two patients: its cases would be resampled apart."""
    pairs = pl.DataFrame({"stay": stays.values, "patient": patient, "row": np.arange(len(patient))})
    pairs = pairs.unique(["stay", "patient"], keep="first", maintain_order=True)
    second = first_true(~pairs["stay"].is_first_distinct())
    if second is not None:
        stay = pairs["stay"][second]
        one = pairs.filter(pl.col("stay") == stay).row(0, named=True)
        raise stays.error(
            f"stay {quote(stay)} is of patient {quote(one['patient'])} in row {one['row'] + 1} "
            f"and of patient {quote(pairs['patient'][second])} here",
            hint="give each stay its own id, or set `patient:` of the cohort",
            at=pairs["row"][second],
        )


def check_one_split(patients: ColumnCheck, split: pl.Series) -> None:
    """Refuse a patient with cases in two splits: the model would be tested on patients it was trained on."""
    pairs = pl.DataFrame({"patient": patients.values, "split": split, "row": np.arange(len(split))})
    pairs = pairs.drop_nulls("split").unique(["patient", "split"], keep="first", maintain_order=True)
    second = first_true(~pairs["patient"].is_first_distinct())
    if second is not None:
        patient = pairs["patient"][second]
        one = pairs.filter(pl.col("patient") == patient).row(0, named=True)
        raise patients.error(
            f"patient {quote(patient)} is in split '{pairs['split'][second]}' here "
            f"and in '{one['split']}' in row {one['row'] + 1}",
            hint="put all cases of a patient into one split",
            at=pairs["row"][second],
        )


def _is_blank(text: pl.Series) -> pl.Series:
    return ~text.str.contains(r"\S")


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True
