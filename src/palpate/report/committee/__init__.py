"""What a committee gets on two pages or a few slides: verdicts, who was audited, for whom it is worse, risks, limits.

The same scorecard, tables and charts as the report, fewer of them; nothing is computed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from palpate.report.blocks import view_table
from palpate.report.charts import draw, static_svg
from palpate.report.headline import audited
from palpate.report.html import template_text
from palpate.report.scorecard import ScorecardView, view_scorecard
from palpate.results import AuditResult, Chart, Table

CHARTS = (
    ("performance", "AUROC of each model"),
    ("subgroups", "AUROC in each group"),
    ("performance", "Smooth calibration curve"),
    ("performance", "Net benefit"),
)
"""The charts that a committee asks for, by audit and title, in their order."""
TABLE_ONE = ("data", "Who was audited (Table 1)")
VERDICT_COLOURS = {
    "concern": "var(--bad)",
    "caution": "var(--warning)",
    "unsettled": "var(--neutral)",
    "acceptable": "var(--good)",
}
MARKS = {"concern": "■", "caution": "▲", "unsettled": "?", "acceptable": "●"}
"""Beside the word, so that a copy without colours says the same."""
NO_LIMITS = "No audit told of any."
_MOST_ROWS, _MOST_COLUMNS, _MOST_LIMITS, _MOST_GROUPS = 32, 5, 8, 8
_WIDTH = 380
"""Of a chart in pixels: narrow, so that its letters can be read at half the width of a page."""
_COLOUR = re.compile(r"var\(--(\w[\w-]*)\)")


class Grid(NamedTuple):
    """A table as texts; `left_out` counts the rows that did not fit."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int


class Picture(NamedTuple):
    """A chart as PNG, with what a person who can't see it should know."""

    title: str
    png: bytes
    width: int
    height: int
    legend: tuple[tuple[str, str], ...]
    """The colour and the name of each series."""
    description: str
    chart: str
    """The title of the chart of which it is a panel, the only one or one of several."""


class Digest(NamedTuple):
    """Everything on the two pages."""

    title: str
    run: str
    cohorts: tuple[str, ...]
    scorecard: ScorecardView | None
    table_one: Grid | None
    pictures: tuple[Picture, ...]
    limits: tuple[str, ...]


def digest(manifest: Mapping[str, Any], results: Sequence[AuditResult]) -> Digest:
    """The run in short; what it did not measure is among the limits."""
    by_name = {result.audit: result for result in results}
    made = f"Run {str(manifest.get('id'))[:8]}, {str(manifest.get('created'))[:10]}, palpate {manifest.get('palpate')}"
    cohorts = [
        f"{each['name']}: {each['n']:,} cases of {each['n_patients']:,} patients"
        for each in manifest.get("cohorts") or []
    ]
    found = {(audit, block.title): block for audit, result in by_name.items() for block in result.blocks}
    order = audited(manifest)
    charts = [chart for chart in map(found.get, CHARTS) if isinstance(chart, Chart)]
    pictures = [picture for chart in charts for part in _parts(chart) for picture in _pictures(part, order)]
    first = found.get(TABLE_ONE)
    grid = _grid(first) if isinstance(first, Table) else None
    return Digest(
        str(manifest.get("title") or "Audit"),
        made,
        tuple(cohorts),
        view_scorecard(results, manifest),
        grid,
        tuple(pictures),
        _limits(by_name),
    )


def _limits(results: Mapping[str, AuditResult]) -> tuple[str, ...]:
    """What limits the answers: caveats and concerns about the data, and what was not asked."""
    told = [
        finding.sentence
        for result in results.values()
        for finding in result.findings
        if finding.kind == "caveat" or (finding.kind == "concern" and finding.question is None)
    ]
    open_ones: dict[str, list[str]] = {}
    for result in results.values():
        for answer in result.answers:
            if answer.verdict == "unsettled":
                open_ones.setdefault(answer.asks, []).append(answer.model)
    told += [f"Not settled by these data: {asks} ({', '.join(models)})" for asks, models in open_ones.items()]
    if "performance" not in results:
        told.append("Not measured: how well it separates patients, and whether its risks are right (no `performance`).")
    if "subgroups" not in results:
        told.append("Not measured: whether it is worse for some groups of patients (no audit `subgroups`).")
    if len(told) > _MOST_LIMITS:
        told = [*told[:_MOST_LIMITS], f"{len(told) - _MOST_LIMITS} more are in the report."]
    return tuple(told)


