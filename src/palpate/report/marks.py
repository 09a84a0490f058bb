"""Each kind of chart as layers of Vega-Lite.

Colours are the page's CSS variables, so that one chart serves the light page, the dark page and paper. Series
differ in shape or dash as well as in colour. Legends are HTML, made by `charts`, since Vega's do not wrap.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any, TypeAlias

from palpate.report.chartdata import LABEL_WIDTH, ChartData, Row, heat_bin, heat_bins
from palpate.report.typeset import shorten
from palpate.results import Axis, Chart

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
DASHES = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3], [6, 2, 2, 2, 2, 2])
HEAT_STEPS = 7
PRINTED_CELLS = 160
SURFACE = "var(--surface)"
INK = "var(--ink)"
MUTED = "var(--muted)"
PLOT_HEIGHT = 260
TITLE_WIDTH = 34
MOST_NAMED_TICKS = 8
LETTER = 7
"""Pixels that a letter of an axis takes in a wide font."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

Spec: TypeAlias = dict[str, Any]
"""A piece of Vega-Lite."""
_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}


def colour(index: int) -> str:
    """The CSS variable of a series' colour."""
    return f"var(--c{index % 10 + 1})"


def draw(prepared: ChartData, rows: list[Row]) -> Spec:
    """The layers of one panel, as a whole specification."""
    kinds = {
        "forest": _forest,
        "bar": _bar,
        "line": _line,
        "scatter": _scatter,
        "heatmap": _heatmap,
        "histogram": _histogram,
    }
    return kinds[prepared.chart.kind](prepared, rows)


def _of(shorthand: str, **options: Any) -> Spec:
    """A channel: `v:Q` is the field v, which is quantitative."""
    field, _, kind = shorthand.partition(":")
    return {"field": field, "type": _TYPES[kind], **options}


def _end(field: str) -> Spec:
    """The far end of a mark, on the scale of its near end."""
    return {"field": field}


def _layer(rows: list[Row], mark: str, encoding: Mapping[str, Any], **options: Any) -> Spec:
    return {"data": rows, "mark": {"type": mark, **options}, "encoding": dict(encoding)}


def _stacked(layers: list[Spec], *, height: int, **options: Any) -> Spec:
    """Layers on top of each other; rows that several of them show are stored once."""
    stored: list[list[Row]] = []
    for layer in layers:
        if layer["data"] not in stored:
            stored.append(layer["data"])
    named = [layer | {"data": {"name": f"rows{stored.index(layer['data'])}"}} for layer in layers]
    datasets = {f"rows{k}": rows for k, rows in enumerate(stored)}
    return {"$schema": SCHEMA, "layer": named, "datasets": datasets, "height": height, **options}


def _domain(axis: Axis, extra: list[float] | None = None, *, zero: bool = False) -> Spec:
    """The scale of a numeric axis; an end that is not fixed is found by Vega."""
    fixed: dict[str, Any] = {}
    if axis.low is not None:
        fixed["domainMin"] = axis.low
    if axis.high is not None:
        fixed["domainMax"] = axis.high
    if extra:
        fixed = {"domain": extra} | fixed
    return {"zero": zero and axis.low is None, "nice": not fixed, **fixed}


def _axis(axis: Axis, **options: Any) -> Spec:
    shown = {"format": ".0%"} if axis.percent else {}
    title = textwrap.wrap(axis.title, TITLE_WIDTH) or ""
    if axis.labels is not None:
        options |= {"values": _ticks(len(axis.labels)), "labelExpr": f"{json.dumps(axis.labels)}[datum.value]"}
    return {"title": title, "tickCount": 5, "labelOverlap": True, "labelFlush": False, **shown, **options}


