"""Each kind of chart as Altair layers.

Colours are the page's CSS variables, so that one chart serves the light page, the dark page and paper. Series
differ in shape or dash as well as in colour. Legends are HTML, made by `charts`, since Vega's do not wrap.
"""

from __future__ import annotations

import textwrap
from typing import Any

import altair as alt

from palpate.report.chartdata import LABEL_WIDTH, ChartData, Row, heat_bin, heat_bins
from palpate.report.typeset import shorten
from palpate.results import Axis

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
DASHES = ([1, 0], [7, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [1, 3], [6, 2, 2, 2, 2, 2])
HEAT_STEPS = 7
PRINTED_CELLS = 160
SURFACE = "var(--surface)"
INK = "var(--ink)"
MUTED = "var(--muted)"
PLOT_HEIGHT = 260
TITLE_WIDTH = 34
LETTER = 7
"""Pixels that a letter of an axis takes in a wide font."""


def colour(index: int) -> str:
    """The CSS variable of a series' colour."""
    return f"var(--c{index % 10 + 1})"


def draw(prepared: ChartData, rows: list[Row]) -> Any:
    """The layers of one panel."""
    kinds = {
        "forest": _forest,
        "bar": _bar,
        "line": _line,
        "scatter": _scatter,
        "heatmap": _heatmap,
        "histogram": _histogram,
    }
    return kinds[prepared.chart.kind](prepared, rows)


def _data(rows: list[Row]) -> Any:
    return alt.Chart(alt.InlineData(values=rows))


def _domain(axis: Axis, extra: list[float] | None = None, *, zero: bool = False) -> Any:
    """The scale of a numeric axis; an end that is not fixed is found by Vega."""
    fixed: dict[str, Any] = {}
    if axis.low is not None:
        fixed["domainMin"] = axis.low
    if axis.high is not None:
        fixed["domainMax"] = axis.high
    if extra:
        fixed = {"domain": extra} | fixed
    return alt.Scale(zero=zero and axis.low is None, nice=not fixed, **fixed)


def _axis(axis: Axis, **options: Any) -> Any:
    shown = {"format": ".0%"} if axis.percent else {}
    title = textwrap.wrap(axis.title, TITLE_WIDTH) or ""
    return alt.Axis(title=title, tickCount=5, labelOverlap=True, labelFlush=False, **shown, **options)


def _x(prepared: ChartData, field: str, *, zero: bool = False) -> Any:
    axis = prepared.chart.x
    # At the end of its axis a title has the whole width to its left, labels included: on a phone it needs that.
    return alt.X(f"{field}:Q", axis=_axis(axis, titleAnchor="end"), scale=_domain(axis, zero=zero))


def _y(prepared: ChartData, field: str, *, zero: bool = False) -> Any:
    axis = prepared.chart.y
    return alt.Y(f"{field}:Q", axis=_axis(axis, minExtent=5 * LETTER), scale=_domain(axis, zero=zero))


def _categories(prepared: ChartData, *, grid: bool = True) -> Any:
    """Categories down the side, in the audit's order, their labels in several lines, their title on top."""
    names = list(prepared.categories)
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    axis = alt.Axis(
        # Room by the letter: the reader's font may be wider than the one that a drawing was measured with.
        minExtent=LETTER * longest,
        title=shorten(prepared.chart.y.title, LABEL_WIDTH),
        titleAngle=0,
        titleAlign="right",
        titleBaseline="bottom",
        titleX=-6,
        titleY=-4,
        labelExpr="split(datum.label, '\\n')",
        labelLimit=190,
        labelLineHeight=13,
        ticks=False,
        domain=False,
        grid=grid,
    )
    padding = 0.3 if grid and (prepared.dodges > 1 or prepared.chart.kind == "bar") else 0.0
    return alt.Y("c:N", sort=names, scale=alt.Scale(domain=names, paddingInner=padding), axis=axis)


def _height(prepared: ChartData, per_series: int) -> int:
    """Room for each category's series, and for the lines of its label."""
    lines = max((label.count("\n") + 1 for label in prepared.categories), default=1)
    return max(13 * lines + 8, per_series * prepared.dodges + 14) * max(1, len(prepared.categories))


def _scale(prepared: ChartData, values: list[Any]) -> Any:
    return alt.Scale(domain=list(prepared.series), range=values)


def _colours(prepared: ChartData, channel: Any) -> Any:
    values = [colour(rank) for rank in prepared.ranks]
    return channel("s:N", legend=None, scale=_scale(prepared, values))


def _shapes(prepared: ChartData) -> Any:
    values = [SHAPES[rank % len(SHAPES)] for rank in prepared.ranks]
    return alt.Shape("s:N", legend=None, scale=_scale(prepared, values))


def _place(prepared: ChartData) -> dict[str, Any]:
    """Where a mark stands: its category's row and, in it, its series' place, unless they are the same."""
    if prepared.dodges == 1:
        return {"y": _categories(prepared)}
    return {"y": _categories(prepared), "yOffset": _dodge(prepared)}


def _dodge(prepared: ChartData) -> Any:
    return alt.YOffset("s:N", scale=alt.Scale(domain=list(prepared.series), paddingInner=0.2))


def _tooltip(prepared: ChartData, rows: list[Row], *, x: bool = False, value: str | None = None) -> list[Any]:
    """What a pointer over a mark shows: only fields that some row has."""
    chart = prepared.chart
    fields = []
    if any(row.get("name") for row in rows):
        title = chart.y.title if prepared.categories else "Case"
        fields.append(alt.Tooltip("name:N", title=title))
    if chart.kind == "heatmap":
        fields.append(alt.Tooltip("column:N", title=chart.x.title))
    if chart.series:
        fields.append(alt.Tooltip("s:N", title=chart.series.replace("_", " ").capitalize()))
    if x:
        shown = ".1%" if chart.x.percent else ".3~f"
        fields.append(alt.Tooltip("x:Q", title=chart.x.title, format=shown))
    fields.append(alt.Tooltip("t:N", title=value or chart.x.title))
    if any(row.get("n") is not None for row in rows):
        fields.append(alt.Tooltip("n:Q", title="n", format=",.0f"))
    if any(row.get("g") is not None for row in rows):
        fields.append(alt.Tooltip("w:N", title="Significant"))
    return fields


def _reference(prepared: ChartData, *, along: str = "x") -> list[Any]:
    value = prepared.chart.reference
    if value is None:
        return []
    mark = _data([{"r": value}]).mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3])
    return [mark.encode(x="r:Q") if along == "x" else mark.encode(y="r:Q")]


