"""A chart's rows, ready to draw: short field names, finite numbers, no more points than a reader can use.

Nothing is left out silently: each cut adds a sentence to `ChartData.notes`, which stands under the chart. A
row whose value is null is not drawn but counted in a note; the table of numbers keeps it, with its reason.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from palpate.report.typeset import as_number, count_of, integer, interval, shorten
from palpate.results import Chart

MAX_SERIES = 10
MAX_PANELS = 12
MAX_CATEGORIES = 40
MAX_MARKS = 160
MAX_LINE_POINTS = 300
MAX_SCATTER_POINTS = 2_000
MAX_BINS = 120
GRID = 40
LABEL_WIDTH = 24
LABEL_LINES = 3

Row = dict[str, Any]


@dataclass(frozen=True)
class ChartData:
    """What a chart draws.

    Fields of a row: `f` panel, `s` series, `c` and `d` categories along y and x, `x` and `y` numbers, `v`
    value, `lo` and `hi` interval (`xlo` and `xhi` along x), `g` significant (`w` in words), `k` how many points one
    mark stands for; for the tooltip `name`, `t` (the numbers in words) and `n`.
    """

    chart: Chart
    rows: tuple[Row, ...]
    series: tuple[str, ...]
    panels: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    ranks: tuple[int, ...]
    """Which colour, shape and dash each series has."""

    @property
    def dodges(self) -> int:
        """How many marks a category has beside each other."""
        return 1 if self.chart.series == self.chart.y.field else len(self.series)

    @property
    def tested(self) -> bool:
        """Whether rows say if they are significant."""
        return any(row.get("g") is not None for row in self.rows)


def prepare(chart: Chart, *, order: Sequence[str] = ()) -> ChartData:
    """The rows to draw, and what must be said about those that are not.

    Series that are all named in `order` (the models of a run) keep their place in it, so that a model has one
    colour in all charts.
    """
    notes: list[str] = []
    rows = [_named(chart, row) for row in chart.data]
    panels = _keep(rows, "f", MAX_PANELS, "panels", notes) if chart.facet else ("",)
    series = _keep(rows, "s", MAX_SERIES, "series", notes) if chart.series else ("",)
    rows = [row for row in rows if row["f"] in panels and row["s"] in series]
    panels = tuple(panel for panel in panels if any(row["f"] == panel for row in rows)) or panels
    categories: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    if chart.kind in ("forest", "bar", "heatmap"):
        rows, categories = _categories(rows, "c", max(8, min(MAX_CATEGORIES, MAX_MARKS // len(series))), notes)
    if chart.kind == "heatmap":
        rows, columns = _categories(rows, "d", MAX_CATEGORIES, notes)
    drawn = [row for row in rows if _drawable(chart, row)]
    if len(drawn) < len(rows):
        notes.append(f"{count_of(len(rows) - len(drawn), 'row')} without a value not drawn; see the numbers.")
    thinned = _thin(chart, drawn, notes)
    for row in thinned:
        row["t"] = _in_words(chart, row)
    if not any("(n " in label for label in categories):
        _common_n(thinned, notes)
    known = all(name in order for name in series)
    ranks = tuple(order.index(name) for name in series) if known else tuple(range(len(series)))
    return ChartData(chart, tuple(thinned), series, panels, categories, columns, tuple(notes), ranks)


def _named(chart: Chart, row: Row) -> Row:
    """One row under the short names."""
    low, high = as_number(row.get("low")), as_number(row.get("high"))
    drawn: Row = {
        "f": str(row.get(chart.facet, "")) if chart.facet else "",
        "s": str(row.get(chart.series, "")) if chart.series else "",
        "n": as_number(row.get("n")),
    }
    if chart.kind in ("forest", "bar"):
        value = as_number(row.get(chart.x.field, row.get("value")))
        drawn |= {"c": str(row.get(chart.y.field, "")), "v": value, "lo": low, "hi": high}
        tested = row.get("significant")
        drawn |= {"g": tested, "w": None if tested is None else "yes" if tested else "no"}
    elif chart.kind == "heatmap":
        value = as_number(row.get("value"))
        drawn |= {"c": str(row.get(chart.y.field, "")), "d": str(row.get(chart.x.field, ""))}
        drawn |= {"v": value, "lo": low, "hi": high}
    elif chart.kind == "histogram":
        drawn |= {"x": as_number(row.get("start")), "x2": as_number(row.get("end"))}
        drawn["y"] = as_number(row.get("count"))
    else:
        drawn |= {"x": as_number(row.get(chart.x.field)), "y": as_number(row.get(chart.y.field))}
        drawn |= {"lo": low, "hi": high}
        if "x_low" in row:
            drawn |= {"xlo": as_number(row["x_low"]), "xhi": as_number(row.get("x_high"))}
        drawn["name"] = shorten(row.get("text"), 120)
        if row.get("marked"):
            drawn["m"] = 1
    return drawn


def _in_words(chart: Chart, row: Row) -> str:
    """A mark's numbers, for its tooltip."""
    if chart.kind == "histogram":
        return integer(row["y"])
    if "v" in row:
        return interval(row["v"], row["lo"], row["hi"], as_percent=chart.x.percent)
    return interval(row["y"], row["lo"], row["hi"], as_percent=chart.y.percent)