def _ticks(n: int) -> list[int]:
    """Places along an axis that leave room for their names, the first among them."""
    step = max(1, -(-n // MOST_NAMED_TICKS))
    return list(range(0, n, step))


def _x(prepared: ChartData, field: str, *, zero: bool = False) -> Spec:
    axis = prepared.chart.x
    # At the end of its axis a title has the whole width to its left, labels included: on a phone it needs that.
    return _of(f"{field}:Q", axis=_axis(axis, titleAnchor="end"), scale=_domain(axis, zero=zero))


def _y(prepared: ChartData, field: str, *, zero: bool = False) -> Spec:
    axis = prepared.chart.y
    return _of(f"{field}:Q", axis=_axis(axis, minExtent=5 * LETTER), scale=_domain(axis, zero=zero))


def _categories(prepared: ChartData, *, grid: bool = True) -> Spec:
    """Categories down the side, in the audit's order, their labels in several lines, their title on top."""
    names = list(prepared.categories)
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    axis = {
        # Room by the letter: the reader's font may be wider than the one that a drawing was measured with.
        "minExtent": LETTER * longest,
        "title": shorten(prepared.chart.y.title, LABEL_WIDTH),
        "titleAngle": 0,
        "titleAlign": "right",
        "titleBaseline": "bottom",
        "titleX": -6,
        "titleY": -4,
        "labelExpr": "split(datum.label, '\\n')",
        "labelLimit": 190,
        "labelLineHeight": 13,
        "ticks": False,
        "domain": False,
        "grid": grid,
    }
    padding = 0.3 if grid and (prepared.dodges > 1 or prepared.chart.kind == "bar") else 0.0
    return _of("c:N", sort=names, scale={"domain": names, "paddingInner": padding}, axis=axis)


def _height(prepared: ChartData, per_series: int) -> int:
    """Room for each category's series, and for the lines of its label."""
    lines = max((label.count("\n") + 1 for label in prepared.categories), default=1)
    return max(13 * lines + 8, per_series * prepared.dodges + 14) * max(1, len(prepared.categories))


def _scale(prepared: ChartData, values: list[Any]) -> Spec:
    return {"domain": list(prepared.series), "range": values}


def _colours(prepared: ChartData) -> Spec:
    values = [colour(rank) for rank in prepared.ranks]
    return _of("s:N", legend=None, scale=_scale(prepared, values))


def _shapes(prepared: ChartData) -> Spec:
    values = [SHAPES[rank % len(SHAPES)] for rank in prepared.ranks]
    return _of("s:N", legend=None, scale=_scale(prepared, values))


def _place(prepared: ChartData) -> dict[str, Any]:
    """Where a mark stands: its category's row and, in it, its series' place, unless they are the same."""
    if prepared.dodges == 1:
        return {"y": _categories(prepared)}
    return {"y": _categories(prepared), "yOffset": _dodge(prepared)}


def _dodge(prepared: ChartData) -> Spec:
    return _of("s:N", scale={"domain": list(prepared.series), "paddingInner": 0.2})


def _tooltip(prepared: ChartData, rows: list[Row], *, x: bool = False, value: str | None = None) -> list[Spec]:
    """What a pointer over a mark shows: only fields that some row has."""
    chart = prepared.chart
    fields = []
    if any(row.get("name") for row in rows):
        title = chart.y.title if prepared.categories else chart.x.title if chart.x.labels else "Case"
        fields.append(_of("name:N", title=title))
    if chart.kind == "heatmap":
        fields.append(_of("column:N", title=chart.x.title))
    if chart.series:
        fields.append(_of("s:N", title=chart.series.replace("_", " ").capitalize()))
    if x and chart.x.labels is None:
        shown = ".1%" if chart.x.percent else ".3~f"
        fields.append(_of("x:Q", title=chart.x.title, format=shown))
    fields.append(_of("t:N", title=value or chart.x.title))
    if any(row.get("n") is not None for row in rows):
        fields.append(_of("n:Q", title="n", format=",.0f"))
    if any(row.get("g") is not None for row in rows):
        fields.append(_of("w:N", title="Significant"))
    return fields


def _reference(prepared: ChartData, *, along: str = "x") -> list[Spec]:
    value = prepared.chart.reference
    if value is None:
        return []
    return [_layer([{"r": value}], "rule", {along: _of("r:Q")}, stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3])]


def _clips(axis: Axis) -> bool:
    """Whether a mark could run past a fixed end of its axis."""
    return axis.low is not None or axis.high is not None


def _intervals(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.get("lo") is not None and row.get("hi") is not None]


def _forest(prepared: ChartData, rows: list[Row]) -> Spec:
    """A point and its interval per category and series; hollow where no test is significant."""
    place = _place(prepared) | {"tooltip": _tooltip(prepared, rows)}
    stroke = _colours(prepared)
    hollow = {"condition": {"test": "datum.g !== true", "value": SURFACE}} if prepared.tested else {}
    fill = _colours(prepared) | hollow
    layers = _reference(prepared)
    if found := _intervals(rows):
        ends = {"x": _x(prepared, "lo"), "x2": _end("hi"), "stroke": stroke, **place}
        layers.append(_layer(found, "rule", ends, strokeWidth=2, clip=_clips(prepared.chart.x)))
    points = {"x": _x(prepared, "v"), "stroke": stroke, "fill": fill, "shape": _shapes(prepared), **place}
    layers.append(_layer(rows, "point", points, size=70, strokeWidth=2, opacity=1))
    return _stacked(layers, height=_height(prepared, 15))


def _bar(prepared: ChartData, rows: list[Row]) -> Spec:
    """A bar from zero per category and series, with a whisker where there is an interval."""
    place = _place(prepared) | {"tooltip": _tooltip(prepared, rows)}
    bars = {"x": _x(prepared, "v", zero=True), "fill": _colours(prepared), **place}
    layers = [_layer(rows, "bar", bars, cornerRadiusEnd=2), *_reference(prepared)]
    if found := _intervals(rows):
        ends = {"x": _x(prepared, "lo", zero=True), "x2": _end("hi"), **place}
        layers.append(_layer(found, "rule", ends, strokeWidth=1.5, stroke=INK, clip=_clips(prepared.chart.x)))
    return _stacked(layers, height=_height(prepared, 15))


_Beside = tuple[str, int, int]
_BESIDE: tuple[_Beside, ...] = (("left", 8, -8), ("left", 8, 12), ("right", -8, -8), ("right", -8, 12))
_CHARACTER, _LINE, _NARROWEST_PLOT = 6.2, 13, 440


def _line(prepared: ChartData, rows: list[Row]) -> Spec:
    """Lines with a band where rows have an interval, and a point where there is room to point at it.

    Marked rows are points beside the line, with their name.
    """
    dashes = [DASHES[rank % len(DASHES)] for rank in prepared.ranks]
    x, tips = _x(prepared, "x"), _tooltip(prepared, rows, x=True, value=prepared.chart.y.title)
    named = [row for row in rows if "m" in row]
    rows = [row for row in rows if "m" not in row]
    few = len(rows) <= 25 * len(prepared.series)
    layers = [*_diagonal(prepared, rows), *_reference(prepared, along="y")]
    if found := _intervals(rows):
        band = {"x": x, "y": _y(prepared, "lo"), "y2": _end("hi"), "fill": _colours(prepared)}
        layers.append(_layer(found, "area", band, opacity=0.16, clip=_clips(prepared.chart.y)))
    dash = _of("s:N", legend=None, scale=_scale(prepared, dashes))
    line = {"x": x, "y": _y(prepared, "y"), "stroke": _colours(prepared), "strokeDash": dash}
    fill, shape = _colours(prepared), _shapes(prepared)
    point = {"x": x, "y": _y(prepared, "y"), "fill": fill, "shape": shape, "tooltip": tips}
    layers.append(_layer(rows, "line", line, strokeWidth=2, interpolate="linear"))
    layers.append(_layer(rows, "point", point, size=45 if few else 60, filled=True, opacity=1 if few else 0))
    if named:
        place = {"x": x, "y": _y(prepared, "y")}
        marked = {"fill": fill, "shape": shape, "tooltip": tips, **place}
        layers.append(_layer(named, "point", marked, size=110, filled=True, opacity=1, stroke=SURFACE))
        words = {"text": _of("name:N"), **place}
        for (align, dx, dy), some in _beside(named, prepared.chart).items():
            layers.append(_layer(some, "text", words, align=align, dx=dx, dy=dy, fontSize=11, fill=INK))
    return _stacked(layers, height=PLOT_HEIGHT)


def _beside(named: list[Row], chart: Chart) -> dict[_Beside, list[Row]]:
    """Marked rows by where their name stands, so that no name covers another; for some, only the tooltip has room."""
    spans = [
        _span(axis, [row[field] for row in named if row[field] is not None])
        for axis, field in ((chart.x, "x"), (chart.y, "y"))
    ]
    taken: list[tuple[float, float, float, float]] = []
    found: dict[_Beside, list[Row]] = {}
    for row in named:
        x, y = ((row[field] - low) / span for field, (low, span) in zip(("x", "y"), spans, strict=True))
        width = _CHARACTER * len(row["name"])
        for align, dx, dy in _BESIDE:
            left = x * _NARROWEST_PLOT + (dx if align == "left" else dx - width)
            middle = (1 - y) * PLOT_HEIGHT + dy
            box = (left, middle - _LINE / 2, left + width, middle + _LINE / 2)
            inside = left >= 0 and box[2] <= _NARROWEST_PLOT and box[1] >= 0 and box[3] <= PLOT_HEIGHT
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                found.setdefault((align, dx, dy), []).append(row)
                break
    return found


def _span(axis: Axis, numbers: list[float]) -> tuple[float, float]:
    low = axis.low if axis.low is not None else min(numbers, default=0.0)
    high = axis.high if axis.high is not None else max(numbers, default=1.0)
    return low, high - low or 1.0


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _diagonal(prepared: ChartData, rows: list[Row]) -> list[Spec]:
    """The line of perfect agreement, across all the data."""
    if not prepared.chart.diagonal or not rows:
        return []
    ends = [prepared.chart.x.low, prepared.chart.x.high]
    numbers = [row[axis] for row in prepared.rows for axis in ("x", "y")]
    low = ends[0] if ends[0] is not None else min(numbers)
    high = ends[1] if ends[1] is not None else max(numbers)
    corners = [{"x": low, "y": low}, {"x": high, "y": high}]
    across = {"x": _of("x:Q"), "y": _of("y:Q")}
    return [_layer(corners, "line", across, stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3], clip=True)]