def _clips(axis: Axis) -> bool:
    """Whether a mark could run past a fixed end of its axis."""
    return axis.low is not None or axis.high is not None


def _intervals(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.get("lo") is not None and row.get("hi") is not None]


def _forest(prepared: ChartData, rows: list[Row]) -> Any:
    """A point and its interval per category and series; hollow where the test is not significant."""
    place = _place(prepared) | {"tooltip": _tooltip(prepared, rows)}
    stroke = _colours(prepared, alt.Stroke)
    fill = alt.condition("datum.g === false", alt.value(SURFACE), _colours(prepared, alt.Fill))
    bars = _data(_intervals(rows)).mark_rule(strokeWidth=2, clip=_clips(prepared.chart.x))
    points = _data(rows).mark_point(size=70, strokeWidth=2, opacity=1)
    layers = _reference(prepared)
    if _intervals(rows):
        layers.append(bars.encode(x=_x(prepared, "lo"), x2="hi:Q", stroke=stroke, **place))
    layers.append(points.encode(x=_x(prepared, "v"), stroke=stroke, fill=fill, shape=_shapes(prepared), **place))
    return alt.layer(*layers).properties(height=_height(prepared, 15))


def _bar(prepared: ChartData, rows: list[Row]) -> Any:
    """A bar from zero per category and series, with a whisker where there is an interval."""
    place = _place(prepared)
    tips = _tooltip(prepared, rows)
    bars = _data(rows).mark_bar(cornerRadiusEnd=2)
    whiskers = _data(_intervals(rows)).mark_rule(strokeWidth=1.5, stroke=INK, clip=_clips(prepared.chart.x))
    layers = [
        bars.encode(x=_x(prepared, "v", zero=True), fill=_colours(prepared, alt.Fill), tooltip=tips, **place),
        *_reference(prepared),
    ]
    if _intervals(rows):
        layers.append(whiskers.encode(x=_x(prepared, "lo", zero=True), x2="hi:Q", tooltip=tips, **place))
    return alt.layer(*layers).properties(height=_height(prepared, 15))


