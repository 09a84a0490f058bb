"""Charts as Vega-Lite, and what stands around them: legend, notes and the table of their numbers.

A chart with a facet becomes one panel per value, all on the same axes: the page lays panels out in a grid, so
each is as wide as the screen allows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import vl_convert

from palpate.report import marks
from palpate.report.chartdata import ChartData, Row, heat_bins, prepare
from palpate.report.typeset import as_number
from palpate.results import Axis, Chart

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
STATIC_WIDTH = 640
NATURAL_ENDS = (0.0, 1.0)
CONFIG: dict[str, Any] = {
    "aria": False,  # a chart is one image with a description, not a hundred marks
    "background": None,
    "font": FONT,
    "autosize": {"type": "fit-x", "contains": "padding"},
    "view": {"stroke": None},
    "text": {"font": FONT},
    "axis": {
        "labelColor": marks.INK,
        "titleColor": marks.MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "var(--grid)",
        "domainColor": "var(--rule)",
        "tickColor": "var(--rule)",
        "titlePadding": 10,
        "labelPadding": 6,
    },
}


class Key(NamedTuple):
    """One entry of a legend: a small SVG mark and its words."""

    mark: str
    """line, point, area, hollow or filled."""
    colour: str
    shape: str
    dash: str
    text: str


class ChartPanel(NamedTuple):
    """One set of axes."""

    title: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """Everything that a figure shows."""

    panels: tuple[ChartPanel, ...]
    legend: tuple[Key, ...]
    notes: tuple[str, ...]


def to_spec(chart: Chart) -> dict[str, Any]:
    """A chart as one Vega-Lite specification; panels of a facet stand below each other."""
    drawn = draw(chart)
    if len(drawn.panels) == 1:
        return drawn.panels[0].spec
    parts = [
        {key: value for key, value in panel.spec.items() if key not in ("config", "$schema")}
        | {"title": panel.title, "width": STATIC_WIDTH}
        for panel in drawn.panels
    ]
    return {"$schema": drawn.panels[0].spec["$schema"], "config": CONFIG, "vconcat": parts}


def draw(chart: Chart, *, order: Sequence[str] = ()) -> Drawing:
    """A chart's panels with what must be said beside them; `order` fixes the colours of the models."""
    chart = _covering(chart)
    prepared = prepare(_on_shared_axes(chart) if chart.facet else chart, order=order)
    panels = []
    for name in prepared.panels:
        rows = [_trimmed(row) for row in prepared.rows if row["f"] == name]
        spec = marks.draw(prepared, rows) | {"width": "container", "description": chart.description, "config": CONFIG}
        title = f"{_words(chart.facet)}: {name}" if chart.facet and _is_number(name) else name
        panels.append(ChartPanel(title, spec))
    return Drawing(tuple(panels), tuple(_legend(prepared)), prepared.notes)


def _trimmed(row: Row) -> Row:
    """A row without its empty fields: they would only take space in the file."""
    kept = {name: value for name, value in row.items() if value is not None and name != "f"}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in kept.items()}


def _words(field: str | None) -> str:
    return (field or "").replace("_", " ").capitalize()


def _is_number(name: str) -> bool:
    return bool(re.fullmatch(r"[\d.]+", name))


def _on_shared_axes(chart: Chart) -> Chart:
    """The chart with fixed ends, so that its panels can be compared."""
    if chart.kind == "heatmap":
        return chart
    fields = {"histogram": ("start", "end")}.get(chart.kind, (chart.x.field,))
    spread = (*fields, "low", "high") if chart.kind in ("forest", "bar") else fields
    crossed = [] if chart.reference is None or chart.kind in ("line", "scatter") else [{fields[0]: chart.reference}]
    update: dict[str, Any] = {"x": _spanning(chart.x, [*chart.data, *crossed], spread, zero=chart.kind == "bar")}
    if chart.kind in ("line", "scatter"):
        update["y"] = _spanning(chart.y, chart.data, (chart.y.field, "low", "high"))
    if chart.kind == "histogram":
        update["y"] = _spanning(chart.y, chart.data, ("count",), zero=True)
    return chart.model_copy(update=update)


def _covering(chart: Chart) -> Chart:
    """The chart with fixed ends moved outwards where an interval would be cut off there."""
    ends = ("low", "high")
    if chart.kind in ("forest", "bar"):
        return chart.model_copy(update={"x": _reaching(chart.x, chart.data, (chart.x.field, *ends))})
    if chart.kind not in ("line", "scatter"):
        return chart
    x = _reaching(chart.x, chart.data, (chart.x.field, "x_low", "x_high"))
    return chart.model_copy(update={"x": x, "y": _reaching(chart.y, chart.data, (chart.y.field, *ends))})


