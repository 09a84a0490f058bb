"""Blocks made ready for the templates: cells set in type, long tables cut, charts drawn.

What these give holds plain text; the templates escape it. A column called `Reason` or `Why not computed` is not
shown as a column: its texts become footnotes of the dashes in their row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from palpate.report import typeset
from palpate.report.charts import Drawing, Key, draw
from palpate.results import Chart, Column, Examples, Table

MAX_ROWS = 200
MAX_COLUMNS = 24
MAX_CHART_ROWS = 100
COLLAPSE_OVER = 30
MAX_EXAMPLES = 30
SHORT = 22
CELL_LIMIT = 240
EXAMPLE_LIMIT = 4_000
PAGE_WIDTH = 1180
"""Pixels that a table has on a screen of 1280."""
LETTER = 9
CELL_PADDING = 12
PROSE_LETTERS = 17
MAX_NAMES = 3
REASONS = ("reason", "why not computed")
_NUMERIC = ("number", "integer", "percent", "p_value", "interval")


@dataclass(frozen=True)
class CellView:
    """A cell's text, and the footnote that it refers to."""

    text: str
    note: int = 0


@dataclass(frozen=True)
class HeadView:
    """A column's head."""

    name: str
    style: str
    """number, short (never broken) or prose (given room)."""
    hint: str = ""


@dataclass(frozen=True)
class TableView:
    """A table, as the template sets it."""

    title: str
    caption: str
    heads: tuple[HeadView, ...]
    rows: tuple[tuple[CellView, ...], ...]
    parts: tuple[tuple[int, ...], ...] = ()
    """The columns that stand beside each other: a table that is too wide for the page is set as several."""
    footnotes: tuple[str, ...] = ()
    total: int = 0
    collapsed: bool = False
    source: str = ""
    type: str = "table"

    @property
    def cut(self) -> str:
        """What is not shown, in a sentence."""
        if self.total <= len(self.rows):
            return ""
        shown, total = typeset.integer(len(self.rows)), typeset.integer(self.total)
        return f"Showing {shown} of {total} rows" + (f"; all are in {self.source}." if self.source else ".")


@dataclass(frozen=True)
class PanelView:
    """One chart: its specification as JSON that is safe inside HTML, and a drawing for readers without JavaScript."""

    title: str
    spec: Markup
    svg: Markup


@dataclass(frozen=True)
class FigureView:
    """A chart with its caption, legend and numbers."""

    title: str
    caption: str
    description: str
    kind: str
    panels: tuple[PanelView, ...]
    legend: tuple[Key, ...]
    notes: tuple[str, ...]
    numbers: TableView
    type: str = "chart"


@dataclass(frozen=True)
class ExamplesView:
    """Cases to read."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int
    has_note_text: bool
    type: str = "examples"


@dataclass
class Footnotes:
    """Reasons, numbered in the order in which they come."""

    texts: list[str] = field(default_factory=list)

    def number(self, reason: Any) -> int:
        """The number of a reason, from 1; 0 where there is none."""
        text = str(reason or "")
        if not text:
            return 0
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


def json_in_html(value: Any) -> Markup:
    """JSON that cannot end the script element that contains it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def set_cell(cell: Any, kind: str) -> str:
    """One cell of a table, by the kind of its column."""
    if kind == "interval":
        parts = cell if isinstance(cell, list | tuple) else (cell,)
        return typeset.interval(*(*parts, None, None)[:3])
    if kind == "text":
        return typeset.shorten(cell, CELL_LIMIT) or typeset.MISSING
    settings = {
        "number": typeset.number,
        "integer": typeset.integer,
        "percent": typeset.percent,
        "p_value": typeset.p_value,
        "flag": typeset.flag,
    }
    return settings[kind](cell)


