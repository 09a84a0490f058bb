"""Charts for a committee: each panel is a picture, the worst first, and a forest of many groups is several of them.

What is worst is what the audit's own answers name, by their verdicts; where they name none, the group whose interval
ends lowest. Groups without a number are not drawn: the limits tell of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from palpate.report.charts import draw, static_svg
from palpate.report.html import template_text
from palpate.results import Chart
from palpate.results.verdicts import VERDICTS, Answer

_MOST_GROUPS, _MOST_MARKS = 8, 20
_WIDTH = 380
"""Of a chart in pixels: narrow, so that its letters can be read at half the width of a page."""
_COLOUR = re.compile(r"var\(--(\w[\w-]*)\)")


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


def worst_first(answers: Iterable[Answer]) -> tuple[str, ...]:
    """What the answers of an audit say is worst, such as "gender=F, 'sepsis'", by their verdicts."""
    named = [(VERDICTS.index(each.verdict), each.label) for each in answers if each.label]
    return tuple(dict.fromkeys(label for _, label in sorted(named, key=lambda pair: pair[0])))


def _place(names: Iterable[str], worst: Sequence[str]) -> int:
    """Where the first of some labels or groups stands among what is worst; after all of it, if none does."""
    found = [
        k
        for k, told in enumerate(worst)
        for name in names
        if name == told or told.endswith(f"'{name}'") or told.startswith(f"{name}, '")
    ]
    return min(found, default=len(worst))


def _lowest(rows: Iterable[Mapping[str, Any]], field: str) -> float:
    """The lowest end of an interval, or number without one."""
    ends = [row["high"] if row.get("high") is not None else row[field] for row in rows]
    return min(ends, default=float("inf"))


def pictures_of(chart: Chart, order: Sequence[str], worst: Sequence[str]) -> list[Picture]:
    """All parts of each panel, one panel after another, the worst first."""
    drawn: list[tuple[tuple[float, ...], list[Picture]]] = []
    for panel in _panels(chart):
        names = {str(row.get(chart.facet)).split(" · ")[0] for row in panel.data} if chart.facet else set()
        low = _lowest(panel.data, chart.x.field) if chart.kind == "forest" else 0.0
        parts = _parts(panel)
        if any(part.name for part in parts):
            parts.sort(key=lambda part: _worst_part(part, worst, names))
        made = [picture for part in parts for picture in _pictures(part, order)]
        drawn.append(((_place(names, worst), low), made))
    return [picture for _, made in sorted(drawn, key=lambda pair: pair[0]) for picture in made]


def _worst_part(part: _Part, worst: Sequence[str], labels: Iterable[str]) -> tuple[float, float]:
    """A key by which the worst part of a forest comes first: by what answers say of its groups and of the label."""
    groups = {str(row.get(part.chart.y.field, "")) for row in part.chart.data}
    own = [told for told in worst if "'" not in told or any(told.endswith(f"'{label}'") for label in labels)]
    return _place(groups, own), _lowest(part.chart.data, part.chart.x.field)


def _panels(chart: Chart) -> list[Chart]:
    """The chart of each panel alone; of a forest without rows that have no number, on the axis of all."""
    data = [row for row in chart.data if chart.kind != "forest" or row.get(chart.x.field) is not None]
    names = list(dict.fromkeys(row.get(chart.facet) for row in data)) if chart.facet else [None]
    if not data:
        return []
    numbers = [row[key] for row in data for key in (chart.x.field, "low", "high") if row.get(key) is not None]
    numbers += [each for each in (chart.reference, chart.x.low, chart.x.high) if each is not None]
    several = chart.kind == "forest" and len(names) > 1
    axis = chart.x.model_copy(update={"low": min(numbers), "high": max(numbers)}) if several else chart.x
    rows = [tuple(row for row in data if chart.facet is None or row.get(chart.facet) == name) for name in names]
    return [chart.model_copy(update={"x": axis, "data": own}) for own in rows]


class _Part(NamedTuple):
    """A chart, or the groups of one attribute in it."""

    chart: Chart
    name: str = ""


def _parts(chart: Chart) -> list[_Part]:
    """A forest of many groups by attribute, and of many marks by some rows, so that its letters can be read on a page.

    All parts have the same axis.
    """
    names = list(dict.fromkeys(str(row.get(chart.y.field, "")) for row in chart.data))
    n_series = len({row.get(chart.series) for row in chart.data}) if chart.series else 1
    if chart.kind != "forest" or (len(names) <= _MOST_GROUPS and len(names) * n_series <= _MOST_MARKS):
        return [_Part(chart)]
    numbers = [row[key] for row in chart.data for key in (chart.x.field, "low", "high") if row.get(key) is not None]
    numbers += [each for each in (chart.reference, chart.x.low, chart.x.high) if each is not None]
    axis = chart.x.model_copy(update={"low": min(numbers), "high": max(numbers)}) if numbers else chart.x
    parts = []
    for title, own in _rows_of_parts(names, max(1, _MOST_MARKS // n_series)):
        data = tuple(row for row in chart.data if str(row.get(chart.y.field, "")) in own)
        parts.append(_Part(chart.model_copy(update={"x": axis, "data": data}), title))
    return parts


def _rows_of_parts(names: Sequence[str], most: int) -> list[tuple[str, Sequence[str]]]:
    """The rows of a forest by attribute, where all have one, and none with more than so many."""
    by: dict[str, list[str]] = {}
    for name in names:
        by.setdefault(name.partition("=")[0] if all("=" in each for each in names) else "", []).append(name)
    parts: list[tuple[str, Sequence[str]]] = []
    for title, own in by.items():
        n = -(-len(own) // most)
        size = -(-len(own) // n)  # parts of about the same size
        for k in range(n):
            told = f"{k + 1} of {n}" if n > 1 else ""
            parts.append((", ".join(filter(None, (title, told))), own[k * size : (k + 1) * size]))
    return parts


def _pictures(part: _Part, order: Sequence[str]) -> list[Picture]:
    """The picture of each panel."""
    import vl_convert

    chart = part.chart
    drawing = draw(chart, order=order)
    made = []
    for panel in drawing.panels:
        svg = plain_colour(static_svg(panel.spec, name="panel", width=_WIDTH))
        png = vl_convert.svg_to_png(svg, scale=2.5)
        width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
        legend = tuple((plain_colour(key.colour), key.text) for key in drawing.legend)
        named = ", ".join(filter(None, (panel.title, part.name)))
        title = f"{chart.title}: {named}" if named else chart.title
        made.append(Picture(title, png, width, height, legend, chart.description, chart.title))
    return made