def _line(prepared: ChartData, rows: list[Row]) -> Any:
    """Lines with a band where rows have an interval, and a point where there is room to point at it.

    Marked rows are points beside the line, with their name.
    """
    dashes = [DASHES[rank % len(DASHES)] for rank in prepared.ranks]
    x, tips = _x(prepared, "x"), _tooltip(prepared, rows, x=True, value=prepared.chart.y.title)
    named = [row for row in rows if "m" in row]
    rows = [row for row in rows if "m" not in row]
    few = len(rows) <= 25 * len(prepared.series)
    bands = _data(_intervals(rows)).mark_area(opacity=0.16, clip=_clips(prepared.chart.y))
    lines = _data(rows).mark_line(strokeWidth=2, interpolate="linear")
    points = _data(rows).mark_point(size=45 if few else 60, filled=True, opacity=1 if few else 0)
    layers = [*_diagonal(prepared, rows), *_reference(prepared, along="y")]
    if _intervals(rows):
        layers.append(bands.encode(x=x, y=_y(prepared, "lo"), y2="hi:Q", fill=_colours(prepared, alt.Fill)))
    layers += [
        lines.encode(
            x=x,
            y=_y(prepared, "y"),
            stroke=_colours(prepared, alt.Stroke),
            strokeDash=alt.StrokeDash("s:N", legend=None, scale=_scale(prepared, dashes)),
        ),
        points.encode(
            x=x, y=_y(prepared, "y"), fill=_colours(prepared, alt.Fill), shape=_shapes(prepared), tooltip=tips
        ),
    ]
    if named:
        place = {"x": x, "y": _y(prepared, "y")}
        marks, words = _data(named).mark_point(size=110, filled=True, opacity=1, stroke=SURFACE), _data(named)
        layers += [
            marks.encode(fill=_colours(prepared, alt.Fill), shape=_shapes(prepared), tooltip=tips, **place),
            words.mark_text(align="left", dx=8, dy=-8, fontSize=11, fill=INK).encode(text="name:N", **place),
        ]
    return alt.layer(*layers).properties(height=PLOT_HEIGHT)


def _diagonal(prepared: ChartData, rows: list[Row]) -> list[Any]:
    """The line of perfect agreement, across all the data."""
    if not prepared.chart.diagonal or not rows:
        return []
    ends = [prepared.chart.x.low, prepared.chart.x.high]
    numbers = [row[axis] for row in prepared.rows for axis in ("x", "y")]
    low = ends[0] if ends[0] is not None else min(numbers)
    high = ends[1] if ends[1] is not None else max(numbers)
    mark = _data([{"x": low, "y": low}, {"x": high, "y": high}]).mark_line(
        stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3]
    )
    return [mark.encode(x="x:Q", y="y:Q")]


