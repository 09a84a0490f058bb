"""Files of words for the vocabulary audit: target words, clinicians' ratings, replacements; and the empty rating sheet.

All are small tables in CSV or TSV (also .gz) or JSON Lines; a list of words may also be a text file with one word per
line. Rows in messages are the file's records, counted from 1 without the header.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.cases.columns import NUMBER, ColumnCheck, missing_column, quote, with_points
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError, InputError
from palpate.files import replacing
from palpate.perturb.words import USUAL_SCALE, Ratings, RatingScale, normalise_word, read_scale, tokens
from palpate.privacy import as_cell, from_cell

WORD, REPLACEMENT = "word", "replacement"
SCALE, INSTRUCTION = "scale", "instruction"
NO_RATERS = (WORD, SCALE, INSTRUCTION)
"""Columns of a sheet that are no rater's."""
_HEADINGS = {"word", "words", "term", "terms", "token", "tokens"}
_ONE_WORD = "write one word or phrase per row"


class SheetTerms(NamedTuple):
    """What a sheet says about itself; None where it does not."""

    scale: RatingScale | None = None
    instruction: str | None = None


def read_words(path: Path) -> tuple[str, ...]:
    """Read target words from a file: its column `word`, or its only column, or the lines of a .txt file.

    A table with one column needs no header: its first line is a word, unless it is "word", "term" or the like.
    """
    _refuse_empty(path)
    if path.name.lower().endswith(".txt"):
        lines = _lines(path)
        start = 1 if lines and lines[0].strip().lower() in _HEADINGS else 0
        listed = [(row, line) for row, line in enumerate(lines[start:], start=1) if line.strip()]
        words = pl.Series(WORD, [line for _, line in listed], dtype=pl.String)
        return _checked(ColumnCheck(words, file=path), rows=[row for row, _ in listed])
    columns = format_of(path).columns(path)
    name = _named(WORD, columns)
    if name is None and len(columns) != 1:
        raise missing_column(WORD, columns, file=path)
    frame = format_of(path).frame(path, [name or columns[0]], {})
    values = frame.to_series()
    if name is None and columns[0].strip().lower() not in _HEADINGS:
        # Without a header, the first line is a word.
        words = pl.concat([pl.Series(values.name, [columns[0]], dtype=pl.String), values.cast(pl.String)])
        return _checked(ColumnCheck(words, file=path))
    return _checked(ColumnCheck(values.cast(pl.String), file=path))


def read_ratings(path: Path) -> Ratings:
    """Read the sheet that clinicians filled in: a column `word`, and one column per rater.

    Scores are numbers of the scale that the sheet states in a column `scale` ("0 to 10"), 1 to 5 where it states none;
    an empty cell is a missing score.
    """
    _refuse_empty(path)
    form = format_of(path)
    columns = form.columns(path)
    name = _named(WORD, columns)
    if name is None:
        raise missing_column(WORD, columns, file=path)
    raters = [column for column in columns if column != name and column.strip().lower() not in (SCALE, INSTRUCTION)]
    if not raters:
        raise CohortError("the sheet has no raters", file=path, hint="give one column of scores per rater")
    names = [from_cell(rater.strip()) for rater in raters]
    wrong = next((rater for rater in names if names.count(rater) > 1 or rater == "clinicians"), None)
    if wrong is not None:
        why = (
            "two raters have the same name"
            if wrong != "clinicians"
            else "this name is reserved for all raters together"
        )
        raise CohortError(why, file=path, column=wrong, hint="rename the column")
    frame = form.frame(path, [name, *raters], {})
    words = _checked(ColumnCheck(frame[name].cast(pl.String), file=path))
    scale = read_terms(path).scale or USUAL_SCALE
    scores = [_scores(ColumnCheck(frame[rater].cast(pl.String), file=path), scale) for rater in raters]
    return Ratings(words, tuple(names), np.column_stack(scores), scale)


def read_terms(path: Path) -> SheetTerms:
    """What a sheet says about itself, in its columns `scale` and `instruction`: any of their cells, all alike."""
    if path.name.lower().endswith(".txt"):
        return SheetTerms()
    columns = format_of(path).columns(path)
    said: dict[str, str | None] = {}
    for wanted in (SCALE, INSTRUCTION):
        name = _named(wanted, columns)
        said[wanted] = None if name is None else _only_value(path, name)
    if said[SCALE] is None:
        return SheetTerms(None, said[INSTRUCTION])
    scale = read_scale(said[SCALE] or "")
    if scale is None:
        problem = f"the cell is {quote(said[SCALE])}, not a scale"
        raise CohortError(problem, file=path, column=SCALE, hint='write the lowest and the highest score, "1 to 7"')
    return SheetTerms(scale, said[INSTRUCTION])


def _only_value(path: Path, name: str) -> str | None:
    """What the cells of a column say that are not empty."""
    cells = format_of(path).frame(path, [name], {}).to_series().cast(pl.String).drop_nulls()
    values = list(dict.fromkeys(text for cell in cells if (text := " ".join(from_cell(cell).split()))))
    if len(values) > 1:
        problem = f"the column says {quote(values[0])} and {quote(values[1])}"
        raise CohortError(problem, file=path, column=name, hint="write it once")
    return values[0] if values else None