def view_table(table: Table, *, source: str = "", total: int | None = None, n_rows: int | None = None) -> TableView:
    """A table, cut to what is worth showing, or to `n_rows`; `total` is given where rows were left out before."""
    reasons = next((i for i, column in enumerate(table.columns) if column.name.lower() in REASONS), None)
    shown = [i for i in range(len(table.columns)) if i != reasons][:MAX_COLUMNS]
    notes = Footnotes()
    rows = []
    for row in table.rows[: min(n_rows or MAX_ROWS, MAX_ROWS)]:
        texts = [set_cell(row[i], table.columns[i].kind) for i in shown]
        number = notes.number(row[reasons]) if reasons is not None else 0
        rows.append(_with_note(texts, number))
    heads = tuple(
        HeadView(
            table.columns[i].name, _style(table.columns[i].kind, [row[k].text for row in rows]), table.columns[i].hint
        )
        for k, i in enumerate(shown)
    )
    return TableView(
        title=table.title,
        caption=_cut_columns(table.caption, len(shown), len(table.columns) - (reasons is not None)),
        heads=heads,
        rows=tuple(rows),
        parts=split_columns(heads, rows),
        footnotes=tuple(notes.texts),
        total=len(table.rows) if total is None else total,
        collapsed=table.collapsed or len(table.rows) > COLLAPSE_OVER,
        source=source,
    )