def _drawable(chart: Chart, row: Row) -> bool:
    needed = {"forest": "v", "bar": "v", "heatmap": "v"}.get(chart.kind)
    return row[needed] is not None if needed else row["x"] is not None and row["y"] is not None


def _keep(rows: list[Row], field: str, limit: int, what: str, notes: list[str]) -> tuple[str, ...]:
    """The first values of a field, in the order in which they come."""
    values = tuple(dict.fromkeys(row[field] for row in rows)) or ("",)
    if len(values) > limit:
        notes.append(f"Showing the first {limit} of {integer(len(values))} {what}.")
    return values[:limit]


def _categories(rows: list[Row], field: str, limit: int, notes: list[str]) -> tuple[list[Row], tuple[str, ...]]:
    """Rows of the first categories, renamed to labels that fit beside an axis and stay distinct."""
    names = _keep(rows, field, limit, "columns" if field == "d" else "rows", notes)
    counts = _counts(rows) if field == "c" else {}
    labels: dict[str, str] = {}
    for name in names:
        label = shorten(name, 30) if field == "d" else _wrapped(name, counts.get(name, ""))
        clashes = sum(label == taken.rstrip("\u200b") for taken in labels.values())
        labels[name] = label + "\u200b" * clashes
    kept = [row for row in rows if row[field] in labels]
    for row in kept:
        row["name" if field == "c" else "column"] = shorten(row[field], 200)
        row[field] = labels[row[field]]
    return kept, tuple(labels.values())


def _wrapped(name: str, count: str) -> str:
    """A name in at most three lines, and n behind or below it; the tooltip and the numbers have the whole name."""
    lines = textwrap.wrap(name, LABEL_WIDTH, break_long_words=True) or [" "]
    if len(lines) > LABEL_LINES:
        lines = [*lines[: LABEL_LINES - 1], lines[LABEL_LINES - 1][: LABEL_WIDTH - 1].rstrip() + "…"]
    if count and len(lines[-1]) + len(count) < LABEL_WIDTH:
        lines[-1] += f" {count}"
    elif count:
        lines.append(count)
    return "\n".join(lines)


def _counts(rows: list[Row]) -> dict[str, str]:
    """Each category's n, where categories differ in it and its rows do not."""
    found: dict[str, set[float]] = {}
    for row in rows:
        if row["n"] is not None:
            found.setdefault(row["c"], set()).add(row["n"])
    if len(set().union(*found.values())) < 2:
        return {}
    return {name: f"(n {integer(min(counts))})" for name, counts in found.items() if len(counts) == 1}


def _common_n(rows: list[Row], notes: list[str]) -> None:
    """State n once if it is the same everywhere."""
    counts = {row["n"] for row in rows if row.get("n") is not None}
    if len(counts) == 1:
        notes.append(f"n = {integer(counts.pop())} throughout.")
    elif counts:
        notes.append(f"n from {integer(min(counts))} to {integer(max(counts))}.")