def _reaching(axis: Axis, data: Iterable[Row], fields: tuple[str, ...]) -> Axis:
    """The axis with room beyond the data; a mark may touch 0 and 1, where shares end, but no other end."""
    numbers = [value for row in data for field in fields if (value := as_number(row.get(field))) is not None]
    if not numbers:
        return axis
    low, high = min(numbers), max(numbers)
    margin = (high - low) * 0.04
    update: dict[str, float] = {}
    if axis.low is not None and (low < axis.low or low == axis.low not in NATURAL_ENDS):
        update["low"] = low - margin
    if axis.high is not None and (high > axis.high or high == axis.high not in NATURAL_ENDS):
        update["high"] = high + margin
    return axis.model_copy(update=update)


def _spanning(axis: Axis, data: Iterable[Row], fields: tuple[str, ...], *, zero: bool = False) -> Axis:
    found = [row.get(field) for row in data for field in fields]
    numbers = [float(value) for value in found if isinstance(value, int | float) and value == value]
    if zero:
        numbers.append(0.0)
    if not numbers:
        return axis
    low, high = min(numbers), max(numbers)
    margin = (high - low) * 0.04
    return axis.model_copy(
        update={
            "low": axis.low if axis.low is not None else low - (margin if not zero or low < 0 else 0.0),
            "high": axis.high if axis.high is not None else high + margin,
        }
    )


def _legend(prepared: ChartData) -> list[Key]:
    """What colours, shapes, dashes and hollow marks mean."""
    kind = prepared.chart.kind
    if kind == "heatmap":
        return _heat_legend(prepared)
    mark = {"forest": "point", "scatter": "point", "line": "line"}.get(kind, "area")
    keys = []
    if prepared.chart.series and prepared.chart.series != prepared.chart.facet:
        for rank, name in zip(prepared.ranks, prepared.series, strict=True):
            shape = marks.SHAPES[rank % len(marks.SHAPES)]
            dash = " ".join(map(str, marks.DASHES[rank % len(marks.DASHES)]))
            keys.append(Key(mark, marks.colour(rank), shape, dash, name))
    if kind == "forest" and prepared.tested:
        keys.append(Key("filled", marks.MUTED, "circle", "", "significant"))
        untested = any(row.get("g") is None for row in prepared.rows)
        not_shown = "not significant, or not tested" if untested else "not significant"
        keys.append(Key("hollow", marks.MUTED, "circle", "", not_shown))
    if prepared.chart.diagonal:
        keys.append(Key("line", marks.MUTED, "", "4 3", "diagonal: both axes equal"))
    return keys


def _heat_legend(prepared: ChartData) -> list[Key]:
    edges, diverging = heat_bins(prepared.rows, prepared.chart.reference, steps=marks.HEAT_STEPS)
    colours = marks.heat_colours(diverging)
    return [
        Key("area", colours[step], "", "", f"{edges[step]:.3g} to {edges[step + 1]:.3g}".replace("-", "−"))
        for step in range(marks.HEAT_STEPS)
    ]


def static_svg(spec: dict[str, Any], *, name: str, width: int = STATIC_WIDTH) -> str:
    """The chart as an image in the page, for readers without JavaScript and before it has run.

    `name` begins the ids inside, which must differ from those of other charts: Vega's own are counted through
    the life of a process, so they would not be the same bytes twice.
    """
    # Marks that are there only to be pointed at are of no use in an image.
    layers = [layer for layer in spec["layer"] if layer["mark"].get("opacity") != 0]
    source = json.dumps(spec | {"width": width, "layer": layers})
    svg: str = vl_convert.vegalite_to_svg(source, allowed_base_urls=[])
    found = list(dict.fromkeys(re.findall(r'id="(\w+)"', svg)))
    for index, identity in enumerate(found):
        svg = svg.replace(f'id="{identity}"', f'id="{name}-{index}"')
        svg = svg.replace(f"url(#{identity})", f"url(#{name}-{index})")
    # The chart around it is the image, with a description; Vega makes each group of marks one without.
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)
    return re.sub(r"(-?\d+\.\d\d)\d+(?=[^<>]*>)", r"\1", svg)