def _scatter(prepared: ChartData, rows: list[Row]) -> Spec:
    """A mark per point, or per cell of a grid where there are very many."""
    tips = _tooltip(prepared, rows, x=True, value=prepared.chart.y.title)
    gridded = any("k" in row for row in rows)
    few = any(row.get("xlo") is not None for row in rows)
    size = {"size": _of("k:Q", legend=None, scale={"range": [12, 260]})} if gridded else {}
    fill, shape = _colours(prepared), _shapes(prepared)
    points = {"x": _x(prepared, "x"), "y": _y(prepared, "y"), "fill": fill, "shape": shape, "tooltip": tips, **size}
    look = {"filled": True, "opacity": 1 if few else 0.55, "size": 90 if few else 40}
    layers = [*_diagonal(prepared, rows), *_reference(prepared, along="y"), *_crosses(prepared, rows)]
    return _stacked([*layers, _layer(rows, "point", points, **look)], height=PLOT_HEIGHT + 40)


def _crosses(prepared: ChartData, rows: list[Row]) -> list[Spec]:
    """Intervals along both axes, for points that have both."""
    both = [row for row in _intervals(rows) if row.get("xlo") is not None and row.get("xhi") is not None]
    if not both:
        return []
    stroke = _colours(prepared)
    across = {"x": _x(prepared, "xlo"), "x2": _end("xhi"), "y": _y(prepared, "y"), "stroke": stroke}
    upright = {"x": _x(prepared, "x"), "y": _y(prepared, "lo"), "y2": _end("hi"), "stroke": stroke}
    return [_layer(both, "rule", way, strokeWidth=1.5, clip=True) for way in (across, upright)]