def _thin(chart: Chart, rows: list[Row], notes: list[str]) -> list[Row]:
    """Fewer rows where there are more than can be seen."""
    if chart.kind == "line":
        return _per_series(rows, lambda part: _strided(part, MAX_LINE_POINTS), "points", notes)
    if chart.kind == "histogram":
        return _per_series(rows, _merged_bins, "bins", notes)
    if chart.kind == "scatter" and len(rows) > MAX_SCATTER_POINTS:
        gridded = _gridded(rows)
        drawn = f"{integer(len(rows))} points drawn as {integer(len(gridded))} marks"
        notes.append(f"{drawn}; a larger mark stands for more points.")
        return gridded[: 2 * MAX_SCATTER_POINTS]
    return rows


def _key(row: Row) -> tuple[str, str]:
    return row["f"], row["s"]


def _per_series(rows: list[Row], thin: Callable[[list[Row]], list[Row]], what: str, notes: list[str]) -> list[Row]:
    """Each line or histogram thinned by itself."""
    kept = [row for _, part in _groups(rows, _key) for row in thin(part)]
    if len(kept) < len(rows):
        notes.append(f"Drawn with {integer(len(kept))} of {integer(len(rows))} {what}.")
    return kept


def _groups(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Hashable, list[Row]]]:
    return [(name, list(part)) for name, part in groupby(sorted(rows, key=key), key=key)]


def _strided(rows: list[Row], limit: int) -> list[Row]:
    """Evenly spaced rows along x, the first and the last among them."""
    ordered = sorted(rows, key=lambda row: float(row["x"]))
    if len(ordered) <= limit:
        return ordered
    step = (len(ordered) - 1) / (limit - 1)
    return [ordered[round(step * i)] for i in range(limit)]


def _merged_bins(rows: list[Row]) -> list[Row]:
    """Neighbouring bins joined until there are few enough; counts are summed."""
    ordered = sorted(rows, key=lambda row: float(row["x"]))
    size = -(-len(ordered) // MAX_BINS)
    if size <= 1:
        return ordered
    parts = [ordered[i : i + size] for i in range(0, len(ordered), size)]
    return [part[0] | {"x2": part[-1]["x2"], "y": sum(row["y"] for row in part)} for part in parts]


def _gridded(rows: list[Row]) -> list[Row]:
    """Points of one series in one cell of a grid, as one mark at their mean."""
    x_low, x_step = _extent(row["x"] for row in rows)
    y_low, y_step = _extent(row["y"] for row in rows)

    def cell(row: Row) -> tuple[str, str, int, int]:
        return *_key(row), int((row["x"] - x_low) / x_step), int((row["y"] - y_low) / y_step)

    marks = []
    for _, part in _groups(rows, cell):
        count = len(part)
        mean = {axis: sum(row[axis] for row in part) / count for axis in ("x", "y")}
        name = part[0]["name"] if count == 1 else count_of(count, "point")
        marks.append(part[0] | mean | {"k": count, "name": name, "n": None, "lo": None, "hi": None})
    return marks


def _extent(values: Iterable[float]) -> tuple[float, float]:
    listed = list(values)
    low, high = min(listed), max(listed)
    return low, (high - low) / GRID or 1.0


def heat_bins(rows: Iterable[Row], reference: float | None, *, steps: int) -> tuple[list[float], bool]:
    """The edges of the colours of a heatmap, and whether they run both ways from a middle."""
    values = [float(row["v"]) for row in rows] or [0.0]
    low, high = min(values), max(values)
    diverging = reference is not None or low < 0 < high
    if diverging:
        middle = reference or 0.0
        reach = max(abs(low - middle), abs(high - middle)) or 1.0
        step = _round_up(2 * reach / steps)
        first = middle - step * steps / 2
    else:
        step = _round_up((high - low) / steps)
        first = math.floor(low / step) * step
        if first + step * steps < high:
            step = _round_up(1.01 * step)
            first = math.floor(low / step) * step
    return [first + step * i for i in range(steps + 1)], diverging


def _round_up(step: float) -> float:
    """The next number with few digits."""
    if step <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(step))
    return next(unit * factor for factor in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15) if unit * factor >= step)


def heat_bin(value: float, edges: list[float]) -> int:
    """Which colour a value gets."""
    step = edges[1] - edges[0]
    return max(0, min(len(edges) - 2, int((value - edges[0]) / step)))