def read_replacements(path: Path) -> dict[str, tuple[str, ...]]:
    """Read replacements for words: columns `word` and `replacement`, one row per pair."""
    _refuse_empty(path)
    form = format_of(path)
    columns = form.columns(path)
    names = [_named(wanted, columns) for wanted in (WORD, REPLACEMENT)]
    for wanted, found in zip((WORD, REPLACEMENT), names, strict=True):
        if found is None:
            raise missing_column(wanted, columns, file=path)
    frame = form.frame(path, [name for name in names if name is not None], {})
    word, replacement = (ColumnCheck(frame[name].cast(pl.String), file=path) for name in frame.columns)
    _refuse_no_word(word)
    _refuse_no_word(replacement)
    offered: dict[str, dict[str, None]] = {}
    for row, (one, other) in enumerate(zip(word.values, replacement.values, strict=True)):
        one, other = from_cell(one), from_cell(other)
        if normalise_word(one) == normalise_word(other):
            raise replacement.error("the replacement is the word itself", hint="give a different word", at=row)
        offered.setdefault(normalise_word(one), {})[" ".join(other.split())] = None
    return {one: tuple(others) for one, others in offered.items()}


def write_rating_sheet(
    path: Path,
    words: Sequence[str],
    raters: Sequence[str],
    *,
    scores: NDArray[np.float64] | None = None,
    terms: SheetTerms | None = None,
    overwrite: bool = False,
) -> None:
    """Write a sheet for clinicians: one row per word, one column per rater, empty where `scores` has none (NaN).

    Its first row also says the scale and the instruction, if `terms` has them. It starts with a byte order mark,
    without which Excel garbles accents; `read_ratings` accepts it.
    """
    names = [rater.strip() for rater in raters]
    if not names or "" in names or len({*names, *NO_RATERS}) != len(names) + len(NO_RATERS):
        raise InputError("each rater needs a name of their own", hint=f"a rater can't be called {', '.join(NO_RATERS)}")
    said = {} if terms is None else {name: str(value) for name, value in terms._asdict().items() if value is not None}
    _checked(ColumnCheck(pl.Series(WORD, list(words), dtype=pl.String)))
    if path.exists() and not overwrite:
        raise InputError("the file already exists", file=path, hint="it may hold scores, so give another name")
    with replacing(path) as scratch, scratch.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        writer.writerow(map(as_cell, [WORD, *names, *said]))
        given = np.full((len(words), len(names)), np.nan) if scores is None else scores
        for number, (word, row) in enumerate(zip(words, given.tolist(), strict=True)):
            cells = ["" if score != score else f"{score:.12g}" for score in row]
            more = [as_cell(value) if number == 0 else "" for value in said.values()]
            writer.writerow([as_cell(" ".join(word.split())), *cells, *more])


# --- cells --------------------------------------------------------------------------------------------------


def _checked(column: ColumnCheck, *, rows: Sequence[int] | None = None) -> tuple[str, ...]:
    """Words with single blanks; none may be empty or repeated. `rows` are their row numbers, if not 1, 2, 3, ..."""
    numbers = rows or range(1, len(column.values) + 1)
    if not len(column.values):
        raise CohortError("the file has no words", file=column.file, hint=_ONE_WORD)
    seen: dict[str, int] = {}
    for number, cell in zip(numbers, column.values, strict=True):
        if not _has_word(cell):
            raise column.error(_no_word(cell), hint=_ONE_WORD, at=number - 1)
        first = seen.setdefault(normalise_word(cell), number)
        if first != number:
            raise column.error(
                f"the word {quote(cell)} is also in row {first}",
                hint="case and blanks make no difference, so keep one of the rows",
                at=number - 1,
            )
    return tuple(" ".join(from_cell(cell).split()) for cell in column.values)


def _refuse_no_word(column: ColumnCheck) -> None:
    for row, cell in enumerate(column.values):
        if not _has_word(cell):
            raise column.error(_no_word(cell), hint=_ONE_WORD, at=row)


def _has_word(cell: str | None) -> bool:
    return cell is not None and next(tokens(cell), None) is not None


def _no_word(cell: str | None) -> str:
    return "the cell is empty" if not (cell or "").strip() else f"{quote(cell)} has no letters or digits"


def _scores(column: ColumnCheck, asked: RatingScale) -> pl.Series:
    """One rater's scores; NaN where a score is missing."""
    text = with_points(column, decimal=",").str.strip_chars()
    text = text.set(text.str.len_bytes() == 0, None)
    low, high, scale = asked.low, asked.high, f"from {asked}"
    column.refuse_value(
        text.is_not_null() & ~text.str.contains(NUMBER),
        "not a number",
        hint=f"write a score {scale}, or leave the cell empty",
    )
    score = text.cast(pl.Float64)
    column.refuse_value(
        (score < low) | (score > high),
        f"not {scale}",
        hint="correct the score, or state the sheet's own scale in a column `scale`",
    )
    if score.null_count() == len(score):
        raise column.error("this rater gave no scores", hint="fill in the column or remove it")
    return score.fill_null(float("nan"))


# --- files --------------------------------------------------------------------------------------------------


def _named(wanted: str, columns: Sequence[str]) -> str | None:
    return next((column for column in columns if column.strip().lower() == wanted), None)


def _refuse_empty(path: Path) -> None:
    if path.is_file() and path.stat().st_size == 0:
        raise CohortError("the file is empty", file=path, hint=_ONE_WORD)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise CohortError("the bytes are not UTF-8", file=path, hint="save the file as UTF-8") from None
    except OSError:
        raise CohortError("the file can't be read", file=path, hint="check the path and its permissions") from None