def _scatter(prepared: ChartData, rows: list[Row]) -> Any:
    """A mark per point, or per cell of a grid where there are very many."""
    tips = _tooltip(prepared, rows, x=True, value=prepared.chart.y.title)
    gridded = any("k" in row for row in rows)
    few = any(row.get("xlo") is not None for row in rows)
    points = _data(rows).mark_point(filled=True, opacity=1 if few else 0.55, size=90 if few else 40)
    size = {"size": alt.Size("k:Q", legend=None, scale=alt.Scale(range=[12, 260]))} if gridded else {}
    layers = [
        *_diagonal(prepared, rows),
        *_reference(prepared, along="y"),
        *_crosses(prepared, rows),
        points.encode(
            x=_x(prepared, "x"),
            y=_y(prepared, "y"),
            fill=_colours(prepared, alt.Fill),
            shape=_shapes(prepared),
            tooltip=tips,
            **size,
        ),
    ]
    return alt.layer(*layers).properties(height=PLOT_HEIGHT + 40)


def _crosses(prepared: ChartData, rows: list[Row]) -> list[Any]:
    """Intervals along both axes, for points that have both."""
    both = [row for row in _intervals(rows) if row.get("xlo") is not None and row.get("xhi") is not None]
    if not both:
        return []
    stroke = _colours(prepared, alt.Stroke)
    bars = _data(both).mark_rule(strokeWidth=1.5, clip=True)
    return [
        bars.encode(x=_x(prepared, "xlo"), x2="xhi:Q", y=_y(prepared, "y"), stroke=stroke),
        bars.encode(x=_x(prepared, "x"), y=_y(prepared, "lo"), y2="hi:Q", stroke=stroke),
    ]


def heat_colours(diverging: bool) -> list[str]:
    """The CSS variables of a heatmap's colours, from low to high."""
    return [f"var(--{'d' if diverging else 'q'}{step + 1})" for step in range(HEAT_STEPS)]


def _heatmap(prepared: ChartData, rows: list[Row]) -> Any:
    """Coloured cells, with their value printed where there is room."""
    edges, diverging = heat_bins(prepared.rows, prepared.chart.reference, steps=HEAT_STEPS)
    shaded = [row | {"b": heat_bin(row["v"], edges)} for row in rows]
    steps = list(range(HEAT_STEPS))
    x = alt.X(
        "d:N",
        sort=list(prepared.columns),
        scale=alt.Scale(domain=list(prepared.columns)),
        axis=alt.Axis(title=prepared.chart.x.title, labelAngle=-40, labelLimit=110, ticks=False, domain=False),
    )
    place = {"x": x, "y": _categories(prepared, grid=False)}
    fill = alt.Fill("b:O", legend=None, scale=alt.Scale(domain=steps, range=heat_colours(diverging)))
    tips = _tooltip(prepared, rows, value="Value")
    layers = [_data(shaded).mark_rect(stroke=SURFACE, strokeWidth=1).encode(fill=fill, tooltip=tips, **place)]
    if len(prepared.columns) <= 8 and len(rows) <= PRINTED_CELLS:
        inks = [f"var(--{'d' if diverging else 'q'}t{step + 1})" for step in steps]
        ink = alt.Fill("b:O", legend=None, scale=alt.Scale(domain=steps, range=inks))
        layers.append(
            _data(shaded).mark_text(fontSize=11).encode(text=alt.Text("v:Q", format=".2f"), fill=ink, **place)
        )
    layered = alt.layer(*layers).resolve_scale(fill="independent")
    return layered.properties(height=_height(prepared, 14))


def _histogram(prepared: ChartData, rows: list[Row]) -> Any:
    """Bins as bars that touch; series overlap, each with its outline."""
    many = len(prepared.series) > 1
    bars = _data(rows).mark_rect(fillOpacity=0.35 if many else 0.85, strokeWidth=1)
    encoded = bars.encode(
        x=_x(prepared, "x"),
        x2="x2:Q",
        y=_y(prepared, "y", zero=True),
        y2=alt.Y2Datum(0),
        fill=_colours(prepared, alt.Fill),
        stroke=_colours(prepared, alt.Stroke),
        tooltip=_tooltip(prepared, rows, x=True, value=prepared.chart.y.title),
    )
    return alt.layer(encoded, *_reference(prepared)).properties(height=PLOT_HEIGHT - 40)