def split_columns(heads: Sequence[HeadView], rows: Sequence[Sequence[CellView]]) -> tuple[tuple[int, ...], ...]:
    """Columns in parts that fit beside each other on a screen of 1280 pixels; what names a row is in every part."""
    widths = [_least_width(head, [row[k].text for row in rows]) for k, head in enumerate(heads)]
    if sum(widths) <= PAGE_WIDTH:
        return (tuple(range(len(heads))),)
    n_names = next((k for k, head in enumerate(heads) if head.style == "number"), len(heads))
    names = tuple(range(min(max(n_names, 1), MAX_NAMES)))
    room = max(PAGE_WIDTH - sum(widths[k] for k in names), PAGE_WIDTH // 3)
    others = range(len(names), len(heads))
    n_parts = -(-sum(widths[k] for k in others) // room)
    while len(parts := _filled(others, widths, room, n_parts)) > n_parts:
        n_parts = len(parts)
    return tuple(names + part for part in parts)


def _filled(columns: Sequence[int], widths: Sequence[int], room: int, n_parts: int) -> list[tuple[int, ...]]:
    """Columns in parts that are no wider than `room`, and about equally wide if there are `n_parts`."""
    target = min(room, sum(widths[k] for k in columns) / n_parts + max(widths[k] for k in columns) / 2)
    parts: list[tuple[int, ...]] = [()]
    for k in columns:
        if parts[-1] and sum(widths[i] for i in parts[-1]) + widths[k] > target:
            parts.append(())
        parts[-1] += (k,)
    return parts


def _least_width(head: HeadView, texts: Sequence[str]) -> int:
    """About how many pixels a column needs when its head and its intervals are broken into lines."""
    pieces = [piece for text in texts for piece in ([text] if head.style == "short" else text.split(" ("))]
    longest = max(map(len, pieces), default=0)
    letters = max(longest, 0) if head.style != "prose" else min(longest, PROSE_LETTERS)
    return LETTER * max([letters, *map(len, head.name.split())]) + CELL_PADDING


def _style(kind: str, texts: Sequence[str]) -> str:
    if kind in _NUMERIC:
        return "number"
    return "short" if max(map(len, texts), default=0) <= SHORT else "prose"


def _with_note(texts: list[str], number: int) -> tuple[CellView, ...]:
    """A row's cells; the reason goes with its dashes, or with its name where there are none."""
    dashes = [i for i, text in enumerate(texts) if text == typeset.MISSING] or [0]
    return tuple(CellView(text, number if i in dashes else 0) for i, text in enumerate(texts))


def _cut_columns(caption: str, shown: int, total: int) -> str:
    if shown == total:
        return caption
    return f"{caption} Showing {shown} of {typeset.integer(total)} columns.".strip()


def view_examples(examples: Examples) -> ExamplesView:
    """Cases to read, the first of them."""
    rows = tuple(
        tuple(typeset.shorten(cell, EXAMPLE_LIMIT) for cell in row[:MAX_COLUMNS])
        for row in examples.rows[:MAX_EXAMPLES]
    )
    return ExamplesView(
        title=examples.title,
        caption=examples.caption,
        columns=examples.columns[:MAX_COLUMNS],
        rows=rows,
        total=len(examples.rows),
        has_note_text=examples.has_note_text,
    )


def view_chart(chart: Chart, *, order: Sequence[str] = (), source: str = "") -> tuple[FigureView, Drawing]:
    """A chart and its numbers; the drawing comes along for those who render it to SVG."""
    drawing = draw(chart, order=order)
    specs = [{key: part for key, part in panel.spec.items() if key != "$schema"} for panel in drawing.panels]
    panels = [
        PanelView(panel.title, json_in_html(spec), Markup()) for panel, spec in zip(drawing.panels, specs, strict=True)
    ]
    figure = FigureView(
        title=chart.title,
        caption=chart.caption,
        description=chart.description or chart.title,
        kind=chart.kind,
        panels=tuple(panels),
        legend=drawing.legend,
        notes=drawing.notes,
        numbers=view_table(numbers_of(chart), source=source, total=len(chart.data)),
    )
    return figure, drawing


def numbers_of(chart: Chart, *, limit: int = MAX_CHART_ROWS) -> Table:
    """A chart's first data as a table: what it is of, then the estimate with its interval, then the rest."""
    fields = list(dict.fromkeys(name for row in chart.data[: 10 * limit] for name in row))
    value, lead = _order(chart, fields)
    joined = {value, "low", "high"} <= set(fields)
    first = [name for name in dict.fromkeys(lead) if name in fields and name != value]
    hidden = {"low", "high"} if joined else set()
    names = [name for name in dict.fromkeys([*first, value, *fields]) if name in fields and name not in hidden]
    titles = {chart.x.field: chart.x.title, chart.y.field: chart.y.title}
    if chart.kind == "histogram":
        titles = {"start": f"{chart.x.title}, from", "end": "to", "count": chart.y.title}
    percent = (chart.y if value == chart.y.field else chart.x).percent
    columns, rows = [], [dict(row) for row in chart.data[:limit]]
    for name in names:
        kind: Any = _kind_of(chart, name)
        if joined and name == value:
            kind = "text" if percent else "interval"
        columns.append(Column(name=titles.get(name) or name.replace("_", " ").capitalize(), kind=kind))
    if joined:
        for row in rows:
            whole = (row.get(value), row.get("low"), row.get("high"))
            row[value] = typeset.interval(*whole, as_percent=True) if percent else whole
    return Table(title="", columns=tuple(columns), rows=tuple(tuple(map(row.get, names)) for row in rows))


def _order(chart: Chart, fields: Sequence[str]) -> tuple[str, list[str | None]]:
    """Which field is the value, and which ones say what it is of."""
    around = [chart.facet, chart.series]
    if chart.kind == "histogram":
        return "count", [*around, "start", "end"]
    if chart.kind in ("line", "scatter"):
        return chart.y.field, ["text", *around, chart.x.field]
    value = chart.x.field if chart.kind != "heatmap" and chart.x.field in fields else "value"
    return value, [chart.y.field, *around, chart.x.field]


def _kind_of(chart: Chart, name: str) -> Any:
    """How a field of a chart is set in a table."""
    if name in ("n", "n_positive", "count"):
        return "integer"
    if name in ("p_value", "p"):
        return "p_value"
    found = next((row[name] for row in chart.data if row.get(name) is not None), None)
    if isinstance(found, bool):
        return "flag"
    if isinstance(found, int | float):
        along = {chart.x.field: chart.x, chart.y.field: chart.y, "start": chart.x, "end": chart.x}
        axis = along.get(name)
        return "percent" if axis is not None and axis.percent else "number"
    return "text"