def _grid(table: Table) -> Grid:
    """The first two columns, then those of audited cases before the others."""
    view = view_table(table)
    names = [column.name for column in table.columns]
    rest = sorted(range(2, len(names)), key=lambda k: ("test" not in names[k].split()[-1:], k))
    columns = sorted([0, 1, *rest[: _MOST_COLUMNS - 2]])
    rows = [tuple(row[k].text for k in columns) for row in view.rows[:_MOST_ROWS]]
    missing = [names[k] for k in range(len(names)) if k not in columns]
    title = f"{table.title}, without {', '.join(missing)}" if missing else table.title
    return Grid(title, tuple(names[k] for k in columns), tuple(rows), max(0, len(table.rows) - _MOST_ROWS))


@cache
def _light() -> dict[str, str]:
    """The colours of a light page, by the names of their variables."""
    found: dict[str, str] = {}
    for name, value in re.findall(r"--([\w-]+):\s*(#\w+);", template_text("theme.css")):
        found.setdefault(name, value)
    return found


def plain_colour(text: str) -> str:
    """A text in which variables of the style sheet are colours."""
    return _COLOUR.sub(lambda match: _light().get(match[1], "#000000"), text)


class _Part(NamedTuple):
    """A chart, or the groups of one attribute in it."""

    chart: Chart
    name: str = ""


def _parts(chart: Chart) -> list[_Part]:
    """A forest of many groups by attribute, on the same axis, so that its letters can be read on a page."""
    names = [str(row.get(chart.y.field, "")) for row in chart.data]
    if (
        chart.kind != "forest"
        or chart.facet
        or len(set(names)) <= _MOST_GROUPS
        or not all("=" in name for name in names)
    ):
        return [_Part(chart)]
    numbers = [row[key] for row in chart.data for key in (chart.x.field, "low", "high") if row.get(key) is not None]
    axis = chart.x.model_copy(update={"low": min(numbers), "high": max(numbers)}) if numbers else chart.x
    by = dict.fromkeys(name.partition("=")[0] for name in names)
    rows = {
        each: tuple(r for r, name in zip(chart.data, names, strict=True) if name.partition("=")[0] == each)
        for each in by
    }
    return [_Part(chart.model_copy(update={"x": axis, "data": own}), each) for each, own in rows.items()]


def _pictures(part: _Part, order: Sequence[str]) -> list[Picture]:
    import vl_convert

    chart = part.chart

    drawing = draw(chart, order=order)
    made = []
    for panel in drawing.panels:
        svg = plain_colour(static_svg(panel.spec, name="panel", width=_WIDTH))
        png = vl_convert.svg_to_png(svg, scale=2.5)
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        legend = tuple((plain_colour(key.colour), key.text) for key in drawing.legend)
        named = ", ".join(filter(None, (part.name, panel.title)))
        title = f"{chart.title}: {named}" if named else chart.title
        made.append(Picture(title, png, width, height, legend, chart.description, chart.title))
    return made


def panels_of(pictures: Iterable[Picture], most: int) -> list[tuple[str, list[Picture], int]]:
    """Each chart's title, the first of its panels, and how many others it has."""
    charts = [(title, list(own)) for title, own in groupby(pictures, key=lambda each: each.chart)]
    return [(title, own[:most], len(own[most:])) for title, own in charts]


def scorecard_cells(scorecard: ScorecardView) -> list[list[tuple[str, str]]]:
    """Rows of (text, verdict), the question first."""
    rows = []
    for question in scorecard.questions:
        row = [(question.asks, "")]
        for cell in question.cells:
            told = "not asked" if cell is None else f"{MARKS[cell.verdict]} {cell.word}\n{cell.number}"
            row.append((told, "" if cell is None else cell.verdict))
        rows.append(row)
    return rows
