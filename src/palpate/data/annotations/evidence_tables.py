"""Evidence for the evidence audit: tables of spans, folders in MDACE's layout, and tables of the positions of notes.

A table (CSV, TSV, JSON Lines, each also as .gz, or Parquet) has one row per span: `case_id`, `label`, `start` and
`end`, in characters of the case's text. With a column `score` the evidence is graded. A folder is read as MDACE's JSON
files, whose offsets are relative to the note. Rows in messages are the file's records, counted from 1 without the
header.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from palpate.cases.columns import WHOLE_NUMBER, ColumnCheck, ids, missing_column, words
from palpate.cases.evidence import COMPLETE, EVIDENCE, NOTES, SUFFICIENT, EvidenceTable, NotesTable
from palpate.data.annotations import mdace, place_of
from palpate.data.tables.formats import format_of, unescaped
from palpate.errors import CohortError

_MORE = ("score", "note_id", "code_system", "completeness", "type")
_SPAN = "a span starts at 0 or later and ends after its start, in characters"


def read_evidence(path: Path) -> EvidenceTable:
    """Read evidence from a table, or from a folder in MDACE's layout."""
    if path.is_dir():
        return _from_charts(path)
    frame = _frame(path, EVIDENCE, _MORE)
    parts = {name: ids(ColumnCheck(frame[name], file=path)) for name in ("case_id", "label")}
    parts |= {name: _whole(ColumnCheck(frame[name], file=path)) for name in ("start", "end")}
    _check_spans(parts["start"], parts["end"], path)
    if "score" in frame.columns:
        parts["score"] = _score(ColumnCheck(frame["score"], file=path))
    for name in ("note_id", "code_system", "completeness", "type"):
        if name in frame.columns:
            parts[name] = words(ColumnCheck(frame[name], file=path))
    if "completeness" in parts:
        known = parts["completeness"].is_null() | parts["completeness"].is_in([SUFFICIENT, COMPLETE])
        hint = f"write {SUFFICIENT} or {COMPLETE}, or leave the cell empty"
        ColumnCheck(parts["completeness"], file=path).refuse_value(~known, "which is neither", hint=hint)
    return EvidenceTable(pl.DataFrame(parts), file=path)


def read_note_places(path: Path) -> NotesTable:
    """Read the positions of notes in the texts of their cases from a table."""
    frame = _frame(path, NOTES, ())
    parts = {name: ids(ColumnCheck(frame[name], file=path)) for name in ("case_id", "note_id")}
    parts["category"] = words(ColumnCheck(frame["category"], file=path)).fill_null("").str.strip_chars()
    parts |= {name: _whole(ColumnCheck(frame[name], file=path)) for name in ("start", "end")}
    _check_spans(parts["start"], parts["end"], path)
    table = pl.DataFrame(parts)
    again = ~table.select(pl.struct("case_id", "note_id").is_first_distinct()).to_series()
    ColumnCheck(table["note_id"], file=path).refuse_value(
        again, "which occurs twice in its case", hint="keep one row per note"
    )
    return NotesTable(table, file=path)


def _frame(path: Path, needed: tuple[str, ...], more: tuple[str, ...]) -> pl.DataFrame:
    """The wanted columns, as they are in the file."""
    form = format_of(path)
    if path.stat().st_size == 0:
        raise CohortError("the file is empty", file=path, hint=f"start it with the header {','.join(needed)}")
    columns = form.columns(path)
    for name in needed:
        if name not in columns:
            raise missing_column(name, columns, file=path)
    frame = form.frame(path, [*needed, *(name for name in more if name in columns)], {})
    if form.typed:
        return frame
    return unescaped(frame)


def _whole(column: ColumnCheck) -> pl.Series:
    """A column of whole numbers without empty cells."""
    values = column.values
    if values.dtype.is_integer():
        column.refuse(values.is_null(), "the cell is empty", hint=_SPAN)
        return values.cast(pl.Int64)
    text = words(column).str.strip_chars()
    column.refuse(text.is_null(), "the cell is empty", hint=_SPAN)
    plain = text.str.replace(r"\.0$", "")
    column.refuse_value(~plain.str.contains(WHOLE_NUMBER), "which is not a whole number", hint=_SPAN)
    number = plain.cast(pl.Int64, strict=False)
    column.refuse_value(number.is_null(), "which is too large", hint=_SPAN)
    return number


def _check_spans(start: pl.Series, end: pl.Series, path: Path) -> None:
    ColumnCheck(start.alias("start"), file=path).refuse_value(start < 0, "which is below 0", hint=_SPAN)
    ColumnCheck(end.alias("end"), file=path).refuse_value(end <= start, "which is not after the start", hint=_SPAN)


def _score(column: ColumnCheck) -> pl.Series:
    """A column of finite numbers without empty cells: a span without a score does not belong in the table."""
    hint = "write a number, or leave the row out"
    text = words(column)
    column.refuse(text.is_null(), "the score is empty", hint=hint)
    number = text.str.strip_chars().cast(pl.Float64, strict=False)
    column.refuse_value(number.is_null() | ~number.is_finite(), "which is not a finite number", hint=hint)
    return number


def _from_charts(folder: Path) -> EvidenceTable:
    """Every annotation in a folder of charts; a case is an admission."""
    rows, places = [], []
    by_model = mdace.holds_predictions(folder)
    charts = list(mdace.read(folder, predictions=by_model))
    kinds = sorted({(chart.setting, chart.system) for chart in charts if chart.setting and chart.system})
    if len(kinds) > 1:
        listed = ", ".join(f"{setting}/{system}" for setting, system in kinds)
        hint = f"give one of the folders below {mdace.charts_folder(folder)}: {listed}"
        raise CohortError("the folder has charts of several settings or code systems", file=folder, hint=hint)
    for chart in charts:
        for note in chart.notes:
            for number, span in enumerate(note.annotations, start=1):
                rows.append(
                    (
                        str(chart.hadm_id),
                        span.code,
                        span.begin,
                        span.end,
                        str(note.note_id),
                        span.code_system,
                        chart.completeness,
                        span.type,
                    )
                )
                places.append((chart.file, place_of(note.note_id, number)))
    names = (*EVIDENCE, "note_id", "code_system", "completeness", "type")
    schema = {name: pl.Int64 if name in ("start", "end") else pl.String for name in names}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return EvidenceTable(frame, file=folder, in_notes=True, places=places, by_model=by_model)