def heat_colours(diverging: bool) -> list[str]:
    """The CSS variables of a heatmap's colours, from low to high."""
    return [f"var(--{'d' if diverging else 'q'}{step + 1})" for step in range(HEAT_STEPS)]


def _heatmap(prepared: ChartData, rows: list[Row]) -> Spec:
    """Coloured cells, with their value printed where there is room."""
    edges, diverging = heat_bins(prepared.rows, prepared.chart.reference, steps=HEAT_STEPS)
    shaded = [row | {"b": heat_bin(row["v"], edges)} for row in rows]
    steps = list(range(HEAT_STEPS))
    names = list(prepared.columns)
    labels = {"labelAngle": -40, "labelLimit": 110, "ticks": False, "domain": False}
    x = _of("d:N", sort=names, scale={"domain": names}, axis={"title": prepared.chart.x.title, **labels})
    place = {"x": x, "y": _categories(prepared, grid=False)}
    fill = _of("b:O", legend=None, scale={"domain": steps, "range": heat_colours(diverging)})
    cells = {"fill": fill, "tooltip": _tooltip(prepared, rows, value="Value"), **place}
    layers = [_layer(shaded, "rect", cells, stroke=SURFACE, strokeWidth=1)]
    if len(prepared.columns) <= 8 and len(rows) <= PRINTED_CELLS:
        inks = [f"var(--{'d' if diverging else 'q'}t{step + 1})" for step in steps]
        ink = _of("b:O", legend=None, scale={"domain": steps, "range": inks})
        layers.append(_layer(shaded, "text", {"text": _of("v:Q", format=".2f"), "fill": ink, **place}, fontSize=11))
    return _stacked(layers, height=_height(prepared, 14), resolve={"scale": {"fill": "independent"}})


def _histogram(prepared: ChartData, rows: list[Row]) -> Spec:
    """Bins as bars that touch; series overlap, each with its outline."""
    many = len(prepared.series) > 1
    bars = {
        "x": _x(prepared, "x"),
        "x2": _end("x2"),
        "y": _y(prepared, "y", zero=True),
        "y2": {"datum": 0},
        "fill": _colours(prepared),
        "stroke": _colours(prepared),
        "tooltip": _tooltip(prepared, rows, x=True, value=prepared.chart.y.title),
    }
    drawn = _layer(rows, "rect", bars, fillOpacity=0.35 if many else 0.85, strokeWidth=1)
    return _stacked([drawn, *_reference(prepared)], height=PLOT_HEIGHT - 40)
